// Package testkit gives tests fresh, migrated databases on both engines.
//
// Each test gets a database of its own, closed and removed by its cleanup, so that all tests run in
// parallel. PostgreSQL is the server named by CAIRN_TEST_POSTGRES (a superuser's URL), or a private
// cluster of the test process that ends with it. Without PostgreSQL tests fail; none is skipped.
// The functions are safe for concurrent use.
package testkit

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit/postgres"
)

// The engines.
const (
	SQLite   = "sqlite"
	Postgres = "postgres"
)

// Engines lists both engines.
func Engines() []string { return []string{SQLite, Postgres} }

// Database is a fresh database with the current schema.
type Database struct {
	Engine string
	// URL opens the database from other processes too.
	URL string
	// DB is open until the test's cleanup.
	DB storage.DB
}

// Each runs body as the parallel subtests "sqlite" and "postgres", each on a fresh database.
func Each(t *testing.T, body func(t *testing.T, db *Database)) {
	t.Helper()
	for _, engine := range Engines() {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			body(t, New(t, engine))
		})
	}
}

// New makes a fresh database and opens it.
func New(t testing.TB, engine string) *Database {
	t.Helper()
	url := NewURL(t, engine)
	return &Database{Engine: engine, URL: url, DB: Open(t, storage.Options{URL: url, Migrate: storage.MigrateRefuse})}
}

// openPatience is how long a server is waited for that other tests keep busy.
const openPatience = time.Minute

// Open opens a database until the test's cleanup.
func Open(t testing.TB, options storage.Options) storage.DB {
	t.Helper()
	var db storage.DB
	for began := time.Now(); ; {
		var err error
		if db, err = storage.Open(t.Context(), options); err == nil {
			break
		}
		if time.Since(began) > openPatience || !errors.Is(err, context.DeadlineExceeded) {
			require.NoError(t, err)
		}
	}
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// NewURL makes a fresh, migrated database and answers its URL, without opening it.
func NewURL(t testing.TB, engine string) string {
	t.Helper()
	if engine == SQLite {
		return newSQLite(t)
	}
	return newPostgres(t)
}

// EmptyURL answers the URL of a database without any schema.
func EmptyURL(t testing.TB, engine string) string {
	t.Helper()
	if engine == SQLite {
		return emptySQLite(t)
	}
	return emptyPostgres(t)
}

// Env is the real clock and randomness.
func Env() *env.Env { return env.Real() }

// Server is a PostgreSQL cluster that a test owns: it may kill and restart it.
type Server = postgres.Cluster

// ServerOptions are its properties.
type ServerOptions = postgres.Options

// StartPostgres starts a cluster of the test's own in dir, or in a temporary folder when dir is
// empty. The caller stops it; it also ends with the process.
func StartPostgres(dir string, options ServerOptions) (*Server, error) {
	return postgres.Start(dir, options)
}
