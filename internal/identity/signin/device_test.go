package signin_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/identity/signin"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func approval(o *signin.Options) { o.Auth.RequireDeviceApproval = true }

func TestDeviceApproval(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db.DB, approval)
		w.person(t, "owner")
		ada := w.person(t, "ada")
		first := newClient(t).login(w, "ada")
		require.Equal(t, wire.DeviceActive, first.answer.Device.State)

		t.Run("WS-ID-3 the second device waits: its own state, refresh and logout only", func(t *testing.T) {
			c := newClient(t).login(w, "ada")
			require.Equal(t, wire.DevicePending, c.answer.Device.State)
			_, err := c.ask(w)
			requireFault(t, err, code.DevicePending)
			_, err = c.connect(w)
			require.Equal(t, code.CloseDevicePending, signin.CloseCode(err))
			r := c.request(w, c.answer.AccessToken)
			r.AllowPending = true
			caller, err := w.Authenticate(t.Context(), r)
			require.NoError(t, err)
			require.True(t, caller.Pending)
			device, err := w.people.WorkspaceDevice(t.Context(), caller.Caller, c.device.ID)
			require.NoError(t, err)
			require.Equal(t, wire.DevicePending, device.State)
			c.keep(c.refresh(w))
			require.Equal(t, wire.DevicePending, c.answer.Device.State)

			approved, err := w.people.ApproveDevice(t.Context(), first.caller(w), c.device.ID)
			require.NoError(t, err)
			require.Equal(t, wire.DeviceActive, approved.State)
			_, err = c.ask(w)
			require.NoError(t, err, "the cached state is dropped at once")
			_, err = w.people.ApproveDevice(t.Context(), first.caller(w), c.device.ID)
			require.NoError(t, err, "again is no error")
			require.NoError(t, w.Logout(t.Context(), c.caller(w)))
		})
		t.Run("WS-ID-3 the operator approves too, others do not", func(t *testing.T) {
			c := newClient(t).login(w, "ada")
			stranger := newClient(t).login(w, "owner")
			_, err := w.people.ApproveDevice(t.Context(), stranger.caller(w), c.device.ID)
			requireFault(t, err, code.NotFound)
			old := first.caller(w)
			old.AuthTime = time.Now().Add(-time.Hour)
			_, err = w.people.ApproveDevice(t.Context(), old, c.device.ID)
			requireFault(t, err, code.StepUpRequired)
			_, err = w.people.ApproveDevice(t.Context(), identity.Operator(), c.device.ID)
			require.NoError(t, err)
			require.NoError(t, w.people.RevokeDevice(t.Context(), identity.Operator(), c.device.ID))
			_, err = w.people.ApproveDevice(t.Context(), identity.Operator(), c.device.ID)
			requireFault(t, err, code.Conflict)
		})
		t.Run("WS-ID-3 a device seen on Shared Sessions first is not approved by it", func(t *testing.T) {
			c := newClient(t)
			require.NoError(t, w.people.Touch(t.Context(), identity.Principal{UserID: ada}, identity.Device{ID: c.device.ID, Platform: "cli"}))
			c.login(w, "ada")
			require.Equal(t, wire.DevicePending, c.answer.Device.State)
		})
		t.Run("WS-ID-3 of many first devices at once one is active", func(t *testing.T) {
			w.person(t, "eva")
			clients := make([]*client, 6)
			codes := make([]string, len(clients))
			for i := range clients {
				clients[i], codes[i] = newClient(t), w.code(t, "eva")
			}
			var group sync.WaitGroup
			for i, c := range clients {
				group.Go(func() {
					answer, err := c.call(w, wire.TokenRequest{GrantType: wire.GrantLoginCode, Code: codes[i]})
					if err != nil {
						t.Error(err)
					}
					c.answer = answer
				})
			}
			group.Wait()
			active := 0
			for _, c := range clients {
				if c.answer.Device.State == wire.DeviceActive {
					active++
				}
			}
			require.Equal(t, 1, active)
		})
		t.Run("WS-ID-3 another key is approved like another device", func(t *testing.T) {
			stolen := first.rekeyed().login(w, "ada")
			require.Equal(t, wire.DevicePending, stolen.answer.Device.State)
		})
	})
}

