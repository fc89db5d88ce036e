//go:build unix

package acp_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	acpsdk "github.com/coder/acp-go-sdk"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/agent/acp"
)

// broken prompts an agent with a script that ends it, and answers why it ended.
func broken(t *testing.T, o acp.Options, lines ...string) error {
	t.Helper()
	agent := opened(t, o)
	_, err := agent.Prompt(t.Context(), strings.Join(lines, "\n"))
	require.Error(t, err)
	require.Equal(t, err, ended(t, agent))
	_, again := agent.Prompt(t.Context(), "anybody there?")
	require.Equal(t, err, again)
	return err
}

func TestGarbage(t *testing.T) {
	t.Parallel()
	const update = `garbage {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"$SESSION","update":%s}}`
	for name, c := range map[string]struct{ line, reason string }{
		"plain text":                  {"garbage Segmentation fault", "no JSON-RPC message"},
		"half an object":              {`garbage {"jsonrpc":"2.0",`, "no JSON-RPC message"},
		"an array":                    {`garbage [1,2]`, "no JSON-RPC message"},
		"an object of another kind":   {`garbage {"level":"info","msg":"hi"}`, "neither request nor response"},
		"a response without outcome":  {`garbage {"jsonrpc":"2.0","id":1}`, "neither request nor response"},
		"an error of another shape":   {`garbage {"jsonrpc":"2.0","id":3,"error":"boom"}`, "no JSON-RPC message"},
		"a method that is no text":    {`garbage {"jsonrpc":"2.0","method":7}`, "no JSON-RPC message"},
		"an update without kind":      {fmt.Sprintf(update, `{}`), "update without its kind"},
		"an update that is no object": {fmt.Sprintf(update, `[]`), "update without its kind"},
		"no update":                   {`garbage {"jsonrpc":"2.0","method":"session/update"}`, "another shape"},
		"a known update in another shape": {
			fmt.Sprintf(update, `{"sessionUpdate":"agent_message_chunk","content":7}`), "update agent_message_chunk in another shape",
		},
		"a plan in another shape": {fmt.Sprintf(update, `{"sessionUpdate":"plan","entries":"none"}`), "update plan in another shape"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var garbage *acp.GarbageError
			require.ErrorAs(t, broken(t, options(t, &recorder{}), "say a", c.line, "hang"), &garbage)
			require.Contains(t, garbage.Reason, c.reason)
			require.NotEmpty(t, garbage.Line)
			require.LessOrEqual(t, len(garbage.Line), 200)
		})
	}
	t.Run("what is unknown is no garbage", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		said := play(t, handler,
			fmt.Sprintf(update, `{"sessionUpdate":"hologram","content":7}`),
			`garbage {"jsonrpc":"2.0","method":"session/celebrate","params":{}}`,
			`garbage {"jsonrpc":"2.0","method":"_vendor/thing"}`,
			`garbage {"jsonrpc":"2.0","id":"who-asked","result":{}}`,
			"garbage",
			fmt.Sprintf(update, `{"sessionUpdate":"available_commands_update","availableCommands":[]}`),
			"call _vendor/question", "say fine")
		require.Len(t, said, 2)
		require.Contains(t, said[0], "Method not found")
		require.Equal(t, "fine", said[1])
	})
	t.Run("text that is no UTF-8 is made valid", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		o := options(t, handler)
		o.Command = script(t, `read line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'
read line; echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}'
printf '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"1","title":"a\377b","rawInput":"c\377d"}}}\n'
cat >/dev/null`)
		opened(t, o)
		eventually(t, "the call is told", func() bool { return len(handler.all()) == 1 })
		require.Equal(t, "a\uFFFDb", handler.all()[0].ToolCall.Title)
		require.EqualValues(t, "\"c\uFFFDd\"", handler.all()[0].ToolCall.RawInput)
	})
	t.Run("a line of 10 MiB is the longest", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		said := play(t, handler, "longline 10485760", "say after")
		require.Len(t, said, 2)
		require.Greater(t, len(said[0]), 10<<20-400)
		var garbage *acp.GarbageError
		require.ErrorAs(t, broken(t, options(t, &recorder{}), "longline 10485761", "hang"), &garbage)
		require.Contains(t, garbage.Reason, "longer than 10 MiB")
	})
}

