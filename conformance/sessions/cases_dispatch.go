package sessions

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/conformance/rulebook"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func dispatchCases() []testCase {
	return []testCase{
		{rule: "SS-DSP-1", name: "a dispatch, field by field", run: caseDispatch},
		{rule: "SS-DSP-1", name: "the target must be a device of the owner", run: caseDispatchTarget},
		{rule: "SS-DSP-1", name: "again is 200 duplicate without a push", run: caseDispatchAgain},
		{rule: "SS-DSP-2", name: "open carries no text, send needs one", run: caseDispatchOpen},
		{rule: "SS-DSP-3", name: "a push that cannot be sent never fails the request", run: caseDispatchPush},
		{rule: "SS-DSP-4", name: "the inbox of a device", run: caseInbox},
		{rule: "SS-DSP-4", name: "the inbox is cut at limit", run: caseInboxLimit},
		{rule: "SS-DSP-4", name: "200 by default and 500 at most", run: caseInboxMaximum},
		{rule: "SS-DSP-4", name: "wait answers as soon as there is something", ours: true, run: caseInboxWait},
	}
}

// target is another device of the owner, known to the server.
func (r *room) target() *caller {
	u := r.owner.anotherDevice()
	u.get("/v1/sessions").want(200)
	return u
}

func caseDispatch(t *trial) {
	r := t.room()
	target, editor := r.target(), r.editor()
	a := r.dispatch(editor, target.device, object{"text": "run", "turn_id": "t-9"}).want(202).
		has("control_id", "seq", "target_device_id", "mode", "queued", "pushed", "duplicate", "push_reason")
	var receipt wire.DispatchReceipt
	a.into(&receipt)
	id, found := strings.CutPrefix(receipt.ControlID, "dispatch:")
	require.True(t, found, receipt.ControlID)
	require.Regexp(t, serverUUID, id)
	receipt.ControlID = ""
	require.Equal(t, wire.DispatchReceipt{
		Seq: 1, TargetDeviceID: target.device, Mode: wire.ModeSend, Queued: true, PushReason: wire.PushNoPushToken,
	}, receipt)
	echo := r.all()[0]
	require.Equal(t, wire.KindControl, echo.Kind)
	require.Equal(t, editor.device, echo.SenderDeviceID)
	control := member(t, echo.Payload, "control")
	requireFields(t, control, "the control of a send dispatch", controlFields...)
	require.JSONEq(t, fmt.Sprintf("%q", target.device), string(member(t, control, "target_device_id")))
	require.JSONEq(t, `"send"`, string(member(t, control, "kind")))
	require.JSONEq(t, `"run"`, string(member(t, control, "text")))
	require.JSONEq(t, `"t-9"`, string(member(t, control, "turn_id")))
	require.Nil(t, r.detail(r.owner).Lease, "a dispatch never touches the lease")
}

const noTarget = "Target device not found for this session."

func caseDispatchTarget(t *trial) {
	r := t.room()
	editor := r.editor()
	editor.get("/v1/sessions").want(200)
	r.dispatch(editor, editor.device, nil).refused(code.NotFound, noTarget)
	r.dispatch(r.owner, editor.device, nil).refused(code.NotFound, noTarget)
	r.dispatch(r.owner, newID(), nil).refused(code.NotFound, noTarget)
	deleted := r.target()
	r.owner.delete("/v1/devices/" + deleted.device).want(200)
	r.dispatch(r.owner, deleted.device, nil).refused(code.NotFound, noTarget)
	require.Empty(t, r.all())
	r.dispatch(editor, r.owner.device, nil).want(202)
	r.owner.post("/v1/sessions/"+newID()+"/dispatch", object{"device_id": r.owner.device, "text": "x"}).refused(code.NotFound)
}

func caseDispatchAgain(t *trial) {
	r := t.room()
	target := r.target()
	more := object{"control_id": "d-1"}
	r.dispatch(r.owner, target.device, more).want(202)
	a := r.dispatch(r.owner, target.device, more).want(200).
		has("control_id", "seq", "target_device_id", "mode", "queued", "pushed", "duplicate")
	require.JSONEq(t, fmt.Sprintf(`{"control_id":"d-1","seq":1,"target_device_id":%q,"mode":"send","queued":true,
		"pushed":false,"duplicate":true}`, target.device), string(a.body))
	answers := rulebook.Concurrently(8, func(int) *answer { return r.dispatch(r.owner, target.device, object{"control_id": "d-2"}) })
	require.Equal(t, map[int]int{202: 1, 200: 7}, statuses(answers))
	require.Len(t, r.all(), 2)
}

func caseDispatchOpen(t *trial) {
	r := t.room()
	target := r.target()
	a := r.dispatch(r.owner, target.device, object{"mode": "open", "text": "ignored", "turn_id": "ignored"}).want(202)
	require.JSONEq(t, `"open"`, string(member(t, a.body, "mode")))
	r.owner.post(r.path("/dispatch"), object{"device_id": target.device, "mode": "open"}).want(202)
	for _, control := range append(list(t, r.owner.get(r.path("/controls")).want(200).body, "controls"),
		member(t, r.all()[0].Payload, "control"),
		list(t, list(t, target.get("/v1/devices/me/dispatch").want(200).body, "sessions")[0], "controls")[0],
	) {
		requireFields(t, control, "an open handoff", plus(controlFields, "mode")...)
		require.JSONEq(t, `"open"`, string(member(t, control, "mode")))
		require.JSONEq(t, `"send"`, string(member(t, control, "kind")))
		require.JSONEq(t, `null`, string(member(t, control, "text")))
		require.JSONEq(t, `null`, string(member(t, control, "turn_id")))
	}
	r.owner.post(r.path("/dispatch"), object{"device_id": target.device}).bad("text")
	r.owner.post(r.path("/dispatch"), object{"device_id": target.device, "mode": "send"}).bad("text")
	r.owner.post(r.path("/dispatch"), object{"device_id": target.device, "mode": "close", "text": "x"}).bad("mode")
	r.owner.post(r.path("/dispatch"), object{"text": "x"}).bad("device_id")
	explicit := r.dispatch(r.owner, target.device, object{"mode": "send"}).want(202)
	require.JSONEq(t, `"send"`, string(member(t, explicit.body, "mode")))
	require.Len(t, r.all(), 3)
}

