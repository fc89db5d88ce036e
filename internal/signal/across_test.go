package signal

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is one process's bus over a database, with what it hears.
type node struct {
	*Postgres
	ears
}

func newNode(t *testing.T, url string) *node {
	t.Helper()
	n := &node{Postgres: NewPostgres(url, testkit.Env(), slog.New(slog.DiscardHandler))}
	n.Subscribe(n.ears.hear)
	require.NoError(t, n.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.NoError(t, n.Stop(ctx))
	})
	return n
}

func (n *node) await(t *testing.T, wanted Wake) {
	t.Helper()
	require.Eventually(t, func() bool { return n.count(wanted) > 0 }, 20*time.Second, time.Millisecond, "%q", wanted)
}

// query runs a statement of a bystander and answers its one number.
func query(t *testing.T, url, text string, args ...any) int64 {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	var number int64
	require.NoError(t, conn.QueryRow(t.Context(), text, args...).Scan(&number))
	return number
}

const terminate = `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1`

func TestWakesCrossNodes(t *testing.T) {
	t.Parallel()
	url := testkit.EmptyURL(t, testkit.Postgres)
	here, there := newNode(t, url), newNode(t, url)
	here.Publish(Wake{Session, "one"}, Wake{Identity, ""})
	require.Equal(t, []Wake{{Session, "one"}, {Identity, ""}}, here.all(), "in line, before Publish returns")
	there.await(t, Wake{Session, "one"})
	there.await(t, Wake{Identity, ""})

	there.Publish(Wake{Push, "answer"})
	here.await(t, Wake{Push, "answer"})
	require.Equal(t, 1, here.count(Wake{Session, "one"}), "its own come once")
	require.Equal(t, 1, there.count(Wake{Push, "answer"}))
}

func TestABurstTravelsTogether(t *testing.T) {
	t.Parallel()
	url := testkit.EmptyURL(t, testkit.Postgres)
	here, there := newNode(t, url), newNode(t, url)
	const burst = 20_000
	for i := range burst {
		here.Publish(Wake{Session, fmt.Sprint(i % 100)})
	}
	here.Publish(Wake{Inbox, "last"})
	there.await(t, Wake{Inbox, "last"})
	for i := range 100 {
		there.await(t, Wake{Session, fmt.Sprint(i)})
	}
	require.Less(t, len(there.all()), burst/2, "what waits for a flush is one wake-up")
}

func TestAnOverflowStillWakes(t *testing.T) {
	t.Parallel()
	url := testkit.EmptyURL(t, testkit.Postgres)
	there := newNode(t, url)
	here := NewPostgres(url, testkit.Env(), slog.New(slog.DiscardHandler))
	for i := range maxPending + 1 { // it has not started, so nothing is sent yet
		here.Publish(Wake{Session, fmt.Sprint(i)})
	}
	require.NoError(t, here.Start(t.Context()))
	there.await(t, Wake{Session, ""})
	require.NoError(t, here.Stop(t.Context()))
	require.Len(t, there.all(), 1)
}

func TestALostListenerComesBack(t *testing.T) {
	t.Parallel()
	url := testkit.EmptyURL(t, testkit.Postgres)
	here, there := newNode(t, url), newNode(t, url)
	require.EqualValues(t, 2, query(t, url, terminate, listenerName))
	for _, n := range []*node{here, there} {
		n.await(t, Wake{}) // what was missed in between is unknown
	}
	here.Publish(Wake{Session, "after"})
	there.await(t, Wake{Session, "after"})
}

func TestALostSenderKeepsWhatWaits(t *testing.T) {
	t.Parallel()
	url := testkit.EmptyURL(t, testkit.Postgres)
	here, there := newNode(t, url), newNode(t, url)
	here.Publish(Wake{Session, "before"})
	there.await(t, Wake{Session, "before"})
	require.EqualValues(t, 1, query(t, url, terminate, notifierName))
	here.Publish(Wake{Session, "after"})
	there.await(t, Wake{Session, "after"})
	require.Zero(t, there.count(Wake{}), "the listener was not lost")
}

func TestStopSaysTheLast(t *testing.T) {
	t.Parallel()
	url := testkit.EmptyURL(t, testkit.Postgres)
	there := newNode(t, url)
	here := NewPostgres(url, testkit.Env(), slog.New(slog.DiscardHandler))
	require.NoError(t, here.Start(t.Context()))
	here.Publish(Wake{Session, "first"})
	there.await(t, Wake{Session, "first"})
	here.Publish(Wake{Presence, "last"})
	require.NoError(t, here.Stop(t.Context()))
	there.await(t, Wake{Presence, "last"})
	require.Eventually(t, func() bool {
		return query(t, url, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name IN ($1, $2)`,
			listenerName, notifierName) == 1
	}, 10*time.Second, 10*time.Millisecond, "only the other's listener is left")
	here.Publish(Wake{Session, "after the stop"}) // harmless
}

func TestStartFailsWithoutADatabase(t *testing.T) {
	t.Parallel()
	bus := NewPostgres("postgres://127.0.0.1:1/nowhere?connect_timeout=2", testkit.Env(), slog.New(slog.DiscardHandler))
	require.Error(t, bus.Start(t.Context()))
	require.NoError(t, bus.Stop(t.Context()))
}

// SQLite has no wake-ups of its own: the file says that another process wrote.
func TestSQLiteAcrossProcesses(t *testing.T) {
	t.Parallel()
	db := testkit.New(t, testkit.SQLite)
	other := testkit.Open(t, storage.Options{URL: db.URL})
	// As the writing connection sees it: its own commits leave the number alone.
	version := func(ctx context.Context) (int64, error) {
		return storage.Write(ctx, db.DB, nil, func(tx storage.Tx) (version int64, err error) {
			_, err = tx.Get("PRAGMA data_version", nil, &version)
			return version, err
		})
	}
	bus := NewSQLite(version, testkit.Env(), slog.New(slog.DiscardHandler))
	heard := &ears{}
	bus.Subscribe(heard.hear)
	require.NoError(t, bus.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, bus.Stop(context.Background())) })
	write := func(into storage.DB, id string) {
		require.NoError(t, into.Write(t.Context(), nil, func(tx storage.Tx) error {
			return tx.Exec(`INSERT INTO nodes (id, started_at, alive_until) VALUES ($1, 1, 1)`, id)
		}))
	}
	write(db.DB, "own")
	require.Never(t, func() bool { return heard.count(Wake{}) > 0 }, 3*sqlitePollInterval, sqlitePollInterval/5, "own commits wake by themselves")
	write(other, "other")
	require.Eventually(t, func() bool { return heard.count(Wake{}) > 0 }, 10*time.Second, time.Millisecond)
	require.Never(t, func() bool { return heard.count(Wake{}) > 1 }, 3*sqlitePollInterval, sqlitePollInterval/5, "once")
}
