package identity_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
)

func TestAddUser(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db.DB)
		email := " Ada@Example.org "
		ada, err := w.AddUser(t.Context(), "ada", &email)
		require.NoError(t, err)
		_, err = w.AddUser(t.Context(), strings.Repeat("ă", 200), nil)
		require.NoError(t, err, "a name at the limit")

		users, err := w.ListUsers(t.Context())
		require.NoError(t, err)
		require.Len(t, users, 2)
		require.Equal(t, []any{ada.UserID, "ada", "ada@example.org", 1}, []any{users[0].ID, users[0].Name, *users[0].Email, users[0].LiveKeys})
		require.Nil(t, users[1].Email)

		same := "ADA@example.ORG"
		for name, email := range map[string]*string{
			"ada": nil, "": nil, "   ": nil, strings.Repeat("ă", 201): nil, "a\nb": nil, "a\x00b": nil, "\xff": nil,
			testkit.Env().NewID(): nil, "eva": &same, "no at": pointer("example.org"), "two": pointer("a@b@c"),
			"display": pointer("Ada <ada2@example.org>"), "blank": pointer(""),
		} {
			_, err := w.AddUser(t.Context(), name, email)
			requireFault(t, err, code.BadRequest)
		}
	})
}

func pointer[T any](value T) *T { return &value }

func TestOneNameOneUser(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db.DB)
		results := make([]error, 20)
		var group sync.WaitGroup
		for i := range results {
			group.Go(func() { _, results[i] = w.AddUser(t.Context(), "ada", nil) })
		}
		group.Wait()
		added := 0
		for _, err := range results {
			if err == nil {
				added++
			} else {
				require.True(t, fault.Is(err, code.BadRequest), "%v", err)
			}
		}
		require.Equal(t, 1, added)
		require.EqualValues(t, 1, w.number(t, `SELECT count(*) FROM api_keys`), "the others left no key")
	})
}

func TestKeysOfAUser(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db.DB)
		ada, first := w.user(t, "ada")
		w.user(t, "bob")
		byName, err := w.AddKey(t.Context(), "ada", "laptop")
		require.NoError(t, err)
		byID, err := w.AddKey(t.Context(), strings.ToUpper(ada.UserID), "")
		require.NoError(t, err)
		for _, key := range []string{first, byName.APIKey, byID.APIKey} {
			got, err := w.Authenticate(t.Context(), key)
			require.NoError(t, err)
			require.Equal(t, ada.UserID, got.UserID)
		}
		keys, err := w.ListKeys(t.Context(), "ada")
		require.NoError(t, err)
		require.Len(t, keys, 3)
		require.Equal(t, []any{byName.KeyID, "laptop", byName.APIKey[45:], "ada"}, []any{keys[1].ID, keys[1].Label, keys[1].Hint, keys[1].UserName})
		everybody, err := w.ListKeys(t.Context(), "")
		require.NoError(t, err)
		require.Len(t, everybody, 4)
		shown, err := json.Marshal(everybody)
		require.NoError(t, err)
		require.NotContains(t, string(shown), "hash")

		t.Run("SS-ROLE-2 a revoked key is refused at once, the others stay", func(t *testing.T) {
			w.wakes.take()
			require.NoError(t, w.RevokeKey(t.Context(), byName.KeyID))
			require.Contains(t, w.wakes.take(), signal.Wake{Topic: signal.Identity})
			_, err := w.Authenticate(t.Context(), byName.APIKey)
			requireFault(t, err, code.InvalidAPIKey)
			_, err = w.Authenticate(t.Context(), first)
			require.NoError(t, err)
			require.NoError(t, w.RevokeKey(t.Context(), byName.KeyID), "again is no error")
		})
		requireFault(t, w.RevokeKey(t.Context(), "nobody's"), code.NotFound)
		_, err = w.AddKey(t.Context(), "nobody", "x")
		requireFault(t, err, code.NotFound)
		_, err = w.AddKey(t.Context(), "ada", strings.Repeat("x", 201))
		requireFault(t, err, code.BadRequest)
		_, err = w.ListKeys(t.Context(), "nobody")
		requireFault(t, err, code.NotFound)
	})
}

