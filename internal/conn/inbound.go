package conn

import (
	"encoding/binary"
	"unicode/utf8"

	"github.com/gobwas/ws"

	"github.com/cairnsync/cairn/wire/code"
)

// protocolError is why a WebSocket is failed: the code and reason of the close frame.
type protocolError struct {
	code   code.Close
	reason string
}

// Error answers the reason.
func (e *protocolError) Error() string { return e.reason }

func violation(reason string) *protocolError { return &protocolError{code.CloseProtocol, reason} }

// received is what a client sent: a complete text message or a control frame.
type received struct {
	complete bool
	op       ws.OpCode
	payload  []byte     // of a text message, the receiver's to keep; of a ping, valid until next
	code     code.Close // of a close frame; 0 when it had none
}

// inbound is the server's receiving half of RFC 6455, a pure machine: it takes bytes cut anywhere and
// answers messages. It holds a buffer only while a message or control frame is unfinished, which
// grows with what has arrived, never with what a header claims. After an error it is of no more use.
type inbound struct {
	max     int64 // of a message
	over    bool  // nothing more is expected: the client closed or broke the protocol
	counted int   // of held, in the keeper's sum

	head   [ws.MaxHeaderSize]byte
	have   int       // bytes of head
	frame  ws.Header // complete when begun
	begun  bool      // between a frame's header and the end of its payload
	left   int64     // payload bytes of the frame to come
	offset int       // position in the mask

	control    []byte // payload of a control frame
	message    []byte // payloads of a message's frames so far
	valid      int    // bytes of message known to be whole UTF-8 characters
	fragmented bool   // a message has begun and its last frame has not
}

// held is the memory of an unfinished message.
func (in *inbound) held() int { return cap(in.message) }

// fail forgets what is unfinished.
func (in *inbound) fail() {
	in.over = true
	in.message, in.control = nil, nil
}

// next takes bytes from data until something is complete, and answers how many it took.
func (in *inbound) next(data []byte) (taken int, got received, err *protocolError) {
	for {
		if !in.begun {
			n, err := in.header(data[taken:])
			taken += n
			if err != nil || !in.begun {
				return taken, received{}, err
			}
		}
		n, err := in.payload(data[taken:])
		taken += n
		if err != nil || in.left > 0 {
			return taken, received{}, err
		}
		in.begun = false
		if got, err = in.finish(); err != nil || got.complete {
			return taken, got, err
		}
	}
}

// header collects a frame's header and checks it as early as its bytes allow.
func (in *inbound) header(data []byte) (taken int, err *protocolError) {
	const fixed, mask = 2, 4
	taken = in.collect(data, fixed)
	if in.have < fixed {
		return taken, nil
	}
	length := in.head[1] & 0x7f
	extended := 0
	switch length {
	case 126:
		extended = 2
	case 127:
		extended = 8
	}
	if err := in.check(length); err != nil {
		return taken, err
	}
	taken += in.collect(data[taken:], fixed+extended)
	if in.have < fixed+extended {
		return taken, nil
	}
	if err := in.measure(length, in.head[fixed:fixed+extended]); err != nil {
		return taken, err
	}
	taken += in.collect(data[taken:], fixed+extended+mask)
	if in.have == fixed+extended+mask {
		copy(in.frame.Mask[:], in.head[fixed+extended:])
		in.begun, in.have, in.offset = true, 0, 0
	}
	return taken, nil
}

func (in *inbound) collect(data []byte, upTo int) int {
	if in.have >= upTo {
		return 0
	}
	n := copy(in.head[in.have:upTo], data)
	in.have += n
	return n
}

// check judges the first two bytes of a header (RFC 6455 sections 5.1, 5.2, 5.4, 5.5).
func (in *inbound) check(length byte) *protocolError {
	in.frame = ws.Header{
		Fin:    in.head[0]&0x80 != 0,
		Rsv:    in.head[0] >> 4 & 0x7,
		OpCode: ws.OpCode(in.head[0] & 0xf),
		Masked: in.head[1]&0x80 != 0,
		Length: int64(length),
	}
	state := ws.StateServerSide
	if in.fragmented {
		state |= ws.StateFragmented
	}
	if err := ws.CheckHeader(in.frame, state); err != nil {
		return violation(err.Error())
	}
	if in.frame.OpCode == ws.OpBinary {
		return &protocolError{code.CloseUnsupported, "Only text messages are understood."}
	}
	return nil
}

