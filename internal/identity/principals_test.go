package identity_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/idempotency"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
	wsp "github.com/cairnsync/cairn/wire/workspace"
)

// principal reads a principal.
func (w *world) principal(t *testing.T, id string) wsp.Principal {
	t.Helper()
	var principal wsp.Principal
	require.NoError(t, w.db.DB.Read(t.Context(), func(tx storage.Tx) error {
		read, found, err := identity.ReadPrincipal(tx, id)
		require.True(t, found)
		principal = read
		return err
	}))
	return principal
}

// caller is a person who proved who it is a moment ago.
func caller(userID string) authz.Caller {
	return authz.Caller{Principal: userID, Kind: wsp.KindUser, AuthTime: time.Now(), StepUpMaxAge: 15 * time.Minute}
}

func (w *world) owns(t *testing.T, id string) bool {
	t.Helper()
	return w.number(t, `SELECT count(*) FROM grants WHERE subject_id = $1 AND target_kind = 'instance' AND level = 'owner' AND revoked_at IS NULL`, id) == 1
}

func TestEveryUserIsAPrincipal(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db.DB)
		t.Run("WS-AZ-3 the first person added owns the instance, and is told", func(t *testing.T) {
			ada, _ := w.user(t, "Ada")
			bob, _ := w.user(t, "Bob")
			require.Equal(t, wsp.Principal{
				ID: ada.UserID, Kind: wsp.KindUser, Handle: "ada", DisplayName: "Ada", Status: wsp.StatusActive, Version: 1,
			}, w.principal(t, ada.UserID))
			require.True(t, w.owns(t, ada.UserID))
			require.False(t, w.owns(t, bob.UserID))
			require.EqualValues(t, 1, w.number(t, `SELECT count(*) FROM event_log WHERE type = 'access.changed' AND audience_principal_id = $1`, ada.UserID))
		})
		t.Run("WS-1 handles are unique and can be typed", func(t *testing.T) {
			for i, want := range []struct{ name, handle string }{
				{"Ștefan Țăranu", "stefan-taranu"}, {"ștefan țăranu", "stefan-taranu-2"}, {"STEFAN TARANU", "stefan-taranu-3"},
				{"\u674e\u96f7", "user"}, {"\u97e9\u6885\u6885", "user-2"}, {"x", "user-x"}, {"..dots..", "dots"}, {"a@b.example", "a-b.example"},
				{strings.Repeat("long ", 20), "long-long-long-long-long-long-lo"}, {strings.Repeat("long ", 21), "long-long-long-long-long-2"},
				{"stefan-taranu-2", "stefan-taranu-2-2"},
			} {
				added, _ := w.user(t, want.name)
				got := w.principal(t, added.UserID).Handle
				require.Equal(t, want.handle, got, "%d %s", i, want.name)
				require.Regexp(t, `^[a-z0-9][a-z0-9._-]{0,30}[a-z0-9]$`, got)
			}
		})
		t.Run("WS-1 many of one name at once", func(t *testing.T) {
			var group sync.WaitGroup
			for i := range 12 {
				group.Go(func() {
					if _, err := w.AddUser(t.Context(), "Eve"+strings.Repeat("!", i+1), nil); err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
			require.EqualValues(t, 12, w.number(t, `SELECT count(DISTINCT handle) FROM principals WHERE handle = 'eve' OR handle LIKE 'eve-%'`))
		})
	})
}

