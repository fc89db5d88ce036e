package workspace_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestMain(m *testing.M) {
	if childMain() {
		return
	}
	goleak.VerifyTestMain(m)
}

const baseURL = "http://fake.test"

// fake is a server of one world that speaks the wire format, REST and WebSocket, over connections in memory:
// inside a synctest bubble its time is the test's.
type fake struct {
	*world

	// before may answer a request itself (true). It is called without locks.
	before func(w http.ResponseWriter, r *http.Request) bool
	// lose says to break the connection after a request was carried out, before the answer.
	lose func(r *http.Request) bool
	// greet may speak on a gateway connection in place of the fake (true).
	greet func(c *peer) bool

	keys struct {
		sync.Mutex

		nonce    string
		seen     map[string]bool
		access   map[string]time.Time // by token, its end
		refresh  string               // the one that is good
		previous string               // the one before, good while its successor is unused
		family   bool                 // the sign-in lives
		life     time.Duration
		pending  bool
		stepped  int
		refused  int // proofs without the right nonce
	}
	answers  map[string]answered // by Idempotency-Key
	requests []string            // "METHOD /path"
	sessions map[string]bool     // gateway sessions that can be resumed
	conns    map[*peer]bool
	listener *pipes
	origin   string // what proofs are about
}

type answered struct {
	call   string
	status int
	body   []byte
}

// bareFake answers a fake without connections: its handler is called.
func bareFake() *fake {
	f := &fake{
		world: newWorld(), answers: map[string]answered{}, sessions: map[string]bool{}, conns: map[*peer]bool{},
		listener: &pipes{fresh: make(chan net.Conn), done: make(chan struct{})},
	}
	f.keys.nonce, f.keys.seen, f.keys.access = rand.Text(), map[string]bool{}, map[string]time.Time{}
	f.keys.life, f.origin = 10*time.Minute, baseURL
	return f
}

// newFake answers a fake that is reached by its http.
func newFake(t *testing.T) *fake {
	t.Helper()
	f := bareFake()
	server := &http.Server{Handler: f, ReadHeaderTimeout: time.Minute}
	stopped := make(chan struct{})
	go func() { defer close(stopped); _ = server.Serve(f.listener) }()
	t.Cleanup(func() {
		f.hangUp()
		_ = server.Close()
		f.listener.close()
		<-stopped
	})
	return f
}

// pipes is a listener whose connections are pipes.
type pipes struct {
	fresh chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.fresh:
		return conn, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) close() { p.once.Do(func() { close(p.done) }) }

func (p *pipes) Close() error { p.close(); return nil }

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "fake", Net: "unix"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.fresh <- far:
		return near, nil
	case <-p.done:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// http answers a client that reaches the fake; it ends with the test.
