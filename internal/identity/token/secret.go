package token

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/cairnsync/cairn/internal/env"
)

const (
	secretBytes = 32
	secretChars = 43 // of 32 bytes as base64url without padding

	refreshPrefix = "cairnr_"
	apiPrefix     = "cairna_"

	hintChars = 4
)

// Hash is the SHA-256 of a secret in hexadecimal, the form in which it is stored.
type Hash string

func hashOf(secret string) Hash {
	hash := sha256.Sum256([]byte(secret))
	return Hash(hex.EncodeToString(hash[:]))
}

// Refresh is a refresh token. Its family is the same for every token of a sign-in, so that a token that was
// replaced long ago is still recognised as one of that sign-in. The family alone lets nobody in: whoever
// knows it can end the sign-in, no more.
type Refresh struct {
	Family string
	Secret Hash
}

// NewFamily makes the family of a sign-in.
func NewFamily(e *env.Env) string { return e.Token(secretBytes) }

// NewRefresh makes a refresh token of a family, with its text.
func NewRefresh(e *env.Env, family string) (refresh Refresh, text string) {
	secret := e.Token(secretBytes)
	return Refresh{family, hashOf(secret)}, refreshPrefix + family + secret
}

// ParseRefresh reads a refresh token.
func ParseRefresh(text string) (Refresh, bool) {
	rest, found := strings.CutPrefix(text, refreshPrefix)
	if !found || len(rest) != 2*secretChars || !isSecret(rest[:secretChars]) || !isSecret(rest[secretChars:]) {
		return Refresh{}, false
	}
	return Refresh{rest[:secretChars], hashOf(rest[secretChars:])}, true
}

// NewAPI makes an API token: its text, its hash, and the end of it that names it to its owner.
func NewAPI(e *env.Env) (text string, hash Hash, hint string) {
	text = apiPrefix + e.Token(secretBytes)
	return text, hashOf(text), text[len(text)-hintChars:]
}

// ParseAPI answers the hash of an API token.
func ParseAPI(text string) (Hash, bool) {
	secret, found := strings.CutPrefix(text, apiPrefix)
	if !found || !isSecret(secret) {
		return "", false
	}
	return hashOf(text), true
}

func isSecret(text string) bool {
	if len(text) != secretChars {
		return false
	}
	_, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return err == nil
}
