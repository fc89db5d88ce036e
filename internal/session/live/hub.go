// Package live brings a session's log, lease, controls and presence to its viewers as they happen.
//
// Contract. A viewer that opens a stream with a cursor receives every later event exactly once and
// in order: it pulls pages of the log until it is level with the feed, and from then on the feed
// pushes (SS-STR-2). A connection that may have lost its access is checked before anything committed
// after the loss reaches it (SS-ROLE-2). Frames that are not events are views of rows with a
// revision (SS-FRM-1): the newest state is sent, an older one never after it.
//
// Order. The frames of one stream are in the order of the log; control, lease and presence frames
// follow the events of the commits they belong to.
//
// Wake-ups may be lost: every feed is compared with the database once per poll interval, and what
// arrives out of place is read from the log.
//
// Blocking and concurrency. Hub is safe for concurrent use. It owns its workers, its poll and one
// goroutine for every stream that is catching up; Stop waits for all of them. A session has a feed
// only while somebody here follows it. The events waiting for a feed are bounded; past the bound
// they are dropped and read from the log.
package live

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairnsync/cairn/internal/conn"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/session"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
)

// Sink is the outbound side of a stream (conn.Stream).
type Sink interface {
	Send(block *conn.Block)
	SendLatest(key string, block *conn.Block)
	Room(ctx context.Context) error
	Close(c code.Close, reason string)
}

// Options are what a Hub needs.
type Options struct {
	DB  storage.DB
	Bus signal.Bus
	Env *env.Env
	Log *slog.Logger
	// MaxAnnounced is how many plain viewers of a session are announced by presence frames; those who
	// execute or drive always are, and the session's detail shows everybody.
	MaxAnnounced int
	// QueueFrames is how many frames may wait for one stream (conn.Limits).
	QueueFrames int
	// PageSent is called for every page of a replay, whether it was read or remembered; nil is allowed.
	PageSent func(events int)
}

// workers is how many feeds are served at the same time.
const workers = 4

// Hub is the live side of a node.
type Hub struct {
	Options

	nodeID string
	ctx    context.Context //nolint:containedctx // the life of the hub's own goroutines
	cancel context.CancelFunc
	done   sync.WaitGroup
	unwake func()

	mu      sync.Mutex
	ready   *sync.Cond       // signals queue and stopped; uses mu
	feeds   map[string]*feed // guarded by mu, like all below
	queue   []*feed          // feeds with work, each at most once
	stopped bool

	roster *roster
	check  chan struct{} // asks for a check of keys, users and devices
	skew   atomic.Int64  // how far the database's clock is ahead of the process's, in nanoseconds
}

// now is about the database's clock, by which leases and access end.
func (h *Hub) now() time.Time { return h.Env.Now().Add(time.Duration(h.skew.Load())) }

// New answers a Hub; Start makes it work.
func New(o Options) *Hub {
	h := &Hub{Options: o, nodeID: o.Env.NewID(), feeds: map[string]*feed{}, check: make(chan struct{}, 1)}
	h.ready = sync.NewCond(&h.mu)
	h.roster = newRoster(h)
	return h
}

// Start registers the node and starts to follow.
func (h *Hub) Start(ctx context.Context) error {
	if _, err := h.roster.beat(ctx); err != nil {
		return err
	}
	h.ctx, h.cancel = context.WithCancel(context.WithoutCancel(ctx))
	h.unwake = h.Bus.Subscribe(h.woken)
	for range workers {
		h.done.Go(h.work)
	}
	h.done.Go(h.poll)
	h.done.Go(h.roster.run)
	h.done.Go(h.emptyTrash)
	return nil
}

// Stop ends the hub; streams must have been ended before. The node's presence ends with it.
func (h *Hub) Stop(ctx context.Context) error {
	h.unwake()
	h.cancel()
	h.mu.Lock()
	h.stopped = true
	h.ready.Broadcast()
	h.mu.Unlock()
	stopped := make(chan struct{})
	go func() { h.done.Wait(); close(stopped) }()
	select {
	case <-stopped:
	case <-ctx.Done():
		return fmt.Errorf("wait for the live feed: %w", ctx.Err())
	}
	return session.EndNode(ctx, h.DB, h.nodeID)
}

// Committed hands a commit of this process to the session's feed (session.Feed).
func (h *Hub) Committed(commit session.Commit) {
	if f := h.feed(commit.State.SessionID); f != nil {
		f.push(commit)
	}
}

