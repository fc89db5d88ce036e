package workspace

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// Key is the key a device proves itself with (RFC 9449): ECDSA on P-256. It is safe for concurrent use.
type Key struct {
	private    *ecdsa.PrivateKey
	header     string // of every proof, encoded
	thumbprint string
}

const pemType = "PRIVATE KEY"

// NewKey makes a key.
func NewKey() (*Key, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make DPoP key: %w", err)
	}
	return newKey(private)
}

// ParseKey reads what PEM wrote.
func ParseKey(text []byte) (*Key, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != pemType {
		return nil, errors.New("parse DPoP key: it is no PEM of a private key")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse DPoP key: %w", err)
	}
	private, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || private.Curve != elliptic.P256() {
		return nil, errors.New("parse DPoP key: it is not on P-256")
	}
	return newKey(private)
}

// PEM answers the key as PKCS #8, for a place only its owner can read.
func (k *Key) PEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		return nil, fmt.Errorf("encode DPoP key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der}), nil
}

// Thumbprint answers the key's name (RFC 7638), which the server knows as dpop_jkt.
func (k *Key) Thumbprint() string { return k.thumbprint }

func newKey(private *ecdsa.PrivateKey) (*Key, error) {
	point, err := private.PublicKey.Bytes() // 4, x, y
	if err != nil {
		return nil, fmt.Errorf("encode public key: %w", err)
	}
	size := (len(point) - 1) / 2
	// Members in this order, without spaces: what RFC 7638 hashes.
	jwk := fmt.Sprintf(`{"crv":"P-256","kty":"EC","x":%q,"y":%q}`, encode64(point[1:1+size]), encode64(point[1+size:]))
	name := sha256.Sum256([]byte(jwk))
	return &Key{
		private:    private,
		header:     encode64([]byte(`{"typ":"dpop+jwt","alg":"ES256","jwk":` + jwk + `}`)),
		thumbprint: encode64(name[:]),
	}, nil
}

// Proof is what a proof is about: one request with one token.
type Proof struct {
	Method string
	URL    string // without query and fragment
	Token  string // the access token that goes with it, or ""
	Nonce  string // the server's, or ""
}

// claims are of RFC 9449 section 4.2.
type claims struct {
	JTI   string `json:"jti"`
	HTM   string `json:"htm"`
	HTU   string `json:"htu"`
	IAT   int64  `json:"iat"`
	ATH   string `json:"ath,omitempty"`
	Nonce string `json:"nonce,omitempty"`
}

// Prove signs a proof. Each one is new, also for the same request.
func (k *Key) Prove(p Proof) (string, error) {
	said := claims{JTI: rand.Text(), HTM: p.Method, HTU: p.URL, IAT: time.Now().Unix(), Nonce: p.Nonce}
	if p.Token != "" {
		hash := sha256.Sum256([]byte(p.Token))
		said.ATH = encode64(hash[:])
	}
	encoded, err := json.Marshal(said)
	if err != nil {
		return "", fmt.Errorf("encode proof: %w", err)
	}
	signed := k.header + "." + encode64(encoded)
	digest := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, k.private, digest[:])
	if err != nil {
		return "", fmt.Errorf("sign proof: %w", err)
	}
	const half = 32
	signature := make([]byte, 2*half)
	r.FillBytes(signature[:half])
	s.FillBytes(signature[half:])
	return signed + "." + encode64(signature), nil
}

func encode64(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }
