package outbound

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

const (
	// batchSize is how many wakes a worker claims, and pushes, at a time.
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
	env    *env.Env
	log    *slog.Logger

	woken  chan struct{} // holds one token when there may be something due
	cancel context.CancelFunc
	ended  chan struct{}
}

// NewOutbox makes an outbox that sends by pusher; nil means that push is not configured.
func NewOutbox(db storage.DB, bus signal.Bus, pusher Pusher, e *env.Env, log *slog.Logger) *Outbox {
	return &Outbox{db: db, bus: bus, pusher: pusher, env: e, log: log, woken: make(chan struct{}, 1)}
}

// Enqueue writes a wake down in the transaction of its control and answers its id, for SendNow
// after the commit.
func Enqueue(tx storage.Tx, e *env.Env, wake Wake) (id string, err error) {
	id = e.NewID()
	err = tx.Exec(
		`INSERT INTO push_outbox (id, session_id, control_id, device_id, mode, created_at, attempts, not_before)
		 VALUES ($1, $2, $3, $4, $5, $6, 0, $7)`,
		id, wake.SessionID, wake.ControlID, wake.DeviceID, string(wake.Mode), tx.Now(), tx.Now().Add(claimTerm))
	if err != nil {
		return "", fmt.Errorf("enqueue wake: %w", err)
	}
	return id, nil
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

// parcel is a claimed wake with what is needed to send it.
type parcel struct {
	Wake
	id        string
	attempts  int64 // with the one that is about to be made
	createdAt time.Time
	notBefore time.Time
	token     string // empty when the device has none
	moot      bool   // the control is applied, or gone with its session
}

const parcelQuery = `SELECT o.id, o.session_id, o.control_id, o.device_id, o.mode, o.attempts, o.created_at, o.not_before,
       d.push_token, c.id IS NULL OR c.applied
  FROM push_outbox o
  LEFT JOIN devices d ON d.id = o.device_id
  LEFT JOIN session_controls c ON c.session_id = o.session_id AND c.id = o.control_id `

func scanParcel(row storage.Row) (parcel, error) {
	var p parcel
	var mode string
	var token *string
	err := row.Scan(&p.id, &p.SessionID, &p.ControlID, &p.DeviceID, &mode, &p.attempts, &p.createdAt, &p.notBefore,
		&token, &p.moot)
	p.Mode = wire.Mode(mode)
	if token != nil {
		p.token = *token
	}
	p.attempts++
	return p, err
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
		return tx.Query(parcelQuery+`WHERE o.id = $1`, []any{id}, func(row storage.Row) (err error) {
			found, err = scanParcel(row)
			mine = found.attempts == 1 && found.notBefore.Sub(tx.Now()) > attemptTimeout
			return err
		})
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
	return o.db.Write(ctx, []storage.Key{{Lock: storage.LockDevices, ID: p.DeviceID}}, func(tx storage.Tx) error {
		next := after(p.attempts, tx.Now().Sub(p.createdAt), result)
		if next.clearToken {
			if err := identity.ClearPushToken(tx, p.DeviceID, p.token); err != nil {
				return err
			}
		}
		if next.forget {
			return forget(tx, p)
		}
		_, err := claim(tx, p, tx.Now().Add(o.env.Jitter(2*next.retryAfter)))
		return err
	})
}

func forget(tx storage.Tx, p parcel) error {
	err := tx.Exec(`DELETE FROM push_outbox WHERE id = $1 AND not_before = $2`, p.id, p.notBefore)
	if err != nil {
		return fmt.Errorf("forget wake: %w", err)
	}
	return nil
}

// claim moves a wake to until by compare-and-set, and answers false when somebody else moved it.
func claim(tx storage.Tx, p parcel, until time.Time) (bool, error) {
	rows, err := tx.Changed(`UPDATE push_outbox SET not_before = $3, attempts = $4 WHERE id = $1 AND not_before = $2`,
		p.id, p.notBefore, until, p.attempts)
	if err != nil {
		return false, fmt.Errorf("claim wake: %w", err)
	}
	return rows == 1, nil
}

// Start begins the worker.
func (o *Outbox) Start(context.Context) error {
	ctx, cancel := context.WithCancel(context.Background())
	o.cancel, o.ended = cancel, make(chan struct{})
	unsubscribe := o.bus.Subscribe(func(wake signal.Wake) {
		if wake.Topic != signal.Push && wake.Topic != "" {
			return
		}
		select {
		case o.woken <- struct{}{}:
		default: // it is woken already
		}
	})
	go func() {
		defer close(o.ended)
		defer unsubscribe()
		o.work(ctx)
	}()
	return nil
}

// Stop ends the worker once the pushes that run are noted, or answers ctx's error.
func (o *Outbox) Stop(ctx context.Context) error {
	if o.cancel == nil {
		return nil
	}
	o.cancel()
	select {
	case <-o.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for pushes to end: %w", ctx.Err())
	}
}

// work sends what is due, at every wake-up and at every poll.
func (o *Outbox) work(ctx context.Context) {
	poll := time.NewTicker(signal.PollInterval)
	defer poll.Stop()
	for {
		for more := true; more && ctx.Err() == nil; {
			var err error
			if more, err = o.round(ctx); err != nil && ctx.Err() == nil {
				o.log.Error("send due wakes", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-o.woken:
		case <-poll.C:
		}
	}
}

// round claims and sends one batch, and answers whether there may be more.
func (o *Outbox) round(ctx context.Context) (more bool, err error) {
	due, err := o.due(ctx)
	if err != nil || len(due) == 0 {
		return false, err
	}
	claimed, err := o.claimAll(ctx, due)
	if err != nil {
		return false, err
	}
	var pushes sync.WaitGroup
	for _, p := range claimed {
		pushes.Go(func() { o.deliver(ctx, context.WithoutCancel(ctx), p) })
	}
	pushes.Wait()
	return len(due) == batchSize, nil
}

// due reads, without claiming, what nobody has claimed; an idle outbox costs this one read.
func (o *Outbox) due(ctx context.Context) ([]parcel, error) {
	return storage.Read(ctx, o.db, func(tx storage.Tx) ([]parcel, error) {
		var due []parcel
		err := tx.Query(parcelQuery+`WHERE o.not_before <= $1 ORDER BY o.not_before, o.id LIMIT $2`,
			[]any{tx.Now(), batchSize}, func(row storage.Row) error {
				p, err := scanParcel(row)
				due = append(due, p)
				return err
			})
		if err != nil {
			return nil, fmt.Errorf("read due wakes: %w", err)
		}
		return due, nil
	})
}

// claimAll claims the due wakes that are still due and worth sending; those that are not worth it
// leave the outbox.
func (o *Outbox) claimAll(ctx context.Context, due []parcel) ([]parcel, error) {
	return storage.Write(ctx, o.db, nil, func(tx storage.Tx) ([]parcel, error) {
		var claimed []parcel
		for _, p := range due {
			if p.moot || p.attempts > maxAttempts || tx.Now().Sub(p.createdAt) > maxAge {
				if err := forget(tx, p); err != nil {
					return nil, err
				}
				continue
			}
			until := tx.Now().Add(claimTerm)
			won, err := claim(tx, p, until)
			if err != nil {
				return nil, err
			}
			if won {
				p.notBefore = until
				claimed = append(claimed, p)
			}
		}
		return claimed, nil
	})
}