func caseDispatchPush(t *trial) {
	r := t.room()
	target := r.target()
	target.patch("/v1/devices/"+target.device, object{"push_token": "conformance-" + newID()}).want(200)
	began := time.Now()
	a := r.dispatch(r.owner, target.device, nil).want(202)
	require.Less(t, time.Since(began), 8*time.Second, "one attempt, 5 s at most")
	var receipt wire.DispatchReceipt
	a.into(&receipt)
	if !receipt.Pushed {
		require.Regexp(t, `^(no_token|auth_failed|network_error|unregistered|http_\d{3})$`, string(receipt.PushReason))
	} else {
		require.Empty(t, receipt.PushReason)
	}
	require.Equal(t, receipt.PushReason != wire.PushUnregistered, target.self().HasPushToken, "unregistered clears the token")
	require.Len(t, r.controls("?target="+target.device), 1, "the control is durable anyway")
}

func (u *caller) inbox(query string) wire.Inbox {
	var inbox wire.Inbox
	u.get("/v1/devices/me/dispatch"+query).want(200).has("device_id", "sessions").into(&inbox)
	return inbox
}

func caseInbox(t *trial) {
	r := t.roomWith(object{"title": "inbox", "session_key": "inbox " + newID()})
	target := r.target()
	require.Equal(t, wire.Inbox{DeviceID: target.device, Sessions: []wire.InboxSession{}}, target.inbox(""))
	first, second := r.dispatched(r.owner, target.device, nil), r.dispatched(r.editor(), target.device, nil)
	r.control(r.owner, wire.ControlSend)
	r.dispatched(r.owner, r.owner.device, nil)
	other := t.room()
	third := other.dispatched(other.owner, target.device, nil)
	a := target.get("/v1/devices/me/dispatch").want(200)
	for _, session := range list(t, a.body, "sessions") {
		requireFields(t, session, "a session of the inbox", "id", "session_key", "title", "controls")
		for _, control := range list(t, session, "controls") {
			requireFields(t, control, "a control of the inbox", controlFields...)
		}
	}
	found := map[string][]string{}
	for _, session := range target.inbox("").Sessions {
		found[session.ID] = ids(session.Controls)
	}
	require.Equal(t, map[string][]string{r.session.ID: {first, second}, other.session.ID: {third}}, found)
	r.claim(target)
	r.applied(target, first).want(200)
	other.owner.patch(other.path(""), object{"archived": true}).want(200)
	left := target.inbox("").Sessions
	require.Len(t, left, 1, "unarchived sessions only")
	require.Equal(t, []string{second}, ids(left[0].Controls), "pending controls only")
	target.on("").get("/v1/devices/me/dispatch").refused(code.BadRequest)
}

func caseInboxLimit(t *trial) {
	r := t.room()
	target := r.target()
	for range 5 {
		r.dispatched(r.owner, target.device, nil)
	}
	require.Equal(t, 3, target.waiting("?limit=3"))
	require.Equal(t, 5, target.waiting(""))
	require.Equal(t, 5, target.waiting("?limit=100000"))
	require.Equal(t, 5, target.waiting("?limit=abc"))
}

// waiting counts the controls of an inbox.
func (u *caller) waiting(query string) int {
	total := 0
	for _, session := range u.inbox(query).Sessions {
		total += len(session.Controls)
	}
	return total
}

func caseInboxMaximum(t *trial) {
	r := t.room()
	target := r.target()
	rulebook.Concurrently(6, func(int) *answer {
		for range 85 {
			r.dispatch(r.owner, target.device, nil)
		}
		return nil
	})
	require.EqualValues(t, 510, r.detail(r.owner).LastSeq)
	for query, most := range map[string]int{"": 200, "?limit=500": 500, "?limit=501": 500, "?limit=99999": 500} {
		require.Equal(t, most, target.waiting(query), "inbox%s", query)
	}
}

func caseInboxWait(t *trial) {
	r := t.room()
	target := r.target()
	began := time.Now()
	require.Empty(t, target.inbox("?wait=1").Sessions)
	require.GreaterOrEqual(t, time.Since(began), 900*time.Millisecond)
	answers := rulebook.Concurrently(2, func(i int) *answer {
		if i == 0 {
			return target.get("/v1/devices/me/dispatch?wait=20")
		}
		return r.dispatch(r.owner, target.device, nil)
	})
	require.Equal(t, http.StatusAccepted, answers[1].status)
	require.Len(t, list(t, answers[0].want(200).body, "sessions"), 1)
	require.Less(t, time.Since(began), patience)
	began = time.Now()
	require.Len(t, target.inbox("?wait=20").Sessions, 1)
	require.Less(t, time.Since(began), patience, "what is there already is answered at once")
}
