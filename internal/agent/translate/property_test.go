package translate_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	acpsdk "github.com/coder/acp-go-sdk"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/internal/agent/translate"
)

// watcher reads payloads as a viewer does and fails where they do not fit together.
type watcher struct {
	t        require.TestingT
	open     bool // a message is open
	thought  bool
	said     strings.Builder // all messages
	thoughts strings.Builder
	started  map[string]int // calls, by how often they were started
	called   map[string]int
	ended    map[string]int
	step     int
}

func (w *watcher) see(said []trace.Payload) {
	for _, payload := range said {
		event, err := trace.New("turn", payload)
		require.NoError(w.t, err)
		require.True(w.t, json.Valid(event.Payload))
		require.True(w.t, utf8.Valid(event.Payload))
		require.Less(w.t, len(event.Payload), 4<<20)
		if _, ok := payload.(trace.Assistant); !ok {
			switch payload.(type) {
			case trace.Todos, trace.Usage:
			default:
				require.False(w.t, w.open, "%s within a message", payload.Kind())
			}
		}
		w.one(payload)
	}
}

func (w *watcher) one(payload trace.Payload) {
	switch p := payload.(type) {
	case trace.StepStart:
		require.Equal(w.t, w.step+1, p.Step)
		w.step = p.Step
	case trace.Assistant:
		require.Positive(w.t, w.step)
		require.True(w.t, !w.open || w.thought == p.Thought)
		w.open, w.thought = !p.Final, p.Thought
		if p.Thought {
			w.thoughts.WriteString(p.Text)
		} else {
			w.said.WriteString(p.Text)
		}
	case trace.ToolStart:
		require.Positive(w.t, w.step)
		require.NotEmpty(w.t, p.Name)
		w.started[p.ToolCallID]++
		require.Equal(w.t, 1, w.started[p.ToolCallID])
	case trace.ToolCall:
		require.Equal(w.t, 1, w.started[p.ToolCallID])
		w.called[p.ToolCallID]++
		require.Equal(w.t, 1, w.called[p.ToolCallID])
	case trace.ToolResult:
		require.Equal(w.t, 1, w.called[p.ToolCallID])
		require.NotNil(w.t, p.Content)
		w.ended[p.ToolCallID]++
		require.Equal(w.t, 1, w.ended[p.ToolCallID])
	case trace.Todos:
		require.LessOrEqual(w.t, len(p.Items), trace.MaxTodos)
	case trace.Usage:
		require.Positive(w.t, *p.CostMicroUSD)
	default:
		require.Fail(w.t, "unexpected", "%T", p)
	}
}

// closed checks that a turn left nothing open.
func (w *watcher) closed() {
	require.False(w.t, w.open)
	require.Equal(w.t, w.started, w.ended)
	w.step = 0
}

func watch(t require.TestingT) *watcher {
	return &watcher{t: t, started: map[string]int{}, called: map[string]int{}, ended: map[string]int{}}
}

// anyText is text as an agent may have it: also long, and with bytes that are no characters.
func anyText() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.String(), rapid.Just("\xff\x00<&>\u2028"), rapid.Just(strings.Repeat("ä", 20_000)),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
	)
}

func anyBlock() *rapid.Generator[acpsdk.ContentBlock] {
	return rapid.Custom(func(t *rapid.T) acpsdk.ContentBlock {
		text := anyText().Draw(t, "text")
		switch rapid.IntRange(0, 5).Draw(t, "block") {
		case 0:
			return acpsdk.ImageBlock(text, text)
		case 1:
			return acpsdk.ResourceLinkBlock(text, text)
		case 2:
			return acpsdk.ResourceBlock(acpsdk.EmbeddedResourceResource{TextResourceContents: &acpsdk.TextResourceContents{Text: text, Uri: text}})
		case 3:
			return acpsdk.ContentBlock{}
		default:
			return acpsdk.TextBlock(text)
		}
	})
}

func anyContent() *rapid.Generator[acpsdk.ToolCallContent] {
	return rapid.Custom(func(t *rapid.T) acpsdk.ToolCallContent {
		text := anyText().Draw(t, "text")
		switch rapid.IntRange(0, 4).Draw(t, "content") {
		case 0:
			return acpsdk.ToolDiffContent(text, text, text)
		case 1:
			return acpsdk.ToolDiffContent(text, text)
		case 2:
			return acpsdk.ToolTerminalRef(rapid.SampledFrom([]string{"term-1", "term-2", text}).Draw(t, "terminal"))
		case 3:
			return acpsdk.ToolCallContent{}
		default:
			return acpsdk.ToolContent(anyBlock().Draw(t, "block"))
		}
	})
}

func anyValue() *rapid.Generator[any] {
	return rapid.OneOf(
		rapid.Just[any](nil), rapid.Just[any](map[string]any{}), rapid.Just[any](json.RawMessage(`{`)), rapid.Just[any](json.RawMessage(`null`)),
		rapid.Just[any](json.RawMessage(`{"command":"x","n":1e999}`)), rapid.Just[any](func() {}), rapid.Just[any](json.RawMessage("\"\xff\"")),
		rapid.Map(anyText(), func(s string) any { return s }), rapid.Map(anyText(), func(s string) any { return map[string]any{"command": s} }),
	)
}

