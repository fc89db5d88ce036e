package workspace

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Export is a copy of what a principal sees, in one order, so that two of them can be compared field by
// field. What a client cannot know from its own events is left out: the permission version, which also
// changes for others, and the read states of threads without unread messages.
type Export struct {
	Principal    wire.Principal          `json:"principal"`
	Access       []wire.Access           `json:"access"`
	Spaces       []wire.Space            `json:"spaces"`
	Channels     []wire.Channel          `json:"channels"`
	Threads      []wire.Thread           `json:"threads"`  // of open channels, and open ones
	Messages     []wire.Message          `json:"messages"` // of open threads, by thread and thread_seq
	Pins         []Pin                   `json:"pins"`     // of open threads
	Unread       []Unread                `json:"unread"`   // threads with unread messages
	Drafts       []wire.Draft            `json:"drafts"`
	Settings     []wire.Setting          `json:"settings"`
	Sidebars     []wire.Sidebar          `json:"sidebars"`
	Prefs        []wire.NotificationPref `json:"notification_prefs"`
	QuietHours   []wire.QuietHours       `json:"quiet_hours"` // one at most
	OpenChannels []string                `json:"open_channels"`
	OpenThreads  []OpenThread            `json:"open_threads"`
}

// Pin is a pinned message.
type Pin struct {
	ThreadID  string `json:"thread_id"`
	MessageID string `json:"message_id"`
}

// Unread is how much of a thread is unread.
type Unread struct {
	ThreadID string `json:"thread_id"`
	Unread   int64  `json:"unread"`
	Mentions int64  `json:"mentions"`
}

// OpenThread is a thread whose messages are held from a place on.
type OpenThread struct {
	ID   string `json:"id"`
	From int64  `json:"from"`
}

// Export answers what is held.
func (s *State) Export() Export {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := Export{
		Principal: s.core.Me, Access: s.access.sorted(), Spaces: s.spaces.sorted(), Channels: s.channels.sorted(),
		Threads: s.threads.sorted(), Sidebars: s.sidebars.sorted(), Prefs: s.prefs.sorted(), QuietHours: s.quiet.sorted(),
		OpenChannels: slices.Sorted(maps.Keys(s.opened.rows)),
	}
	for _, w := range s.windows.sorted() {
		e.OpenThreads = append(e.OpenThreads, OpenThread{w.ThreadID, w.From})
		e.Messages = append(e.Messages, s.ofThread(w.ThreadID)...)
		for message := range w.Pins {
			e.Pins = append(e.Pins, Pin{w.ThreadID, message})
		}
	}
	for thread, c := range s.counts.rows {
		if c.Unread > 0 || c.Mentions > 0 {
			e.Unread = append(e.Unread, Unread{thread, c.Unread, c.Mentions})
		}
	}
	for _, held := range s.drafts.sorted() {
		if !held.Gone {
			e.Drafts = append(e.Drafts, held.Draft)
		}
	}
	for _, held := range s.settings.sorted() {
		if !held.Deleted {
			e.Settings = append(e.Settings, held)
		}
	}
	return e.inOrder()
}

// inOrder sorts what has no order of its own, and makes equal what is spelled in two ways.
func (e Export) inOrder() Export {
	orderBy(e.Access, func(a wire.Access) string { return targetID(a.Kind, a.ID) })
	orderBy(e.Spaces, func(v wire.Space) string { return v.ID })
	orderBy(e.Channels, func(v wire.Channel) string { return v.ID })
	orderBy(e.Threads, func(v wire.Thread) string { return v.ID })
	orderBy(e.Pins, func(p Pin) string { return p.ThreadID + p.MessageID })
	orderBy(e.Unread, func(u Unread) string { return u.ThreadID })
	orderBy(e.Drafts, func(v wire.Draft) string { return v.ThreadID })
	orderBy(e.Settings, func(v wire.Setting) string { return v.Key })
	orderBy(e.Sidebars, func(v wire.Sidebar) string { return v.SpaceID })
	orderBy(e.Prefs, func(v wire.NotificationPref) string { return v.Kind + v.ID })
	slices.SortFunc(e.Messages, func(a, b wire.Message) int {
		return cmp.Or(cmp.Compare(a.ThreadID, b.ThreadID), cmp.Compare(a.ThreadSeq, b.ThreadSeq))
	})
	for i := range e.Messages {
		m := &e.Messages[i]
		m.Reactions = orderBy(slices.Clone(m.Reactions), func(r wire.Reaction) string { return r.Emoji })
	}
	for i := range e.Drafts {
		e.Drafts[i].OverwroteNewer = false
	}
	return e
}

