package workspace

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Bounds of a State.
const (
	// CacheMaxAge is how long content that nobody opened stays (client.cache_max_age).
	CacheMaxAge = 30 * 24 * time.Hour
	// MaxWindow is how many messages of one open thread are held; the oldest go first.
	MaxWindow = 5000
	// maxMarks is how many messages of a thread are remembered for counting.
	maxMarks = 256
	// maxReplay is how many events may arrive while one load is under way; then it is loaded again.
	maxReplay = 10000
	// maxTombstones is how many removed personal objects are remembered for their version.
	maxTombstones = 1000
)

// State is a copy of what one principal sees: its levels, spaces, channels, the threads of open channels, the
// messages of open threads, and its personal data. It is fed with a snapshot, with events in the order of
// the log, and with what was loaded by REST; the versions of ES-9.3 decide what is newer. It does no I/O:
// what has to be loaded it asks for as a Need. It is safe for concurrent use.
type State struct {
	device string

	mu      sync.RWMutex // guards what follows
	core    core
	tables  map[string]keeper
	dirty   map[recordKey]struct{}
	loads   map[*Load]struct{}
	editing map[string]*wire.Draft // by thread: somebody types; the newest draft of another device, or nil
	hear    func(Change)
	live    bool // events come as they happen

	meta     *table[core]
	access   *table[wire.Access] // by kind and id
	spaces   *table[wire.Space]
	channels *table[wire.Channel]
	opened   *table[opening] // channels whose threads are all held
	threads  *table[wire.Thread]
	windows  *table[*window] // open threads
	messages *table[wire.Message]
	counts   *table[*count]
	drafts   *table[draft]
	settings *table[wire.Setting]
	sidebars *table[wire.Sidebar]
	prefs    *table[wire.NotificationPref] // by kind and id
	quiet    *table[wire.QuietHours]       // one, under ""
	agents   *table[wire.Principal]
	needs    *table[Need]
}

// core is what there is one of.
type core struct {
	Me                wire.Principal  `json:"me"`
	PermissionVersion int64           `json:"permission_version"`
	Applied           int64           `json:"applied"`     // events up to it were applied
	SnapshotAt        int64           `json:"snapshot_at"` // structure and levels contain everything up to it
	CountedTo         int64           `json:"counted_to"`  // unread counts contain everything up to it
	Flags             map[string]bool `json:"flags,omitempty"`
}

// opening is a channel whose list of threads is held.
type opening struct {
	UsedAt time.Time `json:"used_at"`
}

// draft is a draft, or with Gone the version of one that was deleted.
type draft struct {
	wire.Draft

	Gone   bool `json:"gone,omitempty"`
	Loaded bool `json:"loaded,omitempty"` // the content is here, not only the version
}

// Change is told to who listens: something is not as it was.
type Change struct {
	Event *Event // what was applied; nil for something loaded
	Own   bool   // this device made it: its echo needs no reaction (ES-14)
}

// The kinds of records.
const (
	kindMeta    = "meta"
	kindAccess  = "access"
	kindSpace   = "space"
	kindChannel = "channel"
	kindOpened  = "opened"
	kindThread  = "thread"
	kindWindow  = "window"
	kindMessage = "message"
	kindCount   = "count"
	kindDraft   = "draft"
	kindSetting = "setting"
	kindSidebar = "sidebar"
	kindPref    = "pref"
	kindQuiet   = "quiet"
	kindAgent   = "agent"
	kindNeed    = "need"
)

