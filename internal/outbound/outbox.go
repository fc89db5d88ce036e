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
	pause  time.Duration
	env    *env.Env
	log    *slog.Logger

	woken  chan struct{} // holds one token when there may be something due
	cancel context.CancelFunc
	ended  chan struct{}
}

// NewOutbox makes an outbox that sends by pusher; nil means that push is not configured. Between two news of one
// session to one device it lets pause pass.
func NewOutbox(db storage.DB, bus signal.Bus, pusher Pusher, pause time.Duration, e *env.Env, log *slog.Logger) *Outbox {
	return &Outbox{db: db, bus: bus, pusher: pusher, pause: pause, env: e, log: log, woken: make(chan struct{}, 1)}
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
	if yield {
		return end(tx, p, skipped(wire.PushReplaced), p.attempts)
	}
	return o.conclude(tx, p, result, next)
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

// ticket is a wake that is due, before anybody looked into it.
type ticket struct{ id, sessionID string }

// due reads, without claiming, what nobody has claimed; an idle outbox costs this one read.
func (o *Outbox) due(ctx context.Context) ([]ticket, error) {
	return storage.Read(ctx, o.db, func(tx storage.Tx) ([]ticket, error) {
		var due []ticket
		err := tx.Query(`SELECT id, session_id FROM push_outbox WHERE not_before <= $1 ORDER BY not_before, id LIMIT $2`,
			[]any{tx.Now(), batchSize}, func(row storage.Row) error {
				var t ticket
				err := row.Scan(&t.id, &t.sessionID)
				due = append(due, t)
				return err
			})
		if err != nil {
			return nil, fmt.Errorf("read due wakes: %w", err)
		}
		return due, nil
	})
}

// claimAll claims the due wakes that are still due and worth sending; those that are not worth it leave the outbox,
// and news that come too soon after others are put off. The sessions are locked, so that nobody loses access or is
// told of something newer meanwhile.
func (o *Outbox) claimAll(ctx context.Context, due []ticket) ([]parcel, error) {
	ids := make([]string, len(due))
	sessions := make([]string, len(due))
	keys := make([]storage.Key, len(due))
	for i, t := range due {
		ids[i], sessions[i] = t.id, t.sessionID
		keys[i] = storage.Key{Lock: storage.LockSessions, ID: t.sessionID}
	}
	return storage.Write(ctx, o.db, keys, func(tx storage.Tx) ([]parcel, error) {
		parcels, err := readParcels(tx, `WHERE o.id = ANY($2) AND o.not_before <= $1 ORDER BY o.not_before, o.id`, ids)
		if err != nil {
			return nil, err
		}
		var claimed []parcel
		paused := map[Wake]time.Time{} // by session and device
		for _, p := range parcels {
			target := Wake{SessionID: p.SessionID, DeviceID: p.DeviceID}
			if ends, just := paused[target]; just {
				p.pauseEnds = ends
			}
			won, err := o.claim(tx, &p)
			if err != nil {
				return nil, err
			}
			if won {
				claimed = append(claimed, p)
			}
			if won && p.news() {
				paused[target] = tx.Now().Add(o.pause)
			}
		}
		if len(paused) == 0 {
			return claimed, nil
		}
		return claimed, sweepPauses(tx, sessions)
	})
}

// claim does with a wake what its verdict says, and answers whether it is to be sent.
func (o *Outbox) claim(tx storage.Tx, p *parcel) (bool, error) {
	v := p.judge(tx.Now())
	switch {
	case v.end != nil:
		return false, end(tx, *p, *v.end, p.attempts-1)
	case !v.until.IsZero():
		_, err := move(tx, *p, v.until, p.attempts-1, false)
		return false, err
	}
	until := tx.Now().Add(claimTerm)
	won, err := move(tx, *p, until, p.attempts, true)
	if err != nil || !won {
		return false, err
	}
	p.notBefore = until
	if !p.news() {
		return true, nil
	}
	return true, pause(tx, p.Wake, tx.Now().Add(o.pause))
}
