package signin_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/identity/signin"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// silentIssuer is an issuer that says when somebody signed in only when a test has it do so: the certified one
// of the other tests always does. Every code is ada's.
type silentIssuer struct {
	url      string
	authTime atomic.Int64 // 0: it does not say
}

func newSilentIssuer(t *testing.T) *silentIssuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "1"}}, nil)
	require.NoError(t, err)
	i := &silentIssuer{}
	answer := func(w http.ResponseWriter, body any) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(body); err != nil {
			t.Error(err)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{
			"issuer": i.url, "authorization_endpoint": i.url + "/auth", "token_endpoint": i.url + "/token", "jwks_uri": i.url + "/keys",
			"id_token_signing_alg_values_supported": []string{"ES256"},
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "1", Algorithm: "ES256", Use: "sig"}}})
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, _ *http.Request) {
		claims := map[string]any{
			"iss": i.url, "sub": "sub-ada", "aud": "cairn", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix(), "name": "Ada",
		}
		if at := i.authTime.Load(); at != 0 {
			claims["auth_time"] = at
		}
		idToken, err := jwt.Signed(signer).Claims(claims).Serialize()
		if err != nil {
			t.Error(err)
		}
		answer(w, map[string]any{"access_token": "x", "token_type": "Bearer", "expires_in": 60, "id_token": idToken})
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	i.url = server.URL
	return i
}

func TestAnIssuerThatDoesNotSayWhen(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		there := newSilentIssuer(t)
		w := newWorld(t, db.DB, func(o *signin.Options) {
			o.Auth.OIDC = config.OIDC{Issuer: there.url, ClientID: "cairn", Provision: "active"}
		})
		request := wire.TokenRequest{GrantType: wire.GrantOIDCCode, Code: "x", CodeVerifier: "y", RedirectURI: redirectURI}
		c := newClient(t)
		t.Run("WS-ID-5 lets people in, and not as if they had just proved who they are", func(t *testing.T) {
			c.keep(c.call(w, request))
			require.Greater(t, time.Since(c.caller(w).AuthTime), settings().Auth.StepUpMaxAge)
		})
		again := request
		again.SessionID = c.answer.SessionID
		t.Run("WS-ID-5 renews nothing", func(t *testing.T) {
			_, err := c.call(w, again)
			requireFault(t, err, code.Forbidden)
			require.Greater(t, time.Since(c.caller(w).AuthTime), settings().Auth.StepUpMaxAge)
		})
		t.Run("WS-ID-5 asked with max_age=0 it says when, and that counts", func(t *testing.T) {
			at := time.Now().Add(-time.Minute).Unix()
			there.authTime.Store(at)
			c.keep(c.call(w, again))
			require.Equal(t, at, c.caller(w).AuthTime.Unix())
		})
	})
}
