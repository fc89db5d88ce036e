package workspace_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// sending is an outbox that runs until its test ends, and may send.
func sending(t *testing.T, f *fake, store workspace.Store) (*workspace.Outbox, *workspace.Client) {
	t.Helper()
	client := f.client(t, func(c *workspace.Config) { c.Tokens = store })
	box, err := workspace.NewOutbox(t.Context(), client, store)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- box.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	box.Open()
	return box, client
}

// refuse answers the next n requests to a route with a status and code.
func (f *fake) refuse(n *atomic.Int64, part string, status int, c code.Code) {
	f.do(func(*world) {
		f.before = func(w http.ResponseWriter, r *http.Request) bool {
			if n.Load() == 0 || r.Method == http.MethodGet || !strings.Contains(r.URL.Path, part) {
				return false
			}
			n.Add(-1)
			w.Header().Set("DPoP-Nonce", f.nonceNow())
			w.WriteHeader(status)
			_, _ = w.Write(raw(wire.Problem{Title: "t", Status: status, Code: string(c)}))
			return true
		}
	})
}

func contents(f *fake, thread string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, m := range f.msgs[thread] {
		if m.DeletedAt == nil {
			all = append(all, m.ContentMD)
		}
	}
	return all
}

func TestOutboxClasses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		code   code.Code
		state  workspace.EntryState // "" for sent in the end
	}{
		{500, code.InternalError, ""}, {502, "", ""}, {503, code.Unavailable, ""}, {504, "", ""}, {429, code.RateLimited, ""}, {408, "", ""},
		{409, code.RequestInProgress, ""}, {401, code.TokenExpired, ""}, {401, code.UseDPoPNonce, ""},
		{412, code.VersionConflict, workspace.EntryConflict},
		{400, code.MalformedJSON, workspace.EntryFailed}, {404, code.NotFound, workspace.EntryFailed}, {410, code.MessageDeleted, workspace.EntryFailed},
		{413, code.PayloadTooLarge, workspace.EntryFailed}, {422, code.ValidationFailed, workspace.EntryFailed}, {403, code.Forbidden, workspace.EntryFailed},
		{409, code.RunActiveOtherAgent, workspace.EntryFailed}, {428, code.PreconditionRequired, workspace.EntryFailed},
	} {
		t.Run(fmt.Sprintf("ES-13.2 %d %s", c.status, c.code), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				thread := seed(f)
				store := workspace.NewMemory()
				box, _ := sending(t, f, store)
				var n atomic.Int64
				n.Store(4)
				if c.state != "" {
					n.Store(1)
				}
				f.refuse(&n, "/messages", c.status, c.code)
				entry, err := box.Send(t.Context(), thread, workspace.Text{ContentMD: "words"})
				require.NoError(t, err)
				require.NoError(t, box.Idle(t.Context()))
				kept, there := box.Entry(entry.ID)
				if c.state == "" {
					require.Equal(t, []string{"words"}, contents(f, thread))
					f.do(func(w *world) {
						require.Equal(t, entry.ID, w.msgs[thread][0].ClientMsgID, "the same id on every attempt")
					})
					require.False(t, there)
					return
				}
				require.True(t, there, "nothing is discarded silently")
				require.Equal(t, c.state, kept.State)
				require.Equal(t, string(c.code), kept.Problem.Code)
				require.Equal(t, "words", kept.Content)
				require.Empty(t, contents(f, thread))
				if c.state == workspace.EntryFailed {
					again, err := box.Resend(t.Context(), entry.ID)
					require.NoError(t, err)
					require.NotEqual(t, entry.ID, again.ID, "sent again by hand it is a new write")
					require.NoError(t, box.Idle(t.Context()))
					require.Equal(t, []string{"words"}, contents(f, thread))
				}
			})
		})
	}
}

func TestOutboxLostAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		thread := seed(f)
		box, _ := sending(t, f, workspace.NewMemory())
		var lost atomic.Int64
		f.do(func(*world) {
			f.lose = func(r *http.Request) bool { return r.Method != http.MethodGet && lost.Add(1)%3 != 0 }
		})
		var want []string
		for i := range 20 {
			text := fmt.Sprintf("message %d", i)
			want = append(want, text)
			_, err := box.Send(t.Context(), thread, workspace.Text{ContentMD: text})
			require.NoError(t, err)
		}
		require.NoError(t, box.Idle(t.Context()))
		require.Equal(t, want, contents(f, thread), "ES-13.2 in order, each exactly once")
	})
}

