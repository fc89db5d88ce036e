package audit_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
)

func TestChain(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				err := db.DB.Write(t.Context(), nil, func(tx storage.Tx) error {
					for range 3 {
						if err := audit.Write(tx, testkit.Env(), audit.Entry{UserID: "ada", Action: audit.Control, TargetKind: "space", TargetID: "x"}); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		verify := func() audit.Report {
			report, err := audit.Verify(t.Context(), db.DB)
			require.NoError(t, err)
			return report
		}
		change := func(query string) {
			require.NoError(t, db.DB.Write(t.Context(), nil, func(tx storage.Tx) error { return tx.Exec(query) }))
		}
		t.Run("ES-3.3 the numbers of audit rows have no gap, and each row is tied to the one before it", func(t *testing.T) {
			require.Equal(t, audit.Report{Rows: 150}, verify())
		})
		t.Run("a row that was changed is found", func(t *testing.T) {
			change(`UPDATE audit SET user_id = 'eva' WHERE seq = 70`)
			require.Equal(t, int64(70), verify().Broken)
			change(`UPDATE audit SET user_id = 'ada' WHERE seq = 70`)
			require.Zero(t, verify().Broken)
		})
		t.Run("a row that was taken out of the end is found", func(t *testing.T) {
			change(`DELETE FROM audit WHERE seq = 150`)
			require.Equal(t, int64(150), verify().Broken)
		})
		t.Run("a row that was taken out of the middle is found", func(t *testing.T) {
			change(`DELETE FROM audit WHERE seq = 10`)
			require.Equal(t, int64(10), verify().Broken)
		})
	})
}
