package servertest

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// Key proves possession (RFC 9449), with EdDSA.
type Key struct{ private ed25519.PrivateKey }

// NewKey makes a key.
func NewKey(t testing.TB) Key {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	return Key{private}
}

// Proof is what a proof says. JTI and IssuedAt have defaults.
type Proof struct {
	Method, URL, Nonce string
	AccessToken        string // "" at the token endpoint
	JTI                string
	IssuedAt           time.Time
}

// Sign answers the header of a proof.
func (k Key) Sign(t testing.TB, p Proof) string {
	t.Helper()
	if p.JTI == "" {
		p.JTI = uuid.NewString()
	}
	if p.IssuedAt.IsZero() {
		p.IssuedAt = time.Now()
	}
	claims := map[string]any{"jti": p.JTI, "htm": p.Method, "htu": p.URL, "iat": p.IssuedAt.Unix()}
	if p.Nonce != "" {
		claims["nonce"] = p.Nonce
	}
	if p.AccessToken != "" {
		hash := sha256.Sum256([]byte(p.AccessToken))
		claims["ath"] = base64.RawURLEncoding.EncodeToString(hash[:])
	}
	public, _ := k.private.Public().(ed25519.PublicKey)
	signed := part(t, map[string]any{
		"typ": "dpop+jwt", "alg": "EdDSA",
		"jwk": map[string]string{"kty": "OKP", "crv": "Ed25519", "x": base64.RawURLEncoding.EncodeToString(public)},
	}) + "." + part(t, claims)
	return signed + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(k.private, []byte(signed)))
}

func part(t testing.TB, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	return base64.RawURLEncoding.EncodeToString(text)
}
