package identity_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is one server's view of a fresh database.
type world struct {
	*identity.Service
	db    *counted
	bus   *signal.Local
	clock *clock
	wakes *ears
}

// newWorld starts a service over db. Its process clock stands still until it is moved.
func newWorld(t *testing.T, db storage.DB) *world {
	t.Helper()
	w := &world{
		db: &counted{DB: db}, bus: signal.NewLocal(), wakes: &ears{},
		clock: &clock{now: time.Date(2026, 9, 13, 10, 0, 0, 0, time.UTC)},
	}
	w.Service = identity.New(w.db, w.bus, env.WithClock(w.clock.read))
	require.NoError(t, w.Start(t.Context()))
	w.bus.Subscribe(w.wakes.hear)
	t.Cleanup(func() { require.NoError(t, w.Stop(context.Background())) })
	return w
}

// user adds a user and answers who that is, and the key.
func (w *world) user(t *testing.T, name string) (identity.Principal, string) {
	t.Helper()
	added, err := w.AddUser(t.Context(), name, nil)
	require.NoError(t, err)
	return identity.Principal{UserID: added.UserID, KeyID: added.KeyID}, added.APIKey
}

// device is a new device id, of the CLI platform.
func device() identity.Device {
	return identity.Device{ID: testkit.Env().RandomID(), Platform: "cli"}
}

// exec changes the database directly.
func (w *world) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	require.NoError(t, w.db.DB.Write(t.Context(), nil, func(tx storage.Tx) error { return tx.Exec(query, args...) }))
}

// session inserts a session of owner's whose lease is held by holder, or by nobody.
func (w *world) session(t *testing.T, owner, holder string) string {
	t.Helper()
	id := testkit.Env().NewID()
	var lease *string
	var until *int64
	if holder != "" {
		lease, until = &holder, new(int64)
		*until = time.Now().Add(time.Hour).UnixMicro()
	}
	w.exec(t, `INSERT INTO sessions (id, owner_user_id, session_key, e2e, archived, created_at, last_event_at, last_seq,
		lease_device_id, lease_expires_at, lease_revision, control_revision, access_version)
		VALUES ($1, $2, $1, FALSE, FALSE, 1, 1, 0, $3, $4, 0, 0, 0)`, id, owner, lease, until)
	return id
}

// present inserts a node that lives for term from now, with one connection of a device to a session.
func (w *world) present(t *testing.T, session, device, user string, term time.Duration) {
	t.Helper()
	node := testkit.Env().NewID()
	w.exec(t, `INSERT INTO nodes (id, started_at, alive_until) VALUES ($1, 1, $2)`, node, time.Now().Add(term).UnixMicro())
	w.exec(t, `INSERT INTO session_presence (connection_id, node_id, session_id, device_id, user_id, role, driving, seen_at)
		VALUES ($1, $1, $2, $3, $4, 'viewer', FALSE, 1)`, node, session, device, user)
}

// number reads one number.
func (w *world) number(t *testing.T, query string, args ...any) int64 {
	t.Helper()
	var value int64
	require.NoError(t, w.db.DB.Read(t.Context(), func(tx storage.Tx) error {
		found, err := tx.Get(query, args, &value)
		require.True(t, found, query)
		return err
	}))
	return value
}

// counted counts the transactions of a service.
type counted struct {
	storage.DB
	reads, writes atomic.Int64
}

func (c *counted) Read(ctx context.Context, fn func(storage.Tx) error) error {
	c.reads.Add(1)
	return c.DB.Read(ctx, fn)
}

func (c *counted) Write(ctx context.Context, keys []storage.Key, fn func(storage.Tx) error, ahead ...storage.Prefetch) error {
	c.writes.Add(1)
	return c.DB.Write(ctx, keys, fn, ahead...)
}

// clock is a process clock that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// ears remember what they hear.
type ears struct {
	mu    sync.Mutex
	wakes []signal.Wake
}

func (e *ears) hear(wake signal.Wake) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wakes = append(e.wakes, wake)
}

// take answers what was heard since the last time.
func (e *ears) take() []signal.Wake {
	e.mu.Lock()
	defer e.mu.Unlock()
	heard := e.wakes
	e.wakes = nil
	return heard
}

func requireFault(t *testing.T, err error, want code.Code) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, want, fault.From(err).Code, "%v", err)
}
