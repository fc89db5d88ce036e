package workspace

import (
	"fmt"
	"slices"
	"time"

	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Apply applies a durable event. Events come in the order of their numbers; one that was applied before is
// dropped (ES-9.2). It answers a *Violation for an event of a channel the principal does not see; it is
// applied all the same, which changes nothing that is held.
func (s *State) Apply(event Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !event.Durable() || event.Seq <= s.core.Applied {
		return nil
	}
	violated := s.foreign(event)
	s.apply(event)
	s.core.Applied = event.Seq
	s.core.PermissionVersion = max(s.core.PermissionVersion, event.PermissionVersion)
	for load := range s.loads {
		load.note(event)
	}
	s.hear(Change{Event: &event, Own: s.own(event)})
	return violated
}

// foreign answers a violation for an event of a channel nobody showed to the principal. What the structure of a
// newer snapshot says about older events proves nothing, and while catching up events are let through by the
// permissions of now (ES-8.1), also those from before a grant.
func (s *State) foreign(event Event) error {
	channel := event.Scope.ChannelID
	if !s.live || channel == "" || event.Audience == wire.AudienceSelf || event.Seq <= s.core.SnapshotAt || event.Type == TypeChannelCreated {
		return nil
	}
	if s.channels.has(channel) || s.access.has(targetID(wire.TargetChannel, channel)) {
		return nil
	}
	return &Violation{Rule: "ES-8.1", What: fmt.Sprintf("event %d %s of channel %s, which is not visible", event.Seq, event.Type, channel)}
}

// own reports whether an event is the echo of what this device did.
func (s *State) own(event Event) bool {
	by := ""
	switch data := event.Data.(type) {
	case *wire.ReadStateEvent:
		by = data.ReadState.UpdatedByDeviceID
	case *wire.DraftEvent:
		by = data.Draft.UpdatedByDeviceID
	case *wire.DraftDeleted:
		by = data.UpdatedByDeviceID
	case *wire.SettingEvent:
		by = data.Setting.UpdatedByDeviceID
	case *wire.SidebarEvent:
		by = data.Sidebar.UpdatedByDeviceID
	case *wire.NotificationPrefEvent:
		by = data.NotificationPref.UpdatedByDeviceID
	case *wire.QuietHoursEvent:
		by = data.QuietHours.UpdatedByDeviceID
	}
	return by != "" && by == s.device
}

// apply changes what an event speaks of. It is called again for the events that came while something was
// loaded; each kind of change bears that.
func (s *State) apply(event Event) {
	switch data := event.Data.(type) {
	case *wire.MessageEvent:
		s.applyMessage(event, data)
	case *wire.ReactionEvent:
		s.applyReaction(event, data)
	case *wire.PinEvent:
		s.applyPin(data)
	case *wire.FileEvent:
		s.applyFile(data.File, event.Resource.Version)
	case *wire.ThreadEvent:
		s.applyThread(event, data.Thread)
	case *wire.ThreadMovedOut:
		s.loseThread(event.Seq, data.ThreadID)
	default:
		s.applyStructure(event)
	}
}

func (s *State) applyStructure(event Event) {
	switch data := event.Data.(type) {
	case *wire.ChannelEvent:
		s.applyChannel(event, data.Channel)
	case *wire.ChannelSettingsChanged:
		if channel, ok := s.channels.get(data.ChannelID); ok && data.SettingsVersion > channel.SettingsVersion {
			channel.SettingsVersion = data.SettingsVersion
			s.channels.put(channel.ID, channel)
		}
	case *wire.SpaceEvent:
		s.applySpace(event, data.Space)
	case *wire.PrincipalEvent:
		s.applyPrincipal(data.Principal, event.Resource.Version)
	case *wire.AccessChanged:
		s.applyAccess(event, data)
	default:
		s.applyPersonal(event)
	}
}

// applyThread applies a thread's new state (ES-9.3). What came by an import is loaded (ES-15.8).
func (s *State) applyThread(event Event, thread wire.Thread) {
	thread.Version = event.Resource.Version
	s.noteFloor(event.Seq, thread)
	if event.Type == TypeThreadMoved { // one that was not visible before brings along what the person kept about it
		s.need(NeedPersonal, "")
		if event.Seq > s.core.CountedTo {
			s.need(NeedSnapshot, "") // and unread messages
		}
	}
	if w, open := s.windows.get(thread.ID); open && w.Loaded && thread.LastMessageSeq > w.Last {
		s.need(NeedTail, thread.ID)
	}
	held, known := s.threads.get(thread.ID)
	if known && thread.Version <= held.Version {
		return
	}
	if !s.windows.has(thread.ID) && !s.opened.has(thread.ChannelID) {
		s.threads.remove(thread.ID)
		return
	}
	s.threads.put(thread.ID, thread)
	if event.Truncated {
		s.need(NeedThread, thread.ID)
	}
	if known && held.ChannelID != thread.ChannelID {
		s.rehome(thread.ID, thread.ChannelID)
	}
}

// rehome tells the messages of a thread where it went.
func (s *State) rehome(thread, channel string) {
	for id, message := range s.messages.rows {
		if message.ThreadID == thread {
			message.ChannelID = channel
			s.messages.put(id, message)
		}
	}
}

// loseThread removes a thread that went where the principal does not see it.
func (s *State) loseThread(seq int64, id string) {
	s.dropThread(id)
	s.forgetPersonal(id)
	if seq > s.core.CountedTo { // newer counts know whether it came back
		s.counts.remove(id)
	}
	if seq <= s.core.SnapshotAt {
		s.need(NeedPersonal, "")
	}
}

// dropThread removes a thread and its content.
func (s *State) dropThread(id string) {
	s.threads.remove(id)
	s.dropWindow(id)
}

func (s *State) dropWindow(thread string) {
	s.windows.remove(thread)
	s.messages.removeWhere(func(_ string, m wire.Message) bool { return m.ThreadID == thread })
}

func (s *State) applyChannel(event Event, channel wire.Channel) {
	channel.Version = event.Resource.Version
	held, known := s.channels.get(channel.ID)
	if known && channel.Version < held.Version || !known && event.Seq <= s.core.SnapshotAt { // a newer snapshot did not have it
		return
	}
	again := known && channel.Version == held.Version // behind an access.changed that was applied again too
	if !again {
		channel.SettingsVersion = max(channel.SettingsVersion, held.SettingsVersion)
		s.channels.put(channel.ID, channel)
	}
	if event.Seq > s.core.SnapshotAt {
		s.relevel(channel, !again && held.ReadOnly)
	}
}

// relevel follows what a channel's own state says about the level on it: that comes without
// access.changed (ES-8.1).
func (s *State) relevel(channel wire.Channel, wasReadOnly bool) {
	key := targetID(wire.TargetChannel, channel.ID)
	held, known := s.access.get(key)
	if !known {
		space, visible := s.access.get(targetID(wire.TargetSpace, channel.SpaceID))
		if !visible || space.Level == wire.LevelNone {
			s.need(NeedSnapshot, "")
			return
		}
		held = wire.Access{Kind: wire.TargetChannel, ID: channel.ID, Level: space.Level}
		s.access.put(key, held)
	}
	if held.Level.Rank() >= wire.LevelManage.Rank() || channel.ReadOnly == wasReadOnly {
		return
	}
	if !channel.ReadOnly {
		s.need(NeedSnapshot, "") // only the server knows what the cap hid
		return
	}
	if held.Level.Rank() > wire.LevelRead.Rank() {
		held.Level = wire.LevelRead
		s.access.put(key, held)
	}
}

func (s *State) applySpace(event Event, space wire.Space) {
	space.Version = event.Resource.Version
	held, known := s.spaces.get(space.ID)
	if known && space.Version <= held.Version || !known && event.Seq <= s.core.SnapshotAt {
		return
	}
	s.spaces.put(space.ID, space)
	key := targetID(wire.TargetSpace, space.ID)
	if s.access.has(key) || event.Seq <= s.core.SnapshotAt {
		return
	}
	instance, everything := s.access.get(targetID(wire.TargetInstance, ""))
	if !everything {
		s.need(NeedSnapshot, "")
		return
	}
	s.access.put(key, wire.Access{Kind: wire.TargetSpace, ID: space.ID, Level: instance.Level})
}

func (s *State) applyPrincipal(principal wire.Principal, version int64) {
	principal.Version = version
	if principal.ID == s.core.Me.ID && principal.Version > s.core.Me.Version {
		s.core.Me = principal
	}
	if held, known := s.agents.get(principal.ID); known && principal.Version > held.Version {
		s.agents.put(principal.ID, principal)
	}
}

// applyAccess follows a change of permissions (ES-8.3, ES-8.4): content of what was removed goes at once,
// structure of what was added is loaded.
func (s *State) applyAccess(event Event, change *wire.AccessChanged) {
	structural := event.Seq > s.core.SnapshotAt // a newer snapshot knows the levels better
	for _, gone := range change.Removed {
		s.lose(gone, structural)
	}
	if len(change.Added)+len(change.Removed) > 0 {
		s.need(NeedPersonal, "") // the lists name what is visible
	}
	if !structural {
		return
	}
	s.core.PermissionVersion = max(s.core.PermissionVersion, change.PermissionVersion)
	for _, access := range slices.Concat(change.Added, change.Changed) {
		access.PreviousLevel = ""
		s.access.put(targetID(access.Kind, access.ID), access)
	}
	if len(change.Added)+len(change.Removed) > 0 {
		s.need(NeedSnapshot, "")
	}
}

// lose deletes the content of a removed target, and with structural the target itself.
func (s *State) lose(gone wire.Access, structural bool) {
	switch gone.Kind {
	case wire.TargetChannel:
		s.loseChannel(gone.ID, structural)
	case wire.TargetSpace:
		for id, channel := range s.channels.rows {
			if channel.SpaceID == gone.ID {
				s.loseChannel(id, structural)
			}
		}
		if structural {
			s.spaces.remove(gone.ID)
			s.sidebars.remove(gone.ID)
			s.prefs.remove("space/" + gone.ID)
		}
	default:
	}
	if structural {
		s.access.remove(targetID(gone.Kind, gone.ID))
	}
}

func (s *State) loseChannel(id string, structural bool) {
	for thread, held := range s.threads.rows {
		if held.ChannelID == id {
			s.dropThread(thread)
			s.forgetPersonal(thread)
			if structural {
				s.counts.remove(thread)
			}
		}
	}
	s.opened.remove(id)
	s.prefs.remove("channel/" + id)
	if structural {
		s.channels.remove(id)
		s.access.remove(targetID(wire.TargetChannel, id))
	}
}

// forgetPersonal removes what was kept about a thread that is not visible any more (ES-14). The server keeps it.
func (s *State) forgetPersonal(thread string) {
	s.drafts.remove(thread)
	s.prefs.remove("thread/" + thread)
	delete(s.editing, thread)
}

// closeThread lets go of a thread's content.
func (s *State) closeThread(id string) {
	s.dropWindow(id)
	if thread, ok := s.threads.get(id); ok && !s.opened.has(thread.ChannelID) {
		s.threads.remove(id)
	}
}

func (s *State) closeChannel(id string) {
	s.opened.remove(id)
	s.threads.removeWhere(func(thread string, t wire.Thread) bool { return t.ChannelID == id && !s.windows.has(thread) })
}

// SetLive says whether events come as they happen.
func (s *State) SetLive(live bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = live
}

// OpenThread begins to hold a thread's messages, and marks it as used; they are loaded as a Need.
func (s *State) OpenThread(id string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w, open := s.windows.get(id); open {
		w.UsedAt = now
		s.windows.put(id, w)
		return
	}
	s.windows.put(id, newWindow(id, now))
	s.need(NeedWindow, id)
}

// CloseThread lets go of a thread's messages.
func (s *State) CloseThread(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeThread(id)
}

// OpenChannel begins to hold the threads of a channel, and marks it as used; they are loaded as a Need.
func (s *State) OpenChannel(id string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.opened.has(id) {
		s.need(NeedChannel, id)
	}
	s.opened.put(id, opening{UsedAt: now})
}

// CloseChannel lets go of the threads of a channel that are not open themselves.
func (s *State) CloseChannel(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeChannel(id)
}

// OpenThreads answers the open threads by id.
func (s *State) OpenThreads() []string {
	return view(s, func() []string {
		var open []string
		for _, w := range s.windows.sorted() {
			open = append(open, w.ThreadID)
		}
		return open
	})
}
