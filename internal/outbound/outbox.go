package outbound

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

const (
	// batchSize is how many pushes a worker makes at a time.
	batchSize = 8
	// settleTimeout bounds the noting of an attempt's result.
	settleTimeout = 5 * time.Second
	// requestTimeout is how long a request waits for its wake to be sent and noted (SS-DSP-3); noteReserve
	// of it is kept for the noting.
	requestTimeout = 5 * time.Second
	noteReserve    = 500 * time.Millisecond
)

// Outbox sends wakes. Make it with NewOutbox; Start and Stop run its worker.
type Outbox struct {
	db     storage.DB
	bus    signal.Bus
	pusher Pusher // nil when push is not configured
	pause  time.Duration
	env    *env.Env
	log    *slog.Logger

	woken  chan struct{} // holds one token when there may be something due
	slots  chan struct{} // holds one token for every push that runs
	cancel context.CancelFunc
	ended  chan struct{}
}

// NewOutbox makes an outbox that sends by pusher; nil means that push is not configured. Between two news of one
// session to one device it lets pause pass.
func NewOutbox(db storage.DB, bus signal.Bus, pusher Pusher, pause time.Duration, e *env.Env, log *slog.Logger) *Outbox {
	return &Outbox{
		db: db, bus: bus, pusher: pusher, pause: pause, env: e, log: log, woken: make(chan struct{}, 1), slots: make(chan struct{}, batchSize),
	}
}

// Enqueue writes a dispatch down in the transaction of its control, which holds the session's lock, and answers
// its id, for SendNow after the commit.
func Enqueue(tx storage.Tx, e *env.Env, wake Wake) (id string, err error) {
	id, wake.Type = e.NewID(), wire.PushDispatch
	err = tx.Exec(
		`INSERT INTO push_outbox (id, session_id, type, device_id, control_id, mode, created_at, attempts, not_before, claimed)
		 VALUES ($1, $2, $3, $4, $5, $6, $7, 0, $8, TRUE)`,
		id, wake.SessionID, string(wake.Type), wake.DeviceID, wake.ControlID, string(wake.Mode), tx.Now(), tx.Now().Add(claimTerm))
	if err != nil {
		return "", fmt.Errorf("enqueue wake: %w", err)
	}
	return id, keep(tx, wake.SessionID, [][]any{outcomeRow(id, wake, fate{state: wire.PushWaiting}, tx.Now())})
}

// SendNow makes the requester's one attempt on a wake that it enqueued and committed. It never
// fails: what goes wrong is a Result with a reason, and the wake stays for the worker if another
// attempt may help. The attempt goes on when ctx is cancelled, since the wake is claimed.
func (o *Outbox) SendNow(ctx context.Context, id string) Result {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	parcel, mine, err := o.first(ctx, id)
	if err != nil {
		o.log.Error("read wake", "wake", id, "error", err)
		return failed(wire.PushNetworkError)
	}
	if !mine {
		return failed(wire.PushNetworkError)
	}
	pushing, cancelPush := context.WithTimeout(ctx, requestTimeout-noteReserve)
	defer cancelPush()
	return o.deliver(pushing, ctx, parcel)
}

// first reads a wake for the attempt of the one who enqueued it; false when that claim has run out,
// or nearly, so that the worker may have the wake by now.
func (o *Outbox) first(ctx context.Context, id string) (parcel, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	var found parcel
	mine := false
	err := o.db.Read(ctx, func(tx storage.Tx) error {
		mine = false
		parcels, err := readParcels(tx, `WHERE o.id = $2`, id)
		if err != nil || len(parcels) == 0 {
			return err
		}
		found = parcels[0]
		mine = found.attempts == 1 && found.notBefore.Sub(tx.Now()) > attemptTimeout
		return nil
	})
	return found, mine, err
}

// deliver makes one attempt and notes what became of it, each under a context of its own.
func (o *Outbox) deliver(pushing, noting context.Context, p parcel) Result {
	result := o.attempt(pushing, p)
	if err := o.settle(noting, p, result); err != nil {
		// The claim runs out and the worker tries again.
		o.log.Error("note result of push", "wake", p.id, "error", err)
	}
	return result
}

func (o *Outbox) attempt(ctx context.Context, p parcel) Result {
	switch {
	case p.token == "":
		return failed(wire.PushNoPushToken)
	case o.pusher == nil:
		return failed(wire.PushNoToken)
	}
	result := o.pusher.Push(ctx, p.token, p.data())
	if !result.Pushed {
		o.log.Warn("push did not reach its device", "device", p.DeviceID, "session", p.SessionID,
			"attempt", p.attempts, "reason", string(result.Reason))
	}
	return result
}

