package conn

import (
	"cmp"
	"time"

	"github.com/cairnsync/cairn/wire/code"
)

// Kind is the transport of a stream, as metrics name it.
type Kind string

// The transports.
const (
	WebSocket Kind = "websocket"
	SSE       Kind = "sse"
)

// Limits bounds every stream of a Keeper. A zero field means its default.
type Limits struct {
	QueueFrames  int           // frames that may wait for one client; default 1024
	QueueBytes   int           // bytes that may wait for one client beside the largest block; default 4 MiB
	MaxMessage   int64         // bytes of one inbound WebSocket message; default 12 MiB (SS-STR-5)
	InboundBytes int64         // bytes of all unfinished inbound messages together; default 256 MiB
	MaxStreams   int           // streams open at once; default 100 000
	PingEvery    time.Duration // silence after which a ping is sent; default 15 s (SS-STR-4)
	PongWithin   time.Duration // a WebSocket ping without an answer for this long ends the stream; default 30 s (SS-STR-4)
	WriteTimeout time.Duration // a socket that takes nothing for this long ends the stream; default 30 s
	CloseWithin  time.Duration // longest time from the decision to close until the connection ends; default 5 s
	MaxAge       time.Duration // longest life of a stream; default 30 min (SS-STR-4)
	RoomBytes    int           // bytes that may wait for a client when Room lets a replay go on; default half of QueueBytes
	Codes        Codes         // what WebSockets are closed with
	// TellStuck sends a stream whose socket takes nothing for WriteTimeout the close frame behind what is on its
	// way, in place of cutting the connection at once: a client that reads again within CloseWithin learns why.
	TellStuck bool
}

// Codes are the close codes of a surface for what the kernel closes by itself. A zero field means its default.
type Codes struct {
	Slow        code.Close // the queue was full, or the socket took nothing; default 1013
	Binary      code.Close // a binary message; default 1003
	InvalidUTF8 code.Close // default 1007
	TooBig      code.Close // default 1009
	Stop        code.Close // Keeper.Stop; default 1001
	Failed      code.Close // a handler panicked; default 1011
}

func (c Codes) withDefaults() Codes {
	return Codes{
		Slow:        cmp.Or(c.Slow, code.CloseTooSlow),
		Binary:      cmp.Or(c.Binary, code.CloseUnsupported),
		InvalidUTF8: cmp.Or(c.InvalidUTF8, code.CloseInvalidUTF8),
		TooBig:      cmp.Or(c.TooBig, code.CloseTooBig),
		Stop:        cmp.Or(c.Stop, code.CloseGoingAway),
		Failed:      cmp.Or(c.Failed, code.CloseInternal),
	}
}

// as answers the surface's code for one that reading a message found.
func (c Codes) as(found code.Close) code.Close {
	switch found {
	case code.CloseUnsupported:
		return c.Binary
	case code.CloseInvalidUTF8:
		return c.InvalidUTF8
	case code.CloseTooBig:
		return c.TooBig
	case code.CloseTooSlow:
		return c.Slow
	default:
		return found
	}
}

func (l Limits) withDefaults() Limits {
	return Limits{
		QueueFrames:  cmp.Or(l.QueueFrames, 1024),
		QueueBytes:   cmp.Or(l.QueueBytes, 4<<20),
		MaxMessage:   cmp.Or(l.MaxMessage, 12<<20),
		InboundBytes: cmp.Or(l.InboundBytes, 256<<20),
		MaxStreams:   cmp.Or(l.MaxStreams, 100_000),
		PingEvery:    cmp.Or(l.PingEvery, 15*time.Second),
		PongWithin:   cmp.Or(l.PongWithin, 30*time.Second),
		WriteTimeout: cmp.Or(l.WriteTimeout, 30*time.Second),
		CloseWithin:  cmp.Or(l.CloseWithin, 5*time.Second),
		MaxAge:       cmp.Or(l.MaxAge, 30*time.Minute),
		RoomBytes:    cmp.Or(l.RoomBytes, cmp.Or(l.QueueBytes, 4<<20)/2),
		Codes:        l.Codes.withDefaults(),
		TellStuck:    l.TellStuck,
	}
}

// resolution is how often streams are looked at: fine enough for the shortest limit.
func (l Limits) resolution() time.Duration {
	shortest := min(l.PingEvery, l.PongWithin, l.WriteTimeout, l.CloseWithin, l.MaxAge)
	return min(max(shortest/8, 5*time.Millisecond), time.Second)
}

// Observer is told what happens, for metrics. It and each of its functions may be nil; they must not
// block and must not call into the stream.
type Observer struct {
	StreamOpened func(kind Kind)
	StreamClosed func(kind Kind, c code.Close)
	// Cut is called for a stream that fell behind: its queue was full or its socket took nothing.
	Cut func(kind Kind)
	// Sent is called after each write with the frames that it completed and its bytes.
	Sent func(kind Kind, frames, bytes int)
	// Panicked is called with what a Handler panicked with; the stream is closed with 1011.
	Panicked func(value any, stack []byte)
}

func (o *Observer) opened(kind Kind) {
	if o != nil && o.StreamOpened != nil {
		o.StreamOpened(kind)
	}
}

func (o *Observer) closed(kind Kind, c code.Close) {
	if o != nil && o.StreamClosed != nil {
		o.StreamClosed(kind, c)
	}
}

func (o *Observer) cut(kind Kind) {
	if o != nil && o.Cut != nil {
		o.Cut(kind)
	}
}

func (o *Observer) sent(kind Kind, frames, bytes int) {
	if o != nil && o.Sent != nil {
		o.Sent(kind, frames, bytes)
	}
}

func (o *Observer) panicked(value any, stack []byte) {
	if o != nil && o.Panicked != nil {
		o.Panicked(value, stack)
	}
}
