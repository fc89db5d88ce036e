package storage_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
)

func TestMigrationFromEmpty(t *testing.T) {
	t.Parallel()
	for _, engine := range testkit.Engines() {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			url := testkit.EmptyURL(t, engine)
			status, err := storage.MigrationStatus(t.Context(), url)
			require.NoError(t, err)
			require.Zero(t, status.Current)
			require.NotEmpty(t, status.Pending)
			require.Equal(t, status.Latest, status.Pending[len(status.Pending)-1].Version)
			require.NoError(t, storage.Migrate(t.Context(), url))
			require.NoError(t, storage.Migrate(t.Context(), url), "again is no error")
			status, err = storage.MigrationStatus(t.Context(), url)
			require.NoError(t, err)
			require.Equal(t, status.Latest, status.Current)
			require.Empty(t, status.Pending)
			testkit.Open(t, storage.Options{URL: url, Migrate: storage.MigrateRefuse})
		})
	}
}

func TestProcessesMigrateAtOnce(t *testing.T) {
	t.Parallel()
	for _, engine := range testkit.Engines() {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			url := testkit.EmptyURL(t, engine)
			var group sync.WaitGroup
			for range 6 {
				group.Go(func() {
					db, err := storage.Open(t.Context(), storage.Options{URL: url})
					if err != nil {
						t.Error(err)
						return
					}
					if err := db.Close(); err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
		})
	}
}

func TestOpenMigratesAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	for _, engine := range testkit.Engines() {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			db := testkit.Open(t, storage.Options{URL: testkit.EmptyURL(t, engine)})
			require.NoError(t, db.Read(t.Context(), func(tx storage.Tx) error {
				var n int
				_, err := tx.Get("SELECT count(*) FROM sessions", nil, &n)
				return err
			}))
		})
	}
}

// rowsOf1 fill every table that later versions change, as version 1 wrote them.
var rowsOf1 = []string{
	`INSERT INTO users (id, name, created_at) VALUES ('u', 'ada', 1)`,
	`INSERT INTO devices (id, user_id, name, platform, capabilities, push_token, last_seen_at, created_at) VALUES ('d', 'u', 'n', 'ios', '[]', 'token', 1, 1)`,
	`INSERT INTO sessions (id, owner_user_id, session_key, e2e, archived, created_at, last_event_at, last_seq, lease_revision, control_revision,
		access_version) VALUES ('s', 'u', 'k', FALSE, FALSE, 1, 1, 1, 0, 0, 0)`,
	`INSERT INTO session_controls (session_id, id, kind, from_device_id, target_device_id, mode, seq, applied, created_at)
		VALUES ('s', 'c', 'send', 'd', 'd', 'open', 1, FALSE, 1)`,
	`INSERT INTO nodes (id, started_at, alive_until) VALUES ('n', 1, 2)`,
	`INSERT INTO session_presence (connection_id, node_id, session_id, device_id, user_id, role, driving, seen_at) VALUES ('p', 'n', 's', 'd', 'u', 'owner', TRUE, 3)`,
	`INSERT INTO push_outbox (id, session_id, control_id, device_id, mode, created_at, attempts, not_before) VALUES ('w', 's', 'c', 'd', 'open', 4, 2, 5)`,
	`INSERT INTO push_outbox (id, session_id, control_id, device_id, mode, created_at, attempts, not_before) VALUES ('x', 'gone', 'c', 'd', 'send', 6, 0, 7)`,
}

func TestUpgradeFrom1(t *testing.T) {
	t.Parallel()
	for _, engine := range testkit.Engines() {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			url := testkit.EmptyURL(t, engine)
			require.NoError(t, storage.MigrateTo(t.Context(), url, 1, rowsOf1...))
			status, err := storage.MigrationStatus(t.Context(), url)
			require.NoError(t, err)
			require.EqualValues(t, 1, status.Current)
			db := testkit.Open(t, storage.Options{URL: url})
			for query, want := range map[string]string{
				`SELECT count(*) FROM session_presence WHERE connection_id = 'p' AND driving AND NOT attention`: "1",
				`SELECT type || ' ' || session_id || ' ' || control_id || ' ' || device_id || ' ' || mode || ' ' || created_at || ' ' || attempts || ' ' || not_before
					FROM push_outbox WHERE id = 'w' AND user_id IS NULL AND seq IS NULL AND NOT claimed`: "dispatch s c d open 4 2 5",
				`SELECT count(*) FROM push_outbox`: "2",
				`SELECT type || ' ' || device_id || ' ' || user_id || ' ' || control_id || ' ' || state || ' ' || attempts || ' ' || created_at
					FROM push_outcomes WHERE id = 'w' AND seq IS NULL AND reason IS NULL`: "dispatch d u c waiting 2 4",
				`SELECT count(*) FROM push_outcomes`: "1",
			} {
				require.Equal(t, want, one(t, db, query), query)
			}
			// A server of version 1 may still run.
			require.NoError(t, db.Write(t.Context(), nil, func(tx storage.Tx) error {
				return tx.Exec(`INSERT INTO push_outbox (id, session_id, control_id, device_id, mode, created_at, attempts, not_before)
					VALUES ('y', 's', 'c', 'd', 'open', 4, 2, 5)`)
			}))
			require.Equal(t, "dispatch", one(t, db, `SELECT type FROM push_outbox WHERE id = 'y' AND NOT claimed`))
			require.NoError(t, db.Write(t.Context(), nil, func(tx storage.Tx) error { return tx.Exec(`DELETE FROM sessions WHERE id = 's'`) }))
			require.Equal(t, "0", one(t, db, `SELECT count(*) FROM push_outcomes`))
		})
	}
}

// one answers the one value of a query as text.
func one(t *testing.T, db storage.DB, query string) string {
	t.Helper()
	value, err := storage.Read(t.Context(), db, func(tx storage.Tx) (string, error) {
		var value string
		_, err := tx.Get(`SELECT CAST((`+query+`) AS text)`, nil, &value)
		return value, err
	})
	require.NoError(t, err)
	return value
}
