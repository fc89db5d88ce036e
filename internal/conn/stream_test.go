package conn

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/cairnsync/cairn/wire/code"
)

// seq reads one text frame of sized and answers its id.
func (p *peer) seq() int {
	p.t.Helper()
	var frame struct{ Seq int }
	require.NoError(p.t, json.Unmarshal([]byte(p.text()), &frame))
	return frame.Seq
}

func TestSend(t *testing.T) {
	t.Parallel()
	st := newStand(t, Limits{}, nil)
	p, s, _ := st.webSocket(t)
	s.Send(block("a", "b", "c"))
	s.Send(block("x", "y", "z").Slice(1, 2))
	s.Send(block())
	s.SendLatest("k", block("d"))
	for _, name := range []string{"a", "b", "c", "y", "d"} {
		require.Equal(t, `{"v":1,"t":"`+name+`"}`, p.text())
	}
}

// writes counts what an Observer is told.
type writes struct{ cuts, writes, frames, bytes atomic.Int64 }

func (w *writes) observer() *Observer {
	return &Observer{
		Cut: func(Kind) { w.cuts.Add(1) },
		Sent: func(_ Kind, frames, bytes int) {
			w.writes.Add(1)
			w.frames.Add(int64(frames))
			w.bytes.Add(int64(bytes))
		},
	}
}

func TestWaitingFramesShareAWrite(t *testing.T) {
	t.Parallel()
	var w writes
	st := newStand(t, Limits{}, w.observer())
	p, s, _ := st.webSocket(t)
	s.Send(block("at", "once"))
	require.EqualValues(t, 1, w.writes.Load(), "an up-to-date client gets a block in one write")
	s.Send(sized(hugeFrame, 1))
	const small = 1000
	for i := range small {
		s.Send(sized(20, 2+i))
	}
	require.Equal(t, Stats{1, small + 1, st.keeper.Stats().QueuedBytes, 0}, st.keeper.Stats())
	_, _ = p.text(), p.text()
	require.Equal(t, 1, p.seq())
	before := w.writes.Load()
	for i := range small {
		require.Equal(t, 2+i, p.seq())
	}
	eventually(t, func() bool { return w.frames.Load() == small+3 }, "every frame is reported")
	require.Less(t, w.writes.Load()-before, int64(50))
	require.Zero(t, st.keeper.Stats().QueuedBytes)
}

func TestSlowConsumer(t *testing.T) {
	t.Parallel()
	t.Run("SS-STR-7 a WebSocket that falls behind is cut with 1013", func(t *testing.T) {
		t.Parallel()
		var w writes
		st := newStand(t, Limits{QueueBytes: 1 << 20}, w.observer())
		p, s, h := st.webSocket(t)
		sent := fill(s, 64<<10)
		require.EqualValues(t, 1, w.cuts.Load())
		require.Less(t, st.keeper.Stats().QueuedBytes, int64(128<<10), "what waited is forgotten")
		next := 0
		for {
			f := p.frame()
			if f.Header.OpCode == ws.OpClose {
				c, _ := ws.ParseCloseFrameData(f.Payload)
				require.EqualValues(t, code.CloseTooSlow, c)
				break
			}
			require.Contains(t, string(f.Payload[:40]), fmt.Sprintf(`"seq":%d,`, next), "whole and in order until then")
			next++
		}
		require.Less(t, next, sent)
		p.send(goodbye())
		p.end()
		require.Equal(t, code.CloseTooSlow, receive(t, h.closed))
	})
	t.Run("SS-STR-7 the bound in frames", func(t *testing.T) {
		t.Parallel()
		st := newStand(t, Limits{QueueFrames: 10, QueueBytes: 1 << 30}, nil)
		_, s, _ := st.webSocket(t)
		s.Send(sized(hugeFrame, 0))
		for i := range 9 {
			s.Send(sized(1, i))
			require.False(t, s.Closed())
		}
		require.EqualValues(t, 10, st.keeper.Stats().QueuedFrames)
		s.Send(sized(1, 10))
		require.True(t, s.Closed())
	})
}

func TestSlowConsumerBounds(t *testing.T) {
	t.Parallel()
	t.Run("SS-STR-7 one frame is always admitted", func(t *testing.T) {
		t.Parallel()
		st := newStand(t, Limits{QueueBytes: 1000}, nil)
		p, s, _ := st.webSocket(t)
		s.Send(sized(hugeFrame, 1))
		require.False(t, s.Closed())
		require.Equal(t, 1, p.seq())
		require.NoError(t, s.Room(t.Context()))
		s.Send(sized(hugeFrame, 2))
		require.Equal(t, 2, p.seq())
	})
	t.Run("a cut client that reads nothing loses its connection", func(t *testing.T) {
		t.Parallel()
		st := newStand(t, Limits{QueueBytes: 1 << 20}, nil)
		_, s, h := st.webSocket(t)
		fill(s, 64<<10)
		require.Empty(t, h.closed)
		st.tick(6 * time.Second)
		require.Equal(t, code.CloseTooSlow, receive(t, h.closed))
	})
	t.Run("a cut SSE client that reads nothing loses its connection", func(t *testing.T) {
		t.Parallel()
		st := newStand(t, Limits{QueueBytes: 1 << 20}, nil)
		_, _, s, h := st.sse(t)
		fill(s, 64<<10)
		st.tick(6 * time.Second)
		require.Equal(t, code.CloseTooSlow, receive(t, h.closed))
	})
}

