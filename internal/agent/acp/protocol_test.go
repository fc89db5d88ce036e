//go:build unix

package acp_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

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
