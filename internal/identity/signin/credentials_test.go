package signin_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/identity/signin"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestPasswords(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db.DB)
		email := "ada@example.org"
		_, err := w.people.AddUser(t.Context(), "Ada Lovelace", &email)
		require.NoError(t, err)
		require.NoError(t, w.SetPassword(t.Context(), "ada-lovelace", "correct horse"))
		t.Run("WS-ID-4 by name, handle or e-mail address", func(t *testing.T) {
			for _, name := range []string{"Ada Lovelace", "ada-lovelace", "ADA@example.org"} {
				_, err := newClient(t).password(w, name, "correct horse")
				require.NoError(t, err, name)
			}
		})
		t.Run("WS-ID-4 a changed password counts at once, sign-ins stay", func(t *testing.T) {
			c := newClient(t).login(w, "Ada Lovelace")
			requireFault(t, w.SetPassword(t.Context(), "Ada Lovelace", "short"), code.ValidationFailed)
			requireFault(t, w.SetPassword(t.Context(), "nobody", "long enough"), code.NotFound)
			require.NoError(t, w.SetPassword(t.Context(), "Ada Lovelace", "another horse"))
			_, err := newClient(t).password(w, "Ada Lovelace", "correct horse")
			requireFault(t, err, code.InvalidCredentials)
			_, err = newClient(t).password(w, "Ada Lovelace", "another horse")
			require.NoError(t, err)
			_, err = c.ask(w)
			require.NoError(t, err)
		})
	})
}

// What is counted of failed logins is the node's own: one engine says it all.
func TestFailedLogins(t *testing.T) {
	t.Parallel()
	db := testkit.New(t, testkit.SQLite)
	w := newWorld(t, db.DB)
	_, err := w.people.AddUser(t.Context(), "Ada Lovelace", nil)
	require.NoError(t, err)
	require.NoError(t, w.SetPassword(t.Context(), "Ada Lovelace", "correct horse"))
	from := func(address string) *client {
		c := newClient(t)
		c.address = address
		return c
	}

	t.Run("WS-ID-4 ten failures per account in 15 min, from wherever, many at once", func(t *testing.T) {
		results := make([]error, 30)
		var group sync.WaitGroup
		for i := range results {
			c := from(fmt.Sprintf("198.51.100.%d:1", i))
			group.Go(func() { _, results[i] = c.password(w, "ada-lovelace", "wrong horse") })
		}
		group.Wait()
		wrong := 0
		for _, err := range results {
			if fault.Is(err, code.InvalidCredentials) {
				wrong++
			} else {
				requireFault(t, err, code.RateLimited)
				require.Positive(t, fault.ExtraOf(fault.From(err)).RetryAfter)
			}
		}
		require.Equal(t, 10, wrong)
		_, err := from("198.51.100.99").password(w, "Ada Lovelace", "correct horse")
		requireFault(t, err, code.RateLimited)
		_, err = from("198.51.100.99").call(w, wire.TokenRequest{GrantType: wire.GrantLoginCode, Code: w.code(t, "Ada Lovelace")})
		require.NoError(t, err, "a code still signs in")
		w.clock.pass(15 * time.Minute)
		_, err = from("198.51.100.99").password(w, "Ada Lovelace", "correct horse")
		require.NoError(t, err)
	})
	t.Run("WS-ID-4 ten failures per address, an IPv6 customer being one", func(t *testing.T) {
		for i := range 10 {
			_, err := from(fmt.Sprintf("[2001:db8::%x]:1", i)).password(w, fmt.Sprintf("nobody %d", i), "wrong horse")
			requireFault(t, err, code.InvalidCredentials)
		}
		_, err := from("[2001:db8::ffff]:2").password(w, "Ada Lovelace", "correct horse")
		requireFault(t, err, code.RateLimited)
		_, err = from("[2001:db8:0:1::1]:2").password(w, "Ada Lovelace", "correct horse")
		require.NoError(t, err)
	})
	t.Run("WS-ID-4 who does not exist is counted and answered alike", func(t *testing.T) {
		for range 10 {
			_, err := from(testkit.Env().NewID()).password(w, "nobody", "wrong horse")
			requireFault(t, err, code.InvalidCredentials)
		}
		_, err := from("203.0.113.7").password(w, "Nobody ", "wrong horse")
		requireFault(t, err, code.RateLimited)
	})
	t.Run("WS-ID-4 a success forgives the account, limits can be off", func(t *testing.T) {
		c, unlimited := from("203.0.113.8"), newWorld(t, db.DB, func(o *signin.Options) { o.Limits = false })
		for range 2 {
			for range 9 {
				c := from(testkit.Env().NewID())
				_, err := c.password(w, "Ada Lovelace", "wrong horse")
				requireFault(t, err, code.InvalidCredentials)
			}
			_, err := c.password(w, "Ada Lovelace", "correct horse")
			require.NoError(t, err)
		}
		for range 12 {
			_, err := c.password(unlimited, "Ada Lovelace", "wrong horse")
			requireFault(t, err, code.InvalidCredentials)
		}
	})
}

