package conn

import (
	"errors"
	"io"
	"runtime/debug"
	"sync"
	"time"

	"github.com/gobwas/ws"

	"github.com/cairnsync/cairn/wire/code"
)

const (
	readSize    = 16 << 10
	readSizeOwn = 4 << 10
	maxSSEInput = 64 << 10 // what a client may send on an event stream before it is cut off
)

var readBuffers = sync.Pool{New: func() any { b := make([]byte, readSize); return &b }}

// read is the stream's one goroutine. A Message may have grown its stack, so it then hands over to a
// fresh goroutine: an idle stream keeps the smallest stack.
func (s *Stream) read(in *receiver) {
	for {
		data, err := in.receive()
		if err != nil {
			s.gone()
			return
		}
		delivered := s.take(data)
		in.release()
		if delivered {
			go s.read(in)
			return
		}
	}
}

// take handles bytes of the client and reports whether a Message was called.
func (s *Stream) take(data []byte) (delivered bool) {
	if s.kind == SSE {
		s.discard(len(data))
		return false
	}
	for len(data) > 0 && !s.input.over {
		n, got, err := s.input.next(data)
		data = data[n:]
		s.account()
		if err != nil {
			s.refuse(err)
			return delivered
		}
		if got.op == ws.OpText {
			s.deliver(got.payload)
			delivered = true
		} else if got.complete {
			s.control(got)
		}
	}
	return delivered
}

// account keeps the unfinished messages of all streams within InboundBytes: the stream that would
// pass it is asked to come back later.
func (s *Stream) account() {
	grown := s.input.held() - s.input.counted
	if grown == 0 {
		return
	}
	s.input.counted += grown
	if s.keeper.inbound.Add(int64(grown)) > s.keeper.limits.InboundBytes && grown > 0 {
		s.refuse(&protocolError{code.CloseTooSlow, "Too much is being received."})
	}
}

// refuse fails the connection (RFC 6455 section 7.1.7): what waits is dropped, the close frame sent,
// and whatever still arrives thrown away.
func (s *Stream) refuse(failure *protocolError) {
	s.input.fail()
	s.account()
	s.mu.Lock()
	s.broken = true
	if s.phase == phaseOpen {
		s.queue.drop()
		s.shut(s.keeper.limits.Codes.as(failure.code), failure.reason)
	}
	s.unlock()
}

// deliver hands a message to the handler. A handler that panics loses its own stream only.
func (s *Stream) deliver(text []byte) {
	s.mu.Lock()
	on, open := s.on.Message, s.phase == phaseOpen
	s.mu.Unlock()
	if on == nil || !open {
		return
	}
	defer func() {
		if value := recover(); value != nil {
			s.keeper.observe.panicked(value, debug.Stack())
			s.Close(s.keeper.limits.Codes.Failed, "The server failed.")
		}
	}()
	on(text)
}

// control handles a control frame.
func (s *Stream) control(got received) {
	s.mu.Lock()
	switch got.op {
	case ws.OpPing:
		s.pong(got.payload)
	case ws.OpPong:
		s.clocks.pinged = time.Time{} // any pong will do: it may also answer an older ping
	case ws.OpClose:
		s.input.over = true
		s.answerClose(got.code)
	case ws.OpContinuation, ws.OpText, ws.OpBinary: // are data, and went to deliver
	}
	s.unlock()
}

// pong answers a ping before everything that has not begun. Of several that wait, the newest is
// answered (RFC 6455 section 5.5.3), so that a flood of pings holds one answer. The mutex is held.
func (s *Stream) pong(payload []byte) {
	if s.phase != phaseOpen {
		return
	}
	answer := entry{data: controlFrame(ws.OpPong, payload), key: pongKey}
	if s.writing {
		s.queue.urgent(answer)
	} else {
		s.put(answer)
	}
}

const pongKey = "\x00pong"

// discard counts what an SSE client sends after its request, which is nothing we wait for.
func (s *Stream) discard(n int) {
	s.discarded += n
	if s.discarded > maxSSEInput {
		s.end(code.CloseProtocol)
	}
}

// gone is the end of the connection, and of the stream.
func (s *Stream) gone() {
	s.end(s.lost())
	if s.input != nil {
		s.input.fail()
		s.account()
	}
	s.mu.Lock()
	s.finished = true
	on, c := s.on.Closed, s.reason
	s.mu.Unlock()
	s.keeper.observe.closed(s.kind, c)
	if on != nil {
		on(c)
	}
	s.keeper.forget(s)
}

// lost is the code of a connection that ends without one. Leaving is the only way a client can end an
// event stream.
func (s *Stream) lost() code.Close {
	if s.kind == SSE {
		return code.CloseNormal
	}
	return Lost
}

// receiver reads from the connection. On a plain socket it holds a buffer only while there is
// something in it; other connections (TLS) keep a small one.
type receiver struct {
	s      *Stream
	own    []byte  // only without a raw socket
	buffer *[]byte // from readBuffers
	n      int
	err    error
	call   func(fd uintptr) bool
}

func newReceiver(s *Stream) *receiver {
	in := &receiver{s: s}
	if s.raw == nil {
		in.own = make([]byte, readSizeOwn)
	}
	in.call = in.read
	return in
}

// receive waits for bytes of the client. They are valid until release.
func (in *receiver) receive() ([]byte, error) {
	if early := in.s.early; early != nil {
		in.s.early = nil
		return early, nil
	}
	if in.own != nil {
		n, err := in.s.conn.Read(in.own)
		if n > 0 {
			err = nil // comes again with the next read
		}
		return in.own[:n], err
	}
	if err := in.s.raw.Read(in.call); err != nil {
		return nil, err
	}
	if in.err != nil {
		return nil, in.err
	}
	if in.n == 0 {
		in.release()
		return nil, io.EOF
	}
	return (*in.buffer)[:in.n], nil
}

func (in *receiver) read(fd uintptr) (done bool) {
	in.buffer = readBuffers.Get().(*[]byte)
	in.n, in.err = readSocket(fd, *in.buffer)
	if in.err != nil {
		in.release()
	}
	return !errors.Is(in.err, errWouldBlock)
}

func (in *receiver) release() {
	if in.buffer != nil {
		readBuffers.Put(in.buffer)
		in.buffer = nil
	}
}
