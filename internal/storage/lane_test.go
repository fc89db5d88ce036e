package storage_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
)

// commits counts what the lanes did.
type commits struct{ batches, writes, largest atomic.Int64 }

func (c *commits) observer() *storage.Observer {
	return &storage.Observer{BatchCommitted: func(size int, _, _ time.Duration) {
		c.batches.Add(1)
		c.writes.Add(int64(size))
		for {
			largest := c.largest.Load()
			if int64(size) <= largest || c.largest.CompareAndSwap(largest, int64(size)) {
				return
			}
		}
	}}
}

// together makes the writes run in one batch of a single lane, in order, and answers their errors.
func together(t *testing.T, db storage.DB, writes ...func(storage.Tx) error) []error {
	t.Helper()
	plans := make([]planned, len(writes))
	for i, fn := range writes {
		plans[i].fn = fn
	}
	return plannedTogether(t, db, plans...)
}

// planned is a write with all that may be said about it.
type planned struct {
	fn    func(storage.Tx) error
	keys  []storage.Key
	ahead []storage.Prefetch
}

func plannedTogether(t *testing.T, db storage.DB, writes ...planned) []error {
	t.Helper()
	held, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var group sync.WaitGroup
	group.Go(func() {
		_ = db.Write(t.Context(), nil, func(storage.Tx) error {
			once.Do(func() { close(held) })
			<-release
			return nil
		})
	})
	<-held
	results := make([]error, len(writes))
	for i, w := range writes {
		group.Go(func() { results[i] = db.Write(t.Context(), w.keys, w.fn, w.ahead...) })
		require.Eventually(t, func() bool { return storage.Waiting(db) == i+1 }, 10*time.Second, 100*time.Microsecond)
	}
	close(release)
	group.Wait()
	return results
}

func TestWritersCommitTogether(t *testing.T) {
	t.Parallel()
	var seen commits
	eachEngine(t, storage.Options{Lanes: 1, Observer: seen.observer()}, func(t *testing.T, db storage.DB) {
		withCounters(t, db, "a")
		var mine commits
		var group sync.WaitGroup
		const writers, rounds = 40, 5
		for range writers {
			group.Go(func() {
				for range rounds {
					mine.writes.Add(1)
					if err := db.Write(t.Context(), counterKey("a"), func(tx storage.Tx) error { return increment(tx, "a") }); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		require.EqualValues(t, writers*rounds, count(t, db, "a"))
	})
	t.Cleanup(func() {
		require.Less(t, seen.batches.Load(), seen.writes.Load()/2, "batches against writes")
		require.LessOrEqual(t, seen.largest.Load(), int64(storage.MaxBatch))
	})
}

func TestFailureBeforeWritingIsOnlyItsOwn(t *testing.T) {
	t.Parallel()
	eachEngine(t, storage.Options{Lanes: 1}, func(t *testing.T, db storage.DB) {
		withCounters(t, db, "a")
		refused := fault.New(code.SeqConflict, "no")
		var runs [3]atomic.Int64
		results := together(t, db,
			func(tx storage.Tx) error { runs[0].Add(1); return increment(tx, "a") },
			func(tx storage.Tx) error {
				runs[1].Add(1)
				var n int64
				if _, err := tx.Get("SELECT n FROM counters WHERE id = $1", []any{"a"}, &n); err != nil {
					return err
				}
				tx.AfterCommit(func() { t.Error("an effect of a failed function ran") })
				return refused
			},
			func(tx storage.Tx) error { runs[2].Add(1); return increment(tx, "a") },
		)
		require.Equal(t, []error{nil, refused, nil}, results)
		require.Equal(t, [3]int64{1, 1, 1}, [3]int64{runs[0].Load(), runs[1].Load(), runs[2].Load()})
		require.EqualValues(t, 2, count(t, db, "a"))
	})
}

func TestFailureAfterWritingUndoesOnlyItself(t *testing.T) {
	t.Parallel()
	failures := map[string]func(tx storage.Tx) error{
		"own error": func(tx storage.Tx) error { return errors.Join(increment(tx, "a"), errors.New("afterwards")) },
		"after RETURNING": func(tx storage.Tx) error {
			var n int64
			_, err := tx.Get("UPDATE counters SET n = n + 100 WHERE id = $1 RETURNING n", []any{"a"}, &n)
			return errors.Join(err, errors.New("afterwards"))
		},
		"constraint":    func(tx storage.Tx) error { return tx.Exec("INSERT INTO counters (id, n) VALUES ($1, 1)", "a") },
		"syntax":        func(tx storage.Tx) error { return tx.Exec("UPDATE counters SET nonsense = 1") },
		"ignored error": func(tx storage.Tx) error { _ = tx.Exec("SELEKT 1"); _ = increment(tx, "a"); return nil },
		"panic":         func(tx storage.Tx) error { _ = increment(tx, "a"); panic("boom") },
		"panic in a row": func(tx storage.Tx) error {
			return tx.Query("SELECT id FROM counters", nil, func(storage.Row) error { panic("boom") })
		},
	}
	for name, failing := range failures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachEngine(t, storage.Options{Lanes: 1}, func(t *testing.T, db storage.DB) {
				withCounters(t, db, "a")
				plain := func(tx storage.Tx) error { return increment(tx, "a") }
				results := together(t, db, plain, failing, plain)
				require.NoError(t, results[0])
				require.Error(t, results[1])
				require.NoError(t, results[2])
				require.EqualValues(t, 2, count(t, db, "a"))
			})
		})
	}
}

func TestFunctionThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	eachEngine(t, storage.Options{Lanes: 1}, func(t *testing.T, db storage.DB) {
		withCounters(t, db, "a")
		err := db.Write(t.Context(), nil, func(tx storage.Tx) error {
			_ = increment(tx, "a")
			runtime.Goexit()
			return nil
		})
		require.ErrorContains(t, err, "ended its goroutine")
		require.NoError(t, db.Write(t.Context(), nil, func(tx storage.Tx) error { return increment(tx, "a") }))
		require.EqualValues(t, 1, count(t, db, "a"))
	})
}

func TestEffectsRunOnceInOrderBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	eachEngine(t, storage.Options{Lanes: 1}, func(t *testing.T, db storage.DB) {
		withCounters(t, db, "a")
		var order []string // by the lane only
		writing := func(name string) func(storage.Tx) error {
			return func(tx storage.Tx) error {
				tx.AfterCommit(func() { order = append(order, name+"1") })
				tx.AfterCommit(func() { order = append(order, name+"2") })
				return increment(tx, "a")
			}
		}
		failing := func(tx storage.Tx) error {
			tx.AfterCommit(func() { order = append(order, "failed") })
			return errors.Join(increment(tx, "a"), errors.New("no"))
		}
		panicking := func(tx storage.Tx) error {
			tx.AfterCommit(func() { panic("an effect") })
			return increment(tx, "a")
		}
		results := together(t, db, writing("x"), failing, panicking, writing("y"))
		require.Error(t, results[1])
		require.NoError(t, errors.Join(results[0], results[2], results[3]))
		require.Equal(t, []string{"x1", "x2", "y1", "y2"}, order)
		answered := false
		require.NoError(t, db.Write(t.Context(), nil, func(tx storage.Tx) error {
			tx.AfterCommit(func() { answered = true })
			return increment(tx, "a")
		}))
		require.True(t, answered, "effects precede the answer")
	})
}

func TestNowIsSharedAndNeverStepsBack(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var calls atomic.Int64
	backwards := env.WithClock(func() time.Time { return start.Add(-time.Duration(calls.Add(1)) * time.Second) })
	eachEngine(t, storage.Options{Lanes: 1, Env: backwards}, func(t *testing.T, db storage.DB) {
		times := make([]time.Time, 3)
		take := func(i int) func(storage.Tx) error {
			return func(tx storage.Tx) error { times[i] = tx.Now(); return nil }
		}
		require.NoError(t, errors.Join(together(t, db, take(0), take(1))...))
		require.Equal(t, times[0], times[1], "one transaction has one timestamp")
		require.NoError(t, db.Write(t.Context(), nil, take(2)))
		require.False(t, times[2].Before(times[1]))
		require.Equal(t, time.UTC, times[2].Location())
		require.Equal(t, times[2], times[2].Truncate(time.Microsecond))
		require.NoError(t, db.Read(t.Context(), func(tx storage.Tx) error {
			before := tx.Now()
			var one int
			_, err := tx.Get("SELECT 1", nil, &one)
			require.Equal(t, before, tx.Now())
			require.False(t, before.Before(times[2]))
			return err
		}))
	})
}

func TestCallerThatLeavesDoesNotStopTheLane(t *testing.T) {
	t.Parallel()
	eachEngine(t, storage.Options{Lanes: 1}, func(t *testing.T, db storage.DB) {
		withCounters(t, db, "a")
		ctx, cancel := context.WithCancel(t.Context())
		err := db.Write(ctx, nil, func(tx storage.Tx) error {
			cancel()
			return increment(tx, "a")
		})
		if err != nil { // the answer and the end of ctx race
			require.ErrorIs(t, err, context.Canceled)
		}
		ran := false
		err = db.Write(ctx, nil, func(storage.Tx) error { ran = true; return nil })
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, db.Write(t.Context(), nil, func(tx storage.Tx) error { return increment(tx, "a") }))
		require.False(t, ran, "a write whose caller left before its turn does not run")
		require.EqualValues(t, 2, count(t, db, "a"))
	})
}

