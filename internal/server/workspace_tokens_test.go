package server_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	"github.com/cairnsync/cairn/wire/code"
	wirews "github.com/cairnsync/cairn/wire/workspace"
)

const mePath = "/api/v1/me"

// present asks who one is, with a token and a proof as they are.
func present(t *testing.T, base, token, proof string) servertest.Answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+mePath, nil)
	require.NoError(t, err)
	request.Header.Set("Authorization", "DPoP "+token)
	request.Header.Set(wirews.HeaderDPoP, proof)
	return servertest.Send(t, brief, request)
}

// proofOf answers a good proof of a person for mePath and a token.
func proofOf(t *testing.T, p *servertest.Person, token string) string {
	t.Helper()
	p.Do(t, http.MethodGet, mePath, nil) // it has a nonce of this node
	return p.Key.Sign(t, servertest.Proof{Method: http.MethodGet, URL: p.Address + mePath, Nonce: p.Nonce(), AccessToken: token})
}

// identifyWith identifies with a token that has a good proof.
func identifyWith(t *testing.T, p *servertest.Person, token string) *socket {
	t.Helper()
	s := dial(t, p)
	in := s.identity()
	in.AccessToken = token
	in.DPoP = p.Key.Sign(t, servertest.Proof{Method: http.MethodGet, URL: p.Address + gatewayPath, Nonce: s.hello.DPoPNonce, AccessToken: token})
	s.send(wirews.OpIdentify, in)
	return s
}

// withHeader answers a token with another header, the same claims, and a signature of no use or none.
func withHeader(t *testing.T, token string, header map[string]string, signature string) string {
	t.Helper()
	text, err := json.Marshal(header)
	require.NoError(t, err)
	return base64.RawURLEncoding.EncodeToString(text) + "." + strings.Split(token, ".")[1] + "." + signature
}

func TestWorkspaceForgedTokens(t *testing.T) {
	t.Parallel()
	f := newFleet(t, testkit.New(t, testkit.SQLite), 1, nil)
	elsewhere := newFleet(t, testkit.New(t, testkit.SQLite), 1, nil)
	here := f.guest("here")
	foreign := elsewhere.owner.At(t, f.nodes[0].URL) // it holds its key and the token of another instance
	good := here.Tokens().AccessToken
	parts := strings.Split(good, ".")
	forged := map[string]struct {
		by    *servertest.Person
		token string
	}{
		"of another instance":              {foreign, foreign.Tokens().AccessToken},
		"of alg none":                      {here, withHeader(t, good, map[string]string{"typ": "at+jwt", "alg": "none"}, "")},
		"of alg none, signed":              {here, withHeader(t, good, map[string]string{"typ": "at+jwt", "alg": "none"}, parts[2])},
		"of alg HS256":                     {here, withHeader(t, good, map[string]string{"typ": "at+jwt", "alg": "HS256"}, parts[2])},
		"without its signature":            {here, parts[0] + "." + parts[1] + "."},
		"of another key id":                {here, withHeader(t, good, map[string]string{"typ": "at+jwt", "alg": "EdDSA", "kid": "x"}, parts[2])},
		"of another type":                  {here, withHeader(t, good, map[string]string{"typ": "JWT", "alg": "EdDSA"}, parts[2])},
		"of somebody else, with one's key": {here, f.owner.Tokens().AccessToken},
		"that is none":                     {here, "x"},
		"of 100 000 bytes":                 {here, strings.Repeat("a", 100_000)},
	}
	for name, c := range forged {
		t.Run("WS-ID-1 a token "+name, func(t *testing.T) {
			if len(c.token) < 4096 {
				answer := present(t, f.nodes[0].URL, c.token, proofOf(t, c.by, c.token))
				require.Equal(t, http.StatusUnauthorized, answer.Status, "%s", answer.Body)
			}
			identifyWith(t, c.by, c.token).closed(code.CloseAuthentication)
		})
	}
	t.Run("WS-ID-2 the good one is good", func(t *testing.T) {
		require.Equal(t, http.StatusOK, present(t, f.nodes[0].URL, good, proofOf(t, here, good)).Status)
		identifyWith(t, here, good).expect(wirews.OpReady)
	})
}

func TestWorkspaceReplayedProofs(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		nodes := 1
		if db.Engine == testkit.Postgres {
			nodes = 2
		}
		f := newFleet(t, db, nodes, nil)
		guest := f.guest("guest")
		token := guest.Tokens().AccessToken
		t.Run("WS-ID-2 a proof is good once, on every node", func(t *testing.T) {
			proof := proofOf(t, guest, token)
			require.Equal(t, http.StatusOK, present(t, f.nodes[0].URL, token, proof).Status)
			for _, node := range f.nodes {
				require.Equal(t, http.StatusUnauthorized, present(t, node.URL, token, proof).Status)
			}
		})
		t.Run("ES-6.3.3 a proof of the gateway is good once, and for its connection", func(t *testing.T) {
			first, second := dial(t, guest), dial(t, guest)
			in := first.identity()
			second.send(wirews.OpIdentify, in)
			second.closed(code.CloseAuthentication)
			first.send(wirews.OpIdentify, in)
			first.awaitReady()
			for node := range f.nodes {
				replayed := dial(t, f.at(node, guest))
				replayed.send(wirews.OpIdentify, in)
				replayed.closed(code.CloseAuthentication)
			}
			first.acknowledged()
		})
		for name, off := range map[string]time.Duration{"behind": -10 * time.Minute, "ahead": 10 * time.Minute} {
			t.Run("WS-ID-2 a clock that is 10 minutes "+name, func(t *testing.T) { f.wrongClock(t, guest, off) })
		}
	})
}

// wrongClock does everything that takes a proof with a clock that is wrong.
func (f *fleet) wrongClock(t *testing.T, p *servertest.Person, off time.Duration) {
	t.Helper()
	token := p.Tokens().AccessToken
	p.Do(t, http.MethodGet, mePath, nil)
	now := time.Now().Add(off)
	proof := p.Key.Sign(t, servertest.Proof{Method: http.MethodGet, URL: p.Address + mePath, Nonce: p.Nonce(), AccessToken: token, IssuedAt: now})
	answer := present(t, f.nodes[0].URL, token, proof)
	require.Equal(t, http.StatusOK, answer.Status, "the nonce stands in for the clock: %s", answer.Body)
	s := dial(t, p)
	in := s.identity()
	in.DPoP = p.Key.Sign(t, servertest.Proof{
		Method: http.MethodGet, URL: p.Address + gatewayPath, Nonce: s.hello.DPoPNonce, AccessToken: token, IssuedAt: now,
	})
	s.send(wirews.OpIdentify, in)
	s.awaitReady()
	s.acknowledged()
}