func TestDevices(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db.DB)
		w.person(t, "owner")
		ada := w.person(t, "ada")
		w.person(t, "bob")

		t.Run("WS-ID-3 a foreign id is forbidden", func(t *testing.T) {
			c := newClient(t).login(w, "ada")
			_, err := c.call(w, wire.TokenRequest{GrantType: wire.GrantLoginCode, Code: w.code(t, "bob")})
			requireFault(t, err, code.Forbidden)
			other := newClient(t)
			require.NoError(t, w.people.Touch(t.Context(), identity.Principal{UserID: ada}, identity.Device{ID: other.device.ID, Platform: "cli"}))
			_, err = other.call(w, wire.TokenRequest{GrantType: wire.GrantLoginCode, Code: w.code(t, "bob")})
			requireFault(t, err, code.Forbidden)
		})
		t.Run("WS-ID-3 a new key takes a full login and ends earlier sign-ins", func(t *testing.T) {
			c := newClient(t).login(w, "ada")
			again := c.rekeyed()
			_, err := again.refreshWith(w, c.answer.RefreshToken)
			requireFault(t, err, code.InvalidCredentials)
			_, err = c.ask(w)
			require.NoError(t, err)
			again.login(w, "ada")
			require.Equal(t, wire.DeviceActive, again.answer.Device.State)
			_, err = c.ask(w)
			require.True(t, signin.Revoked(err), "%v", err)
			_, err = c.refresh(w)
			require.True(t, signin.Revoked(err), "%v", err)
			_, err = again.ask(w)
			require.NoError(t, err)
			device, err := w.people.WorkspaceDevice(t.Context(), again.caller(w), c.device.ID)
			require.NoError(t, err)
			require.Equal(t, again.thumbprint(), device.DPoPJKT)
		})
		t.Run("WS-ID-3 a revoked id is refused on both surfaces, whichever revoked it", func(t *testing.T) {
			for _, revoke := range []func(c *client) error{
				func(c *client) error { return w.people.RevokeDevice(t.Context(), c.caller(w), c.device.ID) },
				func(c *client) error {
					_, err := w.people.DeleteDevice(t.Context(), identity.Principal{UserID: ada}, "", c.device.ID)
					return err
				},
			} {
				c := newClient(t).login(w, "ada")
				touch := func() error {
					return w.people.Touch(t.Context(), identity.Principal{UserID: ada}, identity.Device{ID: c.device.ID, Platform: "cli"})
				}
				require.NoError(t, touch())
				require.NoError(t, revoke(c))
				_, err := c.ask(w)
				require.True(t, signin.Revoked(err), "%v", err)
				_, err = c.connect(w)
				require.Equal(t, code.CloseRevoked, signin.CloseCode(err))
				_, err = c.refresh(w)
				require.True(t, signin.Revoked(err), "%v", err)
				_, err = c.call(w, wire.TokenRequest{GrantType: wire.GrantLoginCode, Code: w.code(t, "ada")})
				requireFault(t, err, code.Forbidden)
				_, err = c.rekeyed().call(w, wire.TokenRequest{GrantType: wire.GrantLoginCode, Code: w.code(t, "ada")})
				requireFault(t, err, code.Forbidden)
				requireFault(t, touch(), code.Forbidden)
				require.NoError(t, w.people.RevokeDevice(t.Context(), identity.Operator(), c.device.ID), "again is no error")
				require.EqualValues(t, 1, w.number(t, `SELECT count(*) FROM event_log WHERE type = 'device.updated' AND resource_id = $1 AND payload LIKE '%revoked%'`, c.device.ID))
			}
		})
		t.Run("WS-ID-3 devices are listed without revoked ones and those of Shared Sessions only", func(t *testing.T) {
			w.person(t, "eva")
			c, gone := newClient(t).login(w, "eva"), newClient(t).login(w, "eva")
			require.NoError(t, w.people.RevokeDevice(t.Context(), c.caller(w), gone.device.ID))
			require.NoError(t, w.people.Touch(t.Context(), identity.Principal{UserID: c.answer.Principal.ID}, identity.Device{ID: testkit.Env().NewID(), Platform: "cli"}))
			devices, err := w.people.WorkspaceDevices(t.Context(), c.answer.Principal.ID)
			require.NoError(t, err)
			require.Len(t, devices, 1)
			require.Equal(t, []string{c.device.ID, "laptop", "linux"}, []string{devices[0].ID, devices[0].Name, devices[0].Platform})
			_, err = w.people.WorkspaceDevice(t.Context(), newClient(t).login(w, "bob").caller(w), c.device.ID)
			requireFault(t, err, code.NotFound)
			_, err = w.people.WorkspaceDevice(t.Context(), c.caller(w), "x")
			requireFault(t, err, code.NotFound)
		})
		t.Run("a device has ten sign-ins at most", func(t *testing.T) {
			c := newClient(t).login(w, "bob")
			first := c.answer
			for range 10 {
				c.login(w, "bob")
			}
			_, err := c.askWith(w, first.AccessToken)
			require.True(t, signin.Revoked(err))
			require.EqualValues(t, 10, w.number(t, `SELECT count(*) FROM sign_ins WHERE device_id = $1 AND revoked_at IS NULL`, c.device.ID))
		})
	})
}

