package dpop

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/wire/code"
)

const target = "https://chat.example.org/api/v1/me"

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

func newVerifier() (*Verifier, *clock) {
	c := &clock{now: time.Now()}
	return New(env.WithClock(c.read), 5*time.Minute), c
}

// holder signs proofs with an independent implementation.
type holder struct {
	tb     testing.TB
	signer crypto.Signer
	alg    jose.SignatureAlgorithm
}

func newHolder(tb testing.TB, alg jose.SignatureAlgorithm) holder {
	tb.Helper()
	h := holder{tb: tb, alg: alg}
	var err error
	switch alg {
	case jose.ES256:
		h.signer, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case jose.ES384:
		h.signer, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case jose.RS256:
		h.signer, err = rsa.GenerateKey(rand.Reader, 2048)
	default:
		_, h.signer, err = ed25519.GenerateKey(rand.Reader)
	}
	require.NoError(tb, err)
	return h
}

func (h holder) claims(nonce string) map[string]any {
	return map[string]any{"jti": env.Real().RandomID(), "htm": "GET", "htu": target, "iat": 1, "nonce": nonce, "ath": hashOf("token")}
}

func (h holder) sign(claims any, change ...func(*jose.SignerOptions)) string {
	payload, err := json.Marshal(claims)
	require.NoError(h.tb, err)
	return h.signRaw(payload, change...)
}

func (h holder) signRaw(payload []byte, change ...func(*jose.SignerOptions)) string {
	options := (&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt")
	for _, one := range change {
		one(options)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: h.alg, Key: h.signer}, options)
	require.NoError(h.tb, err)
	signed, err := signer.Sign(payload)
	require.NoError(h.tb, err)
	compact, err := signed.CompactSerialize()
	require.NoError(h.tb, err)
	return compact
}

var want = Want{Method: "GET", Target: target, AccessToken: "token"}

func TestVerify(t *testing.T) {
	t.Parallel()
	for _, alg := range []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA} {
		t.Run("WS-ID-1 "+string(alg), func(t *testing.T) {
			t.Parallel()
			v, _ := newVerifier()
			h := newHolder(t, alg)
			sum, err := (&jose.JSONWebKey{Key: h.signer.Public()}).Thumbprint(crypto.SHA256)
			require.NoError(t, err)
			for range 2 { // the second time the key is known
				proof, err := v.Verify(h.sign(h.claims(v.Nonce())), want)
				require.NoError(t, err)
				require.Equal(t, base64.RawURLEncoding.EncodeToString(sum), proof.Thumbprint)
				require.NoError(t, v.Spend(proof, AtRequest))
				require.True(t, fault.Is(v.Spend(proof, AtRequest), code.InvalidDPoPProof))
			}
			good := h.sign(h.claims(v.Nonce()))
			for i := range len(good) { // every byte counts
				broken := []byte(good)
				broken[i] ^= 1
				_, err := v.Verify(string(broken), want)
				require.Error(t, err, "byte %d", i)
			}
			requireBad(t, v, good[:len(good)-1])
			requireBad(t, v, good+"A")
			requireBad(t, v, good+".")
		})
	}
}

func requireBad(t *testing.T, v *Verifier, proof string) {
	t.Helper()
	_, err := v.Verify(proof, want)
	require.True(t, fault.Is(err, code.InvalidDPoPProof), "%v for %.200s", err, proof)
}

