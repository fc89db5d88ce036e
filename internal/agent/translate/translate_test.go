package translate_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	acpsdk "github.com/coder/acp-go-sdk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/internal/agent/translate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lines are payloads as "kind {json}".
func lines(t *testing.T, said []trace.Payload) []string {
	t.Helper()
	written := []string{}
	for _, payload := range said {
		event, err := trace.New("", payload)
		require.NoError(t, err)
		written = append(written, event.Kind+" "+string(event.Payload))
	}
	return written
}

// run translates updates, written as the protocol writes them, and then closes.
func run(t *testing.T, translator *translate.Translator, updates ...string) []string {
	t.Helper()
	var said []trace.Payload
	for _, raw := range updates {
		said = append(said, translator.Update(update(t, raw))...)
	}
	return lines(t, append(said, translator.Close(trace.ToolCancelled)...))
}

func update(t *testing.T, raw string) acpsdk.SessionUpdate {
	t.Helper()
	var u acpsdk.SessionUpdate
	require.NoError(t, json.Unmarshal([]byte(raw), &u), raw)
	return u
}

func message(text string) string { return chunk("agent_message_chunk", textBlock(text), "") }
func thought(text string) string { return chunk("agent_thought_chunk", textBlock(text), "") }

func textBlock(text string) string {
	quoted, _ := json.Marshal(text)
	return `{"type":"text","text":` + string(quoted) + `}`
}

func chunk(variant, block, id string) string {
	return `{"sessionUpdate":"` + variant + `","content":` + block + id + `}`
}

// known knows one terminal.
func known(id string) (string, *int, bool, bool) {
	if id != "term-1" {
		return "", nil, false, false
	}
	exit := 2
	return "printed\n", &exit, true, true
}

