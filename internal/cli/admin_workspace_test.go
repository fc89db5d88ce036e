package cli

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestWorkspaceAdministration(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newShell(t, "CAIRN_DATABASE="+db.URL)
		ada := decoded[identity.NewUser](s, "user", "add", "ada")
		require.NotEmpty(t, ada.APIKey, "Shared Sessions goes on to need it")
		bob := decoded[identity.NewUser](s, "user", "add", "bob")

		t.Run("WS-AZ-3 the first person owns the instance", func(t *testing.T) {
			level := func(id string) wire.Level {
				snapshot, err := storage.Read(t.Context(), db.DB, func(tx storage.Tx) (*authz.Snapshot, error) {
					found, _, err := authz.Load(tx, id)
					return found, err
				})
				require.NoError(t, err)
				return snapshot.Level(authz.Place{}, testkit.Env().Now())
			}
			require.Equal(t, wire.LevelOwner, level(ada.UserID))
			require.Equal(t, wire.LevelNone, level(bob.UserID))
		})
		t.Run("WS-ID-1 a login code is made, and shown once", func(t *testing.T) {
			made := decoded[wire.LoginCode](s, "user", "login-code", "ada")
			require.Regexp(t, `^[A-Z2-9]{4}(-[A-Z2-9]{4}){3}$`, made.Code)
			got := s.call("user", "login-code", "ada")
			require.NotEqual(t, made.Code+"\n", got.out)
			require.Contains(t, got.errs, "good once")
			s.refused(exitFailed, []string{"not found"}, "user", "login-code", "nobody")
		})
		s.stdin = "correct horse battery staple\n"
		require.Contains(t, s.done("user", "password", "ada"), "is set")
		s.stdin = ""
		s.refused(exitUsage, []string{"nothing on standard input"}, "user", "password", "ada")
		require.Equal(t, "countess", decoded[wire.Principal](s, "user", "handle", "ada", "countess").Handle)
		s.refused(exitFailed, []string{"taken"}, "user", "handle", "bob", "countess")
		s.refused(exitFailed, []string{"not found"}, "user", "approve", testkit.Env().RandomID())
		t.Run("WS-ID-4 a user is tied to somebody at an issuer, once", func(t *testing.T) {
			require.Contains(t, s.done("user", "link", "bob", "https://issuer.example.org", "4711"), "signs in as 4711")
			s.refused(exitFailed, []string{"belongs to somebody"}, "user", "link", "ada", "https://issuer.example.org", "4711")
			s.refused(exitFailed, []string{"not found"}, "user", "link", "nobody", "https://issuer.example.org", "4712")
		})
		require.Contains(t, s.done("user", "disable", "bob"), "is disabled")
		require.Equal(t, wire.StatusActive, decoded[wire.Principal](s, "user", "enable", "bob").Status)
		require.Contains(t, s.done("keys", "rotate"), "signed by key")
		require.Positive(t, decoded[audit.Report](s, "audit", "verify").Rows)
	})
}

func TestRestoreFinalize(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newShell(t, "CAIRN_DATABASE="+db.URL)
		s.done("user", "add", "ada")
		s.call("user", "login-code", "ada")
		before := logState(t, db)
		server := servertest.Start(t, db, nil)

		t.Run("not while a server runs", func(t *testing.T) {
			want := map[string]string{testkit.SQLite: "another cairn server serves", testkit.Postgres: "Stop every server first"}[db.Engine]
			s.refused(exitFailed, []string{want}, "restore", "finalize")
			require.Equal(t, before.SyncEpoch, logState(t, db).SyncEpoch)
		})
		server.Stop(t)
		t.Run("not beside the commits of another file", func(t *testing.T) {
			if db.Engine == testkit.SQLite { // which the test has open, as one that was killed had it
				s.refused(exitFailed, []string{"-wal holds commits", "Remove it", "--keep-wal"}, "restore", "finalize", "--force")
				require.Equal(t, before.SyncEpoch, logState(t, db).SyncEpoch)
				before.SyncEpoch = decoded[finalized](s, "restore", "finalize", "--keep-wal").SyncEpoch
			}
			require.NoError(t, db.DB.Close())
		})
		t.Run("WS section 8 a restore has a new epoch and ends sign-ins", func(t *testing.T) {
			done := decoded[finalized](s, "restore", "finalize")
			db.DB = testkit.Open(t, storage.Options{URL: db.URL, Migrate: storage.MigrateRefuse})
			require.NotEqual(t, before.SyncEpoch, done.SyncEpoch)
			after := logState(t, db)
			require.Equal(t, done.SyncEpoch, after.SyncEpoch)
			require.Equal(t, before.InstanceID, after.InstanceID)
			require.NotEqual(t, done.SyncEpoch, decoded[finalized](s, "restore", "finalize", "--force").SyncEpoch)
		})
	})
}

func logState(t *testing.T, db *testkit.Database) eventlog.State {
	t.Helper()
	state, err := storage.Read(context.WithoutCancel(t.Context()), db.DB, eventlog.StateOf)
	require.NoError(t, err)
	return state
}