func TestHeadersThatAreRefused(t *testing.T) {
	t.Parallel()
	v, _ := newVerifier()
	h := newHolder(t, jose.ES256)
	t.Run("WS-ID-1 algorithms besides ES256 and EdDSA", func(t *testing.T) {
		t.Parallel()
		for _, alg := range []jose.SignatureAlgorithm{jose.ES384, jose.RS256} {
			other := newHolder(t, alg)
			requireBad(t, v, other.sign(other.claims(v.Nonce())))
		}
	})
	t.Run("WS-ID-2 another type, extensions, no key", func(t *testing.T) {
		t.Parallel()
		for _, change := range []func(*jose.SignerOptions){
			func(o *jose.SignerOptions) { o.WithType("JWT") },
			func(o *jose.SignerOptions) { o.ExtraHeaders[jose.HeaderType] = 1 },
			func(o *jose.SignerOptions) { o.WithHeader("crit", []string{"x"}) },
			func(o *jose.SignerOptions) { o.WithHeader("b64", true) },
			func(o *jose.SignerOptions) { o.EmbedJWK = false },
		} {
			requireBad(t, v, h.sign(h.claims(v.Nonce()), change))
		}
	})
	t.Run("WS-ID-2 private, symmetric, foreign and broken keys", func(t *testing.T) {
		t.Parallel()
		public := h.signer.Public().(*ecdsa.PublicKey)
		raw, err := public.Bytes()
		require.NoError(t, err)
		x, y := encode(raw[1:33]), encode(raw[33:])
		for _, jwk := range []string{
			`{"kty":"EC","crv":"P-256","x":"` + x + `","y":"` + y + `","d":"` + x + `"}`,
			`{"kty":"EC","crv":"P-256","x":"` + x + `","y":"` + x + `"}`,
			`{"kty":"EC","crv":"P-256","x":"` + x + `","x":"` + x + `","y":"` + y + `"}`,
			`{"kty":"EC","crv":"P-384","x":"` + x + `","y":"` + y + `"}`,
			`{"kty":"EC","crv":"P-256","x":"` + x + `"}`,
			`{"kty":"OKP","crv":"Ed25519","x":"AAAA"}`, `{"kty":"oct","k":"AAAA"}`, `{}`, `null`, `"x"`, `[]`, `1`,
		} {
			header := encode([]byte(`{"typ":"dpop+jwt","alg":"ES256","jwk":` + jwk + `}`))
			_, err := parseHeader(header)
			require.Error(t, err, jwk)
		}
		_, err = parseHeader(encode([]byte(`{"typ":"dpop+jwt","alg":"ES256","jwk":{"kty":"EC","crv":"P-256","x":"` + x + `","y":"` + y + `"}}`)))
		require.NoError(t, err)
		for _, alg := range []string{"none", "HS256", "EdDSA", "es256", ""} {
			_, err = parseHeader(encode([]byte(`{"typ":"dpop+jwt","alg":"` + alg + `","jwk":{"kty":"EC","crv":"P-256","x":"` + x + `","y":"` + y + `"}}`)))
			require.Error(t, err, alg)
		}
	})
}

