package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/cairnsync/cairn/client/internal/httpkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

const (
	gatewayPath        = prefix + "/gateway"
	socketWriteTimeout = 10 * time.Second
	// framesAhead is how many frames are read before the sink has taken them; then the socket is left full.
	framesAhead = 256
)

// errNoAck is a heartbeat that was not answered in time (ES-6.3.5).
var errNoAck = errors.New("gateway did not answer a heartbeat")

// connection is one WebSocket. One goroutine reads and one beats; the sink is served by the goroutine of Run.
type connection struct {
	g      *Gateway
	run    context.Context //nolint:containedctx // of Gateway.Run
	ctx    context.Context //nolint:containedctx // the connection's own life
	cancel context.CancelCauseFunc
	socket *websocket.Conn
	hello  wire.Hello
	frames chan wire.Frame
	acked  chan struct{} // holds one
	beat   chan struct{} // holds one: a heartbeat is wanted now
	busy   atomic.Bool   // the reader waits for the sink
	seq    atomic.Int64  // the cursor
	own    sync.WaitGroup

	auths atomic.Int32 // reauths that were refused in a row
}

// open dials, starts the reader and takes hello.
func (g *Gateway) open(ctx context.Context) (*connection, error) {
	dialling, stop := context.WithTimeout(ctx, g.options.DialTimeout)
	defer stop()
	started := time.Now()
	made := Call{Method: http.MethodGet, Path: gatewayPath}
	options := &websocket.DialOptions{HTTPClient: g.client.stream}
	socket, response, err := websocket.Dial(dialling, g.client.base+gatewayPath, options) //nolint:bodyclose // dialRefusal closes it
	if err != nil {
		err = fmt.Errorf("open gateway: %w", dialRefusal(response, err))
		g.client.trace(made, response, started, err)
		return nil, err
	}
	g.client.trace(made, response, started, nil)
	socket.SetReadLimit(g.options.MaxFrameBytes)
	c := &connection{
		g: g, run: ctx, socket: socket,
		frames: make(chan wire.Frame, framesAhead), acked: make(chan struct{}, 1), beat: make(chan struct{}, 1),
	}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	c.own.Go(c.read)
	if err := c.greet(dialling); err != nil {
		c.end(err)
		return nil, err
	}
	return c, nil
}

