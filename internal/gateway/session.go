package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/cairnsync/cairn/internal/conn"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/gateway/protocol"
	"github.com/cairnsync/cairn/internal/identity/signin"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// sink is the outbound side of a connection (conn.Stream).
type sink interface {
	Run(on conn.Handler)
	Send(b *conn.Block)
	SendMany(blocks []*conn.Block)
	Offer(b *conn.Block) bool
	Room(ctx context.Context) error
	Close(c code.Close, reason string)
}

// session is one connection. What a delivery touches comes first.
type session struct {
	stream sink

	// Guarded by the gateway's mu.
	from     int64    // events up to it are not for this connection
	out      []*event // what waits, for the end of the delivery or of the catch-up
	told     int64    // the client knows that everything up to it was checked
	over     bool     // nothing more is sent
	catching bool     // events wait for the end of the catch-up
	quiet    bool     // its catch-up is none that the client asked for
	p        *principal
	hears    hearing           // set before the connection joins
	focus    map[string]string // threads, with their channels

	g   *Gateway
	url string // of the upgrade

	mu    sync.Mutex // guards state and nonce; taken after the gateway's
	state protocol.State
	nonce string // the proof of the next token has to name it

	// Set before the connection joins, never changed after it.
	id         string // of the gateway session
	connection string // who holds it
	device     string // under which there is one connection
	caller     signin.Caller
	// revocations is how many wake-ups about credentials there were before the caller was authenticated.
	revocations int64
}

// receive takes one frame of the client.
func (s *session) receive(text []byte) {
	op, rejection := protocol.Decode(text)
	if rejection != nil {
		s.step(protocol.Rejected{Rejection: *rejection})
		return
	}
	s.step(protocol.Received{Op: op})
}

// step lets the connection's state machine take something in, and does what it asks for.
func (s *session) step(in protocol.Input) {
	s.mu.Lock()
	state, effects := protocol.Step(s.g.machine, s.state, s.g.Env.Now(), in)
	s.state = state
	s.mu.Unlock()
	for _, effect := range effects {
		s.do(effect)
	}
}

func (s *session) do(effect protocol.Effect) {
	switch effect := effect.(type) {
	case protocol.Close:
		s.close(effect.Code, effect.Reason)
	case protocol.Refuse:
		s.stream.Send(blockOf(wire.OpError, effect.Failed))
	case protocol.Enter:
		s.enter(effect)
	case protocol.Acknowledge:
		s.acknowledge(effect.Ref)
	case protocol.AskReauth:
		s.askReauth(effect.Expires)
	case protocol.Renew:
		s.renew(effect.Reauth)
	case protocol.SetFocus:
		s.setFocus(effect.Focus)
	case protocol.Type:
		s.typing(effect)
	}
}

// close ends the connection with a code.
func (s *session) close(c code.Close, reason string) {
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	s.end(c, reason)
}

// end is close with the gateway's mutex held.
func (s *session) end(c code.Close, reason string) {
	s.over, s.out = true, nil
	s.mu.Lock()
	s.state, _ = protocol.Step(s.g.machine, s.state, s.g.Env.Now(), protocol.Closed{})
	s.mu.Unlock()
	s.stream.Close(c, reason)
}

// gone is the end of the connection.
func (s *session) gone() {
	g := s.g
	g.mu.Lock()
	s.over, s.out = true, nil
	delete(g.sessions, s)
	joined := s.p != nil
	if joined {
		g.part(s)
	}
	g.mu.Unlock()
	s.step(protocol.Closed{})
	if joined {
		g.rows.ended(s)
	}
}

// acknowledge answers a heartbeat, behind how far the client was checked, and lets the database say whether the device
// has a newer connection.
func (s *session) acknowledge(ref string) {
	g := s.g
	g.mu.Lock()
	if s.p != nil && !s.catching && !s.over && s.told < g.head {
		g.tell(s, cursorBlock(g.head))
	}
	g.mu.Unlock()
	s.stream.Send(blockOf(wire.OpHeartbeatAck, wire.HeartbeatAck{Ref: ref}))
	g.rows.beat(s)
}

func (s *session) askReauth(expires time.Time) {
	nonce := s.g.Auth.Nonce()
	s.mu.Lock()
	s.nonce = nonce
	s.mu.Unlock()
	s.stream.Send(blockOf(wire.OpReauthRequired, wire.ReauthRequired{ExpiresAt: expires.UTC(), DPoPNonce: nonce}))
}

// renew looks at a new token (ES-6.3.6). A bad one is an error, the deadline stands; one that was revoked ends the
// connection.
func (s *session) renew(reauth wire.Reauth) {
	ctx, cancel := context.WithTimeout(s.g.ctx, enterPatience)
	defer cancel()
	caller, err := s.g.Auth.AuthenticateGateway(ctx, signin.GatewayRequest{
		AccessToken: reauth.AccessToken, DPoP: reauth.DPoP, DeviceID: s.caller.Device, Nonce: s.currentNonce(), URL: s.url,
	})
	if err == nil && (caller.Principal != s.caller.Principal || caller.SignIn != s.caller.SignIn) {
		err = fault.New(code.InvalidToken, "The token is of another sign-in.")
	}
	switch {
	case err == nil:
		s.step(protocol.Renewed{Expires: caller.ExpiresAt})
	case signin.Revoked(err):
		s.close(code.CloseRevoked, "The sign-in was revoked.")
	default:
		s.refuse(wire.OpReauth, reauth.Ref, err)
	}
}

func (s *session) currentNonce() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nonce
}

// refuse answers an op with an error.
func (s *session) refuse(op, ref string, err error) {
	refusal := fault.From(err)
	if refusal.Code == code.InternalError {
		s.g.Log.Error("gateway: cannot serve op", "op", op, "error", err)
	}
	s.stream.Send(blockOf(wire.OpError, wire.OpFailed{Op: op, Code: string(refusal.Code), Detail: refusal.Message, Ref: ref}))
}
