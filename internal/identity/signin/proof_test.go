package signin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/identity/signin"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestProofs(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w, other := newWorld(t, db.DB), newWorld(t, db.DB)
		w.person(t, "ada")
		c := newClient(t).login(w, "ada")
		send := func(node *world, r signin.Request) error {
			_, err := node.Authenticate(t.Context(), r)
			return err
		}
		with := func(proof string) signin.Request {
			return signin.Request{Method: "GET", URL: requestURL, Authorization: []string{"DPoP " + c.answer.AccessToken}, DPoP: []string{proof}}
		}

		t.Run("WS-ID-2 a replayed proof is refused everywhere", func(t *testing.T) {
			r := c.request(w, c.answer.AccessToken)
			require.NoError(t, send(w, r))
			requireFault(t, send(w, r), code.InvalidDPoPProof)
			requireFault(t, send(other, r), code.UseDPoPNonce)
		})
		t.Run("WS-ID-2 missing, stale and foreign nonces ask for a fresh one", func(t *testing.T) {
			for _, nonce := range []string{"", "x", other.Nonce(), w.Nonce() + "A", strings.Repeat("A", 38)} {
				requireFault(t, send(w, with(c.proof("GET", requestURL, nonce, c.answer.AccessToken))), code.UseDPoPNonce)
			}
			stale := w.Nonce()
			w.clock.pass(5 * time.Minute)
			requireFault(t, send(w, with(c.proof("GET", requestURL, stale, c.answer.AccessToken))), code.UseDPoPNonce)
		})
		t.Run("WS-ID-2 a nonce from before the start of the node is refused", func(t *testing.T) {
			nonce := w.Nonce()
			restarted := newWorld(t, db.DB)
			requireFault(t, send(restarted, with(c.proof("GET", requestURL, nonce, c.answer.AccessToken))), code.UseDPoPNonce)
		})
		t.Run("WS-ID-2 the nonce stands in for the client's clock", func(t *testing.T) {
			wrong := func(claims map[string]any) { claims["iat"] = time.Now().Add(-10 * time.Minute).Unix() }
			require.NoError(t, send(w, with(c.proof("GET", requestURL, w.Nonce(), c.answer.AccessToken, wrong))))
		})
		t.Run("WS-ID-2 what a proof has to be for", func(t *testing.T) {
			w := newWorld(t, db.DB)
			thief := newClient(t)
			for name, proof := range map[string]string{
				"method":   c.proof("POST", requestURL, w.Nonce(), c.answer.AccessToken),
				"path":     c.proof("GET", requestURL+"/x", w.Nonce(), c.answer.AccessToken),
				"host":     c.proof("GET", strings.Replace(requestURL, "127.0.0.1", "localhost", 1), w.Nonce(), c.answer.AccessToken),
				"token":    c.proof("GET", requestURL, w.Nonce(), c.answer.AccessToken+"x"),
				"no token": c.proof("GET", requestURL, w.Nonce(), ""),
				"key":      thief.proof("GET", requestURL, w.Nonce(), c.answer.AccessToken),
				"none":     "",
				"garbage":  "a.b.c",
			} {
				err := send(w, with(proof))
				require.True(t, fault.Is(err, code.InvalidDPoPProof), "%s: %v", name, err)
			}
			two := with(c.proof("GET", requestURL, w.Nonce(), c.answer.AccessToken))
			two.DPoP = append(two.DPoP, two.DPoP[0])
			requireFault(t, send(w, two), code.InvalidDPoPProof)
			require.NoError(t, send(w, with(c.proof("GET", requestURL+"?q=1#x", w.Nonce(), c.answer.AccessToken))), "query and fragment do not count")
		})
		t.Run("WS-ID-2 a token without its scheme or its proof is none", func(t *testing.T) {
			for _, header := range [][]string{
				nil, {""}, {c.answer.AccessToken}, {"Bearer " + c.answer.AccessToken}, {"Basic x"}, {"DPoP"},
				{"DPoP " + c.answer.AccessToken, "DPoP " + c.answer.AccessToken}, {"DPoP " + c.answer.AccessToken + "x"},
			} {
				r := c.request(w, c.answer.AccessToken)
				r.Authorization = header
				requireFault(t, send(w, r), code.InvalidToken)
			}
		})
		t.Run("WS-ID-1 an expired token says so", func(t *testing.T) {
			w := newWorld(t, db.DB)
			w.clock.pass(10*time.Minute + time.Second)
			_, err := c.ask(w)
			requireFault(t, err, code.TokenExpired)
			_, err = c.connect(w)
			require.Equal(t, code.CloseTokenExpired, signin.CloseCode(err))
		})
	})
}

