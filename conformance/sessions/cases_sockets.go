package sessions

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/conformance/rulebook"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func socketCases() []testCase {
	return []testCase{
		{rule: "SS-STR-5", name: "a control is acknowledged like its route", run: caseSocketControl},
		{rule: "SS-STR-5", name: "events are acknowledged like their route", run: caseSocketEvents},
		{rule: "SS-STR-5", name: "refusals carry details and leave the socket open", run: caseSocketRefusals},
		{rule: "SS-STR-5", name: "an unknown t or no JSON is an error", run: caseSocketNonsense},
		{rule: "SS-STR-5", name: "roles hold on the socket", run: caseSocketRoles},
		{rule: "SS-STR-5", name: "without a ref there is no ack", run: caseSocketNoRef},
		{rule: "SS-STR-5", name: "a message over the limit closes with 1009", run: caseSocketTooBig},
	}
}

func browserCases() []testCase {
	return []testCase{
		{rule: "SS-STR-6", name: "key and device come as subprotocols", ours: true, run: caseBrowser},
		{rule: "SS-STR-6", name: "a browser is refused by close code", ours: true, run: caseBrowserRefused},
		{rule: "SS-STR-6", name: "a foreign origin is refused", ours: true, run: caseBrowserOrigin},
	}
}

func requireAck(t *trial, f frame, fields ...string) []byte {
	require.Equal(t, wire.FrameAck, f.name, rulebook.Shorten(string(f.data)))
	requireFields(t, f.data, "ack", plus(fields, "v", "t", "ref")...)
	require.JSONEq(t, `1`, string(member(t, f.data, "v")))
	return f.data
}

func caseSocketControl(t *trial) {
	r := t.room()
	editor := r.editor()
	socket := openWebSocket(editor, r, "").live()
	for _, duplicate := range []bool{false, true} {
		ack := requireAck(t, socket.ask(object{"t": "control", "id": "ctl-1", "kind": "steer", "text": "left"}), "accepted", "seq", "duplicate")
		require.JSONEq(t, fmt.Sprint(duplicate), string(member(t, ack, "duplicate")))
		require.JSONEq(t, `1`, string(member(t, ack, "seq")))
	}
	stored := r.all()
	require.Len(t, stored, 1)
	require.Equal(t, editor.device, stored[0].SenderDeviceID)
	a := editor.post(r.path("/control"), object{"id": "ctl-1", "kind": "steer"}).want(200)
	require.JSONEq(t, `true`, string(member(t, a.body, "duplicate")), "the same key over HTTP")
}

func caseSocketEvents(t *trial) {
	r := t.room().executed()
	socket := openWebSocket(r.owner, r, "").live()
	events := batch(3)
	ack := requireAck(t, socket.ask(object{"t": "events", "events": events, "expected_last_seq": 0}), "last_seq", "accepted", "events")
	require.JSONEq(t, `3`, string(member(t, ack, "accepted")))
	require.Len(t, list(t, ack, "events"), 3)
	ack = requireAck(t, socket.ask(object{"t": "events", "events": events}), "last_seq", "accepted", "events")
	require.JSONEq(t, `0`, string(member(t, ack, "accepted")))
	require.Len(t, r.all(), 3)
}

func caseSocketRefusals(t *trial) {
	r := t.room()
	socket := openWebSocket(r.owner, r, "").live()
	one := func() object { return object{"t": "events", "events": batch(1)} }
	body := refusedFrame(t, socket.ask(one()), code.LeaseHeld)
	require.Equal(t, heldByNobody, body.Message)
	holder := r.target()
	r.claim(holder)
	body = refusedFrame(t, socket.ask(one()), code.LeaseHeld)
	require.JSONEq(t, fmt.Sprintf(`{"holder_device_id":%q}`, holder.device), string(body.Details))
	r.owner.post(r.path("/lease"), object{"force": true}).want(200)
	conflicting := one()
	conflicting["expected_last_seq"] = 9
	body = refusedFrame(t, socket.ask(conflicting), code.SeqConflict)
	require.JSONEq(t, `{"last_seq":1}`, string(body.Details))
	body = refusedFrame(t, socket.ask(object{"t": "control", "id": "", "kind": "fly"}), code.BadRequest)
	var fields wire.FieldErrors
	require.NoError(t, decode(body.Details, &fields))
	require.NotEmpty(t, fields.FieldErrors["id"])
	require.NotEmpty(t, fields.FieldErrors["kind"])
	refusedFrame(t, socket.ask(object{"t": "events", "events": batch(201)}), code.BadRequest)
	requireAck(t, socket.ask(one()), "last_seq", "accepted", "events")
}

func caseSocketNonsense(t *trial) {
	r := t.room().executed()
	socket := openWebSocket(r.owner, r, "").live()
	refusedFrame(t, socket.ask(object{"t": "fly"}), code.BadRequest)
	refusedFrame(t, socket.ask(object{"kind": "send"}), code.BadRequest)
	for _, message := range []string{`{`, `nonsense`, `[]`, `7`, `null`, `{"t":7}`, `{"t":"events","events":[{"kind":"x","payload":{"a":01}}]}`, ``} {
		socket.send(message)
		refused := socket.next(wire.FrameError)
		require.NotContains(t, members(t, refused.data), "ref", "%q", message)
		refusedFrame(t, refused, code.BadRequest)
	}
	requireAck(t, socket.ask(object{"t": "events", "events": batch(1)}), "last_seq", "accepted", "events")
	require.Len(t, r.all(), 1)
}

