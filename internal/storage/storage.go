// Package storage is the database under every domain: SQLite in one file, or PostgreSQL.
//
// Contract. A domain keeps its SQL beside its logic, once, in a portable dialect: $1 placeholders,
// INSERT … ON CONFLICT, RETURNING, CTEs, text for ids and JSON, bigint microseconds for time,
// boolean for truth. `= ANY($n)` takes a []string or []int64. `FOR UPDATE` is understood on both
// engines. Nobody outside this package knows which engine runs.
//
// Order. Writers do not commit alone: a lane takes all waiting write functions, at most MaxBatch,
// and runs them one after another in one transaction. On SQLite there is one lane; on PostgreSQL a
// few per node, chosen by the first key of a write. Write answers only after COMMIT said COMMIT.
//
// Repetition. A write function may run more than once (a batch that failed is rerun singly, a lost
// connection is retried), so it must have no effect outside its Tx; effects go to Tx.AfterCommit.
// A function that fails before it wrote anything costs nothing; one that fails after it wrote makes
// the whole batch roll back and rerun without it. Authorise and decide first, then write.
//
// Blocking and concurrency. DB is safe for concurrent use. A Tx belongs to the function it was given
// to and must not be used after it returned, nor by two goroutines. Readers never wait for writers.
// A Write inside a write function may wait for itself forever; a Read inside one sees the last commit.
// The schema is changed by migrations only: statements are prepared ahead, several at a time.
package storage

import (
	"context"
	"time"
)

// MaxBatch is the largest number of write functions in one transaction.
const MaxBatch = 60

// DB is an open database.
type DB interface {
	// Read runs fn in a read-only snapshot. fn may run more than once (lost connection).
	Read(ctx context.Context, fn func(Tx) error) error
	// Write runs fn in a read-write transaction, together with other waiting writes, after the rows
	// named by keys were locked. It answers once fn's writes are durable, or fn's error. When ctx ends
	// first it answers ctx's error and the outcome is unknown to the caller; the lane goes on. What fn reads
	// first may be said ahead (Prefetch).
	Write(ctx context.Context, keys []Key, fn func(Tx) error, ahead ...Prefetch) error
	// Close waits for running transactions and closes every connection.
	Close() error
}

// Tx is a transaction.
type Tx interface {
	// Now is the transaction's one timestamp: the database's clock, read after the keys were locked
	// (SS-LEASE-2), in UTC with microseconds. On SQLite it never steps back within a process.
	Now() time.Time
	// Exec runs a statement whose result is not needed. PostgreSQL may send it together with the next
	// statement or the commit; its error then surfaces there and fails this function's transaction.
	Exec(query string, args ...any) error
	// Changed runs a statement and answers how many rows it changed.
	Changed(query string, args ...any) (int64, error)
	// Query calls each for every row. The Row is valid during the call only.
	Query(query string, args []any, each func(Row) error) error
	// Get reads the first row into dest and answers whether there was one.
	Get(query string, args []any, dest ...any) (bool, error)
	// Insert appends many rows to a table in as few steps as the engine allows. Like Exec it may be
	// sent later. Rows hold one value per column, of the column's type or nil.
	Insert(into Table, rows [][]any) error
	// AfterCommit registers an effect to run once, in order, after the commit and before Write
	// answers. It must not block and must not use the Tx.
	AfterCommit(effect func())
	// Finally hands items to step, which runs once for all functions of the transaction after the last of
	// them. Items keep the order in which they came; those of a function that failed are dropped.
	Finally(step *LastStep, items ...any) error
}

// Prefetch is a query that a write function begins with, before it writes. PostgreSQL runs those of a whole batch
// in one round trip with the locks; the function asks its Tx for the same query with the same arguments and is
// given the rows. Only a write that changes nothing but rows it has locked, and rows it inserts, may have one:
// then what it read is current unless an earlier write of its batch shares a key or a claim with it, or has no
// prefetch. In that case, and on SQLite, the query runs when it is asked for.
type Prefetch struct {
	Query string
	Args  []any
	// Claim names a row that the query looks for and the write inserts if there is none; empty where it looks for
	// none. Of two writes with the same claim the second must see what the first has inserted.
	Claim string
}

// LastStep is what a transaction does last, once for everything its functions handed to it: taking
// numbers from a counter that serialises all writers (ES-3.2), so that the counter is locked as briefly as
// possible. Steps run in ascending Rank, the same in every lane and node. Make one as a package variable or once per service.
type LastStep struct {
	Rank int
	// Run writes what the items ask for. It must not fail but for the engine: an error fails everybody's
	// function. What it registers with AfterCommit follows what the functions registered.
	Run func(tx Tx, items []any) error
}

// Row is the current row of a query. Scan converts into *string, **string, *int64, **int64, *int,
// *bool, *[]byte, *float64, *time.Time and **time.Time (bigint microseconds).
type Row interface {
	Scan(dest ...any) error
}

// Arguments of statements may be string, *string, []byte (as text), int, int64, *int64, bool, float64, time.Time
// and *time.Time (as bigint microseconds), nil, and for `= ANY($n)` []string and []int64. Named
// string types are accepted wherever string is.

// Table names a target of Tx.Insert. Make it once, as a package variable.
type Table struct {
	Name    string
	Columns []Column
	// Apart says that no statement of a write but a query refers to rows that the write, or another one of its
	// batch, has just inserted: PostgreSQL then inserts those of many writes together.
	Apart bool
}

// Column is a column of a Table.
type Column struct {
	Name string
	Type Type
}

// Type is the SQL type of a column.
type Type string

// The portable column types.
const (
	Text    Type = "text"
	Bigint  Type = "bigint"
	Boolean Type = "boolean"
)

// Lock is a class of rows that writes lock by key. Classes are locked in ascending Rank, ids within
// a class in ascending order, so that batches of different lanes and nodes cannot deadlock.
type Lock struct {
	Rank int
	// Query locks the rows whose ids are in $1, for example
	// SELECT id FROM sessions WHERE id = ANY($1) ORDER BY id FOR UPDATE. SQLite needs no row locks and
	// never runs it.
	Query string
	// Shared says that holders of the lock do not exclude each other: they do not change the row.
	Shared bool
	// Alone keeps a write with a key of this class out of every batch: it has a transaction of its own.
	Alone bool
}

// Key names one row to lock before a write runs. A row that does not exist is no error.
type Key struct {
	Lock *Lock
	ID   string
}

// Write runs fn like DB.Write and answers its value.
func Write[T any](ctx context.Context, db DB, keys []Key, fn func(Tx) (T, error), ahead ...Prefetch) (T, error) {
	return valued(fn, func(plain func(Tx) error) error { return db.Write(ctx, keys, plain, ahead...) })
}

// Read runs fn like DB.Read and answers its value.
func Read[T any](ctx context.Context, db DB, fn func(Tx) (T, error)) (T, error) {
	return valued(fn, func(plain func(Tx) error) error { return db.Read(ctx, plain) })
}

// valued carries the value of fn out of run, unless run failed: a write that did not commit has none.
func valued[T any](fn func(Tx) (T, error), run func(plain func(Tx) error) error) (T, error) {
	var out T
	err := run(func(tx Tx) error {
		value, err := fn(tx)
		out = value
		return err
	})
	if err != nil {
		var zero T
		return zero, err
	}
	return out, nil
}
