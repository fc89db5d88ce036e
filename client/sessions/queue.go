package sessions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

const (
	// maxBatchBytes bounds a batch of several events, well under the server's limit of a body.
	maxBatchBytes = 4 << 20
	// maxEventBytes bounds one event, so that it fits into a body of 12 MiB (SS-HTTP-5).
	maxEventBytes = 12<<20 - 64<<10
	// maxSealableBytes bounds one event that will be sealed: sealing and Base64 make it a third larger.
	maxSealableBytes = maxEventBytes/4*3 - 64<<10
	// eventOverhead is what an event takes beside its texts: names, quotes, ts.
	eventOverhead = 128
)

// queued is an event that waits to be stored.
type queued struct {
	event wire.IncomingEvent
	size  int
	since time.Time
}

// eventQueue holds what was emitted and is not stored yet, in order. One sender takes from it, and an event
// stays in it until it is stored.
type eventQueue struct {
	options ExecutorOptions

	mu      sync.Mutex // guards what follows
	waiting []queued
	bytes   int
	emitted int64 // ever
	stored  int64 // ever
	urgent  int64 // a batch that brings stored up to here does not wait
	closed  bool
	changed chan struct{} // closed, and replaced, at every change
}

func newEventQueue(o ExecutorOptions) *eventQueue {
	q := &eventQueue{options: o, changed: make(chan struct{})}
	if o.Journal != nil {
		q.waiting = o.Journal.left()
		q.emitted = int64(len(q.waiting))
		for _, left := range q.waiting {
			q.bytes += left.size
		}
	}
	return q
}

// await waits until ready, which is called under the lock, and then answers with the lock held. It answers
// without the lock when ctx ends or the run does.
func (q *eventQueue) await(ctx, run context.Context, ready func() bool) error {
	for {
		q.mu.Lock()
		if ready() {
			return nil
		}
		changed := q.changed
		q.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for the queue: %w", ctx.Err())
		case <-run.Done():
			return context.Cause(run) //nolint:wrapcheck // it is this package's own
		}
	}
}

// tell wakes everybody who awaits; the lock is held.
func (q *eventQueue) tell() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// put adds an event, when there is room; a last one at once.
func (q *eventQueue) put(ctx, run context.Context, event wire.IncomingEvent, size int, last bool) error {
	err := q.await(ctx, run, func() bool {
		return q.closed || last || len(q.waiting) == 0 ||
			len(q.waiting) < q.options.QueueEvents && q.bytes+size <= q.options.QueueBytes
	})
	if err != nil {
		return err
	}
	defer q.mu.Unlock()
	if q.closed {
		return ErrStopped
	}
	added := queued{event, size, time.Now()}
	if q.options.Journal != nil {
		if err := q.options.Journal.add(added, last); err != nil {
			return err
		}
	}
	q.waiting = append(q.waiting, added)
	q.bytes += size
	q.emitted++
	q.tell()
	return nil
}

// keep adds an event that cannot be stored any more to those that are left.
func (q *eventQueue) keep(event wire.IncomingEvent, size int) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	added := queued{event, size, time.Now()}
	if err := q.options.Journal.add(added, true); err != nil {
		return err
	}
	q.waiting = append(q.waiting, added)
	return nil
}

// take answers the next batch: when it is full, when its first event has waited long enough, or when
// somebody flushes. It answers nil when the queue is closed and empty, or the run has ended.
func (q *eventQueue) take(run context.Context) []wire.IncomingEvent {
	if q.await(run, run, func() bool { return q.closed || len(q.waiting) > 0 }) != nil {
		return nil
	}
	if len(q.waiting) == 0 {
		q.mu.Unlock()
		return nil
	}
	due := q.waiting[0].since.Add(q.options.BatchWait)
	q.mu.Unlock()
	waiting, cancel := context.WithDeadline(run, due) //nolint:contextcheck // run is the Executor's life
	defer cancel()
	err := q.await(waiting, run, func() bool {
		return q.closed || q.urgent > q.stored || len(q.waiting) >= q.options.BatchEvents
	})
	if err != nil {
		if run.Err() != nil {
			return nil
		}
		q.mu.Lock() // the time is up: what is there goes
	}
	defer q.mu.Unlock()
	return q.batch()
}

// batch copies the first events; the lock is held.
func (q *eventQueue) batch() []wire.IncomingEvent {
	var batch []wire.IncomingEvent
	size := 0
	for _, next := range q.waiting {
		if len(batch) == q.options.BatchEvents || len(batch) > 0 && size+next.size > maxBatchBytes {
			break
		}
		batch = append(batch, next.event)
		size += next.size
	}
	return batch
}

