package storage_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
)

// counters is a table of the tests; its rows are locked by key.
var (
	counters    = storage.Table{Name: "counters", Columns: []storage.Column{{"id", storage.Text}, {"n", storage.Bigint}}}
	counterLock = &storage.Lock{Rank: 1, Query: "SELECT id FROM counters WHERE id = ANY($1) ORDER BY id FOR UPDATE"}
)

func counterKey(id string) []storage.Key { return []storage.Key{{Lock: counterLock, ID: id}} }

const makeCounters = "CREATE TABLE counters (id text PRIMARY KEY, n bigint NOT NULL)"

// withCounters makes the table and the named counters, at 0.
func withCounters(t testing.TB, db storage.DB, ids ...string) {
	t.Helper()
	rows := make([][]any, len(ids))
	for i, id := range ids {
		rows[i] = []any{id, 0}
	}
	require.NoError(t, db.Write(t.Context(), nil, func(tx storage.Tx) error {
		if _, err := tx.Changed(makeCounters); err != nil {
			return err
		}
		return tx.Insert(counters, rows)
	}))
}

func increment(tx storage.Tx, id string) error {
	return tx.Exec("UPDATE counters SET n = n + 1 WHERE id = $1", id)
}

func count(t testing.TB, db storage.DB, id string) int64 {
	t.Helper()
	n, err := storage.Read(t.Context(), db, func(tx storage.Tx) (int64, error) {
		var n int64
		_, err := tx.Get("SELECT n FROM counters WHERE id = $1", []any{id}, &n)
		return n, err
	})
	require.NoError(t, err)
	return n
}

// eachEngine runs body on fresh databases opened with options.
func eachEngine(t *testing.T, options storage.Options, body func(t *testing.T, db storage.DB)) {
	t.Helper()
	for _, engine := range testkit.Engines() {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			options := options
			options.URL = testkit.NewURL(t, engine)
			body(t, testkit.Open(t, options))
		})
	}
}