func TestPublicURL(t *testing.T) {
	t.Parallel()
	db := testkit.New(t, testkit.SQLite).DB
	w := newWorld(t, db, func(o *signin.Options) { o.PublicURL, o.LoopbackOnly = "https://Chat.example.org:443/base/", false })
	lost := newWorld(t, db, func(o *signin.Options) { o.LoopbackOnly = false })
	w.person(t, "ada")
	c := newClient(t)
	sign := func(address string) error {
		_, err := w.Token(t.Context(), signin.TokenCall{
			URL: tokenURL, DPoP: []string{c.proof("POST", address, w.Nonce(), "")},
			Request: wire.TokenRequest{GrantType: wire.GrantLoginCode, Code: w.code(t, "ada"), Device: &c.device},
		})
		return err
	}
	t.Run("WS-ID-2 proofs name the public address, whatever the server sees", func(t *testing.T) {
		require.NoError(t, sign("https://chat.example.org/base/api/v1/auth/token"))
		requireFault(t, sign(tokenURL), code.InvalidDPoPProof)
	})
	t.Run("WS-ID-2 without a public address only loopback is served", func(t *testing.T) {
		_, err := lost.Authenticate(t.Context(), signin.Request{Method: "GET", URL: requestURL, Authorization: []string{"DPoP x"}})
		requireFault(t, err, code.Unavailable)
	})
}

func TestGateway(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db.DB)
		ada := w.person(t, "ada")
		c := newClient(t).login(w, "ada")
		identify := func(change func(*signin.GatewayRequest)) (signin.Caller, error) {
			nonce := w.Nonce()
			r := signin.GatewayRequest{
				AccessToken: c.answer.AccessToken, DPoP: c.proof("GET", gatewayURL, nonce, c.answer.AccessToken), DeviceID: c.device.ID, Nonce: nonce, URL: gatewayURL,
			}
			change(&r)
			return w.AuthenticateGateway(t.Context(), r)
		}
		t.Run("ES-6.3.3 token, proof with the nonce of hello, and device", func(t *testing.T) {
			for _, change := range []func(*signin.GatewayRequest){
				func(*signin.GatewayRequest) {}, func(r *signin.GatewayRequest) { r.DeviceID = "" }, func(r *signin.GatewayRequest) { r.DeviceID = strings.ToUpper(r.DeviceID) },
			} {
				caller, err := identify(change)
				require.NoError(t, err)
				require.Equal(t, []string{ada, c.device.ID, c.answer.SessionID}, []string{caller.Principal, caller.Device, caller.SignIn})
			}
		})
		t.Run("ES-6.4 token or proof invalid, another device: 4004", func(t *testing.T) {
			for _, change := range []func(*signin.GatewayRequest){
				func(r *signin.GatewayRequest) { r.AccessToken = "" },
				func(r *signin.GatewayRequest) { r.AccessToken += "x" },
				func(r *signin.GatewayRequest) { r.APIToken = "x" },
				func(r *signin.GatewayRequest) { r.AccessToken, r.APIToken = "", "x" },
				func(r *signin.GatewayRequest) { r.DPoP = "" },
				func(r *signin.GatewayRequest) { r.Nonce = w.Nonce() + "x" },
				func(r *signin.GatewayRequest) { r.DeviceID = testkit.Env().NewID() },
				func(r *signin.GatewayRequest) { r.DPoP = c.proof("GET", requestURL, r.Nonce, r.AccessToken) },
			} {
				_, err := identify(change)
				require.Equal(t, code.CloseAuthentication, signin.CloseCode(err), "%v", err)
			}
		})
	})
}