func caseSocketRoles(t *trial) {
	r := t.room().executed()
	viewer := openWebSocket(r.viewer(), r, "").live()
	refusedFrame(t, viewer.ask(object{"t": "control", "id": newID(), "kind": "send"}), code.NotAMember)
	refusedFrame(t, viewer.ask(object{"t": "events", "events": batch(1)}), code.LeaseHeld)
	editor := openWebSocket(r.link(t.stranger(), wire.RoleEditor), r, "").live()
	requireAck(t, editor.ask(object{"t": "control", "id": newID(), "kind": "send"}), "accepted", "seq", "duplicate")
	viewer.next(wire.FrameEvent, eventKind(wire.KindControl))
	require.Len(t, r.all(), 1)
}

func caseSocketNoRef(t *trial) {
	r := t.room().executed()
	socket := openWebSocket(r.owner, r, "").live()
	socket.send(object{"t": "events", "events": batch(1)})
	socket.send(object{"t": "control", "id": newID(), "kind": "send"})
	socket.send(object{"t": "presence", "driving": true})
	socket.ask(object{"t": "events", "events": batch(1)})
	acks := 0
	for _, f := range socket.past {
		require.NotEqual(t, wire.FrameError, f.name, "%s", f.data)
		if f.name == wire.FrameAck {
			acks++
		}
	}
	require.Equal(t, 1, acks)
	require.Len(t, r.all(), 3, "what has no ref is done all the same")
}

func caseSocketTooBig(t *trial) {
	r := t.room().executed()
	socket := openWebSocket(r.owner, r, "").live()
	large := object{"t": "events", "events": []object{{"kind": "big", "payload": object{"text": strings.Repeat("a", 4<<20)}}}}
	requireAck(t, socket.ask(large), "last_seq", "accepted", "events")
	huge := `{"t":"events","events":[{"kind":"big","payload":{"text":"` + strings.Repeat("a", 13<<20) + `"}}]}`
	_ = socket.write([]byte(huge)) // the server may hang up while it is written
	end, _ := socket.ended(patience)
	require.Equal(t, int(code.CloseTooBig), end.code, "%v", end.err)
	require.Len(t, r.all(), 1)
}

func caseBrowser(t *trial) {
	r := t.room().executed()
	u := r.viewer()
	socket := openSocket(u, r.path("/ws"), u.browser())
	require.Equal(t, wire.Subprotocol, socket.subproto, "the key is not sent back")
	socket.live()
	r.append(r.owner, event("user"))
	socket.next(wire.FrameEvent)
	require.Equal(t, wire.PlatformWeb, u.self().Platform)
}

func caseBrowserRefused(t *trial) {
	r := t.room()
	u := r.owner
	bearer, device := wire.SubprotocolBearer+u.key, wire.SubprotocolDevice+u.device
	stranger, viewer := t.stranger(), t.viewer()
	for _, refusal := range []struct {
		name    string
		path    string
		options *websocket.DialOptions
		want    code.Close
	}{
		{"unknown key", r.path("/ws"), u.browser(wire.Subprotocol, wire.SubprotocolBearer+"codai_"+newID(), device), code.CloseBadKey},
		{"no key", r.path("/ws"), u.browser(wire.Subprotocol, device), code.CloseBadKey},
		{"no device", r.path("/ws"), u.browser(wire.Subprotocol, bearer), code.CloseBadRequest},
		{"no UUID", r.path("/ws"), u.browser(wire.Subprotocol, bearer, wire.SubprotocolDevice+"x"), code.CloseBadRequest},
		{"no role", r.path("/ws"), stranger.browser(), code.CloseNoAccess},
		{"foreign device", r.path("/ws"), viewer.on(u.device).browser(), code.CloseNoAccess},
		{"no session", "/v1/sessions/" + newID() + "/ws", u.browser(), code.CloseNotFound},
	} {
		socket := openSocket(u, refusal.path, refusal.options)
		end, frames := socket.ended(patience)
		require.Equal(t, int(refusal.want), end.code, "%s: %v", refusal.name, end.err)
		for _, f := range frames {
			require.NotContains(t, []string{wire.FrameEvent, wire.FrameLease, wire.FramePresence}, f.name, refusal.name)
		}
	}
}

func caseBrowserOrigin(t *trial) {
	r := t.room()
	foreign := r.owner.browser()
	foreign.HTTPHeader = http.Header{"Origin": {"https://elsewhere.invalid"}}
	connection, response, err := r.owner.dial(t.Context(), r.path("/ws"), foreign)
	if err != nil {
		require.NotNil(t, response)
		require.Equal(t, http.StatusForbidden, response.StatusCode)
		return
	}
	_, _, err = connection.Read(t.Context())
	require.EqualValues(t, code.CloseNoAccess, websocket.CloseStatus(err), "%v", err)
}
