package workspace

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/conformance/rulebook"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func closeCases() []testCase {
	cases := []testCase{
		{rule: "ES-6.4 4001", name: "an op nobody knows", run: closing(code.CloseUnknownOp, live(`{"op":"dance"}`))},
		{rule: "ES-6.4 4001", name: "an op nobody knows before identify", run: closing(code.CloseUnknownOp, text(`{"op":"dance"}`))},
		{rule: "ES-6.4 4002", name: "a binary frame", run: closing(code.CloseDecode, func(s *socket) { s.raw(websocket.MessageBinary, []byte(`{"op":"heartbeat"}`)) })},
		{rule: "ES-6.4 4002", name: "a frame over sync.ws_max_frame_bytes", profile: small, run: closing(code.CloseDecode, text(`{"op":"`+strings.Repeat("x", 17000)+`"}`))},
		{rule: "ES-6.4 4003", name: "an op before identify", run: closing(code.CloseNotIdentified, text(`{"op":"heartbeat","d":{"last_seq":0}}`))},
		{rule: "ES-6.4 4003", name: "no identify within sync.identify_timeout", profile: hasty, slow: true, run: closing(code.CloseNotIdentified, func(*socket) {})},
		{rule: "ES-6.4 4004", name: "a bad token", run: entering(code.CloseAuthentication, func(_ *socket, in *wire.Identify) { in.AccessToken += "x" })},
		{rule: "ES-6.4 4004", name: "no token", run: entering(code.CloseAuthentication, func(_ *socket, in *wire.Identify) { in.AccessToken = "" })},
		{rule: "ES-6.4 4004", name: "no proof", run: entering(code.CloseAuthentication, func(_ *socket, in *wire.Identify) { in.DPoP = "" })},
		{rule: "ES-6.4 4004", name: "device_id does not match", run: entering(code.CloseAuthentication, func(_ *socket, in *wire.Identify) { in.DeviceID = newID() })},
		{rule: "ES-6.4 4005", name: "identify twice", run: closeTwice},
		{rule: "ES-6.4 4006", name: "resume of what never was", run: closeUnknownSession},
		{rule: "ES-6.4 4006", name: "resume after sync.resume_window", profile: stale, run: closeLate},
		{rule: "ES-6.4 4007", name: "another protocol version", run: entering(code.CloseProtocolVersion, func(_ *socket, in *wire.Identify) { in.ProtocolVersion = 99 })},
		{rule: "ES-6.4 4008", name: "too many connections, with the seconds in the reason", profile: limited, run: closeLimited},
		{rule: "ES-6.4 4009", name: "heartbeats are missing", profile: beating, slow: true, run: closeSilent},
		{rule: "ES-6.4 4011", name: "an expired token at identify", profile: fleeting, slow: true, run: closeExpired},
		{rule: "ES-6.4 4011", name: "no reauth until the token ends", profile: fleeting, slow: true, run: closeUnrenewed},
		{rule: "ES-6.4 4012", name: "a signed-out session", run: closeSignedOut},
		{rule: "ES-6.4 4012", name: "a token of a revoked device at identify", run: closeRevokedAgain},
		{rule: "ES-6.4 4013", name: "a node that stops, and the session goes on", profile: restarted, slow: true, run: closeRestart},
		{rule: "ES-6.4 4014", name: "a client that does not read, which then catches up", profile: narrow, slow: true, run: closeSlow},
		{rule: "ES-6.4 4016", name: "a device that waits for approval", profile: approval, run: closePending},
		{rule: "ES-6.4 4017", name: "a newer connection of the device, through any node", run: closeReplaced},
		{rule: "ES-6.4 4018", name: "an api token without the scope", run: closeScope},
	}
	for _, bad := range []struct{ name, frame string }{
		{"no JSON", `hello`}, {"not UTF-8", "{\"op\":\"\xff\"}"}, {"a duplicate key", `{"op":"heartbeat","op":"heartbeat"}`},
		{"an unknown field", `{"op":"heartbeat","d":{"x":1}}`}, {"an unknown member of the frame", `{"op":"heartbeat","x":1}`},
		{"null", `{"op":"heartbeat","d":null}`},
	} {
		cases = append(cases, testCase{rule: "ES-6.4 4002", name: bad.name, run: closing(code.CloseDecode, live(bad.frame))})
	}
	return cases
}

