// Package idempotency makes a write that a client repeats happen once (ES-5.2).
//
// Contract. A Key comes with a request. Once runs the change unless the key was used before, and writes
// the answer down in the transaction of the change, so that either both are durable or neither: after a
// crash between commit and answer the repeat finds what was answered. What is stored holds no secret and
// no content that can be deleted: content is stored as a reference and read again for a repeat.
//
// Order. The caller authorises first, also before a repeat (WS-AZ-5), and calls Once before it looks at
// versions.
//
// Concurrency. The package has no state but Running, which is safe for concurrent use. Two requests with
// the same key on two nodes are decided by the table's primary key: the second one waits for the first.
package idempotency

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/service"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
)

// Key is an Idempotency-Key with the request it came with. A nil Key is a request without one.
type Key struct {
	Principal string
	Method    string
	Path      string
	ID        string // UUID
	Hash      string // of the request, canonical

	// Replayed is set when the answer is a stored one.
	Replayed bool
}

// Once answers what change answers, or what it answered when the key was used before. The answer is
// stored as JSON: use OnceByID for answers that hold content. A key that was used for another request is
// idempotency_key_reuse.
func Once[T any](tx storage.Tx, key *Key, change func() (T, error)) (T, error) {
	return once(tx, key, change, encode, decode[T])
}

// Recall is the first half of Once, for who must know of a repeat before it writes: it answers what was
// answered when the key was used before, if it was.
func Recall[T any](tx storage.Tx, key *Key) (answer T, found bool, err error) {
	stored, found, err := key.lookUp(tx)
	if err != nil || !found {
		return answer, false, err
	}
	answer, err = decode[T](stored)
	return answer, err == nil, err
}

// Remember is the other half: it stores the answer of a change whose key Recall did not find.
func Remember[T any](tx storage.Tx, key *Key, answer T) error {
	if key == nil {
		return nil
	}
	stored, err := encode(answer)
	if err != nil {
		return err
	}
	return key.store(tx, stored)
}

func encode[T any](answer T) (string, error) {
	encoded, err := json.Marshal(answer)
	if err != nil {
		return "", fmt.Errorf("encode answer for its repeat: %w", err)
	}
	return string(encoded), nil
}

func decode[T any](stored string) (answer T, err error) {
	if err := json.Unmarshal([]byte(stored), &answer); err != nil {
		return answer, fmt.Errorf("decode stored answer: %w", err)
	}
	return answer, nil
}

// OnceByID is Once for an answer that holds content: its id is stored, and a repeat answers what load
// reads by it now.
func OnceByID[T any](tx storage.Tx, key *Key, change func() (T, error), id func(T) string, load func(id string) (T, error)) (T, error) {
	return once(tx, key, change, func(answer T) (string, error) { return id(answer), nil }, load)
}

func once[T any](tx storage.Tx, key *Key, change func() (T, error), encode func(T) (string, error), decode func(string) (T, error)) (T, error) {
	var none T
	stored, found, err := key.lookUp(tx)
	if err != nil {
		return none, err
	}
	if found {
		return decode(stored)
	}
	answer, err := change()
	if err != nil || key == nil {
		return answer, err
	}
	stored, err = encode(answer)
	if err != nil {
		return none, err
	}
	return answer, key.store(tx, stored)
}

// lookUp also notes in the key whether it was used.
func (k *Key) lookUp(tx storage.Tx) (stored string, found bool, err error) {
	if k == nil {
		return "", false, nil
	}
	var hash string
	found, err = tx.Get(
		`SELECT request_hash, body FROM idempotency_keys WHERE principal_id = $1 AND key = $2 AND method = $3 AND path = $4`,
		[]any{k.Principal, k.ID, k.Method, k.Path}, &hash, &stored)
	if err != nil {
		return "", false, fmt.Errorf("look for idempotency key: %w", err)
	}
	k.Replayed = found
	if found && hash != k.Hash {
		return "", false, fault.New(code.IdempotencyKeyReuse, "This Idempotency-Key was used for another request.")
	}
	return stored, found, nil
}

func (k *Key) store(tx storage.Tx, body string) error {
	rows, err := tx.Changed(
		`INSERT INTO idempotency_keys (principal_id, method, path, key, request_hash, body, created_at)
		 VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING`,
		k.Principal, k.Method, k.Path, k.ID, k.Hash, body, tx.Now())
	if err != nil {
		return fmt.Errorf("store idempotency key: %w", err)
	}
	if rows == 0 { // another node was faster; this transaction is undone and the client asks again
		return inProgress()
	}
	return nil
}

func inProgress() error {
	return fault.New(code.RequestInProgress, "The first request with this Idempotency-Key still runs. Ask again.")
}

// sweepBatch is how many old keys one transaction removes.
const sweepBatch = 1000

// Sweep removes keys older than ttl (sync.idempotency_key_ttl), in small steps.
func Sweep(ctx context.Context, db storage.DB, ttl time.Duration) error {
	for {
		removed, err := storage.Write(ctx, db, nil, func(tx storage.Tx) (int64, error) {
			return tx.Changed(
				`DELETE FROM idempotency_keys WHERE (principal_id, key, method, path) IN (
				     SELECT principal_id, key, method, path FROM idempotency_keys WHERE created_at < $1 ORDER BY created_at LIMIT $2)`,
				tx.Now().Add(-ttl), sweepBatch)
		})
		if err != nil {
			return fmt.Errorf("remove old idempotency keys: %w", err)
		}
		if removed < sweepBatch {
			return nil
		}
	}
}

// SweeperOptions are what the sweeping needs.
type SweeperOptions struct {
	DB  storage.DB
	Log *slog.Logger
	// TTL is sync.idempotency_key_ttl.
	TTL time.Duration
}

// Bounds of how often old keys are removed: a tenth of the time they are kept, within these.
const (
	leastSweepInterval = 100 * time.Millisecond
	mostSweepInterval  = 5 * time.Minute
)

// NewSweeper makes the service that removes old keys from time to time.
func NewSweeper(options SweeperOptions) service.Service {
	return service.Every(min(max(options.TTL/10, leastSweepInterval), mostSweepInterval), func(ctx context.Context) {
		if err := Sweep(ctx, options.DB, options.TTL); err != nil && ctx.Err() == nil {
			options.Log.Warn("remove old idempotency keys", "error", err)
		}
	})
}

// Running knows the requests of this process that have not been answered yet.
type Running struct {
	mu   sync.Mutex
	keys map[Key]struct{} // without Hash and Replayed; bounded by the requests in flight
}

// Enter answers request_in_progress while the first request with this key runs; leave ends it.
func (r *Running) Enter(key *Key) (leave func(), err error) {
	if key == nil {
		return func() {}, nil
	}
	id := Key{Principal: key.Principal, Method: key.Method, Path: key.Path, ID: key.ID}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, running := r.keys[id]; running {
		return nil, inProgress()
	}
	if r.keys == nil {
		r.keys = make(map[Key]struct{})
	}
	r.keys[id] = struct{}{}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.keys, id)
	}, nil
}
