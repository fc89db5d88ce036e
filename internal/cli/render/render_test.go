package render_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/internal/cli/render"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

const (
	deviceA = "11111111-1111-4111-8111-11111111aaaa"
	deviceB = "22222222-2222-4222-8222-22222222bbbb"
)

func event(kind, payload string) wire.Event {
	return wire.Event{Seq: 7, Kind: kind, TS: 1_700_000_000_000, SenderDeviceID: deviceA, Payload: json.RawMessage(payload)}
}

// lines is what each kind looks like; every kind of the vocabulary must be here.
var lines = []struct{ kind, payload, want string }{
	{"turn_start", `{"text":"fix\nit"}`, "▶ turn     fix⏎it"},
	{"turn_end", `{"status":"completed"}`, "■ turn     completed"},
	{"turn_end", `{"status":"failed","reason":"no disk"}`, "■ turn     failed (no disk)"},
	{"turn_end", `{"status":"cancelled"}`, "■ turn     cancelled"},
	{"step_start", `{"step":3}`, "· step     3"},
	{"req_start", `{"model":"m-1"}`, "· model    m-1"},
	{"local_gen", `{}`, "· local"},
	{"user", `{"text":"please"}`, "› user     please"},
	{"assistant", `{"text":"Sure.","final":true}`, "‹ agent    Sure."},
	{"assistant", `{"text":"hm","thought":true,"final":false}`, "‹ thinks   hm"},
	{"tool_start", `{"tool_call_id":"t","name":"bash","title":"List"}`, "⚙ tool     bash (List)"},
	{"tool_call", `{"tool_call_id":"t","name":"bash","args":{"cmd":"ls"}}`, `⚙ call     bash {"cmd":"ls"}`},
	{
		"tool_result", `{"tool_call_id":"t","status":"ok","content":[{"type":"text","text":"ok"},{"type":"diff","path":"a.go"},{"type":"terminal","text":"out"}]}`,
		"✓ result   ok | changed a.go | $ out",
	},
	{"tool_result", `{"tool_call_id":"t","status":"error","content":[{"type":"odd"}],"truncated":true}`, `✗ result   (cut) {"type":"odd"}`},
	{"tool_result", `{"tool_call_id":"t","status":"cancelled","content":[]}`, "– result   cancelled"},
	{
		"ask", `{"ask_id":"a1","ask_kind":"permission","title":"Run rm?","text":"all of it","options":[{"id":"y","label":"Allow","kind":"allow_once"},{"id":"n","label":"No","kind":"reject_once"}]}`,
		"? ASK      a1  Run rm? — all of it  Allow [y] / No [n]",
	},
	{"ask_resolved", `{"ask_id":"a1","outcome":"selected","option_id":"y","by_device_id":"` + deviceB + `"}`, "! answer   a1 → y  by …2222bbbb"},
	{"ask_resolved", `{"ask_id":"a1","outcome":"text","text":"later"}`, `! answer   a1 → "later"`},
	{"ask_resolved", `{"ask_id":"a1","outcome":"expired","reason":"too late"}`, "! answer   a1 expired (too late)"},
	{"control_result", `{"control_id":"c","outcome":"rejected","reason":"busy","blocked_by_ask_id":"a1"}`, "« outcome  c rejected (busy first answer a1)"},
	{"wait_user", `{"ask_id":"a1"}`, "? waits    for a person a1"},
	{"screen_wait", `{"position":2}`, "· waits    for the screen, number 2"},
	{"run_state", `{"state":"paused"}`, "‖ run      paused"},
	{
		"todos", `{"items":[{"id":"1","title":"read","status":"completed"},{"id":"2","title":"write","status":"in-progress"},{"id":"3","title":"rest","status":"not-started"}],"source":"tool","done":1,"total":3}`,
		"☑ todos    1/3  ✔ read  ▸ write  ○ rest",
	},
	{"usage", `{"prompt_tokens":10,"completion_tokens":2,"cached_tokens":5,"cost_micro_usd":1234}`, "· usage    10 tokens in, 2 out, 5 cached, 0.0012 USD"},
	{"deadline", `{"budget":"tool","ms":1500}`, "✗ deadline tool took longer than 1.5s"},
	{"error", `{"message":"broke","code":"E1"}`, "✗ error    broke (E1)"},
	{"custom_kind", `{"x":1}`, `· custom_kind {"x":1}`},
	{"user", `{"text":5}`, `· user     {"text":5}`},
	{"user", `{"hide":"YWdl"}`, "◆ user     sealed"},
	{"user", `{"hide":"YWdl","text":"seen"}`, "› user     seen"},
	{"lease_transferred", `{"from_device_id":"` + deviceA + `","to_device_id":"` + deviceB + `","forced":true}`, "⇄ lease    taken over from …1111aaaa by …2222bbbb"},
	{"lease_transferred", `[]`, "⇄ lease    []"},
	{
		"control", `{"control":{"id":"c","kind":"answer","ask_id":"a1","text":"yes","from_device_id":"` + deviceA + `"},"applied":false}`,
		"» control  answer a1: yes  from …1111aaaa",
	},
	{
		"control", `{"control":{"id":"c","kind":"send","mode":"open","target_device_id":"` + deviceB + `","from_device_id":"` + deviceA + `"}}`,
		"» control  open here → …2222bbbb  from …1111aaaa",
	},
	{"user", `{"text":"\u001b[31mred\u001b[0m\u202e"}`, "› user     red\uFFFD"},
	{"\x1b[31mevil\n", `{}`, "· evil⏎    {}"},
}

