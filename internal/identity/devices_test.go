package identity_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func TestListDevices(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db.DB)
		ada, _ := w.user(t, "ada")
		bob, _ := w.user(t, "bob")
		require.NoError(t, w.Touch(t.Context(), bob, device()))
		seen := func(ago time.Duration) string {
			d := device()
			require.NoError(t, w.Touch(t.Context(), ada, d))
			w.exec(t, `UPDATE devices SET last_seen_at = $2 WHERE id = $1`, d.ID, time.Now().Add(-ago))
			return d.ID
		}
		silent := seen(3 * time.Minute)
		streaming := seen(time.Hour)
		orphan := seen(2 * time.Hour)
		recent := seen(110 * time.Second)
		session := w.session(t, ada.UserID, "")
		w.present(t, session, streaming, ada.UserID, time.Minute)
		w.present(t, session, orphan, ada.UserID, -time.Minute)

		devices, err := w.ListDevices(t.Context(), ada.UserID)
		require.NoError(t, err)
		var order []string
		online := map[string]bool{}
		for _, d := range devices {
			order = append(order, d.ID)
			online[d.ID] = *d.Online
		}
		t.Run("SS-DVC-1 most recent first, nobody else's", func(t *testing.T) {
			require.Equal(t, []string{recent, silent, streaming, orphan}, order)
		})
		t.Run("SS-DVC-1 online: seen in the last 2 minutes or an open stream", func(t *testing.T) {
			require.Equal(t, map[string]bool{recent: true, silent: false, streaming: true, orphan: false}, online)
		})
	})
}

func TestPatchDevice(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db.DB)
		ada, _ := w.user(t, "ada")
		bob, _ := w.user(t, "bob")
		d := device()
		require.NoError(t, w.Touch(t.Context(), ada, d))
		patch := func(p identity.DevicePatch) wire.Device {
			got, err := w.PatchDevice(t.Context(), ada.UserID, d.ID, p)
			require.NoError(t, err)
			require.Nil(t, got.Online, "only the list shows it")
			return got
		}
		t.Run("SS-DVC-1 push token and capabilities", func(t *testing.T) {
			token, some, none := "patched-token", []string{"age1x", `quote " and <ă>`}, []string(nil)
			got := patch(identity.DevicePatch{SetPushToken: true, PushToken: &token, Capabilities: &some})
			require.True(t, got.HasPushToken)
			require.Equal(t, some, got.Capabilities)
			got = patch(identity.DevicePatch{Capabilities: &none})
			require.True(t, got.HasPushToken, "what is not named stays")
			require.Equal(t, []string{}, got.Capabilities)
			got = patch(identity.DevicePatch{SetPushToken: true})
			require.False(t, got.HasPushToken)
			require.Empty(t, w.token(t, d.ID))
		})
		t.Run("SS-DVC-1 a device of another account is 404", func(t *testing.T) {
			for _, id := range []string{d.ID, testkit.Env().RandomID(), "not-a-uuid", ""} {
				_, err := w.PatchDevice(t.Context(), bob.UserID, id, identity.DevicePatch{SetPushToken: true})
				requireFault(t, err, code.NotFound)
				_, err = w.DeleteDevice(t.Context(), bob, "", id)
				requireFault(t, err, code.NotFound)
			}
		})
	})
}

func TestDeleteDevice(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db.DB)
		ada, _ := w.user(t, "ada")
		bob, _ := w.user(t, "bob")
		d, by := device(), device()
		d.PushToken = "token-of-the-deleted"
		require.NoError(t, w.Touch(t.Context(), ada, d))
		require.NoError(t, w.Touch(t.Context(), ada, by))

		leased := w.session(t, ada.UserID, d.ID)
		open := w.session(t, bob.UserID, by.ID)
		both := w.session(t, ada.UserID, d.ID)
		untouched := w.session(t, ada.UserID, by.ID)
		for _, session := range []string{open, both, both} {
			w.present(t, session, d.ID, ada.UserID, time.Minute)
		}
		w.present(t, untouched, by.ID, ada.UserID, time.Minute)
		w.wakes.take()
		touched, err := w.DeleteDevice(t.Context(), ada, by.ID, d.ID)
		require.NoError(t, err)

		t.Run("SS-DVC-1 the leases it held are released", func(t *testing.T) {
			const released = `SELECT count(*) FROM sessions WHERE id = $1 AND lease_device_id IS NULL AND lease_expires_at IS NULL AND lease_revision = 1`
			const kept = `SELECT count(*) FROM sessions WHERE id = $1 AND lease_device_id = $2 AND lease_expires_at IS NOT NULL AND lease_revision = 0`
			require.EqualValues(t, 1, w.number(t, released, leased))
			require.EqualValues(t, 1, w.number(t, released, both))
			require.EqualValues(t, 1, w.number(t, kept, open, by.ID))
			require.EqualValues(t, 1, w.number(t, kept, untouched, by.ID))
		})
		t.Run("SS-ROLE-2 the sessions it had open change their access version", func(t *testing.T) {
			for session, want := range map[string]int64{leased: 0, open: 1, both: 1, untouched: 0} {
				require.Equal(t, want, w.number(t, `SELECT access_version FROM sessions WHERE id = $1`, session))
			}
			require.Zero(t, w.number(t, `SELECT count(*) FROM session_presence WHERE device_id = $1`, d.ID))
			require.EqualValues(t, 1, w.number(t, `SELECT count(*) FROM session_presence`))
		})
		t.Run("SS-FRM-1 each of them is woken", func(t *testing.T) {
			want := []string{leased, open, both}
			slices.Sort(want)
			require.Equal(t, want, touched)
			heard := w.wakes.take()
			require.Contains(t, heard, signal.Wake{Topic: signal.Identity})
			for _, session := range want {
				require.Contains(t, heard, signal.Wake{Topic: signal.Session, ID: session})
			}
			require.NotContains(t, heard, signal.Wake{Topic: signal.Session, ID: untouched})
		})
		t.Run("SS-DVC-1 it is gone, its push token too", func(t *testing.T) {
			require.Equal(t, by.ID, w.only(t, ada).ID)
			require.Empty(t, w.token(t, d.ID))
			_, err := w.DeleteDevice(t.Context(), ada, by.ID, d.ID)
			requireFault(t, err, code.NotFound)
			_, err = w.PatchDevice(t.Context(), ada.UserID, d.ID, identity.DevicePatch{SetPushToken: true})
			requireFault(t, err, code.NotFound)
		})
		t.Run("SS-AUD-1 device delete is written down once", func(t *testing.T) {
			requireDeleteAudited(t, db.DB, ada, by.ID, d.ID)
		})
	})
}

func requireDeleteAudited(t *testing.T, db storage.DB, by identity.Principal, byDevice, deleted string) {
	t.Helper()
	rows := 0
	require.NoError(t, db.Read(t.Context(), func(tx storage.Tx) error {
		return tx.Query(`SELECT user_id, device_id, action, detail FROM audit WHERE action = 'device:delete'`, nil, func(row storage.Row) error {
			var user, device, action, detail string
			err := row.Scan(&user, &device, &action, &detail)
			require.Equal(t, []string{by.UserID, byDevice, audit.DeviceDelete}, []string{user, device, action})
			var told map[string]string
			require.NoError(t, json.Unmarshal([]byte(detail), &told))
			require.Equal(t, map[string]string{"device_id": deleted}, told)
			rows++
			return err
		})
	}))
	require.Equal(t, 1, rows)
}
