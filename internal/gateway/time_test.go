package gateway

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/conn"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/gateway/protocol"
	"github.com/cairnsync/cairn/internal/identity/signin"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// watched is a connection without a socket.
type watched struct {
	drain

	mu     sync.Mutex
	sent   []time.Time // when something was sent
	closed code.Close
	at     time.Time // when it was closed
}

func (w *watched) Send(*conn.Block) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, time.Now())
}

func (w *watched) Close(c code.Close, _ string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed == 0 {
		w.closed, w.at = c, time.Now()
	}
}

type nonces struct{}

func (nonces) Nonce() string { return "nonce" }
func (nonces) AuthenticateGateway(context.Context, signin.GatewayRequest) (signin.Caller, error) {
	return signin.Caller{}, nil
}

// The times of ES-18 to the tick, on a clock that costs nothing.
func TestTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := New(Options{Env: env.Real(), Log: slog.New(slog.DiscardHandler), Auth: nonces{}})
		g.placed.known = true
		g.work.Go(g.watch)
		defer func() { g.cancel(); g.work.Wait() }()
		begin := time.Now()
		connect := func(expires time.Duration) (*session, *watched) {
			w := &watched{}
			s := g.greet(w, "")
			if expires > 0 {
				s.step(protocol.Received{Op: protocol.Op{Name: wire.OpIdentify, Body: &wire.Identify{}}}) // refused: the version
				s.state = protocol.State{Phase: protocol.Entering, Since: begin}
				w.closed = 0
				s.step(protocol.Entered{Person: true, Expires: begin.Add(expires)})
			}
			return s, w
		}
		_, silent := connect(0)
		_, mute := connect(time.Hour)
		beating, short := connect(5 * time.Minute)
		beats := time.NewTicker(30 * time.Second)
		defer beats.Stop()
		for range 20 {
			<-beats.C
			beating.mu.Lock()
			beating.state, _ = protocol.Step(g.machine, beating.state, time.Now(), protocol.Received{Op: protocol.Op{Name: wire.OpHeartbeat, Body: &wire.Heartbeat{}}})
			beating.mu.Unlock()
		}
		tick := g.Limits.resolution()
		require.Equal(t, code.CloseNotIdentified, silent.closed, "ES-6.3.3")
		require.WithinRange(t, silent.at, begin.Add(10*time.Second), begin.Add(10*time.Second+tick))
		require.Equal(t, code.CloseHeartbeat, mute.closed, "ES-6.3.5")
		require.WithinRange(t, mute.at, begin.Add(time.Minute), begin.Add(time.Minute+tick))
		require.Equal(t, code.CloseTokenExpired, short.closed, "ES-6.3.6")
		require.WithinRange(t, short.at, begin.Add(5*time.Minute), begin.Add(5*time.Minute+tick))
		require.Len(t, short.sent, 2, "hello and one reauth_required")
		require.WithinRange(t, short.sent[1], begin.Add(4*time.Minute), begin.Add(4*time.Minute+tick))
	})
}
