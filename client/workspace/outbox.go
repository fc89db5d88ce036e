package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// MaxEntries bounds an outbox, what failed included; beyond it writing is refused with ErrOutboxFull.
	MaxEntries = 10000
	// maxParallel is how many lanes are sent at once.
	maxParallel = 8
)

// Errors of an Outbox.
var (
	// ErrOutboxFull is a write that the outbox has no room for.
	ErrOutboxFull = errors.New("outbox is full")
	// ErrNoEntry is an id of no entry; it may have been sent meanwhile.
	ErrNoEntry = errors.New("no such entry in the outbox")
)

// OutboxStore is the part of a Store that an Outbox uses.
type OutboxStore interface {
	LoadEntries(ctx context.Context) ([]Entry, error)
	PutEntries(ctx context.Context, put []Entry, remove []string) error
}

// Outbox holds writes until the server has them (ES-13.2 to 13.4). A write that was taken survives the end
// of the process: it is stored before it is sent, and sent with the same id until there is an answer.
// Writes of one thread are sent one after the other, in order; threads do not wait for each other. What the
// server refuses for good stays, visible, until the person decides. It is safe for concurrent use.
type Outbox struct {
	client *Client
	store  OutboxStore
	ready  chan struct{} // holds one: something may be to do

	mu      sync.Mutex // guards what follows
	entries map[string]*Entry
	place   int64
	open    bool              // may send
	flying  map[string]string // lane to the entry that is being sent
	waits   map[string]hold   // by entry
	hear    func(Outcome)
	changed chan struct{} // closed, and replaced, at every change
	paused  error         // why nothing is sent until Open, nil for no reason but the connection
	dropped bool          // forget dropped entries since paused was set
}

// hold is when an entry is tried again. asked says that the server named the time.
type hold struct {
	until time.Time
	asked bool
}

// Outcome is told to who listens to an Outbox: what became of an entry.
type Outcome struct {
	Entry Entry
	// Done says that the entry is gone: the server has it, or somebody took it back.
	Done bool
	// Answer is what the server answered, when it did; nil for a message that an event confirmed.
	Answer *Answer
}

// NewOutbox answers the outbox that is in a store. It sends nothing until Run, and until Open.
func NewOutbox(ctx context.Context, c *Client, store OutboxStore) (*Outbox, error) {
	o := &Outbox{
		client: c, store: store, ready: make(chan struct{}, 1), entries: map[string]*Entry{}, flying: map[string]string{},
		waits: map[string]hold{}, hear: func(Outcome) {}, changed: make(chan struct{}),
	}
	kept, err := store.LoadEntries(ctx)
	if err != nil {
		return nil, fmt.Errorf("load outbox: %w", err)
	}
	for _, entry := range kept {
		o.entries[entry.ID] = &entry
		o.place = max(o.place, entry.Place)
	}
	return o, nil
}

// Listen has hear told what becomes of entries. It is called without locks and must be quick.
func (o *Outbox) Listen(hear func(Outcome)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hear = hear
}

// Open lets entries be sent: the connection has caught up (ES-13.4). What waited for the network is tried at once.
func (o *Outbox) Open() {
	o.mu.Lock()
	o.open, o.paused, o.dropped = true, nil, false
	maps.DeleteFunc(o.waits, func(_ string, h hold) bool { return !h.asked })
	o.tell()
	o.mu.Unlock()
	signal(o.ready)
}

// Hold keeps entries back until Open. What is under way goes on.
func (o *Outbox) Hold() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open = false
}

// stop keeps entries back until Open, and answers why to who waits for Idle; nil is no reason any more.
func (o *Outbox) stop(why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open, o.paused = false, why
	o.dropped = o.dropped && why != nil
	o.tell()
}

// tell wakes who awaits a change; the lock is held.
func (o *Outbox) tell() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// Entries answers all entries in order.
func (o *Outbox) Entries() []Entry {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make([]Entry, 0, len(o.entries))
	for _, entry := range o.entries {
		all = append(all, *entry)
	}
	return orderBy(all, func(e Entry) int64 { return e.Place })
}