// dialRefusal answers why the server did not upgrade.
func dialRefusal(response *http.Response, err error) error {
	if response == nil || response.StatusCode == http.StatusSwitchingProtocols || response.Body == nil {
		return httpkit.Bare(err)
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	body, readErr := io.ReadAll(io.LimitReader(response.Body, maxProblemBody))
	if readErr != nil {
		return fmt.Errorf("read answer: %w", readErr)
	}
	return refusal(response, body)
}

// greet takes hello, which must come first (ES-6.3.2).
func (c *connection) greet(ctx context.Context) error {
	frame, err := c.next(ctx)
	if err != nil {
		return err
	}
	if frame.Op != wire.OpHello {
		return fmt.Errorf("%w: it begins with %q", errFrame, frame.Op)
	}
	if err := json.Unmarshal(frame.D, &c.hello); err != nil {
		return fmt.Errorf("%w: decode hello: %w", errFrame, err)
	}
	if len(c.hello.ProtocolVersions) > 0 && !slices.Contains(c.hello.ProtocolVersions, wire.ProtocolVersion) {
		return &Closed{Code: code.CloseProtocolVersion, Reason: fmt.Sprintf("the server speaks versions %v", c.hello.ProtocolVersions)}
	}
	c.g.client.noteNonce(c.hello.DPoPNonce)
	return nil
}

// next answers the next frame, or why there is none.
func (c *connection) next(ctx context.Context) (wire.Frame, error) {
	select {
	case frame := <-c.frames:
		return frame, nil
	case <-c.ctx.Done():
	case <-ctx.Done():
	}
	select { // what was read before the end still counts
	case frame := <-c.frames:
		return frame, nil
	default:
	}
	if c.ctx.Err() != nil {
		return wire.Frame{}, context.Cause(c.ctx) //nolint:wrapcheck // it is this package's own
	}
	return wire.Frame{}, fmt.Errorf("wait for the gateway: %w", ctx.Err())
}

// read hands frames over until the socket ends. Acks are taken here, so that a busy sink does not look
// like a dead server.
func (c *connection) read() {
	for {
		kind, data, err := c.socket.Read(c.ctx)
		if err != nil {
			c.cancel(endOf(err))
			return
		}
		if kind != websocket.MessageText {
			c.cancel(fmt.Errorf("%w: a binary frame", errFrame))
			return
		}
		frame, err := decodeFrame(data)
		if err != nil {
			c.cancel(err)
			return
		}
		if frame.Op == wire.OpHeartbeatAck {
			signal(c.acked)
			continue
		}
		c.busy.Store(true)
		select {
		case c.frames <- frame:
		case <-c.ctx.Done():
			return
		}
		c.busy.Store(false)
	}
}

// endOf makes a *Closed of a close that the server said.
func endOf(err error) error {
	if closed, is := errors.AsType[websocket.CloseError](err); is {
		return fmt.Errorf("read gateway: %w", &Closed{Code: code.Close(closed.Code), Reason: closed.Reason})
	}
	return fmt.Errorf("read gateway: %w", err)
}

// end ends the connection and waits for its goroutines. A context that ended is a goodbye (ES-6.3.8).
func (c *connection) end(why error) {
	if c.g.ended(why) {
		_ = c.socket.Close(websocket.StatusNormalClosure, "")
	}
	c.cancel(why)
	_ = c.socket.CloseNow() // nothing is left to say on it
	c.own.Wait()
}

// ended reports whether the connection ends because this client wants it.
func (g *Gateway) ended(why error) bool {
	failed, ok := errors.AsType[*sinkError](why)
	return errors.Is(why, context.Canceled) || ok && failed != nil
}

// write sends a frame.
func (c *connection) write(op string, d any) error {
	body, err := httpkit.Encode(d)
	if err != nil {
		return httpkit.NotSent("encode %s: %w", op, err)
	}
	frame, err := httpkit.Encode(wire.Frame{Op: op, D: body})
	if err != nil {
		return httpkit.NotSent("encode %s: %w", op, err)
	}
	ctx, cancel := context.WithTimeout(c.ctx, socketWriteTimeout)
	defer cancel()
	if err := c.socket.Write(ctx, websocket.MessageText, frame); err != nil {
		return fmt.Errorf("write %s to gateway: %w", op, err)
	}
	return nil
}

// say sends a frame that needs no answer; a failed write ends the connection.
func (c *connection) say(op string, d any) {
	if err := c.write(op, d); err != nil {
		c.cancel(err)
	}
}

func (c *connection) nudge() { signal(c.beat) }

// signal puts the one token into a channel that holds one.
func signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// keep sends heartbeats: the first after a random part of the interval, so that not everybody sends at the same
// time after a restart, and ends the connection when an answer stays away for an interval (ES-6.3.5).
func (c *connection) keep() {
	interval := time.Duration(c.hello.HeartbeatIntervalMS) * time.Millisecond
	if interval <= 0 {
		return
	}
	next := time.Duration(rand.Float64() * float64(interval))
	for c.rest(next) {
		select { // an answer that came too late for its heartbeat says nothing about the next one
		case <-c.acked:
		default:
		}
		sent := time.Now()
		c.say(wire.OpHeartbeat, wire.Heartbeat{LastSeq: c.seq.Load()})
		if !c.awaitAck(interval) {
			return
		}
		next = max(0, interval-time.Since(sent))
	}
}

// rest waits for the next heartbeat, or until one is wanted; it reports false when the connection has ended.
func (c *connection) rest(wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-c.ctx.Done():
		return false
	case <-timer.C:
	case <-c.beat:
	}
	return true
}

// awaitAck waits for an answer. While the reader waits for the sink no answer can be read, and the time starts anew.
func (c *connection) awaitAck(interval time.Duration) bool {
	for {
		timer := time.NewTimer(interval)
		select {
		case <-c.acked:
			timer.Stop()
			return true
		case <-c.ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
			if !c.busy.Load() {
				c.cancel(errNoAck)
				return false
			}
		}
	}
}
