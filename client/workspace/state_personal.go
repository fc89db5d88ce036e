package workspace

import (
	"strings"

	wire "github.com/cairnsync/cairn/wire/workspace"
)

// applyPersonal applies what another device of the person, or this one, changed (ES-14). The version of the
// personal object decides.
func (s *State) applyPersonal(event Event) {
	switch data := event.Data.(type) {
	case *wire.ReadStateEvent:
		s.applyReadState(event, data.ReadState)
	case *wire.DraftEvent:
		s.applyDraft(draft{Draft: data.Draft, Loaded: !event.Truncated})
		if event.Truncated {
			s.need(NeedPersonal, "")
		}
	case *wire.DraftDeleted:
		gone := wire.Draft{ThreadID: data.ThreadID, Version: data.Version, UpdatedByDeviceID: data.UpdatedByDeviceID}
		s.applyDraft(draft{Draft: gone, Gone: true})
	case *wire.SettingEvent:
		s.applySetting(data.Setting)
		if event.Truncated {
			s.need(NeedPersonal, "")
		}
	case *wire.SidebarEvent:
		held, known := s.sidebars.get(data.Sidebar.SpaceID)
		if data.Sidebar.Version > held.Version && (known || event.Seq > s.core.SnapshotAt) { // a newer snapshot did not have it
			s.sidebars.put(data.Sidebar.SpaceID, data.Sidebar)
		}
		if event.Truncated {
			s.need(NeedSnapshot, "")
		}
	case *wire.NotificationPrefEvent:
		pref := data.NotificationPref
		if key := pref.Kind + "/" + pref.ID; pref.Version > s.prefs.rows[key].Version {
			s.prefs.put(key, pref)
		}
	case *wire.QuietHoursEvent:
		if data.QuietHours.Version > s.quiet.rows[""].Version {
			s.quiet.put("", data.QuietHours)
		}
	}
}

// applyDraft takes a draft over, unless somebody types in it here: then it waits for EndDraft, and the
// next local write wins.
func (s *State) applyDraft(said draft) {
	held, known := s.drafts.get(said.ThreadID)
	if known && said.Version <= held.Version {
		return
	}
	if _, typing := s.editing[said.ThreadID]; typing && said.UpdatedByDeviceID != s.device {
		waiting := said.Draft
		s.editing[said.ThreadID] = &waiting
		return
	}
	s.drafts.put(said.ThreadID, said)
	s.boundDrafts()
}

// boundDrafts forgets the oldest versions of deleted drafts.
func (s *State) boundDrafts() {
	gone, oldest := 0, ""
	for thread, held := range s.drafts.rows {
		if !held.Gone {
			continue
		}
		gone++
		if oldest == "" || held.Version < s.drafts.rows[oldest].Version {
			oldest = thread
		}
	}
	if gone > maxTombstones {
		s.drafts.remove(oldest)
	}
}

func (s *State) applySetting(said wire.Setting) {
	if held, known := s.settings.get(said.Key); known && said.Version <= held.Version {
		return
	}
	if said.Deleted {
		said.Value = nil
	}
	s.settings.put(said.Key, said)
}

// BeginDraft says that the person types in a thread's draft on this device (ES-14), and answers the
// version the text is based on: 0 for none.
func (s *State) BeginDraft(thread string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, typing := s.editing[thread]; !typing {
		s.editing[thread] = nil
	}
	return s.drafts.rows[thread].Version
}

// EndDraft undoes BeginDraft: what another device wrote meanwhile is taken over, unless something newer came.
func (s *State) EndDraft(thread string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := s.editing[thread]
	delete(s.editing, thread)
	if waiting == nil {
		return
	}
	s.applyDraft(draft{Draft: *waiting, Loaded: true})
}

// Took takes what the server answered to a personal write of this device; the echo of it says the same.
func (s *State) Took(answer any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch said := answer.(type) {
	case wire.Draft:
		said.OverwroteNewer = false
		s.applyDraft(draft{Draft: said, Loaded: true, Gone: strings.TrimSpace(said.ContentMD) == "" && len(said.FileIDs) == 0})
	case wire.Setting:
		s.applySetting(said)
	case wire.Sidebar:
		if said.Version > s.sidebars.rows[said.SpaceID].Version && s.spaces.has(said.SpaceID) {
			s.sidebars.put(said.SpaceID, said)
		}
	case wire.NotificationPref:
		if key := said.Kind + "/" + said.ID; said.Version > s.prefs.rows[key].Version {
			s.prefs.put(key, said)
		}
	case wire.QuietHours:
		if said.Version > s.quiet.rows[""].Version {
			s.quiet.put("", said)
		}
	}
	s.hear(Change{Own: true})
}

// Personal is what is loaded for NeedPersonal.
type Personal struct {
	Drafts   []wire.Draft
	Settings []wire.Setting
	Prefs    []wire.NotificationPref
	Quiet    *wire.QuietHours
}

// mergePersonal takes the lists: what is not in them is gone.
func (s *State) mergePersonal(loaded Personal) {
	listed := map[string]bool{}
	for _, said := range loaded.Drafts {
		listed[said.ThreadID] = true
		held, known := s.drafts.get(said.ThreadID)
		if _, typing := s.editing[said.ThreadID]; typing || known && said.Version < held.Version {
			continue
		}
		s.drafts.put(said.ThreadID, draft{Draft: said, Loaded: true})
	}
	s.drafts.removeWhere(func(id string, held draft) bool { return !listed[id] && !held.Gone })
	clear(listed)
	for _, said := range loaded.Settings {
		listed[said.Key] = true
		if held, known := s.settings.get(said.Key); !known || said.Version >= held.Version {
			s.settings.put(said.Key, said)
		}
	}
	s.settings.removeWhere(func(key string, held wire.Setting) bool { return !listed[key] && !held.Deleted })
	clear(listed)
	for _, said := range loaded.Prefs {
		key := said.Kind + "/" + said.ID
		listed[key] = true
		if said.Version >= s.prefs.rows[key].Version {
			s.prefs.put(key, said)
		}
	}
	s.prefs.removeWhere(func(key string, _ wire.NotificationPref) bool { return !listed[key] })
	if loaded.Quiet != nil && loaded.Quiet.Version >= s.quiet.rows[""].Version {
		s.quiet.put("", *loaded.Quiet)
	}
}
