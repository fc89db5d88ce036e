package conn

import (
	"encoding/binary"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/gobwas/ws"

	"github.com/cairnsync/cairn/wire/code"
)

// maxReason is how long the reason of a close frame may be: a control frame without its code.
const maxReason = ws.MaxControlFramePayloadSize - 2

// appendFrameHeader writes the header of a final unmasked frame (RFC 6455 section 5.2).
func appendFrameHeader(to []byte, op ws.OpCode, length int) []byte {
	to = append(to, 0x80|byte(op))
	switch {
	case length < 126:
		return append(to, byte(length))
	case length < 1<<16:
		return binary.BigEndian.AppendUint16(append(to, 126), uint16(length))
	default:
		return binary.BigEndian.AppendUint64(append(to, 127), uint64(length))
	}
}

func controlFrame(op ws.OpCode, payload []byte) []byte {
	return append(appendFrameHeader(make([]byte, 0, 2+len(payload)), op, len(payload)), payload...)
}

// closeFrame is a close frame with c and as much of reason as fits. A zero c has no body: the answer
// to a close frame that had none.
func closeFrame(c code.Close, reason string) []byte {
	if c == 0 {
		return controlFrame(ws.OpClose, nil)
	}
	for len(reason) > maxReason {
		_, size := utf8.DecodeLastRuneInString(reason)
		reason = reason[:len(reason)-size]
	}
	return controlFrame(ws.OpClose, append(binary.BigEndian.AppendUint16(nil, uint16(c)), reason...))
}

// lastEvent ends an event stream: a `closed` frame for the codes that tell the client not to come
// back as it is (SS-ROLE-2), then the end of the chunked body.
func lastEvent(f format, c code.Close) []byte {
	var last []byte
	if c >= 4400 {
		frame := Frame{Name: "closed", Object: strconv.AppendInt([]byte(`{"code":`), int64(c), 10)}
		frame.Object = append(frame.Object, '}')
		last = frame.append(last, f)
	}
	if f == formatSSE {
		last = append(last, "0\r\n\r\n"...)
	}
	return last
}

// comment is the heartbeat of an event stream (SS-STR-4).
func comment(f format, now time.Time) []byte {
	body := append(strconv.AppendInt([]byte(": ping "), now.UnixMilli(), 10), "\n\n"...)
	if f == formatSSE {
		return appendChunk(nil, body)
	}
	return body
}
