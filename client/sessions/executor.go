package sessions

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cairnsync/cairn/client/internal/httpkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Defaults and bounds of ExecutorOptions.
const (
	DefaultHeartbeat   = 8 * time.Second
	MaxHeartbeat       = 10 * time.Second
	DefaultBatchEvents = 20
	DefaultBatchWait   = 200 * time.Millisecond
	DefaultQueueEvents = 1000
	DefaultQueueBytes  = 32 << 20
	DefaultDrainEvery  = 15 * time.Second
	DefaultStopGrace   = 5 * time.Second
)

// ExecutorOptions says how to execute. The zero value claims a free lease and only appends.
type ExecutorOptions struct {
	// Force takes a live lease from another device (SS-LEASE-3).
	Force bool
	// OnControl is given each pending control that is meant for this device, in seq order, one at a time.
	// When it answers nil the control is marked applied; when it answers ErrLeavePending the control is
	// left for a later Executor; any other error stops the Executor cleanly, with that error. It must
	// take the control over and return soon (a `send` starts a turn elsewhere), or it holds up what comes
	// after, such as the `cancel` of that turn; and it must end when ctx ends. It must not call Stop.
	// A crash before the mark gives the control to the next Executor again. nil: controls are not read.
	// Text is nil for kinds that carry none, and for an open handoff (Mode is open, Kind is send): the
	// device is only asked to open the session.
	OnControl func(ctx context.Context, control wire.Control) error
	// Woken says that a dispatch woke this device: the controls targeted at it are read before the lease
	// is claimed. Open handoffs go to OnControl at once, since they need no lease; when nothing else is
	// there, Execute answers ErrNothingDispatched and claims nothing (SS-CON-3).
	Woken bool
	// Refused, when set, answers what to store in place of an event that the server, or something in front of it, refuses for good
	// (413, bad_request), so that what comes after it is not held up. It is called on a goroutine of the Executor. false, like nil,
	// ends the Executor with the refusal.
	Refused func(event wire.IncomingEvent, refusal error) (instead wire.IncomingEvent, ok bool)
	// Silent wakes nobody by push for asks and ends of turns, because they happened before, as in an import.
	Silent bool
	// Recipients, when set, answers for whom (1 to 64 of age1…) payloads are sealed. It is asked before each batch is sent, so
	// a device that was added reads from then on; an error that is worth no retry, or more than 64, ends the Executor with it.
	// nil leaves payloads plain. Controls are plain text in either case. FixedRecipients answers always the same.
	Recipients func(ctx context.Context) ([]string, error)
	// Journal keeps emitted events beyond the life of the process; what is left in it is sent first. nil keeps them in memory
	// only. The Executor does not close it.
	Journal *Journal
	// Heartbeat is the time between heartbeats; default 8 s, at most 10 s and a third of Term.
	Heartbeat time.Duration
	// Term is what the server promises with each claim and heartbeat; default LeaseTerm.
	Term time.Duration
	// BatchEvents and BatchWait bound a batch: default 20 events or 200 ms, at most 200 events.
	BatchEvents int
	BatchWait   time.Duration
	// QueueEvents and QueueBytes bound what Emit may leave waiting; default 1000 events, 32 MiB. One event
	// is always admitted.
	QueueEvents int
	QueueBytes  int
	// DrainEvery is how often pending controls are read without being told; default 15 s.
	DrainEvery time.Duration
	// StopGrace bounds flush and release when it is not Stop's context that does; default 5 s.
	StopGrace time.Duration
	// Transport carries the stream that tells of new controls and of the lease.
	Transport Transport
}

// Errors of an Executor.
var (
	// ErrLeavePending is what OnControl answers for a control that should stay pending.
	ErrLeavePending = errors.New("leave control pending")
	// ErrNothingDispatched is a wake-up that found nothing to execute.
	ErrNothingDispatched = errors.New("no dispatched work for this device")
	// ErrLeaseLost is matched by every *LeaseLostError.
	ErrLeaseLost = errors.New("lease lost")
	// ErrStopped is an Emit after the Executor stopped.
	ErrStopped = errors.New("executor stopped")
	// ErrUnsent is a stop that left events behind.
	ErrUnsent = errors.New("events were not stored")
	// ErrLogReset is a log that lost events under the Executor, for example after a restored back-up.
	ErrLogReset = errors.New("log was reset")
)

// LossReason says how a lease was lost.
type LossReason string

// The reasons.
const (
	LossTaken       LossReason = "taken"       // another device holds it
	LossExpired     LossReason = "expired"     // the server says that nobody holds it
	LossUnreachable LossReason = "unreachable" // no heartbeat got through before the promised term ended
)

// LeaseLostError says that this device executes no more, from this moment on (SS-CON-3).
type LeaseLostError struct {
	Reason         LossReason
	HolderDeviceID string // who holds it now, if known
	Err            error  // the refusal or the last failure
}

