package workspace_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

const tokenRoute = "POST /api/v1/auth/token"

func TestKeys(t *testing.T) {
	t.Parallel()
	key, err := workspace.NewKey()
	require.NoError(t, err)
	text, err := key.PEM()
	require.NoError(t, err)
	again, err := workspace.ParseKey(text)
	require.NoError(t, err)
	require.Equal(t, key.Thumbprint(), again.Thumbprint())
	for _, bad := range []string{"", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		_, err := workspace.ParseKey([]byte(bad))
		require.Error(t, err)
	}
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	client, err := workspace.New(f.config(t, workspace.NewMemory()))
	require.NoError(t, err)
	ctx := t.Context()

	_, err = client.Me(ctx)
	require.ErrorIs(t, err, workspace.ErrSignedOut)
	_, err = client.SignIn(ctx, workspace.Password("me", "wrong"))
	require.True(t, workspace.IsCode(err, code.InvalidCredentials), err)
	_, err = client.SignIn(ctx, workspace.LoginCode("right"))
	require.NoError(t, err)

	t.Run("WS-ID-2 the nonce of every answer is used, and a bad one replaced once", func(t *testing.T) {
		before := f.keys.refused
		require.Equal(t, 1, before, "only the very first proof had none")
		_, err = client.Me(ctx)
		require.NoError(t, err)
		require.Equal(t, before, f.keys.refused)
		f.spoil()
		_, err = client.Me(ctx)
		require.NoError(t, err)
		require.Equal(t, before+1, f.keys.refused)
	})
	t.Run("WS-ID-5 stepping up keeps the session", func(t *testing.T) {
		before, err := client.SignedIn(ctx)
		require.NoError(t, err)
		answer, err := client.StepUp(ctx, workspace.Password("", "right"))
		require.NoError(t, err)
		require.Equal(t, before.SessionID, answer.SessionID)
		require.Equal(t, 1, f.keys.stepped)
	})
	t.Run("logout forgets the tokens", func(t *testing.T) {
		require.NoError(t, client.Logout(ctx))
		_, err := client.Me(ctx)
		require.ErrorIs(t, err, workspace.ErrSignedOut)
		require.NoError(t, client.Logout(ctx), "twice is fine")
	})
}

func TestRefresh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		client := f.client(t)
		signedIn := f.asked(tokenRoute)
		<-time.After(8 * time.Minute)
		_, err := client.Me(t.Context())
		require.NoError(t, err)
		require.Equal(t, signedIn, f.asked(tokenRoute), "the token is still good")

		<-time.After(75 * time.Second) // within the last minute of its life
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				_, err := client.Me(t.Context())
				require.NoError(t, err)
			})
		}
		all.Wait()
		require.Equal(t, signedIn+1, f.asked(tokenRoute), "one refresh for all, ahead of the end")
		require.Zero(t, f.asked("POST /api/v1/auth/logout"))

		<-time.After(time.Hour) // long after the end
		_, err = client.Me(t.Context())
		require.NoError(t, err)
	})
}

func TestRefreshWithALostAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		store := workspace.NewMemory()
		client := f.client(t, func(c *workspace.Config) { c.Tokens = store })
		var lost atomic.Int64
		f.do(func(*world) {
			f.lose = func(r *http.Request) bool { return r.URL.Path == "/api/v1/auth/token" && lost.Add(1) <= 2 }
		})
		<-time.After(11 * time.Minute)
		// A caller that goes away does not interrupt what must not be lost.
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := client.Me(gone)
		require.Error(t, err)
		_, err = client.Me(t.Context())
		require.NoError(t, err, "WS-ID-1 a lost answer locks nobody out")
		require.Equal(t, int64(3), lost.Load())
		require.True(t, f.keys.family)
	})
}

// forgetful cannot store tokens any more.
type forgetful struct {
	*workspace.Memory

	broken bool
}

func (s *forgetful) SaveTokens(ctx context.Context, tokens *workspace.Tokens) error {
	if s.broken {
		return errors.New("disk full")
	}
	return s.Memory.SaveTokens(ctx, tokens)
}

