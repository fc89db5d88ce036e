package sessions

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func streamCases() []testCase {
	return slices.Concat([]testCase{
		{rule: "SS-STR-1", name: "the headers of an event stream", run: caseStreamHeaders},
		{rule: "SS-STR-1", name: "who may not watch is refused before the stream begins", run: caseStreamRefused},
		{rule: "SS-STR-3", name: "event frames carry their seq as id", ours: true, run: caseEventIDs},
		{rule: "SS-STR-3", name: "Last-Event-ID counts when after is absent", ours: true, run: caseLastEventID},
		{rule: "SS-STR-4", name: "silence is broken by a ping comment after 15 s", slow: true, run: casePingComment},
		{rule: "SS-STR-4", name: "a socket that answers no ping ends", slow: true, run: caseNoPong},
	},
		bothWays(testCase{rule: "SS-STR-3", name: "frames, field by field"}, caseFrames),
	)
}

func caseStreamHeaders(t *trial) {
	r := t.room()
	response := r.viewer().requestSSE(t.Context(), r.path("/stream"), t.suite.client)
	defer response.Body.Close() //nolint:errcheck // only the headers count
	require.Equal(t, 200, response.StatusCode)
	require.Equal(t, "text/event-stream; charset=utf-8", strings.ToLower(response.Header.Get("Content-Type")))
	require.Contains(t, response.Header.Get("Cache-Control"), "no-cache")
	require.Equal(t, "no", response.Header.Get("X-Accel-Buffering"))
}

func caseStreamRefused(t *trial) {
	r := t.room()
	for _, path := range []string{"/stream", "/ws"} {
		refuse := func(u *caller) *answer {
			if path == "/ws" {
				return u.refusedSocket(r.path(path))
			}
			return u.refusedSSE(r.path(path))
		}
		refuse(r.owner.on("")).refused(code.BadRequest)
		refuse(t.stranger()).refused(code.NotAMember)
		refuse(t.stranger().on(r.owner.device)).refused(code.Forbidden)
		refuse(r.owner.withAuthorization("Bearer x")).refused(code.InvalidAPIKey)
	}
	openSSE(r.link(t.stranger(), wire.RoleViewer), r, "").live()
	token := r.share(object{"principal_type": "link"}).Token
	openWebSocket(t.stranger(), r, "?share="+token).live()
}

func caseFrames(t *trial, o opener) {
	r := t.room().executed()
	editor := r.editor()
	stream := o.open(r.viewer(), r, "").live()
	r.append(r.owner, object{"kind": "user", "turn_id": "t-1", "client_event_id": "c-1", "payload": object{"text": "hi"}})
	got := stream.next(wire.FrameEvent)
	requireFields(t, got.data, "event frame", o.frameFields(eventFields...)...)
	require.JSONEq(t, `1`, string(member(t, got.data, "v")))
	stored := list(t, r.owner.get(r.path("/events")).want(200).body, "events")[0]
	for _, field := range eventFields {
		require.JSONEq(t, string(member(t, stored, field)), string(member(t, got.data, field)), field)
	}
	id, seq := r.control(editor, wire.ControlSteer)
	echo := eventOf(t, stream.next(wire.FrameEvent, eventKind(wire.KindControl)))
	require.Equal(t, seq, echo.Seq)
	r.applied(r.owner, id).want(200)
	got = stream.next(wire.FrameControl, controlFrame(id, true))
	found := members(t, got.data)
	for _, field := range o.frameFields("id", "kind", "seq", "applied") {
		require.Contains(t, found, field)
	}
	require.JSONEq(t, fmt.Sprint(seq), string(found["seq"]))
	require.JSONEq(t, `"steer"`, string(found["kind"]))
	watcher := o.open(editor, r, "").live()
	got = stream.next(wire.FramePresence, presenceFrame(editor.device, true))
	requireFields(t, got.data, "presence frame", o.frameFields(plus(presenceFields, "online")...)...)
	watcher.close()
	stream.next(wire.FramePresence, presenceFrame(editor.device, false))
	for _, f := range stream.past {
		if f.name != "comment" {
			require.JSONEq(t, `1`, string(member(t, f.data, "v")), "every frame has v: 1")
		}
	}
}

func caseEventIDs(t *trial) {
	r := t.room().executed()
	r.fill(3)
	stream := openSSE(r.owner, r, "")
	for seq := 1; seq <= 4; seq++ {
		if seq == 4 {
			stream.live()
			r.fill(1)
		}
		got := stream.next(wire.FrameEvent)
		require.Equal(t, fmt.Sprint(seq), got.id)
		require.EqualValues(t, seq, eventOf(t, got).Seq)
	}
}

func caseLastEventID(t *trial) {
	r := t.room().executed()
	r.fill(5)
	resumed := openSSE(r.owner.with("Last-Event-ID", "3"), r, "")
	requireDense(t, 4, resumed.events(2))
	require.EqualValues(t, 3, openSSE(r.owner.with("Last-Event-ID", "4"), r, "?after=2").events(1)[0].Seq, "after wins")
	require.EqualValues(t, 1, openSSE(r.owner.with("Last-Event-ID", "abc"), r, "").events(1)[0].Seq)
}

const (
	pingAfter = 15 * time.Second
	pongGrace = 30 * time.Second
)

func casePingComment(t *trial) {
	r := t.room()
	stream := openSSE(r.owner, r, "").live()
	quiet := time.Now()
	got := stream.nextWithin(pingAfter+patience, "comment", func(f frame) bool { return strings.HasPrefix(string(f.data), "ping ") })
	require.Regexp(t, `^ping \d+$`, string(got.data))
	require.Greater(t, got.at.Sub(quiet), pingAfter-5*time.Second)
	r.claim(r.owner)
	stream.next(wire.FrameLease, heldBy(r.owner.device))
}

func caseNoPong(t *trial) {
	r := t.room()
	pinged := make(chan struct{}, 16)
	deaf := openSocket(r.owner, r.path("/ws"), &websocket.DialOptions{
		HTTPHeader: r.owner.header(),
		OnPingReceived: func(context.Context, []byte) bool {
			select {
			case pinged <- struct{}{}:
			default:
			}
			return false // no pong
		},
	})
	hears := openWebSocket(r.owner, r, "").live()
	deaf.ended(pingAfter + pongGrace + patience)
	select {
	case <-pinged:
	default:
		t.Errorf("the socket ended before any ping: %v", deaf.end.err)
	}
	_, seq := r.control(r.owner, wire.ControlSend)
	hears.next(wire.FrameEvent, func(f frame) bool { return eventOf(t, f).Seq == seq })
}
