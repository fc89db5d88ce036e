package conn

import (
	"errors"
	"sync"
)

const (
	joinSize     = 64 << 10  // frames that wait are joined into writes of this size
	joinSizeSlow = 16 << 10  // the same where a write may block while it holds the buffer
	maxWrite     = 256 << 10 // the most of one entry in one write: the mutex is held meanwhile
)

// errWouldBlock is a write that the socket cannot take now.
var errWouldBlock = errors.New("socket is full")

var (
	joints     = sync.Pool{New: func() any { b := make([]byte, joinSize); return &b }}
	slowJoints = sync.Pool{New: func() any { b := make([]byte, joinSizeSlow); return &b }}
)

// attempt is one non-blocking write; it lives in the stream so that a write allocates nothing.
type attempt struct {
	data []byte
	n    int
	err  error
	call func(fd uintptr) bool
}

// put writes e now if nothing waits and the socket takes it; what is left waits for a flush
// goroutine. The mutex is held.
func (s *Stream) put(e entry) {
	written := 0
	if !s.writing && s.raw != nil {
		var err error
		written, err = s.tryWrite(e.data)
		if err != nil {
			s.abandon(s.lost())
			return
		}
		if written > 0 {
			s.clocks.wrote = true
		}
		if written == len(e.data) {
			s.keeper.observe.sent(s.kind, e.frames, written)
			return
		}
	}
	s.queue.push(e, written)
	if written > 0 {
		s.keeper.observe.sent(s.kind, 0, written)
	}
	s.wantFlush()
}

// writeWaiting writes what waits in one attempt, and leaves the rest to a flush goroutine. The mutex is held and
// nobody writes.
func (s *Stream) writeWaiting() {
	if s.raw != nil {
		joint := joints.Get().(*[]byte)
		defer joints.Put(joint)
		for data := s.queue.next(*joint); data != nil; data = s.queue.next(*joint) {
			n, err := s.tryWrite(data)
			if err != nil {
				s.queue.advance(0)
				s.abandon(s.lost())
				return
			}
			s.wrote(n)
			if n < len(data) {
				break
			}
		}
	}
	if !s.queue.empty() {
		s.wantFlush()
	}
}

func (s *Stream) wantFlush() {
	if !s.writing {
		s.writing = true
		s.keeper.goroutines.Add(1) // never from zero: the stream's own is still counted
		go s.flush()
	}
}

// tryWrite makes one non-blocking write of at most maxWrite and answers how much the socket took. No
// flush goroutine waits inside raw.Write here: writing is false.
func (s *Stream) tryWrite(data []byte) (int, error) {
	s.try.data, s.try.n, s.try.err = data[:min(len(data), maxWrite)], 0, nil
	if err := s.raw.Write(s.try.call); err != nil {
		return 0, err
	}
	s.try.data = nil
	if errors.Is(s.try.err, errWouldBlock) {
		return 0, nil
	}
	return s.try.n, s.try.err
}

func (a *attempt) write(fd uintptr) bool {
	a.n, a.err = writeSocket(fd, a.data)
	return true
}

// flush writes what waits until nothing does, then ends.
func (s *Stream) flush() {
	defer s.keeper.goroutines.Done()
	var err error
	if s.raw != nil {
		err = s.flushSocket()
	} else {
		err = s.flushConn()
	}
	s.mu.Lock()
	if err != nil {
		s.writing = false
		s.abandon(s.lost())
		s.queue = queue{}
	}
	s.settle()
	s.unlock()
}

// flushSocket waits for the socket without holding a buffer, and joins what waits by the time it is
// ready.
func (s *Stream) flushSocket() error {
	var failure error
	err := s.raw.Write(func(fd uintptr) (done bool) {
		joint := joints.Get().(*[]byte)
		defer joints.Put(joint)
		for {
			more, err := s.writeNext(fd, *joint)
			if errors.Is(err, errWouldBlock) {
				return false
			}
			if err != nil || !more {
				failure = err
				return true
			}
		}
	})
	return errors.Join(failure, err)
}

// writeNext makes one non-blocking write of what waits. It holds the mutex during the write, so that
// what has not begun can still be superseded or dropped.
func (s *Stream) writeNext(fd uintptr, joint []byte) (more bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data := s.nextWrite(joint)
	if data == nil {
		return false, nil
	}
	n, err := writeSocket(fd, data)
	s.wrote(n)
	return true, err
}

// flushConn is flushSocket for connections that can only be written to by waiting.
func (s *Stream) flushConn() error {
	joint := slowJoints.Get().(*[]byte)
	defer slowJoints.Put(joint)
	for {
		s.mu.Lock()
		data := s.nextWrite(*joint)
		s.mu.Unlock()
		if data == nil {
			return nil
		}
		n, err := s.conn.Write(data[:min(len(data), joinSizeSlow)])
		s.mu.Lock()
		s.wrote(n)
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// nextWrite answers what to write next; nil ends the flush goroutine. The mutex is held.
func (s *Stream) nextWrite(joint []byte) []byte {
	if s.phase == phaseEnded {
		s.queue = queue{} // what had begun will not be finished
	}
	data := s.queue.next(joint)
	s.writing = data != nil
	return data
}

// wrote notes that the socket took n bytes. The mutex is held.
func (s *Stream) wrote(n int) {
	frames := s.queue.advance(n)
	if n > 0 {
		s.clocks.wrote = true
		s.keeper.observe.sent(s.kind, frames, n)
	}
	s.report()
}
