package storage_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
)

// writers is the concurrency of the benchmarks.
const writers = 64

var (
	benchSessionLock = &storage.Lock{Rank: 10, Query: "SELECT id FROM sessions WHERE id = ANY($1) ORDER BY id FOR UPDATE"}
	benchEvents      = storage.Table{Name: "session_events", Columns: []storage.Column{
		{"session_id", storage.Text}, {"seq", storage.Bigint}, {"kind", storage.Text}, {"ts", storage.Bigint},
		{"sender_device_id", storage.Text}, {"client_event_id", storage.Text}, {"payload", storage.Text},
		{"by_server", storage.Boolean}, {"access_version", storage.Bigint}, {"committed_at", storage.Bigint},
	}}
	benchPayload = `{"text":"` + strings.Repeat("x", 500) + `"}`
)

// BenchmarkWrite appends one event of 500 bytes per write: read the session, insert, update; 64
// writers over 16 sessions, durable commits (fsync on).
func BenchmarkWrite(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) {
		benchmarkAppend(b, testkit.Open(b, storage.Options{URL: testkit.NewURL(b, testkit.SQLite)}))
	})
	for _, lanes := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("postgres/lanes=%d", lanes), func(b *testing.B) {
			server, err := testkit.StartPostgres("", testkit.ServerOptions{Fsync: true})
			require.NoError(b, err)
			b.Cleanup(func() { require.NoError(b, server.Stop()) })
			benchmarkAppend(b, testkit.Open(b, storage.Options{URL: server.URL(""), Lanes: lanes}))
		})
	}
}

func benchmarkAppend(b *testing.B, db storage.DB) {
	sessions := benchSessions(b, db, 16)
	var next atomic.Int64
	b.SetParallelism(writers / 2) // goroutines per CPU; the machine has 2
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		session := sessions[int(next.Add(1))%len(sessions)]
		keys := []storage.Key{{Lock: benchSessionLock, ID: session}}
		for pb.Next() {
			if err := db.Write(b.Context(), keys, appendOne(session)); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
}

func appendOne(session string) func(storage.Tx) error {
	return func(tx storage.Tx) error {
		var last, access int64
		var lease *string
		found, err := tx.Get("SELECT last_seq, access_version, lease_device_id FROM sessions WHERE id = $1", []any{session}, &last, &access, &lease)
		if err != nil || !found {
			return err
		}
		row := []any{session, last + 1, "text", tx.Now(), "device", nil, benchPayload, false, access, tx.Now()}
		if err := tx.Insert(benchEvents, [][]any{row}); err != nil {
			return err
		}
		return tx.Exec("UPDATE sessions SET last_seq = $2, last_event_at = $3 WHERE id = $1", session, last+1, tx.Now())
	}
}

func benchSessions(b *testing.B, db storage.DB, n int) []string {
	ids := make([]string, n)
	require.NoError(b, db.Write(b.Context(), nil, func(tx storage.Tx) error {
		if err := tx.Exec("INSERT INTO users (id, name, created_at) VALUES ('u', 'u', 0)"); err != nil {
			return err
		}
		for i := range ids {
			ids[i] = fmt.Sprintf("session-%d", i)
			err := tx.Exec(`INSERT INTO sessions (id, owner_user_id, session_key, e2e, archived, created_at, last_event_at, last_seq,
				lease_revision, control_revision, access_version) VALUES ($1, 'u', $1, FALSE, FALSE, 0, 0, 0, 0, 0, 0)`, ids[i])
			if err != nil {
				return err
			}
		}
		return nil
	}))
	return ids
}
