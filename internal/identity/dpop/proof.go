package dpop

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Limits of a proof, in bytes.
const (
	maxProof  = 8_192
	maxJTI    = 256
	maxHeader = 2_048
)

// The algorithms of proofs (WS-ID-1).
const (
	ES256 = "ES256"
	EdDSA = "EdDSA"
)

const ecdsaHalf = 32 // bytes of r and of s of a P-256 signature

// proofType is the `typ` of a proof (RFC 9449 section 4.2).
const proofType = "dpop+jwt"

// proofKey is the key of a proof, as its header shows it.
type proofKey struct {
	algorithm  string
	public     crypto.PublicKey
	thumbprint string // RFC 7638, SHA-256, base64url
}

// claims are what a proof says (RFC 9449 section 4.2).
type claims struct {
	JTI   string         `json:"jti"`
	HTM   string         `json:"htm"`
	HTU   string         `json:"htu"`
	IAT   jsontext.Value `json:"iat"`
	ATH   string         `json:"ath"`
	Nonce string         `json:"nonce"`
}

// segments are the three parts of a compact JWS.
type segments struct {
	header, payload, signature string
}

func split(proof string) (segments, error) {
	if len(proof) > maxProof {
		return segments{}, fmt.Errorf("it has more than %d bytes", maxProof)
	}
	header, rest, found := strings.Cut(proof, ".")
	payload, signature, more := strings.Cut(rest, ".")
	if !found || !more || strings.Contains(signature, ".") || len(header) > maxHeader {
		return segments{}, errors.New("it is no compact JWS")
	}
	return segments{header, payload, signature}, nil
}

// parseHeader reads the protected header of a proof: its type, a permitted algorithm, and the public key.
func parseHeader(segment string) (proofKey, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(segment)
	if err != nil {
		return proofKey{}, errors.New("its header is no base64url")
	}
	var header struct {
		Type      string         `json:"typ"`
		Algorithm string         `json:"alg"`
		JWK       jsontext.Value `json:"jwk"`
		Critical  jsontext.Value `json:"crit"`
		Plain     jsontext.Value `json:"b64"`
	}
	if err := json.Unmarshal(raw, &header); err != nil {
		return proofKey{}, errors.New("its header is no JSON object")
	}
	switch {
	case header.Type != proofType:
		return proofKey{}, errors.New("its typ is not " + proofType)
	case header.Critical != nil || header.Plain != nil:
		return proofKey{}, errors.New("its header asks for extensions")
	case header.JWK == nil:
		return proofKey{}, errors.New("its header has no jwk")
	default:
		return parseKey(header.Algorithm, header.JWK)
	}
}

// parseKey reads a public key that fits the algorithm.
func parseKey(algorithm string, raw jsontext.Value) (proofKey, error) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(raw, &members); err != nil {
		return proofKey{}, errors.New("its jwk is no JSON object")
	}
	for _, private := range []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k"} {
		if _, found := members[private]; found {
			return proofKey{}, errors.New("its jwk holds a private key")
		}
	}
	var jwk jose.JSONWebKey
	if err := jwk.UnmarshalJSON(raw); err != nil || !jwk.Valid() {
		return proofKey{}, errors.New("its jwk is no key")
	}
	if !fits(algorithm, jwk.Key) {
		return proofKey{}, errors.New("its alg is not one of ES256 and EdDSA, or does not fit its jwk")
	}
	thumbprint, err := jwk.Thumbprint(crypto.SHA256)
	if err != nil {
		return proofKey{}, errors.New("its jwk has no thumbprint")
	}
	return proofKey{algorithm, jwk.Key, base64.RawURLEncoding.EncodeToString(thumbprint)}, nil
}

func fits(algorithm string, key any) bool {
	switch public := key.(type) {
	case *ecdsa.PublicKey:
		return algorithm == ES256 && public.Curve == elliptic.P256()
	case ed25519.PublicKey:
		return algorithm == EdDSA && len(public) == ed25519.PublicKeySize
	default:
		return false
	}
}

func parseClaims(segment string) (claims, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(segment)
	if err != nil {
		return claims{}, errors.New("its payload is no base64url")
	}
	var said claims
	if err := json.Unmarshal(raw, &said); err != nil {
		return claims{}, errors.New("its claims are malformed")
	}
	switch {
	case said.JTI == "" || len(said.JTI) > maxJTI:
		return claims{}, fmt.Errorf("its jti has not 1 to %d bytes", maxJTI)
	case said.IAT.Kind() != '0':
		return claims{}, errors.New("its iat is no number")
	default:
		return said, nil
	}
}

// signed reports whether the key signed header and payload.
func (k proofKey) signed(header, payload, signature string) bool {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(signature)
	if err != nil {
		return false
	}
	input := make([]byte, 0, len(header)+1+len(payload))
	input = append(append(append(input, header...), '.'), payload...)
	switch public := k.public.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(public, input, raw)
	case *ecdsa.PublicKey:
		digest := sha256.Sum256(input)
		return len(raw) == 2*ecdsaHalf &&
			ecdsa.Verify(public, digest[:], new(big.Int).SetBytes(raw[:ecdsaHalf]), new(big.Int).SetBytes(raw[ecdsaHalf:]))
	default:
		return false
	}
}
