package attach

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/cairnsync/cairn/client/sessions/trace"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func TestWrapAndFit(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"one two", "three"}, wrap("one two three", 8))
	require.Equal(t, []string{"ＡＢ", "Ｃx"}, wrap("ＡＢＣx", 4))
	require.Equal(t, []string{"  indented", "text"}, wrap("  indented text", 11))
	require.Equal(t, []string{"a", "", "b"}, wrap("a\n\nb", 5))
	require.Equal(t, []string{"abcdef", "gh"}, wrap("abcdefgh", 6))
	require.Equal(t, "ab…", fit("abcd", 3))
	require.Equal(t, "Ａ…", fit("ＡＢ", 3))
	require.Empty(t, fit("abcd", 0))
	require.Equal(t, "e\u0301…", fit("e\u0301xyz", 2))
	rapid.Check(t, func(rt *rapid.T) {
		text := oneLine(texts.Draw(rt, "text"))
		room := rapid.IntRange(9, 60).Draw(rt, "room") // wider than the widest character
		require.LessOrEqual(rt, columns(fit(text, room)), room)
		rows := wrap(text, room)
		for _, line := range rows {
			require.LessOrEqual(rt, columns(line), room)
		}
		require.Equal(rt, strings.ReplaceAll(text, " ", ""), strings.ReplaceAll(strings.Join(rows, ""), " ", ""))
	})
}

func TestEditor(t *testing.T) {
	t.Parallel()
	for keys, want := range map[string]string{
		"h i":                                       "hi|",
		"a b left c":                                "ac|b",
		"a b ctrl+a x ctrl+e y":                     "xaby|",
		"a space b ctrl+w":                          "a |",
		"a space b alt+b delete":                    "a |",
		"a alt+enter b up x":                        "ax|\nb",
		"a alt+enter b up ctrl+k":                   "a|\nb",
		"a b c left left ctrl+u":                    "|bc",
		"Ａ Ｂ left backspace":                        "|Ｂ",
		"e\u0301 x left backspace":                  "|x",
		"a b backspace backspace backspace":         "|",
		"1 take 2 take up":                          "2|",
		"1 take 2 take up up":                       "1|",
		"1 take 2 take up up up down":               "2|",
		"1 take d up down":                          "d|",
		"1 take 1 take up up":                       "1|",
		"a alt+enter Ａ Ｂ up down down":              "a\nＡ|Ｂ",
		"a b c alt+enter d alt+enter e f g up down": "abc\nd\ne|fg",
	} {
		var e editor
		for key := range strings.SplitSeq(keys, " ") {
			switch {
			case key == "take":
				e.take()
			case key == "space":
				e.insert(" ")
			case !e.key(key):
				e.insert(key)
			}
		}
		require.Equal(t, want, e.text[:e.at]+"|"+e.text[e.at:], keys)
	}
	var e editor
	require.True(t, e.insert("a\r\nb\rc\x1b[31m\x00d\te\u2028f"))
	require.Equal(t, "a\nb\nc[31md\te\nf", e.text)
	require.False(t, e.insert(strings.Repeat("x", wire.MaxText)))
	require.Equal(t, "a\nb\nc[31md\te\nf", e.text)
	for i := range 3 * maxHistory {
		e.set(fmt.Sprint(i))
		e.take()
	}
	require.Len(t, e.history, maxHistory)
}

func TestEditorShowsItsCursor(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var e editor
		e.insert(texts.Draw(rt, "text"))
		for range rapid.IntRange(0, 20).Draw(rt, "moves") {
			e.key(rapid.SampledFrom([]string{"left", "right", "up", "down", "ctrl+a", "ctrl+e", "ctrl+left", "ctrl+right", "backspace", "delete"}).Draw(rt, "key"))
		}
		most := rapid.IntRange(1, 6).Draw(rt, "most")
		rows, x, y := e.draw(rapid.IntRange(12, 60).Draw(rt, "room"), most)
		require.NotEmpty(rt, rows)
		require.LessOrEqual(rt, len(rows), most)
		require.True(rt, y >= 0 && y < len(rows), "%d of %d", y, len(rows))
		require.LessOrEqual(rt, x, 60)
	})
}

func plainLooks() looks {
	return looks{
		name: func(id string) string { return map[string]string{deskTop: "desk", phone: "phone"}[id] },
		zone: time.UTC, now: func() time.Time { return time.Unix(1_700_000_000, 0) },
	}
}

