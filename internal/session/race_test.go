package session_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/session"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// node is the domain of one process on a database that others share.
type node struct {
	db       storage.DB
	sessions *session.Service
	identity *identity.Service
}

func newNode(db storage.DB) node {
	bus, e := signal.NewLocal(), env.Real()
	return node{db, session.New(db, bus, e, nil), identity.New(db, bus, e)}
}

func (n node) person(t *testing.T, name string) (session.Caller, identity.Principal) {
	t.Helper()
	user, err := n.identity.AddUser(t.Context(), name, nil)
	require.NoError(t, err)
	principal, err := n.identity.Authenticate(t.Context(), user.APIKey)
	require.NoError(t, err)
	by := session.Caller{UserID: user.UserID, KeyID: principal.KeyID, DeviceID: env.Real().RandomID()}
	require.NoError(t, n.identity.Touch(t.Context(), principal, identity.Device{ID: by.DeviceID}))
	return by, principal
}

func (n node) session(t *testing.T, by session.Caller) string {
	t.Helper()
	made, _, err := n.sessions.Create(t.Context(), by, session.NewSession{})
	require.NoError(t, err)
	return made.ID
}

// pausing is a database that stops once, between the end of a write function and its commit.
type pausing struct {
	storage.DB

	armed   bool
	reached chan struct{}
	resume  chan struct{}
}

func pause(db storage.DB) *pausing {
	return &pausing{DB: db, reached: make(chan struct{}), resume: make(chan struct{})}
}

func (p *pausing) Write(ctx context.Context, keys []storage.Key, fn func(storage.Tx) error, ahead ...storage.Prefetch) error {
	return p.DB.Write(ctx, keys, func(tx storage.Tx) error {
		err := fn(tx)
		if p.armed {
			p.armed = false
			close(p.reached)
			<-p.resume
		}
		return err
	}, ahead...)
}

// second opens the database once more, as another node does.
func second(t *testing.T, db *testkit.Database) storage.DB {
	t.Helper()
	return testkit.Open(t, storage.Options{URL: db.URL, Migrate: storage.MigrateRefuse})
}

func TestDeviceIsDeletedWhileItClaims(t *testing.T) {
	t.Parallel()
	t.Run("SS-DVC-1 a deleted device never holds a lease", func(t *testing.T) {
		t.Parallel()
		db := testkit.New(t, testkit.Postgres)
		slow := pause(db.DB)
		a, b := newNode(slow), newNode(second(t, db))
		by, principal := b.person(t, "owner")
		id := b.session(t, by)
		slow.armed = true
		var both sync.WaitGroup
		both.Go(func() {
			_, err := a.sessions.ClaimLease(t.Context(), by, id, by.DeviceID, false)
			assert.NoError(t, err, "the claim came first")
		})
		<-slow.reached
		both.Go(func() {
			_, err := b.identity.DeleteDevice(t.Context(), principal, "", by.DeviceID)
			assert.NoError(t, err)
		})
		untilWaiting(t, b.db)
		close(slow.resume)
		both.Wait()
		detail, err := b.sessions.Detail(t.Context(), by, id)
		require.NoError(t, err)
		require.Nil(t, detail.Lease)
	})
}

// untilWaiting waits until some statement waits for a lock of another.
func untilWaiting(t *testing.T, db storage.DB) {
	t.Helper()
	require.Eventually(t, func() bool {
		waiting, err := storage.Read(t.Context(), db, func(tx storage.Tx) (bool, error) {
			return tx.Get(`SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`, nil, new(int))
		})
		return err == nil && waiting
	}, 10*time.Second, 5*time.Millisecond)
}

func TestOrgShareWhileAMemberLeaves(t *testing.T) {
	t.Parallel()
	t.Run("SS-ROLE-2 a share that races the end of a membership is seen by it, or sees it", func(t *testing.T) {
		t.Parallel()
		db := testkit.New(t, testkit.Postgres)
		slow := pause(db.DB)
		a, b := newNode(slow), newNode(second(t, db))
		owner, _ := b.person(t, "owner")
		member, _ := b.person(t, "member")
		id := b.session(t, owner)
		org, err := b.sessions.CreateOrg(t.Context(), owner, "org")
		require.NoError(t, err)
		_, err = b.sessions.AddMember(t.Context(), owner, org.ID, session.NewMember{UserID: member.UserID, Role: wire.OrgMember})
		require.NoError(t, err)
		slow.armed = true
		var both sync.WaitGroup
		both.Go(func() { assert.NoError(t, a.sessions.RemoveMember(t.Context(), owner, org.ID, member.UserID)) })
		<-slow.reached
		both.Go(func() {
			_, err := b.sessions.AddShare(t.Context(), owner, id,
				session.NewShare{PrincipalType: wire.PrincipalOrg, PrincipalID: org.ID, Role: wire.RoleViewer})
			assert.NoError(t, err)
		})
		untilWaiting(t, b.db)
		_, err = b.sessions.Find(t.Context(), member, id)
		require.Error(t, err, "the share is not there before the membership has ended")
		close(slow.resume)
		both.Wait()
		_, err = b.sessions.Find(t.Context(), member, id)
		require.Error(t, err)
	})
}

func TestTwoNodesEmptyTheTrash(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		t.Run("SS-SES-5 nothing of a deleted session stays behind", func(t *testing.T) {
			a, b := newNode(db.DB), newNode(second(t, db))
			by, _ := a.person(t, "owner")
			id := a.session(t, by)
			_, err := a.sessions.ClaimLease(t.Context(), by, id, by.DeviceID, false)
			require.NoError(t, err)
			for range 30 {
				_, err := a.sessions.Append(t.Context(), by, id, session.Batch{Events: make([]wire.IncomingEvent, wire.MaxBatch)})
				require.NoError(t, err)
			}
			_, err = a.sessions.Control(t.Context(), by, id, wire.IncomingControl{ID: "c", Kind: wire.ControlPause})
			require.NoError(t, err)
			_, err = a.sessions.Delete(t.Context(), by, id)
			require.NoError(t, err)
			var both sync.WaitGroup
			for _, n := range []node{a, b} {
				both.Go(func() { assert.NoError(t, emptied(t.Context(), n.db)) })
			}
			both.Wait()
			for _, table := range []string{"session_events", "session_controls", "session_trash"} {
				left, err := storage.Read(t.Context(), a.db, func(tx storage.Tx) (bool, error) {
					return tx.Get(`SELECT session_id FROM `+table, nil, new(string))
				})
				require.NoError(t, err)
				require.False(t, left, table)
			}
		})
	})
}

// emptied empties the trash together with whoever else does.
func emptied(ctx context.Context, db storage.DB) error {
	for more := true; more; {
		_, err := storage.Write(ctx, db, nil, session.EmptyTrash)
		if err != nil {
			return err
		}
		if more, err = storage.Read(ctx, db, session.HasTrash); err != nil {
			return err
		}
	}
	return nil
}
