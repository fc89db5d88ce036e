package workspace

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// proof is what a proof of possession says (RFC 9449); jti and iat have defaults.
type proof struct {
	method, url, nonce string
	token              string // "" at the token endpoint
	jti                string
	at                 time.Time
}

func newKey(t *trial) ed25519.PrivateKey {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	return key
}

// sign makes the header of a proof with EdDSA.
func sign(key ed25519.PrivateKey, p proof) string {
	if p.jti == "" {
		p.jti = uuid.NewString()
	}
	if p.at.IsZero() {
		p.at = time.Now()
	}
	claims := map[string]any{"jti": p.jti, "htm": p.method, "htu": p.url, "iat": p.at.Unix()}
	if p.nonce != "" {
		claims["nonce"] = p.nonce
	}
	if p.token != "" {
		hash := sha256.Sum256([]byte(p.token))
		claims["ath"] = base64.RawURLEncoding.EncodeToString(hash[:])
	}
	public, _ := key.Public().(ed25519.PublicKey)
	signed := part(map[string]any{
		"typ": "dpop+jwt", "alg": "EdDSA",
		"jwk": map[string]string{"kty": "OKP", "crv": "Ed25519", "x": base64.RawURLEncoding.EncodeToString(public)},
	}) + "." + part(claims)
	return signed + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, []byte(signed)))
}

func part(value any) string {
	text, _ := json.Marshal(value) //nolint:errchkjson // maps of strings and numbers
	return base64.RawURLEncoding.EncodeToString(text)
}