func TestUpdates(t *testing.T) {
	t.Parallel()
	const (
		start    = `{"sessionUpdate":"tool_call","toolCallId":"1","title":"Read it","kind":"read","status":"pending"}`
		done     = `{"sessionUpdate":"tool_call_update","toolCallId":"1","status":"completed"}`
		step1    = `step_start {"step":1}`
		started1 = `tool_start {"tool_call_id":"1","name":"read","title":"Read it","tool_kind":"read"}`
		noArgs   = `tool_call {"tool_call_id":"1","name":"read","args":{}}`
	)
	cases := []struct {
		name    string
		updates []string
		want    []string
	}{
		{"nothing", nil, []string{}},
		{"chunks are one message", []string{message("a"), message("b")}, []string{step1, `assistant {"text":"ab","final":true}`}},
		{"thoughts and messages are apart", []string{thought("hm"), message("a"), thought("so")}, []string{
			step1, `assistant {"text":"hm","thought":true,"final":true}`, `assistant {"text":"a","final":true}`,
			`assistant {"text":"so","thought":true,"final":true}`,
		}},
		{"messages with ids are apart", []string{
			chunk("agent_message_chunk", textBlock("a"), `,"messageId":"1"`), chunk("agent_message_chunk", textBlock("b"), `,"messageId":"1"`),
			chunk("agent_message_chunk", textBlock("c"), `,"messageId":"2"`),
		}, []string{step1, `assistant {"text":"ab","final":true}`, `assistant {"text":"c","final":true}`}},
		{"an empty chunk is nothing", []string{message("")}, []string{}},
		{"the user's words are known already", []string{chunk("user_message_chunk", textBlock("a"), "")}, []string{}},
		{"other blocks become text", []string{
			chunk("agent_message_chunk", `{"type":"image","mimeType":"image/png","data":"`+strings.Repeat("A", 16000)+`"}`, ""),
			chunk("agent_message_chunk", `{"type":"audio","mimeType":"audio/wav","data":"AAAA"}`, ""),
			chunk("agent_message_chunk", `{"type":"resource_link","name":"Notes","uri":"file:///n.md"}`, ""),
			chunk("agent_message_chunk", `{"type":"resource","resource":{"uri":"file:///x","text":"content"}}`, ""),
			chunk("agent_message_chunk", `{"type":"resource","resource":{"uri":"file:///y","blob":"`+strings.Repeat("A", 4000000)+`"}}`, ""),
		}, []string{step1, `assistant {"text":"[image image/png, 12 kB][audio audio/wav, 3 bytes][Notes](file:///n.md)` +
			`[file:///x]\ncontent[file:///y, 3.0 MB]","final":true}`}},
		{"a tool call", []string{
			start, `{"sessionUpdate":"tool_call_update","toolCallId":"1","status":"in_progress","rawInput":{"path":"/a"}}`,
			`{"sessionUpdate":"tool_call_update","toolCallId":"1","status":"completed","content":[{"type":"content","content":{"type":"text","text":"x"}}]}`,
		}, []string{
			step1, started1, `tool_call {"tool_call_id":"1","name":"read","args":{"path":"/a"}}`,
			`tool_result {"tool_call_id":"1","status":"ok","content":[{"type":"text","text":"x"}]}`,
		}},
		{"a tool call that never tells its arguments", []string{start, done}, []string{
			step1, started1, noArgs, `tool_result {"tool_call_id":"1","status":"ok","content":[]}`,
		}},
		{"empty arguments wait for better ones", []string{
			`{"sessionUpdate":"tool_call","toolCallId":"1","title":"Read it","kind":"read","rawInput":{}}`,
			`{"sessionUpdate":"tool_call_update","toolCallId":"1","rawInput":{"a":1}}`,
			`{"sessionUpdate":"tool_call_update","toolCallId":"1","rawInput":{"a":2}}`, done,
		}, []string{step1, started1, `tool_call {"tool_call_id":"1","name":"read","args":{"a":1}}`, `tool_result {"tool_call_id":"1","status":"ok","content":[]}`}},
		{"content is kept until the end, the last one counts", []string{
			`{"sessionUpdate":"tool_call","toolCallId":"1","title":"Read it","kind":"read","content":[{"type":"content","content":{"type":"text","text":"old"}}]}`,
			`{"sessionUpdate":"tool_call_update","toolCallId":"1","content":[{"type":"content","content":{"type":"text","text":"new"}}]}`,
			`{"sessionUpdate":"tool_call_update","toolCallId":"1","status":"failed"}`,
		}, []string{step1, started1, noArgs, `tool_result {"tool_call_id":"1","status":"error","content":[{"type":"text","text":"new"}]}`}},
		{"a call that is complete at once", []string{
			`{"sessionUpdate":"tool_call","toolCallId":"1","title":"Read it","kind":"read","status":"completed","rawInput":"x","rawOutput":"y"}`,
		}, []string{
			step1, started1, `tool_call {"tool_call_id":"1","name":"read","args":"x"}`,
			`tool_result {"tool_call_id":"1","status":"ok","content":[{"type":"text","text":"y"}]}`,
		}},
		{"a result after the result is nothing", []string{start, done, done}, []string{
			step1, started1, noArgs, `tool_result {"tool_call_id":"1","status":"ok","content":[]}`,
		}},
		{"an id that is used again is another call", []string{start, done, start, done}, []string{
			step1, started1, noArgs, `tool_result {"tool_call_id":"1","status":"ok","content":[]}`,
			`step_start {"step":2}`, strings.Replace(started1, `"1"`, `"1~2"`, 1), strings.Replace(noArgs, `"1"`, `"1~2"`, 1),
			`tool_result {"tool_call_id":"1~2","status":"ok","content":[]}`,
		}},
		{"an update of a call that was not announced", []string{
			`{"sessionUpdate":"tool_call_update","toolCallId":"9","title":"Odd","status":"completed"}`,
		}, []string{
			step1, `tool_start {"tool_call_id":"9","name":"Odd","title":"Odd"}`, `tool_call {"tool_call_id":"9","name":"Odd","args":{}}`,
			`tool_result {"tool_call_id":"9","status":"ok","content":[]}`,
		}},
		{"Claude's name of the tool", []string{
			`{"sessionUpdate":"tool_call","toolCallId":"1","title":"ls","kind":"execute","_meta":{"claudeCode":{"toolName":"Bash"}}}`,
		}, []string{
			step1, `tool_start {"tool_call_id":"1","name":"Bash","title":"ls","tool_kind":"execute"}`,
			`tool_call {"tool_call_id":"1","name":"Bash","args":{}}`, `tool_result {"tool_call_id":"1","status":"cancelled","content":[]}`,
		}},
		{"a call between messages", []string{message("a"), start, message("b"), done, message("c")}, []string{
			step1, `assistant {"text":"a","final":true}`, started1, `assistant {"text":"b","final":true}`, noArgs,
			`tool_result {"tool_call_id":"1","status":"ok","content":[]}`, `step_start {"step":2}`, `assistant {"text":"c","final":true}`,
		}},
		{"calls that are open get a result, oldest first", []string{
			start, `{"sessionUpdate":"tool_call","toolCallId":"2","title":"t"}`,
		}, []string{
			step1, started1, `tool_start {"tool_call_id":"2","name":"t","title":"t"}`, noArgs,
			`tool_result {"tool_call_id":"1","status":"cancelled","content":[]}`, `tool_call {"tool_call_id":"2","name":"t","args":{}}`,
			`tool_result {"tool_call_id":"2","status":"cancelled","content":[]}`,
		}},
		{"diffs and terminals", []string{
			`{"sessionUpdate":"tool_call","toolCallId":"1","title":"Read it","kind":"read","status":"completed","content":[` +
				`{"type":"diff","path":"/a","oldText":"o","newText":"n"},{"type":"diff","path":"/b","newText":"n"},` +
				`{"type":"terminal","terminalId":"term-1"},{"type":"terminal","terminalId":"term-9"}],"rawOutput":"not shown"}`,
		}, []string{
			step1, started1, noArgs, `tool_result {"tool_call_id":"1","status":"ok","content":[{"type":"diff","path":"/a","old_text":"o","new_text":"n"},` +
				`{"type":"diff","path":"/b","old_text":null,"new_text":"n"},{"type":"terminal","text":"printed\n","exit_code":2},` +
				`{"type":"text","text":"[terminal term-9]"}],"truncated":true}`,
		}},
		{"a plan, once while it stays the same", []string{
			`{"sessionUpdate":"plan","entries":[{"content":"a","priority":"high","status":"completed"},{"content":"b","priority":"low","status":"in_progress"},{"content":"c","status":"pending"}]}`,
			`{"sessionUpdate":"plan","entries":[{"content":"a","priority":"low","status":"completed"},{"content":"b","priority":"low","status":"in_progress"},{"content":"c","status":"pending"}]}`,
			`{"sessionUpdate":"plan","entries":[]}`,
		}, []string{
			`todos {"items":[{"id":"1","title":"a","status":"completed"},{"id":"2","title":"b","status":"in-progress"},` +
				`{"id":"3","title":"c","status":"not-started"}],"source":"tool","done":1,"total":3}`,
			`todos {"items":[],"source":"tool","done":0,"total":0}`,
		}},
		{"the cost of the session grows", []string{
			`{"sessionUpdate":"usage_update","size":9,"used":1,"cost":{"amount":0.25,"currency":"USD"}}`,
			`{"sessionUpdate":"usage_update","size":9,"used":2,"cost":{"amount":0.25,"currency":"USD"}}`,
			`{"sessionUpdate":"usage_update","size":9,"used":3}`,
			`{"sessionUpdate":"usage_update","size":9,"used":3,"cost":{"amount":1,"currency":"EUR"}}`,
			`{"sessionUpdate":"usage_update","size":9,"used":4,"cost":{"amount":0.75,"currency":"usd"}}`,
			`{"sessionUpdate":"usage_update","size":9,"used":4,"cost":{"amount":0.1,"currency":"usd"}}`,
		}, []string{
			`usage {"prompt_tokens":0,"completion_tokens":0,"cost_micro_usd":250000}`,
			`usage {"prompt_tokens":0,"completion_tokens":0,"cost_micro_usd":500000}`,
			`usage {"prompt_tokens":0,"completion_tokens":0,"cost_micro_usd":100000}`,
		}},
		{"modes, commands and titles are no rows", []string{
			`{"sessionUpdate":"current_mode_update","currentModeId":"m"}`, `{"sessionUpdate":"available_commands_update","availableCommands":[]}`,
			`{"sessionUpdate":"session_info_update","title":"t"}`,
		}, []string{}},
	}
	for _, c := range cases {
		t.Run("SS-TRC-1 "+c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, run(t, translate.New(known), c.updates...))
		})
	}
}

