package workspace_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cairnsync/cairn/client/workspace"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// world is a small workspace as one person sees it: what a server would hold, with a log of events. It is the
// model that a client's copy is compared with.
type world struct {
	mu      sync.Mutex // guards what follows
	epoch   string
	head    int64
	oldest  int64 // events below it are gone
	log     []logged
	me      wire.Principal
	other   wire.Principal
	device  string
	clock   time.Time
	perm    int64
	grants  map[wire.Target]wire.Level // of me
	spaces  map[string]*wire.Space
	chans   map[string]*wire.Channel
	threads map[string]*wire.Thread
	msgs    map[string][]*wire.Message // by thread, in order
	byID    map[string]*wire.Message
	byKey   map[string]*wire.Message // by client_msg_id, of me
	reacted map[string]map[string]map[string]bool
	reads   map[string]*wire.ReadState
	drafts  map[string]*wire.Draft
	dropped map[string]int64 // versions of deleted drafts
	sets    map[string]*wire.Setting
	sides   map[string]*wire.Sidebar
	prefs   map[string]*wire.NotificationPref
	quiet   *wire.QuietHours
	news    chan struct{} // closed, and replaced, at every event
	heard   func(wire.Envelope)
}

// logged is an event with whether me saw it when it happened.
type logged struct {
	wire.Envelope

	seen bool
}

func newWorld() *world {
	w := &world{
		epoch: workspace.NewID(), oldest: 1, device: workspace.NewID(), clock: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), perm: 1,
		me:     wire.Principal{ID: workspace.NewID(), Kind: wire.KindUser, Handle: "me", DisplayName: "Me", Status: wire.StatusActive, Version: 1},
		other:  wire.Principal{ID: workspace.NewID(), Kind: wire.KindUser, Handle: "other", DisplayName: "Other", Status: wire.StatusActive, Version: 1},
		grants: map[wire.Target]wire.Level{}, spaces: map[string]*wire.Space{}, chans: map[string]*wire.Channel{},
		threads: map[string]*wire.Thread{}, msgs: map[string][]*wire.Message{}, byID: map[string]*wire.Message{}, byKey: map[string]*wire.Message{},
		reacted: map[string]map[string]map[string]bool{}, reads: map[string]*wire.ReadState{}, drafts: map[string]*wire.Draft{},
		dropped: map[string]int64{}, sets: map[string]*wire.Setting{}, sides: map[string]*wire.Sidebar{},
		prefs: map[string]*wire.NotificationPref{}, news: make(chan struct{}),
	}
	return w
}

func (w *world) now() time.Time {
	w.clock = w.clock.Add(time.Second)
	return w.clock
}

func raw(v any) json.RawMessage {
	encoded, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return encoded
}

// emit writes an event.
func (w *world) emit(kind string, scope wire.Scope, resource wire.Resource, payload any, change ...func(*wire.Envelope)) {
	w.head++
	env := wire.Envelope{
		ID: workspace.NewID(), Seq: w.head, Type: kind, SchemaVersion: 1, OccurredAt: w.clock, Scope: scope, Resource: resource,
		Payload: raw(payload), PermissionVersion: w.perm,
	}
	for _, c := range change {
		c(&env)
	}
	event := logged{Envelope: env, seen: w.sees(env)}
	w.log = append(w.log, event)
	if event.seen && w.heard != nil {
		w.heard(env)
	}
	close(w.news)
	w.news = make(chan struct{})
}

func personal(e *wire.Envelope) { e.Audience = wire.AudienceSelf }

func truncated(e *wire.Envelope) { e.Truncated = true }

func higher(a, b wire.Level) wire.Level {
	if b.Rank() > a.Rank() {
		return b
	}
	return a
}

