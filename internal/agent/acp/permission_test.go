//go:build unix

package acp_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	acpsdk "github.com/coder/acp-go-sdk"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/agent/acp"
)

// question is a permission request that waits for a test.
type question struct {
	ctx    context.Context
	ask    acpsdk.RequestPermissionRequest
	answer chan<- string
}

// asking makes a handler hand its questions to the test.
func asking(handler *recorder) <-chan question {
	questions := make(chan question, 16)
	handler.onPermission = func(ctx context.Context, ask acpsdk.RequestPermissionRequest) (acpsdk.RequestPermissionResponse, error) {
		answer := make(chan string, 1)
		questions <- question{ctx, ask, answer}
		select {
		case option := <-answer:
			return selected(option), nil
		case <-ctx.Done():
			return acpsdk.RequestPermissionResponse{}, ctx.Err()
		}
	}
	return questions
}

// prompting prompts in the background.
func prompting(t *testing.T, agent *acp.Agent, lines ...string) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		outcome, err := agent.Prompt(t.Context(), strings.Join(lines, "\n"))
		if err == nil && outcome.StopReason != acpsdk.StopReasonEndTurn {
			err = errors.New(string(outcome.StopReason))
		}
		done <- err
	}()
	return done
}

func TestPermission(t *testing.T) {
	t.Parallel()
	t.Run("silence counts from the answer, not from the question", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		questions := asking(handler)
		agent := opened(t, options(t, handler))
		done := prompting(t, agent, "asks 2") // it says nothing until it has both answers
		first, second := <-questions, <-questions
		answered := time.Now()
		first.answer <- "allow"
		eventually(t, "the answer counts as activity", func() bool { return agent.Activity().After(answered) })
		second.answer <- "allow"
		require.NoError(t, <-done)
	})
	t.Run("an option is answered", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		questions := asking(handler)
		agent := opened(t, options(t, handler))
		done := prompting(t, agent, "ask t1 Delete everything [yes:allow_once,no:reject_once]")
		asked := <-questions
		require.Equal(t, "Delete everything", *asked.ask.ToolCall.Title)
		require.Equal(t, acpsdk.ToolCallId("t1"), asked.ask.ToolCall.ToolCallId)
		require.JSONEq(t, `{"command":"run t1"}`, string(asked.ask.ToolCall.RawInput.(json.RawMessage)))
		require.Equal(t, []acpsdk.PermissionOption{
			{OptionId: "yes", Name: "Option yes", Kind: acpsdk.PermissionOptionKindAllowOnce},
			{OptionId: "no", Name: "Option no", Kind: acpsdk.PermissionOptionKindRejectOnce},
		}, asked.ask.Options)
		require.True(t, agent.Busy())
		asked.answer <- "no"
		require.NoError(t, <-done)
		require.Equal(t, []string{"no"}, handler.said())
		require.Error(t, asked.ctx.Err(), "its context ends with it")
	})
	t.Run("five at once, answered in another order", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		questions := asking(handler)
		agent := opened(t, options(t, handler))
		done := prompting(t, agent, "asks 5")
		open := map[string]question{}
		for range 5 {
			asked := <-questions
			open[string(asked.ask.ToolCall.ToolCallId)] = asked
		}
		for id, option := range map[string]string{"t4": "allow", "t1": "reject", "t5": "always", "t2": "allow", "t3": "reject"} {
			open[id].answer <- option
		}
		require.NoError(t, <-done)
		require.Equal(t, []string{"1:reject 2:allow 3:reject 4:allow 5:always"}, handler.said())
	})
	t.Run("cancel ends the open ones as cancelled, and those that come late", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		questions := asking(handler)
		agent := opened(t, options(t, handler))
		done := prompting(t, agent, "asks 3")
		var open []question
		for range 3 {
			open = append(open, <-questions)
		}
		require.NoError(t, agent.Cancel(t.Context()))
		require.EqualError(t, <-done, "cancelled")
		require.Equal(t, []string{"1:cancelled 2:cancelled 3:cancelled"}, handler.said())
		for _, asked := range open {
			require.Error(t, asked.ctx.Err())
			asked.answer <- "too late"
		}
		done = prompting(t, agent, "ask t9 Again")
		(<-questions).answer <- "allow"
		require.NoError(t, <-done)
		require.Equal(t, "allow", handler.said()[1], "the next prompt asks as ever")
	})
	t.Run("one that is asked after the cancel is never shown", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		questions := asking(handler)
		o := options(t, handler)
		seen := filepath.Join(t.TempDir(), "cancelled")
		o.Command = script(t, `read line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'
read line; echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}'
read prompt; read cancel
echo '{"jsonrpc":"2.0","id":"late","method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"1"},"options":[]}}'
while read answer; do case "$answer" in *late*) break;; esac; done # it may be cancelled more than once
echo "$answer" >`+seen+`
echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"cancelled"}}'; cat >/dev/null`)
		agent := opened(t, o)
		done := prompting(t, agent, "x")
		eventually(t, "it is cancelled", func() bool {
			require.NoError(t, agent.Cancel(t.Context()))
			select {
			case err := <-done:
				require.EqualError(t, err, "cancelled")
				return true
			default:
				return false
			}
		})
		require.Empty(t, questions)
		require.JSONEq(t, `{"jsonrpc":"2.0","id":"late","result":{"outcome":{"outcome":"cancelled"}}}`, read(t, seen))
	})
	t.Run("the agent withdraws one", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		questions := asking(handler)
		agent := opened(t, options(t, handler))
		file := filepath.Join(t.TempDir(), "enough")
		done := prompting(t, agent, "askuntil "+file+" t1 May I")
		asked := <-questions
		write(t, file, "")
		<-asked.ctx.Done()
		require.NoError(t, <-done)
		require.Equal(t, []string{"withdrawn"}, handler.said())
	})
	t.Run("the agent ends", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		questions := asking(handler)
		agent := opened(t, options(t, handler))
		done := prompting(t, agent, "spawn sleep 0.2; kill -9 $PPID", "ask t1 May I")
		asked := <-questions
		<-asked.ctx.Done()
		var exit *acp.ExitError
		require.ErrorAs(t, <-done, &exit)
	})
	t.Run("a handler that refuses to answer", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{onPermission: func(context.Context, acpsdk.RequestPermissionRequest) (acpsdk.RequestPermissionResponse, error) {
			return acpsdk.RequestPermissionResponse{}, errors.New("nobody is here")
		}}
		agent := opened(t, options(t, handler))
		require.ErrorContains(t, <-prompting(t, agent, "ask t1 May I"), "nobody is here")
	})
}