// Fresh asks the server for the same as a local copy holds: a snapshot, the threads of its open channels
// and the messages of its open threads. What is no longer visible is left out.
func (c *Client) Fresh(ctx context.Context, like Export) (Export, error) {
	snapshot, err := c.Snapshot(ctx)
	if err != nil {
		return Export{}, err
	}
	e := Export{
		Principal: snapshot.Principal, Access: snapshot.Access, Spaces: snapshot.Spaces, Channels: snapshot.Channels,
		Sidebars: snapshot.Sidebar, OpenChannels: like.OpenChannels, OpenThreads: like.OpenThreads,
	}
	for _, said := range snapshot.ReadStates {
		if said.UnreadCount > 0 || said.MentionCount > 0 {
			e.Unread = append(e.Unread, Unread{said.ThreadID, said.UnreadCount, said.MentionCount})
		}
	}
	loaded, err := c.loadPersonal(ctx)
	if err != nil {
		return e, err
	}
	e.Drafts, e.Settings, e.Prefs = loaded.Drafts, loaded.Settings, loaded.Prefs
	if loaded.Quiet != nil {
		e.QuietHours = []wire.QuietHours{*loaded.Quiet}
	}
	if err := addThreads(ctx, c, &e); err != nil {
		return e, err
	}
	return e.inOrder(), nil
}

// addThreads loads what is open.
func addThreads(ctx context.Context, c *Client, e *Export) error {
	listed := map[string]bool{}
	for _, channel := range e.OpenChannels {
		threads, err := c.allThreads(ctx, channel)
		if notThere(err) {
			continue
		}
		if err != nil {
			return err
		}
		for _, thread := range threads {
			listed[thread.ID] = true
		}
		e.Threads = append(e.Threads, threads...)
	}
	for _, open := range e.OpenThreads {
		loaded, err := c.loadWindow(ctx, open.ID, open.From)
		if notThere(err) {
			continue
		}
		if err != nil {
			return err
		}
		if !listed[open.ID] {
			e.Threads = append(e.Threads, loaded.thread)
		}
		e.Messages = append(e.Messages, loaded.messages...)
		for _, message := range loaded.pinned {
			e.Pins = append(e.Pins, Pin{open.ID, message.ID})
		}
	}
	return nil
}

// Difference is one place in which two exports differ.
type Difference struct {
	Where string // such as "messages/0197…/content_md"
	Local string // JSON, "" for nothing
	Fresh string
}

// String answers one line.
func (d Difference) String() string {
	return fmt.Sprintf("%s: local %s, fresh %s", d.Where, cmp.Or(d.Local, "nothing"), cmp.Or(d.Fresh, "nothing"))
}

// Compare answers where two exports differ, at most 1 000 places.
func Compare(local, fresh Export) []Difference {
	var found []Difference
	walk(&found, "", asTree(local.inOrder()), asTree(fresh.inOrder()))
	return found
}

// asTree makes JSON's maps, lists and values of v; lists of objects with an identity become maps by it.
func asTree(v any) any {
	encoded, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	var tree any
	if err := json.Unmarshal(encoded, &tree); err != nil {
		return err.Error()
	}
	return keyed(tree)
}

var identities = []string{"message_id", "id", "thread_id", "key", "space_id", "emoji", "kind"}

func keyed(tree any) any {
	switch node := tree.(type) {
	case map[string]any:
		for name, value := range node {
			node[name] = keyed(value)
		}
	case []any:
		if len(node) == 0 {
			return nil
		}
		byID := map[string]any{}
		for i, value := range node {
			byID[identity(i, value)] = keyed(value)
		}
		return byID
	case string:
		if at, err := time.Parse(time.RFC3339Nano, node); err == nil {
			return at.UTC().Format(time.RFC3339Nano)
		}
	}
	return tree
}

func identity(i int, value any) string {
	if object, ok := value.(map[string]any); ok {
		for _, name := range identities {
			if id, ok := object[name].(string); ok {
				if kind, ok := object["kind"].(string); ok && name == "id" {
					return kind + " " + id
				}
				return id
			}
		}
	}
	return fmt.Sprint(i)
}

const maxDifferences = 1000

func walk(found *[]Difference, where string, local, fresh any) {
	if len(*found) >= maxDifferences {
		return
	}
	l, isMap := local.(map[string]any)
	f, alsoMap := fresh.(map[string]any)
	if !isMap || !alsoMap {
		if a, b := text(local), text(fresh); a != b {
			*found = append(*found, Difference{where, a, b})
		}
		return
	}
	names := slices.Collect(maps.Keys(l))
	for name := range f {
		if _, both := l[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		walk(found, where+"/"+name, l[name], f[name])
	}
}

func text(tree any) string {
	if tree == nil {
		return ""
	}
	encoded, err := json.Marshal(tree)
	if err != nil {
		return err.Error()
	}
	return string(encoded)
}