func TestEveryKindHasItsLine(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, one := range lines {
		seen[one.kind] = true
		require.Equal(t, "    7 22:13:20  "+one.want, render.Renderer{}.Event(event(one.kind, one.payload)), one.kind)
	}
	for _, kind := range []string{
		trace.KindTurnStart, trace.KindTurnEnd, trace.KindStepStart, trace.KindReqStart, trace.KindLocalGen, trace.KindUser,
		trace.KindAssistant, trace.KindToolStart, trace.KindToolCall, trace.KindToolResult, trace.KindAsk, trace.KindAskResolved,
		trace.KindControlResult, trace.KindWaitUser, trace.KindScreenWait, trace.KindRunState, trace.KindTodos, trace.KindUsage,
		trace.KindDeadline, trace.KindError, wire.KindControl, wire.KindLeaseTransferred,
	} {
		require.True(t, seen[kind], "no line of %s is tested", kind)
	}
}

func TestFrames(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		frame client.Frame
		want  string
	}{
		{client.EventFrame{Event: event("user", `{"text":"hi"}`)}, "    7 22:13:20  › user     hi"},
		{client.ControlFrame{Control: wire.Control{ID: "c1", Kind: "send", Applied: true}}, "                · applied  send c1"},
		{client.ControlFrame{Control: wire.Control{ID: "c1", Kind: "send", Seq: 51, Applied: true}}, "                · applied  send, event 51"},
		{client.ControlFrame{Control: wire.Control{ID: "c1", Kind: "send"}}, ""},
		{client.LeaseFrame{}, "                · lease    no executor"},
		{client.LeaseFrame{HolderDeviceID: new(deviceA)}, "                · lease    executor is …1111aaaa"},
		{client.PresenceFrame{Presence: wire.Presence{DeviceID: deviceA, Role: "editor", Online: new(true)}}, "                · presence …1111aaaa (editor) is here"},
		{client.PresenceFrame{Presence: wire.Presence{DeviceID: deviceA, Role: "editor", Driving: true}}, "                · presence …1111aaaa (editor) is driving"},
		{client.PresenceFrame{Presence: wire.Presence{DeviceID: deviceA, Role: "viewer", Online: new(false)}}, "                · presence …1111aaaa (viewer) left"},
		{client.ResetFrame{LastSeq: 3}, "                ! reset    the server's log was restored: events come again from the first"},
		{client.ConnectionFrame{State: client.Connected}, ""},
		{client.ConnectionFrame{State: client.Lost, RetryIn: 1234 * time.Millisecond}, "                · offline  connection lost, again in 1.2s"},
	} {
		require.Equal(t, one.want, render.Renderer{}.Frame(one.frame))
	}
}

func TestDevicesAreNamed(t *testing.T) {
	t.Parallel()
	named := render.Renderer{Names: map[string]string{deviceA: "Ada's \x1b[31mlaptop"}}
	require.Equal(t, "                · lease    executor is Ada's laptop", named.Frame(client.LeaseFrame{HolderDeviceID: new(deviceA)}))
	require.Equal(t, "                · lease    executor is …2222bbbb", named.Frame(client.LeaseFrame{HolderDeviceID: new(deviceB)}))
	require.Contains(t, named.Event(event("control", `{"control":{"id":"c","kind":"send","from_device_id":"`+deviceA+`"}}`)), "from Ada's laptop")
}

func TestLinesOfSpeechStay(t *testing.T) {
	t.Parallel()
	lines := render.Renderer{Lines: true}
	said := lines.Event(event("assistant", `{"text":"one\n\u001b[2Jtwo\n"}`))
	require.Equal(t, "    7 22:13:20  ‹ agent    one\n"+strings.Repeat(" ", render.Indent)+"two", said)
	require.Equal(t, render.Indent, strings.Index(said, "one")-len("‹")+1)
	require.NotContains(t, lines.Event(event("tool_call", `{"name":"a\nb","args":{}}`)), "\n", "data stays in one line")
}

func TestColourIsOnlyAroundText(t *testing.T) {
	t.Parallel()
	for _, one := range lines {
		coloured := render.Renderer{Color: true}.Event(event(one.kind, one.payload))
		require.Contains(t, coloured, "\x1b[", one.kind)
		require.Equal(t, strings.Count(coloured, "\x1b["), 2*strings.Count(coloured, "\x1b[0m"), coloured)
		require.Equal(t, render.Renderer{}.Event(event(one.kind, one.payload)), strings.TrimRight(render.Clean(coloured), " "), one.kind)
	}
}

func TestLongTextIsCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 100_000)
	require.Less(t, len([]rune(render.Renderer{}.Event(event("user", `{"text":"`+long+`"}`)))), 4100)
	require.Less(t, len([]rune(render.Renderer{}.Event(event("unknown", `{"text":"`+long+`"}`)))), 300)
}

func TestTimesAreShownInTheirLocation(t *testing.T) {
	t.Parallel()
	east := time.FixedZone("east", 3600)
	require.Contains(t, render.Renderer{Location: east}.Event(event("user", `{}`)), " 23:13:20 ")
}

func FuzzEvent(f *testing.F) {
	for _, one := range lines {
		f.Add(one.kind, one.payload)
	}
	f.Fuzz(func(t *testing.T, kind, payload string) {
		line := render.Renderer{}.Event(event(kind, payload))
		require.False(t, strings.ContainsFunc(line, unicode.IsControl), "%q", line)
	})
}

func TestRecordsThatAnImportKept(t *testing.T) {
	t.Parallel()
	kept := event("import:claude:progress", `{"record":{"type":"progress"}}`)
	require.Empty(t, render.Renderer{}.Event(kept))
	require.Contains(t, render.Renderer{Kept: true}.Event(kept), `import:claude:progress {"record"`)
}
