package conn

import (
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/wire/code"
)

func TestClose(t *testing.T) {
	t.Parallel()
	t.Run("after what waits, with the whole handshake", func(t *testing.T) {
		t.Parallel()
		st := newStand(t, Limits{}, nil)
		p, s, h := st.webSocket(t)
		s.Send(sized(hugeFrame, 1))
		s.Close(code.CloseNoAccess, strings.Repeat("é", 100))
		s.Close(code.CloseNormal, "again")
		s.Send(sized(1, 2))
		require.True(t, s.Closed())
		require.Equal(t, 1, p.seq())
		c, reason := p.closing()
		require.Equal(t, code.CloseNoAccess, c)
		require.Equal(t, strings.Repeat("é", 61), reason, "cut between characters")
		p.send(masked(ws.OpText, true, "late"))
		p.send(masked(ws.OpPing, true, "late"))
		require.Empty(t, h.closed, "the connection is still there")
		p.send(goodbye())
		p.end()
		require.Equal(t, code.CloseNoAccess, receive(t, h.closed))
		require.Empty(t, h.messages)
	})
	t.Run("a client that does not answer", func(t *testing.T) {
		t.Parallel()
		st := newStand(t, Limits{}, nil)
		p, s, h := st.webSocket(t)
		s.Close(code.CloseGoingAway, "")
		c, _ := p.closing()
		require.Equal(t, code.CloseGoingAway, c)
		st.tick(4 * time.Second)
		require.Empty(t, h.closed)
		st.tick(time.Second)
		p.end()
		require.Equal(t, code.CloseGoingAway, receive(t, h.closed))
	})
}

func TestCloseMeetsClose(t *testing.T) {
	t.Parallel()
	t.Run("both at once", func(t *testing.T) {
		t.Parallel()
		st := newStand(t, Limits{}, nil)
		p, s, h := st.webSocket(t)
		s.Send(sized(hugeFrame, 1))
		s.Close(code.CloseGoingAway, "")
		p.send(goodbye())
		require.Equal(t, 1, p.seq(), "what has begun is finished")
		c, _ := p.closing()
		require.Equal(t, code.CloseGoingAway, c)
		p.end()
		require.Equal(t, code.CloseGoingAway, receive(t, h.closed))
	})
	t.Run("the client first, while frames wait", func(t *testing.T) {
		t.Parallel()
		st := newStand(t, Limits{}, nil)
		p, s, h := st.webSocket(t)
		s.Send(sized(hugeFrame, 1))
		s.Send(sized(1, 2))
		p.send(goodbye())
		<-s.Done()
		require.Equal(t, 1, p.seq())
		c, _ := p.closing()
		require.Equal(t, code.CloseNormal, c)
		p.end()
		require.Equal(t, code.CloseNormal, receive(t, h.closed))
	})
	t.Run("before Run", func(t *testing.T) {
		t.Parallel()
		st := newStand(t, Limits{}, nil)
		p := dial(t, st.address, handshakeRequest)
		s := receive(t, st.streams)
		s.end(code.CloseGoingAway)
		eventually(t, func() bool { return st.keeper.Stats().Streams == 0 }, "it is forgotten without Run")
		h, on := collect()
		s.Run(on)
		require.Equal(t, code.CloseGoingAway, receive(t, h.closed))
		require.NoError(t, p.Close())
	})
}

func TestMessages(t *testing.T) {
	t.Parallel()
	t.Run("one at a time, and the next is not read before", func(t *testing.T) {
		t.Parallel()
		st := newStand(t, Limits{}, nil)
		p := dial(t, st.address, handshakeRequest)
		s := receive(t, st.streams)
		entered, leave, closed := make(chan string), make(chan struct{}), make(chan code.Close, 1)
		s.Run(Handler{
			Message: func(text []byte) { entered <- string(text); <-leave },
			Closed:  func(c code.Close) { closed <- c },
		})
		p.send(join(masked(ws.OpText, true, "1"), masked(ws.OpText, true, "2"), goodbye()))
		require.Equal(t, "1", receive(t, entered))
		require.False(t, s.Closed(), "the close behind the message is not read yet")
		leave <- struct{}{}
		require.Equal(t, "2", receive(t, entered))
		leave <- struct{}{}
		require.Equal(t, code.CloseNormal, receive(t, closed))
	})
	t.Run("a handler that panics loses its own stream", func(t *testing.T) {
		t.Parallel()
		panicked := make(chan any, 1)
		st := newStand(t, Limits{}, &Observer{Panicked: func(value any, _ []byte) { panicked <- value }})
		other, stream, _ := st.webSocket(t)
		p := dial(t, st.address, handshakeRequest)
		closed := make(chan code.Close, 1)
		receive(t, st.streams).Run(Handler{
			Message: func([]byte) { panic("out of luck") },
			Closed:  func(c code.Close) { closed <- c },
		})
		p.send(join(masked(ws.OpText, true, "x"), goodbye()))
		require.Equal(t, "out of luck", receive(t, panicked))
		require.Equal(t, code.CloseInternal, receive(t, closed))
		stream.Send(block("fine"))
		require.Contains(t, other.text(), "fine")
	})
}
