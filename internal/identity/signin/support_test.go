package signin_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/identity/signin"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	tokenURL   = "http://127.0.0.1:8787/api/v1/auth/token"
	requestURL = "http://127.0.0.1:8787/api/v1/me"
	gatewayURL = "http://127.0.0.1:8787/api/v1/gateway"
)

// world is one server's view of a database.
type world struct {
	*signin.Service

	people *identity.Service
	db     storage.DB
	bus    *signal.Local
	clock  *clock
}

func settings(change ...func(*signin.Options)) signin.Options {
	options := signin.Options{
		Auth: config.Auth{
			AccessTokenTTL: 10 * time.Minute, RefreshTokenTTL: 30 * 24 * time.Hour, DPoPNonceTTL: 5 * time.Minute, StepUpMaxAge: 15 * time.Minute,
		},
		LoopbackOnly: true, Limits: true,
	}
	for _, one := range change {
		one(&options)
	}
	return options
}

// newWorld starts a node over db with a bus of its own, as nodes on several machines have whose wake-ups are lost.
func newWorld(t testing.TB, db storage.DB, change ...func(*signin.Options)) *world {
	t.Helper()
	w := &world{db: db, bus: signal.NewLocal(), clock: &clock{now: time.Now()}}
	e := env.WithClock(w.clock.read)
	w.people = identity.New(db, w.bus, e)
	require.NoError(t, w.people.Start(t.Context()))
	options := settings(change...)
	options.DB, options.Bus, options.Env, options.Identity = db, w.bus, e, w.people
	w.Service = signin.New(options)
	require.NoError(t, w.Start(t.Context()))
	t.Cleanup(func() {
		require.NoError(t, w.Stop(context.Background()))
		require.NoError(t, w.people.Stop(context.Background()))
	})
	return w
}

// person adds somebody with a password.
func (w *world) person(t testing.TB, name string) string {
	t.Helper()
	added, err := w.people.AddUser(t.Context(), name, nil)
	require.NoError(t, err)
	require.NoError(t, w.SetPassword(t.Context(), name, "password of "+name))
	return added.UserID
}

func (w *world) code(t testing.TB, name string) string {
	t.Helper()
	made, err := w.MakeLoginCode(t.Context(), name)
	require.NoError(t, err)
	return made.Code
}

func (w *world) exec(t testing.TB, query string, args ...any) {
	t.Helper()
	require.NoError(t, w.db.Write(t.Context(), nil, func(tx storage.Tx) error { return tx.Exec(query, args...) }))
}

func (w *world) number(t testing.TB, query string, args ...any) int64 {
	t.Helper()
	var value int64
	require.NoError(t, w.db.Read(t.Context(), func(tx storage.Tx) error {
		found, err := tx.Get(query, args, &value)
		require.True(t, found, query)
		return err
	}))
	return value
}

// client is a program on a device, with its key.
type client struct {
	t       testing.TB
	device  wire.DeviceRequest
	signer  crypto.Signer
	alg     jose.SignatureAlgorithm
	address string

	answer wire.TokenAnswer // the newest
}

func newClient(t testing.TB) *client {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return &client{
		t: t, signer: key, alg: jose.ES256, address: "192.0.2.1:1234",
		device: wire.DeviceRequest{ID: testkit.Env().RandomID(), Name: "laptop", Platform: "linux"},
	}
}

func newEd25519Client(t testing.TB) *client {
	t.Helper()
	c := newClient(t)
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	c.signer, c.alg = key, jose.EdDSA
	return c
}

// on answers the same person's program on the same device with another key.
func (c *client) rekeyed() *client {
	other := newClient(c.t)
	other.device = c.device
	return other
}

func (c *client) thumbprint() string {
	sum, err := (&jose.JSONWebKey{Key: c.signer.Public()}).Thumbprint(crypto.SHA256)
	require.NoError(c.t, err)
	return base64.RawURLEncoding.EncodeToString(sum)
}

// proof signs a proof with an independent implementation.
func (c *client) proof(method, url, nonce, token string, change ...func(map[string]any)) string {
	claims := map[string]any{"htm": method, "htu": url, "jti": testkit.Env().RandomID(), "iat": time.Now().Unix(), "nonce": nonce}
	if token != "" {
		sum := sha256.Sum256([]byte(token))
		claims["ath"] = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	for _, one := range change {
		one(claims)
	}
	payload, err := json.Marshal(claims)
	require.NoError(c.t, err)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: c.alg, Key: c.signer}, (&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt"))
	require.NoError(c.t, err)
	signed, err := signer.Sign(payload)
	require.NoError(c.t, err)
	compact, err := signed.CompactSerialize()
	require.NoError(c.t, err)
	return compact
}

// call calls the token endpoint of a node.
func (c *client) call(w *world, request wire.TokenRequest) (wire.TokenAnswer, error) {
	if request.Device == nil && request.GrantType != wire.GrantRefreshToken {
		request.Device = &c.device
	}
	return w.Token(c.t.Context(), signin.TokenCall{
		Request: request, URL: tokenURL, DPoP: []string{c.proof("POST", tokenURL, w.Nonce(), "")}, Address: c.address,
	})
}

func (c *client) keep(answer wire.TokenAnswer, err error) *client {
	c.t.Helper()
	require.NoError(c.t, err)
	c.answer = answer
	return c
}

// login signs in with a code.
func (c *client) login(w *world, name string) *client {
	c.t.Helper()
	return c.keep(c.call(w, wire.TokenRequest{GrantType: wire.GrantLoginCode, Code: w.code(c.t, name)}))
}

func (c *client) refresh(w *world) (wire.TokenAnswer, error) {
	return c.refreshWith(w, c.answer.RefreshToken)
}

func (c *client) refreshWith(w *world, token string) (wire.TokenAnswer, error) {
	return c.call(w, wire.TokenRequest{GrantType: wire.GrantRefreshToken, RefreshToken: token})
}

func (c *client) password(w *world, name, password string) (wire.TokenAnswer, error) {
	return c.call(w, wire.TokenRequest{GrantType: wire.GrantPassword, Username: name, Password: password})
}

// ask authenticates a request with the newest access token.
func (c *client) ask(w *world) (signin.Caller, error) { return c.askWith(w, c.answer.AccessToken) }

func (c *client) askWith(w *world, token string) (signin.Caller, error) {
	return w.Authenticate(c.t.Context(), c.request(w, token))
}

func (c *client) request(w *world, token string) signin.Request {
	return signin.Request{
		Method: "GET", URL: requestURL, Authorization: []string{"DPoP " + token}, DPoP: []string{c.proof("GET", requestURL, w.Nonce(), token)},
	}
}

// connect identifies at the gateway.
func (c *client) connect(w *world) (signin.Caller, error) {
	nonce := w.Nonce()
	return w.AuthenticateGateway(c.t.Context(), signin.GatewayRequest{
		AccessToken: c.answer.AccessToken, DPoP: c.proof("GET", gatewayURL, nonce, c.answer.AccessToken), DeviceID: c.device.ID, Nonce: nonce, URL: gatewayURL,
	})
}

func (c *client) caller(w *world) authz.Caller {
	c.t.Helper()
	caller, err := c.ask(w)
	require.NoError(c.t, err)
	return caller.Caller
}

// clock is a process clock that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func requireFault(t testing.TB, err error, want code.Code) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, want, fault.From(err).Code, "%v", err)
}
