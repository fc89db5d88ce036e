package token

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cairnsync/cairn/internal/env"
)

// rotationSlack is how long after a rotation another node may still sign with the key before it.
const rotationSlack = time.Minute

// Key is a key that signs access tokens (Ed25519), current or a previous one.
type Key struct {
	ID string
	// RotatedAt is when another key took its place; zero for the current one.
	RotatedAt time.Time

	private ed25519.PrivateKey
}

// NewKey makes a key.
func NewKey(e *env.Env) (Key, error) {
	return ParseKey(e.RandomID(), e.Token(ed25519.SeedSize), time.Time{})
}

// ParseKey reads a key as Stored wrote it.
func ParseKey(id, stored string, rotatedAt time.Time) (Key, error) {
	seed, err := base64.RawURLEncoding.DecodeString(stored)
	if err != nil || len(seed) != ed25519.SeedSize {
		return Key{}, errors.New("read signing key: it is not 32 bytes of base64url")
	}
	return Key{ID: id, RotatedAt: rotatedAt, private: ed25519.NewKeyFromSeed(seed)}, nil
}

// Stored is the private key, for the database only.
func (k Key) Stored() string { return base64.RawURLEncoding.EncodeToString(k.private.Seed()) }

func (k Key) public() ed25519.PublicKey { return k.private.Public().(ed25519.PublicKey) }

// mayHaveSigned reports whether a token was made before its key was replaced: a key that got into wrong hands
// is worth nothing soon after the rotation.
func (k Key) mayHaveSigned(access Access, life time.Duration) bool {
	end := k.RotatedAt.Add(rotationSlack)
	return k.RotatedAt.IsZero() || !access.IssuedAt.After(end) && !access.ExpiresAt.After(end.Add(life))
}

func (k Key) sign(kind jose.ContentType, payload []byte) (string, error) {
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: k.private, KeyID: k.ID}},
		(&jose.SignerOptions{}).WithType(kind))
	if err != nil {
		return "", fmt.Errorf("prepare signature: %w", err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	compact, err := signed.CompactSerialize()
	if err != nil {
		return "", fmt.Errorf("write token: %w", err)
	}
	return compact, nil
}

// Keys are the current key and the ones before it whose tokens may still be good.
type Keys []Key

func (k Keys) find(id string) (Key, bool) {
	for _, key := range k {
		if key.ID == id {
			return key, true
		}
	}
	return Key{}, false
}

// JWKS is the public half of the keys (RFC 7517), for GET /.well-known/jwks.json (WS-ID-6).
func (k Keys) JWKS() jose.JSONWebKeySet {
	set := jose.JSONWebKeySet{Keys: make([]jose.JSONWebKey, len(k))}
	for i, key := range k {
		set.Keys[i] = jose.JSONWebKey{Key: key.public(), KeyID: key.ID, Algorithm: string(jose.EdDSA), Use: "sig"}
	}
	return set
}
