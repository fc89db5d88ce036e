package workspace

import (
	"net/http"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func personalCases() []testCase {
	return []testCase{
		{rule: "ES-14 read state", name: "it is monotonic and clamped, and reset with If-Match", run: caseReadState},
		{rule: "ES-14 read state", name: "counts are computed: not one's own, not what was deleted", run: caseUnread},
		{rule: "ES-14 drafts", name: "the last write wins, and who overwrote is told", run: caseDrafts},
		{rule: "ES-14 drafts", name: "an empty draft is deleted, and so is one that is sent with clear_draft", run: caseDraftEnds},
		{rule: "ES-14 settings", name: "each key by itself, and a deletion says so", run: caseSettings},
		{rule: "ES-14 sidebar", name: "the last write wins, per space", run: caseSidebar},
		{rule: "ES-14 notification, quiet hours", name: "the last write wins, per row", run: caseNotification},
		{rule: "ES-14 lists", name: "only what one may still read is named, and comes back with the permission", run: casePersonalLists},
	}
}

// devices are two devices of anna, both connected.
func (r *room) devices() (one, two *socket) { return r.anna.connect(), r.anna.another().connect() }

func caseReadState(t *trial) {
	r := t.room()
	for range 4 {
		r.say(r.owner, "x")
	}
	one, two := r.devices()
	path := "/read-states/" + r.thread
	state := read[wire.ReadState](r.anna.put(path, wire.PutReadState{LastReadSeq: 3}), http.StatusOK)
	require.EqualValues(t, 3, state.LastReadSeq)
	require.EqualValues(t, 1, state.UnreadCount)
	for _, s := range []*socket{one, two} {
		event := s.await("read_state.updated")
		told := payload[wire.ReadStateEvent](t, event).ReadState
		require.Equal(t, state, told)
		require.Equal(t, r.anna.device, told.UpdatedByDeviceID, "a device knows its own echo by it")
		require.Equal(t, wire.Resource{Kind: "thread", ID: r.thread}, event.Resource)
	}
	back := read[wire.ReadState](r.anna.put(path, wire.PutReadState{LastReadSeq: 1}), http.StatusOK)
	require.EqualValues(t, 3, back.LastReadSeq, "never back")
	require.EqualValues(t, 4, read[wire.ReadState](r.anna.put(path, wire.PutReadState{LastReadSeq: 99}), http.StatusOK).LastReadSeq, "clamped")
	r.anna.post(path+"/reset", wire.PutReadState{LastReadSeq: 1}).refused(code.PreconditionRequired)
	r.anna.post(path+"/reset", wire.PutReadState{LastReadSeq: 1}, ifMatch(99)).refused(code.VersionConflict)
	now := read[wire.ReadState](r.anna.get(path), http.StatusOK)
	reset := read[wire.ReadState](r.anna.post(path+"/reset", wire.PutReadState{LastReadSeq: 1}, ifMatch(now.Version)), http.StatusOK)
	require.EqualValues(t, 1, reset.LastReadSeq)
	require.EqualValues(t, 3, reset.UnreadCount)
	require.Empty(t, only(r.owner.events(one.ready.HeadSeq), "read_state.updated"), "personal")
}

func caseUnread(t *trial) {
	r := t.room()
	r.say(r.owner, "@"+r.anna.handle+" one")
	gone := r.say(r.owner, "@"+r.anna.handle+" two")
	r.say(r.anna, "my own @"+r.anna.handle)
	r.owner.delete("/messages/" + gone.ID).want(http.StatusNoContent)
	states := r.anna.snapshot().ReadStates
	require.Len(t, states, 1)
	require.EqualValues(t, 1, states[0].UnreadCount)
	require.EqualValues(t, 1, states[0].MentionCount)
	require.Zero(t, states[0].LastReadSeq, "the server does not advance it on sending")
	r.anna.put("/read-states/"+r.thread, wire.PutReadState{LastReadSeq: 3}).want(http.StatusOK)
	require.Empty(t, r.anna.snapshot().ReadStates, "WS-4 threads with unread messages only")
}

func caseDrafts(t *trial) {
	r := t.room()
	one, two := r.devices()
	path := "/drafts/" + r.thread
	first := read[wire.Draft](r.anna.put(path, wire.PutDraft{ContentMD: "a"}), http.StatusOK)
	require.False(t, first.OverwroteNewer)
	second := read[wire.Draft](two.p.put(path, wire.PutDraft{ContentMD: "b", BaseVersion: &first.Version}), http.StatusOK)
	require.False(t, second.OverwroteNewer)
	require.Equal(t, first.Version+1, second.Version)
	third := read[wire.Draft](r.anna.put(path, wire.PutDraft{ContentMD: "c", BaseVersion: &first.Version}), http.StatusOK)
	require.True(t, third.OverwroteNewer)
	var texts, devices []string
	for _, event := range only(one.settled(), "draft.updated") {
		draft := payload[wire.DraftEvent](t, event).Draft
		require.False(t, draft.OverwroteNewer, "only in the answer")
		texts, devices = append(texts, draft.ContentMD), append(devices, draft.UpdatedByDeviceID)
	}
	require.Equal(t, []string{"a", "b", "c"}, texts)
	require.Equal(t, []string{r.anna.device, two.p.device, r.anna.device}, devices)
	require.Equal(t, third.Version, r.anna.snapshot().DraftVersions[r.thread])
}

func caseDraftEnds(t *trial) {
	r := t.room()
	s := r.anna.connect()
	path := "/drafts/" + r.thread
	r.anna.put(path, wire.PutDraft{ContentMD: "a"}).want(http.StatusOK)
	empty := read[wire.Draft](r.anna.put(path, wire.PutDraft{ContentMD: " \n "}), http.StatusOK)
	require.Empty(t, strings.TrimSpace(empty.ContentMD))
	require.Equal(t, []string{"draft.updated", "draft.deleted"}, types(s.settled()))
	r.anna.get(path).refused(code.NotFound)
	r.anna.put(path, wire.PutDraft{ContentMD: "b", FileIDs: []string{newID()}}).want(http.StatusOK)
	in := wire.NewMessage{ClientMsgID: newID(), ContentMD: "sent", ClearDraft: true}
	r.anna.post("/threads/"+r.thread+"/messages", in).want(http.StatusCreated)
	require.ElementsMatch(t, []string{"draft.updated", "message.created", "draft.deleted"}, types(s.settled()))
	r.anna.get(path).refused(code.NotFound)
	many := make([]string, 11)
	for i := range many {
		many[i] = newID()
	}
	r.anna.put(path, wire.PutDraft{ContentMD: "b", FileIDs: many}).refused(code.ValidationFailed)
}

func caseSettings(t *trial) {
	r := t.room()
	_, two := r.devices()
	one := read[wire.Setting](r.anna.put("/settings/a", object{"value": 1}), http.StatusOK)
	r.anna.put("/settings/b", object{"value": object{"x": []string{"y"}}}).want(http.StatusOK)
	again := read[wire.Setting](two.p.put("/settings/a", object{"value": 2}), http.StatusOK)
	require.Greater(t, again.Version, one.Version)
	r.anna.delete("/settings/a").want(http.StatusNoContent)
	events := only(two.settled(), "settings.updated")
	require.Len(t, events, 4)
	last := payload[wire.SettingEvent](t, events[3]).Setting
	require.True(t, last.Deleted)
	require.Greater(t, last.Version, again.Version)
	require.Equal(t, r.anna.device, last.UpdatedByDeviceID)
	r.anna.get("/settings/a").refused(code.NotFound)
	require.JSONEq(t, `{"x":["y"]}`, string(read[wire.Setting](r.anna.get("/settings/b"), http.StatusOK).Value))
}

func caseSidebar(t *trial) {
	r := t.room()
	_, two := r.devices()
	path := "/spaces/" + r.space.ID + "/sidebar"
	r.anna.put(path, object{"state": object{"order": []int{1, 2}}}).want(http.StatusOK)
	last := read[wire.Sidebar](r.anna.put(path, object{"state": object{"order": []int{2, 1}}}), http.StatusOK)
	events := only(two.settled(), "sidebar.updated")
	require.Len(t, events, 2)
	require.Equal(t, wire.Resource{Kind: "space", ID: r.space.ID}, events[1].Resource)
	require.Equal(t, last, payload[wire.SidebarEvent](t, events[1]).Sidebar)
	require.Equal(t, []wire.Sidebar{last}, r.anna.snapshot().Sidebar)
}

func caseNotification(t *trial) {
	r := t.room()
	_, two := r.devices()
	path := "/notification-prefs/channel/" + r.channel.ID
	r.anna.put(path, wire.PutNotificationPref{Level: "none"}).want(http.StatusOK)
	last := read[wire.NotificationPref](r.anna.put(path, wire.PutNotificationPref{Level: "mentions"}), http.StatusOK)
	quiet := wire.PutQuietHours{Timezone: "Europe/Berlin", Days: []string{"mon", "tue"}, From: "22:00", To: "07:00"}
	hours := read[wire.QuietHours](r.anna.put("/quiet-hours", quiet), http.StatusOK)
	events := two.settled()
	require.Equal(t, []string{"notification_pref.updated", "notification_pref.updated", "quiet_hours.updated"}, types(events))
	require.Equal(t, last, payload[wire.NotificationPrefEvent](t, events[1]).NotificationPref)
	require.Equal(t, hours, payload[wire.QuietHoursEvent](t, events[2]).QuietHours)
	quiet.Timezone = "Nowhere/Never"
	r.anna.put("/quiet-hours", quiet).refused(code.ValidationFailed)
}

func casePersonalLists(t *trial) {
	r := t.room()
	r.say(r.owner, "x")
	r.anna.put("/drafts/"+r.thread, wire.PutDraft{ContentMD: "kept"}).want(http.StatusOK)
	r.anna.put("/read-states/"+r.thread, wire.PutReadState{LastReadSeq: 1}).want(http.StatusOK)
	count := func() (int, int) {
		drafts := read[wire.Page[wire.Draft]](r.anna.get("/drafts"), http.StatusOK).Items
		states := read[wire.Page[wire.ReadState]](r.anna.get("/read-states"), http.StatusOK).Items
		require.Len(t, r.anna.snapshot().DraftVersions, len(drafts))
		return len(drafts), len(states)
	}
	drafts, states := count()
	require.Equal(t, 1, drafts)
	require.Equal(t, 1, states)
	r.revoke(r.annas())
	drafts, states = count()
	require.Zero(t, drafts+states)
	r.grant(r.anna, wire.LevelWrite)
	drafts, states = count()
	require.Equal(t, 2, drafts+states)
}
