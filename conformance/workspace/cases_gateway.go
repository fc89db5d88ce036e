package workspace

import (
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func gatewayCases() []testCase {
	return []testCase{
		{rule: "ES-6.1", name: "discovery, hello and the document name the same protocol versions", run: caseVersions},
		{rule: "ES-6.1", name: "a device holds one connection, the newer one", run: caseOneConnection},
		{rule: "ES-6.2", name: "a failed op is an error and the connection stays", run: caseOpFails},
		{rule: "ES-6.2", name: "a ref comes back with the error", run: caseRef},
		{rule: "ES-6.2", name: "ops of agents are not for people", run: caseAgentOps},
		{rule: "ES-6.2", name: "both lists of focus together are bounded, and the focus before stays", profile: small, run: caseFocusBound},
		{rule: "ES-6.3.1", name: "the upgrade asks for nothing but a good origin", run: caseUpgrade},
		{rule: "ES-6.3.2", name: "hello says what a client needs", run: caseHello},
		{rule: "ES-6.3.3", name: "the proof is bound to the nonce, the address and the token", run: caseIdentifyProof},
		{rule: "ES-6.3.4", name: "ready with a snapshot of what one sees", run: caseReady},
		{rule: "ES-6.3.4", name: "nothing is lost between ready and what is live", run: caseReadyRace},
		{rule: "ES-6.3.5", name: "heartbeats keep a connection", profile: beating, slow: true, run: caseHeartbeats},
		{rule: "ES-6.3.6", name: "reauth_required, and reauth with a refreshed token goes on", profile: fleeting, slow: true, run: caseReauth},
		{rule: "ES-6.3.7", name: "resume restores the focus and catches up", run: caseResume},
		{rule: "ES-6.3.7", name: "a gateway session is its device's own", run: caseResumeForeign},
		{rule: "ES-6.3.8", name: "a client ends with 1000", run: caseEnd},
	}
}

func caseVersions(t *trial) {
	p := t.newPerson("", "nobody")
	discovery := read[wire.Discovery](p.exchange(http.MethodGet, api, nil, nil), http.StatusOK)
	hello := t.owner().dial().hello
	require.Equal(t, discovery.ProtocolVersions, hello.ProtocolVersions)
	require.Equal(t, discovery.SyncEpoch, hello.SyncEpoch)
	require.Contains(t, hello.ProtocolVersions, wire.ProtocolVersion)
	require.Equal(t, api+"/gateway", discovery.GatewayPath)
	text, err := t.suite.document(t.Context(), t.in, "asyncapi.yaml")
	require.NoError(t, err)
	_, versions, found := strings.Cut(text, "x-protocol-versions:")
	require.True(t, found, "info.x-protocol-versions")
	require.Regexp(t, `^\s*(\[1\]|- 1\b)`, versions)
}

func caseOneConnection(t *trial) {
	r := t.room()
	older := r.anna.connect()
	other := r.anna.another().connect()
	newer := r.anna.connect()
	older.closed(code.CloseDeviceReplaced)
	newest, _ := r.anna.resume(newer.ready.GatewaySessionID, newer.ready.HeadSeq)
	newer.closed(code.CloseDeviceReplaced)
	other.acknowledged()
	newest.completed()
	newest.acknowledged()
}

func caseOpFails(t *trial) {
	r := t.room()
	s := r.anna.connect()
	hidden := r.newChannel(wire.ChannelText)
	s.send(wire.OpTypingStart, wire.Typing{ThreadID: hidden.MainThreadID})
	s.refused(wire.OpTypingStart, code.NotFound)
	s.send(wire.OpTypingStart, wire.Typing{ThreadID: "no id"})
	s.refused(wire.OpTypingStart, code.ValidationFailed)
	s.acknowledged()
}

func caseRef(t *trial) {
	r := t.room()
	s := r.anna.connect()
	s.send(wire.OpFocus, wire.Focus{ThreadIDs: []string{"no id"}, Ref: "seven"})
	require.Equal(t, "seven", s.refused(wire.OpFocus, code.ValidationFailed).Ref)
}

func caseAgentOps(t *trial) {
	s := t.room().anna.connect()
	for _, op := range []string{"ack", "run.update", "command.autocomplete_result"} {
		s.text(`{"op":"` + op + `","d":{"ref":"r"}}`)
		failed := body[wire.OpFailed](s, s.expect(wire.OpError))
		require.Equal(t, op, failed.Op)
		require.Contains(t, []string{string(code.UnknownOp), string(code.NotImplementedForKind), string(code.ValidationFailed), string(code.Forbidden)}, failed.Code)
	}
	s.acknowledged()
}

func caseFocusBound(t *trial) {
	r := t.room()
	ben := r.joined(wire.LevelWrite)
	s := r.anna.connect()
	s.focus(r.thread)
	s.send(wire.OpFocus, wire.Focus{ThreadIDs: []string{newID(), newID()}, BackgroundThreadIDs: []string{newID(), newID()}})
	s.refused(wire.OpFocus, code.ValidationFailed)
	ben.connect().send(wire.OpTypingStart, wire.Typing{ThreadID: r.thread})
	s.await("typing.started")
	two, three := r.start(r.anna, r.channel.ID, "two").Thread.ID, r.start(r.anna, r.channel.ID, "three").Thread.ID
	s.send(wire.OpFocus, wire.Focus{ThreadIDs: []string{r.thread, two}, BackgroundThreadIDs: []string{r.thread, three}})
	s.acknowledged() // a thread in both lists counts once
}

func caseUpgrade(t *trial) {
	p := t.newPerson("", "nobody")
	require.NotEmpty(t, p.dial().hello.DPoPNonce, "without any credential")
	options := &websocket.DialOptions{HTTPClient: t.suite.client, HTTPHeader: http.Header{"Origin": {"https://elsewhere.example"}}}
	connection, response, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(p.node(), "http")+api+"/gateway", options)
	if err == nil {
		_ = connection.CloseNow()
	}
	require.Error(t, err, "a foreign origin")
	require.NotNil(t, response)
	require.Equal(t, http.StatusForbidden, response.StatusCode)
}

