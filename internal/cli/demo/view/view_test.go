package view

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/internal/cli/render"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

var (
	laptop = Device{"00000000-0000-4000-8000-00000000000a", "Ana's laptop"}
	phone  = Device{"00000000-0000-4000-8000-00000000000b", "Ana's phone"}
)

func newScene(color bool) *Scene {
	s := New("One cent off", "SQLite", []Device{laptop, phone}, render.Renderer{Color: color})
	s.Follow(phone, "SSE")
	return s
}

func (s *Scene) tell(from Device, payload trace.Payload) bool {
	made := trace.Must("t", payload)
	return s.Event(wire.Event{Seq: s.lastSeq + 1, Kind: made.Kind, SenderDeviceID: from.ID, Payload: made.Payload})
}

func TestPicture(t *testing.T) {
	t.Parallel()
	s := newScene(false)
	s.Elapsed = 12345 * time.Millisecond
	yes, cost := true, int64(4200)
	s.Lease(client.LeaseFrame{HolderDeviceID: &laptop.ID})
	s.Presence(wire.Presence{DeviceID: laptop.ID, Driving: true, Online: &yes})
	s.Presence(wire.Presence{DeviceID: "somebody else", Online: &yes})
	s.tell(laptop, trace.Assistant{Text: "I will look."})
	s.tell(laptop, trace.Assistant{Text: " Then act.", Final: true})
	s.tell(laptop, trace.ToolStart{ToolCallID: "c", Name: "read_file", Title: "README.md"})
	s.tell(laptop, trace.ToolCall{ToolCallID: "c", Name: "read_file", Args: []byte("{}")})
	s.tell(laptop, trace.NewTodos([]trace.Todo{{ID: "1", Title: "Look", Status: trace.TodoCompleted}, {ID: "2", Title: "Act", Status: trace.TodoInProgress}}, "c"))
	s.tell(laptop, trace.Usage{PromptTokens: 1500, CompletionTokens: 100, CostMicroUSD: &cost})
	s.Note("Ana's phone loses its connection")
	follower := s.Follower(phone.ID)
	follower.State, follower.Seq = Offline, 3

	require.Equal(t, strings.TrimPrefix(`
 cairn demo  One cent off 1.6k tokens · $0.004 · SQLite · 6 events · 12.3s
 Executor  Ana's laptop
 Here      ● Ana's laptop (driving)  ○ Ana's phone
──────────────────────────────────────────────────────────────────────────
    1 00:00:00  ‹ agent    I will look. Then act.
    3 00:00:00  ⚙ tool     read_file (README.md)
   ━━ Ana's phone loses its connection
──────────────────────────────────────────────────────────────────────────
 Todos     1/2  ▸ Act
 Ana's phone       SSE        ━━━━━━······    3  offline, 3 behind`, "\n"), plainPicture(s.Lines(74, 14)))
}

