package sessions

import (
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/conformance/rulebook"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func controlCases() []testCase {
	return []testCase{
		{rule: "SS-CTL-1", name: "202 once, then 200 with the first seq", run: caseControl},
		{rule: "SS-CTL-1", name: "one id sent many times at once is one control", run: caseConcurrentControl},
		{rule: "SS-CTL-1", name: "ids are per session", run: caseControlPerSession},
		{rule: "SS-CTL-2", name: "the echo event, field by field", run: caseEcho},
		{rule: "SS-CTL-2", name: "an executor's own control:x never meets the echo", run: caseEchoOutside},
		{rule: "SS-CTL-3", name: "nine kinds and no other", run: caseControlKinds},
		{rule: "SS-CTL-5", name: "the holder marks a control applied, once or more", run: caseApplied},
		{rule: "SS-CTL-5", name: "again is a no-op for its device after it lost the lease", run: caseAppliedAfterLoss},
		{rule: "SS-CTL-5", name: "the target of an open handoff needs no lease", run: caseAppliedOpen},
		{rule: "SS-CTL-5", name: "a control frame with applied: true follows", run: caseAppliedFrame},
	}
}

func caseControl(t *trial) {
	r := t.room()
	editor := r.editor()
	body := object{"id": "ctl-1", "kind": "steer", "text": "left", "turn_id": "t-1", "ask_id": "a-1"}
	a := editor.post(r.path("/control"), body).want(202)
	require.JSONEq(t, `{"accepted":true,"seq":1,"duplicate":false}`, string(a.body))
	r.control(r.owner, wire.ControlSend)
	for _, again := range []object{body, {"id": "ctl-1", "kind": "cancel"}, {"id": "ctl-1", "kind": "send", "text": "other"}} {
		for _, u := range []*caller{editor, r.owner} {
			a := u.post(r.path("/control"), again).want(200)
			require.JSONEq(t, `{"accepted":true,"seq":1,"duplicate":true}`, string(a.body))
		}
	}
	require.Len(t, r.all(), 2, "no new event")
	require.Len(t, r.controls(""), 2)
	require.Equal(t, wire.ControlSteer, r.controls("")[0].Kind)
}

func caseConcurrentControl(t *trial) {
	r := t.room()
	editor := r.editor()
	body := object{"id": newID(), "kind": "send", "text": "once"}
	answers := rulebook.Concurrently(12, func(i int) *answer {
		return []*caller{editor, r.owner}[i%2].post(r.path("/control"), body)
	})
	require.Equal(t, map[int]int{202: 1, 200: 11}, statuses(answers))
	for _, a := range answers {
		require.JSONEq(t, `1`, string(member(t, a.body, "seq")))
	}
	require.Len(t, r.all(), 1)
}

func caseControlPerSession(t *trial) {
	first, second := t.room(), t.room()
	body := object{"id": newID(), "kind": "pause"}
	first.owner.post(first.path("/control"), body).want(202)
	second.owner.post(second.path("/control"), body).want(202)
}

func caseEcho(t *trial) {
	r := t.room()
	editor := r.editor()
	editor.post(r.path("/control"), object{"id": "ctl-1", "kind": "answer", "text": "yes", "turn_id": "t-1", "ask_id": "a-1"}).want(202)
	editor.post(r.path("/control"), object{"id": "ctl-2", "kind": "pause"}).want(202)
	listed := list(t, r.owner.get(r.path("/controls")).want(200).has("controls").body, "controls")
	events := list(t, r.owner.get(r.path("/events")).want(200).body, "events")
	require.Len(t, events, 2)
	for i, id := range []string{"ctl-1", "ctl-2"} {
		requireFields(t, listed[i], "a control", controlFields...)
		requireFields(t, events[i], "the echo", eventFields...)
		var echo wire.Event
		require.NoError(t, decode(events[i], &echo))
		require.Equal(t, wire.KindControl, echo.Kind)
		require.Equal(t, "control:"+id, value(echo.ClientEventID))
		require.Equal(t, editor.device, echo.SenderDeviceID)
		requireFields(t, echo.Payload, "the echo's payload", "control", "applied")
		require.JSONEq(t, `false`, string(member(t, echo.Payload, "applied")))
		require.JSONEq(t, string(listed[i]), string(member(t, echo.Payload, "control")))
		requireTimes(t, listed[i], "created_at")
	}
	var control map[string]any
	require.NoError(t, decode(listed[0], &control))
	delete(control, "created_at")
	require.Equal(t, map[string]any{
		"id": "ctl-1", "kind": "answer", "text": "yes", "turn_id": "t-1", "ask_id": "a-1", "from_device_id": editor.device,
		"target_device_id": nil, "seq": 1.0, "applied": false,
	}, control)
	require.JSONEq(t, `null`, string(member(t, listed[1], "text")))
	require.JSONEq(t, `null`, string(member(t, listed[1], "turn_id")))
	require.JSONEq(t, `null`, string(member(t, listed[1], "ask_id")))
}

