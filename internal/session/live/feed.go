package live

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairnsync/cairn/internal/session"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
)

// What a feed is woken for.
const (
	wakeLog      = 1 << iota // read the session's state and log
	wakePresence             // read who has it open
)

// Bounds of what waits for a feed; past them commits are dropped and read from the log.
const (
	maxWaitingCommits = 256
	maxWaitingBytes   = 4 << 20
)

// feed follows one session for the streams of this node.
type feed struct {
	hub   *Hub
	id    string
	users int // guarded by hub.mu

	inbox   sync.Mutex // guards the four below
	commits []session.Commit
	bytes   int
	reasons int
	queued  bool

	nextDue     atomic.Int64 // process time in microseconds at which time may have run out, 0 for never
	presenceDue atomic.Bool  // presence is to be read at the next tick
	revision    atomic.Int64 // state.ControlRevision, for who does not hold mu

	mu      sync.Mutex // guards all below
	ready   bool       // state has been read
	gone    bool       // the session was deleted
	state   session.State
	leaseOn bool      // the lease was live when last shown
	joined  []*Stream // every stream, also those that replay
	live    []*Stream // those that are level
	present announced
	pages   pageCache // of what was delivered

	applied recentApplied

	replay   replayCache
	controls appliedCache
}

func newFeed(h *Hub, id string) *feed {
	return &feed{hub: h, id: id}
}

// push hands over a commit of this process.
func (f *feed) push(commit session.Commit) {
	f.inbox.Lock()
	defer f.inbox.Unlock()
	for i := range commit.Events {
		f.bytes += len(commit.Events[i].Payload)
	}
	if len(f.commits) >= maxWaitingCommits || f.bytes > maxWaitingBytes {
		f.commits, f.bytes = nil, 0
		f.reasons |= wakeLog
	} else {
		f.commits = append(f.commits, commit)
	}
	f.schedule()
}

// wake asks for a look at the database.
func (f *feed) wake(reasons int) {
	f.inbox.Lock()
	defer f.inbox.Unlock()
	f.reasons |= reasons
	f.schedule()
}

// schedule queues the feed once. The caller holds inbox.
func (f *feed) schedule() {
	if !f.queued {
		f.queued = true
		f.hub.enqueue(f)
	}
}

// take answers what waits. The feed stays queued, so that one worker at a time serves it.
func (f *feed) take() ([]session.Commit, int) {
	f.inbox.Lock()
	defer f.inbox.Unlock()
	commits, reasons := f.commits, f.reasons
	f.commits, f.bytes, f.reasons = nil, 0, 0
	return commits, reasons
}

// served ends a worker's turn; the feed is queued again if something came meanwhile.
func (f *feed) served() {
	f.inbox.Lock()
	defer f.inbox.Unlock()
	f.queued = false
	if len(f.commits) > 0 || f.reasons != 0 {
		f.schedule()
	}
}

// pump brings the feed up to date and everything new to its live streams.
func (f *feed) pump(ctx context.Context) {
	defer f.served()
	commits, reasons := f.take()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone || !f.ready {
		return // the first stream reads everything when it opens the feed
	}
	events, state, complete := follow(f.state, commits)
	if complete && reasons&wakeLog == 0 {
		f.advance(ctx, events, state)
	} else if err := f.catchUp(ctx); err != nil {
		f.hub.failed("read the log of a session", err) // the poll comes back to it
		return
	}
	if reasons&wakePresence != 0 {
		f.refreshPresence(ctx)
	}
}

// follow joins commits behind state: their events, the state after them, and whether nothing is
// missing between. Commits may come in any order and again.
func follow(state session.State, commits []session.Commit) ([]session.Stored, session.State, bool) {
	slices.SortStableFunc(commits, func(a, b session.Commit) int { return compareStates(a.State, b.State) })
	var events []session.Stored
	for _, commit := range commits {
		if compareStates(commit.State, state) <= 0 {
			continue // seen already
		}
		for _, event := range commit.Events {
			if event.Seq == state.LastSeq+1 {
				events = append(events, event)
				state.LastSeq = event.Seq
			}
		}
		if state.LastSeq != commit.State.LastSeq {
			return nil, state, false
		}
		state = commit.State
	}
	return events, state, true
}

// compareStates orders states of one session as the database had them one after another: every part
// of them only grows. A state that the feed made up from pages may be neither before nor after
// another; it then counts as the same, and the poll looks again.
func compareStates(a, b session.State) int {
	return int(sign(a.LastSeq-b.LastSeq) + sign(a.AccessVersion-b.AccessVersion) +
		sign(a.LeaseRevision-b.LeaseRevision) + sign(a.ControlRevision-b.ControlRevision))
}

func sign(n int64) int64 {
	switch {
	case n > 0:
		return 1
	case n < 0:
		return -1
	default:
		return 0
	}
}

// snapshot is what one look at the database saw.
type snapshot struct {
	state  session.State
	exists bool
	events []session.Stored
	now    time.Time
}

// logPage is how many events are read at once, at most.
const logPage = 500

// pageEvents is what a stream may be sent at once: after Room half of its queue is free.
func (h *Hub) pageEvents() int { return max(min(logPage, h.QueueFrames/2), 1) }

