package sessions

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/conformance/rulebook"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func presenceCases() []testCase {
	return slices.Concat(
		bothWays(testCase{rule: "SS-PRS-1", name: "joining and leaving publish frames"}, caseJoinLeave),
		bothWays(testCase{rule: "SS-PRS-1", name: "several connections of one device are one entry"}, caseOneEntry),
		[]testCase{
			{rule: "SS-PRS-1", name: "driving if any connection says so", run: caseDriving},
			{rule: "SS-PRS-1", name: "executor follows the lease, the role is the highest", run: casePresenceRole},
		},
	)
}

func caseJoinLeave(t *trial, o opener) {
	r := t.room()
	viewer := r.viewer()
	watch := openSSE(r.owner, r, "").live()
	joined := o.open(viewer, r, "").live()
	present := presenceOf(t, watch.next(wire.FramePresence, presenceFrame(viewer.device, true)))
	require.Equal(t, viewer.userID, present.UserID)
	require.Equal(t, wire.RoleViewer, present.Role)
	require.False(t, present.Executor)
	require.False(t, present.Driving)
	require.WithinDuration(t, serverTime(t, r.owner.get(r.path(""))), milliseconds(present.LastSeen), patience)
	require.Len(t, r.detail(r.owner).Presence, 2)
	joined.close()
	watch.next(wire.FramePresence, presenceFrame(viewer.device, false))
	require.Len(t, r.detail(r.owner).Presence, 1)
	require.Equal(t, r.owner.device, r.detail(viewer).Presence[0].DeviceID)
}

func caseOneEntry(t *trial, o opener) {
	r := t.room()
	viewer := r.viewer()
	watch := openSSE(r.owner, r, "").live()
	first, second := o.open(viewer, r, "").live(), openWebSocket(viewer, r, "").live()
	watch.next(wire.FramePresence, presenceFrame(viewer.device, true))
	t.Eventually(patience, "owner and viewer are two entries", func() bool { return len(r.detail(r.owner).Presence) == 2 })
	first.close()
	second.drives(true)
	driven := func(f frame) bool { return presenceOf(t, f).Driving }
	watch.next(wire.FramePresence, presenceFrame(viewer.device, true), driven)
	require.Len(t, r.detail(r.owner).Presence, 2, "one connection is left")
	second.close()
	watch.next(wire.FramePresence, presenceFrame(viewer.device, false))
	gone := 0
	for _, f := range watch.past {
		if f.name == wire.FramePresence && presenceFrame(viewer.device, false)(f) {
			gone++
		}
	}
	require.Equal(t, 1, gone, "only the last one that ends says so")
	t.Eventually(patience, "the entry is gone", func() bool { return len(r.detail(r.owner).Presence) == 1 })
}

func caseDriving(t *trial) {
	r := t.room()
	viewer := r.viewer()
	watch := openWebSocket(r.owner, r, "").live()
	first, second := openWebSocket(viewer, r, "").live(), openWebSocket(viewer, r, "").live()
	driving := func(want bool) func(frame) bool {
		return func(f frame) bool { return presenceOf(t, f).Driving == want }
	}
	is := func(want bool) {
		watch.next(wire.FramePresence, presenceFrame(viewer.device, true), driving(want))
		entries := r.detail(r.owner).Presence
		i := slices.IndexFunc(entries, func(p wire.Presence) bool { return p.DeviceID == viewer.device })
		require.Equal(t, want, entries[i].Driving)
	}
	is(false)
	first.send(object{"t": "presence", "driving": true})
	is(true)
	second.drives(true)
	first.drives(false)
	entries := r.detail(r.owner).Presence
	require.True(t, entries[slices.IndexFunc(entries, func(p wire.Presence) bool { return p.DeviceID == viewer.device })].Driving)
	second.close()
	is(false)
}

func casePresenceRole(t *trial) {
	r := t.room()
	watch := openSSE(r.owner, r, "").live()
	watch.next(wire.FramePresence, presenceFrame(r.owner.device, true))
	r.claim(r.owner)
	executes := func(want bool) func(frame) bool {
		return func(f frame) bool { return presenceOf(t, f).Executor == want }
	}
	t.Eventually(patience, "the entry says executor", func() bool { return r.detail(r.owner).Presence[0].Executor })
	newcomer := openSSE(r.viewer(), r, "")
	newcomer.next(wire.FramePresence, presenceFrame(r.owner.device, true), executes(true))
	r.owner.delete(r.path("/lease")).want(200)
	require.False(t, r.detail(r.owner).Presence[0].Executor && r.detail(r.owner).Presence[0].DeviceID == r.owner.device)
	visitor := t.stranger()
	openSSE(r.link(visitor, wire.RoleViewer), r, "").live()
	openSSE(r.link(visitor, wire.RoleEditor), r, "").live()
	t.Eventually(patience, "the highest role of the connections", func() bool {
		for _, present := range r.detail(r.owner).Presence {
			if present.DeviceID == visitor.device {
				return present.Role == wire.RoleEditor
			}
		}
		return false
	})
}

// drives says over a socket whether its user drives, and waits until the server took it in.
func (f *feed) drives(driving bool) {
	got := f.ask(object{"t": "presence", "driving": driving})
	require.Equal(f.t, wire.FrameAck, got.name, rulebook.Shorten(string(got.data)))
}
