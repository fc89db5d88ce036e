package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/idempotency"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type answer struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func newKey(hash string) *idempotency.Key {
	return &idempotency.Key{Principal: "ada", Method: "POST", Path: "/api/v1/spaces", ID: testkit.Env().NewID(), Hash: hash}
}

// again is the key of a repeated request.
func again(key *idempotency.Key) *idempotency.Key {
	copied := *key
	copied.Replayed = false
	return &copied
}

// put stores a setting under the key and answers it: a change that shows when it is made twice.
func put(ctx context.Context, db storage.DB, key *idempotency.Key, name string) (answer, error) {
	return storage.Write(ctx, db, nil, func(tx storage.Tx) (answer, error) {
		return idempotency.Once(tx, key, func() (answer, error) {
			made := answer{ID: testkit.Env().NewID(), Name: name}
			return made, tx.Exec(`INSERT INTO settings (principal_id, key, value, version) VALUES ($1, $2, $3, 1)`, made.ID, name, `"v"`)
		})
	})
}

func count(t *testing.T, db storage.DB, table string) int {
	t.Helper()
	var n int
	require.NoError(t, db.Read(t.Context(), func(tx storage.Tx) error {
		_, err := tx.Get(`SELECT count(*) FROM `+table, nil, &n)
		return err
	}))
	return n
}

func TestOnce(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		key := newKey("h")
		first, err := put(t.Context(), db.DB, key, "one")
		require.NoError(t, err)
		require.False(t, key.Replayed)
		t.Run("ES-5.2 a repeat is answered the same and changes nothing", func(t *testing.T) {
			repeat := again(key)
			second, err := put(t.Context(), db.DB, repeat, "one")
			require.NoError(t, err)
			require.True(t, repeat.Replayed)
			require.Equal(t, first, second)
			require.Equal(t, 1, count(t, db.DB, "settings"))
		})
		t.Run("ES-5.2 the key with another request is refused", func(t *testing.T) {
			other := again(key)
			other.Hash = "another"
			_, err := put(t.Context(), db.DB, other, "two")
			require.True(t, fault.Is(err, code.IdempotencyKeyReuse))
			require.Equal(t, 1, count(t, db.DB, "settings"))
		})
		t.Run("ES-5.2 its scope is principal, method and path", func(t *testing.T) {
			for _, change := range []func(*idempotency.Key){
				func(k *idempotency.Key) { k.Principal = "eva" }, func(k *idempotency.Key) { k.Method = "PUT" }, func(k *idempotency.Key) { k.Path += "/x" },
			} {
				other := again(key)
				change(other)
				_, err := put(t.Context(), db.DB, other, "other")
				require.NoError(t, err)
				require.False(t, other.Replayed)
			}
			require.Equal(t, 4, count(t, db.DB, "settings"))
		})
		t.Run("a request without a key is always made", func(t *testing.T) {
			for range 2 {
				_, err := put(t.Context(), db.DB, nil, "plain")
				require.NoError(t, err)
			}
			require.Equal(t, 6, count(t, db.DB, "settings"))
		})
		t.Run("a change that fails leaves the key free", func(t *testing.T) {
			failing := newKey("h")
			_, err := storage.Write(t.Context(), db.DB, nil, func(tx storage.Tx) (answer, error) {
				return idempotency.Once(tx, failing, func() (answer, error) { return answer{}, errors.New("no") })
			})
			require.Error(t, err)
			_, err = put(t.Context(), db.DB, failing, "then")
			require.NoError(t, err)
			require.False(t, failing.Replayed)
		})
		t.Run("ES-5.2 an answer that holds content is stored as its id, and read as it is now", func(t *testing.T) {
			key := newKey("h")
			content := "first"
			run := func(key *idempotency.Key) string {
				got, err := storage.Write(t.Context(), db.DB, nil, func(tx storage.Tx) (answer, error) {
					return idempotency.OnceByID(tx, key, func() (answer, error) { return answer{ID: "m", Name: content}, nil },
						func(a answer) string { return a.ID }, func(id string) (answer, error) { return answer{ID: id, Name: content}, nil })
				})
				require.NoError(t, err)
				return got.Name
			}
			require.Equal(t, "first", run(key))
			content = "deleted"
			require.Equal(t, "deleted", run(again(key)))
			require.NoError(t, db.DB.Read(t.Context(), func(tx storage.Tx) error {
				return tx.Query(`SELECT body FROM idempotency_keys WHERE key = $1`, []any{key.ID}, func(row storage.Row) error {
					var body string
					defer func() { require.Equal(t, "m", body) }()
					return row.Scan(&body)
				})
			}))
		})
	})
}