// text sends a frame at once; live sends it when the connection is live.
func text(frame string) func(*socket) { return func(s *socket) { s.text(frame) } }

func live(frame string) func(*socket) {
	return func(s *socket) {
		s.identify(s.identity())
		s.text(frame)
	}
}

// closing makes a case: what is played ends with a code.
func closing(want code.Close, play func(*socket)) func(*trial) {
	return func(t *trial) {
		s := t.owner().dial()
		play(s)
		s.closed(want)
	}
}

// entering makes a case: an identify that is good but for one thing ends with a code.
func entering(want code.Close, change func(*socket, *wire.Identify)) func(*trial) {
	return closing(want, func(s *socket) {
		in := s.identity()
		change(s, &in)
		s.send(wire.OpIdentify, in)
	})
}

func closeTwice(t *trial) {
	s := t.owner().connect()
	s.send(wire.OpIdentify, s.identity())
	s.closed(code.CloseAlreadyIdentified)
	s = t.owner().connect()
	s.send(wire.OpResume, s.resumption(newID(), 0))
	s.closed(code.CloseAlreadyIdentified)
}

func closeUnknownSession(t *trial) {
	for _, session := range []string{newID(), "x"} {
		s := t.owner().dial()
		s.send(wire.OpResume, s.resumption(session, 0))
		s.closed(code.CloseSessionInvalid)
	}
}

// closeLate tries until the window of 10 ms has passed.
func closeLate(t *trial) {
	p := t.owner()
	s := p.connect()
	s.cut()
	t.Eventually(patience, "the window passes", func() bool {
		again := p.dial()
		again.send(wire.OpResume, again.resumption(s.ready.GatewaySessionID, s.ready.HeadSeq))
		frame, ok := again.take(patience)
		if ok {
			require.Equal(t, wire.OpResumed, frame.Op)
			again.cut()
			return false
		}
		again.closed(code.CloseSessionInvalid)
		return true
	})
	p.connect().acknowledged()
}

func closeLimited(t *trial) {
	p := t.owner()
	for range 20 {
		s := p.dialAt(t.in.Nodes()[0], t.suite.client)
		s.send(wire.OpIdentify, s.identity())
		if _, ok := s.take(patience); ok {
			continue
		}
		require.Regexp(t, `^[1-9][0-9]*$`, s.closed(code.CloseRateLimited))
		return
	}
	require.Fail(t, "20 times identify and no limit")
}

func closeSilent(t *trial) {
	s := t.owner().connect()
	began := time.Now()
	s.closed(code.CloseHeartbeat)
	missed := 2 * time.Duration(s.hello.HeartbeatIntervalMS) * time.Millisecond
	require.Greater(t, time.Since(began), missed/2, "not before sync.heartbeat_miss_limit of them are missing")
}

func closeExpired(t *trial) {
	p := t.member(t.owner())
	t.Eventually(patience, "the token ends", func() bool {
		a := p.get("/me")
		return a.status == http.StatusUnauthorized && strings.Contains(string(a.body), string(code.TokenExpired))
	})
	s := p.dial()
	s.send(wire.OpIdentify, s.identity())
	s.closed(code.CloseTokenExpired)
	p.refresh().want(http.StatusOK)
	p.connect().acknowledged()
}

func closeUnrenewed(t *trial) {
	p := t.member(t.owner())
	s := p.connect()
	s.expect(wire.OpReauthRequired)
	s.closed(code.CloseTokenExpired)
	p.refresh().want(http.StatusOK)
	again, _ := p.resume(s.ready.GatewaySessionID, s.ready.HeadSeq)
	again.completed()
}

func closeSignedOut(t *trial) {
	p := t.owner()
	s, other := p.connect(), p.another().connect()
	p.post("/auth/logout", object{}).want(http.StatusNoContent)
	s.closed(code.CloseRevoked)
	other.acknowledged()
	p.shutOut()
}

