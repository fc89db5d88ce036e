package identity

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
)

const (
	keyPrefix  = "codai_"
	keyBytes   = 32
	keyLength  = len(keyPrefix) + 43 // 32 bytes as base64url without padding
	hintLength = 4

	// keyTrust is how long an answer about a key is trusted without asking the database again.
	keyTrust = time.Second
	// lookupTimeout bounds one question to the database about a key.
	lookupTimeout = 5 * time.Second

	// Past these the key, or the unknown key, that was presented longest ago is forgotten. They are
	// apart so that a flood of unknown keys never evicts a known one.
	maxKnownKeys   = 16_384
	maxUnknownKeys = 4_096

	// Look-ups that may run at once. Those of keys that were good before do not queue behind others.
	knownLanes   = 8
	unknownLanes = 2
	// maxUnknownWaiting is how many look-ups of unknown keys may wait; past it they are turned away.
	maxUnknownWaiting = 1_024
)

// keyHash is the SHA-256 of a key, the only form in which one is kept. Looking up by it takes the
// same time whatever the key shares with a real one.
type keyHash [sha256.Size]byte

func (h keyHash) stored() string { return hex.EncodeToString(h[:]) }

// keyAnswer is what the database said about a key.
type keyAnswer struct {
	principal  Principal
	good       bool
	asked      time.Time // before the database was asked
	generation uint64
}

// newKey makes a key, with its stored form and the hint that names it to its owner.
func newKey(e *env.Env) (key, hash, hint string) {
	key = keyPrefix + e.Token(keyBytes)
	return key, hashKey(key).stored(), key[len(key)-hintLength:]
}

func hashKey(key string) keyHash { return sha256.Sum256([]byte(key)) }

func wellFormed(key string) bool {
	if len(key) != keyLength || !strings.HasPrefix(key, keyPrefix) {
		return false
	}
	_, err := base64.RawURLEncoding.Strict().DecodeString(key[len(keyPrefix):])
	return err == nil
}

// invalidKey is one answer for every key that is not good, so that it tells nothing (SS-HTTP-2).
func invalidKey() error {
	return fault.New(code.InvalidAPIKey, "Missing or invalid API key. Send Authorization: Bearer <key>.")
}

// Authenticate answers whose key is presented, or invalid_api_key, the same for a missing,
// malformed, unknown or revoked key and for the key of a disabled user (SS-HTTP-2). A key revoked
// elsewhere is refused within keyTrust. When too many unknown keys wait already, unavailable.
func (s *Service) Authenticate(ctx context.Context, key string) (Principal, error) {
	if !wellFormed(key) {
		return Principal{}, invalidKey()
	}
	hash := hashKey(key)
	answer, fresh, familiar := s.cachedKey(hash)
	if !fresh {
		var err error
		if answer, err = s.lookUpKey(ctx, hash, familiar); err != nil {
			return Principal{}, err
		}
	}
	if !answer.good {
		return Principal{}, invalidKey()
	}
	return answer.principal, nil
}

// cachedKey answers what is known of a key, whether that may still be trusted, and whether the key
// was good when it was last read.
func (s *Service) cachedKey(hash keyHash) (answer keyAnswer, fresh, familiar bool) {
	now := s.env.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, familiar = s.known.get(hash)
	if !familiar {
		answer, _ = s.unknown.get(hash)
	}
	age := now.Sub(answer.asked)
	fresh = s.caching() && answer.generation == s.generation.Load() && age >= 0 && age < keyTrust
	return answer, fresh, familiar
}

// lookUpKey asks the database, once for all who ask about the same key at the same time. The
// question goes on when the one who asked first goes away, since others wait for it.
func (s *Service) lookUpKey(ctx context.Context, hash keyHash, familiar bool) (keyAnswer, error) {
	generation := s.generation.Load()
	flight := fmt.Sprintf("key %d %s", generation, hash.stored())
	result, err, _ := s.flights.Do(flight, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
		defer cancel()
		leave, err := s.lookups.enter(ctx, familiar)
		if err != nil {
			return keyAnswer{}, err
		}
		defer leave()
		answer := keyAnswer{asked: s.env.Now(), generation: generation}
		answer.principal, answer.good, err = s.readKey(ctx, hash)
		if err != nil {
			return keyAnswer{}, err
		}
		s.remember(hash, answer)
		return answer, nil
	})
	return result.(keyAnswer), err //nolint:wrapcheck // it is the function's own
}

func (s *Service) readKey(ctx context.Context, hash keyHash) (Principal, bool, error) {
	var principal Principal
	var good bool
	err := s.db.Read(ctx, func(tx storage.Tx) (err error) {
		good, err = tx.Get(
			`SELECT u.id, k.id FROM api_keys k JOIN users u ON u.id = k.user_id
			  WHERE k.hash = $1 AND k.revoked_at IS NULL AND u.disabled_at IS NULL`,
			[]any{hash.stored()}, &principal.UserID, &principal.KeyID)
		return err
	})
	if err != nil {
		return Principal{}, false, fmt.Errorf("look up key: %w", err)
	}
	return principal, good, nil
}

func (s *Service) remember(hash keyHash, answer keyAnswer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if answer.good {
		s.unknown.drop(hash)
		s.known.put(hash, answer)
		return
	}
	s.known.drop(hash)
	s.unknown.put(hash, answer)
}

// lookups bounds the questions to the database about keys.
type lookups struct {
	known, unknown chan struct{}
	waiting        *atomic.Int64 // look-ups of unknown keys that wait or run
}

func newLookups() lookups {
	return lookups{
		known:   make(chan struct{}, knownLanes),
		unknown: make(chan struct{}, unknownLanes),
		waiting: new(atomic.Int64),
	}
}

// enter waits for a lane; the caller leaves it again with leave.
func (l lookups) enter(ctx context.Context, familiar bool) (leave func(), err error) {
	lane, done := l.known, func() {}
	if !familiar {
		lane, done = l.unknown, func() { l.waiting.Add(-1) }
		if l.waiting.Add(1) > maxUnknownWaiting {
			done()
			return nil, busy()
		}
	}
	select {
	case lane <- struct{}{}:
		return func() { <-lane; done() }, nil
	case <-ctx.Done():
		done()
		return nil, busy()
	}
}

func busy() error {
	return fault.New(code.Unavailable, "Too many keys are being checked right now. Try again.")
}
