package trace_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/sessions/trace"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func TestPayloads(t *testing.T) {
	t.Parallel()
	old, code := "a<b", 1
	cases := []struct {
		payload    trace.Payload
		kind, want string
	}{
		{trace.TurnStart{Text: "t", ControlID: "c"}, "turn_start", `{"text":"t","control_id":"c"}`},
		{trace.TurnStart{}, "turn_start", `{"text":""}`},
		{trace.TurnEnd{Status: trace.TurnFailed, Reason: "r"}, "turn_end", `{"status":"failed","reason":"r"}`},
		{trace.StepStart{Step: 2}, "step_start", `{"step":2}`},
		{trace.ReqStart{Model: "m"}, "req_start", `{"model":"m"}`},
		{trace.LocalGen{}, "local_gen", `{}`},
		{trace.User{Text: "u"}, "user", `{"text":"u"}`},
		{trace.Assistant{Text: "<a>"}, "assistant", `{"text":"<a>","final":false}`},
		{trace.Assistant{Text: "a", Thought: true, Final: true}, "assistant", `{"text":"a","thought":true,"final":true}`},
		{trace.ToolStart{ToolCallID: "1", Name: "n", Title: "t", ToolKind: "k"}, "tool_start", `{"tool_call_id":"1","name":"n","title":"t","tool_kind":"k"}`},
		{trace.ToolCall{ToolCallID: "1", Name: "n", Args: json.RawMessage(`{"x":-0}`)}, "tool_call", `{"tool_call_id":"1","name":"n","args":{"x":-0}}`},
		{trace.ToolResult{ToolCallID: "1", Status: trace.ToolOK, Truncated: true, Content: []trace.Content{
			trace.TextContent("t"), trace.DiffContent("p", &old, "n"), trace.TerminalContent("o", &code),
		}}, "tool_result", `{"tool_call_id":"1","status":"ok","content":[{"type":"text","text":"t"},` +
			`{"type":"diff","path":"p","old_text":"a<b","new_text":"n"},{"type":"terminal","text":"o","exit_code":1}],"truncated":true}`},
		{trace.Ask{AskID: "a", AskKind: trace.AskPermission, ToolCallID: "1", Title: "t", Text: "x", Options: []trace.Option{{ID: "o", Label: "l", Kind: trace.AllowOnce}}},
			"ask", `{"ask_id":"a","ask_kind":"permission","tool_call_id":"1","title":"t","text":"x","options":[{"id":"o","label":"l","kind":"allow_once"}]}`},
		{trace.AskResolved{AskID: "a", Outcome: trace.AskExpired, Reason: "r"}, "ask_resolved", `{"ask_id":"a","outcome":"expired","reason":"r"}`},
		{trace.ControlResult{ControlID: "c", Outcome: trace.ControlRejected, Reason: "r", BlockedByAskID: "a"}, "control_result",
			`{"control_id":"c","outcome":"rejected","reason":"r","blocked_by_ask_id":"a"}`},
		{trace.WaitUser{AskID: "a"}, "wait_user", `{"ask_id":"a"}`},
		{trace.ScreenWait{Position: 3}, "screen_wait", `{"position":3}`},
		{trace.RunState{State: trace.StatePaused}, "run_state", `{"state":"paused"}`},
		{trace.NewTodos([]trace.Todo{{ID: "1", Title: "t", Status: trace.TodoCompleted}}, "7"), "todos",
			`{"items":[{"id":"1","title":"t","status":"completed"}],"source":"tool","tool_call_id":"7","done":1,"total":1}`},
		{trace.NewTodos(nil, ""), "todos", `{"items":[],"source":"user","done":0,"total":0}`},
		{trace.Usage{PromptTokens: 1, CompletionTokens: 2, CachedTokens: new(int64(0)), CostMicroUSD: new(int64(4))}, "usage",
			`{"prompt_tokens":1,"completion_tokens":2,"cached_tokens":0,"cost_micro_usd":4}`},
		{trace.Deadline{Budget: trace.BudgetTool, MS: 5}, "deadline", `{"budget":"tool","ms":5}`},
		{trace.Failure{Message: "m", Code: "c"}, "error", `{"message":"m","code":"c"}`},
	}
	for _, c := range cases {
		t.Run("SS-TRC-1 "+c.kind, func(t *testing.T) {
			t.Parallel()
			event, err := trace.New("turn", c.payload)
			require.NoError(t, err)
			require.Equal(t, c.kind, event.Kind)
			require.Equal(t, "turn", *event.TurnID)
			require.Equal(t, c.want, string(event.Payload))
			withMore := strings.Replace(c.want, "{", `{"added_later":[{}],`, 1)
			withMore = strings.Replace(withMore, ",}", "}", 1)
			for _, payload := range []string{c.want, withMore} {
				read, err := trace.Read(wire.Event{Kind: c.kind, Payload: json.RawMessage(payload)})
				require.NoError(t, err)
				require.Equal(t, c.payload, read)
			}
		})
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	t.Run("SS-TRC-1 an unknown kind is kept as it came", func(t *testing.T) {
		t.Parallel()
		raw := json.RawMessage(`{"hum":1}`)
		payload, err := trace.Read(wire.Event{Kind: "hologram", Payload: raw})
		require.NoError(t, err)
		require.Equal(t, trace.Unknown{Name: "hologram", Raw: raw}, payload)
		event, err := trace.New("", payload)
		require.NoError(t, err)
		require.Equal(t, wire.IncomingEvent{Kind: "hologram", Payload: raw}, event)
	})
	t.Run("SS-TRC-1 content of an unknown type is kept as it came", func(t *testing.T) {
		t.Parallel()
		payload, err := trace.Read(wire.Event{Kind: "tool_result", Payload: json.RawMessage(
			`{"tool_call_id":"1","status":"ok","content":[{"type":"sculpture","n":1e400},{"type":"text","text":"x"}]}`)})
		require.NoError(t, err)
		result := payload.(trace.ToolResult)
		require.Equal(t, "sculpture", result.Content[0].Type)
		require.Equal(t, []byte(`{"type":"sculpture","n":1e400}`), []byte(result.Content[0].Raw))
		require.Empty(t, result.Content[0].Text())
		require.Equal(t, "x", result.Content[1].Text())
	})
	t.Run("a payload of another shape is an error", func(t *testing.T) {
		t.Parallel()
		_, err := trace.Read(wire.Event{Kind: "turn_start", Payload: json.RawMessage(`{"text":1}`)})
		require.ErrorContains(t, err, "turn_start")
		_, err = trace.New("", trace.ToolCall{Args: json.RawMessage(`{`)})
		require.Error(t, err)
		require.Panics(t, func() { trace.Must("", trace.ToolCall{Args: json.RawMessage(`{`)}) })
	})
	t.Run("todos keep 50 items", func(t *testing.T) {
		t.Parallel()
		items := make([]trace.Todo, 51)
		items[50].Status = trace.TodoCompleted
		require.Equal(t, 50, trace.NewTodos(items, "").Total)
		require.Zero(t, trace.NewTodos(items, "").Done)
	})
}