func closeRevokedAgain(t *trial) {
	p := t.owner()
	p.another().delete("/devices/" + p.device).want(http.StatusNoContent)
	s := p.dial()
	s.send(wire.OpIdentify, s.identity())
	s.closed(code.CloseRevoked)
}

func closeRestart(t *trial) {
	r := t.room()
	s, stranger := r.anna.connect(), r.anna.dial()
	require.NoError(t, t.in.operated().Restart(t.Context()))
	s.closed(code.CloseServerRestart)
	stranger.closed(code.CloseServerRestart)
	r.say(r.owner, "after the restart")
	again, resumed := r.anna.resume(s.ready.GatewaySessionID, s.ready.HeadSeq)
	require.Equal(t, s.ready.GatewaySessionID, resumed.GatewaySessionID, "the gateway session outlives its node")
	events, _ := again.completed()
	require.Len(t, only(events, "message.created"), 1)
}

// dialNarrow connects with a small receive buffer.
func dialNarrow(ctx context.Context, network, address string) (net.Conn, error) {
	connection, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if tcp, ok := connection.(*net.TCPConn); ok {
		err = tcp.SetReadBuffer(64 << 10)
	}
	return connection, err
}

// closeSlow reads nothing through a socket with a small window until the server has given up. A goodbye that comes too
// late to be read is no goodbye, so it tries again.
func closeSlow(t *trial) {
	r := t.room()
	transport := &http.Transport{DialContext: dialNarrow}
	defer transport.CloseIdleConnections()
	const writers, each = 8, 15
	text := strings.Repeat("€", 19000) // 57 kB in an event
	for range 3 {
		s := r.anna.dialAt(r.anna.node(), &http.Client{Transport: transport})
		s.identify(s.identity())
		s.pause()
		sent := rulebook.Concurrently(writers, func(int) (failed error) {
			for range each {
				a := r.owner.post("/threads/"+r.thread+"/messages", wire.NewMessage{ClientMsgID: newID(), ContentMD: text})
				failed = errors.Join(failed, a.failure)
			}
			return failed
		})
		require.NoError(t, errors.Join(sent...))
		s.proceed()
		if s.cutOff() {
			continue
		}
		s.closed(code.CloseSlowConsumer)
		again := r.anna.catchUp(s.ready.HeadSeq)
		events, _ := again.completed()
		require.Len(t, only(events, "message.created"), writers*each)
		return
	}
	t.NotSeen("the goodbye was never read in time")
}

// cutOff waits for the end of the connection and reports whether it came without a code.
func (s *socket) cutOff() bool {
	for {
		select {
		case _, open := <-s.frames:
			if !open {
				_, said := errors.AsType[websocket.CloseError](s.end)
				return !said
			}
		case <-s.t.Context().Done():
			return true
		}
	}
}

func closePending(t *trial) {
	p := t.owner()
	second := t.newPerson(p.id, p.handle)
	a := second.enter(nil)
	require.Equal(t, wire.DevicePending, read[wire.TokenAnswer](a, http.StatusOK).Device.State)
	s := second.dial()
	s.send(wire.OpIdentify, s.identity())
	s.closed(code.CloseDevicePending)
}

func closeReplaced(t *trial) {
	p := t.owner()
	nodes := t.in.Nodes()
	first := p.dialAt(nodes[0], t.suite.client)
	first.identify(first.identity())
	second := p.dialAt(nodes[len(nodes)-1], t.suite.client)
	second.identify(second.identity())
	first.closed(code.CloseDeviceReplaced)
	second.acknowledged()
}

func closeScope(t *trial) {
	owner := t.owner()
	handle := "app" + newID()[24:]
	app := read[wire.Principal](owner.post("/apps", wire.NewPrincipal{Handle: handle, DisplayName: "App"}), http.StatusCreated)
	made := read[wire.APITokenMade](owner.post("/apps/"+app.ID+"/tokens", wire.NewToken{Name: "t", Scopes: []string{"message.read"}}), http.StatusCreated)
	s := owner.dial()
	s.send(wire.OpIdentify, wire.Identify{APIToken: made.Token, ProtocolVersion: wire.ProtocolVersion})
	s.closed(code.CloseForbidden)
}
