package workspace_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestProofs(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := servertest.Start(t, db, nil)
		ada, bob := s.Person(t, "ada"), s.Person(t, "bob")
		// ask sends GET me with a proof of one's own making.
		ask := func(p *servertest.Person, key servertest.Key, proof servertest.Proof) servertest.Answer {
			return bare(t, s, http.MethodGet, api+"/me", nil,
				servertest.Header{Name: "Authorization", Value: "DPoP " + p.Tokens().AccessToken},
				servertest.Header{Name: wire.HeaderDPoP, Value: key.Sign(t, proof)})
		}
		fine := func() servertest.Proof {
			ada.Do(t, http.MethodGet, api+"/me", nil)
			return servertest.Proof{Method: http.MethodGet, URL: s.URL + api + "/me", Nonce: ada.Nonce(), AccessToken: ada.Tokens().AccessToken}
		}
		t.Run("WS-ID-2 every answer brings a nonce", func(t *testing.T) {
			answer := ask(ada, ada.Key, fine())
			require.Equal(t, 200, answer.Status, "%s", answer.Body)
			require.NotEmpty(t, answer.Header.Get(wire.HeaderDPoPNonce))
			require.NotEmpty(t, ada.Do(t, http.MethodGet, api+"/spaces/"+servertest.NewID(), nil).Header.Get(wire.HeaderDPoPNonce), "a refusal too")
		})
		t.Run("WS-ID-2 a missing or foreign nonce", func(t *testing.T) {
			for _, nonce := range []string{"", "AAAA"} {
				proof := fine()
				proof.Nonce = nonce
				answer := ask(ada, ada.Key, proof)
				answer.Problem(t, 401, "use_dpop_nonce")
				require.NotEmpty(t, answer.Header.Get(wire.HeaderDPoPNonce))
				require.Contains(t, answer.Header.Get("WWW-Authenticate"), `DPoP error="use_dpop_nonce"`)
			}
		})
		t.Run("WS-ID-2 a replayed proof", func(t *testing.T) {
			proof := fine()
			proof.JTI = "the same"
			require.Equal(t, 200, ask(ada, ada.Key, proof).Status)
			ask(ada, ada.Key, proof).Problem(t, 401, "invalid_dpop_proof")
		})
		t.Run("WS-ID-2 a wrong clock of the client", func(t *testing.T) {
			for _, off := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
				proof := fine()
				proof.IssuedAt = time.Now().Add(off)
				require.Equal(t, 200, ask(ada, ada.Key, proof).Status, off)
			}
		})
		t.Run("WS-ID-2 a proof of something else", func(t *testing.T) {
			for name, change := range map[string]func(*servertest.Proof){
				"method": func(p *servertest.Proof) { p.Method = http.MethodPost },
				"path":   func(p *servertest.Proof) { p.URL = s.URL + api + "/spaces" },
				"host":   func(p *servertest.Proof) { p.URL = "http://chat.example.org" + api + "/me" },
				"token":  func(p *servertest.Proof) { p.AccessToken = bob.Tokens().AccessToken },
			} {
				proof := fine()
				change(&proof)
				answer := ask(ada, ada.Key, proof)
				answer.Problem(t, 401, "invalid_dpop_proof")
				require.NotEmpty(t, answer.Header.Get("WWW-Authenticate"), name)
			}
			ask(ada, servertest.NewKey(t), fine()).Problem(t, 401, "invalid_dpop_proof")
			ask(bob, ada.Key, fine()).Problem(t, 401, "invalid_dpop_proof")
		})
		t.Run("WS-ID-2 htu has no query", func(t *testing.T) {
			require.Equal(t, 200, ada.Do(t, http.MethodGet, api+"/spaces?limit=1", nil).Status)
		})
		t.Run("WS-ID-2 no token, and one of nobody", func(t *testing.T) {
			for _, value := range []string{"", "DPoP", "DPoP x.y.z", "Bearer nothing", "Basic YTpi", "DPoP " + ada.Tokens().AccessToken} {
				answer := bare(t, s, http.MethodGet, api+"/me", nil, servertest.Header{Name: "Authorization", Value: value})
				require.Equal(t, 401, answer.Status, value)
				require.NotEmpty(t, answer.Header.Get("WWW-Authenticate"), value)
			}
		})
	})
}

func TestPublicAddress(t *testing.T) {
	t.Parallel()
	const public = "https://chat.example.org"
	s := servertest.Start(t, testkit.New(t, testkit.SQLite), func(c *config.Config) { c.HTTP.PublicURL = public + "/" })
	user, err := s.Identity().AddUser(t.Context(), "ada", nil)
	require.NoError(t, err)
	code, err := s.Server.SignIn().MakeLoginCode(t.Context(), user.UserID)
	require.NoError(t, err)
	p := servertest.NewPerson(t, s.URL, "ada")
	request := wire.TokenRequest{GrantType: wire.GrantLoginCode, Code: code.Code, Device: p.Device()}
	t.Run("WS-ID-2 the public address counts, not the one of the request", func(t *testing.T) {
		p.Token(t, request).Problem(t, 401, "invalid_dpop_proof")
		p.Address = public
		require.Equal(t, 200, p.Token(t, request).Status)
		require.Equal(t, 200, p.Do(t, http.MethodGet, api+"/me?x=y", nil).Status)
	})
}

