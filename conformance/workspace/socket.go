package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/conformance/contract"
	"github.com/cairnsync/cairn/conformance/rulebook"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// socket is one connection to the gateway. One goroutine reads it into a bounded channel and blocks when that is full;
// the case reads it from one goroutine. Every frame is held against the document, and what comes out of the log
// against the promise that it comes in order, once.
type socket struct {
	t     *trial
	p     *person
	node  string
	ws    *websocket.Conn
	hello wire.Hello
	ready wire.Ready

	frames chan wire.Frame
	end    error // valid once frames is closed
	past   []string
	seq    int64 // the highest of the log that came

	cancel  context.CancelFunc
	once    sync.Once
	reading sync.Mutex // held while the connection is not read
}

// pause stops reading, so that what the server sends gets stuck; proceed goes on.
func (s *socket) pause()   { s.reading.Lock() }
func (s *socket) proceed() { s.reading.Unlock() }

const heldFrames = 4096

// dial opens a connection and reads hello.
func (p *person) dial() *socket { return p.dialAt(p.node(), p.t.suite.client) }

func (p *person) dialAt(node string, client *http.Client) *socket {
	ctx, cancel := context.WithCancel(p.t.Context())
	ws, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(node, "http")+api+"/gateway", &websocket.DialOptions{HTTPClient: client})
	if err != nil {
		cancel()
		require.NoError(p.t, err, "open the gateway")
	}
	ws.SetReadLimit(-1)
	s := &socket{t: p.t, p: p, node: node, ws: ws, frames: make(chan wire.Frame, heldFrames), cancel: cancel}
	p.t.Cleanup(s.cut)
	go s.read(ctx)
	s.hello = body[wire.Hello](s, s.expect(wire.OpHello))
	return s
}

// cut hangs up without a goodbye and waits for the reader.
func (s *socket) cut() {
	s.once.Do(func() {
		s.cancel()
		_ = s.ws.CloseNow()
		for range s.frames { // the reader ends when its connection does
		}
	})
}

func (s *socket) read(ctx context.Context) {
	defer close(s.frames)
	for {
		s.reading.Lock()
		s.reading.Unlock() //nolint:staticcheck // only waits for proceed
		kind, text, err := s.ws.Read(ctx)
		if err != nil {
			s.end = err
			return
		}
		s.check(kind, text)
		var frame wire.Frame
		if err := decode(text, &frame); err != nil {
			s.t.Errorf("a frame that is no JSON: %s", text)
			return
		}
		select {
		case s.frames <- frame:
		case <-ctx.Done():
			s.end = ctx.Err()
			return
		}
	}
}

// check holds a frame against ES-2.3 and the document.
func (s *socket) check(kind websocket.MessageType, text []byte) {
	if kind != websocket.MessageText {
		s.t.Errorf("ES-2.3 a frame is a text frame: %s", text)
	}
	if hasNull(text) {
		s.t.Errorf("ES-2.2 a null on the wire: %s", text)
	}
	if err := s.t.in.frames.Check(contract.FromServer, text); err != nil {
		s.t.Errorf("%v", err)
	}
}

// send writes an op, which must be as the document says.
func (s *socket) send(op string, d any) {
	text, err := json.Marshal(map[string]any{"op": op, "d": d})
	require.NoError(s.t, err)
	require.NoError(s.t, s.t.in.frames.Check(contract.FromClient, text))
	s.raw(websocket.MessageText, text)
}

// raw writes a message as it is. An error shows in what is read next.
func (s *socket) raw(kind websocket.MessageType, text []byte) {
	_ = s.ws.Write(s.t.Context(), kind, text)
}

func (s *socket) text(text string) { s.raw(websocket.MessageText, []byte(text)) }

// take answers the next frame; ok is false when the connection ended or nothing came within.
func (s *socket) take(within time.Duration) (frame wire.Frame, ok bool) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case frame, ok = <-s.frames:
	case <-timer.C:
	case <-s.t.Context().Done():
	}
	if ok {
		s.past = append(s.past, frame.Op+" "+rulebook.Shorten(string(frame.D)))
		s.order(frame)
	}
	return frame, ok
}

// order checks that the log comes in its order: seq of dispatches and cursors never step back (ES-10).
func (s *socket) order(frame wire.Frame) {
	var at struct {
		Seq int64 `json:"seq"`
	}
	switch frame.Op {
	case wire.OpDispatch:
		require.NoError(s.t, decode(frame.D, &at))
		if at.Seq != 0 {
			require.Greater(s.t, at.Seq, s.seq, "ES-10 seq order, nothing twice: %s", frame.D)
			s.seq = at.Seq
		}
	case wire.OpCursor:
		require.NoError(s.t, decode(frame.D, &at))
		require.GreaterOrEqual(s.t, at.Seq, s.seq, "ES-7.1 a cursor never steps back")
	}
}