func TestTheSameKeyAtOnce(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		nodes := []storage.DB{db.DB, testkit.Open(t, storage.Options{URL: db.URL})}
		for round := range 10 {
			t.Run(fmt.Sprintf("ES-5.2 on two nodes, round %d: one change, and every answer is its answer", round), func(t *testing.T) {
				key := newKey("h")
				before := count(t, db.DB, "settings")
				answers := make([]answer, 8)
				var group sync.WaitGroup
				for i := range answers {
					group.Go(func() {
						for {
							var err error
							answers[i], err = put(t.Context(), nodes[i%2], again(key), "x")
							if fault.Is(err, code.RequestInProgress) {
								continue // as a client does
							}
							if err != nil {
								t.Error(err)
							}
							return
						}
					})
				}
				group.Wait()
				require.Equal(t, before+1, count(t, db.DB, "settings"))
				for _, one := range answers {
					require.Equal(t, answers[0], one)
				}
			})
		}
	})
}

func TestACallerThatNeverHeardTheAnswer(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		t.Run("ES-5.2 finds it when it asks again", func(t *testing.T) {
			key := newKey("h")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var made atomic.Pointer[answer]
			_, err := storage.Write(ctx, db.DB, nil, func(tx storage.Tx) (answer, error) {
				cancel() // the caller goes away; the lane goes on
				return idempotency.Once(tx, again(key), func() (answer, error) {
					one := answer{ID: testkit.Env().NewID(), Name: "x"}
					made.Store(&one)
					return one, nil
				})
			})
			require.ErrorIs(t, err, context.Canceled)
			require.Eventually(t, func() bool { return count(t, db.DB, "idempotency_keys") == 1 }, 20*time.Second, time.Millisecond)
			repeat := again(key)
			got, err := put(t.Context(), db.DB, repeat, "x")
			require.NoError(t, err)
			require.True(t, repeat.Replayed)
			require.Equal(t, *made.Load(), got)
		})
	})
}

func TestRunning(t *testing.T) {
	t.Parallel()
	var running idempotency.Running
	key := newKey("h")
	leave, err := running.Enter(key)
	require.NoError(t, err)
	t.Run("ES-5.2 while the first request runs the second is told so, whatever it asks", func(t *testing.T) {
		for _, hash := range []string{"h", "another"} {
			second := again(key)
			second.Hash = hash
			_, err := running.Enter(second)
			require.True(t, fault.Is(err, code.RequestInProgress))
		}
		_, err := running.Enter(newKey("h"))
		require.NoError(t, err, "another key")
		for range 2 {
			free, err := running.Enter(nil)
			require.NoError(t, err)
			free()
		}
	})
	leave()
	leave, err = running.Enter(again(key))
	require.NoError(t, err)
	leave()
}

func TestSweep(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		for range 30 {
			_, err := put(t.Context(), db.DB, newKey("h"), "x")
			require.NoError(t, err)
		}
		fresh := newKey("h")
		require.NoError(t, db.DB.Write(t.Context(), nil, func(tx storage.Tx) error {
			return tx.Exec(`UPDATE idempotency_keys SET created_at = created_at - $1`, (2 * time.Hour).Microseconds())
		}))
		_, err := put(t.Context(), db.DB, fresh, "x")
		require.NoError(t, err)
		t.Run("ES-5.2 keys are kept for their time and no longer", func(t *testing.T) {
			sweeper := idempotency.NewSweeper(idempotency.SweeperOptions{DB: db.DB, Log: slog.New(slog.DiscardHandler), TTL: time.Hour})
			require.NoError(t, sweeper.Start(t.Context()))
			require.Eventually(t, func() bool { return count(t, db.DB, "idempotency_keys") == 1 }, 20*time.Second, 5*time.Millisecond)
			require.NoError(t, sweeper.Stop(t.Context()))
			repeat := again(fresh)
			_, err := put(t.Context(), db.DB, repeat, "x")
			require.NoError(t, err)
			require.True(t, repeat.Replayed)
		})
	})
}
