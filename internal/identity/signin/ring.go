package signin

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/identity/lru"
	"github.com/cairnsync/cairn/internal/identity/token"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
)

const (
	// keysTrust is how long the keys are trusted without reading them again, when no wake-up came.
	keysTrust = 30 * time.Second
	// keysPause is the least time between two readings: tokens with keys that nobody knows cost no more.
	keysPause = time.Second
	// keysKept is how long a replaced key is kept; at least the longest auth.access_token_ttl.
	keysKept = 25 * time.Hour
	// maxVerified is how many access tokens are known to be good without looking at their signature again.
	maxVerified = 16_384
)

// tokenHash is the SHA-256 of an access token.
type tokenHash [sha256.Size]byte

// ring holds the keys that sign access tokens, as this node knows them.
type ring struct {
	db        storage.DB
	env       *env.Env
	life      time.Duration
	flights   singleflight.Group
	listening atomic.Bool

	mu       sync.Mutex // guards what follows
	instance string
	keys     token.Keys // the current one first
	read     time.Time  // when they were read, by the process's clock
	stale    bool       // a wake-up came since
	verified *lru.Cache[tokenHash, token.Access]
}

func newRing(db storage.DB, e *env.Env, life time.Duration) *ring {
	return &ring{db: db, env: e, life: life, verified: lru.New[tokenHash, token.Access](maxVerified)}
}

// outdated says that the keys may have changed.
func (r *ring) outdated() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stale = true
}

// forget makes the next use read the keys, however short ago that happened.
func (r *ring) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read, r.stale = time.Time{}, true
}

// held is what a ring knows at a moment.
type held struct {
	instance string
	keys     token.Keys
}

// current answers the keys, read again when they may have changed.
func (r *ring) current(ctx context.Context) (held, error) {
	r.mu.Lock()
	age := r.env.Now().Sub(r.read)
	known := held{r.instance, r.keys}
	trust := keysTrust
	if r.stale || !r.listening.Load() {
		trust = keysPause
	}
	r.mu.Unlock()
	if len(known.keys) > 0 && age >= 0 && age < trust {
		return known, nil
	}
	return r.reload(ctx)
}

// again answers the keys read again, unless that happened just now.
func (r *ring) again(ctx context.Context) (now held, changed bool, err error) {
	r.mu.Lock()
	age := r.env.Now().Sub(r.read)
	known := held{r.instance, r.keys}
	r.mu.Unlock()
	if age >= 0 && age < keysPause {
		return known, false, nil
	}
	now, err = r.reload(ctx)
	return now, err == nil, err
}

// verify answers what an access token says, from its signature alone.
func (r *ring) verify(ctx context.Context, raw string) (token.Access, error) {
	hash := tokenHash(sha256.Sum256([]byte(raw)))
	now := r.env.Now()
	r.mu.Lock()
	access, known := r.verified.Get(hash)
	r.mu.Unlock()
	if known {
		if !access.ExpiresAt.After(now) {
			return token.Access{}, expired()
		}
		return access, nil
	}
	keys, err := r.current(ctx)
	if err != nil {
		return token.Access{}, err
	}
	access, err = keys.keys.Verify(raw, keys.instance, now, r.life)
	if errors.Is(err, token.ErrUnknownKey) {
		fresh, changed, readErr := r.again(ctx)
		if readErr != nil {
			return token.Access{}, readErr
		}
		if changed {
			access, err = fresh.keys.Verify(raw, fresh.instance, now, r.life)
		}
	}
	switch {
	case errors.Is(err, token.ErrExpired):
		return token.Access{}, expired()
	case err != nil:
		return token.Access{}, fault.New(code.InvalidToken, "The access token is no good.").WithCause(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verified.Put(hash, access)
	return access, nil
}

func expired() error { return fault.New(code.TokenExpired, "The token has expired.") }

// sign makes an access token with the current key.
func (r *ring) sign(ctx context.Context, access token.Access) (string, error) {
	keys, err := r.current(ctx)
	if err != nil {
		return "", err
	}
	return keys.keys[0].Sign(keys.instance, access)
}

// reload reads the keys, once for all who ask at the same time.
func (r *ring) reload(ctx context.Context) (held, error) {
	result, err, _ := r.flights.Do("keys", func() (any, error) {
		ctx := context.WithoutCancel(ctx)
		r.mu.Lock()
		r.stale = false // a wake-up from now on is about something later
		asked := r.env.Now()
		r.mu.Unlock()
		now, err := storage.Read(ctx, r.db, readKeys)
		if err != nil {
			r.outdated()
			return held{}, err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if !sameKeys(r.keys, now.keys) {
			r.verified = lru.New[tokenHash, token.Access](maxVerified)
		}
		r.instance, r.keys, r.read = now.instance, now.keys, asked
		return now, nil
	})
	if err != nil {
		return held{}, err //nolint:wrapcheck // it is the function's own
	}
	return result.(held), nil
}

func sameKeys(a, b token.Keys) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].ID != b[i].ID || !a[i].RotatedAt.Equal(b[i].RotatedAt) {
			return false
		}
	}
	return true
}

// readKeys reads the instance's id and its keys, the current one first.
func readKeys(tx storage.Tx) (held, error) {
	var read held
	if _, err := tx.Get(`SELECT id FROM instance`, nil, &read.instance); err != nil {
		return held{}, fmt.Errorf("read instance: %w", err)
	}
	var parseErr error
	err := tx.Query(
		`SELECT id, private_key, rotated_at FROM signing_keys
		  WHERE is_current = TRUE OR rotated_at > $1 ORDER BY CASE WHEN is_current = TRUE THEN 0 ELSE 1 END, rotated_at DESC`,
		[]any{tx.Now().Add(-keysKept)}, func(row storage.Row) error {
			var id, stored string
			var rotated *time.Time
			if err := row.Scan(&id, &stored, &rotated); err != nil {
				return err
			}
			key, err := token.ParseKey(id, stored, orZero(rotated))
			read.keys = append(read.keys, key)
			parseErr = errors.Join(parseErr, err)
			return nil
		})
	if err = errors.Join(err, parseErr); err != nil {
		return held{}, fmt.Errorf("read signing keys: %w", err)
	}
	if len(read.keys) == 0 || !read.keys[0].RotatedAt.IsZero() {
		return held{}, errors.New("read signing keys: none is current")
	}
	return read, nil
}

func orZero(at *time.Time) time.Time {
	if at == nil {
		return time.Time{}
	}
	return *at
}

// ensure makes the first key of an instance.
func (r *ring) ensure(ctx context.Context) error {
	return r.db.Write(ctx, nil, func(tx storage.Tx) error {
		found, err := tx.Get(`SELECT 1 FROM signing_keys WHERE is_current = TRUE`, nil, new(int))
		if err != nil || found {
			return err
		}
		_, err = r.insert(tx)
		return err
	})
}

// insert adds a current key, unless there is one, and answers its id.
func (r *ring) insert(tx storage.Tx) (string, error) {
	key, err := token.NewKey(r.env)
	if err != nil {
		return "", err
	}
	err = tx.Exec(`INSERT INTO signing_keys (id, private_key, created_at, is_current) VALUES ($1, $2, $3, TRUE) ON CONFLICT DO NOTHING`,
		key.ID, key.Stored(), tx.Now())
	if err != nil {
		return "", fmt.Errorf("add signing key: %w", err)
	}
	return key.ID, nil
}