// foldRows answers a log as it is shown, 60 columns wide.
func foldRows(open bool, entries ...entry) string {
	w := newWindow(plainLooks())
	w.all = open
	w.append(entries)
	var lines []string
	for i := range w.script.blocks {
		for _, r := range w.rows(i, 60) {
			if text := strings.TrimRight(r.text(false, 60), " ─"); text != "" {
				lines = append(lines, text)
			}
		}
	}
	return strings.Join(lines, "\n")
}

func TestTranscript(t *testing.T) {
	t.Parallel()
	old, code := "a\nb\nc\n", 2
	for _, one := range []struct {
		name string
		open bool
		want string
		log  func(l *log) []entry
	}{
		{"pieces append, a final one closes", false, "● one two\n● three", func(l *log) []entry {
			return []entry{l.add("t", trace.Assistant{Text: "one "}), l.add("t", trace.Assistant{Text: "two", Final: true}), l.add("t", trace.Assistant{Text: "three"}), l.add("t", trace.Assistant{Final: true})}
		}},
		{"a turn begins with the words of who sent it, once", false, "── turn · 22:13 · from phone\n› do it\n■ turn cancelled (enough)", func(l *log) []entry {
			return []entry{
				l.echo(wire.Control{ID: "c", Kind: wire.ControlSend, Text: given("do it"), FromDeviceID: phone}),
				l.add("c", trace.TurnStart{Text: "do it", ControlID: "c"}), l.add("c", trace.User{Text: "do it"}),
				l.add("c", trace.TurnEnd{Status: trace.TurnCancelled, Reason: "enough"}),
			}
		}},
		{"a control that is not applied yet is shown", false, "» phone sends: do it\n» phone steers → desk: left", func(l *log) []entry {
			return []entry{
				l.echo(wire.Control{ID: "c", Kind: wire.ControlSend, Text: given("do it"), FromDeviceID: phone}),
				l.echo(wire.Control{ID: "d", Kind: wire.ControlSteer, Text: given("left"), FromDeviceID: phone, TargetDeviceID: given(deskTop)}),
			}
		}},
		{"a tool call is one line", false, "✓ ▸ Read it  line one …", func(l *log) []entry { return toolCall(l, trace.TextContent("line one\nline two")) }},
		{"an open tool call shows what it did", true, "✓ ▾ Read it  a.go +1 −1 · $ out (exit 2) · sculpture\n    {\n      \"path\": \"x\"\n    }\n    a.go\n" +
			"      a\n    - b\n    + B\n      c\n    $ out (exit 2)\n    {\"type\":\"sculpture\"}", func(l *log) []entry {
			return toolCall(l, trace.DiffContent("a.go", &old, "a\nB\nc\n"), trace.TerminalContent("out", &code), trace.Content{Type: "sculpture", Raw: []byte(`{"type":"sculpture"}`)})
		}},
		{"a result without its start", false, "✗ ▸ tool  boom", func(l *log) []entry {
			return []entry{l.add("t", trace.ToolResult{ToolCallID: "9", Status: trace.ToolError, Content: []trace.Content{trace.TextContent("boom")}})}
		}},
		{"an ask and its answer are one line in the end", false, "! Run a: Allow once, by phone\n! q: “fine”\n! z: expired (the turn ended)", func(l *log) []entry {
			return []entry{
				l.add("t", permission("a")), l.echo(wire.Control{ID: "c", Kind: wire.ControlApprove, AskID: given("a"), FromDeviceID: phone}),
				l.add("t", trace.AskResolved{AskID: "a", Outcome: trace.AskSelected, OptionID: "once", ControlID: "c", ByDeviceID: phone}),
				l.add("t", trace.AskResolved{AskID: "q", Outcome: trace.AskText, Text: "fine"}),
				l.add("t", trace.AskResolved{AskID: "z", Outcome: trace.AskExpired, Reason: "the turn ended"}),
			}
		}},
		{"sealed events are counted", false, "◆ 2 sealed events: assistant, tool_call", func(l *log) []entry {
			return []entry{l.raw("assistant", "t", `{"hide":"x"}`), l.raw("tool_call", "t", `{"hide":"x"}`)}
		}},
		{"what is not known is shown plainly", false, "· hologram: {\"x\":1}\n· ask: {\"ask_id\":5}", func(l *log) []entry {
			return []entry{l.raw("hologram", "", `{"x":1}`), l.raw("ask", "", `{"ask_id":5}`), l.raw("import:claude:progress", "", `{}`)}
		}},
		{"errors, deadlines, pauses, takeovers", false, "· agent x, which goes on from before\n✗ error: no model (429)\n✗ deadline: tool took longer than 5s\n‖ paused\n‖ goes on\n⇄ phone took over from desk", func(l *log) []entry {
			return []entry{
				l.add("", trace.AgentSession{Agent: "x", Loaded: true}), l.add("t", trace.Failure{Message: "no model", Code: "429"}), l.add("t", trace.Deadline{Budget: trace.BudgetTool, MS: 5000}),
				l.add("t", trace.RunState{State: trace.StatePaused}), l.add("t", trace.RunState{State: trace.StateRunning}),
				l.raw(wire.KindLeaseTransferred, "", `{"from_device_id":"`+deskTop+`","to_device_id":"`+phone+`"}`),
			}
		}},
		{"outcomes of controls", false, "» phone steers: left\n« phone steers: rejected (busy)\n« control y: waits, first answer: Run a", func(l *log) []entry {
			return []entry{
				l.echo(wire.Control{ID: "x", Kind: wire.ControlSteer, Text: given("left"), FromDeviceID: phone}),
				l.add("t", trace.ControlResult{ControlID: "x", Outcome: trace.ControlRejected, Reason: "busy"}),
				l.add("t", trace.ControlResult{ControlID: "z", Outcome: trace.ControlApplied}),
				hide(l, permission("a")), l.add("t", trace.ControlResult{ControlID: "y", Outcome: trace.ControlQueued, BlockedByAskID: "a"}),
			}
		}},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			got := foldRows(one.open, one.log(&log{})...)
			require.Equal(t, one.want, strings.ReplaceAll(got, "? asks: Run a\n", ""))
		})
	}
}

