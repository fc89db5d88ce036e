package storage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/wire/code"
)

// maxWaiting bounds the writes that wait for a lane. Past it Write blocks until there is room or its
// context ends.
const maxWaiting = 4096

// write is a waiting call of DB.Write.
type write struct {
	ctx    context.Context
	keys   []Key
	fn     func(Tx) error
	ahead  []prefetch
	since  time.Time
	answer chan error // holds one
}

// lane is one writer: a goroutine with a connection of its own.
type lane struct {
	id       string
	engine   engine
	env      *env.Env
	log      *slog.Logger
	observer *Observer
	queue    chan *write // closed by stop
	ended    chan struct{}

	// The rest belongs to the goroutine.

	link link // nil when there is no connection
	// down is set while the database cannot be reached: writes are then answered after one attempt.
	down bool
	// current is the batch being served, for the answer when its goroutine is ended by a function.
	current []*write
	// held was taken from the queue and waits for its turn: it must not share a batch.
	held *write
}

func newLane(engine engine, options Options) *lane {
	return &lane{
		id: options.Env.NewID(), engine: engine, env: options.Env, log: options.Log, observer: options.Observer,
		queue: make(chan *write, maxWaiting), ended: make(chan struct{}),
	}
}

// write queues a write and waits for its answer. When ctx ends first, its function may still run.
func (l *lane) write(ctx context.Context, w *write) error {
	select {
	case l.queue <- w:
	case <-ctx.Done():
		return fmt.Errorf("wait for a lane: %w", ctx.Err())
	}
	select {
	case err := <-w.answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("wait for a commit: %w", ctx.Err())
	}
}

// stop runs what waits and returns when the goroutine has ended. Nobody may write any more.
func (l *lane) stop() {
	close(l.queue)
	<-l.ended
}

// run serves batches until stop. A function that ends the goroutine (runtime.Goexit, as a failing
// test does) costs its batch an error; the lane goes on in a new goroutine.
func (l *lane) run() {
	stopped := false
	defer func() {
		if stopped {
			close(l.ended)
			return
		}
		l.disconnect()
		l.answer(l.current, errGoexit)
		go l.run()
	}()
	for first := l.wait(); first != nil; first = l.wait() {
		l.current = l.collect(first)
		l.serve(l.current)
		l.current = nil
		if l.link != nil {
			l.link.afterBatch()
		}
	}
	l.disconnect()
	stopped = true
}

var errGoexit = errors.New("a function of the batch ended its goroutine")

// wait answers the next write, nil when the lane was stopped and nothing waits any more.
func (l *lane) wait() *write {
	if held := l.held; held != nil {
		l.held = nil
		return held
	}
	return <-l.queue
}

// alone reports whether a write must have a transaction of its own.
func (w *write) alone() bool {
	return slices.ContainsFunc(w.keys, func(key Key) bool { return key.Lock.Alone })
}

// collect takes what waits now, without waiting for more. Writes whose callers have left before
// their turn are dropped: nothing of them has run.
func (l *lane) collect(first *write) []*write {
	batch := make([]*write, 0, MaxBatch)
	for next := first; next != nil; next = l.poll() {
		if err := next.ctx.Err(); err != nil {
			next.answer <- fmt.Errorf("wait for a lane: %w", err)
			continue
		}
		if next.alone() && len(batch) > 0 {
			l.held = next
			break
		}
		batch = append(batch, next)
		if len(batch) == MaxBatch || next.alone() {
			break
		}
	}
	return batch
}

func (l *lane) poll() *write {
	select {
	case next := <-l.queue: // nil when it was closed
		return next
	default:
		return nil
	}
}

// answer tells every caller that has no answer yet the same.
func (l *lane) answer(batch []*write, err error) {
	for _, w := range batch {
		w.reply(err)
	}
}

func (w *write) reply(err error) {
	select {
	case w.answer <- err:
	default: // it has its answer
	}
}

// serve runs a batch together, and singly when that fails for any reason but a lost database.
func (l *lane) serve(batch []*write) {
	if len(batch) == 0 {
		return
	}
	err := l.repeat(batch)
	if err == nil {
		return
	}
	if diagnose(l.engine, err) == lost {
		l.giveUp(batch, err)
		return
	}
	if len(batch) == 1 {
		batch[0].reply(l.shown(err))
		return
	}
	l.singly(batch)
}

// singly runs each function in a transaction of its own. A row that stays blocked costs one time-out,
// not one for each write that wants it.
func (l *lane) singly(batch []*write) {
	blockers := make(map[Key]error)
	for i, w := range batch {
		err := blockedBy(blockers, w.keys)
		if err == nil {
			err = l.repeat([]*write{w})
		}
		if err == nil {
			continue
		}
		switch diagnose(l.engine, err) {
		case lost:
			l.giveUp(batch[i:], err)
			return
		case blocked:
			for _, key := range w.keys {
				blockers[key] = err
			}
		case final, repeatable: // concern nobody else
		}
		w.reply(l.shown(err))
	}
}

func blockedBy(blockers map[Key]error, keys []Key) error {
	for _, key := range keys {
		if err := blockers[key]; err != nil {
			return err
		}
	}
	return nil
}

// shown is what a caller is told of a transaction that failed for good.
func (l *lane) shown(err error) error {
	if diagnose(l.engine, err) == blocked {
		return fault.New(code.Unavailable, "The record is busy.").WithCause(err)
	}
	return revealed(err)
}

// giveUp answers the batch and everything that waits behind it: an outage must not make each of
// them wait for its own attempts.
func (l *lane) giveUp(batch []*write, cause error) {
	l.log.Warn("the database cannot be reached", "lane", l.id, "error", cause)
	l.down = true
	err := unavailable(cause)
	// Gathered before anybody is answered: who asks again after an answer gets an attempt of its own.
	waiting := batch
	for range len(l.queue) {
		if w := l.poll(); w != nil {
			waiting = append(waiting, w)
		}
	}
	l.answer(waiting, err)
}

// Attempts of one transaction.
const (
	writeAttempts = 6
	// togetherAttempts is less: what breaks a batch twice may be one of its functions.
	togetherAttempts = 2
)

// repeat runs a transaction of the batch until it succeeds or repeating cannot help. On success
// everybody was answered.
func (l *lane) repeat(batch []*write) error {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	wait := newBackoff(l.env)
	attempts := writeAttempts
	if len(batch) > 1 {
		attempts = togetherAttempts
	}
	for attempt := 1; ; attempt++ {
		err := l.attempt(batch)
		if err == nil {
			l.down = false
			return nil
		}
		verdict := diagnose(l.engine, err)
		var noConnection *dialError
		unreachable := errors.As(err, &noConnection)
		switch {
		case errors.Is(err, errUnknown): // again could be twice
			return err
		case verdict == final, verdict == blocked, verdict == repeatable && len(batch) > 1:
			return err
		case unreachable && l.down, !unreachable && attempt >= attempts:
			return err
		case !wait.pause(context.Background(), deadline.C):
			return err
		}
	}
}