func TestDevicesWait(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := servertest.Start(t, db, func(c *config.Config) { c.Auth.RequireDeviceApproval = true })
		ada := s.Person(t, "ada")
		second := ada.Another(t, s)
		require.Equal(t, wire.DevicePending, second.Tokens().Device.State)
		t.Run("WS-ID-3 a pending device reaches itself, refresh and logout only", func(t *testing.T) {
			device := servertest.Read[wire.Device](t, second.Do(t, http.MethodGet, api+"/devices/"+second.DeviceID, nil), 200)
			require.Equal(t, wire.DevicePending, device.State)
			second.Do(t, http.MethodGet, api+"/devices/"+ada.DeviceID, nil).Problem(t, 403, "device_pending")
			for _, path := range []string{"/me", "/devices", "/spaces", "/sync/snapshot", "/events?after=0"} {
				second.Do(t, http.MethodGet, api+path, nil).Problem(t, 403, "device_pending")
			}
			second.Do(t, http.MethodPost, api+"/devices/"+second.DeviceID+"/approve", nil).Problem(t, 403, "device_pending")
			require.Equal(t, 200, second.Refresh(t).Status)
			third := ada.Another(t, s)
			require.Equal(t, 204, third.Do(t, http.MethodPost, api+"/auth/logout", nil).Status)
			require.Equal(t, 401, third.Do(t, http.MethodGet, api+"/devices/"+third.DeviceID, nil).Status)
		})
		t.Run("WS-ID-3 an active device approves", func(t *testing.T) {
			approved := servertest.Read[wire.Device](t, ada.Do(t, http.MethodPost, api+"/devices/"+second.DeviceID+"/approve", nil), 200)
			require.Equal(t, wire.DeviceActive, approved.State)
			require.Equal(t, 200, second.Do(t, http.MethodGet, api+"/me", nil).Status)
		})
		t.Run("WS-ID-3 a revoked device is out at once", func(t *testing.T) {
			require.Equal(t, 204, ada.Do(t, http.MethodDelete, api+"/devices/"+second.DeviceID, nil).Status)
			second.Do(t, http.MethodGet, api+"/me", nil).Problem(t, 401, "invalid_token")
			require.Equal(t, 204, ada.Do(t, http.MethodDelete, api+"/devices/"+second.DeviceID, nil).Status, "again is no error")
		})
	})
}

func TestStepUp(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := servertest.Start(t, db, func(c *config.Config) { c.Auth.StepUpMaxAge = time.Nanosecond })
		ada, bob := s.Person(t, "ada"), s.Person(t, "bob")
		calls := map[string]func(p *servertest.Person) servertest.Answer{
			"groups": func(p *servertest.Person) servertest.Answer {
				return p.Do(t, http.MethodPost, api+"/groups", wire.NewGroup{Name: "g"})
			},
			"login codes": func(p *servertest.Person) servertest.Answer { return p.Do(t, http.MethodPost, api+"/login-codes", nil) },
			"devices": func(p *servertest.Person) servertest.Answer {
				return p.Do(t, http.MethodDelete, api+"/devices/"+p.DeviceID, nil)
			},
			"people": func(p *servertest.Person) servertest.Answer {
				return p.Do(t, http.MethodPost, api+"/users", wire.NewPrincipal{Handle: "cy", DisplayName: "Cy"})
			},
			"grants": func(p *servertest.Person) servertest.Answer {
				return p.Do(t, http.MethodPost, api+"/grants", wire.NewGrant{
					Subject: wire.Subject{Kind: wire.SubjectPrincipal, ID: bob.ID}, Target: wire.Target{Kind: wire.TargetInstance}, Level: wire.LevelRead,
				})
			},
		}
		for name, call := range calls {
			t.Run("WS-ID-5 "+name, func(t *testing.T) { call(ada).Problem(t, 403, "step_up_required") })
		}
		t.Run("WS-AZ-5 forbidden before step-up", func(t *testing.T) { calls["people"](bob).Problem(t, 403, "forbidden") })
	})
}

