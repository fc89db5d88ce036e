package signin_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/identity/signin"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// dying is a database whose process ends between a commit and its answer.
type dying struct {
	storage.DB

	next atomic.Bool
}

var errDied = errors.New("the process has ended")

func (d *dying) Write(ctx context.Context, keys []storage.Key, fn func(storage.Tx) error, ahead ...storage.Prefetch) error {
	err := d.DB.Write(ctx, keys, fn, ahead...)
	if err == nil && d.next.CompareAndSwap(true, false) {
		return errDied
	}
	return err
}

func TestACrashBetweenCommitAndAnswer(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		broken := &dying{DB: db.DB}
		w := newWorld(t, broken)
		w.person(t, "ada")
		t.Run("WS-ID-1 of a refresh: the client asks another node and goes on", func(t *testing.T) {
			c := newClient(t).login(w, "ada")
			broken.next.Store(true)
			_, err := c.refresh(w)
			require.ErrorIs(t, err, errDied)
			after := newWorld(t, db.DB)
			c.keep(c.refresh(after))
			_, err = c.ask(after)
			require.NoError(t, err)
			c.keep(c.refresh(after))
		})
		t.Run("WS-ID-1 of a reuse: the sign-in has ended all the same", func(t *testing.T) {
			c := newClient(t).login(w, "ada")
			old := c.answer.RefreshToken
			c.keep(c.refresh(w))
			c.keep(c.refresh(w))
			broken.next.Store(true)
			_, err := c.refreshWith(w, old)
			require.ErrorIs(t, err, errDied)
			_, err = c.refresh(newWorld(t, db.DB))
			require.True(t, signin.Revoked(err), "%v", err)
		})
		t.Run("WS-ID-1 of a login: the code is used up, another one signs in", func(t *testing.T) {
			c, made := newClient(t), w.code(t, "ada")
			broken.next.Store(true)
			_, err := c.call(w, wire.TokenRequest{GrantType: wire.GrantLoginCode, Code: made})
			require.ErrorIs(t, err, errDied)
			_, err = c.call(w, wire.TokenRequest{GrantType: wire.GrantLoginCode, Code: made})
			requireFault(t, err, code.InvalidCredentials)
			c.login(w, "ada")
		})
	})
}
