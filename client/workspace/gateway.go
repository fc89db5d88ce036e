package workspace

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	wire "github.com/cairnsync/cairn/wire/workspace"
)

// typingInterval is how often a typing.start is sent at most (sync.typing_min_interval).
const typingInterval = 5 * time.Second

// Gateway keeps one connection of a device to the server: it connects again, resumes and catches up until
// its context ends (ES-6, ES-7). Run works once at a time; its other methods may be called while it runs.
type Gateway struct {
	client  *Client
	options GatewayOptions
	sink    Sink
	wake    chan struct{} // holds one
	phase   atomic.Int32
	running atomic.Bool

	mu      sync.Mutex // guards what follows
	conn    *connection
	focus   *wire.Focus
	typing  string    // the thread of the last typing.start
	typedAt time.Time // when it was sent
}

// Gateway answers a Gateway that hands what it receives to a sink.
func (c *Client) Gateway(sink Sink, o GatewayOptions) *Gateway {
	if o.MaxFrameBytes <= 0 {
		o.MaxFrameBytes = defaultMaxFrame
	}
	if o.DialTimeout <= 0 {
		o.DialTimeout = defaultDialTimeout
	}
	if o.Report == nil {
		o.Report = func(error) {}
	}
	if o.Info == (wire.ClientInfo{}) {
		o.Info = wire.ClientInfo{Platform: c.config.Device.Platform, Version: "go"}
	}
	return &Gateway{client: c, options: o, sink: sink, wake: make(chan struct{}, 1)}
}

// Phase answers what the Gateway does at the moment.
func (g *Gateway) Phase() Phase { return Phase(g.phase.Load()) }

func (g *Gateway) enter(p Phase) { g.phase.Store(int32(p)) }

// Wake makes a waiting Gateway try at once, and a connected one see whether its connection still works:
// after a change of the network, and when the app comes to the foreground (ES-6.5).
func (g *Gateway) Wake() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
	if conn := g.current(); conn != nil {
		conn.nudge()
	}
}

// Focus says which threads are visible now, which in the background, and whether the app is idle (ES-6.2).
// It is said again on every new connection.
func (g *Gateway) Focus(threads, background []string, idle bool) {
	if threads == nil {
		threads = []string{}
	}
	g.mu.Lock()
	g.focus = &wire.Focus{ThreadIDs: threads, BackgroundThreadIDs: background, Idle: idle}
	conn, focus := g.conn, *g.focus
	g.mu.Unlock()
	if conn != nil {
		conn.say(wire.OpFocus, focus)
	}
}

// Typing says that the person types in a thread; it is sent as often as is of use (ES-12.1). Without a
// connection it is dropped, as everything ephemeral.
func (g *Gateway) Typing(thread string) {
	g.mu.Lock()
	conn := g.conn
	due := g.typing != thread || time.Since(g.typedAt) >= typingInterval
	if conn == nil || !due {
		g.mu.Unlock()
		return
	}
	g.typing, g.typedAt = thread, time.Now()
	g.mu.Unlock()
	conn.say(wire.OpTypingStart, wire.Typing{ThreadID: thread})
}

// StopTyping says that the input was cleared or sent.
func (g *Gateway) StopTyping(thread string) {
	g.mu.Lock()
	conn := g.conn
	if g.typing == thread {
		g.typing = ""
	}
	g.mu.Unlock()
	if conn != nil {
		conn.say(wire.OpTypingStop, wire.Typing{ThreadID: thread})
	}
}

func (g *Gateway) current() *connection {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.conn
}

// attach makes conn the way for what this client says, and says the focus; nil detaches.
func (g *Gateway) attach(conn *connection) {
	g.mu.Lock()
	g.conn, g.typing = conn, ""
	focus := g.focus
	g.mu.Unlock()
	if conn != nil && focus != nil {
		conn.say(wire.OpFocus, *focus)
	}
}

// Run connects until ctx ends, and then answers nil. It ends with a *Closed when this client is not to connect again
// by itself, with ErrSignedOut when there is no sign-in any more, with ErrRevoked after 4012, when the tokens are
// already gone and the caller deletes the rest, and with what a Sink failed with.
func (g *Gateway) Run(ctx context.Context) error {
	if g.running.Swap(true) {
		return errors.New("run gateway: it runs already")
	}
	defer g.running.Store(false)
	defer g.enter(Stopped)
	var memory reconnect
	for {
		err := g.connect(ctx, &memory)
		if ctx.Err() != nil {
			return nil
		}
		if failed, ok := errors.AsType[*sinkError](err); ok {
			return failed.cause
		}
		if errors.Is(err, ErrSignedOut) {
			return err
		}
		g.enter(Waiting)
		if err := g.recover(ctx, &memory, err); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// sinkError is what a Sink ended Run with.
type sinkError struct{ cause error }

func (e *sinkError) Error() string { return e.cause.Error() }

func (e *sinkError) Unwrap() error { return e.cause }

func sunk(err error) error {
	if err == nil {
		return nil
	}
	return &sinkError{err}
}

// recover does what is to be done between two connections.
func (g *Gateway) recover(ctx context.Context, memory *reconnect, ended error) error {
	foreground := g.options.Foreground != nil && g.options.Foreground()
	decided := memory.react(ended, foreground, g.client.config.APIToken == "", rand.Float64())
	if decided.report {
		g.options.Report(ended)
	}
	switch decided.move {
	case moveEnd:
		return ended
	case moveErase:
		return errors.Join(ErrRevoked, ended, g.client.Forget(ctx))
	case moveApprove:
		return g.awaitApproval(ctx)
	case moveRenew:
		if err := g.client.Refresh(ctx); errors.Is(err, ErrSignedOut) {
			return err
		}
		// Any other failure shows again on the way to the next connection, which asks for a token.
	case moveWait:
	}
	if woken := g.pause(ctx, decided.wait); !woken && decided.counts {
		memory.failures++
	}
	return nil
}

// pause waits, and reports whether Wake ended it early.
func (g *Gateway) pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-g.wake:
		return true
	}
	return false
}

// awaitApproval asks for the own device until it is active (4016).
func (g *Gateway) awaitApproval(ctx context.Context) error {
	g.enter(Approval)
	wait := backoff{base: outboxBase, limit: reconnectCap}
	for ctx.Err() == nil {
		device, err := g.client.Device(ctx, g.client.DeviceID())
		switch {
		case err == nil && device.State == wire.DeviceActive:
			return nil
		case err == nil && device.State == wire.DeviceRevoked:
			return errors.Join(ErrRevoked, g.client.Forget(ctx))
		case errors.Is(err, ErrSignedOut):
			return err
		}
		g.pause(ctx, max(time.Second, wait.next(waitOf(err))))
	}
	return nil
}

// connect makes one connection and serves it until it ends, which it always does with an error.
func (g *Gateway) connect(ctx context.Context, memory *reconnect) error {
	g.enter(Connecting)
	select { // a Wake of before is served by this attempt
	case <-g.wake:
	default:
	}
	from, err := g.sink.Position(ctx)
	if err != nil {
		return sunk(fmt.Errorf("ask for the position: %w", err))
	}
	conn, err := g.open(ctx)
	if err != nil {
		return err
	}
	err = conn.serve(memory, from)
	g.attach(nil)
	memory.lost = time.Now()
	conn.end(err)
	g.sink.Down(err)
	return err
}
