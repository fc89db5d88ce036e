package eventlog

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
)

const (
	// tailPage is how many events one reading takes.
	tailPage = 1000
	// maxOffered bounds the committed events that wait to be taken without a read; past it they are
	// forgotten and read from the log.
	maxOffered = 16_384
	// holePatience is how long a hole between offered events may take to close by itself: the transaction
	// before it has committed, its offer is on its way.
	holePatience = 2 * time.Millisecond
)

// Tail follows the log: one per process. Events that this process committed are offered to it and taken
// without a read when they are next in order; a hole always means reading the log. A wake-up carries no
// content and may be lost: the poll alone is still correct.
type Tail struct {
	options TailOptions

	mu      sync.Mutex
	offered []*Record // sorted by number; guarded by mu
	dirty   bool      // the log must be read; guarded by mu
	woken   chan struct{}

	last   int64 // belongs to the goroutine
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// TailOptions are what a Tail needs.
type TailOptions struct {
	DB  storage.DB
	Bus signal.Bus
	Env *env.Env
	Log *slog.Logger
	// Begin is told the number behind which Deliver goes on, before the first delivery.
	Begin func(head int64)
	// Deliver gets every event after it, in order and without a gap. It must not block.
	Deliver func(records []*Record)
	// Lost is called when events between two numbers were removed before they could be delivered.
	Lost func(after, before int64)
}

// NewTail makes a Tail.
func NewTail(options TailOptions) *Tail {
	return &Tail{options: options, woken: make(chan struct{}, 1)}
}

// Offer hands over what a transaction of this process committed. It never blocks.
func (t *Tail) Offer(records []*Record) {
	t.mu.Lock()
	if len(t.offered)+len(records) > maxOffered {
		t.offered, t.dirty = nil, true
	} else {
		t.offered = append(t.offered, records...)
	}
	t.mu.Unlock()
	t.wake()
	t.options.Bus.PublishAway(signal.Wake{Topic: signal.Events})
}

func (t *Tail) wake() {
	select {
	case t.woken <- struct{}{}:
	default:
	}
}

// Start begins behind the log's present end.
func (t *Tail) Start(ctx context.Context) error {
	// Listening first: what is committed between the two is either below the end or woken for.
	unlisten := t.options.Bus.Subscribe(func(wake signal.Wake) {
		if wake.Topic == signal.Events || wake.Topic == "" {
			t.mu.Lock()
			t.dirty = true
			t.mu.Unlock()
			t.wake()
		}
	})
	state, err := storage.Read(ctx, t.options.DB, StateOf)
	if err != nil {
		unlisten()
		return fmt.Errorf("find end of the event log: %w", err)
	}
	t.last = state.Head
	t.options.Begin(state.Head)
	ctx, t.cancel = context.WithCancel(context.WithoutCancel(ctx))
	t.done.Go(func() {
		defer unlisten()
		t.run(ctx)
	})
	return nil
}

// Stop ends the following.
func (t *Tail) Stop(context.Context) error {
	if t.cancel != nil {
		t.cancel()
	}
	t.done.Wait()
	return nil
}

func (t *Tail) run(ctx context.Context) {
	poll := time.NewTicker(signal.PollInterval)
	defer poll.Stop()
	for {
		behind := false
		select {
		case <-ctx.Done():
			return
		case <-t.woken:
		case <-poll.C:
			behind = true
		}
		if err := t.advance(ctx, behind); err != nil && ctx.Err() == nil {
			t.options.Log.Warn("read the event log", "after", t.last, "error", err)
		}
	}
}

// advance delivers what is there: offered events as far as they follow, the rest from the log.
func (t *Tail) advance(ctx context.Context, behind bool) error {
	ready, hole, dirty := t.take()
	t.deliver(ready)
	if hole && !dirty && !behind {
		t.wait(ctx)
		if ready, hole, dirty = t.take(); len(ready) > 0 {
			t.deliver(ready)
		}
	}
	if hole || dirty || behind {
		return t.read(ctx)
	}
	return nil
}

// wait lets a hole close.
func (t *Tail) wait(ctx context.Context) {
	patience := time.NewTimer(holePatience)
	defer patience.Stop()
	select {
	case <-t.woken:
	case <-patience.C:
	case <-ctx.Done():
	}
}

// take answers the offered events that come next, whether others wait behind a hole, and whether the log
// must be read in any case.
func (t *Tail) take() (ready []*Record, hole, dirty bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.SortFunc(t.offered, func(a, b *Record) int { return int(a.Seq - b.Seq) })
	next, taken := t.last+1, 0
	for _, record := range t.offered {
		if record.Seq > next {
			break
		}
		if record.Seq == next {
			ready = append(ready, record)
			next++
		}
		taken++
	}
	t.offered = slices.Clone(t.offered[taken:])
	dirty, t.dirty = t.dirty, false
	return ready, len(t.offered) > 0, dirty
}

func (t *Tail) deliver(records []*Record) {
	if len(records) == 0 {
		return
	}
	t.last = records[len(records)-1].Seq
	t.options.Deliver(records)
}

// read delivers everything the log has.
func (t *Tail) read(ctx context.Context) error {
	for {
		page, err := t.page(ctx)
		if err != nil {
			t.mu.Lock()
			t.dirty = true // the poll tries again
			t.mu.Unlock()
			return err
		}
		if len(page) > 0 && page[0].Seq != t.last+1 {
			t.options.Lost(t.last, page[0].Seq)
		}
		t.deliver(page)
		if len(page) < tailPage {
			return nil
		}
	}
}

func (t *Tail) page(ctx context.Context) ([]*Record, error) {
	return storage.Read(ctx, t.options.DB, func(tx storage.Tx) ([]*Record, error) {
		return After(tx, t.last, math.MaxInt64, tailPage)
	})
}