// level is me's on a channel.
func (w *world) level(channel string) wire.Level {
	c := w.chans[channel]
	if c == nil {
		return ""
	}
	space := w.spaces[c.SpaceID]
	level := higher(higher(w.grants[wire.Target{Kind: wire.TargetInstance}], w.grants[wire.Target{Kind: wire.TargetSpace, ID: c.SpaceID}]),
		w.grants[wire.Target{Kind: wire.TargetChannel, ID: channel}])
	switch {
	case level.Rank() <= wire.LevelRead.Rank():
		return level
	case c.ArchivedAt != nil, space.ArchivedAt != nil, c.ReadOnly && level.Rank() < wire.LevelManage.Rank():
		return wire.LevelRead
	default:
		return level
	}
}

func (w *world) spaceLevel(id string) wire.Level {
	level := higher(w.grants[wire.Target{Kind: wire.TargetInstance}], w.grants[wire.Target{Kind: wire.TargetSpace, ID: id}])
	if level.Rank() > wire.LevelRead.Rank() && w.spaces[id].ArchivedAt != nil {
		return wire.LevelRead
	}
	return level
}

func (w *world) seesSpace(id string) bool {
	if w.spaces[id] == nil {
		return false
	}
	if w.spaceLevel(id) != "" {
		return true
	}
	for channel, c := range w.chans {
		if c.SpaceID == id && w.level(channel) != "" {
			return true
		}
	}
	return false
}

// access is everything me sees.
func (w *world) access() []wire.Access {
	all := []wire.Access{}
	if level := w.grants[wire.Target{Kind: wire.TargetInstance}]; level != "" {
		all = append(all, wire.Access{Kind: wire.TargetInstance, Level: level})
	}
	for _, id := range slices.Sorted(maps.Keys(w.spaces)) {
		if w.seesSpace(id) {
			all = append(all, wire.Access{Kind: wire.TargetSpace, ID: id, Level: w.spaceLevel(id)})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.chans)) {
		if level := w.level(id); level != "" {
			all = append(all, wire.Access{Kind: wire.TargetChannel, ID: id, Level: level})
		}
	}
	return all
}

// sees says whether an event goes to me by the permissions of now.
func (w *world) sees(e wire.Envelope) bool {
	if e.Audience == wire.AudienceSelf {
		return true
	}
	switch e.Type {
	case workspace.TypePrincipalUpdated:
		return true
	case workspace.TypeThreadMovedOut:
		return w.level(e.Scope.ChannelID) != "" && w.level(w.threads[e.Scope.ThreadID].ChannelID) == ""
	}
	if thread := w.threads[e.Scope.ThreadID]; thread != nil {
		return w.level(thread.ChannelID) != ""
	}
	if e.Scope.ChannelID != "" {
		return w.level(e.Scope.ChannelID) != ""
	}
	return w.seesSpace(e.Scope.SpaceID)
}

// permit changes permissions and tells me the difference.
func (w *world) permit(change func()) {
	before := w.access()
	change()
	w.perm++
	w.tell(before)
}

func (w *world) tell(before []wire.Access) {
	said := wire.AccessChanged{PermissionVersion: w.perm}
	old := map[wire.Target]wire.Access{}
	for _, a := range before {
		old[wire.Target{Kind: a.Kind, ID: a.ID}] = a
	}
	for _, a := range w.access() {
		key := wire.Target{Kind: a.Kind, ID: a.ID}
		was, had := old[key]
		delete(old, key)
		switch {
		case !had:
			said.Added = append(said.Added, a)
		case was.Level != a.Level:
			a.PreviousLevel = was.Level
			said.Changed = append(said.Changed, a)
		}
	}
	for _, a := range before {
		if _, gone := old[wire.Target{Kind: a.Kind, ID: a.ID}]; gone {
			said.Removed = append(said.Removed, wire.Access{Kind: a.Kind, ID: a.ID})
		}
	}
	if len(said.Added)+len(said.Changed)+len(said.Removed) > 0 {
		w.emit(workspace.TypeAccessChanged, wire.Scope{}, wire.Resource{Kind: "principal", ID: w.me.ID}, said, personal)
	}
}

