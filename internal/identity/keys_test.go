package identity_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
)

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db.DB)
		ada, key := w.user(t, "ada")

		t.Run("SS-HTTP-2 the principal is the user who owns the key", func(t *testing.T) {
			require.Regexp(t, `^codai_[A-Za-z0-9_-]{43}$`, key)
			got, err := w.Authenticate(t.Context(), key)
			require.NoError(t, err)
			require.Equal(t, ada, got)
		})
		t.Run("SS-HTTP-2 missing, malformed, unknown, revoked and disabled answer the same", func(t *testing.T) {
			_, revoked := w.user(t, "revoked")
			keys, err := w.ListKeys(t.Context(), "revoked")
			require.NoError(t, err)
			require.NoError(t, w.RevokeKey(t.Context(), keys[0].ID))
			_, disabled := w.user(t, "disabled")
			require.NoError(t, w.DisableUser(t.Context(), "disabled"))

			_, missing := w.Authenticate(t.Context(), "")
			requireFault(t, missing, code.InvalidAPIKey)
			for _, bad := range []string{
				"codai_", key[:len(key)-1], key + "A", "Codai_" + key[6:], strings.Repeat("x", 1<<16), key[:48] + "=",
				"codai_" + strings.Repeat("A", 43), "codai_" + strings.Repeat("\x00", 43), revoked, disabled,
			} {
				_, err := w.Authenticate(t.Context(), bad)
				require.Equal(t, fault.From(missing), fault.From(err), "%.60q", bad)
			}
		})
		t.Run("SS-HTTP-2 only a hash is stored", func(t *testing.T) {
			require.NoError(t, db.DB.Read(t.Context(), func(tx storage.Tx) error {
				return tx.Query(`SELECT id, hash, hint, label FROM api_keys`, nil, func(row storage.Row) error {
					var id, hash, hint, label string
					err := row.Scan(&id, &hash, &hint, &label)
					require.Regexp(t, `^[0-9a-f]{64}$`, hash)
					require.Len(t, hint, 4)
					require.NotContains(t, id+hash+hint+label, key[6:])
					return err
				})
			}))
		})
	})
}

func TestKeysAreCachedForASecond(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db.DB)
		ada, key := w.user(t, "ada")
		unknown := "codai_" + strings.Repeat("A", 43)
		reads := func() int64 {
			before := w.db.reads.Load()
			_, err := w.Authenticate(t.Context(), key)
			require.NoError(t, err)
			_, err = w.Authenticate(t.Context(), unknown)
			requireFault(t, err, code.InvalidAPIKey)
			return w.db.reads.Load() - before
		}
		require.EqualValues(t, 2, reads())
		w.clock.pass(999 * time.Millisecond)
		require.Zero(t, reads(), "good and bad answers are trusted for less than a second")
		w.clock.pass(time.Millisecond)
		require.EqualValues(t, 2, reads(), "and not longer")
		w.clock.pass(-time.Hour)
		require.EqualValues(t, 2, reads(), "a clock that steps back trusts nothing")

		t.Run("SS-ROLE-2 revoked elsewhere, without a wake-up", func(t *testing.T) {
			w.exec(t, `UPDATE api_keys SET revoked_at = 1 WHERE id = $1`, ada.KeyID)
			w.clock.pass(time.Second)
			_, err := w.Authenticate(t.Context(), key)
			requireFault(t, err, code.InvalidAPIKey)
			w.exec(t, `UPDATE api_keys SET revoked_at = NULL WHERE id = $1`, ada.KeyID)
		})
		for _, wake := range []signal.Wake{{Topic: signal.Identity}, {}} {
			w.bus.Publish(wake)
			require.EqualValues(t, 2, reads(), "dropped on %q", wake)
		}
		w.bus.Publish(signal.Wake{Topic: signal.Session, ID: "s"})
		require.Zero(t, reads(), "kept on anything else")
	})
}

// gated holds reads until it is opened.
type gated struct {
	*counted
	entered chan struct{}
	open    chan struct{}
}

func (g *gated) Read(ctx context.Context, fn func(storage.Tx) error) error {
	g.entered <- struct{}{}
	<-g.open
	return g.counted.Read(ctx, fn)
}

func TestAnAnswerThatARevocationOvertookIsNotTrusted(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db.DB)
		_, key := w.user(t, "ada")
		slow := &gated{counted: w.db, entered: make(chan struct{}, 1), open: make(chan struct{})}
		late := identity.New(slow, w.bus, testkit.Env())
		require.NoError(t, late.Start(t.Context()))
		t.Cleanup(func() { require.NoError(t, late.Stop(t.Context())) })

		var first sync.WaitGroup
		first.Go(func() { _, _ = late.Authenticate(t.Context(), key) })
		<-slow.entered
		w.bus.Publish(signal.Wake{Topic: signal.Identity}) // the read began before this
		close(slow.open)
		first.Wait()
		before := w.db.reads.Load()
		_, err := late.Authenticate(t.Context(), key)
		require.NoError(t, err)
		require.EqualValues(t, 1, w.db.reads.Load()-before, "asked again")
		<-slow.entered
	})
}

func TestAFloodOfUnknownKeysLeavesKnownOnesAlone(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db.DB)
		_, key := w.user(t, "ada")
		slow := &gated{counted: w.db, entered: make(chan struct{}, 10_000), open: make(chan struct{})}
		busy := identity.New(slow, w.bus, testkit.Env())

		var known, flood sync.WaitGroup
		close(slow.open)
		_, err := busy.Authenticate(t.Context(), key) // known from now on
		require.NoError(t, err)
		<-slow.entered
		slow.open = make(chan struct{})

		answers := make(chan error, 2000)
		for range cap(answers) {
			flood.Go(func() {
				_, err := busy.Authenticate(t.Context(), "codai_"+testkit.Env().Token(32))
				answers <- err
			})
		}
		for range cap(answers) - 1024 { // the others wait
			requireFault(t, <-answers, code.Unavailable)
		}
		<-slow.entered
		<-slow.entered
		known.Go(func() {
			_, err := busy.Authenticate(t.Context(), key)
			require.NoError(t, err)
		})
		<-slow.entered // the known key asks the database, past everybody who waits
		require.Empty(t, slow.entered, "the flood has two lanes")
		close(slow.open)
		known.Wait()
		flood.Wait()
		close(answers)
		for err := range answers { // which one tells how long it has waited by now
			require.Error(t, err)
		}
	})
}

func TestOneLookUpServesAllWhoAskAtOnce(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db.DB)
		_, key := w.user(t, "ada")
		before := w.db.reads.Load()
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				_, err := w.Authenticate(t.Context(), key)
				require.NoError(t, err)
			})
		}
		group.Wait()
		require.EqualValues(t, 1, w.db.reads.Load()-before)
	})
}
