package sessions

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func pushCases() []testCase {
	return []testCase{
		{rule: "SS-PRS-1", name: "attention, beside driving", ours: true, run: caseAttention},
		{rule: "SS-PRS-1", name: "attention of an SSE stream by its query", ours: true, run: caseAttentionSSE},
		{rule: "SS-SES-4", name: "what the caller wants to be pushed about", ours: true, run: caseNotify},
		{rule: "SS-E2E-2", name: "the recipient that a device publishes", ours: true, run: caseRecipient},
		{rule: "SS-DSP-3", name: "what became of a dispatch's push", ours: true, run: casePushes},
		{rule: "SS-DSP-3", name: "an ask and the end of a turn are pushed to people", ours: true, run: casePushToPeople},
	}
}

// presenceOf answers what presence says of a device; the case ends when it says nothing.
func (r *room) presenceOf(u *caller) wire.Presence {
	entries := r.detail(r.owner).Presence
	i := slices.IndexFunc(entries, func(p wire.Presence) bool { return p.DeviceID == u.device })
	require.GreaterOrEqual(r.t, i, 0, "the device is there")
	return entries[i]
}

func caseAttention(t *trial) {
	r := t.room()
	viewer := r.viewer()
	watch := openWebSocket(r.owner, r, "").live()
	first, second := openWebSocket(viewer, r, "").live(), openWebSocket(viewer, r, "").live()
	is := func(driving, attention bool) {
		watch.next(wire.FramePresence, presenceFrame(viewer.device, true), func(f frame) bool {
			member(t, f.data, "attention")
			present := presenceOf(t, f)
			return present.Driving == driving && present.Attention == attention
		})
		present := r.presenceOf(viewer)
		require.Equal(t, []bool{driving, attention}, []bool{present.Driving, present.Attention})
	}
	is(false, false)
	requireAck(t, first.ask(object{"t": "presence", "attention": true}))
	is(false, true)
	requireAck(t, first.ask(object{"t": "presence", "driving": true}))
	is(true, true)
	requireAck(t, first.ask(object{"t": "presence", "driving": false}))
	is(false, true)
	requireAck(t, second.ask(object{"t": "presence", "attention": true, "driving": true}))
	is(true, true)
	first.close()
	requireAck(t, second.ask(object{"t": "presence", "driving": false}))
	is(false, true)
	second.close()
	watch.next(wire.FramePresence, presenceFrame(viewer.device, false))
	last := openWebSocket(viewer, r, "").live()
	is(false, false)
	refusedFrame(t, last.ask(object{"t": "presence"}), code.BadRequest)
	refusedFrame(t, last.ask(object{"t": "presence", "attention": "yes"}), code.BadRequest)
}

func caseAttentionSSE(t *trial) {
	r := t.room()
	viewer := r.viewer()
	plain := openSSE(viewer, r, "").live()
	require.False(t, r.presenceOf(viewer).Attention)
	attentive := openSSE(viewer, r, "?attention=1").live()
	t.Eventually(patience, "attention if any connection has it", func() bool { return r.presenceOf(viewer).Attention })
	attentive.close()
	t.Eventually(patience, "attention ends with its stream", func() bool { return !r.presenceOf(viewer).Attention })
	plain.close()
}

func (r *room) notify(u *caller, body object) *answer {
	return u.do(http.MethodPut, r.path("/notify"), body)
}

func caseNotify(t *trial) {
	r := t.room()
	viewer := r.viewer()
	require.Equal(t, wire.NotifyAll, r.detail(viewer).Notify)
	for _, notify := range []wire.Notify{wire.NotifyAsks, wire.NotifyNone, wire.NotifyAll, wire.NotifyAsks} {
		a := r.notify(viewer, object{"notify": notify}).want(200).has("session_id", "notify")
		require.JSONEq(t, fmt.Sprintf(`{"session_id":%q,"notify":%q}`, r.session.ID, notify), string(a.body))
		require.Equal(t, notify, r.detail(viewer).Notify)
	}
	require.Equal(t, wire.NotifyAll, r.detail(r.owner).Notify, "for oneself only")
	require.Equal(t, wire.NotifyAsks, r.detail(viewer.anotherDevice()).Notify, "for the person, not the device")
	for _, body := range []object{{}, {"notify": nil}, {"notify": ""}, {"notify": "some"}, {"notify": 1}} {
		r.notify(viewer, body).bad("notify")
	}
	visitor := r.link(t.stranger(), wire.RoleViewer)
	r.notify(visitor, object{"notify": "none"}).want(200)
	r.notify(t.editor(), object{"notify": "none"}).refused(code.NotAMember)
	r.notify(viewer.on(""), object{"notify": "none"}).refused(code.BadRequest)
}

