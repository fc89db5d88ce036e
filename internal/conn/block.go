package conn

import (
	"bytes"
	"strconv"
	"sync"

	"github.com/gobwas/ws"
)

// Frame is one message to a client before its encoding.
type Frame struct {
	// Name is the `t` of a WebSocket message and the `event:` of SSE (SS-STR-3, SS-STR-5).
	Name string
	// ID is the `id:` line of SSE; 0 means none.
	ID int64
	// Object is a JSON object without the members `v` and `t`, kept byte for byte; empty means {}.
	Object []byte
	// Text, where it is set, is the whole message as it is sent, in place of all of the above. It is for WebSockets.
	Text []byte
}

// Block is frames that travel together, encoded at most once for each transport. It is immutable.
type Block struct {
	shared   *encodings
	from, to int
}

// NewBlock makes a block of frames. The frames and their objects must not be changed afterwards; an
// Object that does not begin as a JSON object is a programming error and panics.
func NewBlock(frames ...Frame) *Block {
	for _, frame := range frames {
		if frame.Text == nil {
			members(frame.Object)
		}
	}
	return &Block{shared: &encodings{frames: frames}, to: len(frames)}
}

// Len is the number of frames.
func (b *Block) Len() int { return b.to - b.from }

// Slice answers the frames [from, to) of b; it shares their encoding with b.
func (b *Block) Slice(from, to int) *Block {
	if from < 0 || to < from || b.from+to > b.to {
		panic("conn: slice of a block out of range")
	}
	return &Block{shared: b.shared, from: b.from + from, to: b.from + to}
}

// bytes answers the block as it goes to the socket.
func (b *Block) bytes(f format) []byte {
	encoded := b.shared.in(f)
	start := 0
	if b.from > 0 {
		start = encoded.ends[b.from-1]
	}
	end := start
	if b.to > b.from {
		end = encoded.ends[b.to-1]
	}
	return encoded.bytes[start:end:end]
}

// format is a way to put a frame on a socket.
type format uint8

const (
	formatWebSocket   format = iota // one unmasked text frame of RFC 6455
	formatSSE                       // one chunk of HTTP/1.1 holding one event
	formatSSEUnframed               // one event, for HTTP/1.0 clients (proxies among them)
	formats
)

type encodings struct {
	frames []Frame
	made   [formats]encoding
}

type encoding struct {
	once  sync.Once
	bytes []byte
	ends  []int // ends[i] is where frame i ends in bytes
}

func (e *encodings) in(f format) *encoding {
	made := &e.made[f]
	made.once.Do(func() {
		size := 0
		for i := range e.frames {
			size += len(e.frames[i].Object) + len(e.frames[i].Name) + len(e.frames[i].Text) + 64
		}
		made.bytes = make([]byte, 0, size)
		made.ends = make([]int, len(e.frames))
		for i := range e.frames {
			made.bytes = e.frames[i].append(made.bytes, f)
			made.ends[i] = len(made.bytes)
		}
	})
	return made
}

func (frame *Frame) append(to []byte, f format) []byte {
	switch f {
	case formatWebSocket:
		return frame.appendWebSocket(to)
	case formatSSE:
		return appendChunk(to, frame.appendEvent(nil))
	default:
		return frame.appendEvent(to)
	}
}

func (frame *Frame) appendWebSocket(to []byte) []byte {
	if frame.Text != nil {
		return append(appendFrameHeader(to, ws.OpText, len(frame.Text)), frame.Text...)
	}
	rest := members(frame.Object)
	const before, between = `{"v":1,"t":"`, `"`
	to = appendFrameHeader(to, ws.OpText, len(before)+len(frame.Name)+len(between)+len(rest.comma)+len(rest.bytes))
	to = append(to, before...)
	to = append(to, frame.Name...)
	to = append(to, between...)
	to = append(to, rest.comma...)
	return append(to, rest.bytes...)
}

// appendEvent writes the frame as an event of the HTML standard's event stream format.
func (frame *Frame) appendEvent(to []byte) []byte {
	if frame.Text != nil {
		return append(appendLines(append(to, "data: "...), frame.Text), "\n\n"...)
	}
	rest := members(frame.Object)
	to = append(to, "event: "...)
	to = append(to, frame.Name...)
	if frame.ID != 0 {
		to = append(to, "\nid: "...)
		to = strconv.AppendInt(to, frame.ID, 10)
	}
	to = append(to, "\ndata: {\"v\":1"...)
	to = append(to, rest.comma...)
	to = appendLines(to, rest.bytes)
	return append(to, "\n\n"...)
}

// appendLines writes text into a data field. A line break, in JSON only white space, begins another
// data line, which a reader joins with a line feed.
func appendLines(to, text []byte) []byte {
	for {
		at := bytes.IndexAny(text, "\r\n")
		if at < 0 {
			return append(to, text...)
		}
		to = append(to, text[:at]...)
		to = append(to, "\ndata: "...)
		if text[at] == '\r' && at+1 < len(text) && text[at+1] == '\n' {
			at++
		}
		text = text[at+1:]
	}
}

// appendChunk writes body as one chunk of RFC 9112 section 7.1.
func appendChunk(to, body []byte) []byte {
	to = strconv.AppendInt(to, int64(len(body)), 16)
	to = append(to, "\r\n"...)
	to = append(to, body...)
	return append(to, "\r\n"...)
}

// objectRest is what follows the opening brace of an object, and the comma that puts it behind
// other members.
type objectRest struct {
	comma string
	bytes []byte
}

const jsonSpace = " \t\r\n"

func members(object []byte) objectRest {
	if len(object) == 0 {
		return objectRest{bytes: []byte("}")}
	}
	trimmed := bytes.TrimLeft(object, jsonSpace)
	if len(trimmed) < 2 || trimmed[0] != '{' {
		panic("conn: the object of a frame is not a JSON object")
	}
	rest := trimmed[1:]
	if after := bytes.TrimLeft(rest, jsonSpace); len(after) > 0 && after[0] == '}' {
		return objectRest{bytes: rest}
	}
	return objectRest{comma: ",", bytes: rest}
}