// settle drops the first n events: they are stored.
func (q *eventQueue) settle(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, gone := range q.waiting[:n] {
		q.bytes -= gone.size
	}
	clear(q.waiting[:n])
	q.waiting = q.waiting[n:]
	q.stored += int64(n)
	if q.options.Journal != nil {
		_ = q.options.Journal.settle(n) // what is not noted is sent again, once more known to the server
	}
	q.tell()
}

// flush waits until what was emitted before it is stored.
func (q *eventQueue) flush(ctx, run context.Context) error {
	q.mu.Lock()
	target := q.emitted
	q.urgent = max(q.urgent, target)
	q.tell()
	q.mu.Unlock()
	if err := q.await(ctx, run, func() bool { return q.stored >= target }); err != nil {
		return err
	}
	q.mu.Unlock()
	return nil
}

// close refuses further events; what waits is still taken.
func (q *eventQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.tell()
}

func (q *eventQueue) left() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// Emit queues an event to be stored, in the order of the calls. A missing ClientEventID and TS are filled
// in, once: every retry sends the same event, so it is stored once. It blocks while the queue is full. It
// answers ErrStopped or why the Executor ended when the event cannot be stored any more (after a lost lease it is left in the
// Journal, beyond the bounds), and another error for
// an event that the server would refuse. nil means queued; Flush says when it is stored.
func (e *Executor) Emit(ctx context.Context, event wire.IncomingEvent) error {
	return e.emit(ctx, event, false)
}

// EmitLast is Emit for the few events that close what is open before a Stop: it does not wait for room,
// and is kept in memory only when the journal has none.
func (e *Executor) EmitLast(event wire.IncomingEvent) error {
	return e.emit(context.Background(), event, true)
}

func (e *Executor) emit(ctx context.Context, event wire.IncomingEvent, last bool) error {
	if e.run.Err() != nil && !e.keeps() {
		return context.Cause(e.run) //nolint:wrapcheck // as in await
	}
	event, err := e.prepare(event)
	if err != nil {
		return fmt.Errorf("emit event: %w", err)
	}
	size, most := eventSize(event), maxEventBytes
	if e.options.Recipients != nil {
		most = maxSealableBytes
	}
	if size > most {
		return fmt.Errorf("emit event: it has %d bytes, the limit is %d", size, most)
	}
	if err := e.queue.put(ctx, e.run, event, size, last); err == nil || !e.keeps() {
		return err
	}
	if err := e.queue.keep(event, size); err != nil {
		return err
	}
	return context.Cause(e.run) //nolint:wrapcheck // as in await
}

// keeps reports whether the lease was lost and a Journal keeps what still comes.
func (e *Executor) keeps() bool { return e.options.Journal != nil && e.Lost() != nil }

// Flush sends what waits at once, and answers nil when all that was emitted before it is stored.
func (e *Executor) Flush(ctx context.Context) error { return e.queue.flush(ctx, e.run) }

// prepare checks an event against the protocol's limits and fills in what is missing.
func (e *Executor) prepare(event wire.IncomingEvent) (wire.IncomingEvent, error) {
	if err := checkEvent(event); err != nil {
		return event, err
	}
	if event.ClientEventID == nil {
		id := NewID()
		event.ClientEventID = &id
	}
	if event.TS == nil {
		now := time.Now().UnixMilli()
		event.TS = &now
	}
	if len(event.Payload) == 0 {
		event.Payload = json.RawMessage("{}")
	}
	event.Payload = bytes.Clone(event.Payload) // the caller may use its bytes again
	return event, nil
}

func checkEvent(event wire.IncomingEvent) error {
	kind := utf8.RuneCountInString(event.Kind)
	switch {
	case kind < 1 || kind > wire.MaxKind:
		return fmt.Errorf("kind has %d characters, not 1 to %d", kind, wire.MaxKind)
	case tooLong(event.TurnID):
		return fmt.Errorf("turn_id has more than %d characters", wire.MaxID)
	case tooLong(event.ClientEventID):
		return fmt.Errorf("client_event_id has more than %d characters", wire.MaxID)
	case len(event.Payload) > 0 && !isObject(event.Payload):
		return errors.New("payload is not a JSON object in UTF-8")
	}
	return nil
}

func tooLong(id *string) bool { return id != nil && utf8.RuneCountInString(*id) > wire.MaxID }

func isObject(payload json.RawMessage) bool {
	trimmed := bytes.TrimLeft(payload, " \t\r\n")
	return len(trimmed) > 0 && trimmed[0] == '{' && utf8.Valid(payload) && json.Valid(payload)
}

func eventSize(event wire.IncomingEvent) int {
	size := eventOverhead + len(event.Kind) + len(event.Payload)
	if event.TurnID != nil {
		size += len(*event.TurnID)
	}
	if event.ClientEventID != nil {
		size += len(*event.ClientEventID)
	}
	return size
}