func caseRecipient(t *trial) {
	r := t.room()
	recipient := "age1" + strings.Repeat("q", 58)
	other := "age1" + strings.Repeat("p", 58)
	published := func(capabilities ...string) string {
		r.owner.patch("/v1/devices/"+r.owner.device, object{"capabilities": capabilities}).want(200)
		return r.owner.among(memberOf(r.detail(r.owner), r.owner.userID).Devices).Recipient
	}
	r.owner.get("/v1/devices").want(200)
	require.Empty(t, published("screen"))
	require.Equal(t, recipient, published("screen", recipient, other))
	require.Equal(t, other, published(recipient[:61], strings.ToUpper(recipient), recipient[:61]+"b", "x"+recipient[1:], other))
	require.Empty(t, published("age1"))
}

var pushFields = []string{"id", "type", "device_id", "user_id", "state", "attempts", "created_at", "updated_at", "reason?"}

// pushes reads what became of the session's pushes, and checks its form.
func (r *room) pushes(u *caller) []wire.Push {
	var read struct{ Pushes []wire.Push }
	a := u.get(r.path("/pushes")).want(200).has("pushes")
	a.into(&read)
	for _, push := range list(r.t, a.body, "pushes") {
		requireFields(r.t, push, "a push", plus(pushFields, "control_id?", "seq?")...)
		requireTimes(r.t, push, "created_at", "updated_at")
	}
	return read.Pushes
}

func casePushes(t *trial) {
	r := t.room()
	target, editor := r.target(), r.editor()
	require.Empty(t, r.pushes(r.owner))
	first, second := r.dispatched(r.owner, target.device, nil), r.dispatched(editor, target.device, nil)
	pushes := r.pushes(editor)
	require.Len(t, pushes, 2)
	for i, control := range []string{second, first} {
		push := pushes[i]
		require.Equal(t, control, value(push.ControlID), "newest first")
		require.Equal(t, wire.PushDispatch, push.Type)
		require.Equal(t, []string{target.device, r.owner.userID}, []string{push.DeviceID, push.UserID})
		require.Equal(t, wire.PushFailed, push.State)
		require.Equal(t, wire.PushNoPushToken, push.Reason)
		require.Nil(t, push.Seq)
	}
	r.viewer().get(r.path("/pushes")).refused(code.NotAMember)
	t.stranger().get(r.path("/pushes")).refused(code.NotAMember)
	r.owner.on("").get(r.path("/pushes")).want(200)
}

func casePushToPeople(t *trial) {
	r := t.room().executed()
	reader := r.owner.anotherDevice()
	reader.get("/v1/devices").want(200)
	reader.patch("/v1/devices/"+reader.device, object{"push_token": "conformance-" + newID()}).want(200)
	receipt := r.append(r.owner, event("turn_start"), event(wire.KindTurnEnd))
	told := func(seq int64, kind wire.PushType) wire.Push {
		pushes := r.pushes(r.owner)
		i := slices.IndexFunc(pushes, func(p wire.Push) bool { return p.Seq != nil && *p.Seq == seq })
		require.GreaterOrEqual(t, i, 0, "a push for event %d", seq)
		require.Equal(t, []string{reader.device, r.owner.userID, string(kind)}, []string{pushes[i].DeviceID, pushes[i].UserID, string(pushes[i].Type)})
		require.Nil(t, pushes[i].ControlID)
		return pushes[i]
	}
	told(receipt.LastSeq, wire.PushTurnEnd)
	receipt = r.append(r.owner, event(wire.KindAsk))
	told(receipt.LastSeq, wire.PushAsk)
	r.notify(reader, object{"notify": "none"}).want(200)
	receipt = r.append(r.owner, event(wire.KindAsk))
	push := told(receipt.LastSeq, wire.PushAsk)
	require.Equal(t, wire.PushSkipped, push.State)
	require.Equal(t, wire.PushNotify, push.Reason)
	r.notify(reader, object{"notify": "all"}).want(200)
	openSSE(reader, r, "?attention=1").live()
	receipt = r.append(r.owner, event(wire.KindTurnEnd))
	push = told(receipt.LastSeq, wire.PushTurnEnd)
	require.Equal(t, []any{wire.PushSkipped, wire.PushAttention}, []any{push.State, push.Reason})
}
