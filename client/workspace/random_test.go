package workspace_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/cairnsync/cairn/client/workspace"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// dice draws a number from 0 to n-1.
type dice func(n int) int

// pick draws one of the values of a map, nil when it is empty.
func pick[T any](d dice, of map[string]*T) *T {
	if len(of) == 0 {
		return nil
	}
	return of[slices.Sorted(maps.Keys(of))[d(len(of))]]
}

// random does something: every type of event comes of it.
func (w *world) random(d dice) {
	deeds := []func(dice){
		w.randomMessage, w.randomMessage, w.randomMessage, w.randomChange, w.randomChange, w.randomMark, w.randomMark,
		w.randomThread, w.randomPlace, w.randomPersonal, w.randomPersonal, w.randomAccess, w.randomRest,
	}
	deeds[d(len(deeds))](d)
}

func (w *world) who(d dice) wire.Principal {
	if d(3) == 0 {
		return w.me
	}
	return w.other
}

func (w *world) device2(d dice) string {
	if d(2) == 0 {
		return w.device
	}
	return "0197f000-0000-7000-8000-0000000000dd"
}

func (w *world) text(d dice) string {
	return []string{"", "@me "}[d(2)] + fmt.Sprintf("words %d", w.head)
}

func cut(d dice) []func(*wire.Envelope) {
	if d(6) == 0 {
		return []func(*wire.Envelope){truncated}
	}
	return nil
}

func (w *world) randomMessage(d dice) {
	if t := pick(d, w.threads); t != nil {
		m := w.post(t.ID, w.who(d), w.text(d), cut(d)...)
		if d(5) == 0 {
			m.Attachments = []wire.File{w.file(m)}
			m.Version++
			w.messageEvent(workspace.TypeMessageUpdated, m)
		}
	}
}

func (w *world) file(m *wire.Message) wire.File {
	return wire.File{
		ID: workspace.NewID(), UploadedBy: m.Author.ID, Purpose: "attachment", UploadState: "complete", ScanStatus: "pending",
		TranscriptStatus: "none", OriginalName: "a file", SizeBytes: 3, MimeType: "text/plain", Thumbnails: []json.RawMessage{},
		CreatedAt: m.CreatedAt, Version: 1,
	}
}

func (w *world) someMessage(d dice) *wire.Message {
	m := pick(d, w.byID)
	if m == nil || m.DeletedAt != nil {
		return nil
	}
	return m
}

func (w *world) randomChange(d dice) {
	m := w.someMessage(d)
	if m == nil {
		return
	}
	switch d(4) {
	case 0:
		w.remove(m)
	case 1:
		if len(m.Attachments) > 0 {
			file := &m.Attachments[0]
			file.ScanStatus, file.Version = "clean", file.Version+1
			w.emit(workspace.TypeFileUpdated, w.scope(m.ThreadID), wire.Resource{Kind: "file", ID: file.ID, Version: file.Version}, wire.FileEvent{File: *file})
		}
	default:
		if m.Origin != wire.OriginImport {
			w.edit(m, w.text(d), cut(d)...)
		}
	}
}

func (w *world) randomMark(d dice) {
	m := w.someMessage(d)
	if m == nil {
		return
	}
	if d(3) == 0 {
		w.pin(m, d(2) == 0)
		return
	}
	w.react(m, w.who(d).ID, []string{"👍", "🎉"}[d(2)], d(3) > 0)
}

func (w *world) randomThread(d dice) {
	if d(3) == 0 {
		if c := pick(d, w.chans); c != nil {
			w.thread(c.ID, fmt.Sprintf("thread %d", w.head), w.who(d))
		}
		return
	}
	t := pick(d, w.threads)
	if t == nil {
		return
	}
	switch d(5) {
	case 0:
		t.Title, t.Version = fmt.Sprintf("renamed %d", w.head), t.Version+1
		w.threadEvent(workspace.TypeThreadUpdated, t)
	case 1:
		t.State, t.Version = wire.ThreadDone, t.Version+1
		w.threadEvent(workspace.TypeThreadClosed, t)
	case 2:
		t.State, t.Version = wire.ThreadOpen, t.Version+1
		w.threadEvent(workspace.TypeThreadReopened, t)
	case 3:
		if c := pick(d, w.chans); c != nil && c.ID != t.ChannelID && t.Kind != wire.ThreadMain {
			w.move(t, c.ID)
		}
	default:
		w.imported(t, 1+d(3))
	}
}