// NewState answers an empty State of a device.
func NewState(device string) *State {
	s := &State{
		device: device, tables: map[string]keeper{}, dirty: map[recordKey]struct{}{}, loads: map[*Load]struct{}{},
		editing: map[string]*wire.Draft{}, hear: func(Change) {},
	}
	s.meta = newTable[core](s, kindMeta)
	s.access = newTable[wire.Access](s, kindAccess)
	s.spaces = newTable[wire.Space](s, kindSpace)
	s.channels = newTable[wire.Channel](s, kindChannel)
	s.opened = newTable[opening](s, kindOpened)
	s.threads = newTable[wire.Thread](s, kindThread)
	s.windows = newTable[*window](s, kindWindow)
	s.messages = newTable[wire.Message](s, kindMessage)
	s.counts = newTable[*count](s, kindCount)
	s.drafts = newTable[draft](s, kindDraft)
	s.settings = newTable[wire.Setting](s, kindSetting)
	s.sidebars = newTable[wire.Sidebar](s, kindSidebar)
	s.prefs = newTable[wire.NotificationPref](s, kindPref)
	s.quiet = newTable[wire.QuietHours](s, kindQuiet)
	s.agents = newTable[wire.Principal](s, kindAgent)
	s.needs = newTable[Need](s, kindNeed)
	s.messages.parent = func(m wire.Message) string { return m.ThreadID }
	s.windows.used = func(w *window) time.Time { return w.UsedAt }
	s.opened.used = func(o opening) time.Time { return o.UsedAt }
	return s
}

// Listen has hear told about every change, on the goroutine that makes it and under the State's lock: it
// must be quick and must not call the State.
func (s *State) Listen(hear func(Change)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hear = hear
}

// Restore fills an empty State with what Records answered before.
func (s *State) Restore(records []Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, stored := range records {
		kept, known := s.tables[stored.Kind]
		if !known {
			continue // of a later version
		}
		if err := kept.restore(stored); err != nil {
			return err
		}
	}
	s.core = s.meta.rows[""]
	for _, message := range s.messages.rows {
		if w, open := s.windows.get(message.ThreadID); open {
			w.index(message)
		}
	}
	return nil
}

// Records answers what changed since the last call, for Store.Commit. What that fails with goes back by Unsaved.
func (s *State) Records() ([]Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meta.put("", s.core)
	changed := make([]Record, 0, len(s.dirty))
	for key := range s.dirty {
		stored, err := s.tables[key.kind].record(key.id)
		if err != nil {
			return nil, err
		}
		changed = append(changed, stored)
	}
	clear(s.dirty)
	return changed, nil
}

// Unsaved takes back what Records answered, because it could not be stored: the next call answers it again, as it is then.
func (s *State) Unsaved(records []Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, record := range records {
		s.dirty[recordKey{record.Kind, record.ID}] = struct{}{}
	}
}

// Discard empties the copy, as after resync_required and a revocation (ES-7.3, ES-8.5). What was open is
// answered, so that it can be opened again.
func (s *State) Discard() (channels, threads []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.opened.rows {
		channels = append(channels, id)
	}
	for id := range s.windows.rows {
		threads = append(threads, id)
	}
	for _, kept := range s.tables {
		kept.clear()
	}
	s.core = core{Me: s.core.Me}
	for load := range s.loads {
		load.broken = true
	}
	slices.Sort(channels)
	slices.Sort(threads)
	return channels, threads
}

// Expire removes content that nobody opened since CacheMaxAge before now.
func (s *State) Expire(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := now.Add(-CacheMaxAge)
	for id, w := range s.windows.rows {
		if w.UsedAt.Before(old) {
			s.closeThread(id)
		}
	}
	for id, o := range s.opened.rows {
		if o.UsedAt.Before(old) {
			s.closeChannel(id)
		}
	}
}

func targetID(kind wire.TargetKind, id string) string { return string(kind) + "/" + id }

// Me answers the own principal.
func (s *State) Me() wire.Principal { return view(s, func() wire.Principal { return s.core.Me }) }

// Applied answers the number of the last event that was applied.
func (s *State) Applied() int64 { return view(s, func() int64 { return s.core.Applied }) }

// Level answers the own level on a channel, space or, without id, the instance.
func (s *State) Level(on wire.TargetKind, id string) wire.Level {
	return view(s, func() wire.Level { return s.access.rows[targetID(on, id)].Level })
}

// Spaces answers the visible spaces by id.
func (s *State) Spaces() []wire.Space { return view(s, s.spaces.sorted) }