func (w *world) scope(thread string) wire.Scope {
	t := w.threads[thread]
	return wire.Scope{SpaceID: w.chans[t.ChannelID].SpaceID, ChannelID: t.ChannelID, ThreadID: thread}
}

// shown is a message as REST shows it to me.
func (w *world) shown(m *wire.Message) wire.Message {
	shown := *m
	shown.ChannelID = w.threads[m.ThreadID].ChannelID
	shown.Reactions = []wire.Reaction{}
	for _, emoji := range slices.Sorted(maps.Keys(w.reacted[m.ID])) {
		if by := w.reacted[m.ID][emoji]; len(by) > 0 && m.DeletedAt == nil {
			shown.Reactions = append(shown.Reactions, wire.Reaction{Emoji: emoji, Count: int64(len(by)), Me: by[w.me.ID]})
		}
	}
	return shown
}

// messageEvent writes an event about a message.
func (w *world) messageEvent(kind string, m *wire.Message, change ...func(*wire.Envelope)) {
	said := w.shown(m)
	for i := range said.Reactions {
		said.Reactions[i].Me = false
	}
	t := w.threads[m.ThreadID]
	var probe wire.Envelope
	for _, c := range change {
		c(&probe)
	}
	if probe.Truncated {
		said.ContentMD = ""
	}
	w.emit(kind, w.scope(m.ThreadID), wire.Resource{Kind: "message", ID: m.ID, Version: m.Version}, wire.MessageEvent{
		Message: said, Thread: wire.ThreadSummary{
			ID: t.ID, Version: t.Version, State: t.State, LastMessageSeq: t.LastMessageSeq, MessageCount: t.MessageCount, LastActivityAt: t.LastActivityAt,
		},
	}, append(change, func(e *wire.Envelope) { e.ClientMsgID = m.ClientMsgID })...)
}

func (w *world) threadEvent(kind string, t *wire.Thread) {
	w.emit(kind, w.scope(t.ID), wire.Resource{Kind: "thread", ID: t.ID, Version: t.Version}, wire.ThreadEvent{Thread: *t})
}

// post writes a message.
func (w *world) post(thread string, by wire.Principal, content string, change ...func(*wire.Envelope)) *wire.Message {
	return w.postAs(thread, by, content, workspace.NewID(), change...)
}

func (w *world) postAs(thread string, by wire.Principal, content, key string, change ...func(*wire.Envelope)) *wire.Message {
	m := w.add(thread, by, content, wire.OriginHuman)
	m.ClientMsgID = key
	if by.ID == w.me.ID {
		w.byKey[key] = m
	}
	t := w.threads[thread]
	reopened := t.State == wire.ThreadDone
	t.Version, t.State, t.LastActivityAt = t.Version+1, wire.ThreadOpen, m.CreatedAt
	if reopened {
		w.threadEvent(workspace.TypeThreadReopened, t)
		t.Version++
	}
	w.messageEvent(workspace.TypeMessageCreated, m, change...)
	return m
}

func (w *world) add(thread string, by wire.Principal, content, origin string) *wire.Message {
	t := w.threads[thread]
	t.LastMessageSeq++
	t.MessageCount++
	m := &wire.Message{
		ID: workspace.NewID(), ThreadID: thread, ThreadSeq: t.LastMessageSeq, Author: wire.Author{ID: by.ID, Kind: by.Kind}, Origin: origin,
		Kind: "text", ContentMD: content, Attachments: []wire.File{}, MentionIDs: w.mentions(content), Components: []json.RawMessage{},
		CreatedAt: w.now(), Version: 1,
	}
	w.msgs[thread] = append(w.msgs[thread], m)
	w.byID[m.ID] = m
	return m
}

