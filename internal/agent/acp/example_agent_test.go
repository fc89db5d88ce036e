//go:build unix

package acp_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"

	acpsdk "github.com/coder/acp-go-sdk"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/internal/agent/translate"
)

// The SDK's own example is an agent that nobody here wrote.
func TestExampleAgent(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "example")
	built, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/coder/acp-go-sdk/example/agent").CombinedOutput()
	require.NoError(t, err, string(built))
	handler := &recorder{}
	questions := asking(handler)
	o := options(t, handler)
	o.Command = []string{program}
	agent := start(t, o)
	require.Equal(t, "example", agent.Name())
	session, err := agent.Open(t.Context(), "earlier")
	require.NoError(t, err)
	require.False(t, session.Loaded)
	type ending struct {
		reason acpsdk.StopReason
		err    error
	}
	done := make(chan ending, 1)
	go func() {
		outcome, err := agent.Prompt(context.Background(), "Improve my project")
		done <- ending{outcome.StopReason, err}
	}()
	asked := <-questions
	require.Equal(t, "Modifying critical configuration file", *asked.ask.ToolCall.Title)
	asked.answer <- "allow"
	require.Equal(t, ending{reason: acpsdk.StopReasonEndTurn}, <-done)

	translator := translate.New(agent.Terminal)
	var kinds []string
	for _, update := range handler.all() {
		for _, payload := range translator.Update(update) {
			kinds = append(kinds, payload.Kind())
		}
	}
	for _, payload := range translator.Close(trace.ToolCancelled) {
		kinds = append(kinds, payload.Kind())
	}
	require.Equal(t, []string{
		"step_start", "assistant", "tool_start", "tool_call", "tool_result",
		"step_start", "assistant", "tool_start", "tool_call", "tool_result",
		"step_start", "assistant",
	}, kinds)
}
