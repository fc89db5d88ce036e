package servertest

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Person is somebody who is signed in to the Workspace surface on one device. It is safe for concurrent use.
type Person struct {
	ID       string // of the user and principal
	Name     string
	DeviceID string
	Key      Key
	// Address is where proofs say that the server is: http.public_url, or the base URL.
	Address string

	base   string
	client *http.Client

	mu     sync.Mutex
	tokens wire.TokenAnswer // guarded by mu
	nonce  string           // guarded by mu; the newest
}

// Person adds a user and signs it in on a new device. The first person owns the instance.
func (s *Server) Person(t testing.TB, name string) *Person {
	t.Helper()
	user, err := s.Identity().AddUser(t.Context(), name, nil)
	require.NoError(t, err)
	return s.SignIn(t, user.UserID, name)
}

// SignIn signs a user in on a new device, with a login code.
func (s *Server) SignIn(t testing.TB, userID, name string) *Person {
	t.Helper()
	p := NewPerson(t, s.URL, name)
	p.ID = userID
	made, err := s.Server.SignIn().MakeLoginCode(t.Context(), userID)
	require.NoError(t, err)
	answer := p.Token(t, wire.TokenRequest{GrantType: wire.GrantLoginCode, Code: made.Code, Device: p.Device()})
	require.Equal(t, http.StatusOK, answer.Status, "%s", answer.Body)
	return p
}

// NewPerson makes a device that is not signed in.
func NewPerson(t testing.TB, base, name string) *Person {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &Person{
		Name: name, DeviceID: uuid.NewString(), Key: NewKey(t), Address: base, base: base,
		client: &http.Client{Transport: transport, Timeout: time.Minute},
	}
}

// Device names the device.
func (p *Person) Device() *wire.DeviceRequest {
	return &wire.DeviceRequest{ID: p.DeviceID, Name: p.Name + "'s device", Platform: "test"}
}

// Another signs the same person in on another device.
func (p *Person) Another(t testing.TB, s *Server) *Person {
	t.Helper()
	return s.SignIn(t, p.ID, p.Name)
}

// Tokens answers the tokens the person holds.
func (p *Person) Tokens() wire.TokenAnswer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tokens
}

// Token asks for tokens and keeps them when they come. It follows use_dpop_nonce.
func (p *Person) Token(t testing.TB, request wire.TokenRequest) Answer {
	t.Helper()
	body, err := json.Marshal(request)
	require.NoError(t, err)
	var answer Answer
	for range 2 {
		r := p.request(t, http.MethodPost, "/api/v1/auth/token", body)
		r.Header.Set(wire.HeaderDPoP, p.Key.Sign(t, Proof{Method: http.MethodPost, URL: p.Address + "/api/v1/auth/token", Nonce: p.Nonce()}))
		if answer = p.send(t, r); !strings.Contains(string(answer.Body), "use_dpop_nonce") {
			break
		}
	}
	if answer.Status == http.StatusOK {
		p.mu.Lock()
		defer p.mu.Unlock()
		answer.Into(t, http.StatusOK, &p.tokens)
	}
	return answer
}

// Refresh exchanges the refresh token.
func (p *Person) Refresh(t testing.TB) Answer {
	t.Helper()
	return p.Token(t, wire.TokenRequest{GrantType: wire.GrantRefreshToken, RefreshToken: p.Tokens().RefreshToken})
}

// Nonce answers the newest nonce.
func (p *Person) Nonce() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.nonce
}

// Header is a header of a request.
type Header struct{ Name, Value string }

// IfMatch is the header of a version.
func IfMatch(version string) Header { return Header{"If-Match", version} }

// Once is a new Idempotency-Key.
func Once() Header { return Header{wire.HeaderIdempotencyKey, NewID()} }

// NewID answers a UUID of version 7.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// Do sends a request with a proof; body is encoded as JSON, unless it is []byte or nil. It follows
// use_dpop_nonce once, as clients do.
func (p *Person) Do(t testing.TB, method, path string, body any, headers ...Header) Answer {
	t.Helper()
	raw, isRaw := body.([]byte)
	if !isRaw && body != nil {
		var err error
		raw, err = json.Marshal(body)
		require.NoError(t, err)
	}
	var answer Answer
	for range 2 {
		r := p.request(t, method, path, raw, headers...)
		p.Authorize(t, r)
		if answer = p.send(t, r); answer.Status != http.StatusUnauthorized || !strings.Contains(string(answer.Body), "use_dpop_nonce") {
			break
		}
	}
	return answer
}

// Authorize signs a request.
func (p *Person) Authorize(t testing.TB, r *http.Request) {
	t.Helper()
	access := p.Tokens().AccessToken
	r.Header.Set("Authorization", "DPoP "+access)
	r.Header.Set(wire.HeaderDPoP, p.Key.Sign(t, Proof{Method: r.Method, URL: p.Address + r.URL.EscapedPath(), Nonce: p.Nonce(), AccessToken: access}))
}

func (p *Person) request(t testing.TB, method, path string, body []byte, headers ...Header) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, p.base+path, reader(body))
	require.NoError(t, err)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, header := range headers {
		r.Header.Set(header.Name, header.Value)
	}
	return r
}

func (p *Person) send(t testing.TB, r *http.Request) Answer {
	t.Helper()
	answer := Send(t, p.client, r)
	if nonce := answer.Header.Get(wire.HeaderDPoPNonce); nonce != "" {
		p.mu.Lock()
		p.nonce = nonce
		p.mu.Unlock()
	}
	return answer
}

// At answers the same device, signed in as it is, at another node.
func (p *Person) At(t testing.TB, base string) *Person {
	t.Helper()
	moved := NewPerson(t, base, p.Name)
	moved.ID, moved.DeviceID, moved.Key, moved.tokens = p.ID, p.DeviceID, p.Key, p.Tokens()
	return moved
}

// Lose sends a request whose answer is lost; done hears when that is over.
func (p *Person) Lose(t testing.TB, method, path string, body any, done chan<- struct{}, headers ...Header) {
	t.Helper()
	raw, err := json.Marshal(body)
	require.NoError(t, err)
	r := p.request(t, method, path, raw, headers...)
	p.Authorize(t, r)
	go func() {
		response, err := p.client.Do(r)
		if err == nil {
			_ = response.Body.Close()
		}
		done <- struct{}{}
	}()
}
