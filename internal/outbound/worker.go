package outbound

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
)

// Start begins the worker.
func (o *Outbox) Start(context.Context) error {
	ctx, cancel := context.WithCancel(context.Background())
	o.cancel, o.ended = cancel, make(chan struct{})
	unsubscribe := o.bus.Subscribe(func(wake signal.Wake) {
		if wake.Topic == signal.Push || wake.Topic == "" {
			o.look()
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

// look asks the worker to look for what is due.
func (o *Outbox) look() {
	select {
	case o.woken <- struct{}{}:
	default: // it is asked already
	}
}

// work sends what is due, at every wake-up and at every poll, and waits for the pushes that run when it ends.
func (o *Outbox) work(ctx context.Context) {
	poll := time.NewTicker(signal.PollInterval)
	defer poll.Stop()
	var pushes sync.WaitGroup
	defer pushes.Wait()
	for {
		for more := true; more && ctx.Err() == nil; {
			var err error
			if more, err = o.round(ctx, &pushes); err != nil && ctx.Err() == nil {
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

// round claims as much as may be pushed beside what runs, pushes it, and answers whether there may be more that can
// be pushed now. A push service that does not answer for one device holds up no other.
func (o *Outbox) round(ctx context.Context, pushes *sync.WaitGroup) (more bool, err error) {
	room := cap(o.slots) - len(o.slots)
	if room == 0 {
		return false, nil // the next push that ends looks again
	}
	due, err := o.due(ctx, room)
	if err != nil || len(due) == 0 {
		return false, err
	}
	claimed, err := o.claimAll(ctx, due)
	if err != nil {
		return false, err
	}
	for _, p := range claimed {
		o.slots <- struct{}{} // there is room: only this goroutine takes it
		pushes.Go(func() {
			o.deliver(ctx, context.WithoutCancel(ctx), p)
			<-o.slots
			o.look()
		})
	}
	return len(due) == room, nil
}

// ticket is a wake that is due, before anybody looked into it.
type ticket struct{ id, sessionID string }

// due reads, without claiming, what nobody has claimed; an idle outbox costs this one read.
func (o *Outbox) due(ctx context.Context, most int) ([]ticket, error) {
	return storage.Read(ctx, o.db, func(tx storage.Tx) ([]ticket, error) {
		var due []ticket
		err := tx.Query(`SELECT id, session_id FROM push_outbox WHERE not_before <= $1 ORDER BY not_before, id LIMIT $2`,
			[]any{tx.Now(), most}, func(row storage.Row) error {
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
