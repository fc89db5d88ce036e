package authz_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

// stage is a database with the service on it.
type stage struct {
	*testing.T
	db    storage.DB
	env   *env.Env
	log   *eventlog.Log
	authz *authz.Service
}

func newStage(t *testing.T, db storage.DB) *stage {
	t.Helper()
	e := testkit.Env()
	log := eventlog.New(eventlog.Options{MaxPayload: 65536, NewID: e.NewID})
	return &stage{T: t, db: db, env: e, log: log, authz: authz.New(db, log, e)}
}

// on is the stage in a subtest.
func (s *stage) on(t *testing.T) *stage {
	copied := *s
	copied.T = t
	return &copied
}

func (s *stage) exec(query string, args ...any) {
	s.Helper()
	require.NoError(s, s.db.Write(s.Context(), nil, func(tx storage.Tx) error { return tx.Exec(query, args...) }))
}

// principal adds a principal of a kind.
func (s *stage) principal(kind wire.Kind) authz.Caller {
	s.Helper()
	id := s.env.NewID()
	s.exec(`INSERT INTO principals (id, kind, handle, display_name, status, created_at) VALUES ($1, $2, $3, $3, 'active', 1)`, id, kind, "h-"+id)
	return authz.Caller{Principal: id, Kind: kind, Device: s.env.NewID(), AuthTime: time.Now(), StepUpMaxAge: time.Hour}
}

func (s *stage) person() authz.Caller { return s.principal(wire.KindUser) }

// owner adds a person who owns the instance.
func (s *stage) owner() authz.Caller {
	s.Helper()
	by := s.person()
	s.grantRow(by.Principal, wire.Target{Kind: wire.TargetInstance}, wire.LevelOwner, nil)
	return by
}

// grantRow writes a grant without anybody's leave.
func (s *stage) grantRow(principal string, target wire.Target, level wire.Level, ends *time.Time) string {
	s.Helper()
	id := s.env.NewID()
	s.exec(`INSERT INTO grants (id, subject_kind, subject_id, target_kind, target_id, level, created_at, expires_at) VALUES ($1, 'principal', $2, $3, $4, $5, 1, $6)`,
		id, principal, target.Kind, target.ID, level, ends)
	return id
}

func (s *stage) space() string {
	s.Helper()
	id := s.env.NewID()
	s.exec(`INSERT INTO spaces (id, name, created_at) VALUES ($1, 'space', 1)`, id)
	return id
}

func (s *stage) channel(space string) string {
	s.Helper()
	id := s.env.NewID()
	s.exec(`INSERT INTO channels (id, space_id, kind, name, created_at) VALUES ($1, $2, 'text', 'channel', 1)`, id, space)
	return id
}

func (s *stage) load(id string) *authz.Snapshot {
	s.Helper()
	snapshot, err := storage.Read(s.Context(), s.db, func(tx storage.Tx) (*authz.Snapshot, error) {
		snapshot, _, err := authz.Load(tx, id)
		return snapshot, err
	})
	require.NoError(s, err)
	return snapshot
}

func (s *stage) visible(id string) []wire.Access {
	s.Helper()
	all, err := storage.Read(s.Context(), s.db, func(tx storage.Tx) ([]wire.Access, error) {
		snapshot, _, err := authz.Load(tx, id)
		if err != nil {
			return nil, err
		}
		return authz.Visible(tx, snapshot)
	})
	require.NoError(s, err)
	return all
}

// events answers everything in the log after a number.
func (s *stage) events(after int64) []*eventlog.Record {
	s.Helper()
	records, err := storage.Read(s.Context(), s.db, func(tx storage.Tx) ([]*eventlog.Record, error) {
		return eventlog.After(tx, after, 1<<40, 10_000)
	})
	require.NoError(s, err)
	return records
}

// head answers the last number of the log.
func (s *stage) head() int64 { return s.state().Head }

func (s *stage) state() eventlog.State {
	s.Helper()
	state, err := storage.Read(s.Context(), s.db, eventlog.StateOf)
	require.NoError(s, err)
	return state
}

func principal(id string) wire.Subject { return wire.Subject{Kind: wire.SubjectPrincipal, ID: id} }
func group(id string) wire.Subject     { return wire.Subject{Kind: wire.SubjectGroup, ID: id} }
func onSpace(id string) wire.Target    { return wire.Target{Kind: wire.TargetSpace, ID: id} }
func onChannel(id string) wire.Target  { return wire.Target{Kind: wire.TargetChannel, ID: id} }

var instance = wire.Target{Kind: wire.TargetInstance}
