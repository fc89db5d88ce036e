//go:build unix

package acp_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	acpsdk "github.com/coder/acp-go-sdk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/cairnsync/cairn/internal/agent/acp"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/testkit/acpagent"
)

func TestMain(m *testing.M) {
	acpagent.Main()
	goleak.VerifyTestMain(m)
}

// patience bounds every wait of these tests.
const patience = 60 * time.Second

// recorder is a handler that keeps what it is told. Its hooks may be nil.
type recorder struct {
	onUpdate     func(ctx context.Context, update acpsdk.SessionUpdate)
	onPermission func(ctx context.Context, ask acpsdk.RequestPermissionRequest) (acpsdk.RequestPermissionResponse, error)
	onStep       func(ctx context.Context) error

	mu      sync.Mutex // guards what follows
	updates []acpsdk.SessionUpdate
	steps   int
}

func (r *recorder) Update(ctx context.Context, update acpsdk.SessionUpdate) {
	if r.onUpdate != nil {
		r.onUpdate(ctx, update)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.updates = append(r.updates, update)
}

func (r *recorder) Permission(ctx context.Context, ask acpsdk.RequestPermissionRequest) (acpsdk.RequestPermissionResponse, error) {
	if r.onPermission != nil {
		return r.onPermission(ctx, ask)
	}
	return selected("allow"), nil
}

func (r *recorder) Step(ctx context.Context) error {
	r.mu.Lock()
	r.steps++
	r.mu.Unlock()
	if r.onStep != nil {
		return r.onStep(ctx)
	}
	return nil
}

// said is the text of every message chunk so far.
func (r *recorder) said() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var texts []string
	for _, update := range r.updates {
		if chunk := update.AgentMessageChunk; chunk != nil {
			texts = append(texts, chunk.Content.Text.Text)
		}
	}
	return texts
}

func (r *recorder) all() []acpsdk.SessionUpdate {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]acpsdk.SessionUpdate{}, r.updates...)
}

func selected(option string) acpsdk.RequestPermissionResponse {
	return acpsdk.RequestPermissionResponse{Outcome: acpsdk.NewRequestPermissionOutcomeSelected(acpsdk.PermissionOptionId(option))}
}

// options for an agent with a handler in a new folder.
func options(t *testing.T, handler acp.Handler, agentOptions ...string) acp.Options {
	t.Helper()
	return acp.Options{
		Command: acpagent.Command(t, agentOptions...), Root: t.TempDir(), Env: env.Real(), Log: slog.New(slog.DiscardHandler),
		StartLimit: patience, StopGrace: patience, Handler: handler,
	}
}

func start(t *testing.T, o acp.Options) *acp.Agent {
	t.Helper()
	agent, err := acp.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { stop(t, agent) })
	return agent
}

func stop(t *testing.T, agent *acp.Agent) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(t, agent.Stop(ctx))
}

// opened is a started agent with a session.
func opened(t *testing.T, o acp.Options) *acp.Agent {
	t.Helper()
	agent := start(t, o)
	_, err := agent.Open(t.Context(), "")
	require.NoError(t, err)
	return agent
}

// play prompts an agent of its own and answers what it said.
func play(t *testing.T, handler *recorder, lines ...string) []string {
	t.Helper()
	return playIn(t, options(t, handler), handler, lines...)
}

func playIn(t *testing.T, o acp.Options, handler *recorder, lines ...string) []string {
	t.Helper()
	agent := opened(t, o)
	outcome, err := agent.Prompt(t.Context(), strings.Join(lines, "\n"))
	require.NoError(t, err)
	require.Equal(t, acpsdk.StopReasonEndTurn, outcome.StopReason)
	return handler.said()
}

// ended waits for the end of an agent.
func ended(t *testing.T, agent *acp.Agent) error {
	t.Helper()
	select {
	case <-agent.Done():
		return agent.Err()
	case <-time.After(patience):
		t.Fatal("the agent did not end")
		return nil
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, patience, 5*time.Millisecond, what)
}