func TestPieces(t *testing.T) {
	t.Parallel()
	t.Run("flushed pieces append, the last is final", func(t *testing.T) {
		t.Parallel()
		translator := translate.New(nil)
		require.False(t, translator.Pending())
		require.Equal(t, []string{`step_start {"step":1}`}, lines(t, translator.Update(update(t, message("a")))))
		require.True(t, translator.Pending())
		require.Equal(t, []string{`assistant {"text":"a","final":false}`}, lines(t, translator.Flush()))
		require.False(t, translator.Pending())
		require.Empty(t, translator.Flush())
		require.Empty(t, translator.Update(update(t, message("b"))))
		require.Equal(t, []string{`assistant {"text":"b","final":false}`}, lines(t, translator.Flush()))
		require.Equal(t, []string{`assistant {"text":"","final":true}`}, lines(t, translator.Close(trace.ToolCancelled)))
		require.Empty(t, translator.Close(trace.ToolCancelled))
	})
	t.Run("a long piece goes out at 16 KiB, in whole characters", func(t *testing.T) {
		t.Parallel()
		translator := translate.New(nil)
		text := strings.Repeat("ä€x", 20_000)
		said := translator.Update(update(t, message(text)))
		require.False(t, translator.Pending())
		got := ""
		for _, payload := range said[1:] {
			piece := payload.(trace.Assistant)
			require.LessOrEqual(t, len(piece.Text), translate.MaxPiece)
			require.False(t, piece.Final)
			got += piece.Text
		}
		require.Equal(t, text, got)
	})
	t.Run("each turn counts its steps anew, over all its prompts", func(t *testing.T) {
		t.Parallel()
		translator := translate.New(nil)
		step := func(n string) []string {
			return []string{`step_start {"step":` + n + `}`, `assistant {"text":"a","final":true}`}
		}
		require.Equal(t, step("1"), run(t, translator, message("a")))
		require.Equal(t, step("2"), run(t, translator, message("a")))
		translator.Begin()
		require.Equal(t, step("1"), run(t, translator, message("a")))
	})
	t.Run("a call that was denied ends at once, and what comes of it later is nothing", func(t *testing.T) {
		t.Parallel()
		translator := translate.New(nil)
		translator.Update(update(t, `{"sessionUpdate":"tool_call","toolCallId":"1","title":"t","rawInput":1.5}`))
		require.Equal(t, []string{
			`tool_result {"tool_call_id":"1","status":"cancelled","content":[{"type":"text","text":"it was denied"}]}`,
		}, lines(t, translator.Deny("1")))
		require.Empty(t, translator.Deny("1"))
		require.Empty(t, translator.Update(update(t, `{"sessionUpdate":"tool_call_update","toolCallId":"1","status":"failed"}`)))
		require.Empty(t, translator.Close(trace.ToolCancelled))
	})
	t.Run("a failed turn closes its calls as errors", func(t *testing.T) {
		t.Parallel()
		translator := translate.New(nil)
		said := translator.Update(update(t, `{"sessionUpdate":"tool_call","toolCallId":"1","title":"t","rawInput":1.5}`))
		require.Equal(t, `tool_call {"tool_call_id":"1","name":"t","args":1.5}`, lines(t, said)[2])
		require.Equal(t, []string{
			`tool_result {"tool_call_id":"1","status":"error","content":[{"type":"text","text":"the turn ended before the tool did"}]}`,
		}, lines(t, translator.Close(trace.ToolError)))
	})
	t.Run("a plan of more than 50 items", func(t *testing.T) {
		t.Parallel()
		entry := `{"content":"` + strings.Repeat("x", 1000) + `","status":"pending"}`
		said := translate.New(nil).Update(update(t, `{"sessionUpdate":"plan","entries":[`+strings.Repeat(entry+",", 59)+entry+`]}`))
		list := said[0].(trace.Todos)
		require.Len(t, list.Items, 50)
		require.LessOrEqual(t, len(list.Items[0].Title), 510)
	})
}

