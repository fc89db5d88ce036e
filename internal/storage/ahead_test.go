package storage_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
)

const readCounter = "SELECT n FROM counters WHERE id = $1"

// steps is where each increment writes what it made of a counter.
var steps = storage.Table{Name: "steps", Apart: true, Columns: []storage.Column{{"id", storage.Text}, {"n", storage.Bigint}}}

// ahead says the read of a counter ahead.
func ahead(id string) storage.Prefetch { return storage.Prefetch{Query: readCounter, Args: []any{id}} }

// step adds one to a counter by what it reads, and writes that down.
func step(tx storage.Tx, id string) error {
	var n int64
	if found, err := tx.Get(readCounter, []any{id}, &n); err != nil || !found {
		return errors.Join(err, fmt.Errorf("counter %s: %t", id, found))
	}
	return errors.Join(tx.Exec("UPDATE counters SET n = $2 WHERE id = $1", id, n+1), tx.Insert(steps, [][]any{{id, n + 1}}))
}

func withSteps(t *testing.T, db storage.DB, ids ...string) {
	t.Helper()
	withCounters(t, db, ids...)
	run(t, db, "CREATE TABLE steps (id text NOT NULL, n bigint NOT NULL)")
}

// Many writers add to few counters by what they read ahead, among others that say nothing ahead and some that
// fail: no addition is lost.
func TestPrefetch(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		ids := []string{"a", "b", "c", "d", "e"}
		withSteps(t, db.DB, ids...)
		refusal := errors.New("no")
		var group sync.WaitGroup
		for i := range 400 {
			id := ids[i%len(ids)]
			group.Go(func() {
				var reads []storage.Prefetch
				if i%9 != 4 {
					reads = append(reads, ahead(id))
				}
				err := db.DB.Write(t.Context(), counterKey(id), func(tx storage.Tx) error {
					switch {
					case i%11 == 3:
						return refusal
					case i%97 == 5: // the batch reruns without it
						return errors.Join(step(tx, id), refusal)
					default:
						return step(tx, id)
					}
				}, reads...)
				if failed := i%11 == 3 || i%97 == 5; failed != errors.Is(err, refusal) || !failed && err != nil {
					t.Errorf("writer %d: %v", i, err)
				}
			})
		}
		group.Wait()
		want := map[string]int64{}
		for i := range 400 {
			if i%11 != 3 && i%97 != 5 {
				want[ids[i%len(ids)]]++
			}
		}
		for _, id := range ids {
			require.Equal(t, want[id], count(t, db.DB, id), id)
			require.Equal(t, want[id], storedSteps(t, db.DB, id), id)
		}
	})
}

func storedSteps(t *testing.T, db storage.DB, id string) int64 {
	t.Helper()
	var rows int64
	require.NoError(t, db.Read(t.Context(), func(tx storage.Tx) error {
		_, err := tx.Get("SELECT count(*) FROM steps WHERE id = $1", []any{id}, &rows)
		return err
	}))
	return rows
}

// One batch: what a function reads is what the functions before it have written, said ahead or not.
func TestPrefetchWithinABatch(t *testing.T) {
	t.Parallel()
	eachEngine(t, storage.Options{Lanes: 1}, func(t *testing.T, db storage.DB) {
		withSteps(t, db, "a", "b")
		on := func(id string) planned {
			return planned{func(tx storage.Tx) error { return step(tx, id) }, counterKey(id), []storage.Prefetch{ahead(id)}}
		}
		forget := planned{fn: func(tx storage.Tx) error {
			return errors.Join(tx.Exec("DELETE FROM steps"), tx.Insert(steps, [][]any{{"c", 1}}))
		}}
		twice := planned{func(tx storage.Tx) error {
			return errors.Join(step(tx, "a"), step(tx, "a")) // the second reads what the first has written
		}, counterKey("a"), []storage.Prefetch{ahead("a")}}
		other := planned{func(tx storage.Tx) error { return step(tx, "b") }, counterKey("b"), []storage.Prefetch{ahead("a")}}
		require.NoError(t, errors.Join(plannedTogether(t, db, on("a"), on("b"), on("a"), forget, twice, on("b"), other)...))
		require.EqualValues(t, 4, count(t, db, "a"))
		require.EqualValues(t, 3, count(t, db, "b"))
		require.EqualValues(t, 2, storedSteps(t, db, "a"), "what was written before the deletion is gone, what came after it is there")
		require.EqualValues(t, 2, storedSteps(t, db, "b"))
		require.EqualValues(t, 1, storedSteps(t, db, "c"))
	})
}

func TestPrefetchThatWrites(t *testing.T) {
	t.Parallel()
	eachEngine(t, storage.Options{}, func(t *testing.T, db storage.DB) {
		withCounters(t, db, "a")
		err := db.Write(t.Context(), counterKey("a"), func(storage.Tx) error { return nil }, storage.Prefetch{Query: "DELETE FROM counters"})
		require.ErrorContains(t, err, "read ahead")
		require.Zero(t, count(t, db, "a"))
		err = db.Write(t.Context(), counterKey("a"), func(tx storage.Tx) error { return increment(tx, "a") }, storage.Prefetch{Query: "SELECT 1 / 0"})
		if err == nil { // SQLite reads when it is asked to, and answers NULL
			require.EqualValues(t, 1, count(t, db, "a"))
		}
	})
}

// Of two writes that look for the same row and insert it, the second finds it.
func TestPrefetchWithClaims(t *testing.T) {
	t.Parallel()
	eachEngine(t, storage.Options{Lanes: 1}, func(t *testing.T, db storage.DB) {
		withSteps(t, db, "a", "b", "c")
		const lookFor = "SELECT count(*) FROM steps WHERE n = $1"
		found := make([]int64, 3)
		var writes []planned
		for i, id := range []string{"a", "b", "c"} {
			n := 7 + i/2 // the third wants another row
			writes = append(writes, planned{func(tx storage.Tx) error {
				if _, err := tx.Get(lookFor, []any{n}, &found[i]); err != nil || found[i] > 0 {
					return err
				}
				return tx.Insert(steps, [][]any{{id, n}})
			}, counterKey(id), []storage.Prefetch{{Query: lookFor, Args: []any{n}, Claim: fmt.Sprint(n)}}})
		}
		require.NoError(t, errors.Join(plannedTogether(t, db, writes...)...))
		require.Equal(t, []int64{0, 1, 0}, found)
	})
}