func hide(l *log, ask trace.Ask) entry { return l.add("t", ask) }

func toolCall(l *log, content ...trace.Content) []entry {
	return []entry{
		l.add("t", trace.ToolStart{ToolCallID: "1", Name: "read", Title: "Read it"}),
		l.add("t", trace.ToolCall{ToolCallID: "1", Name: "read", Args: []byte(`{"path":"x"}`)}),
		l.add("t", trace.ToolResult{ToolCallID: "1", Status: trace.ToolOK, Content: content}),
	}
}

func TestOneBlockIsBounded(t *testing.T) {
	t.Parallel()
	w := newWindow(plainLooks())
	var l log
	w.append([]entry{l.add("t", trace.Assistant{Text: strings.Repeat("Ａ", maxBlockBytes)})})
	w.append(toolCall(&l, trace.TextContent(strings.Repeat("x\n", 1<<20)), trace.DiffContent("a", nil, strings.Repeat("y\n", 1<<20))))
	w.all = true
	text := 0
	for i, b := range w.script.blocks {
		require.LessOrEqual(t, b.text.Len(), maxBlockBytes)
		text += b.text.Len()
		if b.tool != nil {
			require.LessOrEqual(t, len(w.rows(i, 80)), maxToolRows+3)
		}
	}
	require.Equal(t, 3*maxBlockBytes, text)
}

// TestStateOfTwoParts reads a log in two parts, the newer one first.
func TestStateOfTwoParts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var l log
		var entries []entry
		for range rapid.IntRange(0, 40).Draw(rt, "events") {
			entries = append(entries, anyEvent(rt, &l, map[string]bool{}))
		}
		at := rapid.IntRange(0, len(entries)).Draw(rt, "at")
		whole, newer := fold(entries), fold(entries[at:])
		newer.prepend(fold(entries[:at]))
		for _, s := range []*state{&whole, &newer} {
			if len(s.resolved) == 0 {
				s.resolved = nil
			}
			if len(s.asks) == 0 {
				s.asks = nil
			}
		}
		require.Equal(rt, whole, newer)
	})
}

func TestTodosAndUsageOfTheTurn(t *testing.T) {
	t.Parallel()
	cost := int64(3)
	var l log
	s := fold([]entry{
		l.add("t", trace.Usage{PromptTokens: 99}), l.add("u", trace.TurnStart{}),
		l.add("u", trace.Usage{PromptTokens: 1, CompletionTokens: 2, CostMicroUSD: &cost}), l.add("u", trace.Usage{PromptTokens: 10, CostMicroUSD: &cost}),
	})
	require.Equal(t, "11 in 2 out $0.000", usageText(s.usage, s.used))
	require.Equal(t, "1.2k in 0 out", usageText(trace.Usage{PromptTokens: 1234}, true))
	require.Empty(t, usageText(trace.Usage{}, false))
}