func TestDisableUser(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db.DB)
		bob, _ := w.user(t, "bob")
		ada, key := w.user(t, "ada")
		open, closed := w.session(t, bob.UserID, ""), w.session(t, ada.UserID, "")
		w.present(t, open, testkit.Env().RandomID(), ada.UserID, time.Minute)
		w.wakes.take()
		require.NoError(t, w.DisableUser(t.Context(), "ada"))

		t.Run("SS-ROLE-2 a disabled user is shut out and its sessions are looked at anew", func(t *testing.T) {
			_, err := w.Authenticate(t.Context(), key)
			requireFault(t, err, code.InvalidAPIKey)
			require.EqualValues(t, 1, w.number(t, `SELECT access_version FROM sessions WHERE id = $1`, open))
			require.Zero(t, w.number(t, `SELECT access_version FROM sessions WHERE id = $1`, closed))
			heard := w.wakes.take()
			require.Contains(t, heard, signal.Wake{Topic: signal.Identity})
			require.Contains(t, heard, signal.Wake{Topic: signal.Session, ID: open})
		})
		_, err := w.AddKey(t.Context(), "ada", "x")
		requireFault(t, err, code.BadRequest)
		before := w.number(t, `SELECT disabled_at FROM users WHERE id = $1`, ada.UserID)
		require.NoError(t, w.DisableUser(t.Context(), ada.UserID), "again is no error")
		require.Equal(t, before, w.number(t, `SELECT disabled_at FROM users WHERE id = $1`, ada.UserID))
		requireFault(t, w.DisableUser(t.Context(), "nobody"), code.NotFound)
	})
}

func TestAlive(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db.DB)
		ada, _ := w.user(t, "ada")
		bob, _ := w.user(t, "bob")
		d := device()
		require.NoError(t, w.Touch(t.Context(), ada, d))
		second, err := w.AddKey(t.Context(), "ada", "second")
		require.NoError(t, err)
		alive := func(key, user, device string) bool {
			holds, err := w.Alive(t.Context(), key, user, device)
			require.NoError(t, err)
			return holds
		}
		require.True(t, alive(ada.KeyID, ada.UserID, d.ID))
		require.True(t, alive(ada.KeyID, ada.UserID, ""))
		require.False(t, alive(bob.KeyID, ada.UserID, d.ID))
		require.False(t, alive(bob.KeyID, bob.UserID, d.ID), "the device is another's")
		require.False(t, alive("", "", ""))

		many, err := storage.Read(t.Context(), w.db.DB, func(tx storage.Tx) ([]bool, error) {
			return identity.AliveIn(tx, []identity.Credential{
				{ada.KeyID, ada.UserID, d.ID}, {bob.KeyID, bob.UserID, d.ID}, {second.KeyID, ada.UserID, d.ID}, {bob.KeyID, bob.UserID, ""},
			})
		})
		require.NoError(t, err)
		require.Equal(t, []bool{true, false, true, true}, many)

		t.Run("SS-ROLE-2 key revoked", func(t *testing.T) {
			require.NoError(t, w.RevokeKey(t.Context(), second.KeyID))
			require.False(t, alive(second.KeyID, ada.UserID, d.ID))
			require.True(t, alive(ada.KeyID, ada.UserID, d.ID))
		})
		t.Run("SS-ROLE-2 device deleted", func(t *testing.T) {
			_, err := w.DeleteDevice(t.Context(), ada, "", d.ID)
			require.NoError(t, err)
			require.False(t, alive(ada.KeyID, ada.UserID, d.ID))
			require.True(t, alive(ada.KeyID, ada.UserID, ""))
		})
		t.Run("SS-ROLE-2 user disabled", func(t *testing.T) {
			require.NoError(t, w.DisableUser(t.Context(), "bob"))
			require.False(t, alive(bob.KeyID, bob.UserID, ""))
		})
	})
}

func TestLookupsInsideATransaction(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db.DB)
		w.user(t, "owner")
		email := "ada@example.org"
		ada, err := w.AddUser(t.Context(), "ada", &email)
		require.NoError(t, err)
		d := device()
		require.NoError(t, w.Touch(t.Context(), identity.Principal{UserID: ada.UserID}, d))
		look := func(wantUser bool) {
			require.NoError(t, db.DB.Read(t.Context(), func(tx storage.Tx) error {
				exists, err := identity.UserExists(tx, ada.UserID)
				require.NoError(t, err)
				require.Equal(t, wantUser, exists)
				id, found, err := identity.UserByEmail(tx, "  ADA@example.org")
				require.NoError(t, err)
				require.Equal(t, wantUser, found)
				require.Equal(t, wantUser, id == ada.UserID)
				for _, nobody := range []string{"", "x", "eva@example.org"} {
					_, found, err = identity.UserByEmail(tx, nobody)
					require.NoError(t, err)
					require.False(t, found)
				}
				return nil
			}))
		}
		look(true)
		require.NoError(t, w.DisableUser(t.Context(), "ada"))
		look(false)
	})
}
