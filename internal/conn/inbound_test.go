package conn

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"unicode/utf8"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/wire/code"
)

// digest is everything a machine or reader made of a client's bytes.
type digest struct {
	messages []string
	pings    []string
	failed   code.Close // 0: not
	closed   bool
}

// digestPieces feeds data to the machine in pieces and checks what always holds.
func digestPieces(t *testing.T, data []byte, limit int64, piece int) digest {
	in := &inbound{max: limit}
	var d digest
	fed := 0
	for len(data) > 0 && !d.closed {
		part := data[:min(piece, len(data))]
		n, got, err := in.next(part)
		require.LessOrEqual(t, n, len(part))
		data, fed = data[n:], fed+n
		require.LessOrEqual(t, in.held(), int(limit))
		require.LessOrEqual(t, in.held(), max(2*fed, 8), "memory follows what came, not what was claimed")
		if err != nil {
			d.failed = err.code
			return d
		}
		if !got.complete {
			require.Equal(t, len(part), n, "takes everything unless something is complete")
			continue
		}
		switch got.op {
		case ws.OpText:
			require.True(t, utf8.Valid(got.payload))
			require.LessOrEqual(t, int64(len(got.payload)), limit)
			d.messages = append(d.messages, string(got.payload))
		case ws.OpPing:
			d.pings = append(d.pings, string(got.payload))
		case ws.OpClose:
			d.closed = true
		}
	}
	return d
}

// digestReference reads the same with gobwas' own reader.
func digestReference(data []byte, limit int64) (d digest) {
	reader := wsutil.Reader{
		Source:         bytes.NewReader(data),
		State:          ws.StateServerSide,
		CheckUTF8:      true,
		OnIntermediate: d.control,
		MaxFrameSize:   limit,
	}
	for !d.closed {
		h, err := reader.NextFrame()
		if err != nil {
			return d
		}
		if h.OpCode.IsControl() {
			if err := d.control(h, &reader); err != nil {
				return d
			}
			continue
		}
		text, err := io.ReadAll(&reader)
		if err != nil {
			return d
		}
		d.messages = append(d.messages, string(text))
	}
	return d
}

var errClosing = errors.New("a close frame")

func (d *digest) control(h ws.Header, r io.Reader) error {
	payload, err := io.ReadAll(r)
	if err != nil || int64(len(payload)) < h.Length {
		return io.ErrUnexpectedEOF // the reader does not tell a cut frame by itself
	}
	switch h.OpCode {
	case ws.OpPing:
		d.pings = append(d.pings, string(payload))
	case ws.OpClose:
		d.closed = true
		return errClosing
	}
	return nil
}

func FuzzInbound(f *testing.F) {
	for _, x := range exchanges() {
		f.Add(x.send, 3)
	}
	f.Add(join(masked(ws.OpText, false, "a"), masked(ws.OpPing, true, "b"), masked(ws.OpContinuation, true, "c"), masked(ws.OpText, true, "d")), 1)
	f.Fuzz(func(t *testing.T, data []byte, piece int) {
		const limit = testMaxMessage
		whole := digestPieces(t, data, limit, len(data)+1)
		require.Equal(t, whole, digestPieces(t, data, limit, 1+max(piece, -piece)%7), "the cuts between reads do not matter")
		reference := digestReference(data, limit)
		requirePrefix(t, whole.messages, reference.messages)
		requirePrefix(t, whole.pings, reference.pings)
		if whole.failed == 0 {
			require.Len(t, whole.messages, len(reference.messages), "what is sound is all delivered")
			require.Len(t, whole.pings, len(reference.pings))
			require.Equal(t, reference.closed, whole.closed)
		}
	})
}

func requirePrefix(t *testing.T, got, all []string) {
	require.LessOrEqual(t, len(got), len(all), "delivered what the reference refuses: %q, %q", got, all)
	for i := range got {
		require.Equal(t, all[i], got[i])
	}
}

// FuzzInboundFrames builds sound frames, so that more than the first header is reached.
func FuzzInboundFrames(f *testing.F) {
	f.Add([]byte("\x01a\x89p\x80b\x81é\x88\x03\xe8"), uint8(2))
	f.Add([]byte("\x01\xe2\x80\x82\xac"), uint8(1))
	f.Fuzz(func(t *testing.T, plan []byte, size uint8) {
		var data []byte
		for len(plan) > 0 {
			payload := plan[1:min(len(plan), 1+int(size%130))]
			data = append(data, masked(ws.OpCode(plan[0]&0xf), plan[0]&0x80 != 0, string(payload))...)
			plan = plan[1+len(payload):]
		}
		const limit = 1 << 20
		whole := digestPieces(t, data, limit, len(data)+1)
		require.Equal(t, whole, digestPieces(t, data, limit, 1+int(size)%11))
		reference := digestReference(data, limit)
		requirePrefix(t, whole.messages, reference.messages)
		requirePrefix(t, whole.pings, reference.pings)
	})
}
