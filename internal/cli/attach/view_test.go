package attach

import (
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	agentrun "github.com/cairnsync/cairn/internal/agent/run"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

var sizes = [][2]int{{80, 24}, {40, 10}, {200, 60}, {100, 16}, {99, 15}, {16, 5}, {15, 4}, {1, 1}, {300, 5}, {20, 100}}

// fits checks that a screen is exactly as high as it must be and no row is wider, with and without colours.
func fits(t require.TestingT, m *model) {
	p := m.draw()
	require.Len(t, p.rows, m.height)
	if p.cursor {
		require.True(t, p.x >= 0 && p.x < m.width && p.y >= 0 && p.y < m.height, "cursor at %d,%d of %d×%d", p.x, p.y, m.width, m.height)
	}
	for _, painted := range []paint{false, true} {
		m.paint = painted
		for _, line := range m.text(p) {
			require.LessOrEqual(t, columns(line), m.width, "%q at %d", line, m.width)
			require.NotContains(t, line, "\n")
			if !painted {
				require.NotContains(t, line, "\x1b")
			}
		}
	}
	m.paint = false
}

// busy is a stage where everything there is to show is shown.
func busy(t *testing.T) *stage {
	t.Helper()
	s := newStage(t, func(o *setup) { o.detail.E2E = true })
	var todos []trace.Todo
	for i := range 12 {
		todos = append(todos, trace.Todo{ID: fmt.Sprint(i), Title: fmt.Sprintf("Step %d of the plan ＡＢＣ", i), Status: trace.TodoNotStarted})
	}
	todos[0].Status, todos[1].Status = trace.TodoCompleted, trace.TodoInProgress
	cost := int64(4200)
	l := &s.log
	s.begin(
		l.add("t", trace.TurnStart{Text: "Fix the parser"}), l.add("t", trace.User{Text: "Fix the parser"}),
		l.add("t", trace.NewTodos(todos, "x")), l.add("t", trace.StepStart{Step: 3}), l.add("t", trace.ReqStart{Model: "model-1"}),
		l.add("t", trace.Assistant{Text: strings.Repeat("thinking hard ", 60), Thought: true, Final: true}),
		l.add("t", trace.Assistant{Text: "I read "}), l.add("t", trace.Assistant{Text: "the file."}),
		l.add("t", trace.ToolStart{ToolCallID: "1", Name: "read", Title: "Read parser.go"}),
		l.add("t", trace.ToolCall{ToolCallID: "1", Name: "read", Args: []byte(`{"path":"parser.go"}`)}),
		l.add("t", trace.ToolResult{ToolCallID: "1", Status: trace.ToolOK, Content: []trace.Content{
			trace.TextContent("package parser\nfunc Parse()"), trace.DiffContent("a.go", nil, "x\ny\n"), trace.TerminalContent("ok", nil),
		}}),
		l.raw("assistant", "t", `{"hide":"c2VhbGVk"}`), l.raw("tool_call", "t", `{"hide":"c2VhbGVk"}`),
		l.add("t", trace.Usage{PromptTokens: 12000, CompletionTokens: 300, CostMicroUSD: &cost}),
		l.add("t", permission("a")), l.add("t", permission("b")), l.add("t", permission("c")),
	)
	online := true
	for _, id := range []string{deskTop, phone, laptop} {
		s.frames(client.PresenceFrame{Presence: wire.Presence{DeviceID: id, Role: wire.RoleEditor, Online: &online, Attention: id == phone}})
	}
	s.enter("also the docs")
	s.press("l", "i", "n", "e", "alt+enter", "2")
	return s
}

func TestScreenFits(t *testing.T) {
	t.Parallel()
	s := busy(t)
	for _, size := range sizes {
		s.m.handle(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		fits(t, s.m)
	}
}

func TestScreenAt80x24(t *testing.T) {
	t.Parallel()
	s := busy(t)
	s.press("ctrl+c") // empties the prompt
	s.m.handle(noticeMsg{s.m.noticeNumber})
	require.Equal(t, strings.TrimPrefix(`
 Fix the build                                                   sealed · ● live
 work station drives · asks · ◉ phone ○ laptop ○ work station · 12.0k in 300 ou…
────────────────────────────────────────────────────────────────────────────────
∴ thinking hard thinking hard thinking hard thinking hard thinking hard thinking
  hard thinking hard thinking hard thinking hard thinking hard thinking hard
  … thinking, ctrl+t shows all
● I read the file.
✓ ▸ Read parser.go  package parser … · a.go +2 −0 · $ ok
◆ 2 sealed events: assistant, tool_call
? asks: Run a
? asks: Run b
? asks: Run c
todos 1/12
✔ Step 0 of the plan ＡＢＣ
▸ Step 1 of the plan ＡＢＣ
○ Step 2 of the plan ＡＢＣ
◷ steer “also the docs” · sending
? #1 Run a
  $ go test
  [y] approve [n] deny [1] Allow once [2] Always allow [3] Reject
? #2 Run b
? #3 Run c
── enter steers the running turn, which waits for an answer ────────────────────
›`, "\n"), strings.TrimRight(squeeze(s.screen()), " "))
}

// squeeze drops what is empty, so that a picture can be read in the test.
func squeeze(screen string) string {
	var kept []string
	for line := range strings.SplitSeq(screen, "\n") {
		if line = strings.TrimRight(line, " "); line != "" {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

func TestScreenAt40x10(t *testing.T) {
	t.Parallel()
	s := busy(t)
	s.press("ctrl+c")
	s.m.handle(noticeMsg{s.m.noticeNumber})
	s.m.handle(tea.WindowSizeMsg{Width: 40, Height: 10})
	s.shows("asks · work station", "[y] approve", "steers", "Run a", "also the docs")
	s.m.handle(tea.WindowSizeMsg{Width: 200, Height: 60})
	s.shows("│ todos 1/12", "│ ○ Step 11 of the plan", "◉ phone", "model-1", "… thinking")
}

func TestHostileText(t *testing.T) {
	t.Parallel()
	evil := "\x1b[2J\x1b]0;pwned\a\u202Eright\u200F a\u0301\u0301\u0301 👩‍👩‍👧‍👦 ＡＢ \x9b31m\r\nnext\ttab " + strings.Repeat("e\u0301", 300)
	s := newStage(t, func(o *setup) {
		o.detail.Title, o.detail.Members[0].Devices[1].Name = &evil, evil
	})
	l := &s.log
	s.begin(
		l.add("t", trace.TurnStart{Text: evil}), l.add("t", trace.Assistant{Text: evil}), l.add("t", trace.Assistant{Text: evil, Thought: true}),
		l.add("t", trace.ToolStart{ToolCallID: evil, Name: evil, Title: evil}), l.add("t", trace.ToolResult{ToolCallID: evil, Status: trace.ToolStatus(evil), Content: []trace.Content{
			trace.TextContent(evil), trace.DiffContent(evil, &evil, evil+"x"), trace.TerminalContent(evil, nil),
		}}),
		l.add("t", trace.Ask{AskID: evil, Title: evil, Text: evil, Options: []trace.Option{{ID: evil, Label: evil, Kind: trace.AllowOnce}}}),
		l.add("t", trace.NewTodos([]trace.Todo{{ID: evil, Title: evil, Status: trace.TodoStatus(evil)}}, evil)),
		l.add("t", trace.Failure{Message: evil, Code: evil}), l.add("t", trace.TurnEnd{Status: trace.TurnStatus(evil), Reason: evil}),
		l.add("t", trace.ReqStart{Model: evil}), l.raw("evil\x1b[2J", evil, `{"x":"\u001b[2J"}`), l.add("t", trace.AskResolved{AskID: "x", Outcome: trace.AskOutcome(evil), Reason: evil}),
		l.add("t", trace.ControlResult{ControlID: evil, Outcome: trace.ControlOutcome(evil), Reason: evil, BlockedByAskID: evil}),
		l.echo(wire.Control{ID: evil, Kind: wire.ControlKind(evil), Text: &evil, FromDeviceID: evil, AskID: &evil}),
		l.raw(wire.KindLeaseTransferred, "", `{"from_device_id":"\u001b[2J","to_device_id":"x"}`),
	)
	s.m.handle(tea.PasteMsg{Content: evil})
	s.m.win.all = true
	for _, size := range sizes {
		s.m.handle(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		fits(t, s.m)
		s.enter("/who")
		fits(t, s.m)
		s.press("esc", "pgup")
	}
}

// TestAnything feeds random logs, frames and keys.
func TestAnything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		at := time.Unix(1_700_000_000, 0)
		ids := 0
		m := newModel(setup{own: ownDevice, detail: detailFor(wire.RoleOwner), now: func() time.Time { return at }, newID: func() string { ids++; return fmt.Sprint("id-", ids) }})
		m.start()
		var l log
		opened := map[string]bool{}
		var first []entry
		for range rapid.IntRange(0, 20).Draw(rt, "before") {
			first = append(first, anyEvent(rt, &l, opened))
		}
		m.handle(pageMsg{want: readTail, entries: first, last: l.last})
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			anyStep(rt, m, &l, opened)
			var want []string
			for _, ask := range m.live.asks {
				require.True(rt, opened[ask.AskID], ask.AskID)
				want = append(want, ask.AskID)
			}
			require.Len(rt, want, len(opened))
			fits(rt, m)
		}
	})
}

var texts = rapid.OneOf(rapid.StringN(0, 60, -1), rapid.SampledFrom([]string{"", "a", "ＡＢＣ", "👩‍💻 x", "long " + strings.Repeat("word ", 100), "\x1b[2J", "a\nb\nc"}))

func anyEvent(rt *rapid.T, l *log, opened map[string]bool) entry {
	turn := rapid.SampledFrom([]string{"", "t1", "t2"}).Draw(rt, "turn")
	text, id := texts.Draw(rt, "text"), rapid.SampledFrom([]string{"1", "2", "3"}).Draw(rt, "id")
	switch rapid.IntRange(0, 15).Draw(rt, "kind") {
	case 0:
		return l.add(turn, trace.TurnStart{Text: text, ControlID: "id-" + id})
	case 1:
		if rapid.Bool().Draw(rt, "lost") {
			return l.add(turn, trace.TurnEnd{Status: trace.TurnFailed, Reason: agentrun.LostReason})
		}
		return l.add(turn, trace.TurnEnd{Status: trace.TurnCompleted, Reason: text})
	case 2, 3:
		return l.add(turn, trace.Assistant{Text: text, Thought: rapid.Bool().Draw(rt, "thought"), Final: rapid.Bool().Draw(rt, "final")})
	case 4:
		return l.add(turn, trace.ToolStart{ToolCallID: id, Name: text})
	case 5:
		return l.add(turn, trace.ToolResult{ToolCallID: id, Content: []trace.Content{trace.TextContent(text), trace.DiffContent(text, &text, text+"\n"+text)}})
	case 6, 7:
		opened[id] = true
		return l.add(turn, trace.Ask{AskID: id, Title: text, Text: text, Options: permission(id).Options})
	case 8:
		delete(opened, id)
		return l.add(turn, trace.AskResolved{AskID: id, ControlID: "id-" + id, Outcome: trace.AskText, Text: text})
	case 9:
		return l.add(turn, trace.ControlResult{ControlID: "id-" + id, Outcome: trace.ControlQueued, BlockedByAskID: id})
	case 10:
		return l.add(turn, trace.NewTodos([]trace.Todo{{Title: text}}, id))
	case 11:
		return l.add(turn, trace.RunState{State: trace.StatePaused})
	case 12:
		return l.raw(rapid.SampledFrom([]string{"assistant", "turn_start", "turn_end", "run_state"}).Draw(rt, "sealed"), turn, `{"hide":"x"}`)
	case 13:
		return l.echo(wire.Control{ID: "id-" + id, Kind: wire.ControlSend, Text: &text, FromDeviceID: phone})
	case 14:
		return l.raw("ask", turn, `{"ask_id":5}`)
	default:
		return l.add(turn, trace.User{Text: text})
	}
}

func anyStep(rt *rapid.T, m *model, l *log, opened map[string]bool) {
	switch rapid.IntRange(0, 9).Draw(rt, "step") {
	case 0:
		m.handle(tea.WindowSizeMsg{Width: rapid.IntRange(1, 210).Draw(rt, "width"), Height: rapid.IntRange(1, 70).Draw(rt, "height")})
	case 1, 2:
		keys := []string{"y", "n", "1", "x", "/", "enter", "tab", "pgup", "pgdown", "end", "home", "ctrl+o", "ctrl+t", "ctrl+up", "ctrl+down", "esc", "up", "down", "backspace", "f1"}
		m.handle(keyOf(rapid.SampledFrom(keys).Draw(rt, "key")))
	case 3:
		m.handle(tea.PasteMsg{Content: texts.Draw(rt, "paste")})
	case 4:
		var ids []string
		for _, ask := range m.live.asks {
			ids = append(ids, ask.AskID)
		}
		m.handle(armMsg{ids})
	case 5:
		online := rapid.Bool().Draw(rt, "online")
		m.handle(streamMsg{m.gen, []any{client.PresenceFrame{Presence: wire.Presence{DeviceID: phone, Role: wire.RoleViewer, Online: &online}}}})
	default:
		m.handle(streamMsg{m.gen, []any{anyEvent(rt, l, opened)}})
	}
}

func TestWhoIsHereInOneRow(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(o *setup) {
		for i := range o.detail.Members[0].Devices {
			o.detail.Members[0].Devices[i].Name += " of somebody with a name"
		}
	})
	s.begin()
	online := true
	for _, id := range []string{ownDevice, deskTop, phone, laptop} {
		s.frames(client.PresenceFrame{Presence: wire.Presence{DeviceID: id, Role: wire.RoleEditor, Online: &online}})
	}
	s.shows("idle · ○ laptop of so… ○ phone +2")
	s.m.handle(tea.WindowSizeMsg{Width: 110, Height: 24})
	s.shows("○ laptop of so… ○ phone ○ this device ○ work stati")
	for width := leastWidth; width < 200; width++ {
		s.m.handle(tea.WindowSizeMsg{Width: width, Height: 24})
		fits(t, s.m)
		row := s.m.standRow().text(false, 1000)
		require.LessOrEqual(t, columns(row), width)
		if named := strings.Count(row, "○"); width >= 80 && named < 4 {
			require.Contains(t, row, fmt.Sprintf("+%d", 4-named))
		}
	}
}

func TestHelpOnANarrowScreen(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.m.handle(tea.WindowSizeMsg{Width: 40, Height: 200})
	s.press("f1")
	s.shows("\n   page up, page down", "\n       scroll; also shift+up,\n       shift+down, the wheel", "/answer [ASK] TEXT\n       answer an ask")
	fits(t, s.m)
	s.m.handle(tea.WindowSizeMsg{Width: 80, Height: 200})
	s.shows("   enter                  sends, or steers while", "   /quit                  leave; the session goes on")
}

func TestDatesOfOldEvents(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(o *setup) { o.now = func() time.Time { return time.Unix(1_700_000_000, 0).AddDate(0, 0, 2) } })
	l := &s.log
	old := []entry{l.add("", trace.User{Text: "of an import"}), l.add("t", trace.TurnStart{Text: "x"}), l.add("t", trace.TurnEnd{Status: trace.TurnCompleted})}
	today := l.add("", trace.User{Text: "now"})
	today.event.TS = time.Unix(1_700_000_000, 0).AddDate(0, 0, 2).UnixMilli()
	turn := l.add("u", trace.TurnStart{Text: "y"})
	turn.event.TS = today.event.TS
	s.begin(append(old, today, turn)...)
	s.shows("── 2023-11-14 ──", "── turn · 2023-11-14 22:13 ──", "── today ──", "── turn · 22:13 ──")
	require.Equal(t, 1, strings.Count(s.screen(), "── 2023-11-14 ─"))
	s.m.now = func() time.Time { return time.Unix(1_700_000_000, 0).AddDate(0, 0, 3) }
	s.m.win.looks.now = s.m.now
	s.m.handle(idleMsg{})
	s.shows("── 2023-11-16 ──", "── turn · 2023-11-16 22:13 ──")
}