// settle forgets the wake or puts it off, unless somebody else claimed it since.
func (o *Outbox) settle(ctx context.Context, p parcel, result Result) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	keys := []storage.Key{{Lock: storage.LockDevices, ID: p.DeviceID}, {Lock: storage.LockSessions, ID: p.SessionID}}
	return o.db.Write(ctx, keys, func(tx storage.Tx) error {
		next := after(p.attempts, tx.Now().Sub(p.createdAt), result)
		if next.clearToken {
			if err := identity.ClearPushToken(tx, p.DeviceID, p.token); err != nil {
				return err
			}
		}
		if p.news() {
			return o.settleNews(tx, p, result, next)
		}
		return o.conclude(tx, p, result, next)
	})
}

// conclude notes an attempt, and forgets the wake or puts it off.
func (o *Outbox) conclude(tx storage.Tx, p parcel, result Result, next step) error {
	switch {
	case result.Pushed:
		return end(tx, p, fate{state: wire.PushSent}, p.attempts)
	case next.forget:
		return end(tx, p, fate{wire.PushFailed, result.Reason}, p.attempts)
	}
	moved, err := move(tx, p, tx.Now().Add(o.env.Jitter(2*next.retryAfter)), p.attempts, false)
	if err != nil || !moved {
		return err
	}
	return note(tx, fate{wire.PushWaiting, result.Reason}, p.attempts, p.id)
}

// settleNews is conclude for news. The pause begins when they arrived; news that did not may give way to newer ones.
func (o *Outbox) settleNews(tx storage.Tx, p parcel, result Result, next step) error {
	if result.Pushed {
		if err := pause(tx, p.Wake, tx.Now().Add(o.pause)); err != nil {
			return err
		}
		return o.conclude(tx, p, result, next)
	}
	if ours, err := holds(tx, p); err != nil || !ours {
		return err // whoever moved it has begun a pause of their own
	}
	if err := unpause(tx, p.Wake); err != nil {
		return err
	}
	if next.forget {
		return o.conclude(tx, p, result, next)
	}
	yield, err := yields(tx, p)
	if err != nil {
		return err
	}
	if !yield {
		return o.conclude(tx, p, result, next)
	}
	if err := hasten(tx, p); err != nil {
		return err
	}
	return end(tx, p, skipped(wire.PushReplaced), p.attempts)
}

// hasten lets go at once what waits for the same device: nothing arrived, so nothing pauses.
func hasten(tx storage.Tx, p parcel) error {
	err := tx.Exec(`UPDATE push_outbox SET not_before = $4 WHERE session_id = $1 AND device_id = $2 AND type <> 'dispatch' AND id <> $3
		AND NOT claimed AND not_before > $4`, p.SessionID, p.DeviceID, p.id, tx.Now())
	if err != nil {
		return fmt.Errorf("hasten news: %w", err)
	}
	return nil
}

// holds reports whether a wake is where its claim put it.
func holds(tx storage.Tx, p parcel) (bool, error) {
	var one int64
	found, err := tx.Get(`SELECT 1 FROM push_outbox WHERE id = $1 AND not_before = $2`, []any{p.id, p.notBefore}, &one)
	if err != nil {
		return false, fmt.Errorf("look for wake: %w", err)
	}
	return found, nil
}

// end takes a wake out of the outbox and notes what became of it, unless somebody else moved it.
func end(tx storage.Tx, p parcel, f fate, attempts int64) error {
	rows, err := tx.Changed(`DELETE FROM push_outbox WHERE id = $1 AND not_before = $2`, p.id, p.notBefore)
	if err != nil {
		return fmt.Errorf("forget wake: %w", err)
	}
	if rows == 0 {
		return nil
	}
	return note(tx, f, attempts, p.id)
}

// move puts a wake off until a moment by compare-and-set, and answers false when somebody else moved it. Claimed
// says that the caller sends it meanwhile.
func move(tx storage.Tx, p parcel, until time.Time, attempts int64, claimed bool) (bool, error) {
	rows, err := tx.Changed(`UPDATE push_outbox SET not_before = $3, attempts = $4, claimed = $5 WHERE id = $1 AND not_before = $2`,
		p.id, p.notBefore, until, attempts, claimed)
	if err != nil {
		return false, fmt.Errorf("move wake: %w", err)
	}
	return rows == 1, nil
}
