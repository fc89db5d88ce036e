//go:build unix

package acp_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	acpsdk "github.com/coder/acp-go-sdk"
	"github.com/stretchr/testify/require"
)

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
		var once sync.Once
		full, hold := make(chan struct{}), make(chan struct{})
		handler.onStep = func(ctx context.Context) error {
			now := open.Add(1)
			defer open.Add(-1)
			most.Store(max(most.Load(), now))
			if now == 128 {
				once.Do(func() { close(full) })
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
