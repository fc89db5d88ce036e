package session

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/cairnsync/cairn/internal/storage"
)

// errStale says that a cached resolution no longer holds.
var errStale = errors.New("session is gone")

// resolution is how a reference was understood.
type resolution struct {
	id   string
	own  bool // by the caller's own session_key
	byID bool // by the server's id
}

// resolveQuery finds the session that reference $3 means for user $1 at the moment $2: the caller's
// own session_key, then the server id $4, then another user's session_key on which the caller has a
// role (SS-REF-1); links count by their token hash $5.
const resolveQuery = `
	SELECT id, 1 AS rank, created_at FROM sessions WHERE owner_user_id = $1 AND session_key = $3
	UNION ALL
	SELECT id, 2, created_at FROM sessions WHERE id = $4
	UNION ALL
	SELECT s.id, 3, s.created_at FROM sessions s JOIN session_shares h ON h.session_id = s.id
	 WHERE s.session_key = $3 AND s.owner_user_id <> $1 AND (` + matching + `
	    OR (h.principal_type = 'link' AND h.token_hash = $5 AND (h.expires_at IS NULL OR h.expires_at > $2)))
	ORDER BY 2, 3, 1 LIMIT 1`

// resolve finds the session that ref means to the caller.
func resolve(tx storage.Tx, by Caller, ref string) (resolution, error) {
	var id string
	var rank int64
	found, err := tx.Get(resolveQuery, []any{by.UserID, tx.Now(), ref, strings.ToLower(ref), by.LinkHash}, &id, &rank, new(int64))
	if err != nil || found {
		return resolution{id: id, own: rank == 1, byID: rank == 2}, err
	}
	exists, err := tx.Get(`SELECT id FROM sessions WHERE session_key = $1 LIMIT 1`, []any{ref}, &id)
	if err != nil {
		return resolution{}, err
	}
	if exists {
		return resolution{}, notAMember("")
	}
	return resolution{}, sessionNotFound()
}

// withRef runs fn with the id that ref means. A cached id may be out of date (the session was
// deleted); then ref is resolved once more.
func withRef[T any](ctx context.Context, s *Service, by Caller, ref string, fn func(id string) (T, error)) (T, error) {
	if id, ok := s.refs.get(by.UserID, ref); ok {
		out, err := fn(id)
		if !errors.Is(err, errStale) {
			return out, err
		}
		s.refs.drop(by.UserID, ref)
	}
	var zero T
	found, err := storage.Read(ctx, s.db, func(tx storage.Tx) (resolution, error) { return resolve(tx, by, ref) })
	if err != nil {
		return zero, err
	}
	out, err := fn(found.id)
	if errors.Is(err, errStale) {
		return zero, sessionNotFound()
	}
	// Another user's session_key is not remembered: a session of the caller's own would win.
	if err == nil && (found.own || found.byID) {
		s.refs.put(by.UserID, ref, found.id)
	}
	return out, err
}

// refCacheSize bounds the references remembered; when it is full the older half is forgotten.
const refCacheSize = 20_000

type refKey struct{ userID, ref string }

// refCache remembers what references mean. A reference by the caller's own session_key or by the
// server's id keeps its meaning until the session is deleted, which every use notices.
type refCache struct {
	mu     sync.Mutex
	recent map[refKey]string // guarded by mu, like older
	older  map[refKey]string
}

func newRefCache() *refCache { return &refCache{recent: map[refKey]string{}} }

func (c *refCache) get(userID, ref string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := refKey{userID, ref}
	if id, ok := c.recent[key]; ok {
		return id, true
	}
	id, ok := c.older[key]
	if ok {
		c.insert(key, id)
	}
	return id, ok
}

func (c *refCache) put(userID, ref, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.insert(refKey{userID, ref}, id)
}

func (c *refCache) drop(userID, ref string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.recent, refKey{userID, ref})
	delete(c.older, refKey{userID, ref})
}

func (c *refCache) insert(key refKey, id string) {
	if len(c.recent) >= refCacheSize/2 {
		c.older, c.recent = c.recent, map[refKey]string{}
	}
	c.recent[key] = id
}
