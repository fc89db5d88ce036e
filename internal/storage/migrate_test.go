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
