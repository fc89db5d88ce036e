package conn

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/wire/code"
)

func TestClocks(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_800_000_000, 0)
	limits := Limits{}.withDefaults()
	fresh := clocks{opened: start, quiet: start, progress: start}
	cases := []struct {
		name    string
		change  func(*clocks)
		phase   phase
		waiting bool
		after   time.Duration
		want    due
	}{
		{"SS-STR-4 silence of 14 s", nil, phaseOpen, false, 14 * time.Second, dueNothing},
		{"SS-STR-4 silence of 15 s", nil, phaseOpen, false, 15 * time.Second, duePing},
		{"something was written", func(c *clocks) { c.wrote = true }, phaseOpen, false, 15 * time.Second, dueNothing},
		{"something waits", nil, phaseOpen, true, 15 * time.Second, dueNothing},
		{"nothing taken for 30 s", nil, phaseOpen, true, 30 * time.Second, dueCut},
		{"something taken", func(c *clocks) { c.wrote = true }, phaseOpen, true, 30 * time.Second, dueNothing},
		{"SS-STR-4 no pong for 29 s", func(c *clocks) { c.pinged = start }, phaseOpen, false, 29 * time.Second, duePing},
		{"SS-STR-4 no pong for 30 s", func(c *clocks) { c.pinged = start }, phaseOpen, false, 30 * time.Second, dueLost},
		{"SS-STR-4 30 min old", nil, phaseOpen, false, 30 * time.Minute, dueAge},
		{"closing", func(c *clocks) { c.closeBy = start.Add(5 * time.Second) }, phaseClosing, true, 4 * time.Second, dueNothing},
		{"closing for too long", func(c *clocks) { c.closeBy = start.Add(5 * time.Second) }, phaseClosing, true, 5 * time.Second, dueClose},
		{"draining for too long", func(c *clocks) { c.closeBy = start.Add(5 * time.Second) }, phaseDraining, false, 5 * time.Second, dueClose},
		{"ended", nil, phaseEnded, true, time.Hour, dueNothing},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			clocks := fresh
			if c.change != nil {
				c.change(&clocks)
			}
			require.Equal(t, c.want, clocks.at(start.Add(c.after), limits, c.phase, c.waiting))
		})
	}
}

func TestHeartbeat(t *testing.T) {
	t.Parallel()
	t.Run("SS-STR-4 pings go on while pongs come", func(t *testing.T) {
		t.Parallel()
		st := newStand(t, Limits{}, nil)
		p, s, h := st.webSocket(t)
		for range 10 {
			st.tick(0) // sees what was written
			st.tick(15 * time.Second)
			require.Equal(t, ws.OpPing, p.frame().Header.OpCode)
			p.send(join(masked(ws.OpPong, true, ""), masked(ws.OpText, true, "here")))
			require.Equal(t, "here", receive(t, h.messages))
		}
		require.False(t, s.Closed())
	})
	t.Run("SS-STR-4 no pong for 30 s ends it", func(t *testing.T) {
		t.Parallel()
		st := newStand(t, Limits{}, nil)
		p, _, h := st.webSocket(t)
		st.tick(0)
		st.tick(15 * time.Second)
		st.tick(0)
		st.tick(15 * time.Second)
		require.Empty(t, h.closed)
		st.tick(15 * time.Second)
		require.Equal(t, Lost, receive(t, h.closed))
		require.Equal(t, ws.OpPing, p.frame().Header.OpCode)
		require.Equal(t, ws.OpPing, p.frame().Header.OpCode)
		p.end()
	})
}

func TestEndOfLife(t *testing.T) {
	t.Parallel()
	t.Run("SS-STR-4 a stream ends after 30 minutes with 1001", func(t *testing.T) {
		t.Parallel()
		st := newStand(t, Limits{}, nil)
		p, _, h := st.webSocket(t)
		st.tick(30 * time.Minute)
		c, _ := p.closing()
		require.Equal(t, code.CloseGoingAway, c)
		p.send(masked(ws.OpClose, true, "\x03\xe9"))
		p.end()
		require.Equal(t, code.CloseGoingAway, receive(t, h.closed))
	})
	t.Run("a socket that takes nothing for 30 s is cut", func(t *testing.T) {
		t.Parallel()
		var w writes
		st := newStand(t, Limits{}, w.observer())
		_, s, h := st.webSocket(t)
		s.Send(sized(hugeFrame, 1))
		eventually(t, func() bool { // until the socket takes no more
			before := w.bytes.Load()
			st.tick(0)
			return before > hugeFrame/100 && before == w.bytes.Load()
		}, "the socket is full")
		st.tick(29 * time.Second)
		st.tick(30 * time.Second)
		require.Equal(t, code.CloseTooSlow, receive(t, h.closed))
		require.EqualValues(t, 1, w.cuts.Load())
	})
}