// fill sends to a client that does not read until it is cut, and answers how many.
func fill(s *Stream, size int) int {
	sent := 0
	for !s.Closed() {
		s.Send(sized(size, sent))
		sent++
	}
	return sent
}

// TestDelivery plays any sequence of sends against a client that reads when it likes.
func TestDelivery(t *testing.T) {
	t.Parallel()
	st := newStand(t, Limits{QueueFrames: 40, QueueBytes: 256 << 10}, nil)
	rapid.Check(t, func(r *rapid.T) {
		p, s, h := st.webSocket(t)
		script := &script{s: s, keys: map[int]string{}}
		got := make(chan []int, 1)
		turns := make(chan struct{}, 1000)
		go func() { got <- readAll(p, turns) }()
		for range rapid.IntRange(1, 60).Draw(r, "steps") {
			script.step(r, turns)
		}
		s.Close(code.CloseNormal, "")
		close(turns)
		delivered := receive(t, got)
		require.NoError(t, p.Close())
		script.check(t, delivered, receive(t, h.closed) == code.CloseTooSlow)
	})
}

// readAll reads frames, waiting for a turn before each until turns end, and answers their ids.
func readAll(p *peer, turns <-chan struct{}) (ids []int) {
	for {
		<-turns
		f, err := ws.ReadFrame(p.in)
		if err != nil || f.Header.OpCode == ws.OpClose {
			return ids
		}
		var frame struct{ Seq int }
		if json.Unmarshal(f.Payload, &frame) != nil {
			return append(ids, -1)
		}
		ids = append(ids, frame.Seq)
	}
}

type script struct {
	s    *Stream
	sent int
	keys map[int]string // of SendLatest
}

func (c *script) step(r *rapid.T, turns chan<- struct{}) {
	size := rapid.SampledFrom([]int{1, 100, 5_000, 100_000}).Draw(r, "size")
	switch rapid.IntRange(0, 3).Draw(r, "what") {
	case 0:
		key := rapid.SampledFrom([]string{"lease", "presence"}).Draw(r, "key")
		c.keys[c.sent] = key
		c.s.SendLatest(key, sized(size, c.sent))
		c.sent++
	case 1:
		c.s.Send(sized(size, c.sent))
		c.sent++
	case 2:
		frames := make([]Frame, rapid.IntRange(1, 8).Draw(r, "frames"))
		for i := range frames {
			frames[i] = sized(size/8, c.sent).shared.frames[0]
			c.sent++
		}
		c.s.Send(NewBlock(frames...))
	default:
		turns <- struct{}{}
	}
}

// check requires that what was delivered is what was sent, in order, without what was overtaken, and
// up to the cut if there was one.
func (c *script) check(t *testing.T, delivered []int, cut bool) {
	at := 0
	for _, id := range delivered {
		for ; at < id; at++ {
			require.True(t, c.overtaken(at), "frame %d is missing in %v", at, delivered)
		}
		require.Equal(t, at, id, "in order, once: %v", delivered)
		at++
	}
	for ; !cut && at < c.sent; at++ {
		require.True(t, c.overtaken(at), "frame %d is missing at the end of %v", at, delivered)
	}
}

// overtaken reports whether a newer frame has the key of frame id.
func (c *script) overtaken(id int) bool {
	key, ok := c.keys[id]
	for newer := id + 1; ok && newer < c.sent; newer++ {
		if c.keys[newer] == key {
			return true
		}
	}
	return false
}

func TestSendLatest(t *testing.T) {
	t.Parallel()
	t.Run("SS-STR-7 lease and presence coalesce to the newest", func(t *testing.T) {
		t.Parallel()
		st := newStand(t, Limits{QueueFrames: 10}, nil)
		p, s, _ := st.webSocket(t)
		s.Send(sized(hugeFrame, 0))
		for i := 1; i <= 1000; i++ {
			s.SendLatest("lease", sized(1, i))
			s.SendLatest("presence", sized(1, 1000+i))
		}
		s.Send(sized(1, 3000))
		require.EqualValues(t, 4, st.keeper.Stats().QueuedFrames)
		for _, want := range []int{0, 1000, 2000, 3000} {
			require.Equal(t, want, p.seq())
		}
	})
	t.Run("what has begun is finished", func(t *testing.T) {
		t.Parallel()
		st := newStand(t, Limits{}, nil)
		p, s, _ := st.webSocket(t)
		s.SendLatest("lease", sized(hugeFrame, 1))
		s.SendLatest("lease", sized(1, 2))
		require.Equal(t, 1, p.seq())
		require.Equal(t, 2, p.seq())
	})
}

func TestRoom(t *testing.T) {
	t.Parallel()
	st := newStand(t, Limits{QueueFrames: 10}, nil)
	p, s, _ := st.webSocket(t)
	require.NoError(t, s.Room(t.Context()))
	s.Send(sized(hugeFrame, 0))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.Room(gone), context.Canceled, "a frame over half of QueueBytes leaves no room")
	answered := make(chan error, 2)
	go func() { answered <- s.Room(t.Context()) }()
	go func() { answered <- s.Room(t.Context()) }()
	require.Equal(t, 0, p.seq())
	require.NoError(t, receive(t, answered))
	require.NoError(t, receive(t, answered))

	s.Send(sized(hugeFrame, 1))
	go func() { answered <- s.Room(t.Context()) }()
	s.Close(code.CloseNormal, "")
	require.ErrorIs(t, receive(t, answered), ErrClosed)
	require.ErrorIs(t, s.Room(t.Context()), ErrClosed)
}