func TestBounds(t *testing.T) {
	t.Parallel()
	result := func(t *testing.T, content string) trace.ToolResult {
		t.Helper()
		said := translate.New(func(string) (string, *int, bool, bool) {
			return strings.Repeat("0123456789", 100_000) + "end", nil, false, true
		}).Update(update(t, `{"sessionUpdate":"tool_call","toolCallId":"1","title":"t","status":"completed",`+content+`}`))
		return said[len(said)-1].(trace.ToolResult)
	}
	size := func(result trace.ToolResult) int {
		n := 0
		for _, c := range result.Content {
			n += len(c.Raw)
		}
		return n
	}
	long := strings.Repeat("ä", 400_000)
	const slack = 8 << 10
	t.Run("text", func(t *testing.T) {
		t.Parallel()
		got := result(t, `"content":[{"type":"content","content":`+textBlock(long)+`},{"type":"content","content":`+textBlock("more")+`}]`)
		require.True(t, got.Truncated)
		require.Len(t, got.Content, 1)
		require.LessOrEqual(t, size(got), translate.MaxResult+slack)
		require.True(t, strings.HasPrefix(long, got.Content[0].Text()))
	})
	t.Run("a diff", func(t *testing.T) {
		t.Parallel()
		got := result(t, `"content":[{"type":"diff","path":"/a","oldText":"`+long+`","newText":"`+long+`"}]`)
		require.True(t, got.Truncated)
		require.LessOrEqual(t, size(got), translate.MaxResult+slack)
	})
	t.Run("the end of a terminal", func(t *testing.T) {
		t.Parallel()
		got := result(t, `"content":[{"type":"terminal","terminalId":"a"},{"type":"terminal","terminalId":"b"}]`)
		require.True(t, got.Truncated)
		require.LessOrEqual(t, size(got), translate.MaxResult+slack)
		require.True(t, strings.HasSuffix(got.Content[0].Text(), "789end"))
	})
	t.Run("many parts", func(t *testing.T) {
		t.Parallel()
		part := `{"type":"content","content":{"type":"text","text":""}}`
		got := result(t, `"content":[`+strings.Repeat(part+",", 9999)+part+`]`)
		require.True(t, got.Truncated)
		require.LessOrEqual(t, size(got), translate.MaxResult+slack)
	})
	t.Run("raw output", func(t *testing.T) {
		t.Parallel()
		got := result(t, `"rawOutput":{"a":"`+long+`"}`)
		require.True(t, got.Truncated)
		require.LessOrEqual(t, size(got), translate.MaxResult+slack)
		require.Equal(t, `{"a":[1]}`, result(t, `"rawOutput":{"a":[1]}`).Content[0].Text())
	})
	t.Run("arguments that are too large or too deep become text", func(t *testing.T) {
		t.Parallel()
		for _, input := range []string{`"` + long + `"`, strings.Repeat("[", 501) + strings.Repeat("]", 501)} {
			u := update(t, `{"sessionUpdate":"tool_call","toolCallId":"1","title":"t"}`)
			u.ToolCall.RawInput = json.RawMessage(input)
			said := translate.New(nil).Update(u)
			args := said[len(said)-1].(trace.ToolCall).Args
			require.Equal(t, byte('"'), args[0])
			require.LessOrEqual(t, len(args), translate.MaxArgs+slack)
		}
		u := update(t, `{"sessionUpdate":"tool_call","toolCallId":"1","title":"t"}`)
		deep := strings.Repeat("[", 500) + strings.Repeat("]", 500)
		u.ToolCall.RawInput = json.RawMessage(deep)
		said := translate.New(nil).Update(u)
		require.Equal(t, deep, string(said[len(said)-1].(trace.ToolCall).Args))
	})
	t.Run("open calls", func(t *testing.T) {
		t.Parallel()
		translator := translate.New(nil)
		var said []trace.Payload
		for i := range translate.MaxTools + 1 {
			said = translator.Update(update(t, `{"sessionUpdate":"tool_call","toolCallId":"`+strconv.Itoa(i)+`","title":"t"}`))
		}
		require.Equal(t, "0", said[1].(trace.ToolResult).ToolCallID)
		require.Equal(t, trace.ToolError, said[1].(trace.ToolResult).Status)
	})
}

