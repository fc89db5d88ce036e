package run_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/internal/agent/run"
	"github.com/cairnsync/cairn/internal/testkit"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// TestSealedTakeover kills an executor of a sealed session, and lets a device take it over that cannot open what was said.
func TestSealedTakeover(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStage(t, db)
		created, err := s.phone.CreateSession(t.Context(), sessions.NewSession{SessionKey: "secret", E2E: true})
		require.NoError(t, err)
		s.session = created.ID
		s.log = follow(t, s.phone, created.ID, s.reader(mobile))
		first := s.options()
		first.Identity = s.reader(desktop)
		recipients := func(ctx context.Context) ([]string, error) { return s.phone.MemberRecipients(ctx, created.ID) }
		first.Recipients = recipients
		old := s.start(first)
		id := s.send("ask a1 Half done")
		ask := s.openAsk("Half done")

		second := s.options()
		second.Client, second.Folder, second.Force = s.client(s.url, laptop, wire.PlatformCLI), filepath.Join(t.TempDir(), "laptop"), true
		second.Identity, second.Recipients = s.reader(laptop), recipients
		s.start(second)
		require.ErrorIs(t, s.ended(old), sessions.ErrLeaseLost)
		require.Equal(t, trace.TurnFailed, s.turnEnd(id).Status, "the turn is known to be open, though not what was said in it")
		require.Equal(t, trace.TurnCompleted, s.turnEnd(s.send("say next")).Status)
		starts := map[string]int{}
		for _, start := range every[trace.TurnStart](s.log) {
			starts[start.ControlID]++
		}
		require.Equal(t, 1, starts[id], "no prompt runs twice")
		for _, resolved := range every[trace.AskResolved](s.log) {
			require.Equal(t, ask.AskID, resolved.AskID)
		}
	})
}

// small is a way to a server that refuses bodies over a limit, as proxies do: with a page, not with our JSON.
func small(t *testing.T, to string, limit *atomic.Int64) string {
	target, err := url.Parse(to)
	require.NoError(t, err)
	pass := httputil.NewSingleHostReverseProxy(target)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > limit.Load() {
			_, _ = io.Copy(io.Discard, r.Body)
			http.Error(w, "<html>413 Request Entity Too Large</html>", http.StatusRequestEntityTooLarge)
			return
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return front.URL
}

func TestSmallProxy(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStage(t, db)
		var limit atomic.Int64
		limit.Store(20 << 10)
		o := s.options()
		o.Client = s.client(small(t, s.url, &limit), desktop, wire.PlatformDesktop)
		s.start(o)
		t.Run("a batch that is too large for something in front of the server is cut", func(t *testing.T) {
			id := s.send("say begin\nchunks 100 " + strings.Repeat("x", 900))
			require.Equal(t, trace.TurnCompleted, s.turnEnd(id).Status)
			require.Len(t, s.whole(id), len("begin")+100*900)
		})
		t.Run("an event that is refused for good stands aside, and what comes after it is stored", func(t *testing.T) {
			require.NoError(t, os.WriteFile(s.file("long.txt"), []byte(strings.Repeat("y", 40<<10)), 0o600))
			id := s.send("terminal cat " + s.file("long.txt") + "\nsay after it")
			require.Equal(t, trace.TurnCompleted, s.turnEnd(id).Status)
			s.said("after it")
			await(s.log, func(_ entry, failure trace.Failure) bool { return failure.Code == "event_refused" })
			content, err := os.ReadFile(filepath.Join(s.folder, "refused.jsonl"))
			require.NoError(t, err)
			require.Contains(t, string(content), "yyyyyyyyyy")
		})
	})
}

func TestPauseOutlivesItsExecutor(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStage(t, db)
		first := s.start(s.options())
		s.applied(s.control(wire.ControlPause, nil))
		s.stop(first)
		id := s.send("say when resumed")
		s.start(s.options())
		s.result(id, trace.ControlQueued)
		require.Empty(t, every[trace.TurnStart](s.log))
		s.control(wire.ControlResume, nil)
		require.Equal(t, trace.TurnCompleted, s.turnEnd(id).Status)
	})
}

// TestFailingRunnerRests lets every run of a dispatched session end with an error, right after its begin.
func TestFailingRunnerRests(t *testing.T) {
	t.Parallel()
	s := newStage(t, testkit.New(t, testkit.SQLite))
	var begun atomic.Int64
	broken := errors.New("no recipients today")
	s.serve(1, func(o *run.Options) {
		asked := atomic.Int64{}
		o.Recipients = func(context.Context) ([]string, error) {
			if asked.Add(1) == 1 {
				begun.Add(1)
				return []string{"age1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq"}, nil
			}
			return nil, broken
		}
	})
	s.dispatch(s.session, "say never", wire.ModeSend)
	require.Eventually(t, func() bool { return begun.Load() > 0 }, patience, 10*time.Millisecond)
	<-time.After(4 * time.Second) // the first rest is longer
	require.Equal(t, int64(1), begun.Load())
}

func TestLostLeaseKillsTheAgent(t *testing.T) {
	t.Parallel()
	s := newStage(t, testkit.New(t, testkit.SQLite))
	o := s.options()
	o.StopGrace = 30 * time.Second // it would be asked for so long otherwise
	runner := s.start(o)
	id := s.send("say begin\nhangforever")
	s.said("begin")
	_, err := s.client(s.url, laptop, wire.PlatformCLI).ClaimLease(t.Context(), s.session, sessions.Claim{Force: true})
	require.NoError(t, err)
	taken := time.Now()
	require.ErrorIs(t, s.ended(runner), sessions.ErrLeaseLost)
	require.Less(t, time.Since(taken), 15*time.Second, "SS-CON-3 an agent that ignores every wish is ended at once")
	require.NotEmpty(t, id)
}