func TestPrincipals(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db.DB)
		ada, _ := w.user(t, "ada")
		bob, _ := w.user(t, "bob")
		by := caller(ada.UserID)
		text := func(s string) *string { return &s }

		t.Run("WS-AZ-7 owners add agents, apps and people", func(t *testing.T) {
			for kind, handle := range map[wsp.Kind]string{wsp.KindAgent: "claude", wsp.KindApp: "ci", wsp.KindUser: "eva"} {
				added, err := w.AddPrincipal(t.Context(), by, kind, wsp.NewPrincipal{Handle: handle, DisplayName: strings.ToUpper(handle)})
				require.NoError(t, err)
				require.Equal(t, added, w.principal(t, added.ID))
				_, err = w.AddPrincipal(t.Context(), by, kind, wsp.NewPrincipal{Handle: handle, DisplayName: "x"})
				requireFault(t, err, code.Conflict)
				_, err = w.AddPrincipal(t.Context(), caller(bob.UserID), kind, wsp.NewPrincipal{Handle: "other", DisplayName: "x"})
				require.Error(t, err)
				old := by
				old.AuthTime = time.Now().Add(-time.Hour)
				_, err = w.AddPrincipal(t.Context(), old, kind, wsp.NewPrincipal{Handle: "other", DisplayName: "x"})
				requireFault(t, err, code.StepUpRequired)
			}
			for _, bad := range []wsp.NewPrincipal{{Handle: "x", DisplayName: "x"}, {Handle: "Upper", DisplayName: "x"}, {Handle: "fine", DisplayName: " "}, {Handle: "-a", DisplayName: "x"}} {
				_, err := w.AddPrincipal(t.Context(), by, wsp.KindAgent, bad)
				requireFault(t, err, code.ValidationFailed)
			}
		})
		t.Run("ES-5.2 a repeat adds nobody twice", func(t *testing.T) {
			again := func() wsp.Principal {
				keyed := by
				keyed.Key = &idempotency.Key{Principal: ada.UserID, Method: "POST", Path: "/agents", ID: "01a22e3b-09e9-7343-8180-28aa2c4aa737", Hash: "h"}
				added, err := w.AddPrincipal(t.Context(), keyed, wsp.KindAgent, wsp.NewPrincipal{Handle: "once", DisplayName: "Once"})
				require.NoError(t, err)
				return added
			}
			first := again()
			require.Equal(t, first, again())
		})
		t.Run("WS-1 handle and name change with a version and an event", func(t *testing.T) {
			changed, err := w.PatchPrincipal(t.Context(), by, bob.UserID, nil, identity.PrincipalPatch{Handle: text("robert"), DisplayName: text("Robert")})
			require.NoError(t, err)
			require.Equal(t, []any{"robert", "Robert", int64(2)}, []any{changed.Handle, changed.DisplayName, changed.Version})
			require.Equal(t, changed, w.principal(t, bob.UserID))
			require.EqualValues(t, 1, w.number(t, `SELECT count(*) FROM event_log WHERE type = 'principal.updated' AND resource_id = $1 AND resource_version = 2`, bob.UserID))
			same, err := w.PatchPrincipal(t.Context(), by, bob.UserID, nil, identity.PrincipalPatch{Handle: text("robert")})
			require.NoError(t, err)
			require.EqualValues(t, 2, same.Version, "nothing changed")
			stale := int64(1)
			_, err = w.PatchPrincipal(t.Context(), by, bob.UserID, &stale, identity.PrincipalPatch{Handle: text("bob")})
			requireFault(t, err, code.VersionConflict)
			_, err = w.PatchPrincipal(t.Context(), by, bob.UserID, nil, identity.PrincipalPatch{Handle: text("ada")})
			requireFault(t, err, code.Conflict)
			_, err = w.PatchPrincipal(t.Context(), by, "x", nil, identity.PrincipalPatch{})
			requireFault(t, err, code.NotFound)
			_, err = w.PatchPrincipal(t.Context(), by, testkit.Env().NewID(), nil, identity.PrincipalPatch{})
			requireFault(t, err, code.NotFound)
			id, err := w.ResolvePerson(t.Context(), "@robert")
			require.NoError(t, err)
			require.Equal(t, bob.UserID, id)
		})
		t.Run("ES-8.5 disabling and enabling keep users and principals in step", func(t *testing.T) {
			version := w.number(t, `SELECT value FROM sequence_counters WHERE name = 'permission_version'`)
			disabled, err := w.DisablePrincipal(t.Context(), by, bob.UserID)
			require.NoError(t, err)
			require.Equal(t, wsp.StatusDisabled, disabled.Status)
			require.EqualValues(t, 1, w.number(t, `SELECT count(*) FROM users WHERE id = $1 AND disabled_at IS NOT NULL`, bob.UserID))
			require.Greater(t, w.number(t, `SELECT value FROM sequence_counters WHERE name = 'permission_version'`), version)
			again, err := w.DisablePrincipal(t.Context(), by, bob.UserID)
			require.NoError(t, err)
			require.Equal(t, disabled.Version, again.Version)
			enabled, err := w.EnablePrincipal(t.Context(), by, bob.UserID)
			require.NoError(t, err)
			require.Equal(t, wsp.StatusActive, enabled.Status)
			require.EqualValues(t, 1, w.number(t, `SELECT count(*) FROM users WHERE id = $1 AND disabled_at IS NULL`, bob.UserID))
			require.NoError(t, w.DisableUser(t.Context(), "bob"))
			require.Equal(t, wsp.StatusDisabled, w.principal(t, bob.UserID).Status)
			require.NoError(t, w.EnableUser(t.Context(), "bob"))
			require.Equal(t, wsp.StatusActive, w.principal(t, bob.UserID).Status)
		})
		t.Run("WS-AZ-3 the last owner stays", func(t *testing.T) {
			_, err := w.DisablePrincipal(t.Context(), by, ada.UserID)
			requireFault(t, err, code.LastOwner)
			requireFault(t, w.DisableUser(t.Context(), "ada"), code.LastOwner)
			require.Equal(t, wsp.StatusActive, w.principal(t, ada.UserID).Status)
		})
		listed, err := storage.Read(t.Context(), db.DB, func(tx storage.Tx) ([]wsp.Principal, error) {
			return identity.ListPrincipals(tx, []wsp.Kind{wsp.KindAgent, wsp.KindUser}, "claude", 2)
		})
		require.NoError(t, err)
		require.Equal(t, []string{"eva", "once"}, []string{listed[0].Handle, listed[1].Handle})
	})
}

// People who were there before there were handles get one that can be typed, and the first of them the instance.
func TestPeopleFromBefore(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db.DB)
		var people []string
		for i := range 3 {
			id := testkit.Env().NewID()
			people = append(people, id)
			name := "Ada" + strings.Repeat("!", i)
			w.exec(t, `INSERT INTO users (id, name, created_at) VALUES ($1, $2, $3)`, id, name, i)
			if i < 2 { // the third one was added by a server that knew no principals
				w.exec(t, `INSERT INTO principals (id, kind, handle, display_name, status, created_at) VALUES ($1, 'user', 'u-' || $1, $2, 'active', $3)`, id, name, i)
			}
		}
		fresh := identity.New(w.db, signal.NewLocal(), testkit.Env())
		require.NoError(t, fresh.Start(t.Context()))
		require.NoError(t, fresh.Stop(context.Background()))
		var handles []string
		for _, id := range people {
			handles = append(handles, w.principal(t, id).Handle)
		}
		require.Equal(t, []string{"ada", "ada-2", "ada-3"}, handles)
	})
}
