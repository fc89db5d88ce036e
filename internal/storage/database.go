package storage

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairnsync/cairn/internal/env"
)

// database is the DB of both engines: it chooses lanes, and repeats reads.
type database struct {
	engine engine
	env    *env.Env
	log    *slog.Logger
	lanes  []*lane
	seed   maphash.Seed
	next   atomic.Uint64 // the lane of the next write without keys

	mu       sync.Mutex
	closed   bool          // guarded by mu
	running  int           // calls of Read and Write that have begun; guarded by mu
	idle     chan struct{} // closed when closed is set and running is 0
	closeErr error         // valid once idle and the lanes have ended
	done     chan struct{} // closed when closeErr is valid
}

func newDatabase(engine engine, options Options) *database {
	db := &database{
		engine: engine, env: options.Env, log: options.Log, seed: maphash.MakeSeed(),
		idle: make(chan struct{}), done: make(chan struct{}),
	}
	for range engine.lanes() {
		lane := newLane(engine, options)
		db.lanes = append(db.lanes, lane)
		go lane.run()
	}
	return db
}

// Write hands fn to a lane and waits for its answer.
func (db *database) Write(ctx context.Context, keys []Key, fn func(Tx) error, ahead ...Prefetch) error {
	if err := db.enter(); err != nil {
		return err
	}
	defer db.leave()
	reads, err := prefetches(db.engine, ahead)
	if err != nil {
		return err
	}
	return db.laneOf(keys).write(ctx, &write{ctx: ctx, keys: keys, fn: fn, ahead: reads, since: db.env.Now(), answer: make(chan error, 1)})
}

func (db *database) laneOf(keys []Key) *lane {
	if len(db.lanes) == 1 {
		return db.lanes[0]
	}
	pick := db.next.Add(1)
	if len(keys) > 0 {
		pick = maphash.String(db.seed, keys[0].ID)
	}
	return db.lanes[pick%uint64(len(db.lanes))]
}

// Reads are repeated this often, over at most about patience.
const readAttempts = 6

// patience bounds how long a lost or unreachable database is waited for.
const patience = 5 * time.Second

// Read runs fn in a snapshot, again when the connection was lost.
func (db *database) Read(ctx context.Context, fn func(Tx) error) error {
	if err := db.enter(); err != nil {
		return err
	}
	defer db.leave()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	wait := newBackoff(db.env)
	for attempt := 1; ; attempt++ {
		err := db.engine.read(ctx, fn)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("read from database: %w", ctx.Err())
		}
		verdict := diagnose(db.engine, err)
		if verdict == final || verdict == blocked {
			return revealed(err)
		}
		if attempt == readAttempts || !wait.pause(ctx, deadline.C) {
			if verdict == lost {
				return unavailable(err)
			}
			return revealed(err)
		}
	}
}

// Close refuses new calls, waits for the running ones and closes every connection. Every call of it
// answers the same, after the end.
func (db *database) Close() error {
	if !db.beginClose() {
		<-db.done
		return db.closeErr
	}
	<-db.idle
	for _, lane := range db.lanes {
		lane.stop()
	}
	db.closeErr = db.engine.close()
	close(db.done)
	return db.closeErr
}

func (db *database) beginClose() bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return false
	}
	db.closed = true
	if db.running == 0 {
		close(db.idle)
	}
	return true
}

func (db *database) enter() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return ErrClosed
	}
	db.running++
	return nil
}

func (db *database) leave() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.running--
	if db.closed && db.running == 0 {
		close(db.idle)
	}
}
