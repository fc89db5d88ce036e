package storage_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
)

// ledger writes uniquely named entries and remembers which were acknowledged. Its table takes an
// entry twice, so that a write applied twice shows.
type ledger struct {
	db           storage.DB
	acknowledged sync.Map // name → true
	count        atomic.Int64
}

const makeLedger = "CREATE TABLE ledger (name text NOT NULL)"

func newLedger(t *testing.T, db storage.DB) *ledger {
	withCounters(t, db, "total")
	require.NoError(t, db.Write(t.Context(), nil, func(tx storage.Tx) error {
		_, err := tx.Changed(makeLedger)
		return err
	}))
	return &ledger{db: db}
}

// append writes one entry; an error leaves open whether it is there.
func (l *ledger) append(ctx context.Context, name string) error {
	err := l.db.Write(ctx, counterKey("total"), func(tx storage.Tx) error {
		if err := tx.Exec("INSERT INTO ledger (name) VALUES ($1)", name); err != nil {
			return err
		}
		return increment(tx, "total")
	})
	if err == nil {
		l.acknowledged.Store(name, true)
		l.count.Add(1)
	}
	return err
}

// check compares the table with what was acknowledged.
func (l *ledger) check(t *testing.T) {
	t.Helper()
	stored := map[string]int{}
	require.NoError(t, l.db.Read(t.Context(), func(tx storage.Tx) error {
		clear(stored)
		return tx.Query("SELECT name, count(*) FROM ledger GROUP BY name", nil, func(row storage.Row) error {
			var name string
			var times int
			defer func() { stored[name] = times }()
			return row.Scan(&name, &times)
		})
	}))
	for name, times := range stored {
		require.Equal(t, 1, times, "%s was applied more than once", name)
	}
	l.acknowledged.Range(func(name, _ any) bool {
		require.Contains(t, stored, name, "an acknowledged write was lost")
		return true
	})
	require.EqualValues(t, len(stored), count(t, l.db, "total"))
}

// appendUntil keeps several writers appending until stop is closed.
func (l *ledger) appendUntil(t *testing.T, stop <-chan struct{}, tolerate bool) *sync.WaitGroup {
	var group sync.WaitGroup
	for writer := range 8 {
		group.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				err := l.append(t.Context(), fmt.Sprintf("%d-%d", writer, i))
				if err != nil && !(tolerate && fault.Is(err, code.Unavailable)) {
					t.Error(err)
					return
				}
			}
		})
	}
	return &group
}

// awaitMore waits until more writes than now were acknowledged.
func (l *ledger) awaitMore(t *testing.T, more int64) {
	t.Helper()
	goal := l.count.Load() + more
	require.Eventually(t, func() bool { return l.count.Load() >= goal }, 30*time.Second, time.Millisecond)
}

func TestKilledServerLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	server, err := testkit.StartPostgres("", testkit.ServerOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	l := newLedger(t, testkit.Open(t, storage.Options{URL: server.URL("")}))
	stop := make(chan struct{})
	group := l.appendUntil(t, stop, true)
	for range 3 {
		l.awaitMore(t, 200)
		require.NoError(t, server.Kill9())
		require.NoError(t, server.Restart())
	}
	l.awaitMore(t, 200)
	close(stop)
	group.Wait()
	l.check(t)
}

func TestTerminatedBackendsLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	url := testkit.NewURL(t, testkit.Postgres)
	l := newLedger(t, testkit.Open(t, storage.Options{URL: url}))
	admin, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer admin.Close(t.Context())
	stop := make(chan struct{})
	group := l.appendUntil(t, stop, false)
	const kill = `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE application_name = 'cairn' AND datname = current_database()`
	killed := 0
	for round := range 40 {
		l.awaitMore(t, int64(round%7))
		var n int
		require.NoError(t, admin.QueryRow(t.Context(), kill).Scan(&n))
		killed += n
	}
	close(stop)
	group.Wait()
	require.Greater(t, killed, 20)
	l.check(t)
}

