package signin_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"

	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/identity/signin"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// redirectURI is where the issuer sends browsers of our client back to.
const redirectURI = "http://localhost/auth/callback"

// issuer is a real OpenID Connect provider, a certified implementation, with a few people.
type issuer struct {
	t   *testing.T
	url string
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	people := map[string]storage.User{}
	for _, name := range []string{"ada", "bob", "eva"} {
		people["sub-"+name] = storage.User{
			ID: "sub-" + name, Username: name, Password: "secret of " + name, FirstName: strings.ToUpper(name[:1]) + name[1:], LastName: "Lovelace",
			Email: name + "@example.org", EmailVerified: true,
		}
	}
	written, err := json.Marshal(people)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "people.json")
	require.NoError(t, os.WriteFile(path, written, 0o600))
	store, err := storage.StoreFromFile(path)
	require.NoError(t, err)

	var handler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	clients := map[string]*storage.Client{"cairn": storage.NativeClient("cairn", redirectURI)}
	handler = exampleop.SetupServer(server.URL, storage.NewStorageWithClients(store, clients), nil, false)
	return &issuer{t: t, url: server.URL}
}

func (i *issuer) configured(provision string) func(*signin.Options) {
	return func(o *signin.Options) {
		o.Auth.OIDC = config.OIDC{Issuer: i.url, ClientID: "cairn", Provision: provision}
	}
}

// authorize signs somebody in at the issuer, as a browser does, and answers the code and its verifier.
func (i *issuer) authorize(name string) (authorizationCode, verifier string) {
	i.t.Helper()
	verifier = testkit.Env().Token(32)
	challenge := sha256.Sum256([]byte(verifier))
	browser := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	follow := func(response *http.Response, err error) *url.URL {
		require.NoError(i.t, err)
		defer response.Body.Close()
		require.Equal(i.t, http.StatusFound, response.StatusCode)
		there, err := response.Location()
		require.NoError(i.t, err)
		return there
	}
	login := follow(browser.Get(i.url + "/auth?" + url.Values{
		"client_id": {"cairn"}, "redirect_uri": {redirectURI}, "response_type": {"code"}, "scope": {"openid profile email"}, "state": {"x"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}.Encode()))
	callback := follow(browser.PostForm(login.String(), url.Values{
		"id": {login.Query().Get("authRequestID")}, "username": {name}, "password": {"secret of " + name},
	}))
	back := follow(browser.Get(callback.String()))
	require.NotEmpty(i.t, back.Query().Get("code"), back.String())
	return back.Query().Get("code"), verifier
}

func (i *issuer) grant(name string) wire.TokenRequest {
	authorizationCode, verifier := i.authorize(name)
	return wire.TokenRequest{GrantType: wire.GrantOIDCCode, Code: authorizationCode, CodeVerifier: verifier, RedirectURI: redirectURI}
}

func TestOpenIDConnect(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		there := newIssuer(t)
		off, pending, active := newWorld(t, db.DB, there.configured("off")), newWorld(t, db.DB, there.configured("pending")), newWorld(t, db.DB, there.configured("active"))
		taken := "ada@example.org"
		owner, err := off.people.AddUser(t.Context(), "ada", &taken)
		require.NoError(t, err)

		t.Run("WS-ID-4 provision off refuses people nobody knows, also with a known e-mail address", func(t *testing.T) {
			_, err := newClient(t).call(off, there.grant("ada"))
			requireFault(t, err, code.Forbidden)
		})
		t.Run("WS-ID-4 a linked person signs in and steps up, by issuer and subject", func(t *testing.T) {
			require.NoError(t, off.people.LinkExternal(t.Context(), "ada", there.url, "sub-ada"))
			requireFault(t, off.people.LinkExternal(t.Context(), "ada", there.url, "sub-ada"), code.Conflict)
			c := newClient(t)
			c.keep(c.call(off, there.grant("ada")))
			require.Equal(t, owner.UserID, c.answer.Principal.ID)
			request := there.grant("ada")
			request.SessionID = c.answer.SessionID
			again, err := c.call(off, request)
			require.NoError(t, err)
			require.Equal(t, c.answer.SessionID, again.SessionID)
		})
		t.Run("WS-ID-4 provision active adds a person, never an account of the same e-mail address", func(t *testing.T) {
			bob := "bob@example.org"
			known, err := off.people.AddUser(t.Context(), "bob", &bob)
			require.NoError(t, err)
			c := newClient(t)
			c.keep(c.call(active, there.grant("bob")))
			require.NotEqual(t, known.UserID, c.answer.Principal.ID)
			require.Equal(t, "bob-2", c.answer.Principal.Handle)
			_, err = c.ask(active)
			require.NoError(t, err)
			first := c.answer.Principal.ID
			c.keep(c.call(active, there.grant("bob")))
			require.Equal(t, first, c.answer.Principal.ID, "the same person the next time")
			require.EqualValues(t, 1, off.number(t, `SELECT count(*) FROM principals WHERE id = $1 AND display_name = 'Bob Lovelace'`, first))
		})
		t.Run("WS-ID-4 provision pending adds a person who waits: 4016", func(t *testing.T) {
			c := newClient(t)
			c.keep(c.call(pending, there.grant("eva")))
			require.Equal(t, wire.DevicePending, c.answer.Device.State)
			_, err := c.ask(pending)
			requireFault(t, err, code.DevicePending)
			_, err = c.connect(pending)
			require.Equal(t, code.CloseDevicePending, signin.CloseCode(err))
			_, err = pending.people.EnablePrincipal(t.Context(), identity.Operator(), c.answer.Principal.ID)
			require.NoError(t, err)
			_, err = c.ask(pending)
			require.NoError(t, err)
			device, err := pending.people.WorkspaceDevice(t.Context(), c.caller(pending), c.device.ID)
			require.NoError(t, err)
			require.Equal(t, wire.DeviceActive, device.State)
		})
		t.Run("WS-ID-4 a code works once, and with its verifier only", func(t *testing.T) {
			c := newClient(t)
			request := there.grant("ada")
			wrong := request
			wrong.CodeVerifier = testkit.Env().Token(32)
			_, err := c.call(off, wrong)
			requireFault(t, err, code.InvalidCredentials)
			request = there.grant("ada")
			c.keep(c.call(off, request))
			_, err = c.call(off, request)
			requireFault(t, err, code.InvalidCredentials)
			elsewhere := there.grant("ada")
			elsewhere.RedirectURI = "http://localhost/other"
			_, err = c.call(off, elsewhere)
			requireFault(t, err, code.InvalidCredentials)
		})
	})
}

func TestAnIssuerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	w := newWorld(t, testkit.New(t, testkit.SQLite).DB, func(o *signin.Options) {
		o.Auth.OIDC = config.OIDC{Issuer: gone.URL, ClientID: "cairn", Provision: "active"}
	})
	w.person(t, "ada")
	_, err := newClient(t).call(w, wire.TokenRequest{GrantType: wire.GrantOIDCCode, Code: "x", CodeVerifier: "y", RedirectURI: redirectURI})
	requireFault(t, err, code.Unavailable)
}

func TestTheFirstPersonOfAnIssuerThatMustWait(t *testing.T) {
	t.Parallel()
	there := newIssuer(t)
	w := newWorld(t, testkit.New(t, testkit.SQLite).DB, there.configured("pending"))
	t.Run("WS-AZ-3 an instance without an owner takes no person who waits", func(t *testing.T) {
		_, err := newClient(t).call(w, there.grant("ada"))
		requireFault(t, err, code.Forbidden)
	})
}