// Error answers the reason and the holder.
func (e *LeaseLostError) Error() string {
	text := "lease lost: " + string(e.Reason)
	if e.HolderDeviceID != "" {
		text += " by device " + e.HolderDeviceID
	}
	return text
}

// Unwrap answers the refusal or the last failure.
func (e *LeaseLostError) Unwrap() error { return e.Err }

// Is makes every LeaseLostError an ErrLeaseLost.
func (e *LeaseLostError) Is(target error) bool { return target == ErrLeaseLost }

// Executor holds a session's lease and is its only writer. Work that depends on the lease uses Context,
// which ends the moment the lease is lost.
type Executor struct {
	client  *Client
	options ExecutorOptions
	lease   wire.Lease
	session string // server id
	queue   *eventQueue
	handled map[string]bool // open handoffs that were taken before the claim
	//nolint:containedctx // it is the Executor's life, and handed out by Context
	run     context.Context // ends with the right to execute; its cause says why
	end     context.CancelCauseFunc
	wake    chan struct{} // room for one: pending controls may be there
	beat    chan struct{} // room for one: the lease may have moved
	stopped chan struct{} // closed when a clean stop was asked for
	done    chan struct{}

	mu      sync.Mutex // guards what follows
	stop    bool       // stopped is closed
	over    bool       // reason is final
	patient bool       // Stop's context bounds the stop, not StopGrace
	reason  error      // why, nil for a wish of the caller
}

// Execute claims a session's lease, keeps it, and answers an Executor. A live lease of another device is a
// lease_held refusal; see APIError.HolderDeviceID. When ctx ends the Executor stops cleanly, as by Stop.
func (c *Client) Execute(ctx context.Context, ref string, o ExecutorOptions) (*Executor, error) {
	if c.config.Device.ID == "" {
		return nil, errors.New("execute session: the client has no device id")
	}
	if o.Recipients != nil {
		recipients, err := o.Recipients(ctx)
		if err == nil {
			_, err = parseRecipients(recipients)
		}
		if err != nil {
			return nil, fmt.Errorf("execute session: find recipients: %w", err)
		}
	}
	e := newExecutor(c, o.withDefaults())
	if o.Woken {
		if err := e.takeInbox(ctx, ref); err != nil {
			return nil, err
		}
	}
	asked, err := e.claim(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("claim lease: %w", err)
	}
	go e.supervise(ctx, asked)
	return e, nil
}

// claim takes the lease, and answers the moment before the request that was granted was sent: the term counts
// from there. An answer that was lost is asked for again: the lease may already be this device's.
func (e *Executor) claim(ctx context.Context, ref string) (time.Time, error) {
	var wait backoff
	for tried := 1; ; tried++ {
		asked := time.Now()
		lease, err := e.client.ClaimLease(ctx, ref, Claim{Force: e.options.Force})
		if err == nil {
			e.lease, e.session = lease, lease.SessionID
			return asked, nil
		}
		if tried >= e.client.config.Attempts || !worthRetry(err) || !httpkit.Sleep(ctx, wait.next(retryAfter(err))) {
			return asked, err
		}
	}
}

func newExecutor(c *Client, o ExecutorOptions) *Executor {
	e := &Executor{
		client: c, options: o, queue: newEventQueue(o),
		wake: make(chan struct{}, 1), beat: make(chan struct{}, 1),
		stopped: make(chan struct{}), done: make(chan struct{}), handled: map[string]bool{},
	}
	e.run, e.end = context.WithCancelCause(context.Background()) // outlives Execute's context by a clean stop
	return e
}

func (o ExecutorOptions) withDefaults() ExecutorOptions {
	o.Term = orDefault(o.Term, LeaseTerm)
	o.Heartbeat = min(orDefault(o.Heartbeat, DefaultHeartbeat), MaxHeartbeat, o.Term/3)
	o.BatchEvents = min(orDefault(o.BatchEvents, DefaultBatchEvents), wire.MaxBatch)
	o.BatchWait = orDefault(o.BatchWait, DefaultBatchWait)
	o.QueueEvents = orDefault(o.QueueEvents, DefaultQueueEvents)
	o.QueueBytes = orDefault(o.QueueBytes, DefaultQueueBytes)
	o.DrainEvery = orDefault(o.DrainEvery, DefaultDrainEvery)
	o.StopGrace = orDefault(o.StopGrace, DefaultStopGrace)
	return o
}

func orDefault[N ~int | ~int64](value, fallback N) N {
	if value <= 0 {
		return fallback
	}
	return value
}

// SessionID answers the server's id of the session.
func (e *Executor) SessionID() string { return e.session }

// Lease answers the lease as it was claimed.
func (e *Executor) Lease() wire.Lease { return e.lease }

// Context ends the moment this device must not execute any more; context.Cause says why.
func (e *Executor) Context() context.Context { return e.run }

