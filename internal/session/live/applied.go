package live

import (
	"context"
	"slices"
	"sync"

	"github.com/cairnsync/cairn/internal/conn"
	"github.com/cairnsync/cairn/internal/session"
	"github.com/cairnsync/cairn/internal/storage"
)

// appliedAtOnce is how many applied controls are read, and sent, at a time.
const appliedAtOnce = 256

// recentApplied remembers the controls that were applied while the feed watched, so that a stream can
// join without asking the database. It is guarded by the feed's mu.
type recentApplied struct {
	list  []session.Applied // in the order of their revisions
	floor int64             // everything applied after this revision is in list
}

// add remembers what was applied next.
func (r *recentApplied) add(controls []session.Applied) {
	r.list = append(r.list, controls...)
	if over := len(r.list) - appliedAtOnce; over > 0 {
		r.floor = r.list[over-1].Revision
		r.list = slices.Clone(r.list[over:])
	}
}

// since answers what was applied after a revision, and whether all of that is still remembered.
func (r *recentApplied) since(revision int64) ([]session.Applied, bool) {
	at, _ := slices.BinarySearchFunc(r.list, revision+1, func(c session.Applied, wanted int64) int {
		return int(sign(c.Revision - wanted))
	})
	return r.list[at:], revision >= r.floor
}

// told is what a stream that joins knows of applied controls: those behind its cursor as of a
// revision of the session.
type told struct {
	waiting  []session.Applied // whose echo the stream has not received yet, in the order of the log
	beyond   int64             // more of them may stand behind this seq; 0 for none
	revision int64
}

// appliedCache remembers the last first page of applied controls, for streams that reconnect
// together with one cursor.
type appliedCache struct {
	mu       sync.Mutex
	from     int64
	revision int64 // the feed's when it was read
	page     appliedPage
}

type appliedPage struct {
	controls []session.Applied
	revision int64 // the session's in the snapshot of the reading
}

// tellApplied sends what a stream that replayed from a cursor must know of applied controls beyond
// their echoes (SS-STR-2), at the client's pace, and answers what is to be told later.
func (s *Stream) tellApplied(ctx context.Context, from int64) (told, error) {
	known := told{revision: -1}
	for after := from; ; {
		page, err := s.feed.appliedAfter(ctx, after)
		if err != nil {
			return told{}, err
		}
		if known.revision < 0 {
			known.revision = page.revision // later pages may know more, which is told again
		}
		sent := 0
		for sent < len(page.controls) && page.controls[sent].Seq <= s.seq {
			sent++
		}
		sendBlock(s.sink, appliedBlock(page.controls[:sent]))
		if err := s.sink.Room(ctx); err != nil {
			return told{}, err
		}
		if sent < len(page.controls) {
			known.waiting = slices.Clone(page.controls[sent:])
			if len(page.controls) == appliedAtOnce {
				known.beyond = page.controls[len(page.controls)-1].Seq
			}
			return known, nil
		}
		if len(page.controls) < appliedAtOnce {
			return known, nil
		}
		after = page.controls[len(page.controls)-1].Seq
	}
}

// appliedAfter reads a page of applied controls whose echo stands behind a seq.
func (f *feed) appliedAfter(ctx context.Context, seq int64) (appliedPage, error) {
	revision := f.revision.Load()
	if page, found := f.controls.get(seq, revision); found {
		return page, nil
	}
	page, err := storage.Read(ctx, f.hub.DB, func(tx storage.Tx) (appliedPage, error) {
		state, _, err := session.StateOf(tx, f.id)
		if err != nil {
			return appliedPage{}, err
		}
		controls, err := session.AppliedAfter(tx, f.id, seq, appliedAtOnce)
		return appliedPage{controls, state.ControlRevision}, err
	})
	if err == nil {
		f.controls.put(seq, revision, page)
	}
	return page, err
}

func (c *appliedCache) get(from, revision int64) (appliedPage, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.page, c.page.controls != nil && c.from == from && c.revision == revision
}

func (c *appliedCache) put(from, revision int64, page appliedPage) {
	if page.controls == nil {
		page.controls = []session.Applied{} // none is an answer too
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.from, c.revision, c.page = from, revision, page
}

// catchUp reads what a page had no room for.
func (k *told) catchUp(ctx context.Context, f *feed) error {
	for k.beyond > 0 {
		page, err := f.appliedAfter(ctx, k.beyond)
		if err != nil {
			return err
		}
		k.waiting = append(k.waiting, page.controls...)
		k.beyond = 0
		if len(page.controls) == appliedAtOnce {
			k.beyond = page.controls[len(page.controls)-1].Seq
		}
	}
	return nil
}

// appliedSince reads what was applied after a revision, all of it.
func (f *feed) appliedSince(ctx context.Context, revision int64) ([]session.Applied, error) {
	return storage.Read(ctx, f.hub.DB, func(tx storage.Tx) ([]session.Applied, error) {
		var all []session.Applied
		for {
			page, err := session.AppliedSince(tx, f.id, revision, appliedAtOnce)
			if err != nil || len(page) == 0 {
				return all, err
			}
			all = append(all, page...)
			revision = page[len(page)-1].Revision
		}
	})
}

// showControls tells of the controls that were applied since the state before.
func (f *feed) showControls(ctx context.Context, before session.State) {
	controls, err := f.appliedSince(ctx, before.ControlRevision)
	if err != nil {
		f.state.ControlRevision = before.ControlRevision // the poll comes back to it
		f.hub.failed("read applied controls", err)
		return
	}
	f.applied.add(controls)
	f.tellAll(appliedBlock(controls))
}

// tellAll sends a block to every live stream.
func (f *feed) tellAll(block *conn.Block) {
	if block == nil {
		return
	}
	for _, stream := range f.live {
		stream.sink.Send(block)
	}
}
