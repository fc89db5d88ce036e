package run_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/internal/agent/run"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/testkit"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// servant is the desktop waiting for work.
type servant struct {
	asked atomic.Int64 // looks at the inbox
	stop  func()
}

// serve starts it; change alters how a session is executed.
func (s *stage) serve(most int, change func(*run.Options)) *servant {
	v := &servant{}
	client, err := sessions.New(sessions.Config{
		BaseURL: s.url, Key: s.key, Device: sessions.Device{ID: desktop, Platform: wire.PlatformDesktop},
		Trace: func(request sessions.RequestTrace) {
			if strings.HasSuffix(request.Path, "/me/dispatch") {
				v.asked.Add(1)
			}
		},
	})
	require.NoError(s.t, err)
	_, err = client.Devices(s.t.Context()) // registers it
	require.NoError(s.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	folders := s.t.TempDir()
	serving.Go(func() {
		_ = run.Serve(ctx, run.ServeOptions{
			Client: client, MaxSessions: most, Folder: s.working, Env: env.Real(), Say: s.t.Logf,
			Options: func(_ context.Context, session wire.Session) (run.Options, error) {
				o := s.options()
				o.Client, o.Session, o.Folder, o.Linger = client, session.ID, filepath.Join(folders, session.ID), time.Second
				if change != nil {
					change(&o)
				}
				return o, nil
			},
		})
	})
	v.stop = sync.OnceFunc(func() { cancel(); serving.Wait(); client.Close() })
	s.t.Cleanup(v.stop)
	return v
}

func (s *stage) dispatch(session, text string, mode wire.Mode) string {
	dispatch := wire.Dispatch{DeviceID: desktop, Mode: mode}
	if text != "" {
		dispatch.Text = &text
	}
	receipt, err := s.phone.Dispatch(s.t.Context(), session, dispatch)
	require.NoError(s.t, err)
	return receipt.ControlID
}

func (s *stage) released() {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		detail, err := s.phone.GetSession(s.t.Context(), s.session)
		return err == nil && detail.Lease == nil
	}, patience, 50*time.Millisecond, "the lease is never given back")
}

func TestDispatch(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStage(t, db)
		waiting := s.serve(1, nil)
		t.Run("SS-CON-3 a dispatch is drained, executed, marked, and the session given back after a rest", func(t *testing.T) {
			id := s.dispatch(s.session, "say from afar", wire.ModeSend)
			require.Equal(t, trace.TurnCompleted, s.turnEnd(id).Status)
			s.said("from afar")
			s.applied(id)
			s.released()
			again := s.dispatch(s.session, "say once more", wire.ModeSend)
			require.Equal(t, trace.TurnCompleted, s.turnEnd(again).Status)
		})
		t.Run("what others ask while it works is worked on too", func(t *testing.T) {
			id := s.dispatch(s.session, "ask a1 May I", wire.ModeSend)
			s.answer(wire.ControlApprove, s.openAsk("May I").AskID)
			s.turnEnd(id)
			require.Equal(t, trace.TurnCompleted, s.turnEnd(s.send("say not dispatched")).Status)
			s.released()
		})
		t.Run("SS-DSP-2 an open handoff opens the session here", func(t *testing.T) {
			before := len(every[trace.AgentSession](s.log))
			id := s.dispatch(s.session, "", wire.ModeOpen)
			s.applied(id)
			s.log.until("another agent", func([]entry) bool { return len(every[trace.AgentSession](s.log)) > before })
			s.released()
		})
		t.Run("SS-DSP-4 an idle one does not poll", func(t *testing.T) {
			before := waiting.asked.Load()
			<-time.After(3 * time.Second)
			require.LessOrEqual(t, waiting.asked.Load()-before, int64(1))
		})
		t.Run("a second session waits for its place", func(t *testing.T) {
			other, err := s.phone.CreateSession(t.Context(), sessions.NewSession{SessionKey: "other"})
			require.NoError(t, err)
			log := follow(t, s.phone, other.ID, "")
			first := s.dispatch(s.session, "say one\nwait "+s.file("one"), wire.ModeSend)
			s.said("one")
			second := s.dispatch(other.ID, "say two", wire.ModeSend)
			looks := waiting.asked.Load()
			require.Eventually(t, func() bool { return waiting.asked.Load() >= looks+2 }, patience, 10*time.Millisecond)
			require.Empty(t, every[trace.TurnStart](log), "there is one place")
			s.touch("one")
			s.turnEnd(first)
			await(log, func(event entry, _ trace.TurnEnd) bool { return *event.TurnID == second })
		})
	})
}

func TestDispatchHeldElsewhere(t *testing.T) {
	t.Parallel()
	s := newStage(t, testkit.New(t, testkit.SQLite))
	holder := s.options()
	holder.Client, holder.Folder = s.client(s.url, laptop, wire.PlatformCLI), filepath.Join(t.TempDir(), "laptop")
	held := s.start(holder)
	waiting := s.serve(1, nil)
	id := s.dispatch(s.session, "say at last", wire.ModeSend)
	t.Run("a dispatch waits while another device executes, without a busy poll", func(t *testing.T) {
		<-time.After(3 * time.Second)
		require.LessOrEqual(t, waiting.asked.Load(), int64(12))
		require.Empty(t, every[trace.TurnStart](s.log))
	})
	s.stop(held)
	require.Equal(t, trace.TurnCompleted, s.turnEnd(id).Status)
}

func TestDispatchCannotStart(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStage(t, db)
		s.serve(1, func(o *run.Options) { o.Command = []string{"/no/such/agent"} })
		id := s.dispatch(s.session, "say never", wire.ModeSend)
		t.Run("an agent that cannot be started is told in the session, and the dispatch is rejected", func(t *testing.T) {
			s.result(id, trace.ControlRejected)
			_, failure := await[trace.Failure](s.log, nil)
			require.Equal(t, "agent_start", failure.Code)
			require.Contains(t, failure.Message, "/no/such/agent")
			s.applied(id)
			s.released()
		})
	})
}

// TestServeTakesUp starts where a process was killed that had a session at work.
func TestServeTakesUp(t *testing.T) {
	t.Parallel()
	s := newStage(t, testkit.New(t, testkit.SQLite))
	killed := s.process(s.url)
	id := s.send("ask a1 Still waiting")
	ask := s.openAsk("Still waiting")
	killed.kill()
	s.working = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(s.working, s.session), nil, 0o600))
	s.serve(1, nil)
	require.Equal(t, trace.AskExpired, s.resolved(ask.AskID).Outcome)
	require.Equal(t, trace.TurnFailed, s.turnEnd(id).Status)
	require.Equal(t, trace.TurnCompleted, s.turnEnd(s.send("say here again")).Status)
	s.released()
	require.Eventually(t, func() bool { return !exists(filepath.Join(s.working, s.session)) }, patience, 10*time.Millisecond)
}

func TestServeStops(t *testing.T) {
	t.Parallel()
	s := newStage(t, testkit.New(t, testkit.SQLite))
	waiting := s.serve(2, nil)
	id := s.dispatch(s.session, "say begun\nhang", wire.ModeSend)
	s.said("begun")
	waiting.stop()
	require.Equal(t, trace.TurnCancelled, s.turnEnd(id).Status)
	s.released()
}