// Done is closed when everything has ended: goroutines, requests, and on a clean stop the lease.
func (e *Executor) Done() <-chan struct{} { return e.done }

// Lost answers how the lease was lost, or nil. It is known before Done.
func (e *Executor) Lost() *LeaseLostError {
	lost, _ := errors.AsType[*LeaseLostError](context.Cause(e.run))
	return lost
}

// Err answers, after Done, why the Executor ended: nil after a clean Stop, the context's error after
// the end of Execute's context, a *LeaseLostError, the error of OnControl or a refusal.
// ErrUnsent is in the chain when events were left behind. Before Done it answers nil.
func (e *Executor) Err() error {
	select {
	case <-e.done:
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.reason
	default:
		return nil
	}
}

// Stop ends the Executor cleanly: no more controls, what was emitted is stored, the lease is released. When
// ctx ends first, what is left is given up. It waits for the end and answers Err. It may be called again.
func (e *Executor) Stop(ctx context.Context) error {
	e.mu.Lock()
	e.patient = true
	e.mu.Unlock()
	e.askStop(nil)
	select {
	case <-e.done:
	case <-ctx.Done():
		e.end(fmt.Errorf("stop executor: %w", ctx.Err()))
		<-e.done
	}
	return e.Err()
}

// askStop starts a clean stop; the first reason stays.
func (e *Executor) askStop(reason error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.stop && !e.over {
		e.stop, e.reason = true, reason
		close(e.stopped)
	}
}

func (e *Executor) stopping() bool {
	select {
	case <-e.stopped:
		return true
	default:
		return false
	}
}

// lose ends the right to execute at once, because of a refusal or a failure.
func (e *Executor) lose(reason LossReason, err error) {
	lost := &LeaseLostError{Reason: reason, Err: err}
	if refused := AsAPIError(err); refused != nil {
		lost.HolderDeviceID = refused.HolderDeviceID()
	}
	e.end(lost)
}

// refused ends the Executor if err says that it can never succeed, and reports whether it did.
func (e *Executor) refused(doing string, err error) bool {
	switch {
	case e.run.Err() != nil:
		return true
	case IsCode(err, code.LeaseHeld):
		reason := LossExpired
		if AsAPIError(err).HolderDeviceID() != "" {
			reason = LossTaken
		}
		e.lose(reason, err)
		return true
	case worthRetry(err):
		return false
	default:
		e.end(fmt.Errorf("%s: %w", doing, err))
		return true
	}
}

// supervise runs the loops, and ends them in order.
//
//nolint:contextcheck // the loops live as long as the run, which outlives ctx by a clean stop
func (e *Executor) supervise(ctx context.Context, claimed time.Time) {
	defer close(e.done)
	steering, quit := context.WithCancel(e.run)
	defer quit()
	var writers, steerers sync.WaitGroup
	writers.Go(func() { e.keepLease(claimed) })
	writers.Go(e.send)
	if e.options.OnControl != nil {
		steerers.Go(func() { e.drainControls(steering) })
		steerers.Go(func() { e.follow(steering) })
	}
	select {
	case <-e.run.Done():
	case <-e.stopped:
	case <-ctx.Done():
		e.askStop(ctx.Err())
	}
	grace := e.grace()
	defer grace.Stop()
	quit()
	steerers.Wait()
	e.queue.close()
	e.awaitStored()
	e.end(ErrStopped)
	writers.Wait()
	e.conclude()
}

// grace bounds a stop that no Stop bounds.
func (e *Executor) grace() *time.Timer {
	return time.AfterFunc(e.options.StopGrace, func() {
		e.mu.Lock()
		patient := e.patient
		e.mu.Unlock()
		if !patient {
			e.end(fmt.Errorf("stop executor: %w", context.DeadlineExceeded))
		}
	})
}

// awaitStored waits until everything emitted is stored, or nothing can be stored any more.
func (e *Executor) awaitStored() {
	_ = e.queue.flush(context.Background(), e.run) // what is left is counted in conclude
}

// conclude releases the lease unless it is lost, and writes down why it all ended.
func (e *Executor) conclude() {
	cause := context.Cause(e.run)
	var releaseErr error
	if !errors.Is(cause, ErrLeaseLost) {
		ctx, cancel := context.WithTimeout(context.Background(), e.options.StopGrace)
		defer cancel()
		if _, err := e.client.ReleaseLease(ctx, e.session); err != nil {
			releaseErr = fmt.Errorf("release lease: %w", err)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	if !errors.Is(cause, ErrStopped) {
		e.reason = errors.Join(cause, e.reason)
	} else if e.reason == nil {
		e.reason = releaseErr
	}
	if left := e.queue.left(); left > 0 {
		e.reason = errors.Join(e.reason, fmt.Errorf("%w: %d", ErrUnsent, left))
	}
}