// plainPicture drops what only fills lines up.
func plainPicture(lines []string) string {
	var kept []string
	for _, line := range lines {
		if line = strings.TrimRight(strings.ReplaceAll(line, noBreak, " "), " "); line != "" {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

func TestWidePictureHasTheListBeside(t *testing.T) {
	t.Parallel()
	s := newScene(false)
	s.tell(laptop, trace.NewTodos([]trace.Todo{{ID: "1", Title: "Look", Status: trace.TodoCompleted}, {ID: "2", Title: "Act"}}, "c"))
	text := strings.Join(s.Lines(wideWidth, 20), "\n")
	require.Contains(t, text, "│ Todos  1/2")
	require.Contains(t, text, "│ ✔ Look")
	require.NotContains(t, text, " Todos     ")
}

func TestEventsAreShownInOrderOnce(t *testing.T) {
	t.Parallel()
	s := newScene(false)
	event := func(seq int64) wire.Event {
		return wire.Event{Seq: seq, Kind: trace.KindUser, Payload: []byte(fmt.Sprintf(`{"text":"said %d"}`, seq))}
	}
	require.False(t, s.Event(event(2)), "1 is not there yet")
	require.True(t, s.Event(event(1)))
	require.False(t, s.Event(event(1)))
	require.True(t, s.Event(event(2)))
	require.EqualValues(t, 2, s.LastSeq())
	require.Equal(t, 1, strings.Count(strings.Join(s.Lines(80, 24), "\n"), "said 1"))
}

func TestPiecesGrowOnlyTogether(t *testing.T) {
	t.Parallel()
	s := newScene(false)
	s.tell(laptop, trace.Assistant{Text: "a", Thought: true})
	s.tell(laptop, trace.Assistant{Text: "b"})
	s.tell(phone, trace.Assistant{Text: "c"})
	s.tell(phone, trace.Assistant{Text: "d", Final: true})
	s.tell(phone, trace.Assistant{Text: "e"})
	s.Note("between")
	s.tell(phone, trace.Assistant{Text: "f"})
	require.Len(t, s.entries, 6, "only c and d are one")
}

func TestForcedTransferIsNamed(t *testing.T) {
	t.Parallel()
	s := newScene(false)
	s.Lease(client.LeaseFrame{HolderDeviceID: &phone.ID})
	s.Event(wire.Event{Seq: 1, Kind: wire.KindLeaseTransferred, Payload: []byte(fmt.Sprintf(
		`{"from_device_id":%q,"to_device_id":%q,"forced":true}`, laptop.ID, phone.ID))})
	text := strings.Join(s.Lines(80, 24), "\n")
	require.Contains(t, text, "Executor  Ana's phone  (took the lease by force)")
	require.Contains(t, text, "taken over from Ana's laptop by Ana's phone")
	s.Lease(client.LeaseFrame{})
	require.Contains(t, strings.Join(s.Lines(80, 24), "\n"), "Executor  nobody")
}

func TestPresenceEnds(t *testing.T) {
	t.Parallel()
	s, no := newScene(false), false
	s.Presence(wire.Presence{DeviceID: phone.ID})
	require.Contains(t, plainPicture(s.Lines(80, 24)), "● Ana's phone")
	s.Presence(wire.Presence{DeviceID: phone.ID, Online: &no})
	require.Contains(t, plainPicture(s.Lines(80, 24)), "○ Ana's phone")
}

func TestEntriesAreBounded(t *testing.T) {
	t.Parallel()
	s := newScene(false)
	for i := range maxEntries + 10 {
		s.Note(fmt.Sprintf("note %d.", i))
	}
	require.Len(t, s.entries, maxEntries)
	require.Equal(t, "note 10.", s.entries[0].note)
}

// wide characters take two columns each.
const wide = "ｗｉｄ"

// only SGR sequences and printable text may reach the terminal.
var allowed = regexp.MustCompile(`^(\x1b\[[0-9;]*m|[^\x00-\x1f\x7f-\x9f])*$`)

func TestPictureFitsWhateverIsSaid(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newScene(rapid.Bool().Draw(t, "color"))
		texts := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
			"\x1b[2J\x1b[H", wide, "a\u0301e\u0301", strings.Repeat("x", 300), strings.Repeat("y ", 200), "👩‍👩‍👧", "\r\n\t", "\u202e",
		}))
		for range rapid.IntRange(0, 30).Draw(t, "events") {
			text := texts.Draw(t, "text")
			switch rapid.IntRange(0, 4).Draw(t, "kind") {
			case 0:
				s.tell(laptop, trace.Assistant{Text: text, Final: rapid.Bool().Draw(t, "final")})
			case 1:
				s.tell(laptop, trace.NewTodos([]trace.Todo{{Title: text, Status: trace.TodoInProgress}, {Title: text}}, ""))
			case 2:
				s.tell(phone, trace.Ask{AskID: text, Title: text, Options: []trace.Option{{ID: text, Label: text}}})
			default:
				s.tell(phone, trace.ToolResult{Status: trace.ToolError, Content: []trace.Content{trace.TextContent(text)}})
			}
		}
		width, height := rapid.IntRange(MinWidth, 200).Draw(t, "width"), rapid.IntRange(MinHeight, 60).Draw(t, "height")
		lines := s.Lines(width, height)
		require.LessOrEqual(t, len(lines), height)
		for _, line := range lines {
			require.LessOrEqual(t, Width(line), width, "%q", line)
			require.Regexp(t, allowed, line)
			require.Empty(t, styleAfter(line), "%q colours what follows", line)
		}
	})
}

func TestCutKeepsStylesWhole(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		line    string
		columns int
		want    string
	}{
		{"short", 5, "short"},
		{"longer", 5, "long…"},
		{"\x1b[31mred\x1b[0m", 3, "\x1b[31mred\x1b[0m"},
		{"\x1b[31mlonger\x1b[0m", 4, "\x1b[31mlon…\x1b[0m"},
		{wide, 5, wide[:2*len("ｗ")] + "…"},
		{wide, 4, wide[:len("ｗ")] + "…"},
	} {
		require.Equal(t, one.want, Cut(one.line, one.columns))
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"one two", "  three", "  four"}, Wrap("one two three four", 9, 2, 5))
	require.Equal(t, []string{"one two", "  three fo…"}, Wrap("one two three four five", 11, 2, 2))
	require.Equal(t, []string{"aaaa", " bbb", " b"}, Wrap("aaaabbbb", 4, 1, 5), "no space to break at")
	require.Equal(t, []string{"\x1b[31mone\x1b[0m", " \x1b[31mtwo\x1b[0m"}, Wrap("\x1b[31mone two\x1b[0m", 5, 1, 5), "the style goes on")
}

func TestTerminalIsGivenBack(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	terminal, err := Enter(&out)
	require.NoError(t, err)
	require.NoError(t, terminal.Draw([]string{"a", "b"}))
	drawn := out.Len()
	require.NoError(t, terminal.Draw([]string{"a", "b"}))
	require.Equal(t, drawn, out.Len(), "what did not change is not drawn again")
	require.NoError(t, terminal.Leave())
	require.Equal(t, enterScreen+beginFrame+"a\x1b[K\r\nb\x1b[K"+endFrame+leaveScreen, out.String())
}
