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
// replaced long ago is still recognised as one of that sign-in.
type Refresh struct {
	Family Hash
	Secret Hash

	text string
}

// NewRefresh makes the first refresh token of a sign-in, with its text.
func NewRefresh(e *env.Env) (refresh Refresh, text string) {
	return refreshOf(e.Token(secretBytes), e.Token(secretBytes))
}

// Next makes the token that takes this one's place, with its text.
func (r Refresh) Next(e *env.Env) (refresh Refresh, text string) {
	return refreshOf(r.text[len(refreshPrefix):len(refreshPrefix)+secretChars], e.Token(secretBytes))
}

func refreshOf(family, secret string) (refresh Refresh, text string) {
	text = refreshPrefix + family + secret
	return Refresh{Family: hashOf(family), Secret: hashOf(secret), text: text}, text
}

// ParseRefresh reads a refresh token.
func ParseRefresh(text string) (Refresh, bool) {
	rest, found := strings.CutPrefix(text, refreshPrefix)
	if !found || len(rest) != 2*secretChars || !isSecret(rest[:secretChars]) || !isSecret(rest[secretChars:]) {
		return Refresh{}, false
	}
	refresh, _ := refreshOf(rest[:secretChars], rest[secretChars:])
	return refresh, true
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