func encode(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

func TestClaimsThatAreRefused(t *testing.T) {
	t.Parallel()
	v, _ := newVerifier()
	h := newHolder(t, jose.EdDSA)
	for name, change := range map[string]func(map[string]any){
		"no jti": func(c map[string]any) { delete(c, "jti") }, "long jti": func(c map[string]any) { c["jti"] = strings.Repeat("x", 257) },
		"jti no text": func(c map[string]any) { c["jti"] = 1 }, "no iat": func(c map[string]any) { delete(c, "iat") },
		"iat text": func(c map[string]any) { c["iat"] = "1" }, "iat null": func(c map[string]any) { c["iat"] = nil },
		"htm": func(c map[string]any) { c["htm"] = "get" }, "no htu": func(c map[string]any) { delete(c, "htu") },
		"htu": func(c map[string]any) { c["htu"] = "https://evil.example.org/api/v1/me" }, "ath": func(c map[string]any) { c["ath"] = hashOf("other") },
		"no ath": func(c map[string]any) { delete(c, "ath") },
	} {
		claims := h.claims(v.Nonce())
		change(claims)
		_, err := v.Verify(h.sign(claims), want)
		require.True(t, fault.Is(err, code.InvalidDPoPProof), "%s: %v", name, err)
	}
	requireBad(t, v, h.signRaw([]byte(`{"jti":"a","jti":"b"}`)))
	requireBad(t, v, h.signRaw([]byte("{\"jti\":\"\xff\"}")))
	requireBad(t, v, h.signRaw([]byte(`[]`)))
	requireBad(t, v, strings.Repeat("x", maxProof+1))
	other := want
	other.Nonce = v.Nonce() + "x"
	_, err := v.Verify(h.sign(h.claims(v.Nonce())), other)
	require.True(t, fault.Is(err, code.InvalidDPoPProof), "%v", err)
	_, err = v.Verify(h.sign(h.claims(v.Nonce())), Want{Method: "GET", AccessToken: "token"})
	require.Error(t, err, "without a target nothing is good")
}

// A signature of P-256 may be negated; the proof stays the same one.
func TestANegatedSignatureIsNoOtherProof(t *testing.T) {
	t.Parallel()
	v, _ := newVerifier()
	h := newHolder(t, jose.ES256)
	proof := h.sign(h.claims(v.Nonce()))
	first, err := v.Verify(proof, want)
	require.NoError(t, err)
	require.NoError(t, v.Spend(first, AtRequest))
	parts := strings.Split(proof, ".")
	raw, err := base64.RawURLEncoding.DecodeString(parts[2])
	require.NoError(t, err)
	s := new(big.Int).SetBytes(raw[32:])
	s.Sub(elliptic.P256().Params().N, s).FillBytes(raw[32:])
	second, err := v.Verify(parts[0]+"."+parts[1]+"."+encode(raw), want)
	if err == nil {
		err = v.Spend(second, AtRequest)
	}
	require.True(t, fault.Is(err, code.InvalidDPoPProof), "%v", err)
}

func TestSpentProofsAreForgottenWithTheirNonces(t *testing.T) {
	t.Parallel()
	v, c := newVerifier()
	h := newHolder(t, jose.EdDSA)
	claims := h.claims(v.Nonce())
	proof, err := v.Verify(h.sign(claims), want)
	require.NoError(t, err)
	require.NoError(t, v.Spend(proof, AtRequest))
	c.pass(4 * time.Minute)
	claims["nonce"] = v.Nonce()
	again, err := v.Verify(h.sign(claims), want)
	require.NoError(t, err)
	require.True(t, fault.Is(v.Spend(again, AtRequest), code.InvalidDPoPProof), "the same jti with another nonce")
	c.pass(time.Minute)
	_, err = v.Verify(h.sign(claims), want)
	require.NoError(t, err)
	claims["nonce"] = v.Nonce()
	c.pass(4*time.Minute + 40*time.Second)
	last, err := v.Verify(h.sign(claims), want)
	require.NoError(t, err)
	require.NoError(t, v.Spend(last, AtRequest), "nothing is remembered longer than it could be replayed")
	require.Equal(t, 1, v.spent[AtRequest].count)
}

// Whatever happens in which order: no proof is accepted twice while its nonce is good.
func TestNoProofTwice(t *testing.T) {
	t.Parallel()
	const ttl = 80 * time.Second
	s := newSpent(ttl, 1_000)
	start := time.Unix(1_000_000, 0)
	type shown struct {
		id   proofID
		made time.Time
	}
	var all []shown
	for step := range 3_000 {
		now := start.Add(time.Duration(step) * 250 * time.Millisecond)
		one := shown{made: now.Add(-time.Duration(step*7919%80) * time.Second)}
		copy(one.id[:], fmt.Sprint(step))
		fresh, room := s.add(one.id, one.made, now)
		require.True(t, fresh)
		require.True(t, room)
		all = append(all, one)
		for back := 1; back < len(all) && back < 400; back *= 3 {
			old := all[len(all)-1-back]
			if now.Sub(old.made) < ttl {
				fresh, _ := s.add(old.id, old.made, now)
				require.False(t, fresh)
			}
		}
	}
	require.LessOrEqual(t, s.count, 720)
}

func TestFullMemoryRefuses(t *testing.T) {
	t.Parallel()
	s := newSpent(time.Minute, 2)
	now := time.Unix(1_000_000, 0)
	for i := range 3 {
		fresh, room := s.add(proofID{byte(i)}, now, now)
		require.True(t, fresh)
		require.Equal(t, i < 2, room)
	}
	_, room := s.add(proofID{9}, now.Add(70*time.Second), now.Add(70*time.Second))
	require.True(t, room, "what has lapsed makes room")

	v, _ := newVerifier()
	v.spent[AtLogin].limit = 0
	h := newHolder(t, jose.EdDSA)
	proof, err := v.Verify(h.sign(h.claims(v.Nonce())), want)
	require.NoError(t, err)
	require.True(t, fault.Is(v.Spend(proof, AtLogin), code.Unavailable))
	require.NoError(t, v.Spend(proof, AtRequest), "logins cannot shut requests out")
}

func TestTargets(t *testing.T) {
	t.Parallel()
	t.Run("WS-ID-2 htu without query and fragment, normalised", func(t *testing.T) {
		t.Parallel()
		for address, want := range map[string]string{
			"https://chat.example.org/a":                  "https://chat.example.org/a",
			"HTTPS://Chat.Example.ORG:443/a?b#c":          "https://chat.example.org/a",
			"http://chat.example.org:80":                  "http://chat.example.org/",
			"http://chat.example.org:443/":                "http://chat.example.org:443/",
			"https://[2001:DB8::1]:8443/":                 "https://[2001:db8::1]:8443/",
			"https://x/a%2fb%7Ec%c3%a9":                   "https://x/a%2Fb~c%C3%A9",
			"https://x/a/./b/../c/":                       "https://x/a/c/",
			"https://x/..":                                "https://x/",
			"https://x/a/.":                               "https://x/a/",
			"https://x/%2e%2e/a":                          "https://x/a",
			"https://x/messages/m/reactions/%F0%9F%91%8D": "https://x/messages/m/reactions/%F0%9F%91%8D",
			"https://x/messages/m/reactions/👍":            "https://x/messages/m/reactions/%F0%9F%91%8D",
		} {
			got, ok := Target(address)
			require.True(t, ok, address)
			require.Equal(t, want, got, address)
		}
		for _, address := range []string{"", "/a", "x", "ftp://x/", "https://", "https://u@x/", "https:x", "https://x/%zz", "wss://x/"} {
			_, ok := Target(address)
			require.False(t, ok, address)
		}
	})
}

func FuzzTarget(f *testing.F) {
	for _, seed := range []string{target, "https://x/a%2f/../b?c#d", "http://[::1]:80/%41", "https://x/👍/./"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, address string) {
		once, ok := Target(address)
		if !ok {
			return
		}
		twice, ok := Target(once)
		require.True(t, ok, once)
		require.Equal(t, once, twice)
		require.NotContains(t, once, "?")
		require.NotContains(t, once, "#")
	})
}

