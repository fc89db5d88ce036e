package audit_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func write(t *testing.T, db storage.DB, entries ...audit.Entry) {
	t.Helper()
	for _, entry := range entries {
		require.NoError(t, db.Write(t.Context(), nil, func(tx storage.Tx) error {
			return audit.Write(tx, testkit.Env(), entry)
		}))
	}
}

func read(t *testing.T, db storage.DB, session, owner string) []wire.AuditEntry {
	t.Helper()
	entries, err := storage.Read(t.Context(), db, func(tx storage.Tx) ([]wire.AuditEntry, error) {
		return audit.OfSession(tx, session, owner, "")
	})
	require.NoError(t, err)
	return entries
}

func TestAudit(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		write(t, db.DB,
			audit.Entry{UserID: "ada", DeviceID: "d", Action: audit.SessionCreate, SessionID: "s", OwnerID: "ada", Detail: map[string]string{"session_key": "k"}},
			audit.Entry{UserID: "bob", Action: audit.Control, SessionID: "s", OwnerID: "ada"},
			audit.Entry{UserID: "eva", Action: audit.Control, SessionID: "other", OwnerID: "eva"},
			audit.Entry{UserID: "ada", Action: audit.OrgCreate, OrgID: "o"},
			audit.Entry{UserID: "ada", DeviceID: "d", Action: audit.SessionDelete, SessionID: "s", OwnerID: "ada"},
		)
		// There is no row of sessions: what is read here outlived its session.
		t.Run("SS-AUD-1 the owner reads who did what, newest first, also after the session is gone", func(t *testing.T) {
			entries := read(t, db.DB, "s", "ada")
			require.Len(t, entries, 3)
			require.Equal(t, []string{audit.SessionDelete, audit.Control, audit.SessionCreate},
				[]string{entries[0].Action, entries[1].Action, entries[2].Action})
			require.Equal(t, "bob", entries[1].UserID)
			require.Nil(t, entries[1].DeviceID)
			require.Nil(t, entries[1].OrgID)
			require.JSONEq(t, `{}`, string(entries[1].Detail))
			require.Equal(t, "d", *entries[2].DeviceID)
			require.Equal(t, "s", *entries[2].SessionID)
			require.JSONEq(t, `{"session_key":"k"}`, string(entries[2].Detail))
			require.False(t, entries[2].At.After(entries[0].At.Time))
		})
		t.Run("SS-AUD-1 nobody else does", func(t *testing.T) {
			require.Empty(t, read(t, db.DB, "s", "bob"))
			require.Empty(t, read(t, db.DB, "s", ""))
			require.Empty(t, read(t, db.DB, "never was", "ada"))
			encoded, err := json.Marshal(read(t, db.DB, "never was", "ada"))
			require.NoError(t, err)
			require.JSONEq(t, `[]`, string(encoded))
		})
	})
}

func TestOneReadingIsBounded(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		require.NoError(t, db.DB.Write(t.Context(), nil, func(tx storage.Tx) error {
			for i := range audit.MaxRows + 1 {
				entry := audit.Entry{UserID: "ada", Action: audit.Control, SessionID: "s", OwnerID: "ada", Detail: map[string]int{"n": i}}
				if err := audit.Write(tx, testkit.Env(), entry); err != nil {
					return err
				}
			}
			return nil
		}))
		entries := read(t, db.DB, "s", "ada")
		require.Len(t, entries, audit.MaxRows)
		require.JSONEq(t, fmt.Sprintf(`{"n":%d}`, audit.MaxRows), string(entries[0].Detail), "the oldest is left out")
	})
}

func TestDetailIsAnObject(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		for _, bad := range []any{"text", 1, []int{1}, (*struct{})(nil), func() {}} {
			require.Error(t, db.DB.Write(t.Context(), nil, func(tx storage.Tx) error {
				return audit.Write(tx, testkit.Env(), audit.Entry{UserID: "ada", Action: audit.Control, SessionID: "s", OwnerID: "ada", Detail: bad})
			}), "%T", bad)
		}
		require.Empty(t, read(t, db.DB, "s", "ada"))
	})
}
