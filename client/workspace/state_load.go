package workspace

import (
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Load is a Need that is being loaded. Events go on meanwhile: those that came since Begin are applied
// again on top of what was loaded. A load is at least as new as what was applied when it began, versions
// decide between its objects and newer events, and events without a version carry absolute values
// (ES-9.3), so that both orders end in the same state.
type Load struct {
	Need Need

	state  *State
	began  int64 // what was applied then
	events []Event
	broken bool
}

// Begin begins to load a Need. One of the Load's other methods, or Abandon, ends it.
func (s *State) Begin(n Need) *Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	load := &Load{Need: n, state: s, began: s.core.Applied}
	s.loads[load] = struct{}{}
	return load
}

// note keeps an event that came meanwhile; too many make the load worthless.
func (l *Load) note(event Event) {
	if len(l.events) >= maxReplay {
		l.broken, l.events = true, nil
	}
	if !l.broken {
		l.events = append(l.events, event)
	}
}

// Abandon ends the Load without anything loaded: the Need stays.
func (l *Load) Abandon() {
	l.state.mu.Lock()
	defer l.state.mu.Unlock()
	delete(l.state.loads, l)
}

// end takes what was loaded by merge, which reports whether it was of use, and applies what came meanwhile. It
// reports false when the Need stays.
func (l *Load) end(merge func(*State) bool) bool {
	s := l.state
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.loads, l)
	if l.broken {
		return false
	}
	s.needs.remove(l.Need.String())
	if !merge(s) {
		s.needs.put(l.Need.String(), l.Need)
		return false
	}
	for _, event := range l.events {
		s.apply(event)
	}
	s.hear(Change{})
	return true
}

// Gone ends the Load of something that is not there, or not visible, any more.
func (l *Load) Gone() {
	l.end(func(s *State) bool {
		switch l.Need.Kind {
		case NeedWindow, NeedTail, NeedThread:
			s.dropThread(l.Need.ID)
		case NeedChannel:
			s.closeChannel(l.Need.ID)
		default: // a message that is gone stays as it was said last; the thread has the truth
		}
		return true
	})
}

// Snapshot ends the Load of a snapshot. It reports false for one that is older than what is held already.
func (l *Load) Snapshot(snapshot wire.Snapshot) bool {
	return l.end(func(s *State) bool {
		if snapshot.HeadSeq < l.began || snapshot.HeadSeq < s.core.SnapshotAt {
			return false
		}
		s.mergeSnapshot(snapshot)
		return true
	})
}

// Start makes an empty State, or what is left of one, begin with a snapshot: events up to it are dropped.
func (s *State) Start(snapshot wire.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mergeSnapshot(snapshot)
	s.core.Applied = snapshot.HeadSeq
	s.needs.remove(Need{Kind: NeedSnapshot}.String())
	s.need(NeedPersonal, "")
	s.hear(Change{})
}

// mergeSnapshot replaces the structure. What is newer here stays: its events came after the snapshot was made.
func (s *State) mergeSnapshot(snapshot wire.Snapshot) {
	if snapshot.Principal.ID != s.core.Me.ID || snapshot.Principal.Version >= s.core.Me.Version {
		s.core.Me = snapshot.Principal
	}
	s.core.PermissionVersion = max(s.core.PermissionVersion, snapshot.PermissionVersion)
	s.core.SnapshotAt, s.core.Flags = snapshot.HeadSeq, snapshot.FeatureFlags
	s.access.clear()
	for _, access := range snapshot.Access {
		s.access.put(targetID(access.Kind, access.ID), access)
	}
	mergeAll(s.spaces, snapshot.Spaces, func(v wire.Space) (string, int64) { return v.ID, v.Version }, func(id string) {
		s.prefs.remove("space/" + id)
	})
	mergeAll(s.channels, snapshot.Channels, func(v wire.Channel) (string, int64) { return v.ID, v.Version }, func(id string) {
		s.loseChannel(id, true)
	})
	for _, said := range snapshot.Channels { // the levels of the snapshot are of its channels, some of which are newer here
		if held := s.channels.rows[said.ID]; held.ReadOnly != said.ReadOnly {
			s.relevel(held, said.ReadOnly)
		}
	}
	mergeAll(s.sidebars, snapshot.Sidebar, func(v wire.Sidebar) (string, int64) { return v.SpaceID, v.Version }, func(string) {})
	mergeAll(s.agents, snapshot.Agents, func(v wire.Principal) (string, int64) { return v.ID, v.Version }, func(string) {})
	s.mergeCounts(snapshot.ReadStates, snapshot.HeadSeq)
	s.mergeVersions(snapshot)
}

// mergeAll makes a table hold the listed objects, each in its newest version, and no others.
func mergeAll[T any](t *table[T], listed []T, key func(T) (string, int64), gone func(id string)) {
	visible := make(map[string]bool, len(listed))
	for _, said := range listed {
		id, version := key(said)
		visible[id] = true
		if held, known := t.get(id); known {
			if _, newer := key(held); newer > version {
				continue
			}
		}
		t.put(id, said)
	}
	for id := range t.rows {
		if !visible[id] {
			t.remove(id)
			gone(id)
		}
	}
}