func TestGreeting(t *testing.T) {
	t.Parallel()
	t.Run("50 lines before the first answer go to Stderr", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		o := options(t, handler, "banner=50")
		var noise lockedBuffer
		o.Stderr = &noise
		require.Equal(t, []string{"hi"}, playIn(t, o, handler, "say hi"))
		require.Contains(t, noise.String(), "Welcome, line 1\n")
		require.Contains(t, noise.String(), "Welcome, line 50\n")
	})
	t.Run("51 do not", func(t *testing.T) {
		t.Parallel()
		_, err := acp.Start(t.Context(), options(t, &recorder{}, "banner=51"))
		var garbage *acp.GarbageError
		require.ErrorAs(t, err, &garbage)
		require.Equal(t, "Welcome, line 51", garbage.Line)
	})
}

// lockedBuffer is a buffer for several writers.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (b *lockedBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

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
		require.True(t, agent.Busy(), "it waits for us")
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
		require.True(t, agent.Busy())
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

func TestBackPressure(t *testing.T) {
	t.Parallel()
	t.Run("a blocked update stops the agent", func(t *testing.T) {
		t.Parallel()
		progress := filepath.Join(t.TempDir(), "progress")
		written := func() int {
			text, err := os.ReadFile(progress)
			n, _ := strconv.Atoi(string(text))
			if err != nil {
				return -1
			}
			return n
		}
		const chunks = 100_000
		blocked, hold := make(chan struct{}), make(chan struct{})
		var told atomic.Int64
		handler := &counter{onUpdate: func(ctx context.Context, _ acpsdk.SessionUpdate) {
			if told.Add(1) == 1 {
				close(blocked)
				<-hold
			}
		}}
		agent := opened(t, options(t, handler, "progress="+progress))
		before := heap()
		prompted := make(chan error, 1)
		go func() {
			_, err := agent.Prompt(t.Context(), fmt.Sprintf("chunks %d %s", chunks, strings.Repeat("word ", 6)))
			prompted <- err
		}()
		<-blocked
		last, same := -1, 0
		eventually(t, "the agent writes no more", func() bool {
			now := written()
			if now == last && now >= 0 {
				same++
			} else {
				last, same = now, 0
			}
			return same > 100
		})
		// At most two pipes' worth and our buffer, in lines of some 200 bytes.
		require.Less(t, last, 2000)
		require.Less(t, heap()-before, int64(32<<20))
		require.True(t, agent.Busy())
		close(hold)
		require.NoError(t, <-prompted)
		require.EqualValues(t, chunks, told.Load())
		require.Less(t, heap()-before, int64(32<<20))
	})
	t.Run("requests that wait for us are bounded", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		var open, most atomic.Int64
		full, hold := make(chan struct{}), make(chan struct{})
		handler.onStep = func(ctx context.Context) error {
			now := open.Add(1)
			defer open.Add(-1)
			most.Store(max(most.Load(), now))
			if now == 128 {
				close(full)
			}
			select {
			case <-hold:
			case <-ctx.Done():
			}
			return ctx.Err()
		}
		o := options(t, handler)
		write(t, filepath.Join(o.Root, "file"), "text")
		agent := opened(t, o)
		prompted := make(chan error, 1)
		go func() {
			_, err := agent.Prompt(t.Context(), "reads 2000 file")
			prompted <- err
		}()
		<-full
		close(hold)
		require.NoError(t, <-prompted)
		require.Equal(t, []string{"2000 of 2000"}, handler.said())
		require.LessOrEqual(t, most.Load(), int64(128))
	})
	t.Run("an agent that does not listen does not hold its canceller", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		o := options(t, handler)
		o.StopGrace = 500 * time.Millisecond
		o.Command = script(t, `read line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'
read line; echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}'; sleep 600`)
		agent := opened(t, o)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := agent.Prompt(ctx, strings.Repeat("more than a pipe holds ", 1<<15))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, agent.Cancel(ctx), context.DeadlineExceeded)
		stop(t, agent)
	})
}

// counter is a handler that keeps nothing.
type counter struct {
	onUpdate func(ctx context.Context, update acpsdk.SessionUpdate)
}

func (c *counter) Update(ctx context.Context, update acpsdk.SessionUpdate) { c.onUpdate(ctx, update) }

func (c *counter) Permission(context.Context, acpsdk.RequestPermissionRequest) (acpsdk.RequestPermissionResponse, error) {
	return selected("allow"), nil
}

func (c *counter) Step(context.Context) error { return nil }

func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