func caseHello(t *trial) {
	p := t.newPerson("", "nobody")
	one, two := p.dial().hello, p.dial().hello
	require.Positive(t, one.HeartbeatIntervalMS)
	require.Positive(t, one.ResumeWindowMS)
	require.NotEqual(t, one.DPoPNonce, two.DPoPNonce, "a fresh nonce")
	require.WithinDuration(t, time.Now(), one.ServerTime, 10*time.Minute)
	require.Equal(t, one.SyncEpoch, two.SyncEpoch)
}

func caseIdentifyProof(t *trial) {
	r := t.room()
	access := r.anna.held().AccessToken
	for name, change := range map[string]func(s *socket, p *proof){
		"another connection's nonce is good too, but not none": func(_ *socket, p *proof) { p.nonce = "" },
		"a nonce nobody made": func(_ *socket, p *proof) { p.nonce = "x" },
		"another address":     func(s *socket, p *proof) { p.url = s.node + api + "/me" },
		"another method":      func(_ *socket, p *proof) { p.method = http.MethodPost },
		"another token":       func(_ *socket, p *proof) { p.token = "x" },
	} {
		s := r.anna.dial()
		good := proof{method: http.MethodGet, url: s.node + api + "/gateway", nonce: s.hello.DPoPNonce, token: access}
		change(s, &good)
		in := s.identity()
		in.DPoP = sign(r.anna.key, good)
		s.send(wire.OpIdentify, in)
		s.closed(code.CloseAuthentication)
		t.Remember(name)
	}
	s := r.anna.dial()
	in := s.identity()
	s.identify(in)
	again := r.anna.dialAt(s.node, t.suite.client)
	again.send(wire.OpIdentify, in)
	again.closed(code.CloseAuthentication)
}

func caseReady(t *trial) {
	r := t.room()
	hidden := r.newChannel(wire.ChannelText)
	r.say(r.owner, "hello @"+r.anna.handle)
	s := r.anna.connect()
	require.Equal(t, r.anna.id, s.ready.Principal.ID)
	require.Equal(t, r.anna.device, s.ready.DeviceID)
	require.Equal(t, s.hello.SyncEpoch, s.ready.SyncEpoch)
	require.Positive(t, s.ready.PermissionVersion)
	snapshot := s.ready.Snapshot
	require.NotNil(t, snapshot)
	require.Equal(t, s.ready.HeadSeq, snapshot.HeadSeq)
	require.Len(t, snapshot.Spaces, 1)
	require.Len(t, snapshot.Channels, 1)
	require.Equal(t, r.channel.ID, snapshot.Channels[0].ID)
	require.NotEqual(t, hidden.ID, snapshot.Channels[0].ID)
	require.Len(t, snapshot.ReadStates, 1)
	require.EqualValues(t, 1, snapshot.ReadStates[0].UnreadCount)
	require.EqualValues(t, 1, snapshot.ReadStates[0].MentionCount)
	require.Contains(t, snapshot.Access, wire.Access{Kind: wire.TargetChannel, ID: r.channel.ID, Level: wire.LevelWrite})
}

