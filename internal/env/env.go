// Package env is the only place that touches the clock, randomness and identifiers.
//
// Everything else takes an *Env, so that tests can decide what time it is and which ids come next.
// An Env is safe for concurrent use.
package env

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"github.com/google/uuid"
)

// Env is the outside world of a process.
type Env struct {
	now func() time.Time
}

// Real answers the machine's own clock and randomness.
func Real() *Env { return &Env{now: time.Now} }

// WithClock answers an Env whose clock is now.
func WithClock(now func() time.Time) *Env { return &Env{now: now} }

// Now is the process's clock. It only bounds how long something is trusted or waited for; what
// decides leases and expiry is the database's clock (storage.Tx.Now).
func (e *Env) Now() time.Time { return e.now() }

// NewID answers a UUID of version 7 (RFC 9562): unique, and ordered by time.
func (e *Env) NewID() string {
	id, err := uuid.NewV7()
	if err != nil {
		panic(fmt.Sprintf("read randomness: %v", err)) // crypto/rand never fails on supported systems
	}
	return id.String()
}

// RandomID answers a random UUID (version 4) that tells nothing about when it was made.
func (e *Env) RandomID() string { return uuid.NewString() }

// Token answers n random bytes as base64url without padding (32 bytes: 43 characters).
func (e *Env) Token(n int) string {
	secret := make([]byte, n)
	if _, err := rand.Read(secret); err != nil {
		panic(fmt.Sprintf("read randomness: %v", err))
	}
	return base64.RawURLEncoding.EncodeToString(secret)
}

// Jitter answers a random duration in [d/2, d).
func (e *Env) Jitter(d time.Duration) time.Duration {
	if d < 2 {
		return d
	}
	return d/2 + mathrand.N(d/2)
}

// ParseID answers the canonical form of a UUID (lower case, 36 characters) and whether id is one.
func ParseID(id string) (string, bool) {
	if len(id) != 36 {
		return "", false
	}
	parsed, err := uuid.Parse(id)
	if err != nil {
		return "", false
	}
	return parsed.String(), true
}