// mergeVersions compares what a snapshot says of drafts and settings with what is held.
func (s *State) mergeVersions(snapshot wire.Snapshot) {
	stale := false
	for thread, version := range snapshot.DraftVersions {
		held, known := s.drafts.get(thread)
		stale = stale || !known || held.Version < version
	}
	for key, version := range snapshot.SettingsVersions {
		held, known := s.settings.get(key)
		stale = stale || !known || held.Version < version
	}
	s.drafts.removeWhere(func(id string, held draft) bool { _, ok := snapshot.DraftVersions[id]; return !ok && !held.Gone })
	s.settings.removeWhere(func(key string, held wire.Setting) bool {
		_, ok := snapshot.SettingsVersions[key]
		return !ok && !held.Deleted
	})
	if stale {
		s.need(NeedPersonal, "")
	}
}

// Personal ends the Load of the personal lists.
func (l *Load) Personal(loaded Personal) bool {
	return l.end(func(s *State) bool { s.mergePersonal(loaded); return true })
}

// Message ends the Load of one message.
func (l *Load) Message(message wire.Message) bool {
	return l.end(func(s *State) bool { s.mergeMessage(message); return true })
}

// Thread ends the Load of one thread.
func (l *Load) Thread(thread wire.Thread) bool {
	return l.end(func(s *State) bool { s.mergeThread(thread); return true })
}

// Threads ends the Load of the threads of an open channel.
func (l *Load) Threads(threads []wire.Thread) bool {
	return l.end(func(s *State) bool {
		if !s.opened.has(l.Need.ID) {
			return true
		}
		listed := map[string]bool{}
		for _, thread := range threads {
			listed[thread.ID] = true
			s.mergeThread(thread)
		}
		s.threads.removeWhere(func(id string, t wire.Thread) bool {
			return t.ChannelID == l.Need.ID && !listed[id] && !s.windows.has(id)
		})
		return true
	})
}

// Window ends the Load of a thread's newest messages. complete says that there are no older ones.
func (l *Load) Window(thread wire.Thread, messages []wire.Message, pinned []wire.Message, complete bool) bool {
	return l.end(func(s *State) bool {
		w, open := s.windows.get(l.Need.ID)
		if !open {
			return true
		}
		fresh := newWindow(l.Need.ID, w.UsedAt)
		fresh.Loaded = true
		s.messages.removeWhere(func(_ string, m wire.Message) bool { return m.ThreadID == l.Need.ID })
		s.windows.put(l.Need.ID, fresh)
		s.mergeThread(thread)
		if len(messages) > 0 && !complete {
			fresh.From = messages[0].ThreadSeq
		}
		fresh.Last = fresh.From - 1
		for _, message := range pinned {
			fresh.pin(message.ID, true)
		}
		for _, message := range messages {
			s.mergeMessage(message)
		}
		return true
	})
}

// Older takes messages of an open thread below those that are held. complete says that there are no
// older ones.
func (l *Load) Older(messages []wire.Message, complete bool) bool {
	return l.end(func(s *State) bool {
		w, open := s.windows.get(l.Need.ID)
		if !open || !w.Loaded || len(messages) > 0 && messages[len(messages)-1].ThreadSeq != w.From-1 {
			return true
		}
		if room := MaxWindow - len(w.bySeq); len(messages) > room {
			messages, complete = messages[len(messages)-room:], false
		}
		if len(messages) > 0 {
			w.From = messages[0].ThreadSeq
		}
		if complete {
			w.From = 1
		}
		for _, message := range messages {
			s.mergeMessage(message)
		}
		s.windows.put(w.ThreadID, w)
		return true
	})
}

// Tail ends the Load of the messages above those that were held without a gap.
func (l *Load) Tail(messages []wire.Message) bool {
	return l.end(func(s *State) bool {
		for _, message := range messages {
			s.mergeMessage(message)
		}
		return true
	})
}

// mergeMessage takes a loaded message, unless an event has brought a newer version of it.
func (s *State) mergeMessage(message wire.Message) {
	w, open := s.windows.get(message.ThreadID)
	if !open || message.ThreadSeq < w.From {
		return
	}
	if held, known := s.messages.get(message.ID); known && held.Version > message.Version {
		return
	}
	s.hold(w, message)
}

func (s *State) mergeThread(thread wire.Thread) {
	held, known := s.threads.get(thread.ID)
	if known && held.Version > thread.Version {
		return
	}
	if !s.windows.has(thread.ID) && !s.opened.has(thread.ChannelID) {
		return
	}
	s.threads.put(thread.ID, thread)
	s.noteFloor(0, thread)
	if known && held.ChannelID != thread.ChannelID {
		s.rehome(thread.ID, thread.ChannelID)
	}
}

// TookMessage takes a message that the server answered to a write of this device. Events may be ahead of the
// answer, or behind: the newer version stays, and reactions and pins are left to events.
func (s *State) TookMessage(message wire.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held, known := s.messages.get(message.ID)
	w, open := s.windows.get(message.ThreadID)
	if !open || !w.Loaded || message.ThreadSeq < w.From || known && held.Version >= message.Version {
		return
	}
	if known {
		message.Reactions, message.Pinned = held.Reactions, held.Pinned
	}
	s.hold(w, message)
	s.hear(Change{Own: true})
}
