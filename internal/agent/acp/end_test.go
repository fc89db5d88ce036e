//go:build unix

package acp_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	acpsdk "github.com/coder/acp-go-sdk"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/agent/acp"
)

func TestEnd(t *testing.T) {
	t.Parallel()
	t.Run("an agent that ends by itself", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		o := options(t, handler)
		var noise lockedBuffer
		o.Stderr = &noise
		err := broken(t, o, "say last words", "stderr it hurts", "die 7")
		var exit *acp.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, 7, exit.State.ExitCode())
		require.Equal(t, "it hurts\n", exit.Stderr)
		require.Equal(t, "it hurts\n", noise.String())
		require.EqualError(t, err, "agent ended: exit status 7: it hurts")
		require.Equal(t, []string{"last words"}, handler.said())
	})
	t.Run("even without complaint", func(t *testing.T) {
		t.Parallel()
		require.EqualError(t, broken(t, options(t, &recorder{}), "die 0"), "agent ended: exit status 0")
	})
	t.Run("an agent that is killed", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		err := broken(t, options(t, handler), "spawn kill -9 $PPID", "hang")
		require.EqualError(t, err, "agent ended: signal: killed")
	})
	t.Run("all it said before its end is told, however slowly it is taken", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		hold, pid := make(chan struct{}), filepath.Join(t.TempDir(), "pid")
		handler.onUpdate = func(ctx context.Context, _ acpsdk.SessionUpdate) {
			select {
			case <-hold:
			case <-ctx.Done():
			}
		}
		agent := opened(t, options(t, handler))
		prompted := make(chan error, 1)
		go func() {
			_, err := agent.Prompt(t.Context(), "chunks 300 word\npid "+pid+"\ndie 1")
			prompted <- err
		}()
		eventually(t, "the agent has ended", func() bool {
			number, err := os.ReadFile(pid)
			return err == nil && len(number) > 0 && !running(t, "pid "+string(number))
		})
		require.Empty(t, handler.said())
		eventually(t, "it waits for us", agent.Busy)
		close(hold)
		var exit *acp.ExitError
		require.ErrorAs(t, <-prompted, &exit)
		require.Len(t, handler.said(), 300)
	})
	t.Run("what it left behind does not keep it, nor hold its end", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		err := broken(t, options(t, handler), "spawn exec setsid sh -c 'while sleep 0.05; do echo noise; done'", "wait $ROOT/never-1", "hang",
			"") // the noise is garbage
		var garbage *acp.GarbageError
		require.ErrorAs(t, err, &garbage)
		handler = &recorder{}
		err = broken(t, options(t, handler), "spawn sleep 600", "spawn exec setsid sleep 5", "die 1")
		require.EqualError(t, err, "agent ended: exit status 1")
		eventually(t, "its child is gone", func() bool { return !running(t, handler.said()[0]) })
	})
	t.Run("an agent that closes its output", func(t *testing.T) {
		t.Parallel()
		o := options(t, &recorder{})
		o.StopGrace = 500 * time.Millisecond
		require.EqualError(t, broken(t, o, "say x", "closestdout", "wait $ROOT/never"), "agent ended: signal: killed")
	})
	t.Run("an agent that closes its input", func(t *testing.T) {
		t.Parallel()
		o := options(t, &recorder{})
		o.StopGrace = 500 * time.Millisecond
		o.Command = script(t, `read line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'
read line; exec <&-; echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}'; sleep 600`)
		require.EqualError(t, broken(t, o, "anything"), "agent ended: signal: killed")
	})
	t.Run("an answer right before its end counts", func(t *testing.T) {
		t.Parallel()
		for range 20 {
			o := options(t, &recorder{})
			o.Command = script(t, `read line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'
read line; echo '{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"no key"}}'; exit 1`)
			agent := start(t, o)
			_, err := agent.Open(t.Context(), "")
			require.ErrorContains(t, err, "no key")
			var exit *acp.ExitError
			require.ErrorAs(t, ended(t, agent), &exit)
		}
	})
	t.Run("what is asked in the moment of its end hears why it ended", func(t *testing.T) {
		t.Parallel()
		for range 40 {
			o := options(t, &recorder{})
			o.Command = script(t, `read line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'
read line; echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}'; exit 3`)
			agent := opened(t, o)
			cancelled := make(chan error, 1)
			go func() { cancelled <- agent.Cancel(t.Context()) }()
			var exit *acp.ExitError
			_, err := agent.Prompt(t.Context(), "anybody there?")
			require.ErrorAs(t, err, &exit)
			require.Equal(t, 3, exit.State.ExitCode())
			if err := <-cancelled; err != nil {
				require.ErrorAs(t, err, &exit)
			}
			require.ErrorAs(t, ended(t, agent), &exit)
		}
	})
	t.Run("only the last 4 KiB of stderr are kept", func(t *testing.T) {
		t.Parallel()
		err := broken(t, options(t, &recorder{}), "stderr "+strings.Repeat("a", 5000), "stderr end", "die 1")
		var exit *acp.ExitError
		require.ErrorAs(t, err, &exit)
		require.Len(t, exit.Stderr, 4<<10)
		require.True(t, strings.HasSuffix(exit.Stderr, "a\nend\n"))
	})
}

