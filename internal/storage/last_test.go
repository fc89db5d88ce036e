package storage_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
)

// Writers hand items to two counting steps; some of them fail, before and after they wrote. The numbers
// that the steps gave out are dense, and belong to exactly the writes that were acknowledged.
func TestLastSteps(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		run(t, db.DB, "CREATE TABLE numbered (counter text NOT NULL, n bigint NOT NULL, writer bigint NOT NULL, PRIMARY KEY (counter, n))")
		first, second := numbering("first", 1), numbering("second", 2)
		for _, name := range []string{"first", "second"} {
			run(t, db.DB, "INSERT INTO sequence_counters (name, value) VALUES ($1, 0)", name)
		}
		const writers = 300
		refusal := errors.New("no")
		var group sync.WaitGroup
		for i := range writers {
			group.Go(func() {
				err := db.DB.Write(t.Context(), nil, func(tx storage.Tx) error {
					if err := errors.Join(tx.Finally(second, i), tx.Finally(first, i, i)); err != nil {
						return err
					}
					if i%7 == 3 { // fails after it wrote: the batch reruns without it
						return errors.Join(tx.Exec("UPDATE sequence_counters SET value = value + 1000 WHERE name = 'first'"), refusal)
					}
					if i%5 == 2 {
						return refusal
					}
					return nil
				})
				if failed := i%7 == 3 || i%5 == 2; failed != errors.Is(err, refusal) {
					t.Errorf("writer %d: %v", i, err)
				}
			})
		}
		group.Wait()
		require.NoError(t, db.DB.Read(t.Context(), func(tx storage.Tx) error {
			for counter, each := range map[string]int{"first": 2, "second": 1} {
				var rows, last, writersSeen, failed int
				_, err := tx.Get(`SELECT count(*), max(n), count(DISTINCT writer), count(CASE WHEN writer % 7 = 3 OR writer % 5 = 2 THEN 1 END)
					FROM numbered WHERE counter = $1`, []any{counter}, &rows, &last, &writersSeen, &failed)
				require.NoError(t, err)
				require.Equal(t, rows, last, "dense")
				require.Equal(t, each*writersSeen, rows)
				require.Zero(t, failed)
			}
			return nil
		}))
	})
}

// numbering is a last step that takes a number from a counter for each of its items.
func numbering(counter string, rank int) *storage.LastStep {
	return &storage.LastStep{Rank: rank, Run: func(tx storage.Tx, items []any) error {
		var last int
		_, err := tx.Get("UPDATE sequence_counters SET value = value + $2 WHERE name = $1 RETURNING value", []any{counter, len(items)}, &last)
		for i, item := range items {
			err = errors.Join(err, tx.Exec("INSERT INTO numbered (counter, n, writer) VALUES ($1, $2, $3)", counter, last-len(items)+1+i, item))
		}
		return err
	}}
}

// A write of a class that commits alone shares its transaction with nobody, and nobody waits forever behind it.
func TestAlone(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		var group sync.WaitGroup
		var together sync.Map // the timestamp of each transaction
		for i := range 200 {
			group.Go(func() {
				var keys []storage.Key
				if i%10 == 0 {
					keys = []storage.Key{storage.ChangePermissions}
				}
				err := db.DB.Write(t.Context(), keys, func(tx storage.Tx) error {
					if i%10 == 0 {
						if _, taken := together.LoadOrStore(tx.Now(), true); taken {
							return errors.New("somebody else is in this transaction")
						}
					} else if alone, known := together.LoadOrStore(tx.Now(), false); known && alone == true {
						return errors.New("who should be alone is in this transaction")
					}
					return tx.Exec("UPDATE sequence_counters SET value = value WHERE name = 'audit_seq'")
				})
				if err != nil {
					t.Errorf("write %d: %v", i, err)
				}
			})
		}
		group.Wait()
	})
}

func run(t *testing.T, db storage.DB, query string, args ...any) {
	t.Helper()
	require.NoError(t, db.Write(t.Context(), nil, func(tx storage.Tx) error { return tx.Exec(query, args...) }))
}
