package workspace

import (
	"net/http"

	wire "github.com/cairnsync/cairn/wire/workspace"
)

// proven makes the proof of an identify, resume or reauth (ES-6.3.3).
func (s *socket) proven(nonce string) string {
	return sign(s.p.key, proof{
		method: http.MethodGet, url: s.node + api + "/gateway", nonce: nonce, token: s.p.held().AccessToken,
	})
}

// identity is a good identify, with a cursor where there is one.
func (s *socket) identity(cursor ...int64) wire.Identify {
	in := wire.Identify{
		AccessToken: s.p.held().AccessToken, DPoP: s.proven(s.hello.DPoPNonce), DeviceID: s.p.device,
		ProtocolVersion: wire.ProtocolVersion, Client: &wire.ClientInfo{Platform: "test", Version: "1"},
	}
	for _, at := range cursor {
		in.Cursor, in.SyncEpoch = &at, s.hello.SyncEpoch
	}
	return in
}

// identify identifies and reads ready.
func (s *socket) identify(in wire.Identify) *socket {
	s.send(wire.OpIdentify, in)
	s.ready = body[wire.Ready](s, s.expect(wire.OpReady))
	if in.Cursor == nil {
		s.seq = s.ready.HeadSeq
	}
	return s
}

// connect is live from now on.
func (p *person) connect() *socket {
	s := p.dial()
	return s.identify(s.identity())
}

// catchUp connects with a cursor.
func (p *person) catchUp(cursor int64) *socket {
	s := p.dial()
	s.seq = cursor
	return s.identify(s.identity(cursor))
}

// resumption is a good resume of an earlier connection's gateway session.
func (s *socket) resumption(session string, cursor int64) wire.Resume {
	return wire.Resume{
		GatewaySessionID: session, AccessToken: s.p.held().AccessToken, DPoP: s.proven(s.hello.DPoPNonce),
		Cursor: cursor, SyncEpoch: s.hello.SyncEpoch,
	}
}

// resume goes on with the gateway session of an earlier connection.
func (p *person) resume(session string, cursor int64) (*socket, wire.Resumed) {
	s := p.dial()
	s.seq = cursor
	s.send(wire.OpResume, s.resumption(session, cursor))
	return s, body[wire.Resumed](s, s.expect(wire.OpResumed))
}

// completed reads the events of catching up until it is complete.
func (s *socket) completed() (events []wire.Envelope, head int64) {
	for {
		frame := s.next()
		switch frame.Op {
		case wire.OpCursor, wire.OpReauthRequired:
		case wire.OpDispatch:
			events = append(events, body[wire.Envelope](s, frame))
		default:
			if frame.Op != wire.OpCatchupComplete {
				s.t.Errorf("catching up got %s %s; the connection had: %s", frame.Op, frame.D, s.told())
				s.t.FailNow()
			}
			return events, body[wire.CatchupComplete](s, frame).HeadSeq
		}
	}
}

// focus puts threads into focus and waits until it is applied.
func (s *socket) focus(threads ...string) {
	s.send(wire.OpFocus, wire.Focus{ThreadIDs: threads})
	s.acknowledged()
}
