package signin_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/identity/signin"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestRefresh(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db.DB)
		w.person(t, "ada")

		t.Run("WS-ID-1 it rotates, keeps the sign-in and never moves auth_time", func(t *testing.T) {
			c := newClient(t).login(w, "ada")
			before, first := c.caller(w), c.answer
			for range 3 {
				w.clock.pass(time.Minute)
				last := c.answer.RefreshToken
				c.keep(c.refresh(w))
				require.NotEqual(t, last, c.answer.RefreshToken)
			}
			after := c.caller(w)
			require.Equal(t, first.SessionID, c.answer.SessionID)
			require.Equal(t, before.AuthTime, after.AuthTime)
			_, err := c.askWith(w, first.AccessToken)
			require.NoError(t, err, "access tokens stay good until they end")
		})
		t.Run("WS-ID-1 a lost answer locks nobody out", func(t *testing.T) {
			c := newClient(t).login(w, "ada")
			for range 3 { // the answer is lost three times, as by a crash between rotation and answer
				_, err := c.refresh(w)
				require.NoError(t, err)
			}
			c.keep(c.refresh(w))
			_, err := c.ask(w)
			require.NoError(t, err)
			c.keep(c.refresh(w))
		})
		t.Run("WS-ID-1 a lost answer is found again on another node", func(t *testing.T) {
			other := newWorld(t, db.DB)
			c := newClient(t).login(w, "ada")
			_, err := c.refresh(w)
			require.NoError(t, err)
			c.keep(c.refresh(other))
			c.keep(c.refresh(w))
		})
		ends := func(name string, misuse func(c *client) error) {
			t.Run(name, func(t *testing.T) {
				c := newClient(t).login(w, "ada")
				version := w.number(t, `SELECT value FROM sequence_counters WHERE name = 'permission_version'`)
				err := misuse(c)
				requireFault(t, err, code.InvalidCredentials)
				require.True(t, signin.Revoked(err))
				_, err = c.refresh(w)
				requireFault(t, err, code.InvalidCredentials)
				_, err = c.ask(w)
				require.True(t, signin.Revoked(err), "%v", err)
				_, err = c.connect(w)
				require.Equal(t, code.CloseRevoked, signin.CloseCode(err))
				require.Greater(t, w.number(t, `SELECT value FROM sequence_counters WHERE name = 'permission_version'`), version)
			})
		}
		ends("WS-ID-1 the previous token ends the sign-in once its successor was used", func(c *client) error {
			old := c.answer.RefreshToken
			c.keep(c.refresh(w))
			c.keep(c.refresh(w))
			_, err := c.refreshWith(w, old)
			return err
		})
		ends("WS-ID-1 the previous token ends the sign-in after 60 s", func(c *client) error {
			old := c.answer.RefreshToken
			c.keep(c.refresh(w))
			w.exec(t, `UPDATE sign_ins SET previous_until = $2 WHERE id = $1`, c.answer.SessionID, time.Now().Add(-time.Second))
			_, err := c.refreshWith(w, old)
			return err
		})
		ends("WS-ID-1 the previous token ends the sign-in with another key", func(c *client) error {
			old := c.answer.RefreshToken
			c.keep(c.refresh(w))
			_, err := c.rekeyed().refreshWith(w, old)
			return err
		})
		ends("WS-ID-1 an answer that was replaced ends the sign-in", func(c *client) error {
			lost, err := c.refresh(w)
			require.NoError(c.t, err)
			c.keep(c.refresh(w))
			_, err = c.refreshWith(w, lost.RefreshToken)
			return err
		})
		t.Run("WS-ID-1 the current token with another key gets nothing and ends nothing", func(t *testing.T) {
			c := newClient(t).login(w, "ada")
			_, err := c.rekeyed().refreshWith(w, c.answer.RefreshToken)
			requireFault(t, err, code.InvalidCredentials)
			require.False(t, signin.Revoked(err))
			c.keep(c.refresh(w))
		})
		t.Run("WS-ID-1 a sign-in that was not refreshed in its time is over", func(t *testing.T) {
			c := newClient(t).login(w, "ada")
			w.exec(t, `UPDATE sign_ins SET token_expires_at = $2 WHERE id = $1`, c.answer.SessionID, time.Now().Add(-time.Second))
			_, err := c.refresh(w)
			requireFault(t, err, code.InvalidCredentials)
		})
		t.Run("WS-ID-1 the refresh of another device is refused", func(t *testing.T) {
			c, other := newClient(t).login(w, "ada"), newClient(t)
			_, err := c.call(w, wire.TokenRequest{GrantType: wire.GrantRefreshToken, RefreshToken: c.answer.RefreshToken, Device: &other.device})
			requireFault(t, err, code.InvalidCredentials)
			c.keep(c.refresh(w))
		})
	})
}

// Many refreshes of one token at once, over two nodes: at most the last answer is good afterwards, nobody who
// has it is locked out, and who uses another one ends the sign-in.
func TestConcurrentRefreshes(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		nodes := []*world{newWorld(t, db.DB), newWorld(t, db.DB)}
		nodes[0].person(t, "ada")
		c := newClient(t).login(nodes[0], "ada")
		answers := make([]wire.TokenAnswer, 10)
		errs := make([]error, len(answers))
		var group sync.WaitGroup
		for i := range answers {
			group.Go(func() { answers[i], errs[i] = c.refresh(nodes[i%2]) })
		}
		group.Wait()
		for i := range errs {
			require.NoError(t, errs[i], "the successor was unused each time")
		}
		good := 0
		for _, answer := range answers {
			hash := nodes[0].number(t, `SELECT count(*) FROM sign_ins WHERE id = $1`, answer.SessionID)
			require.EqualValues(t, 1, hash)
			_, err := c.refreshWith(nodes[0], answer.RefreshToken)
			if err == nil {
				good++
				break
			}
			require.True(t, signin.Revoked(err) || good == 0)
		}
		require.LessOrEqual(t, good, 1)
	})
}
