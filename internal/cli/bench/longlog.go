package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/cairnsync/cairn/internal/session"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// measureLongLog is whether appends stay as cheap as a session grows, and how fast it is replayed.
func measureLongLog(ctx context.Context, b *bench, engine string) ([]Figure, error) {
	posts := 63 // by every writer in every part: a million events
	if b.Quick {
		posts = 3
	}
	events := posts * parts * writers * wire.MaxBatch
	s, e, err := b.stage(ctx, engine)
	if err != nil {
		return nil, err
	}
	costs, err := b.grow(ctx, s, e, posts)
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	first, last := costs[0], costs[len(costs)-1]
	grown := Figure{
		Scenario: "long-log", Engine: engine, Unit: "CPU-s per million appends", Value: last, CPU: last,
		Load: fmt.Sprintf("the last twentieth of %d events in one session, batches of %d", events, wire.MaxBatch),
	}.against("its first twentieth", first)
	replayed, err := b.replay(ctx, s, e, engine, events)
	e.close()
	return []Figure{grown.goal("≤ 1.2", grown.Ratio <= 1.2), replayed}, errors.Join(err, s.stop())
}

const (
	parts   = 20 // of the log, whose costs are compared
	writers = 4  // connections that append to the one session
)

// grow appends events and answers the server's CPU seconds per million in every part.
func (b *bench) grow(ctx context.Context, s *site, e *executor, posts int) ([]float64, error) {
	pipes := make([]*executor, writers)
	for i := range pipes {
		again, err := s.dial(ctx, e.client.DeviceID())
		if err != nil {
			return nil, err
		}
		defer again.close()
		pipes[i] = &executor{pipe: again, session: e.session}
	}
	costs := make([]float64, parts)
	for part := range parts {
		before := s.cpu()
		failures := make([]error, writers)
		var working sync.WaitGroup
		for i, p := range pipes {
			working.Go(func() {
				for post := range posts {
					failures[i] = errors.Join(failures[i], p.append(body(fmt.Sprintf("%d-%d-%d", part, i, post), wire.MaxBatch, payloadLen)))
				}
			})
		}
		working.Wait()
		if err := errors.Join(failures...); err != nil {
			return nil, err
		}
		costs[part] = (s.cpu() - before) / float64(posts*writers*wire.MaxBatch) * 1e6
	}
	return costs, nil
}

// replay compares a stream from far behind with reading the same events from the store alone.
func (b *bench) replay(ctx context.Context, s *site, e *executor, engine string, events int) (Figure, error) {
	count := min(100_000, events/2)
	after := int64(events - count)
	started, cpu := b.env.Now(), s.cpu()
	v, err := connect(ctx, s.target(e.session, byWebSocket, after), devices(b.env, 1))
	if err != nil {
		return Figure{}, err
	}
	defer v.close()
	if err := until(ctx, "the replay", 2*patience, func() bool { return v.events.Load() >= int64(count) }); err != nil {
		return Figure{}, err
	}
	took, cpu := b.env.Now().Sub(started), s.cpu()-cpu
	base, err := b.readAlone(ctx, s, e.session, after)
	f := Figure{
		Scenario: "replay", Engine: engine, Unit: "events/s", Value: float64(count) / took.Seconds(), CPU: cpu / float64(count) * 1e6,
		Load: fmt.Sprintf("one WebSocket viewer %d events behind", count),
	}.against("reading them from the store alone", base)
	return f.goal("≥ 0.3", f.Ratio >= 0.3), err
}

func (b *bench) readAlone(ctx context.Context, s *site, id string, after int64) (perSecond float64, err error) {
	db, err := storage.Open(ctx, storage.Options{URL: s.database})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	count, started := 0, b.env.Now()
	for {
		page, err := storage.Read(ctx, db, func(tx storage.Tx) ([]session.Stored, error) {
			return session.ReadLog(tx, id, after, 500)
		})
		if err != nil || len(page) == 0 {
			return float64(count) / b.env.Now().Sub(started).Seconds(), err
		}
		count += len(page)
		after = page[len(page)-1].Seq
	}
}
