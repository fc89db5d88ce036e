package identity

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

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
)

// keyHash is the SHA-256 of a key, the only form in which one is kept. Looking up by it takes the
// same time whatever the key shares with a real one.
type keyHash [sha256.Size]byte

func (h keyHash) stored() string { return hex.EncodeToString(h[:]) }

// String answers the hash, which tells nothing of the key.
func (h keyHash) String() string { return h.stored() }

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
// elsewhere is refused within trusted.Trust. When too many unknown keys wait already, unavailable.
func (s *Service) Authenticate(ctx context.Context, key string) (Principal, error) {
	if !wellFormed(key) {
		return Principal{}, invalidKey()
	}
	hash := hashKey(key)
	principal, good, err := s.keys.Ask(ctx, hash, func(ctx context.Context) (Principal, bool, error) { return s.readKey(ctx, hash) })
	if err != nil {
		return Principal{}, err
	}
	if !good {
		return Principal{}, invalidKey()
	}
	return principal, nil
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
