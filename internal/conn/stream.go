package conn

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/cairnsync/cairn/wire/code"
)

// ErrClosed is what Room answers for a stream that takes nothing more.
var ErrClosed = errors.New("stream is closed")

// Handler is what a stream calls. Both functions may be nil.
type Handler struct {
	// Message gets one text message of a WebSocket, valid UTF-8; text belongs to the callee. The
	// next message is not read before it returns, so that a client cannot outrun its handler.
	Message func(text []byte)
	// Closed is called once, after the last Message, when the connection is gone. The code is the one
	// that was sent, or else received; CloseNormal when the client left an SSE stream or gave none;
	// Lost when a WebSocket vanished.
	Closed func(c code.Close)
}

// Lost is the code of a WebSocket whose connection ended without a close frame (RFC 6455 section
// 7.1.5). It is never sent.
const Lost code.Close = 1006

// phase is the life of a stream; it only grows.
type phase uint8

const (
	phaseOpen     phase = iota
	phaseClosing        // takes nothing more; the last bytes are not all written
	phaseDraining       // everything is written; the client has yet to end the connection
	phaseEnded          // the connection is closed
)

// effect is what must be done to the connection once the mutex is free: closing a connection waits
// for a writer that may wait for the mutex.
type effect uint8

const (
	effectNone effect = iota
	effectHalfClose
	effectHangUp
)

// Stream is one client's connection, WebSocket or SSE.
type Stream struct {
	keeper *Keeper
	kind   Kind
	format format
	conn   net.Conn
	raw    syscall.RawConn // nil: only blocking writes
	done   chan struct{}

	// The read goroutine's own.
	early     []byte   // came with the request's head, not yet parsed
	input     *inbound // WebSocket only
	discarded int      // bytes of an SSE client after its request

	mu       sync.Mutex // guards everything below
	phase    phase
	effect   effect
	reason   code.Close // set when phase leaves phaseOpen
	queue    queue
	writing  bool          // a flush goroutine writes; set whenever queue is not empty
	room     chan struct{} // closed when the queue is half empty; nil when nobody waits
	try      attempt
	on       Handler
	running  bool
	finished bool                        // Closed was called, or is due at Run
	peerDone bool                        // the client's close frame has arrived
	broken   bool                        // the client's bytes cannot be parsed any more
	reported struct{ frames, bytes int } // of queue, in the keeper's sums
	clocks   clocks
}

// clocks is what the keeper's ticker knows of a stream; times are its own, so that no write reads a
// clock.
type clocks struct {
	opened   time.Time
	closeBy  time.Time // when phase is closing or draining
	quiet    time.Time // since when nothing was written
	progress time.Time // since when the socket took nothing, or nothing waited
	pinged   time.Time // the first ping without a pong; zero when none is due
	wrote    bool      // something was written since the last tick
}

// Run starts reading and names what the stream calls. It must be called once for every stream and
// returns at once; what arrived before is not lost.
func (s *Stream) Run(on Handler) {
	s.mu.Lock()
	s.on = on
	start, finished := !s.running, s.finished
	s.running = true
	s.mu.Unlock()
	switch {
	case finished && on.Closed != nil:
		on.Closed(s.reason)
	case start:
		go s.read(newReceiver(s))
	}
}

// Kind is the stream's transport.
func (s *Stream) Kind() Kind { return s.kind }

// Done is closed as soon as the stream takes nothing more; the connection may still be closing.
func (s *Stream) Done() <-chan struct{} { return s.done }

// Closed reports whether Done is closed.
func (s *Stream) Closed() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// Send delivers b after everything sent before it. It never blocks; on a closed stream it does
// nothing. A queue at its bound cuts the stream (SS-STR-7).
func (s *Stream) Send(b *Block) { s.send("", b) }

// SendLatest is Send for a state of which only the newest counts: an older block with the same key
// that still waits is dropped, so that such blocks never fill the queue (SS-STR-7). The order of what
// is delivered stays the order in which it was sent.
func (s *Stream) SendLatest(key string, b *Block) { s.send(key, b) }

func (s *Stream) send(key string, b *Block) {
	if b.Len() == 0 {
		return
	}
	data := b.bytes(s.format)
	s.mu.Lock()
	if s.phase != phaseOpen {
		s.mu.Unlock()
		return
	}
	if key != "" && s.writing {
		s.queue.supersede(key)
	}
	if !s.queue.admits(b.Len(), len(data), s.keeper.limits) {
		s.keeper.observe.cut(s.kind)
		s.queue.drop()
		s.shut(s.keeper.limits.Codes.Slow, "The connection fell behind.")
	} else {
		s.put(entry{data: data, frames: b.Len(), key: key})
	}
	s.unlock()
}

// SendMany is Send for several blocks at once. They are written together, in one system call where they fit.
func (s *Stream) SendMany(blocks []*Block) {
	if len(blocks) == 1 {
		s.Send(blocks[0])
		return
	}
	s.mu.Lock()
	for _, b := range blocks {
		data := b.bytes(s.format)
		if s.phase != phaseOpen || b.Len() == 0 {
			continue
		}
		if !s.queue.admits(b.Len(), len(data), s.keeper.limits) {
			s.keeper.observe.cut(s.kind)
			s.queue.drop()
			s.shut(s.keeper.limits.Codes.Slow, "The connection fell behind.")
			break
		}
		s.queue.push(entry{data: data, frames: b.Len()}, 0)
	}
	if !s.queue.empty() && !s.writing {
		s.writeWaiting()
	}
	s.unlock()
}