func caseReadyRace(t *trial) {
	r := t.room()
	ben := r.joined(wire.LevelWrite)
	stop, stopped := make(chan struct{}), make(chan []wire.Message, 1)
	go func() {
		var sent []wire.Message
		for {
			select {
			case <-stop:
				stopped <- sent
				return
			default:
			}
			var message wire.Message
			a := ben.post("/threads/"+r.thread+"/messages", wire.NewMessage{ClientMsgID: newID(), ContentMD: "x"})
			if a.failure == nil && decode(a.body, &message) == nil {
				sent = append(sent, message)
			}
		}
	}()
	s := r.anna.dial()
	s.identify(s.identity())
	first := s.await("message.created")
	close(stop)
	sent := <-stopped
	begin := payload[wire.MessageEvent](t, first).Message.ThreadSeq
	if unread := s.ready.Snapshot.ReadStates; len(unread) > 0 {
		require.Equal(t, unread[0].UnreadCount+1, begin, "what is in the snapshot does not come again, what is not comes")
	}
	got := begin
	for _, event := range only(s.settled(), "message.created") {
		got++
		require.Equal(t, got, payload[wire.MessageEvent](t, event).Message.ThreadSeq, "no gap")
	}
	require.EqualValues(t, len(sent), got)
}

func caseHeartbeats(t *trial) {
	s := t.owner().connect()
	interval := time.Duration(s.hello.HeartbeatIntervalMS) * time.Millisecond
	beats := time.NewTicker(interval / 4)
	defer beats.Stop()
	for began := time.Now(); time.Since(began) < 3*interval; <-beats.C {
		s.send(wire.OpHeartbeat, wire.Heartbeat{LastSeq: s.seq})
	}
	require.NoError(t, s.ended())
}

func caseReauth(t *trial) {
	p := t.member(t.owner())
	s := p.connect()
	asked := body[wire.ReauthRequired](s, s.expect(wire.OpReauthRequired))
	require.NotEmpty(t, asked.DPoPNonce)
	s.send(wire.OpReauth, wire.Reauth{AccessToken: "x", DPoP: s.proven(asked.DPoPNonce), Ref: "bad"})
	require.Equal(t, "bad", body[wire.OpFailed](s, s.expect(wire.OpError)).Ref, "WS-4 a bad reauth is an error, the deadline stands")
	p.refresh().want(http.StatusOK)
	s.send(wire.OpReauth, wire.Reauth{AccessToken: p.held().AccessToken, DPoP: s.proven(asked.DPoPNonce)})
	next := body[wire.ReauthRequired](s, s.expect(wire.OpReauthRequired))
	require.True(t, next.ExpiresAt.After(asked.ExpiresAt), "the new token's end is asked for, so it counts")
	s.closed(code.CloseTokenExpired)
}

func caseResume(t *trial) {
	r := t.room()
	ben := r.joined(wire.LevelWrite)
	s := r.anna.connect()
	s.focus(r.thread)
	cursor := s.settledSeq()
	s.cut()
	r.say(ben, "missed")
	again, resumed := r.anna.resume(s.ready.GatewaySessionID, cursor)
	require.Equal(t, s.ready.GatewaySessionID, resumed.GatewaySessionID)
	require.Equal(t, s.hello.SyncEpoch, resumed.SyncEpoch)
	require.Positive(t, resumed.PermissionVersion)
	events, head := again.completed()
	require.Equal(t, []string{"message.created"}, types(only(events, "message.created")))
	require.GreaterOrEqual(t, head, events[len(events)-1].Seq)
	ben.connect().send(wire.OpTypingStart, wire.Typing{ThreadID: r.thread})
	again.await("typing.started")
}

func caseResumeForeign(t *trial) {
	r := t.room()
	annas := r.anna.connect()
	other := r.anna.another()
	for _, p := range []*person{other, r.owner} {
		s := p.dial()
		s.send(wire.OpResume, s.resumption(annas.ready.GatewaySessionID, annas.ready.HeadSeq))
		s.closed(code.CloseSessionInvalid)
	}
	annas.acknowledged()
}

func caseEnd(t *trial) {
	p := t.owner()
	s := p.connect()
	require.NoError(t, s.ws.Close(websocket.StatusNormalClosure, "bye"), "the server answers the close")
	again, _ := p.resume(s.ready.GatewaySessionID, s.ready.HeadSeq)
	again.completed()
}