// woken tells feeds that something may have changed.
func (h *Hub) woken(wake signal.Wake) {
	switch wake.Topic {
	case signal.Session:
		h.each(wake.ID, func(f *feed) { f.wake(wakeLog) })
	case signal.Presence:
		h.each(wake.ID, func(f *feed) { f.wake(wakePresence) })
	case signal.Identity:
		h.askCheck()
	case "":
		h.each("", func(f *feed) { f.wake(wakeLog | wakePresence) })
		h.askCheck()
	default:
	}
}

func (h *Hub) askCheck() {
	select {
	case h.check <- struct{}{}:
	default: // asked already
	}
}

// each calls fn with the feed of a session, or with every feed when id is empty.
func (h *Hub) each(id string, fn func(*feed)) {
	if id != "" {
		if f := h.feed(id); f != nil {
			fn(f)
		}
		return
	}
	for _, f := range h.all() {
		fn(f)
	}
}

func (h *Hub) feed(id string) *feed {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.feeds[id]
}

func (h *Hub) all() []*feed {
	h.mu.Lock()
	defer h.mu.Unlock()
	feeds := make([]*feed, 0, len(h.feeds))
	for _, f := range h.feeds {
		feeds = append(feeds, f)
	}
	return feeds
}

// join answers the session's feed, made when needed, with one more user of it.
func (h *Hub) join(sessionID string) *feed {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.feeds[sessionID]
	if f == nil {
		f = newFeed(h, sessionID)
		h.feeds[sessionID] = f
	}
	f.users++
	return f
}

// leave ends one use of a feed; the last one ends the feed.
func (h *Hub) leave(f *feed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f.users--
	if f.users == 0 {
		delete(h.feeds, f.id)
	}
}

// enqueue gives a feed to the workers. The caller makes sure that it is not queued yet.
func (h *Hub) enqueue(f *feed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.queue = append(h.queue, f)
	h.ready.Signal()
}

// work serves feeds until the hub stops.
func (h *Hub) work() {
	for {
		h.mu.Lock()
		for len(h.queue) == 0 && !h.stopped {
			h.ready.Wait()
		}
		if h.stopped {
			h.mu.Unlock()
			return
		}
		f := h.queue[0]
		h.queue = h.queue[1:]
		h.mu.Unlock()
		f.pump(h.ctx)
	}
}

// tick is how often leases and expiries of access are looked at: both must show within a second.
const tick = 250 * time.Millisecond

// presencePoll is how often presence is read anew without a wake-up.
const presencePoll = 5 * time.Second

// poll heals lost wake-ups and lets time pass for the feeds.
func (h *Hub) poll() {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var sincePoll, sincePresence time.Duration
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-h.check:
			h.checkCallers()
		case <-ticker.C:
			sincePoll += tick
			sincePresence += tick
			h.passTime()
			if sincePoll >= signal.PollInterval {
				sincePoll = 0
				h.compare()
				h.checkCallers()
			}
			if sincePresence >= presencePoll {
				sincePresence = 0
				h.each("", func(f *feed) { f.wake(wakePresence) })
			}
		}
	}
}

// passTime wakes feeds whose lease or whose viewers' access may have run out.
func (h *Hub) passTime() {
	now := h.now()
	for _, f := range h.all() {
		if f.due(now) {
			f.wake(wakeLog)
		}
		if f.presenceDue.Swap(false) {
			f.wake(wakePresence)
		}
	}
}

// comparedAtOnce bounds one query of compare.
const comparedAtOnce = 500

// compare wakes the feeds that are behind the database.
func (h *Hub) compare() {
	feeds := h.all()
	for len(feeds) > 0 {
		some := feeds[:min(len(feeds), comparedAtOnce)]
		feeds = feeds[len(some):]
		ids := make([]string, 0, len(some))
		for _, f := range some {
			ids = append(ids, f.id)
		}
		states, err := storage.Read(h.ctx, h.DB, func(tx storage.Tx) (map[string]session.State, error) {
			h.skew.Store(int64(tx.Now().Sub(h.Env.Now())))
			return session.States(tx, ids)
		})
		if err != nil {
			h.failed("compare sessions with the database", err)
			return
		}
		for _, f := range some {
			if f.behind(states[f.id]) {
				f.wake(wakeLog)
			}
		}
	}
}

// emptyTrash removes what deleted sessions left behind, step by step.
func (h *Hub) emptyTrash() {
	ticker := time.NewTicker(signal.PollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-ticker.C:
		}
		more, err := storage.Read(h.ctx, h.DB, session.HasTrash)
		for more && err == nil && h.ctx.Err() == nil {
			if more, err = storage.Write(h.ctx, h.DB, nil, session.EmptyTrash); err != nil {
				h.failed("empty the trash", err)
			}
		}
	}
}

func (h *Hub) failed(doing string, err error) {
	if h.ctx.Err() == nil {
		h.Log.Error("live: cannot "+doing, "error", err)
	}
}