// Channels answers the visible channels of a space, or with "" all, by id.
func (s *State) Channels(space string) []wire.Channel {
	return view(s, func() []wire.Channel {
		return slices.DeleteFunc(s.channels.sorted(), func(c wire.Channel) bool { return space != "" && c.SpaceID != space })
	})
}

// Channel answers a visible channel.
func (s *State) Channel(id string) (wire.Channel, bool) { return look(s, s.channels, id) }

// Threads answers the threads of an open channel by id.
func (s *State) Threads(channel string) []wire.Thread {
	return view(s, func() []wire.Thread {
		return slices.DeleteFunc(s.threads.sorted(), func(t wire.Thread) bool { return t.ChannelID != channel })
	})
}

// Thread answers a thread that is held.
func (s *State) Thread(id string) (wire.Thread, bool) { return look(s, s.threads, id) }

// Messages answers the messages of an open thread in order, tombstones included.
func (s *State) Messages(thread string) []wire.Message {
	return view(s, func() []wire.Message { return s.ofThread(thread) })
}

// Message answers a message that is held.
func (s *State) Message(id string) (wire.Message, bool) { return look(s, s.messages, id) }

// Unread answers how many messages of a thread are unread, and how many of them mention the principal.
func (s *State) Unread(thread string) (unread, mentions int64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if c, ok := s.counts.get(thread); ok {
		return c.Unread, c.Mentions
	}
	return 0, 0
}

// Draft answers the draft of a thread, as the server has it.
func (s *State) Draft(thread string) (wire.Draft, bool) {
	kept, ok := look(s, s.drafts, thread)
	return kept.Draft, ok && !kept.Gone && kept.Loaded
}

// Setting answers a setting.
func (s *State) Setting(key string) (wire.Setting, bool) {
	kept, ok := look(s, s.settings, key)
	return kept, ok && !kept.Deleted
}

// Sidebar answers how a space is arranged.
func (s *State) Sidebar(space string) (wire.Sidebar, bool) { return look(s, s.sidebars, space) }

// NotificationPref answers what to be told about a space, channel or thread.
func (s *State) NotificationPref(kind, id string) (wire.NotificationPref, bool) {
	return look(s, s.prefs, kind+"/"+id)
}

// QuietHours answers when not to be told.
func (s *State) QuietHours() (wire.QuietHours, bool) { return look(s, s.quiet, "") }

func view[T any](s *State, of func() T) T {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return of()
}

func look[T any](s *State, in *table[T], id string) (T, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return in.get(id)
}

// Need is something a State wants to have loaded by REST.
type Need struct {
	Kind NeedKind `json:"kind"`
	ID   string   `json:"id,omitempty"`
}

// NeedKind is what is to be loaded.
type NeedKind string

// The kinds of needs. ID is of the thread, message or channel.
const (
	NeedSnapshot NeedKind = "snapshot" // structure, levels, counts
	NeedPersonal NeedKind = "personal" // drafts, settings, notification prefs, quiet hours
	NeedWindow   NeedKind = "window"   // an open thread from its newest messages
	NeedTail     NeedKind = "tail"     // the messages of an open thread above those that are held
	NeedMessage  NeedKind = "message"  // one message that an event could not carry
	NeedThread   NeedKind = "thread"   // one thread that an event could not carry
	NeedChannel  NeedKind = "channel"  // the threads of an open channel
)

// String answers kind and id.
func (n Need) String() string { return strings.TrimSuffix(fmt.Sprintf("%s %s", n.Kind, n.ID), " ") }

func (s *State) need(kind NeedKind, id string) {
	n := Need{kind, id}
	if !s.needs.has(n.String()) {
		s.needs.put(n.String(), n)
	}
}

// Needs answers what is to be loaded, structure first.
func (s *State) Needs() []Need {
	return view(s, func() []Need {
		rank := []NeedKind{NeedSnapshot, NeedPersonal, NeedChannel, NeedThread, NeedWindow, NeedTail, NeedMessage}
		return orderBy(s.needs.sorted(), func(n Need) string {
			return fmt.Sprintf("%02d%s", slices.Index(rank, n.Kind), n.ID)
		})
	})
}
