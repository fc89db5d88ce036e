package workspace_test

import (
	"context"
	"errors"
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

// shaky is a store that fails when it is told to, and whose context counts.
type shaky struct {
	workspace.Store

	commits atomic.Pointer[error] // what Commit fails with
}

func (s *shaky) PutEntries(ctx context.Context, put []workspace.Entry, remove []string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.Store.PutEntries(ctx, put, remove)
}

func (s *shaky) Commit(ctx context.Context, at workspace.Position, changed []workspace.Record) error {
	if failed := s.commits.Load(); failed != nil {
		return *failed
	}
	return s.Store.Commit(ctx, at, changed)
}

// drop ends all connections, and lets that be noticed.
func (f *fake) drop() {
	f.hangUp()
	<-time.After(time.Second)
}

func TestConnectionEndsUnderWork(t *testing.T) {
	t.Parallel()
	t.Run("an event is at work", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t)
			thread := seed(f)
			r := run(t, f)
			only(t, f)
			held := make(chan error, 1)
			r.mu.Lock()
			r.hold = func(ctx context.Context) {
				f.drop()
				select {
				case held <- ctx.Err():
				default:
				}
			}
			r.mu.Unlock()
			f.do(func(w *world) { w.post(thread, w.other, "hello") })
			require.NoError(t, <-held, "the event outlives its connection")
			<-time.After(time.Minute)
			only(t, f)
			require.Equal(t, workspace.Live, r.Phase())
		})
	})
	t.Run("an entry is confirmed by its echo", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t)
			thread := seed(f)
			posted := make(chan struct{})
			p := account(t, f, &shaky{Store: workspace.NewMemory()}, nil, func(e workspace.Event) {
				if data, is := e.Data.(*wire.MessageEvent); is && data.Message.ContentMD == "theirs" {
					<-posted // the echo waits behind this event
					f.drop()
				}
			})
			p.OpenThread(thread)
			require.NoError(t, p.Settle(t.Context()))
			lost := atomic.Bool{}
			f.do(func(w *world) {
				f.lose = func(r *http.Request) bool { return r.Method == http.MethodPost && !lost.Swap(true) }
				w.post(thread, w.other, "theirs")
			})
			synctest.Wait()
			_, err := p.Outbox().Send(t.Context(), thread, workspace.Text{ContentMD: "mine"})
			require.NoError(t, err)
			synctest.Wait()
			require.True(t, lost.Load())
			close(posted)
			<-time.After(time.Minute)
			p.same(t)
			require.Len(t, p.State().Messages(thread), 2)
		})
	})
	t.Run("a snapshot is awaited", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t)
			thread := seed(f)
			p := account(t, f, workspace.NewMemory(), nil)
			p.OpenThread(thread)
			require.NoError(t, p.Settle(t.Context()))
			refused := atomic.Int32{}
			f.do(func(*world) {
				f.before = func(w http.ResponseWriter, r *http.Request) bool {
					if !strings.HasSuffix(r.URL.Path, "/sync/snapshot") || refused.Add(1) > 3 {
						return false
					}
					f.hangUp()
					w.WriteHeader(http.StatusServiceUnavailable)
					return true
				}
				f.epoch = workspace.NewID()
			})
			f.hangUp()
			<-time.After(5 * time.Minute)
			require.Greater(t, refused.Load(), int32(3))
			p.same(t)
			require.Equal(t, f.epoch, p.Position().Epoch)
		})
	})
}

func TestAccountSaysWhyItStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		thread := seed(f)
		store := &shaky{Store: workspace.NewMemory()}
		p := account(t, f, store, nil)
		p.OpenThread(thread)
		require.NoError(t, p.Settle(t.Context()))
		full := errors.New("disk full")
		store.commits.Store(&full)
		waiting := make(chan error, 1)
		go func() { waiting <- p.SettleAt(t.Context(), 1<<40) }()
		f.do(func(w *world) { w.post(thread, w.other, "hello") })
		require.ErrorIs(t, <-waiting, full, "who waits is told")
		require.ErrorIs(t, <-p.ended, full)
		require.ErrorIs(t, p.Settle(t.Context()), full)
		_, err := p.Outbox().Send(t.Context(), thread, workspace.Text{ContentMD: "later"})
		require.NoError(t, err, "it is kept for the next run")
		require.ErrorIs(t, p.Outbox().Idle(t.Context()), full)

		store.commits.Store(nil)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		synctest.Wait()
		p.same(t)
		require.Error(t, p.Run(ctx), "it runs already")
		require.NoError(t, p.Settle(t.Context()), "and that disturbs nothing")
		stop()
		require.NoError(t, <-ended)
		at, records, err := store.LoadCopy(t.Context())
		require.NoError(t, err)
		require.Equal(t, p.Position(), at)
		stored := workspace.NewState(f.device)
		require.NoError(t, stored.Restore(records))
		require.Empty(t, workspace.Compare(stored.Export(), p.State().Export()), "ES-7.1 a position stands for all that is stored")
	})
}

func TestWhatARevocationDropsIsNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		thread := seed(f)
		p := account(t, f, workspace.NewMemory(), nil)
		require.NoError(t, p.Settle(t.Context()))
		f.do(func(*world) {
			f.before = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPost {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
				return r.Method == http.MethodPost
			}
		})
		_, err := p.Outbox().Send(t.Context(), thread, workspace.Text{ContentMD: "never sent"})
		require.NoError(t, err)
		waiting := make(chan error, 1)
		go func() { waiting <- p.Outbox().Idle(t.Context()) }()
		synctest.Wait()
		f.closeAll(code.CloseRevoked, "")
		require.ErrorIs(t, <-p.ended, workspace.ErrRevoked)
		require.ErrorIs(t, <-waiting, workspace.ErrRevoked)
		require.ErrorIs(t, p.Outbox().Idle(t.Context()), workspace.ErrRevoked)
	})
}
