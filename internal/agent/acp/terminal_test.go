//go:build unix

package acp_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	acpsdk "github.com/coder/acp-go-sdk"
	"github.com/stretchr/testify/require"
)

func TestTerminal(t *testing.T) {
	t.Parallel()
	t.Run("a command runs, its output and its end are told, also after its release", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		o := options(t, handler)
		agent := opened(t, o)
		require.NoError(t, <-prompting(t, agent, "terminal echo out; echo err >&2; pwd; exit 3"))
		root, err := filepath.EvalSymlinks(o.Root)
		require.NoError(t, err)
		require.Equal(t, []string{"printed: out\nerr\n" + root + "\n", "exit 3"}, handler.said())
		require.Equal(t, "term-1", handler.all()[0].ToolCall.Content[0].Terminal.TerminalId)
		output, exit, truncated, ok := agent.Terminal("term-1")
		require.True(t, ok)
		require.Equal(t, "out\nerr\n"+root+"\n", output)
		require.Equal(t, 3, *exit)
		require.False(t, truncated)
		require.False(t, agent.Busy())
		_, _, _, ok = agent.Terminal("term-2")
		require.False(t, ok)
	})
	t.Run("its input is empty", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		require.Equal(t, []string{"printed: ", "exit 0"}, play(t, handler, "terminal cat"))
	})
	t.Run("killed, it tells the signal, with all it started", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		o := options(t, handler)
		agent := opened(t, o)
		pids := filepath.Join(t.TempDir(), "pids")
		require.NoError(t, <-prompting(t, agent,
			"background sleep 600 & echo ready; echo pid $! > "+pids+".x; mv "+pids+".x "+pids+"; wait",
			"wait "+pids, "kill term-1", "exit term-1"))
		require.Equal(t, []string{"terminal term-1", "printed: ready\n", "signal SIGKILL"}, handler.said())
		eventually(t, "its child is gone", func() bool { return !running(t, read(t, pids)) })
		_, exit, _, ok := agent.Terminal("term-1")
		require.True(t, ok)
		require.Nil(t, exit)
	})
	t.Run("what it leaves behind goes on, until its release", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		agent := opened(t, options(t, handler))
		more := filepath.Join(t.TempDir(), "more")
		require.NoError(t, <-prompting(t, agent,
			"background (until test -e "+more+"; do sleep 0.02; done; echo later; sleep 600) & echo pid $!", "exit term-1"))
		require.Equal(t, "exit 0", handler.said()[2])
		require.False(t, agent.Busy())
		write(t, more, "")
		eventually(t, "it is heard", func() bool {
			output, _, _, _ := agent.Terminal("term-1")
			return strings.HasSuffix(output, "later\n")
		})
		output, _, _, _ := agent.Terminal("term-1")
		pid, _, _ := strings.Cut(output, "\n")
		require.True(t, running(t, pid))
		require.NoError(t, <-prompting(t, agent, "release term-1"))
		eventually(t, "it is gone", func() bool { return !running(t, pid) })
	})
	t.Run("the end of a long output is kept, in whole characters", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		agent := opened(t, options(t, handler))
		require.NoError(t, <-prompting(t, agent, `background yes ääääääääääääääää | head -c 9000001; printf 'end\303'`, "exit term-1"))
		output, exit, truncated, ok := agent.Terminal("term-1")
		require.True(t, ok)
		require.True(t, truncated)
		require.Equal(t, 0, *exit)
		require.LessOrEqual(t, len(output), 1<<20+2)
		require.Greater(t, len(output), 1<<20-8)
		require.True(t, strings.HasPrefix(output, "ä") || strings.HasPrefix(output, "\n"))
		require.True(t, strings.HasSuffix(output, "end\uFFFD"))
		require.NoError(t, <-prompting(t, agent, "release term-1"))
		output, _, truncated, ok = agent.Terminal("term-1")
		require.True(t, ok)
		require.True(t, truncated)
		require.LessOrEqual(t, len(output), 256<<10)
		require.True(t, strings.HasSuffix(output, "end\uFFFD"))
	})
	t.Run("32 at most", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		agent := opened(t, options(t, handler))
		var lines []string
		for range 33 {
			lines = append(lines, "background true")
		}
		require.NoError(t, <-prompting(t, agent, append(lines, "release term-7", "background true", "release term-7")...))
		said := handler.said()
		require.Equal(t, "terminal term-32", said[31])
		require.Contains(t, said[32], "32 terminals are open")
		require.Equal(t, "terminal term-33", said[33])
		require.Contains(t, said[34], `there is no terminal \"term-7\"`)
	})
	t.Run("the last 32 that were released are remembered", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{}
		agent := opened(t, options(t, handler))
		var lines []string
		for i := range 40 {
			lines = append(lines, fmt.Sprintf("background echo %d", i+1), fmt.Sprintf("exit term-%d", i+1), fmt.Sprintf("release term-%d", i+1))
		}
		require.NoError(t, <-prompting(t, agent, lines...))
		_, _, _, ok := agent.Terminal("term-8")
		require.False(t, ok)
		output, _, _, ok := agent.Terminal("term-9")
		require.True(t, ok)
		require.Equal(t, "9\n", output)
	})
}

