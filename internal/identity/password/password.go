// Package password keeps passwords as argon2id hashes (RFC 9106, WS-ID-4).
//
// Contract. A hash is a PHC string and tells its own parameters, so that they can be raised later; Check
// refuses parameters that would cost more than twice today's. Checking against no hash takes as long as
// checking against one, so that nobody learns who exists.
//
// Blocking and concurrency. A Hasher is safe for concurrent use. At most Lanes hashes are computed at a
// time, each in Memory KiB; others wait, at most maxWaiting, and past that are turned away.
package password

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/wire/code"
)

// The cost of a hash: the second of the parameters that OWASP recommends, about 50 ms of one core.
const (
	Memory  = 46 * 1024 // KiB
	passes  = 1
	threads = 1

	saltBytes = 16
	hashBytes = 32

	// Lanes is how many hashes are computed at a time.
	Lanes      = 2
	maxWaiting = 256
)

// Limits of a password.
const (
	MinLength = 8     // code points
	MaxBytes  = 1_024 // nobody types more, and every byte is hashed
)

// Hasher computes hashes, a few at a time. Make it with New.
type Hasher struct {
	env     *env.Env
	lanes   chan struct{}
	waiting atomic.Int64
	nobody  hash
}

// New makes a Hasher.
func New(e *env.Env) *Hasher {
	return &Hasher{env: e, lanes: make(chan struct{}, Lanes), nobody: hash{
		memory: Memory, passes: passes, threads: threads, salt: salt(e), sum: make([]byte, hashBytes),
	}}
}

// Acceptable answers validation_failed for what is no password: fewer than MinLength characters, more than
// MaxBytes, or no UTF-8.
func Acceptable(password string) error {
	if utf8.RuneCountInString(password) < MinLength || len(password) > MaxBytes || !utf8.ValidString(password) {
		return fault.Invalid("/password", "a password has at least %d characters and at most %d bytes", MinLength, MaxBytes)
	}
	return nil
}

// Hash answers the PHC string of an acceptable password.
func (h *Hasher) Hash(ctx context.Context, password string) (string, error) {
	if err := Acceptable(password); err != nil {
		return "", err
	}
	leave, err := h.enter(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	made := hash{memory: Memory, passes: passes, threads: threads, salt: salt(h.env), sum: make([]byte, hashBytes)}
	made.sum = made.of(password)
	return made.String(), nil
}

// Check reports whether password is the one of stored. An empty stored is nobody's: it takes as long and is
// never right.
func (h *Hasher) Check(ctx context.Context, password, stored string) (bool, error) {
	against, somebody := h.nobody, stored != ""
	if somebody {
		var err error
		if against, err = parse(stored); err != nil {
			return false, err
		}
	}
	leave, err := h.enter(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	if len(password) > MaxBytes {
		password = ""
	}
	same := subtle.ConstantTimeCompare(against.of(password), against.sum) == 1
	return same && somebody, nil
}

// enter waits for a lane; the caller leaves it again.
func (h *Hasher) enter(ctx context.Context) (leave func(), err error) {
	if h.waiting.Add(1) > maxWaiting {
		h.waiting.Add(-1)
		return nil, busy()
	}
	defer h.waiting.Add(-1)
	select {
	case h.lanes <- struct{}{}:
		return func() { <-h.lanes }, nil
	case <-ctx.Done():
		return nil, busy()
	}
}

func busy() error {
	return fault.New(code.Unavailable, "Too many passwords are being checked right now. Try again.")
}

// hash is a PHC string of argon2id, taken apart.
type hash struct {
	memory  uint32 // KiB
	passes  uint32
	threads uint8
	salt    []byte
	sum     []byte
}

func (h hash) of(password string) []byte {
	return argon2.IDKey([]byte(password), h.salt, h.passes, h.memory, h.threads, uint32(len(h.sum)))
}

// String answers the PHC string.
func (h hash) String() string {
	encode := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, h.memory, h.passes, h.threads, encode(h.salt), encode(h.sum))
}

var errStored = errors.New("read password hash: it is no argon2id hash that this program makes")

// parse reads a PHC string whose cost is at most twice today's.
func parse(stored string) (hash, error) {
	parts := strings.Split(stored, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return hash{}, errStored
	}
	var read hash
	if n, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &read.memory, &read.passes, &read.threads); err != nil || n != 3 {
		return hash{}, errStored
	}
	var err, sumErr error
	read.salt, err = base64.RawStdEncoding.DecodeString(parts[4])
	read.sum, sumErr = base64.RawStdEncoding.DecodeString(parts[5])
	cost := uint64(read.memory) * uint64(read.passes)
	fine := read.passes > 0 && read.threads > 0 && read.threads <= 16 && read.memory >= 8*uint32(read.threads) && cost <= 2*Memory*passes &&
		len(read.salt) >= 8 && len(read.salt) <= 64 && len(read.sum) >= 16 && len(read.sum) <= 64
	if err != nil || sumErr != nil || !fine || read.String() != stored {
		return hash{}, errStored
	}
	return read, nil
}

// salt answers saltBytes random bytes.
func salt(e *env.Env) []byte {
	random, _ := base64.RawURLEncoding.DecodeString(e.Token(saltBytes)) // it is base64url by contract
	return random
}
