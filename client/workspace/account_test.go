package workspace_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// person is an Account that runs until its test ends.
type person struct {
	*workspace.Account

	f       *fake
	reports []error
	ended   chan error
	stop    func()
}

func account(t *testing.T, f *fake, store workspace.Store, keys workspace.KeyStore, hear ...func(workspace.Event)) *person {
	t.Helper()
	p := &person{f: f, ended: make(chan error, 1)}
	config := f.config(t, nil)
	config.Tokens = nil
	if keys != nil {
		config.Keys = keys
	}
	opened, err := workspace.OpenAccount(t.Context(), workspace.AccountConfig{
		Client: config, Store: store,
		OnEvent: func(e workspace.Event) {
			for _, hear := range hear {
				hear(e)
			}
		},
		Gateway: workspace.GatewayOptions{Report: func(err error) { f.do(func(*world) { p.reports = append(p.reports, err) }) }},
	})
	require.NoError(t, err)
	p.Account = opened
	if held, err := opened.Client().SignedIn(t.Context()); err == nil && held == nil {
		_, err := opened.Client().SignIn(t.Context(), workspace.Password("me", "right"))
		require.NoError(t, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); p.ended <- opened.Run(ctx) }()
	p.stop = func() { cancel(); <-done }
	t.Cleanup(func() { p.stop(); require.NoError(t, opened.Close()) })
	return p
}

// same waits until the copy is at the head and compares it with a fresh one.
func (p *person) same(t *testing.T) {
	t.Helper()
	p.f.mu.Lock()
	head := p.f.head
	p.f.mu.Unlock()
	require.NoError(t, p.SettleAt(t.Context(), head))
	require.NoError(t, p.Outbox().Idle(t.Context()))
	synctest.Wait()
	require.NoError(t, p.Settle(t.Context()))
	fresh, err := p.Client().Fresh(t.Context(), p.State().Export())
	require.NoError(t, err)
	require.Empty(t, workspace.Compare(p.State().Export(), fresh))
}

func TestAccount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		thread := seed(f)
		store, keys := workspace.NewMemory(), &workspace.MemoryKeys{}
		f.do(func(w *world) {
			for range 130 {
				w.post(thread, w.other, "@me before")
			}
		})
		p := account(t, f, store, keys)
		require.NoError(t, p.Settle(t.Context()))
		unread, mentions := p.State().Unread(thread)
		require.Equal(t, [2]int64{130, 130}, [2]int64{unread, mentions})
		p.OpenThread(thread)
		channel := p.State().Channels("")[0]
		p.OpenChannel(channel.ID)
		p.same(t)
		require.Len(t, p.State().Messages(thread), 100)
		more, err := p.LoadOlder(t.Context(), thread)
		require.NoError(t, err)
		require.False(t, more)
		require.Len(t, p.State().Messages(thread), 130)
		p.same(t)

		rule(t, "ES-13.2 the echo confirms an entry", func(t *testing.T) {
			entry, err := p.Outbox().Send(t.Context(), thread, workspace.Text{ContentMD: "mine"})
			require.NoError(t, err)
			p.same(t)
			messages := p.State().Messages(thread)
			require.Equal(t, entry.ID, messages[len(messages)-1].ClientMsgID)
			require.Empty(t, p.Outbox().Entries())
		})
		rule(t, "ES-13.4 what was written offline is sent after catching up, once", func(t *testing.T) {
			f.hangUp()
			synctest.Wait()
			_, err := p.Outbox().Send(t.Context(), thread, workspace.Text{ContentMD: "offline"})
			require.NoError(t, err)
			f.do(func(w *world) { w.post(thread, w.other, "meanwhile") })
			<-time.After(time.Minute)
			p.same(t)
			messages := p.State().Messages(thread)
			require.Equal(t, "offline", messages[len(messages)-1].ContentMD)
		})
		rule(t, "ES-7.1 another process goes on where this one stopped", func(t *testing.T) {
			p.stop()
			f.do(func(w *world) { w.post(thread, w.other, "while it was off") })
			asked := f.asked("GET /api/v1/sync/snapshot")
			p = account(t, f, store, keys)
			require.NoError(t, p.SettleAt(t.Context(), f.head))
			require.Equal(t, asked, f.asked("GET /api/v1/sync/snapshot"), "it caught up by events alone")
			p.same(t)
		})
		rule(t, "ES-7.3 after a resync what was open is loaded anew, and the outbox stays", func(t *testing.T) {
			f.hangUp()
			synctest.Wait()
			_, err := p.Outbox().Send(t.Context(), thread, workspace.Text{ContentMD: "kept over a restore"})
			require.NoError(t, err)
			f.do(func(*world) { f.epoch = workspace.NewID() })
			<-time.After(time.Minute)
			p.same(t)
			require.Equal(t, f.epoch, p.Position().Epoch)
			messages := p.State().Messages(thread)
			require.Equal(t, "kept over a restore", messages[len(messages)-1].ContentMD)
		})
	})
}

