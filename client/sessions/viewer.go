package sessions

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairnsync/cairn/client/internal/httpkit"
	"github.com/cairnsync/cairn/wire/code"
)

// Transport carries a Viewer's stream.
type Transport int

// The transports.
const (
	SSE       Transport = iota // text/event-stream; the default
	WebSocket                  // also carries controls, events and presence up
)

// Defaults of ViewOptions.
const (
	DefaultSilence       = 45 * time.Second
	DefaultMaxFrameBytes = 16 << 20
)

// healthyAfter is how long a connection must have lived for the next failure to count as the first.
const healthyAfter = 5 * time.Second

// ViewOptions says how to follow a session. The zero value follows it from the start over SSE.
type ViewOptions struct {
	// After is the seq of the last event already known; 0 for none.
	After     int64
	Transport Transport
	// Identity is an AGE-SECRET-KEY-1… that opens sealed payloads; "" leaves them sealed.
	Identity string
	// Silence is how long a connection may bring nothing, pings included, before it counts as lost;
	// default 45 s, three times the server's ping.
	Silence time.Duration
	// MaxFrameBytes bounds one frame; default 16 MiB, more than any event has. A larger one counts as
	// broken.
	MaxFrameBytes int
}

// Errors that end a Viewer.
var (
	// ErrBrokenStream is a stream that repeatedly misses events or sends what cannot be read.
	ErrBrokenStream = errors.New("stream is broken")
	// ErrFrameTooLarge is a frame over ViewOptions.MaxFrameBytes.
	ErrFrameTooLarge = errors.New("frame is larger than the limit")
	// ErrRunning is a second Run of a Viewer at the same time.
	ErrRunning = errors.New("viewer already runs")
	errSilent  = errors.New("nothing came for too long")
)

// ClosedError is the server's last word on a stream: the caller may not see the session any more, or it is
// gone (SS-ROLE-2). It also says why an ordinary connection ended, in ConnectionFrame.Err.
type ClosedError struct {
	Code   code.Close
	Reason string // or ""
}

// Error answers the close code and reason.
func (e *ClosedError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("server closed the stream with %d", e.Code)
	}
	return fmt.Sprintf("server closed the stream with %d: %s", e.Code, e.Reason)
}

// final reports whether connecting again cannot help: close codes 4400 to 4404 (SS-STR-6).
func (e *ClosedError) final() bool {
	return e.Code >= code.CloseBadRequest && e.Code <= code.CloseNotFound
}

// ViewerStats counts what a Viewer met.
type ViewerStats struct {
	Connects   int64 // streams opened
	Duplicates int64 // events dropped because they were known
	Holes      int64 // events refused because one before them was missing
	Resets     int64
}

// Viewer follows one session. It connects again by itself, with the highest seq it handed out, after a
// jittered wait of 250 ms to 15 s (or what the server asks). It proves that each event follows the one
// before: a known one is dropped, a hole means connecting again (SS-CON-1, SS-STR-2).
type Viewer struct {
	client  *Client
	ref     string
	options ViewOptions
	opener  *opener
	running atomic.Bool
	busy    atomic.Bool // the consumer has a frame in hand, so nothing is read
	last    atomic.Int64
	stats   struct{ connects, duplicates, holes, resets atomic.Int64 }

	mu     sync.Mutex // guards what follows
	stance stance
	socket *socket // the open WebSocket, or nil
}

// View answers a Viewer of a session. It makes no request before Run or Frames.
func (c *Client) View(ref string, o ViewOptions) *Viewer {
	if o.Silence <= 0 {
		o.Silence = DefaultSilence
	}
	if o.MaxFrameBytes <= 0 {
		o.MaxFrameBytes = DefaultMaxFrameBytes
	}
	v := &Viewer{client: c, ref: ref, options: o}
	v.last.Store(max(0, o.After))
	return v
}

// LastSeq answers the seq of the last event that was handed out and taken without an error.
func (v *Viewer) LastSeq() int64 { return v.last.Load() }

// Stats answers what the Viewer met so far.
func (v *Viewer) Stats() ViewerStats {
	return ViewerStats{
		Connects: v.stats.connects.Load(), Duplicates: v.stats.duplicates.Load(),
		Holes: v.stats.holes.Load(), Resets: v.stats.resets.Load(),
	}
}

// Frames is Run as a sequence: it ends when the loop does, or after the error that ended it.
func (v *Viewer) Frames(ctx context.Context) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		errLeft := errors.New("loop ended")
		err := v.Run(ctx, func(frame Frame) error {
			if !yield(frame, nil) {
				return errLeft
			}
			return nil
		})
		if !errors.Is(err, errLeft) {
			yield(nil, err)
		}
	}
}

