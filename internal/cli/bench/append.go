package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairnsync/cairn/internal/session"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

const (
	executors  = 64
	batchSize  = 20
	payloadLen = 300 // bytes of a payload
)

// span is how long a rate is measured.
func (b *bench) span() time.Duration {
	if b.Quick {
		return time.Second
	}
	return 6 * time.Second
}

// payload is a JSON object of n bytes.
func payload(n int) json.RawMessage {
	const frame = `{"text":""}`
	return json.RawMessage(`{"text":"` + strings.Repeat("x", max(n-len(frame), 0)) + `"}`)
}

// body is an append of n events; their ids are made of prefix, which must be new each time.
func body(prefix string, n, size int) []byte {
	var out strings.Builder
	out.WriteString(`{"events":[`)
	for i := range n {
		if i > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, `{"kind":"assistant","client_event_id":"%s-%d","payload":%s}`, prefix, i, payload(size))
	}
	out.WriteString(`]}`)
	return []byte(out.String())
}

// rate runs work in n goroutines for d and answers how often it succeeded per second.
func rate(ctx context.Context, n int, d time.Duration, work func(worker, round int) error) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var (
		done     atomic.Int64
		failures = make([]error, n)
		workers  sync.WaitGroup
	)
	for worker := range n {
		workers.Go(func() {
			for round := 0; ctx.Err() == nil && failures[worker] == nil; round++ {
				if failures[worker] = work(worker, round); failures[worker] == nil && ctx.Err() == nil {
					done.Add(1)
				}
			}
		})
	}
	workers.Wait()
	return float64(done.Load()) / d.Seconds(), errors.Join(failures...)
}

// appendRate measures posts of n events by 64 executors in 64 sessions, and the server's CPU seconds
// per million events.
func (b *bench) appendRate(ctx context.Context, engine string, n int) (perSecond, cpu float64, err error) {
	s, err := b.open(ctx, engine)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	crew := make([]*executor, executors)
	for i := range crew {
		if crew[i], err = s.execute(ctx); err != nil {
			return 0, 0, err
		}
		defer crew[i].close()
	}
	before := s.cpu()
	posts, err := rate(ctx, executors, b.span(), func(worker, round int) error {
		return crew[worker].append(body(fmt.Sprint(round), n, payloadLen))
	})
	events := posts * float64(n)
	return events, (s.cpu() - before) / (events * b.span().Seconds()) * 1e6, err
}

// measureAppends compares one event per post with the bare lane, and on PostgreSQL with pgbench.
func measureAppends(ctx context.Context, b *bench, engine string) ([]Figure, error) {
	perSecond, cpu, err := b.appendRate(ctx, engine, 1)
	if err != nil {
		return nil, err
	}
	f := Figure{
		Scenario: "append", Engine: engine, Unit: "events/s", Value: perSecond, CPU: cpu,
		Load: "64 executors in 64 sessions, one event of 300 bytes per post, acknowledged when durable",
	}
	if engine == postgres {
		base, err := b.pgbench(ctx)
		f = f.against("pgbench, 64 clients, the same statements", base)
		return []Figure{f.goal("≥ 0.5", f.Ratio >= 0.5)}, err
	}
	base, err := b.bareLane(ctx, 1)
	f = f.against("the lane alone, 64 writers in one process, no HTTP", base)
	return []Figure{f.goal("≥ 0.5", f.Ratio >= 0.5)}, err
}

// measureBatches compares batches with one prepared multi-row insert per commit.
func measureBatches(ctx context.Context, b *bench, engine string) ([]Figure, error) {
	perSecond, cpu, err := b.appendRate(ctx, engine, batchSize)
	if err != nil {
		return nil, err
	}
	base, err := b.bareInsert(ctx, engine)
	f := Figure{
		Scenario: "append-batch", Engine: engine, Unit: "events/s", Value: perSecond, CPU: cpu,
		Load: "64 executors in 64 sessions, 20 events of 300 bytes per post",
	}.against("one connection that inserts 20 rows per commit by one prepared statement", base)
	return []Figure{f.goal("≥ 0.4", f.Ratio >= 0.4)}, err
}