func (f *fake) http(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{DialContext: f.listener.dial, MaxIdleConnsPerHost: 4}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (f *fake) config(t *testing.T, store workspace.Store) workspace.Config {
	t.Helper()
	return workspace.Config{
		BaseURL: baseURL, Device: workspace.Device{ID: f.device, Name: "test", Platform: "test"}, Keys: &workspace.MemoryKeys{}, Tokens: store,
		HTTP: f.http(t),
	}
}

// client answers a client that is signed in.
func (f *fake) client(t *testing.T, change ...func(*workspace.Config)) *workspace.Client {
	t.Helper()
	config := f.config(t, nil)
	config.Tokens = nil
	for _, c := range change {
		c(&config)
	}
	client, err := workspace.New(config)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	_, err = client.SignIn(t.Context(), workspace.Password("me", "right"))
	require.NoError(t, err)
	return client
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.requests = append(f.requests, r.Method+" "+r.URL.Path)
	before, lose := f.before, f.lose
	f.mu.Unlock()
	if before != nil && before(w, r) {
		return
	}
	if r.URL.Path == "/api/v1/gateway" {
		f.gateway(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	status, answer := f.handle(w.Header(), r, body)
	if lose != nil && lose(r) {
		panic(http.ErrAbortHandler)
	}
	if problem, is := answer.(wire.Problem); is {
		problem.Title, problem.Status = http.StatusText(status), status
		w.Header().Set("Content-Type", "application/problem+json")
		answer = problem
	}
	w.WriteHeader(status)
	switch said := answer.(type) {
	case nil:
	case []byte:
		_, _ = w.Write(said)
	default:
		_ = json.NewEncoder(w).Encode(said)
	}
}

func problem(status int, c code.Code) (int, any) {
	return status, wire.Problem{Code: string(c), Detail: "fake says no"}
}

func (f *fake) handle(header http.Header, r *http.Request, body []byte) (int, any) {
	if r.URL.Path == "/api/v1" {
		return 200, wire.Discovery{Name: "fake", ProtocolVersions: []int{1}}
	}
	token, hasToken := strings.CutPrefix(r.Header.Get("Authorization"), "DPoP ")
	if refused := f.prove(header, r.Header.Get("DPoP"), r.Method, f.originNow()+r.URL.EscapedPath(), token, f.nonceNow()); refused != "" {
		return problem(401, refused)
	}
	if r.URL.Path == "/api/v1/auth/token" {
		return f.token(body)
	}
	if refused := f.authenticate(token); !hasToken || refused != "" {
		return problem(401, refused)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	call := r.Method + " " + r.URL.EscapedPath() + " " + string(body) + r.Header.Get("If-Match")
	if done, known := f.answers[key]; known && key != "" {
		if done.call != call {
			return problem(422, code.IdempotencyKeyReuse)
		}
		header.Set("Idempotent-Replay", "true")
		return done.status, done.body
	}
	status, answer := f.route(header, r, body)
	if key != "" && status < 300 {
		encoded, _ := json.Marshal(answer)
		if answer == nil {
			encoded = nil
		}
		f.answers[key] = answered{call, status, encoded}
	}
	return status, answer
}

func (f *fake) originNow() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.origin
}

func (f *fake) nonceNow() string {
	f.keys.Lock()
	defer f.keys.Unlock()
	return f.keys.nonce
}

// prove checks a DPoP proof and answers the code of a refusal, "" for a good one.
func (f *fake) prove(header http.Header, proof, method, at, token, nonce string) code.Code {
	if header != nil {
		header.Set("DPoP-Nonce", nonce)
	}
	parts := strings.Split(proof, ".")
	if len(parts) != 3 {
		return code.InvalidDPoPProof
	}
	var head struct {
		Typ, Alg string
		JWK      struct{ Crv, Kty, X, Y string }
	}
	var said struct {
		JTI, HTM, HTU, ATH, Nonce string
		IAT                       int64
	}
	if decode64(parts[0], &head) != nil || decode64(parts[1], &said) != nil || head.Typ != "dpop+jwt" || head.Alg != "ES256" {
		return code.InvalidDPoPProof
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	x, errX := base64.RawURLEncoding.DecodeString(head.JWK.X)
	y, errY := base64.RawURLEncoding.DecodeString(head.JWK.Y)
	public, errKey := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{4}, x, y))
	if err != nil || errX != nil || errY != nil || errKey != nil || len(signature) != 64 {
		return code.InvalidDPoPProof
	}
	digest := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if !ecdsa.Verify(public, digest[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])) {
		return code.InvalidDPoPProof
	}
	f.keys.Lock()
	defer f.keys.Unlock()
	if said.Nonce != nonce {
		f.keys.refused++
		return code.UseDPoPNonce
	}
	ath := ""
	if token != "" {
		sum := sha256.Sum256([]byte(token))
		ath = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	if said.HTM != method || said.HTU != at || said.ATH != ath || f.keys.seen[said.JTI] || said.JTI == "" {
		return code.InvalidDPoPProof
	}
	f.keys.seen[said.JTI] = true
	return ""
}

func decode64(part string, into any) error {
	text, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

func (f *fake) authenticate(token string) code.Code {
	f.keys.Lock()
	defer f.keys.Unlock()
	end, known := f.keys.access[token]
	switch {
	case !known, !f.keys.family:
		return code.InvalidToken
	case !time.Now().Before(end):
		return code.TokenExpired
	default:
		return ""
	}
}

// token is POST auth/token (WS-ID-1).
func (f *fake) token(body []byte) (int, any) {
	var asked wire.TokenRequest
	if json.Unmarshal(body, &asked) != nil {
		return problem(400, code.MalformedJSON)
	}
	f.keys.Lock()
	defer f.keys.Unlock()
	switch {
	case asked.GrantType == wire.GrantRefreshToken:
		good := asked.RefreshToken == f.keys.refresh || asked.RefreshToken == f.keys.previous && f.keys.previous != ""
		if !f.keys.family || !good {
			f.keys.family = false // reuse ends the sign-in
			return problem(401, code.InvalidCredentials)
		}
		if asked.RefreshToken == f.keys.refresh {
			f.keys.previous = asked.RefreshToken
		}
	case asked.Password != "right" && asked.Code != "right":
		return problem(401, code.InvalidCredentials)
	default:
		f.keys.family = true
		if asked.SessionID != "" {
			f.keys.stepped++
		}
	}
	access := rand.Text()
	f.keys.refresh = rand.Text()
	f.keys.access[access] = time.Now().Add(f.keys.life)
	state := wire.DeviceActive
	if f.keys.pending {
		state = wire.DevicePending
	}
	return 200, wire.TokenAnswer{
		AccessToken: access, TokenType: "DPoP", ExpiresIn: int64(f.keys.life / time.Second), RefreshToken: f.keys.refresh,
		SessionID: "0197f000-0000-7000-8000-000000000001", Device: wire.DeviceOfToken{ID: f.device, State: state},
		Principal: wire.TokenPrincipal{ID: f.me.ID, Kind: f.me.Kind, Handle: f.me.Handle},
	}
}

// spoil ends the nonce that clients know.
func (f *fake) spoil() {
	f.keys.Lock()
	defer f.keys.Unlock()
	f.keys.nonce = rand.Text()
}

// asked counts requests to a route so far.
func (f *fake) asked(route string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, r := range f.requests {
		if r == route {
			n++
		}
	}
	return n
}

// do runs a step of the world.
func (f *fake) do(step func(w *world)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	step(f.world)
}
