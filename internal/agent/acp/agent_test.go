//go:build unix

package acp_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	acpsdk "github.com/coder/acp-go-sdk"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/internal/agent/acp"
)

func TestPrompt(t *testing.T) {
	t.Parallel()
	t.Run("an agent is started, prompted and stopped", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		agent := start(t, options(t, handler))
		require.Equal(t, "Scripted Agent", agent.Name())
		_, err := agent.Prompt(t.Context(), "too early")
		require.ErrorIs(t, err, acp.ErrNoSession)
		session, err := agent.Open(t.Context(), "")
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(session.ID, "sess-"))
		require.False(t, session.Loaded)
		outcome, err := agent.Prompt(t.Context(), "good morning")
		require.NoError(t, err)
		require.Equal(t, acp.Outcome{StopReason: acpsdk.StopReasonEndTurn}, outcome)
		require.Equal(t, []string{"you said: good morning"}, handler.said())
		require.False(t, agent.Busy())
		require.NoError(t, agent.Err())
		stop(t, agent)
		require.NoError(t, ended(t, agent))
		stop(t, agent)
		_, err = agent.Prompt(t.Context(), "too late")
		require.ErrorIs(t, err, acp.ErrStopped)
		_, err = agent.Open(t.Context(), "")
		require.ErrorIs(t, err, acp.ErrStopped)
	})
	t.Run("every update comes, in order, before the answer", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		play(t, handler, "think hm", "say a", "say b", "tool t1 read Read it", "plan a|b*|c+", "cost 0.5", "say c")
		kinds := []string{}
		for _, u := range handler.all() {
			switch {
			case u.AgentThoughtChunk != nil:
				kinds = append(kinds, "thought")
			case u.AgentMessageChunk != nil:
				kinds = append(kinds, "message "+u.AgentMessageChunk.Content.Text.Text)
			case u.ToolCall != nil:
				kinds = append(kinds, "call "+u.ToolCall.Title)
			case u.ToolCallUpdate != nil:
				kinds = append(kinds, "call "+string(*u.ToolCallUpdate.Status))
			case u.Plan != nil:
				kinds = append(kinds, "plan")
			case u.UsageUpdate != nil:
				kinds = append(kinds, "usage")
			}
		}
		require.Equal(t, []string{
			"thought", "message a", "message b", "call Read it", "call in_progress", "call completed", "plan", "usage", "message c",
		}, kinds)
	})
	t.Run("stop reasons and usage are answered", func(t *testing.T) {
		t.Parallel()
		agent := opened(t, options(t, &recorder{}))
		outcome, err := agent.Prompt(t.Context(), "usage 10 20\nrefuse")
		require.NoError(t, err)
		require.Equal(t, acp.Outcome{StopReason: acpsdk.StopReasonRefusal, Usage: &trace.Usage{PromptTokens: 10, CompletionTokens: 20}}, outcome)
		outcome, err = agent.Prompt(t.Context(), "stop max_tokens")
		require.NoError(t, err)
		require.Equal(t, acpsdk.StopReasonMaxTokens, outcome.StopReason)
		_, err = agent.Prompt(t.Context(), "error out of luck")
		require.EqualError(t, err, "prompt agent: Scripted Agent refused: Internal error: out of luck (code -32603)")
		var refusal *acp.Refusal
		require.ErrorAs(t, err, &refusal)
	})
	t.Run("one prompt at a time", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		agent := opened(t, options(t, handler))
		first := make(chan error, 1)
		go func() {
			_, err := agent.Prompt(t.Context(), "say begun\nhang")
			first <- err
		}()
		eventually(t, "the prompt runs", func() bool { return len(handler.said()) == 1 })
		_, err := agent.Prompt(t.Context(), "second")
		require.ErrorIs(t, err, acp.ErrBusy)
		require.NoError(t, agent.Cancel(t.Context()))
		require.NoError(t, <-first)
		require.NoError(t, agent.Cancel(t.Context()), "nothing runs")
	})
	t.Run("a context that ends cancels the prompt, which holds its place until the agent obeys", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		agent := opened(t, options(t, handler))
		ctx, cancel := context.WithCancel(t.Context())
		handler.onUpdate = func(context.Context, acpsdk.SessionUpdate) { cancel() }
		_, err := agent.Prompt(ctx, "say begun\nhang")
		require.ErrorIs(t, err, context.Canceled)
		eventually(t, "the next prompt is taken", func() bool {
			_, err := agent.Prompt(t.Context(), "again")
			return err == nil
		})
	})
	t.Run("numbers and the order of names in a tool's input stay as they came", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		play(t, handler, `garbage {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"$SESSION","update":`+
			`{"sessionUpdate":"tool_call","toolCallId":"1","title":"t","rawInput":{"z":12345678901234567890,"a":1.0},"rawOutput":[1e400]}}}`)
		require.Equal(t, json.RawMessage(`{"z":12345678901234567890,"a":1.0}`), handler.all()[0].ToolCall.RawInput)
		require.Equal(t, json.RawMessage(`[1e400]`), handler.all()[0].ToolCall.RawOutput)
	})
}