// running says whether the process that "pid N" names still runs; one that only waits to be collected does not.
func running(t *testing.T, said string) bool {
	t.Helper()
	number, ok := strings.CutPrefix(said, "pid ")
	require.True(t, ok, said)
	pid, err := strconv.Atoi(strings.TrimSpace(number))
	require.NoError(t, err)
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(status), ") Z ")
}

func TestStop(t *testing.T) {
	t.Parallel()
	hanging := func(t *testing.T, script string) (*acp.Agent, *recorder, chan error) {
		t.Helper()
		handler := &recorder{}
		o := options(t, handler)
		o.StopGrace = 500 * time.Millisecond
		agent := opened(t, o)
		prompted := make(chan error, 1)
		go func() {
			_, err := agent.Prompt(t.Context(), script)
			prompted <- err
		}()
		eventually(t, "the agent works", func() bool { return len(handler.said()) > 0 })
		return agent, handler, prompted
	}
	t.Run("an agent that ignores cancel and SIGTERM", func(t *testing.T) {
		t.Parallel()
		agent, _, prompted := hanging(t, "hangforever")
		require.NoError(t, agent.Cancel(t.Context()))
		stop(t, agent)
		require.ErrorIs(t, <-prompted, acp.ErrStopped)
		require.NoError(t, ended(t, agent))
	})
	t.Run("a context that has ended kills at once", func(t *testing.T) {
		t.Parallel()
		agent, _, prompted := hanging(t, "hangforever")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, agent.Stop(ctx))
		require.ErrorIs(t, <-prompted, acp.ErrStopped)
	})
	t.Run("with all that it started", func(t *testing.T) {
		t.Parallel()
		agent, handler, prompted := hanging(t, "background echo pid $$; sleep 600 & echo pid $!; wait\noutput term-1\nhangforever")
		eventually(t, "the terminal runs", func() bool { return strings.Contains(strings.Join(handler.said(), ""), "hanging") })
		require.False(t, agent.Busy(), "what runs in the background is no reason to be silent")
		stop(t, agent)
		require.ErrorIs(t, <-prompted, acp.ErrStopped)
		output, exit, truncated, ok := agent.Terminal("term-1")
		require.True(t, ok)
		require.Nil(t, exit)
		require.False(t, truncated)
		for line := range strings.Lines(output) {
			eventually(t, "it is gone", func() bool { return !running(t, line) })
		}
	})
	t.Run("while updates and questions wait for a handler", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		told := make(chan struct{}, 10)
		handler.onPermission = func(ctx context.Context, _ acpsdk.RequestPermissionRequest) (acpsdk.RequestPermissionResponse, error) {
			told <- struct{}{}
			<-ctx.Done()
			return acpsdk.RequestPermissionResponse{}, ctx.Err()
		}
		handler.onStep = func(ctx context.Context) error {
			told <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
		handler.onUpdate = func(ctx context.Context, update acpsdk.SessionUpdate) {
			if update.AgentMessageChunk.Content.Text.Text == "block" {
				told <- struct{}{}
				<-ctx.Done()
			}
		}
		agent := opened(t, options(t, handler))
		prompted := make(chan error, 1)
		go func() {
			_, err := agent.Prompt(t.Context(), "background sleep 600")
			prompted <- err
		}()
		<-told
		stop(t, agent)
		require.ErrorIs(t, <-prompted, acp.ErrStopped)

		agent = opened(t, options(t, handler))
		go func() {
			_, err := agent.Prompt(t.Context(), "asks 3")
			prompted <- err
		}()
		for range 3 {
			<-told
		}
		stop(t, agent)
		require.ErrorIs(t, <-prompted, acp.ErrStopped)

		agent = opened(t, options(t, handler))
		go func() {
			_, err := agent.Prompt(t.Context(), "say block\nchunks 100000 x")
			prompted <- err
		}()
		<-told
		stop(t, agent)
		require.ErrorIs(t, <-prompted, acp.ErrStopped)
	})
	t.Run("a handler that does not return is said", func(t *testing.T) {
		t.Parallel()
		release := make(chan struct{})
		handler := &recorder{}
		handler.onUpdate = func(context.Context, acpsdk.SessionUpdate) { <-release }
		o := options(t, handler)
		o.StopGrace = 100 * time.Millisecond
		agent := opened(t, o)
		go func() { _, _ = agent.Prompt(context.Background(), "say x") }()
		eventually(t, "the update is told", agent.Busy)
		require.ErrorContains(t, agent.Stop(t.Context()), "handler did not return")
		close(release)
	})
}
