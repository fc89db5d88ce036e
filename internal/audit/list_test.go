package audit_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
)

func TestLatest(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		for range 5 {
			write(t, db.DB, audit.Entry{UserID: "ada", Action: audit.Control, TargetKind: "space", TargetID: "s", Detail: map[string]int{"n": 1}})
		}
		latest := func(before int64, limit int) []int64 {
			rows, err := storage.Read(t.Context(), db.DB, func(tx storage.Tx) ([]audit.Row, error) { return audit.Latest(tx, before, limit) })
			require.NoError(t, err)
			seqs := []int64{}
			for _, row := range rows {
				require.Equal(t, "space", row.TargetKind)
				require.JSONEq(t, `{"n":1}`, string(row.Detail))
				seqs = append(seqs, row.Seq)
			}
			return seqs
		}
		require.Equal(t, []int64{5, 4, 3}, latest(0, 3))
		require.Equal(t, []int64{2, 1}, latest(3, 3))
		require.Empty(t, latest(1, 3))
	})
}
