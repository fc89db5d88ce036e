package storage

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// postgresLink is the connection of a lane.
type postgresLink struct {
	postgresSession
	lane string
}

// stampLane writes the batch into the lane's row, which stays locked until the transaction ends:
// whoever asks on a new connection waits for that.
const stampLane = `INSERT INTO lanes (id, batch, used_at) VALUES ($1, $2, ` + clockMicros + `)
	ON CONFLICT (id) DO UPDATE SET batch = excluded.batch, used_at = excluded.used_at`

// askLane waits for transactions on the lane's row, of which one may be inserting it, and answers the last batch.
const askLane = `INSERT INTO lanes (id, batch, used_at) VALUES ($1, '', ` + clockMicros + `)
	ON CONFLICT (id) DO UPDATE SET used_at = excluded.used_at RETURNING batch`

const clockMicros = `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`

const readClock = `SELECT ` + clockMicros

func (l *postgresLink) begin(ctx context.Context, batch string, steps []lockStep, ahead []prefetch) (time.Time, []readAhead, error) {
	l.forget()
	l.enqueue("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
	l.enqueue(stampLane, l.lane, batch)
	for _, step := range steps {
		l.enqueue(step.query, step.ids)
	}
	l.enqueue(readClock)
	if len(ahead) == 0 {
		now, err := l.flushForClock(ctx)
		return now, nil, err
	}
	return l.flushAhead(ctx, ahead)
}

// flushAhead sends everything, of which the last is readClock, with the queries behind it.
func (l *postgresLink) flushAhead(ctx context.Context, ahead []prefetch) (now time.Time, reads []readAhead, err error) {
	for _, p := range ahead {
		l.enqueue(p.stmt.text, p.args...)
	}
	results, count, err := l.send(ctx)
	if err != nil {
		return now, nil, err
	}
	defer func() { err = l.closed(results.Close(), err) }()
	for range count - len(ahead) - 1 {
		if _, err := results.Exec(); err != nil {
			return now, nil, err
		}
	}
	var micros int64
	if err := results.QueryRow().Scan(&micros); err != nil {
		return now, nil, err
	}
	reads = make([]readAhead, len(ahead))
	for i, p := range ahead {
		reads[i].prefetch = p
		if reads[i].rows, err = l.keepRows(results); err != nil {
			return now, nil, err
		}
	}
	return timeOf(micros), reads, nil
}

// keepRows answers the rows of the next result; they stay valid.
func (s *postgresSession) keepRows(results pgx.BatchResults) ([]Row, error) {
	rows, err := results.Query()
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var kept []Row
	var fields []pgconn.FieldDescription
	for rows.Next() {
		if fields == nil {
			fields = slices.Clone(rows.FieldDescriptions())
		}
		raw := slices.Clone(rows.RawValues())
		for i := range raw {
			raw[i] = bytes.Clone(raw[i]) // nil stays nil: NULL
		}
		kept = append(kept, postgresRow{raw: raw, fields: fields, types: s.conn.TypeMap()})
	}
	return kept, rows.Err()
}

func (l *postgresLink) next(together bool) {
	if !together {
		l.joinFrom = len(l.pending)
	}
}

// flushForClock sends everything, of which the last is readClock.
func (s *postgresSession) flushForClock(ctx context.Context) (time.Time, error) {
	var micros int64
	err := s.flushForRows(ctx, func(row Row) error { return row.Scan(&micros) })
	return timeOf(micros), err
}

// commit sends what waits and COMMIT in one round trip. An aborted transaction answers ROLLBACK
// without an error, so the tag decides.
func (l *postgresLink) commit(ctx context.Context) (bool, error) {
	l.enqueue("COMMIT")
	tag, err := l.flushForTag(ctx)
	if err == nil && tag.String() != "COMMIT" {
		err = fmt.Errorf("the server answered %s to COMMIT", tag)
	}
	return true, err
}

func (l *postgresLink) rollback(ctx context.Context) error {
	l.forget()
	if l.conn.IsClosed() || l.conn.PgConn().TxStatus() == 'I' {
		return nil
	}
	return l.conn.PgConn().Exec(ctx, "ROLLBACK").Close()
}

func (l *postgresLink) committed(ctx context.Context, batch string) (bool, error) {
	var last string
	if err := l.conn.QueryRow(ctx, askLane, l.lane).Scan(&last); err != nil {
		return false, fmt.Errorf("ask lane for its last batch: %w", err)
	}
	return last == batch, nil
}

func (l *postgresLink) usable() bool {
	return !l.conn.IsClosed() && l.conn.PgConn().TxStatus() == 'I'
}

func (l *postgresLink) afterBatch() {}

// closeTimeout bounds the farewell of a connection.
const closeTimeout = time.Second

func (l *postgresLink) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = l.conn.Close(ctx) // it is given up whatever the server says
}

// answerTimeout bounds what a Read waits for a connection, and for the answer to one statement: behind a network that
// swallows everything nobody says that the connection is lost.
const answerTimeout = 10 * time.Second

// snapshot is the session of a Read: it begins with its first statement, and not at all without one.
type snapshot struct {
	postgresSession
	ctx   context.Context
	began bool
	now   time.Time
}

// beginSnapshot also reads the clock, so that a Read has one timestamp.
func (s *snapshot) begin(ctx context.Context) error {
	if s.began {
		return nil
	}
	s.began = true
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	s.enqueue("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	s.enqueue(readClock)
	now, err := s.flushForClock(ctx)
	s.now = now
	return err
}

func (s *snapshot) clock() (time.Time, error) {
	err := s.begin(s.ctx)
	return s.now, err
}

func (s *snapshot) query(ctx context.Context, stmt statement, args []any, each func(Row) error) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if s.began {
		return s.postgresSession.query(ctx, stmt, args, each)
	}
	return s.firstQuery(ctx, stmt, args, each)
}

// firstQuery sends BEGIN, the clock and the query in one round trip.
func (s *snapshot) firstQuery(ctx context.Context, stmt statement, args []any, each func(Row) error) (err error) {
	s.began = true
	batch := &pgx.Batch{}
	batch.Queue("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	batch.Queue(readClock)
	batch.Queue(stmt.text, args...)
	results := s.conn.SendBatch(ctx, batch)
	defer func() { err = s.closed(results.Close(), err) }()
	if _, err := results.Exec(); err != nil {
		return err
	}
	var micros int64
	if err := results.QueryRow().Scan(&micros); err != nil {
		return err
	}
	s.now = timeOf(micros)
	return s.eachRow(results, each)
}

// end gives the snapshot back. When that fails the pool closes the connection.
func (s *snapshot) end() {
	if !s.began || s.conn.IsClosed() || s.conn.PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), closeTimeout)
	defer cancel()
	_ = s.conn.PgConn().Exec(ctx, "ROLLBACK").Close()
}