func (w *world) randomPlace(d dice) {
	switch d(4) {
	case 0:
		before := w.access()
		s := w.space(fmt.Sprintf("space %d", w.head))
		if d(2) == 0 { // by me, who owns it then
			w.grants[wire.Target{Kind: wire.TargetSpace, ID: s.ID}] = wire.LevelOwner
			w.perm++
			w.tell(before)
		}
	case 1:
		if s := pick(d, w.spaces); s != nil {
			w.channel(s.ID, fmt.Sprintf("channel %d", w.head), []wire.ChannelKind{wire.ChannelText, wire.ChannelForum}[d(2)])
		}
	case 2:
		if s := pick(d, w.spaces); s != nil {
			w.changeSpace(d, s)
		}
	default:
		if c := pick(d, w.chans); c != nil {
			w.changeChannel(d, c)
		}
	}
}

func (w *world) changeSpace(d dice, s *wire.Space) {
	at := w.now()
	before := w.access()
	s.Version++
	kind := workspace.TypeSpaceUpdated
	switch d(3) {
	case 0:
		s.Name = fmt.Sprintf("renamed %d", w.head)
	case 1:
		s.ArchivedAt, kind = &at, workspace.TypeSpaceArchived
	default:
		s.ArchivedAt, kind = nil, workspace.TypeSpaceUnarchived
	}
	if kind != workspace.TypeSpaceUpdated {
		w.perm++
	}
	w.emit(kind, wire.Scope{SpaceID: s.ID}, wire.Resource{Kind: "space", ID: s.ID, Version: s.Version}, wire.SpaceEvent{Space: *s})
	if kind != workspace.TypeSpaceUpdated {
		w.tell(before)
	}
}

func (w *world) changeChannel(d dice, c *wire.Channel) {
	at := w.now()
	before := w.access()
	switch d(5) {
	case 0:
		c.SettingsVersion++
		w.emit(workspace.TypeChannelSettingsChanged, wire.Scope{SpaceID: c.SpaceID, ChannelID: c.ID}, wire.Resource{Kind: "channel", ID: c.ID},
			wire.ChannelSettingsChanged{ChannelID: c.ID, SettingsVersion: c.SettingsVersion})
	case 1:
		c.Topic, c.Version = fmt.Sprintf("topic %d", w.head), c.Version+1
		w.channelEvent(workspace.TypeChannelUpdated, c)
	case 2:
		c.ReadOnly, c.Version = !c.ReadOnly, c.Version+1
		w.channelEvent(workspace.TypeChannelUpdated, c)
	case 3:
		c.ArchivedAt, c.Version = &at, c.Version+1
		w.perm++
		w.channelEvent(workspace.TypeChannelArchived, c)
		w.tell(before)
	default:
		c.ArchivedAt, c.Version = nil, c.Version+1
		w.perm++
		w.channelEvent(workspace.TypeChannelUnarchived, c)
		w.tell(before)
	}
}

func (w *world) randomAccess(d dice) {
	target := wire.Target{Kind: wire.TargetInstance}
	switch d(5) {
	case 0:
	case 1, 2:
		if s := pick(d, w.spaces); s != nil {
			target = wire.Target{Kind: wire.TargetSpace, ID: s.ID}
		}
	default:
		if c := pick(d, w.chans); c != nil {
			target = wire.Target{Kind: wire.TargetChannel, ID: c.ID}
		}
	}
	level := []wire.Level{"", "", wire.LevelRead, wire.LevelWrite, wire.LevelManage}[d(5)]
	w.permit(func() {
		if level == "" {
			delete(w.grants, target)
			return
		}
		w.grants[target] = level
	})
}