func TestStepUp(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db.DB)
		w.person(t, "ada")
		w.person(t, "bob")
		stepUp := func(c *client, name string) (wire.TokenAnswer, error) {
			return c.call(w, wire.TokenRequest{GrantType: wire.GrantPassword, Username: name, Password: "password of " + name, SessionID: c.answer.SessionID})
		}
		t.Run("WS-ID-5 it keeps the sign-in and moves auth_time", func(t *testing.T) {
			c := newClient(t).login(w, "ada")
			w.exec(t, `UPDATE sign_ins SET auth_time = $2 WHERE id = $1`, c.answer.SessionID, time.Now().Add(-time.Hour))
			c.keep(c.refresh(w))
			old := c.caller(w)
			require.WithinDuration(t, time.Now().Add(-time.Hour), old.AuthTime, time.Minute)
			_, err := w.MakeOwnLoginCode(t.Context(), old)
			requireFault(t, err, code.StepUpRequired)
			sid := c.answer.SessionID
			c.keep(stepUp(c, "ada"))
			require.Equal(t, sid, c.answer.SessionID)
			fresh := c.caller(w)
			require.WithinDuration(t, time.Now(), fresh.AuthTime, time.Minute)
			made, err := w.MakeOwnLoginCode(t.Context(), fresh)
			require.NoError(t, err)
			_, err = newClient(t).call(w, wire.TokenRequest{GrantType: wire.GrantLoginCode, Code: made.Code})
			require.NoError(t, err)
			c.keep(c.refresh(w))
			require.Equal(t, fresh.AuthTime, c.caller(w).AuthTime)
		})
		t.Run("WS-ID-5 a lost answer locks nobody out, however late", func(t *testing.T) {
			c := newClient(t).login(w, "ada")
			_, err := stepUp(c, "ada")
			require.NoError(t, err)
			w.exec(t, `UPDATE sign_ins SET auth_time = auth_time WHERE id = $1`, c.answer.SessionID)
			until := w.number(t, `SELECT previous_until FROM sign_ins WHERE id = $1`, c.answer.SessionID)
			require.Greater(t, time.UnixMicro(until), time.Now().Add(29*24*time.Hour))
			c.keep(c.refresh(w))
			c.keep(c.refresh(w))
		})
		t.Run("WS-ID-5 only for one's own sign-in, on its device, with its key", func(t *testing.T) {
			c, other := newClient(t).login(w, "ada"), newClient(t).login(w, "ada")
			_, err := stepUp(c, "bob")
			requireFault(t, err, code.InvalidCredentials)
			key := c.rekeyed()
			key.answer = c.answer
			_, err = stepUp(key, "ada")
			requireFault(t, err, code.InvalidCredentials)
			other.answer = c.answer
			_, err = stepUp(other, "ada")
			requireFault(t, err, code.InvalidCredentials)
			require.NoError(t, w.Logout(t.Context(), c.caller(w)))
			_, err = stepUp(c, "ada")
			requireFault(t, err, code.InvalidCredentials)
			require.True(t, signin.Revoked(err))
		})
	})
}

