package eventlog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestNewTimeline(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		var before, after eventlog.State
		consumer := int64(-1)
		require.NoError(t, db.DB.Write(t.Context(), nil, func(tx storage.Tx) error {
			var err error
			if before, err = eventlog.StateOf(tx); err != nil {
				return err
			}
			if err := tx.Exec(`UPDATE sequence_counters SET value = 40 WHERE name = 'event_seq'`); err != nil {
				return err
			}
			return tx.Exec(`INSERT INTO event_consumer_cursors (consumer, last_seq) VALUES ('push', 70)`)
		}))
		require.NoError(t, db.DB.Write(t.Context(), nil, func(tx storage.Tx) error {
			var err error
			after, err = eventlog.NewTimeline(tx, testkit.Env().RandomID())
			return err
		}))
		require.NoError(t, db.DB.Read(t.Context(), func(tx storage.Tx) error {
			_, err := tx.Get(`SELECT last_seq FROM event_consumer_cursors WHERE consumer = 'push'`, nil, &consumer)
			return err
		}))
		t.Run("ES-7.5 a restore has a new epoch, and consumers go on from its head", func(t *testing.T) {
			require.NotEqual(t, before.SyncEpoch, after.SyncEpoch)
			require.Equal(t, before.InstanceID, after.InstanceID)
			require.EqualValues(t, 40, after.Head)
			require.EqualValues(t, 40, consumer)
			require.Equal(t, wire.ResyncEpoch, after.Resync(10, before.SyncEpoch, 50_000))
		})
	})
}