func anyUpdate() *rapid.Generator[acpsdk.SessionUpdate] {
	return rapid.Custom(func(t *rapid.T) acpsdk.SessionUpdate {
		id := acpsdk.ToolCallId(rapid.SampledFrom([]string{"1", "2", "3", ""}).Draw(t, "id"))
		status := rapid.SampledFrom([]acpsdk.ToolCallStatus{"", "pending", "in_progress", "completed", "failed", "odd"}).Draw(t, "status")
		switch rapid.IntRange(0, 6).Draw(t, "update") {
		case 0:
			return acpsdk.UpdateAgentThought(anyBlock().Draw(t, "block"))
		case 1:
			return acpsdk.SessionUpdate{ToolCall: &acpsdk.SessionUpdateToolCall{
				ToolCallId: id, Status: status, Title: anyText().Draw(t, "title"), Kind: acpsdk.ToolKind(rapid.SampledFrom([]string{"", "other", "read"}).Draw(t, "kind")),
				RawInput: anyValue().Draw(t, "input"), RawOutput: anyValue().Draw(t, "output"), Content: rapid.SliceOfN(anyContent(), 0, 3).Draw(t, "content"),
			}}
		case 2:
			return acpsdk.SessionUpdate{ToolCallUpdate: &acpsdk.SessionToolCallUpdate{
				ToolCallId: id, Status: &status, RawInput: anyValue().Draw(t, "input"), RawOutput: anyValue().Draw(t, "output"),
				Content: rapid.SliceOfN(anyContent(), 0, 3).Draw(t, "content"),
			}}
		case 3:
			entries := rapid.SliceOfN(rapid.Map(anyText(), func(s string) acpsdk.PlanEntry { return acpsdk.PlanEntry{Content: s} }), 0, 60)
			return acpsdk.UpdatePlan(entries.Draw(t, "plan")...)
		case 4:
			cost := acpsdk.Cost{Amount: rapid.Float64().Draw(t, "cost"), Currency: "USD"}
			return acpsdk.SessionUpdate{UsageUpdate: &acpsdk.SessionUsageUpdate{Cost: &cost}}
		case 5:
			return acpsdk.SessionUpdate{}
		default:
			return acpsdk.UpdateAgentMessage(anyBlock().Draw(t, "block"))
		}
	})
}

// Whatever an agent says: no panic, pieces that add up to the chunks, each call started, told and ended once,
// nothing left open at the end of a turn, and JSON that the server takes.
func TestAnyUpdates(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		translator, seen := translate.New(known), watch(t)
		var said, thoughts strings.Builder
		for range rapid.IntRange(1, 40).Draw(t, "actions") {
			switch rapid.IntRange(0, 12).Draw(t, "action") {
			case 0:
				seen.see(translator.Close(rapid.SampledFrom([]trace.ToolStatus{trace.ToolCancelled, trace.ToolError}).Draw(t, "close")))
				translator.Begin()
				seen.closed()
			case 1:
				seen.see(translator.Flush())
				require.False(t, translator.Pending())
			case 2:
				request := acpsdk.RequestPermissionRequest{ToolCall: acpsdk.ToolCallUpdate{
					ToolCallId: acpsdk.ToolCallId(rapid.SampledFrom([]string{"1", "4"}).Draw(t, "id")), RawInput: anyValue().Draw(t, "input"),
					Content: rapid.SliceOfN(anyContent(), 0, 3).Draw(t, "content"),
				}}
				seen.see(translator.Asking(request))
				ask := translator.Ask(request, "ask")
				event, err := trace.New("", ask)
				require.NoError(t, err)
				require.True(t, utf8.Valid(event.Payload))
				require.LessOrEqual(t, len(ask.Text), translate.MaxAsk+10)
			default:
				u := anyUpdate().Draw(t, "update")
				if chunk := u.AgentMessageChunk; chunk != nil && chunk.Content.Text != nil {
					said.WriteString(strings.ToValidUTF8(chunk.Content.Text.Text, "\uFFFD"))
				} else if chunk != nil {
					u = acpsdk.SessionUpdate{} // how other blocks read is for the table
				}
				if chunk := u.AgentThoughtChunk; chunk != nil && chunk.Content.Text != nil {
					thoughts.WriteString(strings.ToValidUTF8(chunk.Content.Text.Text, "\uFFFD"))
				} else if chunk != nil {
					u = acpsdk.SessionUpdate{}
				}
				seen.see(translator.Update(u))
			}
		}
		seen.see(translator.Close(trace.ToolError))
		seen.closed()
		require.Equal(t, said.String(), seen.said.String())
		require.Equal(t, thoughts.String(), seen.thoughts.String())
	})
}

// FuzzUpdate gives updates as bytes, as the protocol does.
func FuzzUpdate(f *testing.F) {
	f.Add([]byte(message("a") + "\n" + thought("b")))
	f.Add([]byte(`{"sessionUpdate":"tool_call","toolCallId":"1","title":"t","status":"completed","rawInput":[1e400],"content":[{"type":"diff"}]}`))
	f.Add([]byte(`{"sessionUpdate":"plan","entries":[{"content":"` + strings.Repeat("é", 300) + `"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		translator, seen := translate.New(known), watch(t)
		for line := range strings.Lines(string(text)) {
			var u acpsdk.SessionUpdate
			if json.Unmarshal([]byte(line), &u) == nil {
				seen.see(translator.Update(u))
			}
		}
		seen.see(translator.Close(trace.ToolCancelled))
		seen.closed()
	})
}