func FuzzProof(f *testing.F) {
	v, _ := newVerifier()
	h, e := newHolder(f, jose.ES256), newHolder(f, jose.EdDSA)
	for _, seed := range []string{"", "..", "a.b.c", h.sign(h.claims(v.Nonce())), e.sign(e.claims("x")), h.signRaw([]byte(`{"jti":"a"}`))} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, proof string) {
		verified, err := v.Verify(proof, want)
		if err != nil {
			require.True(t, fault.Is(err, code.InvalidDPoPProof) || fault.Is(err, code.UseDPoPNonce), "%v", err)
			return
		}
		// What is good for us is good for an independent implementation, and of that key.
		signed, err := jose.ParseSignedCompact(proof, []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA})
		require.NoError(t, err)
		key := signed.Signatures[0].Protected.JSONWebKey
		_, err = signed.Verify(key)
		require.NoError(t, err)
		sum := sha256.Sum256([]byte(verified.Thumbprint))
		require.NotEmpty(t, sum)
	})
}

// What a proof costs on each request, without the network; the baseline is the bare check of its signature.
func BenchmarkVerify(b *testing.B) {
	for _, alg := range []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA} {
		h := newHolder(b, alg)
		v, _ := newVerifier()
		proofs := make([]string, 1_000)
		for i := range proofs {
			proofs[i] = h.sign(h.claims(v.Nonce()))
		}
		parts, err := split(proofs[0])
		require.NoError(b, err)
		key, err := parseHeader(parts.header)
		require.NoError(b, err)
		b.Run(string(alg)+"/whole", func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				if _, err := v.Verify(proofs[i%len(proofs)], want); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(string(alg)+"/signature alone", func(b *testing.B) {
			for b.Loop() {
				if !key.signed(parts.header, parts.payload, parts.signature) {
					b.Fatal("wrong")
				}
			}
		})
	}
}
