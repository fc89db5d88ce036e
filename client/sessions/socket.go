package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/cairnsync/cairn/client/internal/httpkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

const (
	socketWriteTimeout = 10 * time.Second
	socketAskTimeout   = 10 * time.Second
	maxAsked           = 256 // answers waited for on one WebSocket
)

// errNoSocket says that a message was not answered, and may have to go another way.
var errNoSocket = errors.New("WebSocket brought no answer")

// socket is one open WebSocket. Frames are read by the viewer's goroutine; any goroutine may ask.
type socket struct {
	viewer *Viewer
	ctx    context.Context //nolint:containedctx // the connection's own life: who asks has another
	conn   *websocket.Conn
	watch  *watchdog
	limit  int64

	mu    sync.Mutex             // guards asked
	asked map[string]chan answer // by ref; nil when the socket is closed
}

// answer is an ack or an error frame.
type answer struct {
	body json.RawMessage
	err  error
}

// openSocket opens the WebSocket (SS-STR-5). The key travels in a header, as everywhere.
func (v *Viewer) openSocket(ctx context.Context, watch *watchdog, at string, after int64) (source, error) {
	header := http.Header{}
	v.client.identify(header)
	s := &socket{
		viewer: v, ctx: ctx, watch: watch, limit: int64(v.options.MaxFrameBytes), asked: map[string]chan answer{},
	}
	target := v.client.base + at + "?after=" + strconv.FormatInt(after, 10)
	started := time.Now()
	conn, response, err := websocket.Dial(ctx, target, &websocket.DialOptions{ //nolint:bodyclose // dialRefusal closes it
		HTTPClient:     v.client.stream,
		HTTPHeader:     header,
		OnPingReceived: func(context.Context, []byte) bool { watch.arm(); return true },
	})
	if err != nil {
		err = fmt.Errorf("open WebSocket: %w", dialRefusal(response, err))
	}
	v.client.trace(http.MethodGet, at, response, started, err)
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(s.limit)
	s.conn = conn
	v.attach(s) //nolint:contextcheck // what it writes is bounded by the connection
	return s, nil
}

// dialRefusal answers why the server did not upgrade.
func dialRefusal(response *http.Response, err error) error {
	if response == nil || response.StatusCode == http.StatusSwitchingProtocols || response.Body == nil {
		return httpkit.Bare(err)
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	body, readErr := io.ReadAll(io.LimitReader(response.Body, maxErrorBody))
	if readErr != nil {
		return fmt.Errorf("read answer: %w", readErr)
	}
	return refusal(response, body)
}

// stance is what this device says of the person before it.
type stance struct{ driving, attention bool }

// attach makes s the way up, and tells the server the stance, if there is something to tell.
func (v *Viewer) attach(s *socket) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.socket = s
	if v.stance != (stance{}) {
		_ = s.say(v.stance) // a failed write ends the connection, and the next one says it again
	}
}

// SetDriving says whether a person on this device has the session in hand. It is presence, which only
// a WebSocket carries up: over SSE it has no effect. It is said again on every new connection.
func (v *Viewer) SetDriving(driving bool) { v.change(func(s *stance) { s.driving = driving }) }

// SetAttention says whether a person looks at the session on this device: while somebody does, none of that person's
// devices is pushed to about it, so an idle or hidden client says false. It is said again on every new
// connection. SSE carries nothing up: there it counts from the next connection on. It is an extension of
// cairn, which other servers ignore.
func (v *Viewer) SetAttention(attention bool) { v.change(func(s *stance) { s.attention = attention }) }

func (v *Viewer) change(set func(*stance)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := v.stance
	set(&v.stance)
	if v.stance != before && v.socket != nil {
		_ = v.socket.say(v.stance) // as in attach
	}
}

// attentive answers what SetAttention said last.
func (v *Viewer) attentive() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.stance.attention
}

// say always tells both: the protocol wants driving in every presence message.
func (s *socket) say(is stance) error {
	return s.write(map[string]any{"t": wire.FramePresence, "driving": is.driving, "attention": is.attention})
}

func (s *socket) write(message any) error {
	encoded, err := httpkit.Encode(message)
	if err != nil {
		return httpkit.NotSent("encode message: %w", err)
	}
	ctx, cancel := context.WithTimeout(s.ctx, socketWriteTimeout)
	defer cancel()
	if err := s.conn.Write(ctx, websocket.MessageText, encoded); err != nil {
		return fmt.Errorf("write to WebSocket: %w", err)
	}
	return nil
}

// next answers the next frame that is not an answer.
func (s *socket) next() (string, []byte, error) {
	for {
		data, err := s.read()
		if err != nil {
			return "", nil, s.ended(err)
		}
		var head struct {
			T   string `json:"t"`
			Ref string `json:"ref"`
		}
		if err := json.Unmarshal(data, &head); err != nil {
			return "", nil, fmt.Errorf("decode frame: %w", err)
		}
		switch head.T {
		case wire.FrameAck:
			s.settle(head.Ref, answer{body: data})
		case wire.FrameError:
			s.settle(head.Ref, answer{err: frameError(data)})
		default:
			return head.T, data, nil
		}
	}
}

