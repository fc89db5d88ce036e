package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/conformance/contract"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	"github.com/cairnsync/cairn/wire/code"
	wirews "github.com/cairnsync/cairn/wire/workspace"
)

// patience is how long a test waits for what has to happen, on a machine that runs many tests at once.
const patience = 30 * time.Second

const gatewayPath = "/api/v1/gateway"

// socket is one connection to the gateway. A goroutine reads it into a bounded channel, while it is not paused; the
// test reads that from one goroutine. Every frame is held against the AsyncAPI document, and what comes out of the log
// against the promise that it comes in order, once.
type socket struct {
	t     *testing.T
	p     *servertest.Person
	ws    *websocket.Conn
	hello wirews.Hello
	ready wirews.Ready

	frames  chan wirews.Frame
	end     error // valid once frames is closed
	past    []string
	seq     int64 // the highest of the log that came
	cancel  context.CancelFunc
	once    sync.Once
	reading sync.Mutex // held while the connection is not read
	paused  atomic.Bool
}

// dial opens a connection to where the person is, and reads hello.
func dial(t *testing.T, p *servertest.Person) *socket {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	transport := &http.Transport{}
	opening, opened := context.WithTimeout(ctx, patience)
	defer opened()
	ws, _, err := websocket.Dial(opening, "ws"+strings.TrimPrefix(p.Address, "http")+gatewayPath,
		&websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		cancel()
		require.NoError(t, err, "open the gateway")
	}
	ws.SetReadLimit(-1)
	s := &socket{t: t, p: p, ws: ws, frames: make(chan wirews.Frame, 8192), cancel: cancel}
	t.Cleanup(s.cut)
	go s.read(ctx)
	s.hello = bodyOf[wirews.Hello](s, s.expect(wirews.OpHello))
	return s
}

// connect identifies, with a cursor where there is one, and reads ready.
func connect(t *testing.T, p *servertest.Person, cursor ...int64) *socket {
	t.Helper()
	s := dial(t, p)
	s.identify(cursor...)
	s.awaitReady()
	return s
}

func (s *socket) awaitReady() {
	s.t.Helper()
	s.ready = bodyOf[wirews.Ready](s, s.expect(wirews.OpReady))
}

// resume goes on with the gateway session of another connection.
func (s *socket) resume(at *servertest.Person, cursor int64) *socket {
	s.t.Helper()
	again := dial(s.t, at)
	again.ready = s.ready
	again.send(wirews.OpResume, wirews.Resume{
		GatewaySessionID: s.ready.GatewaySessionID, AccessToken: at.Tokens().AccessToken, DPoP: again.proof(), Cursor: cursor,
		SyncEpoch: again.hello.SyncEpoch,
	})
	return again
}

// proof answers a proof for this connection.
func (s *socket) proof() string {
	return s.p.Key.Sign(s.t, servertest.Proof{
		Method: http.MethodGet, URL: s.p.Address + gatewayPath, Nonce: s.hello.DPoPNonce, AccessToken: s.p.Tokens().AccessToken,
	})
}

func (s *socket) identity(cursor ...int64) wirews.Identify {
	in := wirews.Identify{
		AccessToken: s.p.Tokens().AccessToken, DPoP: s.proof(), DeviceID: s.p.DeviceID, ProtocolVersion: wirews.ProtocolVersion,
		Client: &wirews.ClientInfo{Platform: "test", Version: "1"},
	}
	for _, at := range cursor {
		in.Cursor, in.SyncEpoch = &at, s.hello.SyncEpoch
	}
	return in
}

func (s *socket) identify(cursor ...int64) { s.send(wirews.OpIdentify, s.identity(cursor...)) }

// cut hangs up without a goodbye and waits for the reader.
func (s *socket) cut() {
	s.once.Do(func() {
		s.cancel()
		_ = s.ws.CloseNow()
		s.proceed()
		for range s.frames { // the reader ends when its connection does
		}
	})
}

func (s *socket) read(ctx context.Context) {
	defer close(s.frames)
	known := servertest.Frames(s.t)
	for {
		s.reading.Lock()
		s.reading.Unlock() //nolint:staticcheck // only waits for proceed
		_, text, err := s.ws.Read(ctx)
		if err != nil {
			s.end = err
			return
		}
		var frame wirews.Frame
		if err := errors.Join(known.Check(contract.FromServer, text), json.Unmarshal(text, &frame)); err != nil {
			s.t.Errorf("a frame that the document does not know: %v", err)
		}
		select {
		case s.frames <- frame:
		case <-ctx.Done():
			s.end = ctx.Err()
			return
		}
	}
}

// pause stops reading, so that what the server sends gets stuck; proceed goes on.
func (s *socket) pause() {
	s.reading.Lock()
	s.paused.Store(true)
}