// scratch opens a fresh database in this process.
func (b *bench) scratch(ctx context.Context, engine string) (storage.DB, error) {
	url := b.Postgres
	if engine == sqlite {
		url = "sqlite:" + filepath.Join(b.dir, b.env.RandomID()+".db")
	}
	return storage.Open(ctx, storage.Options{URL: url})
}

// domain opens the domain in this process with n sessions, each executed by a device of its own.
func (b *bench) domain(ctx context.Context, db storage.DB, n int) (*session.Service, []session.Caller, []string, error) {
	service := session.New(db, signal.NewLocal(), b.env, nil)
	callers, refs := make([]session.Caller, n), make([]string, n)
	user := b.env.RandomID()
	err := db.Write(ctx, nil, func(tx storage.Tx) error {
		return tx.Exec(`INSERT INTO users (id, name, created_at) VALUES ($1, $1, $2)`, user, tx.Now())
	})
	if err != nil {
		return nil, nil, nil, err
	}
	for i := range n {
		callers[i] = session.Caller{UserID: user, DeviceID: b.env.RandomID()}
		err := db.Write(ctx, nil, func(tx storage.Tx) error {
			return tx.Exec(`INSERT INTO devices (id, user_id, name, platform, capabilities, last_seen_at, created_at)
				VALUES ($1, $2, 'bench', 'agent', '[]', $3, $3)`, callers[i].DeviceID, user, tx.Now())
		})
		if err != nil {
			return nil, nil, nil, err
		}
		made, _, err := service.Create(ctx, callers[i], session.NewSession{})
		if err != nil {
			return nil, nil, nil, err
		}
		if _, err := service.ClaimLease(ctx, callers[i], made.ID, callers[i].DeviceID, false); err != nil {
			return nil, nil, nil, err
		}
		refs[i] = made.ID
	}
	return service, callers, refs, nil
}

// incoming is n events as the surface hands them to the domain.
func incoming(prefix string, n int) session.Batch {
	batch := session.Batch{Events: make([]wire.IncomingEvent, n)}
	for i := range batch.Events {
		id := fmt.Sprintf("%s-%d", prefix, i)
		batch.Events[i] = wire.IncomingEvent{Kind: "assistant", ClientEventID: &id, Payload: payload(payloadLen)}
	}
	return batch
}

// bareLane is the rate of the domain's appends without HTTP.
func (b *bench) bareLane(ctx context.Context, n int) (perSecond float64, err error) {
	db, err := b.scratch(ctx, sqlite)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	service, callers, refs, err := b.domain(ctx, db, executors)
	if err != nil {
		return 0, err
	}
	posts, err := rate(ctx, executors, b.span(), func(worker, round int) error {
		_, err := service.Append(ctx, callers[worker], refs[worker], incoming(fmt.Sprint(round), n))
		return err
	})
	return posts * float64(n), err
}

// bareInsert is the rate of one prepared insert of 20 rows per commit.
func (b *bench) bareInsert(ctx context.Context, engine string) (perSecond float64, err error) {
	db, err := b.scratch(ctx, engine)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	id := b.env.RandomID()
	inserts, err := rate(ctx, 1, b.span(), func(_, round int) error {
		return db.Write(ctx, nil, func(tx storage.Tx) error {
			rows := make([][]any, batchSize)
			for i := range rows {
				seq := int64(round*batchSize + i + 1)
				rows[i] = []any{id, seq, "assistant", seq, id, nil, fmt.Sprint(seq), payload(payloadLen), false, int64(0), tx.Now()}
			}
			return tx.Insert(session.EventsTable, rows)
		})
	})
	return inserts * batchSize, err
}