// Entry answers one.
func (o *Outbox) Entry(id string) (Entry, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	entry, ok := o.entries[id]
	if !ok {
		return Entry{}, false
	}
	return *entry, true
}

// Idle waits until nothing waits to be sent. What failed or is in conflict is not waited for. Its error is that ctx has
// ended, or why nothing is sent any more: ErrSignedOut, or what Account.Run has ended with.
func (o *Outbox) Idle(ctx context.Context) error {
	for {
		o.mu.Lock()
		busy := len(o.flying) > 0
		for _, entry := range o.entries {
			busy = busy || entry.State == EntryWaiting
		}
		changed, paused, dropped := o.changed, o.paused, o.dropped
		o.mu.Unlock()
		switch {
		case paused != nil && (busy || dropped):
			return paused
		case !busy:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for the outbox: %w", ctx.Err())
		}
	}
}

// Run sends entries until ctx ends, and waits for what is under way. It answers ErrSignedOut when nothing can
// be sent any more until somebody signs in, and otherwise nil, or what the store failed with.
func (o *Outbox) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var under sync.WaitGroup
	defer under.Wait()
	for {
		due, next := o.due(time.Now())
		for _, entry := range due {
			under.Go(func() {
				if err := o.send(ctx, entry); err != nil {
					cancel(err)
				}
			})
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
				return cause //nolint:wrapcheck // it is this package's own
			}
			return nil
		case <-timer.C:
		case <-o.ready:
			timer.Stop()
		}
	}
}

// due answers the entries to send now, which are under way then, and how long to wait for the next one.
func (o *Outbox) due(now time.Time) ([]Entry, time.Duration) {
	const rest = time.Hour
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.open {
		return nil, rest
	}
	var due []Entry
	wait := rest
	for _, entry := range o.heads() {
		if o.flying[entry.Lane] != "" || entry.Target != "" {
			continue
		}
		if until := o.waits[entry.ID].until; until.After(now) {
			wait = min(wait, until.Sub(now))
			continue
		}
		if len(o.flying) >= maxParallel { // the end of one of them looks again
			break
		}
		o.flying[entry.Lane] = entry.ID
		due = append(due, *entry)
	}
	return due, wait
}

// heads answers the first waiting entry of each lane, the oldest first; the lock is held.
func (o *Outbox) heads() []*Entry {
	first := map[string]*Entry{}
	for _, entry := range o.entries {
		if head := first[entry.Lane]; entry.State == EntryWaiting && (head == nil || entry.Place < head.Place) {
			first[entry.Lane] = entry
		}
	}
	return slices.SortedFunc(maps.Values(first), func(a, b *Entry) int { return cmp.Compare(a.Place, b.Place) })
}

// send makes one attempt. That it begins is stored first: from then on the server may know the entry.
func (o *Outbox) send(ctx context.Context, entry Entry) error {
	defer signal(o.ready)
	begun, err := o.begin(ctx, entry)
	if err != nil || begun == nil {
		o.land(entry.ID)
		return err
	}
	answer, err := o.client.perform(ctx, begun.call())
	if ctx.Err() != nil && err != nil {
		o.land(entry.ID) // the outcome stays unknown, and the entry as it is
		return nil
	}
	return o.settle(context.WithoutCancel(ctx), *begun, answer, err)
}

// begin stores that an attempt begins and answers the entry as it is now; nil when it is gone.
func (o *Outbox) begin(ctx context.Context, entry Entry) (*Entry, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, there := o.entries[entry.ID]
	if !there || now.State != EntryWaiting {
		return nil, nil
	}
	begun := *now
	begun.Attempts++
	if !now.Sent() {
		if err := o.store.PutEntries(ctx, []Entry{begun}, nil); err != nil {
			return nil, fmt.Errorf("store attempt: %w", err)
		}
	}
	*now = begun
	return &begun, nil
}

func (o *Outbox) land(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.freeLane(id)
}

// forget empties what is held, after the store was emptied.
func (o *Outbox) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open, o.dropped = false, o.dropped || len(o.entries) > 0
	clear(o.entries)
	clear(o.waits)
	o.tell()
}