func TestKeyRotation(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w, other := newWorld(t, db.DB), newWorld(t, db.DB)
		w.person(t, "ada")
		c := newClient(t).login(w, "ada")
		_, err := c.ask(other)
		require.NoError(t, err)
		t.Run("WS-ID-6 current and previous keys are served and verify", func(t *testing.T) {
			before, err := w.JWKS(t.Context())
			require.NoError(t, err)
			require.Len(t, before.Keys, 1)
			ids := []string{before.Keys[0].KeyID}
			old := c.answer
			for range 2 {
				id, err := w.RotateKeys(t.Context(), identity.Operator())
				require.NoError(t, err)
				ids = append([]string{id}, ids...)
			}
			c.keep(c.refresh(w))
			_, err = c.ask(w)
			require.NoError(t, err)
			_, err = c.askWith(w, old.AccessToken)
			require.NoError(t, err, "what the previous key signed stays good")
			after, err := w.JWKS(t.Context())
			require.NoError(t, err)
			var served []string
			for _, key := range after.Keys {
				require.True(t, key.IsPublic())
				served = append(served, key.KeyID)
			}
			require.Equal(t, ids, served)
		})
		t.Run("WS-ID-6 a node that heard nothing reads an unknown key, not too often", func(t *testing.T) {
			_, err := c.ask(other)
			requireFault(t, err, code.InvalidToken)
			other.clock.pass(time.Second)
			_, err = c.ask(other)
			require.NoError(t, err)
			w.exec(t, `UPDATE signing_keys SET id = id || 'x' WHERE is_current = TRUE`)
			fresh := newWorld(t, db.DB)
			unknown := c.answer.AccessToken
			_, err = c.askWith(fresh, unknown)
			requireFault(t, err, code.InvalidToken)
			require.False(t, signin.Revoked(err))
		})
	})
}

func TestTokensOfAnotherIssuer(t *testing.T) {
	t.Parallel()
	here, there := newWorld(t, testkit.New(t, testkit.SQLite).DB), newWorld(t, testkit.New(t, testkit.SQLite).DB)
	there.person(t, "ada")
	c := newClient(t).login(there, "ada")
	_, err := c.ask(here)
	requireFault(t, err, code.InvalidToken)
	// The same keys in another instance, as in a copy of its database.
	var id, private string
	require.NoError(t, there.db.Read(t.Context(), func(tx storage.Tx) error {
		_, err := tx.Get(`SELECT id, private_key FROM signing_keys`, nil, &id, &private)
		return err
	}))
	here.exec(t, `UPDATE signing_keys SET id = $1, private_key = $2`, id, private)
	copied := newWorld(t, here.db)
	_, err = c.ask(copied)
	requireFault(t, err, code.InvalidToken)
}

// A database that is away answers unavailable or an internal error, never that a token is no good.
func TestADatabaseThatIsAway(t *testing.T) {
	t.Parallel()
	db := &failing{DB: testkit.New(t, testkit.SQLite).DB}
	w := newWorld(t, db)
	w.person(t, "ada")
	c := newClient(t).login(w, "ada")
	_, err := c.ask(w)
	require.NoError(t, err)
	db.set(true)
	_, err = c.ask(w)
	require.NoError(t, err, "what is known counts for a second")
	w.clock.pass(time.Second)
	_, err = c.ask(w)
	requireFault(t, err, code.InternalError)
	_, err = c.connect(w)
	require.Equal(t, code.CloseUnknownError, signin.CloseCode(err))
	_, err = c.refresh(w)
	requireFault(t, err, code.InternalError)
	db.set(false)
	c.keep(c.refresh(w))
	_, err = c.ask(w)
	require.NoError(t, err)
}

// failing is a database that can be away.
type failing struct {
	storage.DB

	mu   sync.Mutex
	away bool
}

func (f *failing) set(away bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = away
}

func (f *failing) gone() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return fmt.Errorf("connection refused")
	}
	return nil
}

func (f *failing) Read(ctx context.Context, fn func(storage.Tx) error) error {
	if err := f.gone(); err != nil {
		return err
	}
	return f.DB.Read(ctx, fn)
}

func (f *failing) Write(ctx context.Context, keys []storage.Key, fn func(storage.Tx) error, ahead ...storage.Prefetch) error {
	if err := f.gone(); err != nil {
		return err
	}
	return f.DB.Write(ctx, keys, fn, ahead...)
}