func TestTicker(t *testing.T) {
	t.Parallel()
	limits := Limits{PingEvery: 40 * time.Millisecond}
	st := newStand(t, limits, nil)
	st.keeper.env = env.Real()
	require.NoError(t, st.keeper.Start(t.Context()))
	p, _, _ := st.webSocket(t)
	require.Equal(t, ws.OpPing, p.frame().Header.OpCode, "the keeper looks by itself")
	require.Equal(t, ws.OpPing, p.frame().Header.OpCode)
	require.Equal(t, 625*time.Millisecond, Limits{}.withDefaults().resolution())
	require.Equal(t, 5*time.Millisecond, limits.withDefaults().resolution())
}

func TestStop(t *testing.T) {
	t.Parallel()
	t.Run("SS-STR-8 every stream ends cleanly", func(t *testing.T) {
		t.Parallel()
		st := newStand(t, Limits{}, nil)
		require.NoError(t, st.keeper.Start(t.Context()))
		socket, _, socketHandler := st.webSocket(t)
		_, events, _, eventsHandler := st.sse(t)
		stopped := make(chan error, 1)
		go func() { stopped <- st.keeper.Stop(context.WithoutCancel(t.Context())) }()
		c, _ := socket.closing()
		require.Equal(t, code.CloseGoingAway, c)
		require.Empty(t, stopped, "the handshake is not complete")
		socket.send(masked(ws.OpClose, true, "\x03\xe9"))
		socket.end()
		line, err := events.in.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "0\r\n", line)
		require.NoError(t, events.Close())
		require.NoError(t, receive(t, stopped))
		require.Equal(t, code.CloseGoingAway, receive(t, socketHandler.closed))
		require.Equal(t, code.CloseGoingAway, receive(t, eventsHandler.closed))

		late := dial(t, st.address, handshakeRequest)
		answer, err := http.ReadResponse(late.in, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	})
}

func TestStopWaits(t *testing.T) {
	t.Parallel()
	t.Run("it waits for a handler", func(t *testing.T) {
		t.Parallel()
		st := newStand(t, Limits{}, nil)
		p := dial(t, st.address, handshakeRequest)
		entered, leave := make(chan struct{}), make(chan struct{})
		receive(t, st.streams).Run(Handler{Message: func([]byte) { close(entered); <-leave }})
		p.send(masked(ws.OpText, true, "x"))
		receive(t, entered)
		require.NoError(t, p.Close())
		stopped := make(chan error, 1)
		go func() { stopped <- st.keeper.Stop(context.WithoutCancel(t.Context())) }()
		eventually(t, func() bool { return st.keeper.snapshot(nil)[0].Closed() }, "it closes")
		require.Empty(t, stopped)
		close(leave)
		require.NoError(t, receive(t, stopped))
	})
	t.Run("it does not wait longer than it may", func(t *testing.T) {
		t.Parallel()
		st := newStand(t, Limits{}, nil)
		_, s, h := st.webSocket(t)
		s.Send(sized(hugeFrame, 1))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, st.keeper.Stop(ctx), context.Canceled)
		require.Equal(t, code.CloseGoingAway, receive(t, h.closed))
	})
}

func TestMaxStreams(t *testing.T) {
	t.Parallel()
	st := newStand(t, Limits{MaxStreams: 1}, nil)
	first, _, h := st.webSocket(t)
	for _, request := range []string{handshakeRequest, "GET /sse HTTP/1.1\r\nHost: cairn\r\n\r\n"} {
		answer, err := http.ReadResponse(dial(t, st.address, request).in, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	}
	require.NoError(t, first.Close())
	receive(t, h.closed)
	eventually(t, func() bool { return st.keeper.Stats().Streams == 0 }, "the place is free again")
	st.webSocket(t)
}

func TestObserverCounts(t *testing.T) {
	t.Parallel()
	opened, closed := make(chan Kind, 1), make(chan code.Close, 1)
	st := newStand(t, Limits{}, &Observer{
		StreamOpened: func(kind Kind) { opened <- kind },
		StreamClosed: func(_ Kind, c code.Close) { closed <- c },
	})
	p, s, _ := st.webSocket(t)
	require.Equal(t, WebSocket, receive(t, opened))
	require.Equal(t, WebSocket, s.Kind())
	p.send(goodbye())
	require.Equal(t, code.CloseNormal, receive(t, closed))
}