func TestAsk(t *testing.T) {
	t.Parallel()
	request := func(t *testing.T, call string) acpsdk.RequestPermissionRequest {
		t.Helper()
		var p acpsdk.RequestPermissionRequest
		require.NoError(t, json.Unmarshal([]byte(`{"sessionId":"s","toolCall":`+call+`,"options":[{"optionId":"y","name":"Yes","kind":"allow_once"},`+
			`{"optionId":"n","name":"No","kind":"reject_always"},{"optionId":"x","name":"Other","kind":"strange"}]}`), &p))
		return p
	}
	for name, c := range map[string]struct{ call, title, text string }{
		"a command":       {`{"toolCallId":"1","title":"Run","rawInput":{"command":"rm -rf x","n":1}}`, "Run", "rm -rf x"},
		"a list of words": {`{"toolCallId":"1","title":"Run","rawInput":{"command":["rm","x"]}}`, "Run", "rm x"},
		"other arguments": {`{"toolCallId":"1","title":"Fetch","rawInput":{"url":"u"}}`, "Fetch", "{\n  \"url\": \"u\"\n}"},
		"nothing":         {`{"toolCallId":"1"}`, "Permission", ""},
		"text":            {`{"toolCallId":"1","title":"T","content":[{"type":"content","content":{"type":"text","text":"why"}}],"rawInput":{"a":1}}`, "T", "why"},
		"what is known":   {`{"toolCallId":"known"}`, "Known", "ls"},
		"a diff": {
			`{"toolCallId":"1","title":"Edit","content":[{"type":"diff","path":"/a","oldText":"same\nold\nend\n","newText":"same\nnew\nmore\nend\n"}]}`,
			"Edit", "/a\n-old\n+new\n+more",
		},
		"a new file": {`{"toolCallId":"1","title":"Edit","content":[{"type":"diff","path":"/a","newText":"x\ny"}]}`, "Edit", "/a\n+x\n+y"},
		"a long text": {
			`{"toolCallId":"1","title":"T","rawInput":{"command":"` + strings.Repeat("x", 9000) + `"}}`, "T", strings.Repeat("x", translate.MaxAsk) + "\n…",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			translator := translate.New(known)
			translator.Update(update(t, `{"sessionUpdate":"tool_call","toolCallId":"known","title":"Known","rawInput":{"command":"ls"}}`))
			ask := translator.Ask(request(t, c.call), "ask-1")
			require.Equal(t, c.title, ask.Title)
			require.Equal(t, c.text, ask.Text)
			require.Equal(t, "ask-1", ask.AskID)
			require.Equal(t, trace.AskPermission, ask.AskKind)
			require.Equal(t, []trace.Option{
				{ID: "y", Label: "Yes", Kind: trace.AllowOnce}, {ID: "n", Label: "No", Kind: trace.RejectAlways}, {ID: "x", Label: "Other", Kind: trace.Choice},
			}, ask.Options)
		})
	}
	t.Run("before it the message is closed and its call announced", func(t *testing.T) {
		t.Parallel()
		translator := translate.New(nil)
		translator.Update(update(t, message("May I?")))
		asking := request(t, `{"toolCallId":"7","title":"Run","kind":"execute","status":"pending","rawInput":{"command":"ls"}}`)
		require.Equal(t, []string{
			`assistant {"text":"May I?","final":true}`, `tool_start {"tool_call_id":"7","name":"execute","title":"Run","tool_kind":"execute"}`,
			`tool_call {"tool_call_id":"7","name":"execute","args":{"command":"ls"}}`,
		}, lines(t, translator.Asking(asking)))
		require.Empty(t, lines(t, translator.Asking(asking)))
	})
}