func TestAccountAccess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		thread := seed(f)
		var target wire.Target
		f.do(func(w *world) {
			target = wire.Target{Kind: wire.TargetChannel, ID: w.threads[thread].ChannelID}
			w.permit(func() { w.grants = map[wire.Target]wire.Level{target: wire.LevelWrite} })
			w.post(thread, w.other, "hello")
		})
		p := account(t, f, workspace.NewMemory(), nil)
		p.OpenThread(thread)
		p.same(t)
		require.Len(t, p.State().Messages(thread), 1)

		f.hangUp() // the outbox waits
		synctest.Wait()
		entry, err := p.Outbox().Send(t.Context(), thread, workspace.Text{ContentMD: "too late"})
		require.NoError(t, err)
		f.do(func(w *world) { w.permit(func() { delete(w.grants, target) }) })
		<-time.After(time.Minute)
		p.same(t)
		rule(t, "ES-8.3 content of what was removed is deleted", func(t *testing.T) {
			require.Empty(t, p.State().Channels(""))
			require.Empty(t, p.State().Messages(thread))
			require.Empty(t, p.State().OpenThreads())
		})
		rule(t, "ES-8.3 entries for it fail, and keep their text", func(t *testing.T) {
			kept, there := p.Outbox().Entry(entry.ID)
			require.True(t, there)
			require.Equal(t, workspace.EntryFailed, kept.State)
			require.Equal(t, string(code.NotFound), kept.Problem.Code)
			require.Equal(t, "too late", kept.Content)
		})
		rule(t, "ES-8.4 the structure of what was added is loaded", func(t *testing.T) {
			f.do(func(w *world) { w.permit(func() { w.grants[target] = wire.LevelRead }) })
			p.same(t)
			require.Len(t, p.State().Channels(""), 1)
			require.Equal(t, wire.LevelRead, p.State().Level(wire.TargetChannel, target.ID))
			unread, _ := p.State().Unread(thread)
			require.Equal(t, int64(1), unread)
		})
		rule(t, "ES-8.1 an event of a channel that is not visible is reported", func(t *testing.T) {
			before := len(p.reports)
			f.do(func(w *world) { w.permit(func() { delete(w.grants, target) }) })
			p.same(t)
			f.do(func(w *world) {
				w.grants[target] = wire.LevelRead // a server that errs
				w.post(thread, w.other, "not for you")
				delete(w.grants, target)
			})
			synctest.Wait()
			require.Greater(t, len(p.reports), before)
			require.ErrorContains(t, p.reports[len(p.reports)-1], "not visible")
			require.Empty(t, p.State().Messages(thread))
		})
	})
}

func TestAccountIsErased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		thread := seed(f)
		store, keys := workspace.NewMemory(), &workspace.MemoryKeys{}
		p := account(t, f, store, keys)
		p.OpenThread(thread)
		p.same(t)
		key, err := keys.Key()
		require.NoError(t, err)
		f.closeAll(code.CloseRevoked, "")
		require.ErrorIs(t, <-p.ended, workspace.ErrRevoked)
		at, records, err := store.LoadCopy(t.Context())
		require.NoError(t, err)
		require.Zero(t, at)
		require.Empty(t, records)
		tokens, err := store.LoadTokens(t.Context())
		require.NoError(t, err)
		require.Nil(t, tokens)
		require.Empty(t, p.State().Export().Channels)
		another, err := keys.Key()
		require.NoError(t, err)
		require.NotEqual(t, key.Thumbprint(), another.Thumbprint(), "ES-8.5 nothing is left, nor the keys")
	})
}

func TestAccountDrafts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		thread := seed(f)
		p := account(t, f, workspace.NewMemory(), nil)
		p.same(t)
		f.do(func(w *world) { w.putDraft(thread, "from the phone", "phone") })
		p.same(t)
		draft, ok := p.State().Draft(thread)
		require.True(t, ok)
		require.Equal(t, "from the phone", draft.ContentMD)

		base := p.State().BeginDraft(thread)
		f.do(func(w *world) { w.putDraft(thread, "the phone again", "phone") })
		synctest.Wait()
		draft, _ = p.State().Draft(thread)
		require.Equal(t, "from the phone", draft.ContentMD, "ES-14 not while somebody types here")
		_, err := p.Outbox().PutDraft(t.Context(), thread, wire.PutDraft{ContentMD: "typed here", BaseVersion: &base})
		require.NoError(t, err)
		require.NoError(t, p.Outbox().Idle(t.Context()))
		p.State().EndDraft(thread)
		p.same(t)
		draft, _ = p.State().Draft(thread)
		require.Equal(t, "typed here", draft.ContentMD, "ES-14 the next local write wins")

		p.State().BeginDraft(thread)
		f.do(func(w *world) { w.putDraft(thread, "a last word", "phone") })
		synctest.Wait()
		p.State().EndDraft(thread)
		draft, _ = p.State().Draft(thread)
		require.Equal(t, "a last word", draft.ContentMD)
		p.same(t)
	})
}

// rule is t.Run where there is none: in a synctest bubble.
func rule(t *testing.T, name string, holds func(t *testing.T)) {
	t.Helper()
	t.Log(name)
	holds(t)
}