func TestRevocation(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w, other := newWorld(t, db.DB), newWorld(t, db.DB)
		w.person(t, "owner")
		w.person(t, "ada")
		alive := func(c *client) bool {
			many, err := storage.Read(t.Context(), db.DB, func(tx storage.Tx) ([]bool, error) {
				credential := signin.Credential{Principal: c.answer.Principal.ID, Device: c.device.ID, SignIn: c.answer.SessionID}
				strange := credential
				strange.Device = testkit.Env().NewID()
				return signin.CredentialsAlive(tx, []signin.Credential{strange, credential, {}})
			})
			require.NoError(t, err)
			require.Equal(t, []bool{false, false}, []bool{many[0], many[2]})
			return many[1]
		}
		ended := func(c *client, want code.Close) {
			t.Helper()
			require.False(t, alive(c))
			_, err := c.connect(w)
			require.Equal(t, want, signin.CloseCode(err), "%v", err)
			other.clock.pass(time.Second) // its wake-up was lost
			_, err = c.connect(other)
			require.Equal(t, want, signin.CloseCode(err), "%v", err)
		}
		living := func() *client {
			c := newClient(t).login(w, "ada")
			for _, node := range []*world{w, other} {
				_, err := c.ask(node)
				require.NoError(t, err)
			}
			require.True(t, alive(c))
			return c
		}
		t.Run("ES-8.5 logout", func(t *testing.T) {
			c := living()
			by := c.caller(w)
			require.NoError(t, w.Logout(t.Context(), by))
			require.NoError(t, w.Logout(t.Context(), by), "again is no error")
			ended(c, code.CloseRevoked)
		})
		t.Run("ES-8.2 the eleventh sign-in of a device ends its first one, and raises the permission version", func(t *testing.T) {
			c := living()
			first := c.caller(w)
			version := func() int64 {
				state, err := storage.Read(t.Context(), db.DB, eventlog.StateOf)
				require.NoError(t, err)
				return state.PermissionVersion
			}
			before := version()
			for range 9 {
				c.login(w, "ada")
			}
			require.Equal(t, before, version(), "a sign-in that is only new changes nothing")
			c.login(w, "ada")
			require.Equal(t, before+1, version())
			_, err := storage.Read(t.Context(), db.DB, func(tx storage.Tx) (*authz.Snapshot, error) { return authz.LoadCaller(tx, first) })
			requireFault(t, err, code.InvalidToken)
		})
		t.Run("ES-8.5 the device", func(t *testing.T) {
			c := living()
			require.NoError(t, w.people.RevokeDevice(t.Context(), c.caller(w), c.device.ID))
			ended(c, code.CloseRevoked)
		})
		t.Run("WS-8 after a restore everybody signs in again: 4004, so that local data stays", func(t *testing.T) {
			c := living()
			unused := w.code(t, "ada")
			err := db.DB.Write(t.Context(), []storage.Key{storage.ChangePermissions}, func(tx storage.Tx) error {
				_, err := signin.EndAllSignIns(tx, testkit.Env())
				return err
			})
			require.NoError(t, err)
			w.clock.pass(time.Second)
			ended(c, code.CloseAuthentication)
			_, err = c.refresh(w)
			requireFault(t, err, code.InvalidCredentials)
			_, err = c.call(w, wire.TokenRequest{GrantType: wire.GrantLoginCode, Code: unused})
			requireFault(t, err, code.InvalidCredentials)
		})
		t.Run("ES-8.5 the person", func(t *testing.T) {
			c := living()
			require.NoError(t, w.people.DisableUser(t.Context(), "ada"))
			ended(c, code.CloseRevoked)
			_, err := c.password(w, "ada", "password of ada")
			requireFault(t, err, code.InvalidCredentials)
			_, err = w.MakeLoginCode(t.Context(), "ada")
			requireFault(t, err, code.Conflict)
			require.NoError(t, w.people.EnableUser(t.Context(), "ada"))
			ended(c, code.CloseRevoked)
			_, err = c.password(w, "ada", "password of ada")
			require.NoError(t, err)
		})
	})
}