func (w *world) randomPersonal(d dice) {
	t := pick(d, w.threads)
	if t == nil || !w.readable(t.ID) {
		return
	}
	device := w.device2(d)
	switch d(7) {
	case 0:
		w.read(t.ID, int64(d(int(t.LastMessageSeq)+1)), device)
	case 1:
		w.read(t.ID, t.LastMessageSeq, device)
	case 2:
		w.putDraft(t.ID, fmt.Sprintf("draft %d", w.head), device, cut(d)...)
	case 3:
		if w.drafts[t.ID] != nil {
			w.putDraft(t.ID, "", device)
		}
	case 4:
		w.putSetting(fmt.Sprintf("key-%d", d(2)), d(4) == 0, device)
	case 5:
		space := w.chans[t.ChannelID].SpaceID
		side := w.sides[space]
		if side == nil {
			side = &wire.Sidebar{SpaceID: space}
			w.sides[space] = side
		}
		side.State, side.Version, side.UpdatedByDeviceID = raw(map[string]int64{"order": w.head}), side.Version+1, device
		w.emit(workspace.TypeSidebarUpdated, wire.Scope{SpaceID: space}, wire.Resource{Kind: "space", ID: space}, wire.SidebarEvent{Sidebar: *side}, personal)
	default:
		w.putPref(d, t, device)
	}
}

func (w *world) putSetting(key string, gone bool, device string) {
	s := w.sets[key]
	if s == nil {
		if gone {
			return
		}
		s = &wire.Setting{Key: key}
		w.sets[key] = s
	}
	s.Value, s.Deleted, s.Version, s.UpdatedByDeviceID = raw(w.head), gone, s.Version+1, device
	if gone {
		s.Value = nil
	}
	w.emit(workspace.TypeSettingsUpdated, wire.Scope{}, wire.Resource{Kind: "setting", ID: key, Version: s.Version}, wire.SettingEvent{Setting: *s}, personal)
}

func (w *world) putPref(d dice, t *wire.Thread, device string) {
	kind, id := "thread", t.ID
	switch d(3) {
	case 0:
		kind, id = "channel", t.ChannelID
	case 1:
		kind, id = "space", w.chans[t.ChannelID].SpaceID
	}
	p := w.prefs[kind+id]
	if p == nil {
		p = &wire.NotificationPref{Kind: kind, ID: id}
		w.prefs[kind+id] = p
	}
	p.Level, p.Version, p.UpdatedByDeviceID = []string{"all", "mentions", "none"}[d(3)], p.Version+1, device
	w.emit(workspace.TypeNotificationUpdated, wire.Scope{}, wire.Resource{Kind: "notification_pref", ID: id, Version: p.Version},
		wire.NotificationPrefEvent{NotificationPref: *p}, personal)
}

func (w *world) randomRest(d dice) {
	switch d(4) {
	case 0:
		w.me.DisplayName, w.me.Version = fmt.Sprintf("Me %d", w.head), w.me.Version+1
		w.emit(workspace.TypePrincipalUpdated, wire.Scope{}, wire.Resource{Kind: "principal", ID: w.me.ID, Version: w.me.Version}, wire.PrincipalEvent{Principal: w.me})
	case 1:
		if w.quiet == nil {
			w.quiet = &wire.QuietHours{Timezone: "UTC", Days: []string{"mon"}, To: "07:00"}
		}
		w.quiet.From, w.quiet.Version = fmt.Sprintf("%02d:00", w.head%24), w.quiet.Version+1
		w.emit(workspace.TypeQuietHoursUpdated, wire.Scope{}, wire.Resource{Kind: "quiet_hours", ID: w.me.ID, Version: w.quiet.Version},
			wire.QuietHoursEvent{QuietHours: *w.quiet}, personal)
	case 2:
		w.emit(workspace.TypeDeviceUpdated, wire.Scope{}, wire.Resource{Kind: "device", ID: w.device}, wire.DeviceEvent{Device: wire.Device{ID: w.device}}, personal)
	default:
		w.emit("something.new", wire.Scope{}, wire.Resource{Kind: "thing", ID: "x"}, map[string]int{"n": 1}, personal)
	}
}