// measure judges the length of a frame: its shortest spelling, and within the limit together with
// the frames before it. A length whose highest bit is set is too large like any other.
func (in *inbound) measure(short byte, extended []byte) *protocolError {
	length := uint64(short)
	switch len(extended) {
	case 2:
		length = uint64(binary.BigEndian.Uint16(extended))
		if length < 126 {
			return violation("A length is not in its shortest form.")
		}
	case 8:
		length = binary.BigEndian.Uint64(extended)
		if length < 1<<16 {
			return violation("A length is not in its shortest form.")
		}
	}
	if in.frame.OpCode.IsData() || in.frame.OpCode == ws.OpContinuation {
		if length > uint64(in.max-int64(len(in.message))) {
			return &protocolError{code.CloseTooBig, "The message is too large."}
		}
	}
	in.frame.Length, in.left = int64(length), int64(length)
	return nil
}

// payload takes what data has of the frame's payload.
func (in *inbound) payload(data []byte) (taken int, err *protocolError) {
	data = data[:min(int64(len(data)), in.left)]
	if len(data) == 0 {
		return 0, nil
	}
	target := &in.message
	if in.frame.OpCode.IsControl() {
		target = &in.control
	}
	before := len(*target)
	*target = grow(*target, len(data), int(in.left))
	*target = append(*target, data...)
	ws.Cipher((*target)[before:], in.frame.Mask, in.offset)
	in.offset = (in.offset + len(data)) % len(in.frame.Mask)
	in.left -= int64(len(data))
	if !in.frame.OpCode.IsControl() && !in.checkText() {
		return len(data), &protocolError{code.CloseInvalidUTF8, "A text message is not UTF-8."}
	}
	return len(data), nil
}

// grow makes place for need more bytes: twice what is there, but no more than is still to come.
func grow(to []byte, need, toCome int) []byte {
	if cap(to)-len(to) >= need {
		return to
	}
	grown := make([]byte, len(to), len(to)+min(max(need, len(to)), max(need, toCome)))
	copy(grown, to)
	return grown
}

// checkText checks what has arrived of a message, up to a character that is not complete yet.
func (in *inbound) checkText() bool {
	fresh := in.message[in.valid:]
	end := len(fresh)
	for back := 1; back < utf8.UTFMax && back <= len(fresh); back++ {
		last := fresh[len(fresh)-back:]
		if utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				end -= back
			}
			break
		}
	}
	in.valid += end
	return utf8.Valid(fresh[:end])
}

// finish answers what the frame that just ended completes.
func (in *inbound) finish() (got received, err *protocolError) {
	op := in.frame.OpCode
	if !op.IsControl() {
		in.fragmented = !in.frame.Fin
		if in.fragmented {
			return received{}, nil
		}
		return in.text()
	}
	payload := in.control
	in.control = nil
	got = received{complete: true, op: op, payload: payload}
	if op == ws.OpClose {
		got.code, err = parseClose(payload)
	}
	return got, err
}

func (in *inbound) text() (received, *protocolError) {
	text := in.message
	whole := in.valid == len(text)
	in.message, in.valid = nil, 0
	if !whole {
		return received{}, &protocolError{code.CloseInvalidUTF8, "A text message ends within a character."}
	}
	return received{complete: true, op: ws.OpText, payload: text}, nil
}

// parseClose judges the body of a close frame (RFC 6455 sections 5.5.1 and 7.4).
func parseClose(body []byte) (code.Close, *protocolError) {
	if len(body) == 0 {
		return 0, nil
	}
	if len(body) == 1 {
		return 0, violation("A close frame has half a code.")
	}
	c := code.Close(binary.BigEndian.Uint16(body))
	if !maySend(c) {
		return 0, violation("A close code may not be sent.")
	}
	if !utf8.Valid(body[2:]) {
		return 0, &protocolError{code.CloseInvalidUTF8, "A close reason is not UTF-8."}
	}
	return c, nil
}

// maySend reports whether c may stand in a close frame: registered at IANA and not reserved for
// local use, or a library's or application's own.
func maySend(c code.Close) bool {
	switch {
	case c >= 1000 && c <= 1003, c >= 1007 && c <= 1014, c >= 3000 && c <= 4999:
		return true
	default:
		return false
	}
}