func (s *socket) read() ([]byte, error) {
	s.watch.arm()
	defer s.watch.rest()
	_, reader, err := s.conn.Reader(s.ctx)
	if err != nil {
		return nil, fmt.Errorf("await frame: %w", err)
	}
	data, err := io.ReadAll(watchedReader{reader, s.watch})
	if err != nil {
		return nil, fmt.Errorf("read frame: %w", err)
	}
	return data, nil
}

func (s *socket) ended(err error) error {
	if errors.Is(err, websocket.ErrMessageTooBig) {
		return fmt.Errorf("read WebSocket: %w", ErrFrameTooLarge)
	}
	if closed, is := errors.AsType[websocket.CloseError](err); is {
		return &ClosedError{Code: code.Close(closed.Code), Reason: closed.Reason}
	}
	return fmt.Errorf("read WebSocket: %w", err)
}

func frameError(data []byte) error {
	var decoded wire.Error
	if err := json.Unmarshal(data, &decoded); err != nil {
		return fmt.Errorf("decode error frame: %w", err)
	}
	refused := &APIError{Status: statusOf(code.Code(decoded.Error.Code))}
	refused.fill(decoded.Error)
	return refused
}

func (s *socket) settle(ref string, a answer) {
	s.mu.Lock()
	waiting := s.asked[ref]
	delete(s.asked, ref)
	s.mu.Unlock()
	if waiting != nil {
		waiting <- a // has room for its one answer
	}
}

// ask sends a message and waits for its ack.
func (s *socket) ask(ctx context.Context, message func(ref string) any) (json.RawMessage, error) {
	ref := NewID()
	waiting := make(chan answer, 1)
	s.mu.Lock()
	if s.asked == nil || len(s.asked) >= maxAsked {
		s.mu.Unlock()
		return nil, errNoSocket
	}
	s.asked[ref] = waiting
	s.mu.Unlock()
	defer s.forget(ref)
	if err := s.write(message(ref)); err != nil { //nolint:contextcheck // half a write would end the connection
		return nil, err
	}
	timer := time.NewTimer(socketAskTimeout)
	defer timer.Stop()
	select {
	case a := <-waiting:
		return a.body, a.err
	case <-timer.C:
		return nil, errNoSocket
	case <-s.ctx.Done():
		return nil, errNoSocket
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for ack: %w", ctx.Err())
	}
}

func (s *socket) forget(ref string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.asked, ref)
}

func (s *socket) close() {
	s.viewer.detach(s)
	s.mu.Lock()
	s.asked = nil
	s.mu.Unlock()
	_ = s.conn.CloseNow() // nothing is left to say on it
}

func (v *Viewer) detach(s *socket) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.socket == s {
		v.socket = nil
	}
}

// way answers the open WebSocket if somebody reads from it. While the consumer has a frame in hand nobody
// does, and an answer could not arrive.
func (v *Viewer) way() *socket {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.busy.Load() {
		return nil
	}
	return v.socket
}

// SendControl sends a control over the open WebSocket, else over HTTP; editor and up. When no answer comes
// it is sent over HTTP with the same id, so it is stored once (SS-CON-2). It may be called while a frame
// is in hand.
func (v *Viewer) SendControl(ctx context.Context, control wire.IncomingControl) (wire.ControlReceipt, error) {
	if control.ID == "" {
		control.ID = NewID()
	}
	if s := v.way(); s != nil {
		receipt, err := asked[wire.ControlReceipt](ctx, s, func(ref string) any {
			return struct {
				T   string `json:"t"`
				Ref string `json:"ref"`
				wire.IncomingControl
			}{wire.FrameControl, ref, control}
		})
		if err == nil || ctx.Err() != nil || AsAPIError(err) != nil && !worthRetry(err) {
			return receipt, err
		}
	}
	return v.client.SendControl(ctx, v.ref, control)
}

// AppendEvents appends over the open WebSocket, else over HTTP; only for the lease holder. When the
// outcome is not known it answers an error: append again with the same client_event_ids.
func (v *Viewer) AppendEvents(ctx context.Context, batch Append) (wire.Receipt, error) {
	s := v.way()
	if s == nil {
		return v.client.AppendEvents(ctx, v.ref, batch)
	}
	return asked[wire.Receipt](ctx, s, func(ref string) any {
		return struct {
			T   string `json:"t"`
			Ref string `json:"ref"`
			Append
		}{wire.FrameEvents, ref, batch}
	})
}

func asked[T any](ctx context.Context, s *socket, message func(ref string) any) (T, error) {
	var value T
	body, err := s.ask(ctx, message)
	if err != nil {
		return value, err
	}
	if err := json.Unmarshal(body, &value); err != nil {
		return value, fmt.Errorf("decode ack: %w", err)
	}
	return value, nil
}