func TestTokensAreStoredBeforeTheyAreUsed(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	store := &forgetful{Memory: workspace.NewMemory()}
	client := f.client(t, func(c *workspace.Config) { c.Tokens = store })
	kept, err := store.LoadTokens(t.Context())
	require.NoError(t, err)
	store.broken = true
	require.ErrorContains(t, client.Refresh(t.Context()), "disk full")
	after, err := client.SignedIn(t.Context())
	require.NoError(t, err)
	require.Equal(t, kept.RefreshToken, after.RefreshToken, "the old one can still be had again")
	store.broken = false
	require.NoError(t, client.Refresh(t.Context()))
}

func TestASignInThatEnded(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	store := workspace.NewMemory()
	client := f.client(t, func(c *workspace.Config) { c.Tokens = store })
	f.keys.Lock()
	f.keys.family = false
	f.keys.Unlock()
	_, err := client.Me(t.Context())
	require.ErrorIs(t, err, workspace.ErrSignedOut)
	kept, err := store.LoadTokens(t.Context())
	require.NoError(t, err)
	require.Nil(t, kept)
}

func TestTwoClientsOfOneStoreDoNotEndTheirSignIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		store, keys := workspace.NewMemory(), &workspace.MemoryKeys{}
		share := func(c *workspace.Config) { c.Tokens, c.Keys = store, keys }
		first := f.client(t, share)
		config := f.config(t, store)
		share(&config)
		second, err := workspace.New(config)
		require.NoError(t, err)
		for range 5 {
			<-time.After(10 * time.Minute)
			var both sync.WaitGroup
			for _, client := range []*workspace.Client{first, second} {
				both.Go(func() {
					_, err := client.Me(t.Context())
					require.NoError(t, err)
				})
			}
			both.Wait()
		}
		require.Len(t, f.keys.access, 1+5, "the sign-in, and one refresh at a time")
		second.Close()
	})
}

func TestWrites(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	client := f.client(t)
	var thread string
	f.do(func(w *world) {
		w.grants[wire.Target{Kind: wire.TargetInstance}] = wire.LevelManage
		thread = w.channel(w.space("s").ID, "c", wire.ChannelText).MainThreadID
	})
	var lost atomic.Int64
	f.do(func(*world) {
		f.lose = func(r *http.Request) bool { return r.Method != http.MethodGet && lost.Add(1) <= 2 }
	})
	message, err := client.SendMessage(t.Context(), thread, wire.NewMessage{ContentMD: "once"})
	require.NoError(t, err)
	t.Run("ES-5.1 a repeat after a lost answer is one message", func(t *testing.T) {
		f.do(func(w *world) { require.Len(t, w.msgs[thread], 1) })
		require.Equal(t, int64(3), lost.Load())
	})
	t.Run("ES-5.2 a repeat of another write has the same key", func(t *testing.T) {
		lost.Store(1)
		require.NoError(t, client.React(t.Context(), message.ID, "👍"))
		f.do(func(w *world) { require.Len(t, w.reacted[message.ID]["👍"], 1) })
		thread, err := client.CloseThread(t.Context(), thread)
		require.NoError(t, err)
		require.Equal(t, wire.ThreadDone, thread.State)
	})
	t.Run("ES-13.3 a version conflict shows the current message", func(t *testing.T) {
		_, err := client.EditMessage(t.Context(), message.ID, "mine", 99)
		require.True(t, workspace.IsCode(err, code.VersionConflict), err)
		current, ok := workspace.Current[wire.Message](err)
		require.True(t, ok)
		require.Equal(t, "once", current.ContentMD)
		edited, err := client.EditMessage(t.Context(), message.ID, "mine", current.Version)
		require.NoError(t, err)
		require.Equal(t, "mine", edited.ContentMD)
	})
	t.Run("an empty id addresses nothing", func(t *testing.T) {
		_, err := client.Message(t.Context(), "")
		require.ErrorIs(t, err, workspace.ErrEmptyReference)
	})
}

func TestAnswersThatAreNoProblem(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	client := f.client(t)
	f.do(func(*world) {
		f.before = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/api/v1/me" {
				return false
			}
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte("<html>a proxy's page with Bearer secrets</html>"))
			return true
		}
	})
	_, err := client.Me(t.Context())
	refused := workspace.AsProblem(err)
	require.NotNil(t, refused)
	require.Equal(t, http.StatusBadRequest, refused.Status)
	require.Equal(t, 7*time.Second, refused.Wait)
	require.NotContains(t, err.Error(), "secrets")
}