// next answers the next frame.
func (s *socket) next() wire.Frame {
	frame, ok := s.take(patience)
	if !ok {
		s.t.Errorf("no frame within %s (%v); the connection had: %s", patience, s.ended(), s.told())
		s.t.FailNow()
	}
	return frame
}

func (s *socket) told() string { return strings.Join(s.past[max(0, len(s.past)-10):], " | ") }

// ended answers why the connection ended, or nil.
func (s *socket) ended() error {
	select {
	case _, open := <-s.frames:
		if !open {
			return s.end
		}
	default:
	}
	return nil
}

// expect answers the next frame, which must be of an op; what may come at any time is passed over unless asked for.
func (s *socket) expect(op string) wire.Frame {
	for {
		frame := s.next()
		if aside(frame.Op) && op != frame.Op {
			continue
		}
		require.Equal(s.t, op, frame.Op, "%s; the connection had: %s", frame.D, s.told())
		return frame
	}
}

// aside reports whether frames of an op may come at any time.
func aside(op string) bool { return op == wire.OpCursor || op == wire.OpReauthRequired }

// event answers the next event, which must be of a type.
func (s *socket) event(kind string) wire.Envelope {
	event := body[wire.Envelope](s, s.expect(wire.OpDispatch))
	require.Equal(s.t, kind, event.Type, "the connection had: %s", s.told())
	return event
}

// await passes over events until one of a type.
func (s *socket) await(kind string) wire.Envelope {
	for {
		if event := body[wire.Envelope](s, s.expect(wire.OpDispatch)); event.Type == kind {
			return event
		}
	}
}

// settled proves that everything up to the end of the log has come to this connection, and answers the events that
// did: something personal is written, which must come after all of it.
func (s *socket) settled() []wire.Envelope {
	key := "barrier-" + newID()
	s.p.put("/settings/"+key, object{"value": true}).want(http.StatusOK)
	var before []wire.Envelope
	for {
		event := body[wire.Envelope](s, s.expect(wire.OpDispatch))
		if event.Type == "settings.updated" && event.Resource.ID == key {
			return before
		}
		before = append(before, event)
	}
}

// acknowledged proves that the connection lives and has taken every op before: a heartbeat is answered. It answers the
// events that came before that.
func (s *socket) acknowledged() []wire.Envelope {
	ref := newID()
	s.send(wire.OpHeartbeat, wire.Heartbeat{LastSeq: s.seq, Ref: ref})
	var before []wire.Envelope
	for {
		frame := s.next()
		switch frame.Op {
		case wire.OpCursor, wire.OpReauthRequired:
		case wire.OpDispatch:
			before = append(before, body[wire.Envelope](s, frame))
		default:
			require.Equal(s.t, wire.OpHeartbeatAck, frame.Op, "%s", frame.D)
			require.Equal(s.t, ref, body[wire.HeartbeatAck](s, frame).Ref)
			return before
		}
	}
}

// refused answers the error about an op; the connection stays.
func (s *socket) refused(op string, want code.Code) wire.OpFailed {
	failed := body[wire.OpFailed](s, s.expect(wire.OpError))
	require.Equal(s.t, op, failed.Op)
	require.Equal(s.t, string(want), failed.Code, failed.Detail)
	return failed
}

// closed waits for the end of the connection, which must have this code, and answers its reason.
func (s *socket) closed(want code.Close) string {
	deadline := time.Now().Add(patience)
	for time.Until(deadline) > 0 {
		select {
		case _, open := <-s.frames:
			if open {
				continue
			}
			closing, ok := errors.AsType[websocket.CloseError](s.end)
			require.True(s.t, ok, "the connection ended without a code: %v; it had: %s", s.end, s.told())
			require.Equal(s.t, want, code.Close(closing.Code), "%s; the connection had: %s", closing.Reason, s.told())
			return closing.Reason
		case <-time.After(time.Until(deadline)):
		case <-s.t.Context().Done():
			deadline = time.Now()
		}
	}
	s.t.Errorf("the connection is still open after %s: %s", patience, s.told())
	s.t.FailNow()
	return ""
}

func body[T any](s *socket, frame wire.Frame) T {
	var value T
	require.NoError(s.t, decode(frame.D, &value), "%s", frame.D)
	return value
}