func (s *socket) proceed() {
	if s.paused.Swap(false) {
		s.reading.Unlock()
	}
}

// send writes an op. An error shows in what is read next.
func (s *socket) send(op string, d any) {
	text, err := json.Marshal(map[string]any{"op": op, "d": d})
	require.NoError(s.t, err)
	s.text(string(text))
}

func (s *socket) text(text string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), patience)
	defer cancel()
	_ = s.ws.Write(ctx, websocket.MessageText, []byte(text))
}

// take answers the next frame; ok is false when the connection ended or nothing came.
func (s *socket) take() (frame wirews.Frame, ok bool) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case frame, ok = <-s.frames:
	case <-timer.C:
	}
	if ok {
		s.past = append(s.past, frame.Op+" "+string(frame.D[:min(len(frame.D), 120)]))
		s.order(frame)
	}
	return frame, ok
}

// order demands that dispatches and cursors never step back (ES-10).
func (s *socket) order(frame wirews.Frame) {
	var at wirews.Cursor
	if frame.Op != wirews.OpDispatch && frame.Op != wirews.OpCursor {
		return
	}
	require.NoError(s.t, json.Unmarshal(frame.D, &at))
	switch {
	case at.Seq == 0: // ephemeral
	case frame.Op == wirews.OpDispatch:
		require.Greater(s.t, at.Seq, s.seq, "ES-10 in order, nothing twice: %s", frame.D)
		s.seq = at.Seq
	default:
		require.GreaterOrEqual(s.t, at.Seq, s.seq, "ES-7.1 a cursor never steps back")
	}
}

func (s *socket) next() wirews.Frame {
	s.t.Helper()
	frame, ok := s.take()
	if !ok {
		require.Fail(s.t, "no frame any more", "%v; the connection had: %s", s.ended(), s.told())
	}
	return frame
}

// ended answers why take answered nothing.
func (s *socket) ended() error {
	select {
	case _, open := <-s.frames:
		if !open {
			return s.end
		}
	default:
	}
	return errors.New("nothing came in time")
}

func (s *socket) told() string { return strings.Join(s.past[max(0, len(s.past)-8):], " | ") }

// expect answers the next frame, which must be of an op; cursors are passed over.
func (s *socket) expect(op string) wirews.Frame {
	s.t.Helper()
	for {
		frame := s.next()
		if frame.Op == wirews.OpCursor && op != wirews.OpCursor {
			continue
		}
		require.Equal(s.t, op, frame.Op, "%s; the connection had: %s", frame.D, s.told())
		return frame
	}
}

// await passes over events until one of a type.
func (s *socket) await(kind string) wirews.Envelope {
	s.t.Helper()
	for {
		if event := bodyOf[wirews.Envelope](s, s.expect(wirews.OpDispatch)); event.Type == kind {
			return event
		}
	}
}

// acknowledged proves that the connection works: it passes over everything until the answer to a heartbeat, and
// answers the durable events among it.
func (s *socket) acknowledged() []wirews.Envelope {
	s.t.Helper()
	ref := servertest.NewID()
	s.send(wirews.OpHeartbeat, wirews.Heartbeat{LastSeq: s.seq, Ref: ref})
	var events []wirews.Envelope
	for {
		switch frame := s.next(); frame.Op {
		case wirews.OpDispatch:
			events = append(events, bodyOf[wirews.Envelope](s, frame))
		case wirews.OpHeartbeatAck:
			require.Equal(s.t, ref, bodyOf[wirews.HeartbeatAck](s, frame).Ref)
			return events
		default:
		}
	}
}

// closed waits for the end of the connection, which must have this code, and answers the events before it.
func (s *socket) closed(want code.Close) []wirews.Envelope {
	s.t.Helper()
	var events []wirews.Envelope
	for {
		frame, ok := s.take()
		if ok {
			if frame.Op == wirews.OpDispatch {
				events = append(events, bodyOf[wirews.Envelope](s, frame))
			}
			continue
		}
		end := s.ended()
		closing, is := errors.AsType[websocket.CloseError](end)
		require.True(s.t, is, "the connection did not end with a code: %v; it had: %s", end, s.told())
		require.Equal(s.t, want, code.Close(closing.Code), "%s; the connection had: %s", closing.Reason, s.told())
		return events
	}
}

func bodyOf[T any](s *socket, frame wirews.Frame) T {
	s.t.Helper()
	var value T
	require.NoError(s.t, json.Unmarshal(frame.D, &value), "%s", frame.D)
	return value
}

// messageOf reads the message of an event.
func messageOf(t *testing.T, event wirews.Envelope) wirews.Message {
	t.Helper()
	var body wirews.MessageEvent
	require.NoError(t, json.Unmarshal(event.Payload, &body), "%s", event.Payload)
	return body.Message
}