func TestRefresh(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := servertest.Start(t, db, nil)
		ada := s.Person(t, "ada")
		t.Run("WS-ID-1 a refresh token rotates and keeps the sign-in", func(t *testing.T) {
			before := ada.Tokens()
			require.Equal(t, 200, ada.Refresh(t).Status)
			require.NotEqual(t, before.RefreshToken, ada.Tokens().RefreshToken)
			require.Equal(t, before.SessionID, ada.Tokens().SessionID)
		})
		t.Run("WS-ID-1 Idempotency-Key means nothing here", func(t *testing.T) {
			body := []byte(`{"grant_type":"password","username":"ada","password":"wrong","device":{"id":"` + ada.DeviceID + `","name":"a","platform":"b"}}`)
			answer := bare(t, s, http.MethodPost, api+"/auth/token", nil, servertest.Once())
			answer.Problem(t, 400, "malformed_json")
			require.NotContains(t, string(ada.Do(t, http.MethodPost, api+"/auth/token", body, servertest.Once()).Body), "access_token")
		})
		t.Run("WS-ID-1 a password of one's own signs in", func(t *testing.T) {
			require.Equal(t, 204, ada.Do(t, http.MethodPut, api+"/me/password", map[string]string{"password": "correct horse battery"}).Status)
			other := servertest.NewPerson(t, s.URL, "ada")
			answer := other.Token(t, wire.TokenRequest{
				GrantType: wire.GrantPassword, Username: ada.Tokens().Principal.Handle, Password: "correct horse battery", Device: other.Device(),
			})
			require.Equal(t, 200, answer.Status, "%s", answer.Body)
			require.Equal(t, "no-store", answer.Header.Get("Cache-Control"))
			wrong := other.Token(t, wire.TokenRequest{
				GrantType: wire.GrantPassword, Username: ada.Tokens().Principal.Handle, Password: "wrong", Device: other.Device(),
			})
			wrong.Problem(t, 401, "invalid_credentials")
		})
		t.Run("ES-8.5 logout ends the sign-in at once", func(t *testing.T) {
			require.Equal(t, 204, ada.Do(t, http.MethodPost, api+"/auth/logout", struct{}{}).Status)
			ada.Do(t, http.MethodGet, api+"/me", nil).Problem(t, 401, "invalid_token")
		})
	})
}

func TestEvents(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := servertest.Start(t, db, func(c *config.Config) { c.Sync.CatchupMaxEvents = 50 })
		ada, bob := s.Person(t, "ada"), s.Person(t, "bob")
		space := ada.Space(t, "home")
		open, closed := ada.Channel(t, space.ID, "open"), ada.Channel(t, space.ID, "closed")
		ada.Grant(t, bob.ID, wire.TargetChannel, open.ID, wire.LevelRead)
		snapshot := servertest.Read[wire.Snapshot](t, bob.Do(t, http.MethodGet, api+"/sync/snapshot", nil), 200)
		require.Len(t, snapshot.Channels, 1)
		for range 3 {
			ada.Say(t, open.MainThreadID, "seen")
			ada.Say(t, closed.MainThreadID, "unseen")
		}
		t.Run("ES-7.4 the same events with the same rules", func(t *testing.T) {
			page := servertest.Read[wire.Events](t, bob.Do(t, http.MethodGet, api+"/events?limit=2&after="+number(snapshot.HeadSeq)+"&epoch="+snapshot.SyncEpoch, nil), 200)
			require.Len(t, page.Events, 2)
			require.Equal(t, snapshot.SyncEpoch, page.SyncEpoch)
			all := eventsAfter(t, bob, snapshot.HeadSeq)
			require.Len(t, all, 3)
			for _, event := range all {
				require.Equal(t, open.ID, event.Scope.ChannelID)
				require.Positive(t, event.Seq)
			}
		})
		t.Run("ES-7.3 why one has to load a snapshot", func(t *testing.T) {
			for query, reason := range map[string]string{
				"after=0&epoch=" + servertest.NewID():     "epoch_changed",
				"after=" + number(snapshot.HeadSeq+1_000): "cursor_ahead",
			} {
				problem := bob.Do(t, http.MethodGet, api+"/events?"+query, nil).Problem(t, 410, "resync_required")
				require.Equal(t, reason, problem.Reason)
				require.Positive(t, problem.HeadSeq)
				require.Equal(t, snapshot.SyncEpoch, problem.SyncEpoch)
			}
			for range 50 {
				ada.Say(t, open.MainThreadID, "more")
			}
			require.Equal(t, "too_far_behind", bob.Do(t, http.MethodGet, api+"/events?after=0", nil).Problem(t, 410, "resync_required").Reason)
		})
		t.Run("ES-7.4 a cursor is a number", func(t *testing.T) {
			for _, query := range []string{"", "after=", "after=-1", "after=x", "after=1&epoch=x", "after=1&limit=0"} {
				bob.Do(t, http.MethodGet, api+"/events?"+query, nil).Problem(t, 422, "validation_failed")
			}
		})
		t.Run("ES-8.3 after a removal it is not there", func(t *testing.T) {
			message := ada.Say(t, open.MainThreadID, "last")
			grants := servertest.Read[wire.Page[wire.Grant]](t, ada.Do(t, http.MethodGet, api+"/grants?subject_kind=principal&subject_id="+bob.ID, nil), 200)
			require.Len(t, grants.Items, 1)
			ada.Revoke(t, grants.Items[0].ID)
			bob.Do(t, http.MethodGet, api+"/messages/"+message.ID, nil).Problem(t, 404, "not_found")
			for _, event := range eventsAfter(t, bob, message.ThreadSeq+snapshot.HeadSeq) {
				require.NotEqual(t, open.ID, event.Scope.ChannelID)
			}
		})
	})
}
