package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// maxPending bounds the statements that wait for the next one that needs an answer.
const maxPending = 200

// postgresSession sends statements whose results nobody needs together with the next one whose result
// is needed, in one pipelined batch: one round trip.
type postgresSession struct {
	conn    *pgx.Conn
	pending []queued
	// joinFrom is the first of pending that rows of other writes may join.
	joinFrom int
}

// queued is a statement that waits: a text with its arguments, or rows for a table.
type queued struct {
	text string
	args []any
	into Table
	rows [][]any
}

func (s *postgresSession) enqueue(text string, args ...any) {
	s.pending = append(s.pending, queued{text: text, args: args})
}

func (s *postgresSession) exec(ctx context.Context, stmt statement, args []any) error {
	return s.later(ctx, stmt.text, args)
}

// later queues a statement; a full queue is sent.
func (s *postgresSession) later(ctx context.Context, text string, args []any) error {
	s.enqueue(text, args...)
	if len(s.pending) < maxPending {
		return nil
	}
	return s.flush(ctx)
}

func (s *postgresSession) changed(ctx context.Context, stmt statement, args []any) (int64, error) {
	s.enqueue(stmt.text, args...)
	tag, err := s.flushForTag(ctx)
	return tag.RowsAffected(), err
}

func (s *postgresSession) flush(ctx context.Context) error {
	_, err := s.flushForTag(ctx)
	return err
}

// flushForTag sends everything and answers the last statement's tag.
func (s *postgresSession) flushForTag(ctx context.Context) (tag pgconn.CommandTag, err error) {
	if len(s.pending) == 0 {
		return tag, nil
	}
	results, count, err := s.send(ctx)
	if err != nil {
		return tag, err
	}
	defer func() { err = s.closed(results.Close(), err) }()
	for range count {
		if tag, err = results.Exec(); err != nil {
			return tag, err
		}
	}
	return tag, nil
}

// query sends everything and hands over the rows of the last statement.
func (s *postgresSession) query(ctx context.Context, stmt statement, args []any, each func(Row) error) error {
	s.enqueue(stmt.text, args...)
	return s.flushForRows(ctx, each)
}

func (s *postgresSession) flushForRows(ctx context.Context, each func(Row) error) (err error) {
	results, count, err := s.send(ctx)
	if err != nil {
		return err
	}
	defer func() { err = s.closed(results.Close(), err) }()
	for range count - 1 {
		if _, err := results.Exec(); err != nil {
			return err
		}
	}
	return s.eachRow(results, each)
}

// eachRow reads the rows of the next result.
func (s *postgresSession) eachRow(results pgx.BatchResults, each func(Row) error) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	row := postgresRow{fields: rows.FieldDescriptions(), types: s.conn.TypeMap()}
	for rows.Next() {
		row.raw = rows.RawValues()
		if err := each(row); err != nil {
			return err
		}
	}
	return rows.Err()
}

// send puts everything that waits on the wire.
func (s *postgresSession) send(ctx context.Context) (pgx.BatchResults, int, error) {
	batch := &pgx.Batch{}
	for i := range s.pending {
		text, args, err := s.pending[i].statement()
		if err != nil {
			return nil, 0, err
		}
		batch.Queue(text, args...)
	}
	count := len(s.pending)
	s.forget()
	return s.conn.SendBatch(ctx, batch), count, nil
}

// forget empties the queue.
func (s *postgresSession) forget() {
	clear(s.pending)
	s.pending, s.joinFrom = s.pending[:0], 0
}

// closed combines the error of a pipeline with that of its end, and marks a lost connection.
func (s *postgresSession) closed(ending, err error) error {
	if err == nil || ending != nil && errors.Is(err, errFirstRow) {
		err = ending // the rows after the first may have failed
	}
	if err == nil || !s.conn.IsClosed() {
		return err
	}
	return fmt.Errorf("%w: %w", errLostConnection, err)
}

// insertChunk bounds the rows of one statement.
const insertChunk = 2000

// insert appends rows; those for a table apart join the ones that wait.
func (s *postgresSession) insert(ctx context.Context, into Table, rows [][]any) error {
	if into.Apart {
		for i := s.joinFrom; i < len(s.pending); i++ {
			if waiting := &s.pending[i]; waiting.into.Name == into.Name && len(waiting.rows)+len(rows) <= insertChunk {
				waiting.rows = append(waiting.rows, rows...)
				return nil
			}
		}
	}
	for chunk := range slices.Chunk(rows, insertChunk) {
		s.pending = append(s.pending, queued{into: into, rows: slices.Clip(chunk)})
		if len(s.pending) >= maxPending {
			if err := s.flush(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// statement is what is sent: one row by its values, many by one array per column.
func (q *queued) statement() (string, []any, error) {
	if q.into.Name == "" {
		return q.text, q.args, nil
	}
	if len(q.rows) == 1 {
		return insertOne(q.into), q.rows[0], nil
	}
	args, err := arrays(q.into, q.rows)
	return insertMany(q.into), args, err
}

func insertOne(into Table) string {
	return insertHead(into) + " VALUES (" + joined(into, func(i int, _ Column) string { return fmt.Sprintf("$%d", i+1) }) + ")"
}

func insertMany(into Table) string {
	return insertHead(into) + " SELECT * FROM unnest(" +
		joined(into, func(i int, c Column) string { return fmt.Sprintf("$%d::%s[]", i+1, c.Type) }) + ")"
}

func insertHead(into Table) string {
	return "INSERT INTO " + into.Name + " (" + joined(into, func(_ int, c Column) string { return c.Name }) + ")"
}

func joined(into Table, part func(int, Column) string) string {
	parts := make([]string, len(into.Columns))
	for i, column := range into.Columns {
		parts[i] = part(i, column)
	}
	return strings.Join(parts, ", ")
}

// arrays turns rows into one array per column.
func arrays(into Table, rows [][]any) ([]any, error) {
	columns := make([]any, len(into.Columns))
	for i, column := range into.Columns {
		var err error
		switch column.Type {
		case Text:
			columns[i], err = array[string](rows, i)
		case Bigint:
			columns[i], err = array[int64](rows, i)
		case Boolean:
			columns[i], err = array[bool](rows, i)
		default:
			err = fmt.Errorf("type %q is not portable", column.Type)
		}
		if err != nil {
			return nil, fmt.Errorf("insert into %s (%s): %w", into.Name, column.Name, err)
		}
	}
	return columns, nil
}

func array[T any](rows [][]any, column int) ([]*T, error) {
	values := make([]*T, len(rows))
	for i, row := range rows {
		if row[column] == nil {
			continue
		}
		value, ok := row[column].(T)
		if !ok {
			return nil, fmt.Errorf("row %d holds a %T", i, row[column])
		}
		values[i] = &value
	}
	return values, nil
}