func TestServerThatIsDown(t *testing.T) {
	t.Parallel()
	server, err := testkit.StartPostgres("", testkit.ServerOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	l := newLedger(t, testkit.Open(t, storage.Options{URL: server.URL("")}))
	require.NoError(t, server.Kill9())
	started := time.Now()
	var group sync.WaitGroup
	for writer := range 200 {
		group.Go(func() {
			if err := l.append(t.Context(), fmt.Sprint(writer)); !fault.Is(err, code.Unavailable) {
				t.Errorf("write while down: %v", err)
			}
		})
	}
	group.Go(func() {
		if err := storage.Ping(t.Context(), l.db); !fault.Is(err, code.Unavailable) {
			t.Errorf("read while down: %v", err)
		}
	})
	group.Wait()
	require.Less(t, time.Since(started), 20*time.Second)
	require.NoError(t, server.Restart())
	require.NoError(t, l.append(t.Context(), "afterwards"))
	l.check(t)
}

func TestDeadlockIsRepeated(t *testing.T) {
	t.Parallel()
	db := testkit.Open(t, storage.Options{URL: testkit.NewURL(t, testkit.Postgres), Lanes: 2})
	withCounters(t, db, "a", "b")
	has := map[string]chan struct{}{"a": make(chan struct{}), "b": make(chan struct{})}
	var runs atomic.Int64
	crossing := func(first, second string) func(storage.Tx) error {
		var once sync.Once
		return func(tx storage.Tx) error {
			runs.Add(1)
			if _, err := tx.Changed("UPDATE counters SET n = n + 1 WHERE id = $1", first); err != nil {
				return err
			}
			once.Do(func() { close(has[first]) })
			<-has[second]
			_, err := tx.Changed("UPDATE counters SET n = n + 1 WHERE id = $1", second)
			return err
		}
	}
	var group sync.WaitGroup
	for _, fn := range []func(storage.Tx) error{crossing("a", "b"), crossing("b", "a")} {
		group.Go(func() {
			if err := db.Write(t.Context(), nil, fn); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	require.Greater(t, runs.Load(), int64(2), "there was a deadlock")
	require.EqualValues(t, 2, count(t, db, "a"))
	require.EqualValues(t, 2, count(t, db, "b"))
}

func TestSerializationFailureIsRepeatedAFewTimes(t *testing.T) {
	t.Parallel()
	db := testkit.New(t, testkit.Postgres).DB
	withCounters(t, db, "a")
	runs := 0
	failing := func(times int) func(storage.Tx) error {
		runs = 0
		return func(tx storage.Tx) error {
			if err := increment(tx, "a"); err != nil {
				return err
			}
			if runs++; runs <= times {
				return tx.Exec("DO $$ BEGIN RAISE EXCEPTION 'lost' USING ERRCODE = '40001'; END $$")
			}
			return nil
		}
	}
	require.NoError(t, db.Write(t.Context(), nil, failing(3)))
	require.Equal(t, 4, runs)
	require.EqualValues(t, 1, count(t, db, "a"))
	require.Error(t, db.Write(t.Context(), nil, failing(1000)))
	require.Less(t, runs, 20)
	require.EqualValues(t, 1, count(t, db, "a"))
}

func TestBlockedRowDoesNotStopTheLane(t *testing.T) {
	t.Parallel()
	url := testkit.NewURL(t, testkit.Postgres)
	db := testkit.Open(t, storage.Options{URL: url, Lanes: 1})
	withCounters(t, db, "a", "b")
	other, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer other.Close(t.Context())
	_, err = other.Exec(t.Context(), "BEGIN; SELECT 1 FROM counters WHERE id = 'a' FOR UPDATE")
	require.NoError(t, err)
	started := time.Now()
	var group sync.WaitGroup
	for i := range 40 {
		id := []string{"a", "b"}[i%2]
		group.Go(func() {
			err := db.Write(t.Context(), counterKey(id), func(tx storage.Tx) error { return increment(tx, id) })
			if blocked := fault.Is(err, code.Unavailable); blocked != (id == "a") || !blocked && err != nil {
				t.Errorf("write of %s: %v", id, err)
			}
		})
	}
	group.Wait()
	require.Less(t, time.Since(started), 20*time.Second, "not a time-out for each")
	_, err = other.Exec(t.Context(), "ROLLBACK")
	require.NoError(t, err)
	require.NoError(t, db.Write(t.Context(), counterKey("a"), func(tx storage.Tx) error { return increment(tx, "a") }))
	require.EqualValues(t, 1, count(t, db, "a"))
	require.EqualValues(t, 20, count(t, db, "b"))
}

func TestErrorAfterTheFirstRowFailsGet(t *testing.T) {
	t.Parallel()
	db := testkit.New(t, testkit.Postgres).DB
	err := db.Read(t.Context(), func(tx storage.Tx) error {
		var n int64
		_, err := tx.Get("SELECT 10 / (3 - n) FROM generate_series(1, 3) AS g (n)", nil, &n)
		return err
	})
	require.ErrorContains(t, err, "division by zero")
}
