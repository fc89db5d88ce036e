package identity_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// only answers the one device of a user.
func (w *world) only(t *testing.T, p identity.Principal) wire.Device {
	t.Helper()
	devices, err := w.ListDevices(t.Context(), p.UserID)
	require.NoError(t, err)
	require.Len(t, devices, 1)
	return devices[0]
}

func (w *world) token(t *testing.T, deviceID string) string {
	t.Helper()
	token, err := storage.Read(t.Context(), w.db.DB, func(tx storage.Tx) (string, error) {
		var token *string
		_, err := tx.Get(`SELECT push_token FROM devices WHERE id = $1`, []any{deviceID}, &token)
		if token == nil {
			return "", err
		}
		return *token, err
	})
	require.NoError(t, err)
	return token
}

func TestFirstSight(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db.DB)
		for _, c := range []struct {
			rule           string
			platform, name string
			want           wire.Device
		}{
			{"SS-DEV-0 platform and name", "ios", "Ada's phone", wire.Device{Platform: "ios", Name: "Ada's phone"}},
			{"SS-DEV-0 default name", "web", "", wire.Device{Platform: "web", Name: "web device"}},
			{"SS-DEV-0 any other platform is agent", "toaster", "", wire.Device{Platform: "agent", Name: "agent device"}},
			{"SS-DEV-0 no platform is agent", "", "x", wire.Device{Platform: "agent", Name: "x"}},
			{"SS-OBJ-2 a name at the limit", "cli", strings.Repeat("ă", 120), wire.Device{Platform: "cli", Name: strings.Repeat("ă", 120)}},
			{"SS-OBJ-2 a name past it is cut", "cli", strings.Repeat("ă", 121), wire.Device{Platform: "cli", Name: strings.Repeat("ă", 120)}},
		} {
			t.Run(c.rule, func(t *testing.T) {
				p, _ := w.user(t, c.rule)
				d := identity.Device{ID: testkit.Env().RandomID(), Platform: c.platform, Name: c.name}
				require.NoError(t, w.Touch(t.Context(), p, d))
				got := w.only(t, p)
				require.Equal(t, []any{d.ID, c.want.Platform, c.want.Name, []string{}, false},
					[]any{got.ID, got.Platform, got.Name, got.Capabilities, got.HasPushToken})
				require.Equal(t, got.CreatedAt, got.LastSeenAt)
				require.True(t, *got.Online)

				require.NoError(t, w.Touch(t.Context(), p, identity.Device{ID: d.ID, Platform: "desktop", Name: "renamed"}))
				again := w.only(t, p)
				require.Equal(t, got.Name, again.Name, "used at the first registration only")
				require.Equal(t, got.Platform, again.Platform)
			})
		}
	})
}

func TestConcurrentFirstRequests(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w, other := newWorld(t, db.DB), newWorld(t, db.DB)
		ada, _ := w.user(t, "ada")
		bob, _ := w.user(t, "bob")

		t.Run("SS-DEV-1 concurrent first requests register one row", func(t *testing.T) {
			d := device()
			var group sync.WaitGroup
			for i := range 20 {
				node := []*world{w, other}[i%2]
				group.Go(func() { require.NoError(t, node.Touch(t.Context(), ada, d)) })
			}
			group.Wait()
			require.EqualValues(t, 1, w.number(t, `SELECT count(*) FROM devices WHERE id = $1`, d.ID))
		})
		t.Run("SS-DEV-1 of two accounts one gets the id", func(t *testing.T) {
			for range 5 {
				d := device()
				results := make([]error, 20)
				var group sync.WaitGroup
				for i := range results {
					node, p := []*world{w, other}[i%2], []identity.Principal{ada, bob}[i/2%2]
					group.Go(func() { results[i] = node.Touch(t.Context(), p, d) })
				}
				group.Wait()
				refused := 0
				for _, err := range results {
					if err != nil {
						requireFault(t, err, code.Forbidden)
						require.ErrorContains(t, err, "Device id is registered to another account.")
						refused++
					}
				}
				require.Equal(t, len(results)/2, refused)
			}
		})
	})
}