func TestAPITokens(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db.DB)
		w.person(t, "ada")
		owner := newClient(t).login(w, "ada")
		w.person(t, "bob")
		guest := newClient(t).login(w, "bob")
		agent, err := w.people.AddPrincipal(t.Context(), owner.caller(w), wire.KindAgent, wire.NewPrincipal{Handle: "claude", DisplayName: "Claude"})
		require.NoError(t, err)
		bearer := func(token string, dpop ...string) (signin.Caller, error) {
			return w.Authenticate(t.Context(), signin.Request{Method: "GET", URL: requestURL, Authorization: []string{"Bearer " + token}, DPoP: dpop})
		}
		made, err := w.AddToken(t.Context(), owner.caller(w), agent.ID, wire.NewToken{Name: "ci", Scopes: []string{"message.create"}})
		require.NoError(t, err)

		t.Run("WS-ID-2 agents show an API token", func(t *testing.T) {
			caller, err := bearer(made.Token)
			require.NoError(t, err)
			require.Equal(t, []any{agent.ID, wire.KindAgent, made.ID, "", []string{"message.create"}},
				[]any{caller.Principal, caller.Kind, caller.TokenID, caller.SignIn, caller.Scopes})
			_, err = w.AuthenticateGateway(t.Context(), signin.GatewayRequest{APIToken: made.Token, URL: gatewayURL, Nonce: w.Nonce()})
			require.NoError(t, err)
			for _, bad := range []string{"", made.Token + "x", made.Token[:len(made.Token)-1], strings.ToUpper(made.Token), "cairna_" + strings.Repeat("A", 43)} {
				_, err := bearer(bad)
				requireFault(t, err, code.InvalidToken)
				require.False(t, signin.Revoked(err))
			}
		})
		t.Run("WS-ID-2 a bound token needs a proof", func(t *testing.T) {
			c := newClient(t)
			bound, err := w.AddToken(t.Context(), owner.caller(w), agent.ID, wire.NewToken{Name: "bound", DPoPJKT: c.thumbprint()})
			require.NoError(t, err)
			_, err = bearer(bound.Token)
			requireFault(t, err, code.InvalidDPoPProof)
			_, err = bearer(bound.Token, newClient(t).proof("GET", requestURL, w.Nonce(), bound.Token))
			requireFault(t, err, code.InvalidDPoPProof)
			proof := c.proof("GET", requestURL, w.Nonce(), bound.Token)
			_, err = bearer(bound.Token, proof)
			require.NoError(t, err)
			_, err = bearer(bound.Token, proof)
			requireFault(t, err, code.InvalidDPoPProof)
		})
		t.Run("WS-ID-2 an expired token ends with 4011, a revoked one and a disabled agent with 4012", func(t *testing.T) {
			soon := time.Now().Add(time.Hour)
			short, err := w.AddToken(t.Context(), identity.Operator(), agent.ID, wire.NewToken{Name: "short", ExpiresAt: &soon})
			require.NoError(t, err)
			w := newWorld(t, db.DB)
			w.clock.pass(2 * time.Hour)
			_, err = w.Authenticate(t.Context(), signin.Request{Method: "GET", URL: requestURL, Authorization: []string{"Bearer " + short.Token}})
			require.Equal(t, code.CloseTokenExpired, signin.CloseCode(err))
			require.NoError(t, w.RevokeToken(t.Context(), identity.Operator(), agent.ID, short.ID))
			require.NoError(t, w.RevokeToken(t.Context(), identity.Operator(), agent.ID, short.ID), "again is no error")
			_, err = w.Authenticate(t.Context(), signin.Request{Method: "GET", URL: requestURL, Authorization: []string{"Bearer " + short.Token}})
			require.Equal(t, code.CloseRevoked, signin.CloseCode(err))
		})
		t.Run("WS-AZ-7 tokens, agents and keys are for owners", func(t *testing.T) {
			by := guest.caller(w)
			_, err := w.AddToken(t.Context(), by, agent.ID, wire.NewToken{Name: "x"})
			require.Error(t, err)
			_, err = w.ListTokens(t.Context(), by, agent.ID)
			require.Error(t, err)
			require.Error(t, w.RevokeToken(t.Context(), by, agent.ID, made.ID))
			_, err = w.RotateKeys(t.Context(), by)
			require.Error(t, err)
			_, err = w.people.AddPrincipal(t.Context(), by, wire.KindApp, wire.NewPrincipal{Handle: "app", DisplayName: "App"})
			require.Error(t, err)
		})
		t.Run("WS-ID-5 tokens take a recent authentication", func(t *testing.T) {
			old := owner.caller(w)
			old.AuthTime = time.Now().Add(-16 * time.Minute)
			_, err := w.AddToken(t.Context(), old, agent.ID, wire.NewToken{Name: "x"})
			requireFault(t, err, code.StepUpRequired)
		})
		listed, err := w.ListTokens(t.Context(), owner.caller(w), agent.ID)
		require.NoError(t, err)
		require.Len(t, listed, 3)
		_, err = w.AddToken(t.Context(), owner.caller(w), owner.answer.Principal.ID, wire.NewToken{Name: "x"})
		requireFault(t, err, code.NotFound)
		past := time.Now().Add(-time.Minute)
		for _, request := range []wire.NewToken{{}, {Name: "x", DPoPJKT: "x"}, {Name: "x", Scopes: []string{"Two words"}}, {Name: "x", ExpiresAt: &past}} {
			_, err = w.AddToken(t.Context(), identity.Operator(), agent.ID, request)
			requireFault(t, err, code.ValidationFailed)
		}
		t.Run("ES-8.5 a disabled agent is shut out at once", func(t *testing.T) {
			_, err := w.people.DisablePrincipal(t.Context(), owner.caller(w), agent.ID)
			require.NoError(t, err)
			_, err = bearer(made.Token)
			require.True(t, signin.Revoked(err))
			alive, err := w.Alive(t.Context(), signin.Credential{Principal: agent.ID, TokenID: made.ID})
			require.NoError(t, err)
			require.False(t, alive)
		})
		require.Error(t, w.Logout(t.Context(), authz.Caller{Principal: agent.ID, Kind: wire.KindAgent}))
	})
}
