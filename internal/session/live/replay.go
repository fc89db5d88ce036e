package live

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/cairnsync/cairn/internal/conn"
	"github.com/cairnsync/cairn/internal/session"
	"github.com/cairnsync/cairn/internal/storage"
)

// page is a run of events, encoded once for every stream that needs it.
type page struct {
	first, last   int64
	block         *conn.Block
	bytes         int
	accessVersion int64     // of the last event, the highest
	committedAt   time.Time // of the last event
}

func newPage(events []session.Stored) *page {
	last := &events[len(events)-1]
	p := &page{first: events[0].Seq, last: last.Seq, accessVersion: last.AccessVersion, committedAt: last.CommittedAt}
	frames := make([]conn.Frame, len(events))
	for i := range events {
		frames[i] = eventFrame(&events[i])
		p.bytes += len(frames[i].Object)
	}
	p.block = conn.NewBlock(frames...)
	return p
}

// Bounds of the pages a feed remembers: the newest, for streams that reconnect.
const (
	maxPages     = 64
	maxPageBytes = 1 << 20
)

// pageCache remembers the newest pages of one log. It is guarded by the feed's mu.
type pageCache struct {
	pages []*page
	bytes int
}

func (c *pageCache) add(p *page) {
	if p.bytes > maxPageBytes {
		return // too large to be kept; whoever needs it reads it
	}
	c.pages = append(c.pages, p)
	c.bytes += p.bytes
	for len(c.pages) > maxPages || c.bytes > maxPageBytes {
		c.bytes -= c.pages[0].bytes
		c.pages[0] = nil
		c.pages = c.pages[1:]
	}
}

// after answers a page that holds the event behind seq.
func (c *pageCache) after(seq int64) *page {
	for _, p := range slices.Backward(c.pages) {
		if p.first <= seq+1 && seq < p.last {
			return p
		}
	}
	return nil
}

// open reads the session's state when the feed is new.
func (f *feed) open(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ready {
		return nil
	}
	seen, err := storage.Read(ctx, f.hub.DB, func(tx storage.Tx) (snapshot, error) {
		state, exists, err := session.StateOf(tx, f.id)
		return snapshot{state: state, exists: exists, now: tx.Now()}, err
	})
	if err != nil {
		return err
	}
	f.ready, f.gone, f.state = true, !seen.exists, seen.state
	f.applied.floor = seen.state.ControlRevision
	f.revision.Store(seen.state.ControlRevision)
	f.leaseOn = seen.state.Lease.Live(seen.now)
	f.refreshPresence(ctx)
	f.setDue()
	return nil
}

// replayCache remembers pages that were read for streams far behind. Streams that ask at once share
// one reading.
type replayCache struct {
	mu    sync.Mutex
	pages pageCache
}

// errLogEnds says that the log is shorter than the feed believes: the session is being deleted.
var errLogEnds = errors.New("the log ends before its last seq")

// pageAfter answers the next page behind seq, or nil when the feed has nothing more. The same pages
// serve every stream that asks for them.
func (f *feed) pageAfter(ctx context.Context, seq int64) (*page, error) {
	f.mu.Lock()
	level := f.gone || seq >= f.state.LastSeq
	recent := f.pages.after(seq)
	f.mu.Unlock()
	if level || recent != nil {
		return recent, nil
	}
	f.replay.mu.Lock()
	defer f.replay.mu.Unlock()
	if p := f.replay.pages.after(seq); p != nil {
		return p, nil
	}
	events, err := storage.Read(ctx, f.hub.DB, func(tx storage.Tx) ([]session.Stored, error) {
		return session.ReadLog(tx, f.id, seq, f.hub.pageEvents())
	})
	if err != nil {
		return nil, err
	}
	if len(events) == 0 {
		return nil, errLogEnds
	}
	p := newPage(events)
	f.replay.pages.add(p)
	return p, nil
}