func (w *world) mentions(content string) []string {
	if len(content) > 0 && content[0] == '@' {
		return []string{w.me.ID}
	}
	return []string{}
}

func (w *world) edit(m *wire.Message, content string, change ...func(*wire.Envelope)) {
	at := w.now()
	m.ContentMD, m.MentionIDs, m.EditedAt, m.Version = content, w.mentions(content), &at, m.Version+1
	w.messageEvent(workspace.TypeMessageUpdated, m, change...)
}

// remove deletes a message and redacts what was written about it (ES-2.2).
func (w *world) remove(m *wire.Message) {
	at := w.now()
	t := w.threads[m.ThreadID]
	t.MessageCount--
	t.Version++
	delete(w.reacted, m.ID)
	m.ContentMD, m.MentionIDs, m.Attachments, m.Pinned = "", []string{}, []wire.File{}, false
	m.DeletedAt, m.Version = &at, m.Version+1
	for i := range w.log {
		w.redact(&w.log[i].Envelope, m)
	}
	w.messageEvent(workspace.TypeMessageDeleted, m)
}

func (w *world) redact(e *wire.Envelope, m *wire.Message) {
	if e.Resource.Kind != "message" || e.Resource.ID != m.ID {
		return
	}
	switch e.Type {
	case workspace.TypeReactionAdded, workspace.TypeReactionRemoved:
		var said wire.ReactionEvent
		_ = json.Unmarshal(e.Payload, &said)
		said.Emoji, said.Count = "", 0
		e.Payload, e.Redacted = raw(said), true
	case workspace.TypePinAdded, workspace.TypePinRemoved:
	default:
		var said wire.MessageEvent
		_ = json.Unmarshal(e.Payload, &said)
		said.Message = w.shown(m)
		e.Payload, e.Redacted, e.Truncated = raw(said), true, false
	}
}

func (w *world) react(m *wire.Message, by, emoji string, on bool) {
	if w.reacted[m.ID] == nil {
		w.reacted[m.ID] = map[string]map[string]bool{}
	}
	if w.reacted[m.ID][emoji] == nil {
		w.reacted[m.ID][emoji] = map[string]bool{}
	}
	if w.reacted[m.ID][emoji][by] == on {
		return
	}
	kind := workspace.TypeReactionAdded
	if on {
		w.reacted[m.ID][emoji][by] = true
	} else {
		delete(w.reacted[m.ID][emoji], by)
		kind = workspace.TypeReactionRemoved
	}
	w.emit(kind, w.scope(m.ThreadID), wire.Resource{Kind: "message", ID: m.ID}, wire.ReactionEvent{
		MessageID: m.ID, ThreadID: m.ThreadID, Emoji: emoji, PrincipalID: by, Count: int64(len(w.reacted[m.ID][emoji])),
	})
}

func (w *world) pin(m *wire.Message, on bool) {
	if m.Pinned == on {
		return
	}
	m.Pinned = on
	kind := workspace.TypePinAdded
	if !on {
		kind = workspace.TypePinRemoved
	}
	w.emit(kind, w.scope(m.ThreadID), wire.Resource{Kind: "message", ID: m.ID},
		wire.PinEvent{MessageID: m.ID, ThreadID: m.ThreadID, Pinned: on})
}

// space, channel and thread make one.
func (w *world) space(name string) *wire.Space {
	s := &wire.Space{ID: workspace.NewID(), Name: name, CreatedAt: w.now(), Version: 1}
	w.spaces[s.ID] = s
	w.emit(workspace.TypeSpaceCreated, wire.Scope{SpaceID: s.ID}, wire.Resource{Kind: "space", ID: s.ID, Version: 1}, wire.SpaceEvent{Space: *s})
	return s
}

