package search

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
)

const (
	// consumer is the indexer's row of event_consumer_cursors.
	consumer = "search"
	// gather is how long a round waits for more after a wake-up: a hundred messages in one transaction cost
	// little more than one.
	gather = 100 * time.Millisecond
	// maxEvents is how many events one round reads, maxMessages how many messages one transaction indexes.
	maxEvents   = 500
	maxMessages = 200
)

// errOvertaken is when another node moves the cursor.
var errOvertaken = errors.New("another node indexes this")

// IndexerOptions are what an Indexer needs.
type IndexerOptions struct {
	DB     storage.DB
	Bus    signal.Bus
	Logger *slog.Logger
}

// Indexer keeps the index up to date. Make it with NewIndexer.
type Indexer struct {
	IndexerOptions

	index  index
	woken  chan struct{}
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// NewIndexer makes an Indexer.
func NewIndexer(o IndexerOptions) *Indexer {
	return &Indexer{IndexerOptions: o, index: indexOf(o.DB), woken: make(chan struct{}, 1)}
}

// Start begins the work.
func (x *Indexer) Start(ctx context.Context) error {
	ctx, x.cancel = context.WithCancel(context.WithoutCancel(ctx))
	unsubscribe := x.Bus.Subscribe(func(wake signal.Wake) {
		if wake.Topic == signal.Events || wake.Topic == "" {
			x.Wake()
		}
	})
	x.done.Go(func() {
		defer unsubscribe()
		x.run(ctx)
	})
	return nil
}

// Stop ends the work. What was not indexed is indexed after the next start.
func (x *Indexer) Stop(context.Context) error {
	if x.cancel != nil {
		x.cancel()
	}
	x.done.Wait()
	return nil
}

// Wake has the indexer look at the log soon. It never blocks. Commits of this process do not come by the
// bus: the composition root calls it for them.
func (x *Indexer) Wake() {
	select {
	case x.woken <- struct{}{}:
	default:
	}
}

func (x *Indexer) run(ctx context.Context) {
	poll := time.NewTicker(signal.PollInterval)
	defer poll.Stop()
	for ctx.Err() == nil {
		if err := x.Follow(ctx); err != nil && ctx.Err() == nil {
			x.Logger.Warn("keep the search index", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-x.woken:
		case <-poll.C:
			continue
		}
		pause := time.NewTimer(gather)
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
		pause.Stop()
	}
}

// Follow indexes everything up to the present end of the log, or leaves it to another node that is at it.
func (x *Indexer) Follow(ctx context.Context) error {
	for ctx.Err() == nil {
		at, err := storage.Read(ctx, x.DB, readPosition)
		if err != nil {
			return err
		}
		switch {
		case at.lost():
			err = x.rebuild(ctx, at)
		case at.cursor == at.Head:
			return nil
		default:
			err = x.round(ctx, at)
		}
		if errors.Is(err, errOvertaken) {
			return nil // it sees everything that there was to see here
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// position is where the indexer is, and where the log is.
type position struct {
	eventlog.State

	cursor   int64
	known    bool // there is a cursor
	begun    bool // the index belongs to this timeline
	complete bool // every message of it was looked at once
}

// lost reports whether following the log is not enough.
func (p *position) lost() bool {
	return !p.known || !p.complete || p.cursor > p.Head || p.cursor < p.MinRetained-1
}

func readPosition(tx storage.Tx) (p position, err error) {
	if p.State, err = eventlog.StateOf(tx); err != nil {
		return p, err
	}
	p.known, err = tx.Get(`SELECT last_seq FROM event_consumer_cursors WHERE consumer = $1`, []any{consumer}, &p.cursor)
	if err != nil {
		return p, fmt.Errorf("read cursor of the search index: %w", err)
	}
	p.begun, err = tx.Get(`SELECT complete FROM search_state WHERE sync_epoch = $1`, []any{p.SyncEpoch}, &p.complete)
	if err != nil {
		return p, fmt.Errorf("read state of the search index: %w", err)
	}
	return p, nil
}