func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	eachEngine(t, storage.Options{Lanes: 1}, func(t *testing.T, db storage.DB) {
		held, release := make(chan struct{}), make(chan struct{})
		var once sync.Once
		var group sync.WaitGroup
		group.Go(func() {
			_ = db.Write(t.Context(), nil, func(storage.Tx) error { once.Do(func() { close(held) }); <-release; return nil })
		})
		<-held
		ctx, cancel := context.WithCancel(t.Context())
		var refused, answered atomic.Int64
		const more = 10
		for range storage.MaxWaiting + more {
			group.Go(func() {
				err := db.Write(ctx, nil, func(storage.Tx) error { return nil })
				switch {
				case errors.Is(err, context.Canceled):
					refused.Add(1)
				case err == nil:
					answered.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		require.Eventually(t, func() bool { return storage.Waiting(db) == storage.MaxWaiting }, 10*time.Second, time.Millisecond)
		cancel()
		require.Eventually(t, func() bool { return refused.Load() == storage.MaxWaiting+more }, 10*time.Second, time.Millisecond)
		close(release)
		group.Wait()
		require.Zero(t, answered.Load())
		require.NoError(t, db.Write(t.Context(), nil, func(storage.Tx) error { return nil }))
	})
}

func TestKeysSerialiseLanes(t *testing.T) {
	t.Parallel()
	eachEngine(t, storage.Options{Lanes: 4}, func(t *testing.T, db storage.DB) {
		ids := []string{"a", "b", "c", "d"}
		withCounters(t, db, ids...)
		var group sync.WaitGroup
		const writers, rounds = 16, 10
		for writer := range writers {
			group.Go(func() {
				for round := range rounds {
					first, second := ids[(writer+round)%4], ids[(writer*3+round*2+1)%4]
					keys := append(counterKey(first), counterKey(second)...)
					if err := db.Write(t.Context(), keys, readModifyWrite(first, second)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		total := int64(0)
		for _, id := range ids {
			total += count(t, db, id)
		}
		require.EqualValues(t, 2*writers*rounds, total, "no update was lost")
	})
}

// readModifyWrite loses updates unless the rows are locked before.
func readModifyWrite(ids ...string) func(storage.Tx) error {
	return func(tx storage.Tx) error {
		for _, id := range ids {
			var n int64
			if _, err := tx.Get("SELECT n FROM counters WHERE id = $1", []any{id}, &n); err != nil {
				return err
			}
			if err := tx.Exec("UPDATE counters SET n = $2 WHERE id = $1", id, n+1); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestReadsSeeOneSnapshotAndNeverWait(t *testing.T) {
	t.Parallel()
	eachEngine(t, storage.Options{}, func(t *testing.T, db storage.DB) {
		withCounters(t, db, "a")
		require.NoError(t, db.Read(t.Context(), func(tx storage.Tx) error {
			var before, after int64
			_, err := tx.Get("SELECT n FROM counters WHERE id = $1", []any{"a"}, &before)
			require.NoError(t, err)
			require.NoError(t, db.Write(t.Context(), counterKey("a"), func(tx storage.Tx) error { return increment(tx, "a") }))
			_, err = tx.Get("SELECT n FROM counters WHERE id = $1", []any{"a"}, &after)
			require.Equal(t, before, after)
			return err
		}))
		require.NoError(t, db.Write(t.Context(), counterKey("a"), func(tx storage.Tx) error {
			if err := increment(tx, "a"); err != nil {
				return err
			}
			require.EqualValues(t, 1, count(t, db, "a"), "a reader does not wait for the writer")
			return nil
		}))
	})
}

func TestClosedDatabase(t *testing.T) {
	t.Parallel()
	eachEngine(t, storage.Options{}, func(t *testing.T, db storage.DB) {
		withCounters(t, db, "a")
		started := make(chan struct{})
		var once sync.Once
		var written error
		var group sync.WaitGroup
		group.Go(func() {
			written = db.Write(t.Context(), nil, func(tx storage.Tx) error { once.Do(func() { close(started) }); return increment(tx, "a") })
		})
		<-started
		require.NoError(t, db.Close())
		group.Wait()
		require.NoError(t, written, "Close waits for running writes")
		require.ErrorIs(t, db.Write(t.Context(), nil, func(storage.Tx) error { return nil }), storage.ErrClosed)
		require.ErrorIs(t, db.Read(t.Context(), func(storage.Tx) error { return nil }), storage.ErrClosed)
		require.NoError(t, db.Close())
	})
}

func TestTxMustNotBeUsedAfterwards(t *testing.T) {
	t.Parallel()
	eachEngine(t, storage.Options{}, func(t *testing.T, db storage.DB) {
		withCounters(t, db, "a")
		var kept storage.Tx
		require.NoError(t, db.Write(t.Context(), nil, func(tx storage.Tx) error { kept = tx; return nil }))
		require.ErrorContains(t, increment(kept, "a"), "has ended")
		value, err := storage.Write(t.Context(), db, nil, func(storage.Tx) (string, error) { return "x", fmt.Errorf("no") })
		require.ErrorContains(t, err, "no")
		require.Empty(t, value)
	})
}