// catchUp reads the state and the log behind what was delivered, and delivers it.
func (f *feed) catchUp(ctx context.Context) error {
	for {
		seen, err := f.look(ctx, f.state.LastSeq)
		if err != nil {
			return err
		}
		if !seen.exists {
			f.end()
			return nil
		}
		more := false
		if n := len(seen.events); n > 0 && seen.events[n-1].Seq < seen.state.LastSeq {
			more = true
			seen.state.LastSeq = seen.events[n-1].Seq
		}
		f.advance(ctx, seen.events, seen.state)
		f.expireLease(ctx, seen)
		if !more {
			return nil
		}
	}
}

// look reads the session's state and the next page of its log in one snapshot.
func (f *feed) look(ctx context.Context, after int64) (snapshot, error) {
	return storage.Read(ctx, f.hub.DB, func(tx storage.Tx) (snapshot, error) {
		states, err := session.States(tx, []string{f.id})
		if err != nil {
			return snapshot{}, err
		}
		state, exists := states[f.id]
		seen := snapshot{state: state, exists: exists, now: tx.Now()}
		if exists && state.LastSeq > after {
			seen.events, err = session.ReadLog(tx, f.id, after, logPage)
		}
		return seen, err
	})
}

// advance delivers events and whatever else moved between the feed's state and the new one.
func (f *feed) advance(ctx context.Context, events []session.Stored, state session.State) {
	before := f.state
	f.state = newest(before, state)
	f.deliver(ctx, events)
	if f.state.ControlRevision > before.ControlRevision {
		f.showControls(ctx, before)
		f.revision.Store(f.state.ControlRevision)
	}
	if f.state.LeaseRevision > before.LeaseRevision {
		wasOn := f.leaseOn
		f.showLease()
		if f.leaseOn != wasOn || f.state.Lease.Holder != before.Lease.Holder {
			f.refreshPresence(ctx) // another device is the executor now, or none
		}
	}
	f.setDue()
}

// newest never lets a part of the state go back.
func newest(a, b session.State) session.State {
	if a.LeaseRevision > b.LeaseRevision {
		b.Lease, b.LeaseRevision = a.Lease, a.LeaseRevision
	}
	b.LastSeq = max(a.LastSeq, b.LastSeq)
	b.ControlRevision = max(a.ControlRevision, b.ControlRevision)
	b.AccessVersion = max(a.AccessVersion, b.AccessVersion)
	return b
}

// deliver sends events to every live stream that may still see them.
func (f *feed) deliver(ctx context.Context, events []session.Stored) {
	f.admit(ctx, f.joined, events)
	if len(events) == 0 {
		return
	}
	page := newPage(events)
	f.pages.add(page)
	controls := acceptedControls(events)
	for _, stream := range f.live {
		before := stream.seq
		stream.send(page)
		for _, control := range controls {
			if control.seq > before { // it was not replayed, so that it is new to this stream
				stream.sink.Send(control.block)
			}
		}
	}
}

// showLease sends the lease as it is now (SS-LEASE-5).
func (f *feed) showLease() {
	f.leaseOn = f.state.Lease.Holder != ""
	f.tellLease(f.state.Lease)
}

func (f *feed) tellLease(lease session.Lease) {
	block := leaseBlock(lease, f.leaseOn)
	for _, stream := range f.live {
		stream.sink.SendLatest(latestLease, block)
	}
}

// expireLease shows that the lease ran out, once the database's clock says so.
func (f *feed) expireLease(ctx context.Context, seen snapshot) {
	if !f.leaseOn || f.state.Lease.Live(seen.now) {
		return
	}
	f.leaseOn = false
	f.tellLease(session.Lease{})
	f.refreshPresence(ctx)
	f.setDue()
}

// end tells every stream that the session is gone (SS-ROLE-2).
func (f *feed) end() {
	f.gone = true
	for _, stream := range f.joined {
		stream.refuse(code.CloseNotFound, "The session was deleted.")
	}
	f.live, f.joined = nil, nil
}

// behind reports whether the database shows something that the feed has not seen. A feed that is being
// served is asked the next time.
func (f *feed) behind(state session.State) bool {
	if !f.mu.TryLock() {
		return false
	}
	defer f.mu.Unlock()
	if !f.ready || f.gone {
		return false
	}
	return state.SessionID == "" || state.LastSeq > f.state.LastSeq || state.LeaseRevision > f.state.LeaseRevision ||
		state.ControlRevision > f.state.ControlRevision || state.AccessVersion > f.state.AccessVersion
}

// setDue notes the next moment at which a lease or an access may run out. The process's clock only
// decides when to look; what is shown is decided by the database's.
func (f *feed) setDue() {
	var next time.Time
	if f.leaseOn {
		next = f.state.Lease.ExpiresAt
	}
	for _, stream := range f.joined {
		if until := stream.access.Until; until != nil && (next.IsZero() || until.Before(next)) {
			next = *until
		}
	}
	if next.IsZero() {
		f.nextDue.Store(0)
		return
	}
	f.nextDue.Store(next.UnixMicro())
}

// due reports whether time may have run out at now.
func (f *feed) due(now time.Time) bool {
	next := f.nextDue.Load()
	return next != 0 && now.UnixMicro() >= next
}
