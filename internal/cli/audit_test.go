package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
)

func TestAuditCommands(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newShell(t, "CAIRN_DATABASE="+db.URL)
		before := decoded[audit.Report](s, "audit", "verify").Rows
		require.NoError(t, db.DB.Write(t.Context(), nil, func(tx storage.Tx) error {
			for _, target := range []string{"one", "two"} {
				if err := audit.Write(tx, testkit.Env(), audit.Entry{UserID: "ada", Action: "grant:create", TargetKind: "space", TargetID: target}); err != nil {
					return err
				}
			}
			return nil
		}))
		require.Equal(t, before+2, decoded[audit.Report](s, "audit", "verify").Rows)
		require.Contains(t, s.done("audit", "verify"), "the chain holds")
		text := s.done("audit", "list")
		require.Contains(t, text, "grant:create")
		require.Contains(t, text, "space two")
		rows := decoded[struct{ Rows []audit.Row }](s, "audit", "list", "-n", "1").Rows
		require.Len(t, rows, 1)
		require.Equal(t, "two", rows[0].TargetID)
		s.refused(exitUsage, []string{"--lines is 1 to"}, "audit", "list", "-n", "0")

		t.Run("ES-3.3 a row that was changed is named", func(t *testing.T) {
			require.NoError(t, db.DB.Write(t.Context(), nil, func(tx storage.Tx) error {
				return tx.Exec(`UPDATE audit SET target_id = 'x' WHERE seq = $1`, before+1)
			}))
			got := s.call("audit", "verify")
			require.Equal(t, exitFailed, got.code)
			require.Contains(t, got.errs, "row 1: the row is not the one that was written")
			got = s.call("audit", "verify", "--json")
			require.Equal(t, exitFailed, got.code)
			require.Contains(t, got.out, `"broken": 1`)
		})
	})
}