// Offer is Send for what may be lost: a queue at its bound drops b in place of cutting the stream. It reports
// whether b was taken.
func (s *Stream) Offer(b *Block) bool {
	data := b.bytes(s.format)
	s.mu.Lock()
	defer s.unlock()
	if s.phase != phaseOpen || !s.queue.admits(b.Len(), len(data), s.keeper.limits) {
		return false
	}
	s.put(entry{data: data, frames: b.Len()})
	return true
}

// Room waits until the queue holds at most half of QueueFrames and RoomBytes, so that a replay goes at the client's pace. A
// block of at most half QueueFrames that is sent then never cuts the stream, whatever its size.
func (s *Stream) Room(ctx context.Context) error {
	for {
		s.mu.Lock()
		if s.phase != phaseOpen {
			s.mu.Unlock()
			return ErrClosed
		}
		if s.hasRoom() {
			s.mu.Unlock()
			return nil
		}
		if s.room == nil {
			s.room = make(chan struct{})
		}
		room := s.room
		s.mu.Unlock()
		select {
		case <-room:
		case <-s.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Stream) hasRoom() bool {
	return s.queue.frames <= s.keeper.limits.QueueFrames/2 && s.queue.bytes <= s.keeper.limits.RoomBytes
}

// Close ends the stream after what already waits: a WebSocket by the close handshake with c and
// reason (cut to what fits a close frame), SSE with a last `closed` frame for the 44xx codes and the
// end of the body. The connection is gone CloseWithin later at the latest. Only the first call counts.
func (s *Stream) Close(c code.Close, reason string) {
	s.mu.Lock()
	if s.phase == phaseOpen {
		s.shut(c, reason)
	}
	s.unlock()
}

// shut leaves phaseOpen: c is sent behind what waits, and nothing after it. The mutex is held.
func (s *Stream) shut(c code.Close, reason string) {
	s.leaveOpen(c)
	if s.kind == WebSocket {
		s.put(entry{data: closeFrame(c, reason)})
	} else if last := lastEvent(s.format, c); len(last) > 0 {
		s.put(entry{data: last})
	}
	s.settle()
}

// answerClose leaves phaseOpen because the client closes: its code is sent back (RFC 6455 section
// 5.5.1), and what waited is dropped. The mutex is held.
func (s *Stream) answerClose(c code.Close) {
	s.peerDone = true
	if s.phase == phaseOpen {
		s.leaveOpen(c)
		if c == 0 {
			s.reason = code.CloseNormal
		}
		s.queue.drop()
		s.put(entry{data: closeFrame(c, "")})
	}
	if s.phase == phaseDraining {
		s.phase, s.effect = phaseEnded, effectHangUp
	}
	s.settle()
}

func (s *Stream) leaveOpen(c code.Close) {
	s.phase = phaseClosing
	s.reason = c
	s.clocks.closeBy = s.keeper.env.Now().Add(s.keeper.limits.CloseWithin)
	close(s.done)
}

// settle goes on once the last bytes are written: to the end, when the client has said goodbye too.
// Who cannot answer a close frame any more, or never does, sees the end of the data instead. The
// mutex is held.
func (s *Stream) settle() {
	if s.phase != phaseClosing || s.writing {
		return
	}
	s.phase = phaseDraining
	switch {
	case s.peerDone:
		s.phase, s.effect = phaseEnded, effectHangUp
	case s.broken || s.kind == SSE:
		s.effect = effectHalfClose
	}
}

// end closes the connection now, whatever waits; c counts when the stream was open until now.
func (s *Stream) end(c code.Close) {
	s.mu.Lock()
	s.abandon(c)
	s.unlock()
}

// abandon is end with the mutex held.
func (s *Stream) abandon(c code.Close) {
	if s.phase == phaseOpen {
		s.leaveOpen(c)
	}
	if s.phase != phaseEnded {
		s.phase, s.effect = phaseEnded, effectHangUp
	}
	s.queue.drop()
}

// unlock frees the mutex, then does to the connection what was decided under it.
func (s *Stream) unlock() {
	s.report()
	due := s.effect
	s.effect = effectNone
	start := s.phase != phaseOpen && !s.running // closed before Run: its end must still be seen
	s.running = s.running || start
	s.mu.Unlock()
	if start {
		go s.read(newReceiver(s))
	}
	switch {
	case due == effectNone:
	case s.raw != nil:
		s.part(due)
	default: // TLS says goodbye in a write of its own, which may wait for the client
		s.keeper.goroutines.Go(func() { s.part(due) })
	}
}

// part closes the connection or its outgoing half.
func (s *Stream) part(how effect) {
	if how == effectHangUp {
		_ = s.conn.Close() // the reader sees the connection end; there is nobody left to tell
		return
	}
	if half, ok := s.conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // fails only on a connection that is gone, which the reader sees
	}
}

// report brings what waits into the keeper's sums, and lets those in who wait for room.
func (s *Stream) report() {
	if s.queue.frames != s.reported.frames || s.queue.bytes != s.reported.bytes {
		s.keeper.queuedFrames.Add(int64(s.queue.frames - s.reported.frames))
		s.keeper.queuedBytes.Add(int64(s.queue.bytes - s.reported.bytes))
		s.reported.frames, s.reported.bytes = s.queue.frames, s.queue.bytes
	}
	if s.room != nil && (s.hasRoom() || s.phase != phaseOpen) {
		close(s.room)
		s.room = nil
	}
}
