// Package trusted remembers for a moment what the database said about credentials.
//
// Contract. An answer is trusted for at most Trust of the process's clock and only while wake-ups arrive
// (Listening); Forget drops every answer at once, also those that are being read. Good and bad answers
// are kept apart, so that a flood of unknown credentials evicts no known one.
//
// Blocking and concurrency. Answers is safe for concurrent use. One question runs for all who ask about
// the same credential at the same time, and goes on when the one who asked first goes away. Questions
// about credentials that were good before have lanes of their own: a flood of unknown ones cannot keep
// them waiting. When too many unknown ones wait already, Ask answers unavailable.
package trusted

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/identity/lru"
	"github.com/cairnsync/cairn/wire/code"
)

const (
	// Trust is how long an answer is trusted without asking the database again.
	Trust = time.Second
	// lookupTimeout bounds one question to the database.
	lookupTimeout = 5 * time.Second

	// Past these the credential that was presented longest ago is forgotten.
	maxKnown   = 16_384
	maxUnknown = 4_096

	knownLanes   = 8
	unknownLanes = 2
	// maxUnknownWaiting is how many questions about unknown credentials may wait; past it they are turned away.
	maxUnknownWaiting = 1_024
)

// Answers remembers answers about credentials of one kind. Make it with New.
type Answers[K comparable, V any] struct {
	env     *env.Env
	flights singleflight.Group
	lanes   lanes

	// generation grows with Forget; an answer that was read under an older one is not trusted.
	generation atomic.Uint64
	listening  atomic.Bool

	mu      sync.Mutex               // guards the caches
	known   *lru.Cache[K, answer[V]] // credentials that were good when they were last read
	unknown *lru.Cache[K, answer[V]] // credentials that were not
}

// answer is what the database said about a credential.
type answer[V any] struct {
	value      V
	good       bool
	asked      time.Time // before the database was asked
	generation uint64
}

// New makes Answers that trust nothing until Listening.
func New[K comparable, V any](e *env.Env) *Answers[K, V] {
	return &Answers[K, V]{
		env:     e,
		lanes:   newLanes(),
		known:   lru.New[K, answer[V]](maxKnown),
		unknown: lru.New[K, answer[V]](maxUnknown),
	}
}

// Listening says whether wake-ups arrive: without them nothing is trusted.
func (a *Answers[K, V]) Listening(on bool) { a.listening.Store(on) }

// Forget drops what is known, because something has changed.
func (a *Answers[K, V]) Forget() { a.generation.Add(1) }

// Ask answers what read says about a credential, and whether it is good, from memory where that may still
// be trusted. read asks the database.
func (a *Answers[K, V]) Ask(ctx context.Context, key K, read func(context.Context) (V, bool, error)) (V, bool, error) {
	known, fresh, familiar := a.remembered(key)
	if fresh {
		return known.value, known.good, nil
	}
	asked, err := a.lookUp(ctx, key, familiar, read)
	return asked.value, asked.good, err
}

// AskProven is Ask for a credential that nobody can make up, because a signature was checked before: it has the
// lanes of the known ones at once, so that thousands of clients may come back together.
func (a *Answers[K, V]) AskProven(ctx context.Context, key K, read func(context.Context) (V, bool, error)) (V, bool, error) {
	known, fresh, _ := a.remembered(key)
	if fresh {
		return known.value, known.good, nil
	}
	asked, err := a.lookUp(ctx, key, true, read)
	return asked.value, asked.good, err
}

// remembered answers what is known of a credential, whether that may still be trusted, and whether it was
// good when it was last read.
func (a *Answers[K, V]) remembered(key K) (known answer[V], fresh, familiar bool) {
	now := a.env.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	known, familiar = a.known.Get(key)
	if !familiar {
		known, _ = a.unknown.Get(key)
	}
	age := now.Sub(known.asked)
	fresh = a.listening.Load() && known.generation == a.generation.Load() && age >= 0 && age < Trust
	return known, fresh, familiar
}

func (a *Answers[K, V]) lookUp(ctx context.Context, key K, familiar bool, read func(context.Context) (V, bool, error)) (answer[V], error) {
	generation := a.generation.Load()
	result, err, _ := a.flights.Do(fmt.Sprintf("%d %v", generation, key), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
		defer cancel()
		leave, err := a.lanes.enter(ctx, familiar)
		if err != nil {
			return answer[V]{}, err
		}
		defer leave()
		fresh := answer[V]{asked: a.env.Now(), generation: generation}
		fresh.value, fresh.good, err = read(ctx)
		if err != nil {
			return answer[V]{}, err
		}
		a.remember(key, fresh)
		return fresh, nil
	})
	return result.(answer[V]), err //nolint:wrapcheck // it is the function's own
}

func (a *Answers[K, V]) remember(key K, fresh answer[V]) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if fresh.good {
		a.unknown.Drop(key)
		a.known.Put(key, fresh)
		return
	}
	a.known.Drop(key)
	a.unknown.Put(key, fresh)
}

// lanes bounds the questions to the database.
type lanes struct {
	known, unknown chan struct{}
	waiting        *atomic.Int64 // questions about unknown credentials that wait or run
}

func newLanes() lanes {
	return lanes{
		known:   make(chan struct{}, knownLanes),
		unknown: make(chan struct{}, unknownLanes),
		waiting: new(atomic.Int64),
	}
}

// enter waits for a lane; the caller leaves it again with leave.
func (l lanes) enter(ctx context.Context, familiar bool) (leave func(), err error) {
	lane, done := l.known, func() {}
	if !familiar {
		lane, done = l.unknown, func() { l.waiting.Add(-1) }
		if l.waiting.Add(1) > maxUnknownWaiting {
			done()
			return nil, busy()
		}
	}
	select {
	case lane <- struct{}{}:
		return func() { <-lane; done() }, nil
	case <-ctx.Done():
		done()
		return nil, busy()
	}
}

func busy() error {
	return fault.New(code.Unavailable, "Too many keys are being checked right now. Try again.")
}