func TestForeignDevice(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w, fresh := newWorld(t, db.DB), newWorld(t, db.DB)
		ada, _ := w.user(t, "ada")
		bob, _ := w.user(t, "bob")
		d := device()
		require.NoError(t, w.Touch(t.Context(), ada, d))

		t.Run("SS-DEV-1 another account's id is refused, cached or not", func(t *testing.T) {
			requireFault(t, w.Touch(t.Context(), bob, d), code.Forbidden)
			requireFault(t, fresh.Touch(t.Context(), bob, d), code.Forbidden)
		})
		created := w.only(t, ada).CreatedAt
		_, err := w.DeleteDevice(t.Context(), ada, "", d.ID)
		require.NoError(t, err)
		t.Run("SS-DEV-1 a deleted id stays reserved to its user", func(t *testing.T) {
			requireFault(t, w.Touch(t.Context(), bob, d), code.Forbidden)
			requireFault(t, fresh.Touch(t.Context(), bob, d), code.Forbidden)
		})
		t.Run("SS-DEV-1 its user may register it again", func(t *testing.T) {
			again := identity.Device{ID: d.ID, Platform: "web", Name: "again", PushToken: "token-of-again"}
			require.NoError(t, w.Touch(t.Context(), ada, again))
			got := w.only(t, ada)
			require.Equal(t, "again", got.Name)
			require.Equal(t, wire.PlatformWeb, got.Platform)
			require.True(t, got.HasPushToken)
			require.False(t, got.CreatedAt.Before(created.Time))
		})
	})
}

func TestLastSeen(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db.DB)
		ada, _ := w.user(t, "ada")
		d := device()
		touch := func(times int) (writes int64) {
			before := w.db.writes.Load()
			for range times {
				require.NoError(t, w.Touch(t.Context(), ada, d))
			}
			return w.db.writes.Load() - before
		}
		t.Run("SS-DEV-0 at most one write per 10 s", func(t *testing.T) {
			require.EqualValues(t, 1, touch(50))
			w.clock.pass(10*time.Second - time.Millisecond)
			require.Zero(t, touch(50))
			w.clock.pass(time.Millisecond)
			require.EqualValues(t, 1, touch(50))
		})
		t.Run("SS-DEV-0 last seen is bumped by a request", func(t *testing.T) {
			w.exec(t, `UPDATE devices SET last_seen_at = last_seen_at - 10000000 WHERE id = $1`, d.ID)
			before := w.number(t, `SELECT last_seen_at FROM devices WHERE id = $1`, d.ID)
			w.clock.pass(10 * time.Second)
			require.EqualValues(t, 1, touch(1))
			require.Greater(t, w.number(t, `SELECT last_seen_at FROM devices WHERE id = $1`, d.ID), before+9_999_999)
		})
		t.Run("SS-DEV-0 another node's bump counts", func(t *testing.T) {
			before := w.number(t, `SELECT last_seen_at FROM devices WHERE id = $1`, d.ID)
			require.NoError(t, newWorld(t, db.DB).Touch(t.Context(), ada, d))
			require.Equal(t, before, w.number(t, `SELECT last_seen_at FROM devices WHERE id = $1`, d.ID))
		})
	})
}

func TestPushTokenUpsert(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db.DB)
		ada, _ := w.user(t, "ada")
		d := device()
		present := func(token string) {
			d.PushToken = token
			require.NoError(t, w.Touch(t.Context(), ada, d))
		}
		t.Run("SS-DEV-0 a push token is upserted by any request", func(t *testing.T) {
			present("first-token")
			require.Equal(t, "first-token", w.token(t, d.ID))
			present("second-token")
			require.Equal(t, "second-token", w.token(t, d.ID))
			present("")
			require.Equal(t, "second-token", w.token(t, d.ID), "no token says nothing")
			writes := w.db.writes.Load()
			present("second-token")
			require.Equal(t, writes, w.db.writes.Load(), "nothing new, nothing written")
		})
		t.Run("SS-DVC-1 a patched token is not taken for the presented one", func(t *testing.T) {
			patched := "third-token"
			_, err := w.PatchDevice(t.Context(), ada.UserID, d.ID, identity.DevicePatch{SetPushToken: true, PushToken: &patched})
			require.NoError(t, err)
			present("second-token")
			require.Equal(t, "second-token", w.token(t, d.ID))
		})
		t.Run("SS-DSP-3 clearing leaves a token that was renewed", func(t *testing.T) {
			clearIf := func(token string) {
				require.NoError(t, db.DB.Write(t.Context(), nil, func(tx storage.Tx) error {
					return identity.ClearPushToken(tx, d.ID, token)
				}))
			}
			clearIf("first-token")
			require.Equal(t, "second-token", w.token(t, d.ID))
			clearIf("second-token")
			require.Empty(t, w.token(t, d.ID))
		})
	})
}