func (w *world) channel(space, name string, kind wire.ChannelKind) *wire.Channel {
	c := &wire.Channel{ID: workspace.NewID(), SpaceID: space, Kind: kind, Name: name, CreatedAt: w.now(), Version: 1, SettingsVersion: 1}
	w.chans[c.ID] = c
	if kind == wire.ChannelText {
		c.MainThreadID = workspace.NewID()
		w.threads[c.MainThreadID] = &wire.Thread{
			ID: c.MainThreadID, ChannelID: c.ID, Kind: wire.ThreadMain, State: wire.ThreadOpen, LastActivityAt: w.now(), CreatedAt: w.clock, Version: 1,
		}
	}
	w.channelEvent(workspace.TypeChannelCreated, c)
	if c.MainThreadID != "" {
		w.threadEvent(workspace.TypeThreadCreated, w.threads[c.MainThreadID])
	}
	return c
}

func (w *world) channelEvent(kind string, c *wire.Channel) {
	w.emit(kind, wire.Scope{SpaceID: c.SpaceID, ChannelID: c.ID}, wire.Resource{Kind: "channel", ID: c.ID, Version: c.Version}, wire.ChannelEvent{Channel: *c})
}

func (w *world) thread(channel, title string, by wire.Principal) *wire.Thread {
	t := &wire.Thread{
		ID: workspace.NewID(), ChannelID: channel, Kind: wire.ThreadThread, Title: title, State: wire.ThreadOpen, LastActivityAt: w.now(),
		CreatedAt: w.clock, Version: 1,
	}
	w.threads[t.ID] = t
	w.threadEvent(workspace.TypeThreadCreated, t)
	w.post(t.ID, by, "opening of "+title)
	return t
}

// move moves a thread, which other tells those who see the target, and those who see only the source.
func (w *world) move(t *wire.Thread, channel string) {
	from := w.scope(t.ID)
	t.ChannelID, t.Version = channel, t.Version+1
	w.threadEvent(workspace.TypeThreadMoved, t)
	w.emit(workspace.TypeThreadMovedOut, from, wire.Resource{Kind: "channel", ID: from.ChannelID},
		wire.ThreadMovedOut{ThreadID: t.ID, ChannelID: from.ChannelID})
}

// imported appends messages as a batch of an import does (ES-15.8).
func (w *world) imported(t *wire.Thread, n int) {
	for i := range n {
		w.add(t.ID, w.other, fmt.Sprintf("@imported %d", i), wire.OriginImport)
	}
	t.UnreadFloorSeq, t.Version = t.LastMessageSeq, t.Version+1
	w.threadEvent(workspace.TypeThreadUpdated, t)
	w.emit(workspace.TypeImportProgress, w.scope(t.ID), wire.Resource{Kind: "import", ID: t.ID, Version: int64(n)},
		wire.ImportProgress{ImportID: t.ID, State: "running", Threads: 1, Messages: int64(n)})
}

// unread counts for me.
func (w *world) unread(thread string) wire.ReadState {
	state := wire.ReadState{ThreadID: thread}
	if kept := w.reads[thread]; kept != nil {
		state = *kept
	}
	state.UnreadCount, state.MentionCount = 0, 0
	above := max(state.LastReadSeq, w.threads[thread].UnreadFloorSeq)
	for _, m := range w.msgs[thread] {
		if m.ThreadSeq > above && m.DeletedAt == nil && m.Author.ID != w.me.ID {
			state.UnreadCount++
			if slices.Contains(m.MentionIDs, w.me.ID) {
				state.MentionCount++
			}
		}
	}
	return state
}

func (w *world) read(thread string, seq int64, device string) wire.ReadState {
	state := w.reads[thread]
	if state == nil {
		state = &wire.ReadState{ThreadID: thread}
		w.reads[thread] = state
	}
	state.LastReadSeq, state.Version, state.UpdatedByDeviceID = seq, state.Version+1, device
	said := w.unread(thread)
	w.emit(workspace.TypeReadStateUpdated, w.scope(thread), wire.Resource{Kind: "thread", ID: thread}, wire.ReadStateEvent{ReadState: said}, personal)
	return said
}