func TestOpen(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"load", "resume"} {
		t.Run("a session is taken up by "+way+", and its replay is not told", func(t *testing.T) {
			t.Parallel()
			kept := t.TempDir()
			first := opened(t, options(t, &recorder{}, way+"="+kept))
			_, err := first.Prompt(t.Context(), "remember me")
			require.NoError(t, err)
			stop(t, first)
			entries, err := os.ReadDir(kept)
			require.NoError(t, err)
			id := entries[0].Name()

			handler := &recorder{}
			second := start(t, options(t, handler, way+"="+kept))
			session, err := second.Open(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, acp.Session{ID: id, Loaded: true}, session)
			require.Empty(t, handler.all())
			_, err = second.Prompt(t.Context(), "more")
			require.NoError(t, err)
			require.Equal(t, []string{"you said: more"}, handler.said())
			session, err = second.Open(t.Context(), "never-heard-of")
			require.NoError(t, err)
			require.False(t, session.Loaded)
			require.NotEqual(t, id, session.ID)
			_, err = second.Prompt(t.Context(), "new")
			require.NoError(t, err)
			require.Equal(t, []string{"you said: more", "you said: new"}, handler.said())
		})
	}
	t.Run("an agent that cannot load gets a new session", func(t *testing.T) {
		t.Parallel()
		agent := start(t, options(t, &recorder{}))
		session, err := agent.Open(t.Context(), "earlier")
		require.NoError(t, err)
		require.False(t, session.Loaded)
	})
	t.Run("updates of other sessions are not told", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		said := play(t, handler, `garbage {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"other","update":`+
			`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"not for you"}}}}`, "say mine")
		require.Equal(t, []string{"mine"}, said)
	})
	t.Run("an update right after the answer to session/new is told", func(t *testing.T) {
		t.Parallel()
		for range 20 {
			handler := &recorder{}
			o := options(t, handler)
			o.Command = script(t, `read line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'
read line; echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}'
echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hello"}}}}'
cat >/dev/null`)
			opened(t, o)
			eventually(t, "the greeting is told", func() bool { return len(handler.said()) == 1 })
		}
	})
	t.Run("no answer in time", func(t *testing.T) {
		t.Parallel()
		o := options(t, &recorder{}, "hangnew")
		o.StartLimit = 3 * time.Second
		agent := start(t, o)
		_, err := agent.Open(t.Context(), "")
		require.ErrorContains(t, err, "Scripted Agent did not answer session/new within 3s")
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
	t.Run("a slow load does not make a second session", func(t *testing.T) {
		t.Parallel()
		kept := t.TempDir()
		write(t, filepath.Join(kept, "old"), "")
		o := options(t, &recorder{}, "load="+kept, "slowload="+filepath.Join(kept, "go"))
		o.StartLimit = 3 * time.Second
		agent := start(t, o)
		_, err := agent.Open(t.Context(), "old")
		require.ErrorContains(t, err, "session/load")
	})
	t.Run("log in first", func(t *testing.T) {
		t.Parallel()
		agent := start(t, options(t, &recorder{}, "auth"))
		_, err := agent.Open(t.Context(), "")
		var auth *acp.AuthError
		require.ErrorAs(t, err, &auth)
		require.Equal(t, &acp.AuthError{Agent: "Scripted Agent", Methods: []string{"Log in with a browser", "Use an API key"}}, auth)
		require.EqualError(t, err, "Scripted Agent asks to be logged in first: start it by itself and log in "+
			"(it offers: Log in with a browser, Use an API key)")
	})
}

// script is a shell script as a command.
func script(t *testing.T, text string) []string {
	t.Helper()
	return []string{"/bin/sh", "-c", text}
}

func TestStart(t *testing.T) {
	t.Parallel()
	refused := func(t *testing.T, change func(*acp.Options), agentOptions ...string) error {
		t.Helper()
		o := options(t, &recorder{}, agentOptions...)
		if change != nil {
			change(&o)
		}
		agent, err := acp.Start(t.Context(), o)
		require.Nil(t, agent)
		require.Error(t, err)
		return err
	}
	t.Run("another version of the protocol", func(t *testing.T) {
		t.Parallel()
		var version *acp.VersionError
		err := refused(t, nil, "version=7")
		require.ErrorAs(t, err, &version)
		require.EqualError(t, err, "Scripted Agent speaks version 7 of the agent client protocol, this program version 1")
	})
	t.Run("an agent that ends at once", func(t *testing.T) {
		t.Parallel()
		var exit *acp.ExitError
		err := refused(t, nil, "die=3")
		require.ErrorAs(t, err, &exit)
		require.Equal(t, 3, exit.State.ExitCode())
	})
	t.Run("what it complained about is said", func(t *testing.T) {
		t.Parallel()
		err := refused(t, func(o *acp.Options) { o.Command = script(t, "echo first >&2; echo no licence >&2; exit 4") })
		require.EqualError(t, err, "agent ended: exit status 4: no licence")
	})
	t.Run("an agent that hangs at initialize", func(t *testing.T) {
		t.Parallel()
		err := refused(t, func(o *acp.Options) { o.StartLimit = 3 * time.Second }, "hang")
		require.ErrorContains(t, err, "did not answer initialize within 3s")
	})
	t.Run("the caller gives up", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := acp.Start(ctx, options(t, &recorder{}, "hang"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
	t.Run("a program that is not there", func(t *testing.T) {
		t.Parallel()
		err := refused(t, func(o *acp.Options) { o.Command = []string{"no-such-agent"} })
		require.ErrorContains(t, err, "start agent no-such-agent")
		require.ErrorContains(t, err, "not found")
	})
	t.Run("a root that is not there, or relative", func(t *testing.T) {
		t.Parallel()
		require.ErrorContains(t, refused(t, func(o *acp.Options) { o.Root += "/missing" }), "open root of agent")
		require.ErrorContains(t, refused(t, func(o *acp.Options) { o.Root = "here" }), "not an absolute path")
		require.ErrorContains(t, refused(t, func(o *acp.Options) { o.Command = nil }), "no command")
		require.ErrorContains(t, refused(t, func(o *acp.Options) { o.Env = nil }), "needs an environment")
	})
	t.Run("a name from the program when the agent has none", func(t *testing.T) {
		t.Parallel()
		o := options(t, &recorder{}, "noinfo")
		require.Equal(t, filepath.Base(o.Command[0]), start(t, o).Name())
	})
	t.Run("the key is not in its environment, nor in its terminals'", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		o := options(t, handler)
		o.Environ = []string{"PATH=" + os.Getenv("PATH"), "CAIRN_API_KEY=codai_secret", "CAIRN_SHARE_TOKEN=t", "OTHER=kept"}
		said := playIn(t, o, handler, "env CAIRN_API_KEY", "env CAIRN_SHARE_TOKEN", "env OTHER", "cwd",
			`terminal echo "[$CAIRN_API_KEY$CAIRN_SHARE_TOKEN$OTHER$FROM_AGENT]"`)
		root, err := filepath.EvalSymlinks(o.Root)
		require.NoError(t, err)
		require.Equal(t, []string{"unset", "unset", "kept", root, "printed: [keptyes]\n", "exit 0"}, said)
	})
}

func TestKeyOfThisProcess(t *testing.T) { //nolint:paralleltest // it changes this process's environment
	t.Setenv("CAIRN_API_KEY", "codai_secret")
	handler := &recorder{}
	require.Equal(t, []string{"unset"}, play(t, handler, "env CAIRN_API_KEY"))
}
