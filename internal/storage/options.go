package storage

import (
	"context"
	"log/slog"
	"time"

	"github.com/cairnsync/cairn/internal/env"
)

// Options say what to open and how.
type Options struct {
	// URL is "sqlite:path/to/file" or "postgres://…".
	URL string
	// Env defaults to env.Real().
	Env *env.Env
	// Log defaults to discarding.
	Log *slog.Logger
	// Migrate says what to do with a schema older than this program.
	Migrate MigrateMode
	// Server claims a SQLite file for this process: a second server on it is refused.
	Server bool
	// Restored refuses a SQLite file with commits of before beside it, in a -wal file, with LeftLog: whether they belong to
	// the file, or to the one that a backup took the place of and would be damaged by, cannot be told.
	Restored bool
	// Lanes is the number of writing connections on PostgreSQL; 0 is DefaultLanes.
	Lanes int
	// Readers bounds the concurrent Reads, each with a connection of its own; 0 is DefaultReaders.
	Readers int
	// Observer is told of what the lanes do; nil is nobody.
	Observer *Observer
}

// MigrateMode says what Open does with a schema that is older than this program.
type MigrateMode int

const (
	// MigrateUp brings the schema up to date, also of an empty database.
	MigrateUp MigrateMode = iota
	// MigrateRefuse refuses to open, with OldSchema, or MissingFile where there is no SQLite file; it makes none.
	MigrateRefuse
)

// Defaults of Options.
const (
	DefaultLanes   = 2
	DefaultReaders = 8
)

// Observer is told what happens. Its functions are called by the lanes in line and must not block;
// each may be nil.
type Observer struct {
	// BatchCommitted follows every commit: how many writes it held, how long the first of them waited
	// for its turn, and how long the transaction took from its begin to its commit.
	BatchCommitted func(size int, waited, took time.Duration)
}

func (o *Observer) batchCommitted(size int, waited, took time.Duration) {
	if o != nil && o.BatchCommitted != nil {
		o.BatchCommitted(size, waited, took)
	}
}

func (o Options) withDefaults() Options {
	if o.Env == nil {
		o.Env = env.Real()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Lanes <= 0 {
		o.Lanes = DefaultLanes
	}
	if o.Readers <= 0 {
		o.Readers = DefaultReaders
	}
	return o
}

// Open opens a database. It answers a *Refusal that says what to do when the database cannot be used:
// unreachable, not ours, of another version, read-only, or served by another process.
func Open(ctx context.Context, options Options) (DB, error) {
	options = options.withDefaults()
	target, err := parseURL(options.URL)
	if err != nil {
		return nil, err
	}
	engine, err := target.open(ctx, options)
	if err != nil {
		return nil, err
	}
	return newDatabase(engine, options), nil
}

// EngineName is "sqlite" or "postgres".
func EngineName(db DB) string {
	opened, ok := db.(*database)
	if !ok {
		return ""
	}
	return opened.engine.name()
}

// Ping reports whether db answers a query, for readiness.
func Ping(ctx context.Context, db DB) error {
	return db.Read(ctx, func(tx Tx) error {
		var one int64
		_, err := tx.Get("SELECT 1", nil, &one)
		return err
	})
}
