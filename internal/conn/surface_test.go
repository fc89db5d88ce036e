package conn

import (
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/wire/code"
)

var gatewayCodes = Codes{
	Slow: code.CloseSlowConsumer, Binary: code.CloseDecode, InvalidUTF8: code.CloseDecode, TooBig: code.CloseDecode,
	Stop: code.CloseServerRestart, Failed: code.CloseUnknownError,
}

func TestCodesOfASurface(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		send []byte
		want code.Close
	}{
		{"binary", masked(ws.OpBinary, true, "x"), code.CloseDecode},
		{"invalid UTF-8", masked(ws.OpText, true, "\xff"), code.CloseDecode},
		{"too big", masked(ws.OpText, true, strings.Repeat("x", 200)), code.CloseDecode},
		{"what RFC 6455 forbids stays what it is", masked(ws.OpContinuation, true, "x"), code.CloseProtocol},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, _, _ := newStand(t, Limits{MaxMessage: 100, Codes: gatewayCodes}, nil).webSocket(t)
			p.send(c.send)
			got, _ := p.closing()
			require.Equal(t, c.want, got)
		})
	}
	t.Run("a handler that panics", func(t *testing.T) {
		t.Parallel()
		st := newStand(t, Limits{Codes: gatewayCodes}, nil)
		p, s, _ := st.webSocket(t)
		s.mu.Lock()
		s.on.Message = func([]byte) { panic("no") }
		s.mu.Unlock()
		p.send(masked(ws.OpText, true, "x"))
		got, _ := p.closing()
		require.Equal(t, code.CloseUnknownError, got)
	})
	t.Run("a full queue, and a client that reads again", func(t *testing.T) {
		t.Parallel()
		st := newStand(t, Limits{QueueFrames: 4, Codes: gatewayCodes}, nil)
		p, s, _ := st.webSocket(t)
		for i := 0; !s.Closed(); i++ {
			s.Send(sized(hugeFrame, i))
		}
		require.Equal(t, code.CloseSlowConsumer, lastCode(p))
	})
	t.Run("a socket that takes nothing is told why, should it read again", func(t *testing.T) {
		t.Parallel()
		st := newStand(t, Limits{WriteTimeout: time.Second, Codes: gatewayCodes, TellStuck: true}, nil)
		p, s, _ := st.webSocket(t)
		for i := range 20 {
			s.Send(sized(hugeFrame, i))
		}
		for !s.Closed() {
			st.tick(time.Second)
		}
		require.Equal(t, code.CloseSlowConsumer, lastCode(p))
	})
}

// lastCode reads up to the close frame and answers its code.
func lastCode(p *peer) code.Close {
	for {
		if f := p.frame(); f.Header.OpCode == ws.OpClose {
			status, _ := ws.ParseCloseFrameData(f.Payload)
			return code.Close(status)
		}
	}
}

func TestTextFramesGoAsTheyAre(t *testing.T) {
	t.Parallel()
	p, s, _ := newStand(t, Limits{}, nil).webSocket(t)
	one, two := NewBlock(Frame{Text: []byte(`{"op":"a"}`)}), NewBlock(Frame{Text: []byte(`{"op":"b"}`)}, Frame{Text: []byte(`{"op":"c"}`)})
	s.SendMany([]*Block{one, two.Slice(1, 2), two.Slice(0, 0), two})
	require.True(t, s.Offer(one))
	for _, want := range []string{"a", "c", "b", "c", "a"} {
		require.Equal(t, `{"op":"`+want+`"}`, string(p.frame().Payload))
	}
}

func TestManyBlocksStayInOrder(t *testing.T) {
	t.Parallel()
	st := newStand(t, Limits{QueueFrames: 1000, QueueBytes: 1 << 30}, nil)
	p, s, _ := st.webSocket(t)
	const rounds = 60
	for i := range rounds {
		s.SendMany([]*Block{sized(hugeFrame/8, 3*i), sized(10, 3*i+1), sized(10, 3*i+2)})
	}
	for i := range 3 * rounds {
		require.Equal(t, i, p.seq())
	}
}

func TestOffer(t *testing.T) {
	t.Parallel()
	st := newStand(t, Limits{QueueFrames: 2}, nil)
	_, s, _ := st.webSocket(t)
	for s.Offer(sized(hugeFrame, 1)) {
	}
	require.False(t, s.Closed(), "a full queue costs what was offered, not the stream")
	s.Close(code.CloseNormal, "")
	require.False(t, s.Offer(sized(1, 1)))
}