// created asks for a terminal with the raw parameters and answers what came back.
func created(t *testing.T, root func(string), params string) string {
	t.Helper()
	handler := &recorder{}
	o := options(t, handler)
	if root != nil {
		root(o.Root)
	}
	answer := filepath.Join(t.TempDir(), "answer")
	o.Command = script(t, `read line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'
read line; echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}'
read prompt
echo '{"jsonrpc":"2.0","id":"a","method":"terminal/create","params":`+strings.ReplaceAll(params, "$ROOT", o.Root)+`}'
read -r answer
echo '{"jsonrpc":"2.0","id":"b","method":"terminal/wait_for_exit","params":{"sessionId":"s","terminalId":"term-1"}}'
read -r ended
echo '{"jsonrpc":"2.0","id":"c","method":"terminal/output","params":{"sessionId":"s","terminalId":"term-1"}}'
read -r output; printf '%s\n%s\n%s\n' "$answer" "$ended" "$output" >`+answer+`
echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'; cat >/dev/null`)
	agent := opened(t, o)
	outcome, err := agent.Prompt(t.Context(), "x")
	require.NoError(t, err)
	require.Equal(t, acpsdk.StopReasonEndTurn, outcome.StopReason)
	return read(t, answer)
}

func TestCreate(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	for name, c := range map[string]struct{ params, want string }{
		"a program with arguments":    {`{"sessionId":"s","command":"printf","args":["%s-%s","a b","c"]}`, `"output":"a b-c"`},
		"a whole line":                {`{"sessionId":"s","command":"echo one && echo two | tr a-z A-Z"}`, `"output":"one\\nTWO\\n"`},
		"a line that fails":           {`{"sessionId":"s","command":"no-such-program --help"}`, `"exitCode":127`},
		"a program that is not there": {`{"sessionId":"s","command":"no-such-program"}`, `executable file not found`},
		"no program":                  {`{"sessionId":"s"}`, "command is required"},
		"a folder inside":             {`{"sessionId":"s","command":"pwd","cwd":"$ROOT/sub"}`, `/sub\\n`},
		"a folder outside":            {`{"sessionId":"s","command":"pwd","cwd":"` + outside + `"}`, "is outside of"},
		"a folder up":                 {`{"sessionId":"s","command":"pwd","cwd":"$ROOT/.."}`, "escapes"},
		"a relative folder":           {`{"sessionId":"s","command":"pwd","cwd":"sub"}`, "is not absolute"},
		"a link that leads out":       {`{"sessionId":"s","command":"pwd","cwd":"$ROOT/leak"}`, "escapes"},
		"a folder that is none":       {`{"sessionId":"s","command":"pwd","cwd":"$ROOT/file"}`, "it is no folder"},
		"a folder that is missing":    {`{"sessionId":"s","command":"pwd","cwd":"$ROOT/missing"}`, "no such file"},
		"a variable":                  {`{"sessionId":"s","command":"echo $MINE","env":[{"name":"MINE","value":"x=y"}]}`, `"output":"x=y\\n"`},
		"a name that is none":         {`{"sessionId":"s","command":"pwd","env":[{"name":"A=B","value":"x"}]}`, "is no variable"},
		"a limit":                     {`{"sessionId":"s","command":"echo 12345678ä9","outputByteLimit":4}`, `"output":"ä9\\n","truncated":true`},
		"a limit in a character":      {`{"sessionId":"s","command":"echo 12345678ä9","outputByteLimit":3}`, `"output":"9\\n","truncated":true`},
		"a limit of nothing":          {`{"sessionId":"s","command":"echo all","outputByteLimit":0}`, `"output":"all\\n","truncated":false`},
		"parameters of another shape": {`{"command":[]}`, "Invalid params"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := created(t, func(root string) {
				require.NoError(t, os.Mkdir(filepath.Join(root, "sub"), 0o750))
				write(t, filepath.Join(root, "file"), "")
				require.NoError(t, os.Symlink(outside, filepath.Join(root, "leak")))
			}, c.params)
			require.Contains(t, got, strings.ReplaceAll(c.want, `\\`, `\`))
		})
	}
}