// Run hands each frame to take, in order and one at a time, on the calling goroutine, until ctx ends, take
// fails, or the server says that there is nothing to see: then it answers ctx's error, take's error,
// an *APIError, a *ClosedError or ErrBrokenStream. It never answers nil. It may be run again and goes on
// after LastSeq.
func (v *Viewer) Run(ctx context.Context, take func(Frame) error) error {
	if !v.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer v.running.Store(false)
	opener, err := newOpener(v.options.Identity)
	if err != nil {
		return err
	}
	v.opener = opener
	run := &viewing{viewer: v, take: take, position: position{last: v.last.Load()}}
	for {
		started := time.Now()
		err := run.connection(ctx)
		if ending := run.ending(ctx, err); ending != nil {
			return ending
		}
		if time.Since(started) >= healthyAfter {
			run.backoff.reset()
		}
		if err := run.pause(ctx, err); err != nil {
			return err
		}
	}
}

// viewing is one Run.
type viewing struct {
	viewer   *Viewer
	take     func(Frame) error
	position position
	backoff  backoff
	rewound  bool // the last connection was left because of a reset
}

// consumerError marks an error of the consumer, which ends the Run as it is.
type consumerError struct{ error }

func (r *viewing) ending(ctx context.Context, err error) error {
	var consumer consumerError
	var closed *ClosedError
	switch {
	case errors.As(err, &consumer):
		return consumer.error
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, ErrEmptyReference), errors.Is(err, httpkit.ErrNotSent), errors.Is(err, ErrForeignRedirect):
		return err
	case errors.As(err, &closed) && closed.final():
		return err
	case r.position.broken():
		return fmt.Errorf("%w after event %d: %w", ErrBrokenStream, r.position.last, err)
	}
	if refused := AsAPIError(err); refused != nil && refused.Status/100 == 4 && !worthRetry(err) {
		return err
	}
	return nil
}

// pause tells the consumer that the connection was lost, and waits.
func (r *viewing) pause(ctx context.Context, reason error) error {
	if r.rewound {
		r.rewound = false
		return nil // the reset was told; the next connection starts at 0 at once
	}
	wait := r.backoff.next(retryAfter(reason))
	if err := r.take(ConnectionFrame{State: Lost, RetryIn: wait, Err: reason}); err != nil {
		return err
	}
	if !httpkit.Sleep(ctx, wait) {
		return ctx.Err()
	}
	return nil
}

// hand gives one frame to the consumer.
func (r *viewing) hand(frame Frame) error {
	r.viewer.busy.Store(true)
	defer r.viewer.busy.Store(false)
	if err := r.take(frame); err != nil {
		return consumerError{err}
	}
	return nil
}

// source is one open stream.
type source interface {
	// next answers the next frame's name and JSON. The data is good until the call after.
	next() (name string, data []byte, err error)
	close()
}

// connection opens a stream and hands out its frames until it ends; it always answers why it did.
func (r *viewing) connection(parent context.Context) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	watch := newWatchdog(r.viewer.options.Silence, cancel)
	defer watch.rest()
	opened, err := r.viewer.open(ctx, watch, r.position.last)
	if err != nil {
		return silenceOr(ctx, err)
	}
	defer opened.close()
	watch.rest() // it counts again when something is read
	r.viewer.stats.connects.Add(1)
	if err := r.hand(ConnectionFrame{State: Connected}); err != nil {
		return err
	}
	for {
		name, data, err := opened.next()
		if err != nil {
			r.strikeIfUnreadable(err)
			return silenceOr(ctx, err)
		}
		if err := r.frame(name, data); err != nil {
			return err
		}
	}
}

func (v *Viewer) open(ctx context.Context, watch *watchdog, after int64) (source, error) {
	route := "/stream"
	if v.options.Transport == WebSocket {
		route = "/ws"
	}
	at, err := httpkit.Path("/v1/sessions/", v.ref, route)
	if err != nil {
		return nil, err
	}
	if v.options.Transport == WebSocket {
		return v.openSocket(ctx, watch, at, after)
	}
	return v.openStream(ctx, watch, at, after)
}

func silenceOr(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSilent) {
		return errSilent
	}
	return err
}

// watchdog ends a connection that brings nothing. It counts only while somebody reads: a slow consumer is
// no silence.
type watchdog struct {
	silence time.Duration
	timer   *time.Timer
}

func newWatchdog(silence time.Duration, cancel context.CancelCauseFunc) *watchdog {
	return &watchdog{silence: silence, timer: time.AfterFunc(silence, func() { cancel(errSilent) })}
}

func (w *watchdog) arm()  { w.timer.Reset(w.silence) }
func (w *watchdog) rest() { w.timer.Stop() }

// statusOf is the HTTP status a code has; error frames of a WebSocket do not carry one.
func statusOf(c code.Code) int {
	if c == "" {
		return http.StatusInternalServerError
	}
	return code.Of(c).Status
}