func TestResolve(t *testing.T) {
	t.Parallel()
	full := []trace.Option{
		{ID: "aa", Label: "Always", Kind: trace.AllowAlways}, {ID: "a1", Label: "Yes", Kind: trace.AllowOnce},
		{ID: "a2", Label: "Yes too", Kind: trace.AllowOnce}, {ID: "ra", Label: "Never", Kind: trace.RejectAlways},
		{ID: "r1", Label: "No", Kind: trace.RejectOnce}, {ID: "c1", Label: "a1", Kind: trace.Choice},
	}
	always := []trace.Option{{ID: "c", Label: "", Kind: trace.Choice}, {ID: "ra", Kind: trace.RejectAlways}, {ID: "aa", Kind: trace.AllowAlways}}
	selected := func(id string) trace.AskResolved { return trace.AskResolved{Outcome: trace.AskSelected, OptionID: id} }
	free := func(text string) trace.AskResolved { return trace.AskResolved{Outcome: trace.AskText, Text: text} }
	ask := "ask"
	cases := []struct {
		name    string
		options []trace.Option
		kind    wire.ControlKind
		text    *string
		askID   *string
		want    trace.AskResolved
		err     error
	}{
		{"approve takes the first allow_once", full, wire.ControlApprove, nil, &ask, selected("a1"), nil},
		{"approve else takes the first allow", always, wire.ControlApprove, nil, nil, selected("aa"), nil},
		{"deny takes the first reject_once", full, wire.ControlDeny, nil, &ask, selected("r1"), nil},
		{"deny else takes the first reject", always, wire.ControlDeny, nil, &ask, selected("ra"), nil},
		{"approve without an allow", nil, wire.ControlApprove, nil, &ask, trace.AskResolved{}, trace.ErrNoOption},
		{"answer by id, before a label", full, wire.ControlAnswer, new("a1"), &ask, selected("a1"), nil},
		{"answer by label", full, wire.ControlAnswer, new("Never"), &ask, selected("ra"), nil},
		{"answer as free text", full, wire.ControlAnswer, new("maybe"), &ask, free("maybe"), nil},
		{"empty answer is no label", always, wire.ControlAnswer, nil, &ask, free(""), nil},
		{"another question", full, wire.ControlApprove, nil, new("b"), trace.AskResolved{}, trace.ErrOtherAsk},
		{"no answer", full, wire.ControlSteer, new("x"), &ask, trace.AskResolved{}, trace.ErrNoAnswer},
	}
	for _, c := range cases {
		t.Run("SS-TRC-1 "+c.name, func(t *testing.T) {
			t.Parallel()
			control := wire.Control{ID: "ctl", Kind: c.kind, Text: c.text, AskID: c.askID, FromDeviceID: "dev"}
			got, err := trace.Resolve(trace.Ask{AskID: ask, Options: c.options}, control)
			require.ErrorIs(t, err, c.err)
			if c.err == nil {
				c.want.AskID, c.want.ControlID, c.want.ByDeviceID = ask, "ctl", "dev"
			}
			require.Equal(t, c.want, got)
		})
	}
}