func (w *world) putDraft(thread, content, device string, change ...func(*wire.Envelope)) wire.Draft {
	version := w.dropped[thread] + 1
	if kept := w.drafts[thread]; kept != nil {
		version = kept.Version + 1
	}
	if content == "" {
		delete(w.drafts, thread)
		w.dropped[thread] = version
		w.emit(workspace.TypeDraftDeleted, w.scope(thread), wire.Resource{Kind: "draft", ID: thread, Version: version},
			wire.DraftDeleted{ThreadID: thread, Version: version, UpdatedByDeviceID: device}, personal)
		return wire.Draft{ThreadID: thread, Version: version, UpdatedByDeviceID: device}
	}
	d := &wire.Draft{ThreadID: thread, ContentMD: content, Version: version, UpdatedAt: w.now(), UpdatedByDeviceID: device}
	w.drafts[thread] = d
	w.emit(workspace.TypeDraftUpdated, w.scope(thread), wire.Resource{Kind: "draft", ID: thread, Version: version},
		wire.DraftEvent{Draft: *d}, append(change, personal)...)
	return *d
}

func (w *world) readable(thread string) bool {
	t := w.threads[thread]
	return t != nil && w.level(t.ChannelID) != ""
}

// snapshot is the document of GET sync/snapshot.
func (w *world) snapshot() wire.Snapshot {
	s := wire.Snapshot{
		HeadSeq: w.head, SyncEpoch: w.epoch, PermissionVersion: w.perm, Principal: w.me, Access: w.access(),
		SettingsVersions: map[string]int64{}, DraftVersions: map[string]int64{}, FeatureFlags: map[string]bool{},
	}
	for id, space := range w.spaces {
		if w.seesSpace(id) {
			s.Spaces = append(s.Spaces, *space)
			if side := w.sides[id]; side != nil {
				s.Sidebar = append(s.Sidebar, *side)
			}
		}
	}
	for id, channel := range w.chans {
		if w.level(id) != "" {
			s.Channels = append(s.Channels, *channel)
		}
	}
	for id := range w.threads {
		if state := w.unread(id); w.readable(id) && state.UnreadCount > 0 {
			s.ReadStates = append(s.ReadStates, state)
		}
	}
	for key, setting := range w.sets {
		if !setting.Deleted {
			s.SettingsVersions[key] = setting.Version
		}
	}
	for thread, draft := range w.drafts {
		if w.readable(thread) {
			s.DraftVersions[thread] = draft.Version
		}
	}
	return s
}

func (w *world) prefVisible(p *wire.NotificationPref) bool {
	switch p.Kind {
	case "space":
		return w.seesSpace(p.ID)
	case "channel":
		return w.level(p.ID) != ""
	default:
		return w.readable(p.ID)
	}
}

// part answers messages of a thread as GET threads/{id}/messages does.
func (w *world) part(thread string, before, after int64, limit int) wire.Messages {
	all := w.msgs[thread]
	var picked []*wire.Message
	var more bool
	switch {
	case after >= 0:
		from, _ := slices.BinarySearchFunc(all, after+1, func(m *wire.Message, seq int64) int { return cmp.Compare(m.ThreadSeq, seq) })
		picked = all[from:]
		if more = len(picked) > limit; more {
			picked = picked[:limit]
		}
	default:
		to := len(all)
		if before > 0 {
			to, _ = slices.BinarySearchFunc(all, before, func(m *wire.Message, seq int64) int { return cmp.Compare(m.ThreadSeq, seq) })
		}
		picked = all[:to]
		if more = len(picked) > limit; more {
			picked = picked[len(picked)-limit:]
		}
	}
	answer := wire.Messages{Messages: []wire.Message{}, HasMore: more}
	for _, m := range picked {
		answer.Messages = append(answer.Messages, w.shown(m))
	}
	return answer
}
