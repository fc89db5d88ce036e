package search_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/workspace/search"
)

// Messages of few moments, which lie side by side and have more than fit, are numbered apart, those of a moment
// with room in the order in which they came.
func TestNumbers(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		at := time.UnixMicro(1_800_000_000_000_000)
		seen := map[int64]bool{}
		for round, size := range []int{3, 200, 1, 900, 1500, 40, 2} {
			require.NoError(t, db.DB.Write(t.Context(), nil, func(tx storage.Tx) error {
				moments := make([]time.Time, 0, size*3)
				for i := range size {
					moments = append(moments, at, at.Add(time.Duration(i%3)*time.Microsecond), at.Add(time.Duration(round)*time.Hour))
				}
				given, err := search.Number(tx, moments)
				if err != nil {
					return err
				}
				last := int64(0)
				for i, doc := range given {
					require.False(t, seen[doc], "%d of round %d", i, round)
					seen[doc] = true
					if i%3 == 2 {
						require.Greater(t, doc, last)
						last = doc
					}
				}
				return nil
			}))
		}
	})
}