func TestOutboxThreadsRunInParallel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		thread := seed(f)
		var other string
		f.do(func(w *world) { other = w.thread(w.threads[thread].ChannelID, "beside", w.other).ID })
		box, _ := sending(t, f, workspace.NewMemory())
		var n atomic.Int64
		n.Store(-1) // for ever
		f.refuse(&n, thread, 503, code.Unavailable)
		for _, text := range []string{"a", "b"} {
			_, err := box.Send(t.Context(), thread, workspace.Text{ContentMD: text})
			require.NoError(t, err)
			_, err = box.Send(t.Context(), other, workspace.Text{ContentMD: text})
			require.NoError(t, err)
		}
		<-time.After(10 * time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"opening of beside", "a", "b"}, contents(f, other), "ES-13.2 another thread does not wait")
		require.Empty(t, contents(f, thread))
		attempts := f.asked("POST /api/v1/threads/" + thread + "/messages")
		require.Greater(t, attempts, 3)
		<-time.After(24 * time.Hour)
		synctest.Wait()
		require.Less(t, f.asked("POST /api/v1/threads/"+thread+"/messages")-attempts, 24*60, "waits grow up to the cap")
		n.Store(0)
		<-time.After(5 * time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"a", "b"}, contents(f, thread))
	})
}

func TestOutboxUnsent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		thread := seed(f)
		box, _ := sending(t, f, workspace.NewMemory())
		box.Hold()
		ctx := t.Context()
		first, err := box.Send(ctx, thread, workspace.Text{ContentMD: "typo"})
		require.NoError(t, err)
		second, err := box.Send(ctx, thread, workspace.Text{ContentMD: "regretted"})
		require.NoError(t, err)
		require.NoError(t, box.EditEntry(ctx, first.ID, "no typo"))
		require.NoError(t, box.Discard(ctx, second.ID))
		for i := range 3 {
			_, err := box.MarkRead(ctx, thread, int64(i))
			require.NoError(t, err)
		}
		require.Len(t, box.Entries(), 2, "of values of which the last one wins only that is kept")
		box.Open()
		require.NoError(t, box.Idle(ctx))
		require.Equal(t, []string{"no typo"}, contents(f, thread), "ES-13.3 what was not sent changes in the outbox")
		require.Zero(t, f.asked("PATCH /api/v1/messages/"+first.ID))
	})
}

func TestOutboxSentButNotConfirmed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		thread := seed(f)
		box, _ := sending(t, f, workspace.NewMemory())
		ctx := t.Context()
		var lose atomic.Bool
		lose.Store(true)
		f.do(func(*world) {
			f.lose = func(r *http.Request) bool { return lose.Load() && strings.HasSuffix(r.URL.Path, "/messages") }
		})
		first, err := box.Send(ctx, thread, workspace.Text{ContentMD: "edited later"})
		require.NoError(t, err)
		synctest.Wait()
		require.Len(t, contents(f, thread), 1, "the server has it, the client does not know")
		require.NoError(t, box.EditEntry(ctx, first.ID, "edited"))
		second, err := box.Send(ctx, thread, workspace.Text{ContentMD: "deleted later"})
		require.NoError(t, err)
		lose.Store(false)
		require.NoError(t, box.Idle(ctx))
		require.Equal(t, []string{"edited", "deleted later"}, contents(f, thread), "ES-13.3 an edit follows what may be sent")
		lose.Store(true)
		third, err := box.Send(ctx, thread, workspace.Text{ContentMD: "regretted"})
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, box.Discard(ctx, third.ID))
		require.NoError(t, box.Discard(ctx, third.ID), "twice is once")
		require.Len(t, box.Entries(), 2, "ES-13.3 a delete entry follows")
		lose.Store(false)
		require.NoError(t, box.Idle(ctx))
		require.Equal(t, []string{"edited", "deleted later"}, contents(f, thread))
		require.ErrorIs(t, box.Discard(ctx, second.ID), workspace.ErrNoEntry)
	})
}

func TestOutboxWhatFollowsARefusedMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		thread := seed(f)
		box, _ := sending(t, f, workspace.NewMemory())
		ctx := t.Context()
		var n atomic.Int64
		n.Store(-1)
		f.refuse(&n, "/messages", 503, code.Unavailable)
		edited, err := box.Send(ctx, thread, workspace.Text{ContentMD: "first"})
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, box.EditEntry(ctx, edited.ID, "second"))
		require.NoError(t, box.EditEntry(ctx, edited.ID, "third"))
		require.Len(t, box.Entries(), 2)
		f.refuse(&n, "/messages", 404, code.NotFound)
		require.NoError(t, box.Idle(ctx))
		kept := box.Entries()
		require.Len(t, kept, 1)
		require.Equal(t, workspace.EntryFailed, kept[0].State)
		require.Equal(t, "third", kept[0].Content, "ES-8.3 the text stays for copying, as it was last")
		require.NoError(t, box.Discard(ctx, kept[0].ID))
		require.Empty(t, box.Entries())
	})
}

func TestOutboxConflict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		thread := seed(f)
		box, client := sending(t, f, workspace.NewMemory())
		ctx := t.Context()
		message, err := client.SendMessage(ctx, thread, wire.NewMessage{ContentMD: "first"})
		require.NoError(t, err)
		f.do(func(w *world) { w.edit(w.byID[message.ID], "by another device") })
		entry, err := box.Edit(ctx, message, "mine")
		require.NoError(t, err)
		require.NoError(t, box.Idle(ctx))
		kept, _ := box.Entry(entry.ID)
		require.Equal(t, workspace.EntryConflict, kept.State, "ES-13.3 the person decides")
		require.Contains(t, string(kept.Problem.Current), "by another device")
		_, err = box.Resolve(ctx, entry.ID, "both", 2)
		require.NoError(t, err)
		require.NoError(t, box.Idle(ctx))
		require.Equal(t, []string{"both"}, contents(f, thread))

		f.do(func(w *world) { w.remove(w.byID[message.ID]) })
		entry, err = box.Edit(ctx, message, "too late")
		require.NoError(t, err)
		require.NoError(t, box.Idle(ctx))
		kept, _ = box.Entry(entry.ID)
		require.Equal(t, string(code.MessageDeleted), kept.Problem.Code)
		require.Equal(t, "too late", kept.Content, "ES-13.3 the text stays available for copying")
		_, err = box.Delete(ctx, message)
		require.NoError(t, err)
		require.NoError(t, box.Idle(ctx), "ES-13.3 deleting is idempotent")
	})
}

func TestOutboxSurvivesARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		thread := seed(f)
		store := workspace.NewMemory()
		client := f.client(t, func(c *workspace.Config) { c.Tokens = store })
		before, err := workspace.NewOutbox(t.Context(), client, store)
		require.NoError(t, err)
		for _, text := range []string{"a", "b", "c"} {
			_, err := before.Send(t.Context(), thread, workspace.Text{ContentMD: text})
			require.NoError(t, err)
		}
		box, _ := sending(t, f, store)
		require.NoError(t, box.Idle(t.Context()))
		require.Equal(t, []string{"a", "b", "c"}, contents(f, thread))
		left, err := store.LoadEntries(t.Context())
		require.NoError(t, err)
		require.Empty(t, left)
	})
}

func TestOutboxStopsWithoutASignIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		thread := seed(f)
		store := workspace.NewMemory()
		client := f.client(t, func(c *workspace.Config) { c.Tokens = store })
		box, err := workspace.NewOutbox(t.Context(), client, store)
		require.NoError(t, err)
		entry, err := box.Send(t.Context(), thread, workspace.Text{ContentMD: "kept"})
		require.NoError(t, err)
		f.keys.Lock()
		f.keys.family = false
		f.keys.Unlock()
		box.Open()
		require.ErrorIs(t, box.Run(t.Context()), workspace.ErrSignedOut)
		kept, there := box.Entry(entry.ID)
		require.True(t, there)
		require.Equal(t, workspace.EntryWaiting, kept.State, "it is sent after the next sign-in")
	})
}
