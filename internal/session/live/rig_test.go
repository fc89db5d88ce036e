package live

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/cairnsync/cairn/internal/conn"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/session"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// soon is how long a test waits for what should come at once.
const soon = 20 * time.Second

// rig is a hub over a real database, with one executor and its session.
type rig struct {
	db       *faulty
	hub      *Hub
	sessions *session.Service
	identity *identity.Service
	by       session.Caller
	id       string
}

// faulty is a database that can refuse to write.
type faulty struct {
	storage.DB

	down atomic.Bool
}

func (f *faulty) Write(ctx context.Context, keys []storage.Key, fn func(storage.Tx) error, ahead ...storage.Prefetch) error {
	if f.down.Load() {
		return errors.New("the database is down")
	}
	return f.DB.Write(ctx, keys, fn, ahead...)
}

func newRig(t *testing.T, db *testkit.Database) *rig {
	t.Helper()
	return newRigOn(t, db, "owner")
}

// newRigOn is newRig for one of several owners on a database.
func newRigOn(t *testing.T, db *testkit.Database, owner string) *rig {
	t.Helper()
	bus, e := signal.NewLocal(), env.Real()
	r := &rig{db: &faulty{DB: db.DB}}
	r.hub = New(Options{DB: r.db, Bus: bus, Env: e, Log: slog.New(slog.DiscardHandler), MaxAnnounced: 200, QueueFrames: 1024})
	r.sessions = session.New(r.db, bus, e, r.hub)
	r.identity = identity.New(r.db, bus, e)
	r.by = r.person(t, owner)
	r.id = r.execute(t)
	require.NoError(t, r.hub.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, r.hub.Stop(context.WithoutCancel(t.Context()))) })
	return r
}

func (r *rig) person(t *testing.T, name string) session.Caller {
	t.Helper()
	user, err := r.identity.AddUser(t.Context(), name, nil)
	require.NoError(t, err)
	principal, err := r.identity.Authenticate(t.Context(), user.APIKey)
	require.NoError(t, err)
	by := session.Caller{UserID: user.UserID, KeyID: principal.KeyID, DeviceID: env.Real().RandomID()}
	require.NoError(t, r.identity.Touch(t.Context(), principal, identity.Device{ID: by.DeviceID}))
	return by
}

// execute makes a session whose lease the owner's device holds.
func (r *rig) execute(t *testing.T) string {
	t.Helper()
	made, _, err := r.sessions.Create(t.Context(), r.by, session.NewSession{})
	require.NoError(t, err)
	_, err = r.sessions.ClaimLease(t.Context(), r.by, made.ID, r.by.DeviceID, false)
	require.NoError(t, err)
	return made.ID
}

func (r *rig) append(t *testing.T, n int) {
	t.Helper()
	for n > 0 {
		batch := session.Batch{Events: make([]wire.IncomingEvent, min(n, wire.MaxBatch))}
		for i := range batch.Events {
			batch.Events[i].Kind = "x"
		}
		_, err := r.sessions.Append(t.Context(), r.by, r.id, batch)
		require.NoError(t, err)
		n -= len(batch.Events)
	}
}

func principalOf(by session.Caller) identity.Principal {
	return identity.Principal{UserID: by.UserID, KeyID: by.KeyID}
}

// liveStreams reports how many streams of a session are live.
func (r *rig) liveStreams(id string) int {
	f := r.hub.feed(id)
	if f == nil {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.live)
}

func (r *rig) present(t *testing.T) []wire.Presence {
	t.Helper()
	present, err := storage.Read(t.Context(), r.db, func(tx storage.Tx) ([]wire.Presence, error) {
		return session.Present(tx, r.id, session.Lease{})
	})
	require.NoError(t, err)
	return present
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	require.Eventually(t, done, soon, 5*time.Millisecond, what)
}

// sink counts what a stream is sent.
type sink struct {
	mu     sync.Mutex
	frames int            // guarded by mu, like all below
	latest map[string]int // by key
	closed code.Close
}

func (s *sink) Send(block *conn.Block) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frames += block.Len()
}

func (s *sink) SendLatest(key string, _ *conn.Block) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest == nil {
		s.latest = map[string]int{}
	}
	s.latest[key]++
}

func (s *sink) Room(context.Context) error { return nil }

func (s *sink) Close(c code.Close, _ string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = c
}

func (s *sink) count(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest[key]
}