func caseEchoOutside(t *trial) {
	r := t.room().executed()
	ahead, behind := "a-"+newID(), "b-"+newID()
	own := func(id string) object { return object{"kind": "note", "client_event_id": "control:" + id} }
	require.Equal(t, 1, r.append(r.owner, own(ahead)).Accepted)
	a := r.owner.post(r.path("/control"), object{"id": ahead, "kind": "send"}).want(202)
	require.JSONEq(t, `2`, string(member(t, a.body, "seq")))
	r.owner.post(r.path("/control"), object{"id": behind, "kind": "send"}).want(202)
	receipt := r.append(r.owner, own(behind), own(ahead))
	require.Equal(t, 1, receipt.Accepted)
	require.Equal(t, []int64{4, 1}, []int64{receipt.Events[0].Seq, receipt.Events[1].Seq})
	require.Len(t, r.all(), 4)
}

func caseControlKinds(t *trial) {
	r := t.room()
	for _, kind := range wire.ControlKinds() {
		r.control(r.owner, kind)
	}
	require.Len(t, r.controls(""), 9)
	for _, kind := range []string{"", "Send", "stop", "send ", "lease"} {
		r.owner.post(r.path("/control"), object{"id": newID(), "kind": kind}).bad("kind")
	}
	require.Len(t, r.all(), 9)
}

func caseApplied(t *trial) {
	r := t.room().executed()
	id := "odd/id ?#" + newID()
	r.owner.post(r.path("/control"), object{"id": id, "kind": "send"}).want(202)
	for range 2 {
		a := r.applied(r.owner, id).want(200).has("id", "applied")
		require.JSONEq(t, fmt.Sprintf(`{"id":%q,"applied":true}`, id), string(a.body))
	}
	require.Empty(t, r.controls(""))
	require.True(t, r.controls("?applied=true")[0].Applied)
	require.Len(t, r.all(), 1, "applied is not an event")
	r.applied(r.owner, newID()).refused(code.NotFound)
	a := r.owner.post(r.path("/control"), object{"id": id, "kind": "send"}).want(200)
	require.JSONEq(t, `{"accepted":true,"seq":1,"duplicate":true}`, string(a.body))
	require.Empty(t, r.controls(""), "a repeated control stays applied")
}

func caseAppliedAfterLoss(t *trial) {
	r := t.room().executed()
	id, _ := r.control(r.owner, wire.ControlSend)
	pending, _ := r.control(r.owner, wire.ControlSend)
	r.applied(r.owner, id).want(200)
	r.owner.anotherDevice().post(r.path("/lease"), object{"force": true}).want(200)
	r.applied(r.owner, id).want(200)
	r.applied(r.owner, pending).refused(code.LeaseHeld)
	require.Equal(t, []string{pending}, ids(r.controls("")))
}

func caseAppliedOpen(t *trial) {
	r := t.room()
	target := r.owner.anotherDevice()
	target.get("/v1/sessions").want(200)
	open := r.dispatched(r.owner, target.device, object{"mode": "open"})
	send := r.dispatched(r.owner, target.device, nil)
	r.applied(r.owner, open).refused(code.LeaseHeld)
	r.applied(target, send).refused(code.LeaseHeld)
	r.applied(target, open).want(200)
	r.applied(target, open).want(200)
	r.claim(r.owner)
	another := r.dispatched(r.owner, target.device, object{"mode": "open"})
	r.applied(target, another).want(200)
	require.Equal(t, []string{send}, ids(r.controls("")))
}

// dispatched is a dispatch that must be accepted; it answers the id of its control.
func (r *room) dispatched(u *caller, device string, more object) string {
	var receipt wire.DispatchReceipt
	r.dispatch(u, device, more).want(202).into(&receipt)
	return receipt.ControlID
}

func caseAppliedFrame(t *trial) {
	r := t.room().executed()
	viewer := r.viewer()
	id, seq := r.control(r.owner, wire.ControlSend)
	var feeds []*feed
	for _, o := range transports() {
		feeds = append(feeds, o.open(viewer, r, "").live())
	}
	r.applied(r.owner, id).want(200)
	for _, f := range feeds {
		got := f.next(wire.FrameControl, controlFrame(id, true))
		require.JSONEq(t, fmt.Sprint(seq), string(member(t, got.data, "seq")))
		require.False(t, slices.ContainsFunc(f.past, func(other frame) bool {
			return other.name == wire.FrameControl && controlFrame(id, true)(other) && &other.data[0] != &got.data[0]
		}), "applied is said once")
	}
}
