package attach

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/require"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func TestPromptSendsOrSteers(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.shows("enter sends a new turn")
	sent := only[sendEffect](t, s.enter("hello")).control
	require.Equal(t, wire.ControlSend, sent.Kind)
	require.Equal(t, "hello", *sent.Text)
	s.shows("send “hello”", "sending")
	s.m.handle(sentMsg{id: sent.ID})
	s.shows("waits for the executor")
	s.tell("t", trace.TurnStart{Text: "hello", ControlID: sent.ID})
	s.hides("waits for the executor")
	s.shows("enter steers the running turn")
	require.Equal(t, wire.ControlSteer, only[sendEffect](t, s.enter("wait")).control.Kind)
	s.frames(client.LeaseFrame{})
	s.shows("no agent runs: what you send waits for one", "interrupted")
	require.Equal(t, wire.ControlSend, only[sendEffect](t, s.enter("anybody?")).control.Kind)
}

func TestCommands(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]wire.IncomingControl{
		"/send new task":          {Kind: wire.ControlSend, Text: given("new task")},
		"/steer left":             {Kind: wire.ControlSteer, Text: given("left")},
		"/inject a b":             {Kind: wire.ControlInject, Text: given("a b")},
		"/cancel":                 {Kind: wire.ControlCancel, TurnID: given("t")},
		"/pause":                  {Kind: wire.ControlPause},
		"/resume":                 {Kind: wire.ControlResume},
		"/approve":                {Kind: wire.ControlApprove, AskID: given("ask-a")},
		"/approve ask-b":          {Kind: wire.ControlApprove, AskID: given("ask-b")},
		"/approve 2":              {Kind: wire.ControlApprove, AskID: given("ask-b")},
		"/deny #3":                {Kind: wire.ControlDeny, AskID: given("other")},
		"/deny oth":               {Kind: wire.ControlDeny, AskID: given("other")},
		"/answer ask-b maybe not": {Kind: wire.ControlAnswer, AskID: given("ask-b"), Text: given("maybe not")},
		"/answer maybe not":       {Kind: wire.ControlAnswer, AskID: given("ask-a"), Text: given("maybe not")},
		"//etc is a folder":       {Kind: wire.ControlSteer, Text: given("/etc is a folder")},
		"/ap":                     {Kind: wire.ControlApprove, AskID: given("ask-a")},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			s.tell("t", trace.TurnStart{Text: "x"}, permission("ask-a"), permission("ask-b"), permission("other"))
			want.ID = "id-1"
			require.Equal(t, want, only[sendEffect](t, s.enter(line)).control)
			require.True(t, s.m.editor.empty())
		})
	}
}

func TestCommandsThatCannot(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"/steer":            "say what: /steer TEXT",
		"/approve":          "nothing is asked",
		"/approve nope":     "nothing is asked",
		"/answer":           "nothing is asked",
		"/frobnicate":       "is no command",
		"/s hi":             "/s could be /send or /steer",
		"/a":                "/a could be /again, /approve or /answer",
		"/dispatch":         "/dispatch DEVICE TEXT",
		"/dispatch laptop":  "/dispatch DEVICE TEXT",
		"/dispatch phone x": "the owner has no device called phone",
		"/dispatch 0000 x":  "several devices begin with 0000",
		"/take":             "--command",
		"/cancel":           "no turn runs",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			s.tell("t", trace.TurnStart{}, trace.TurnEnd{Status: trace.TurnCompleted})
			effects := s.enter(line)
			s.m.handle(detailMsg{detail: s.m.setup.detail})
			require.Empty(t, all[sendEffect](effects))
			require.Empty(t, all[dispatchEffect](effects))
			s.shows(want)
		})
	}
}

func TestDispatchByName(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"/dispatch laptop run it":            laptop,
		"/dispatch LAP run it":               laptop,
		"/dispatch work station run it":      deskTop,
		`/dispatch "work station" run it`:    deskTop,
		"/dispatch work run it":              deskTop,
		"/dispatch " + laptop + " run it":    laptop,
		"/dispatch this run it":              ownDevice,
		"/dispatch " + deskTop + "   run it": deskTop,
	} {
		s := open(t)
		dispatch := only[dispatchEffect](t, s.enter(line)).dispatch
		require.Equal(t, want, dispatch.DeviceID, line)
		require.Equal(t, "run it", strings.TrimPrefix(*dispatch.Text, "station "), line)
		require.Equal(t, "dispatch:id-1", *dispatch.ControlID)
		s.m.handle(sentMsg{id: "dispatch:id-1", dispatch: &wire.DispatchReceipt{TargetDeviceID: want, PushReason: wire.PushNoPushToken}})
		s.shows("dispatched to")
	}
}

func TestOneKeyAnswers(t *testing.T) {
	t.Parallel()
	question := trace.Ask{AskID: "q", AskKind: trace.AskQuestion, Title: "Which?", Options: []trace.Option{
		{ID: "red", Label: "Red", Kind: trace.Choice}, {ID: "blue", Label: "Blue", Kind: trace.Choice},
	}}
	for _, one := range []struct {
		name string
		ask  trace.Ask
		keys []string
		want wire.IncomingControl
	}{
		{"y approves", permission("a"), []string{"y"}, wire.IncomingControl{Kind: wire.ControlApprove, AskID: given("a")}},
		{"n denies", permission("a"), []string{"n"}, wire.IncomingControl{Kind: wire.ControlDeny, AskID: given("a")}},
		{"2 picks", permission("a"), []string{"2"}, wire.IncomingControl{Kind: wire.ControlAnswer, AskID: given("a"), Text: given("always")}},
		{"1 picks a choice", question, []string{"1"}, wire.IncomingControl{Kind: wire.ControlAnswer, AskID: given("q"), Text: given("red")}},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			s.tell("t", trace.TurnStart{}, one.ask)
			s.arm()
			one.want.ID = "id-1"
			require.Equal(t, one.want, only[sendEffect](t, s.press(one.keys...)).control)
			require.Empty(t, all[sendEffect](s.press(one.keys...)), "an ask is answered once")
		})
	}
	t.Run("a key without an answer is typed", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		s.tell("t", trace.TurnStart{}, question)
		s.arm()
		require.Empty(t, all[sendEffect](s.press("y", "3")))
		require.Equal(t, "y3", s.m.editor.text)
	})
	t.Run("an ask that has just come is not hit by accident", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		timers := all[timerEffect](s.tell("t", trace.TurnStart{}, permission("a")))
		require.Contains(t, timers, timerEffect{armAfter, armMsg{[]string{"a"}}})
		require.Empty(t, all[sendEffect](s.press("y")))
		s.shows("has just come")
		require.True(t, s.m.editor.empty())
		s.arm()
		require.Len(t, all[sendEffect](s.press("y")), 1)
	})
	t.Run("with words in the prompt keys are words", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		s.tell("t", trace.TurnStart{}, permission("a"))
		s.arm()
		require.Empty(t, all[sendEffect](s.press("o", "n", "y")))
		require.Equal(t, "ony", s.m.editor.text)
	})
}

func TestFiveAsksInAnyOrder(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.tell("t", trace.TurnStart{}, permission("a"), permission("b"), permission("c"), permission("d"), permission("e"))
	s.arm()
	s.shows("#1", "#5", "Run a", "Run e")
	var answered []string
	for _, keys := range [][]string{{"tab", "tab", "n"}, {"y"}, {"shift+tab", "shift+tab", "y"}, {"n"}, {"1"}} {
		answered = append(answered, *only[sendEffect](t, s.press(keys...)).control.AskID)
	}
	require.ElementsMatch(t, []string{"a", "b", "c", "d", "e"}, answered)
	require.Equal(t, []string{"c", "d"}, answered[:2])
	for i, id := range answered {
		s.tell("t", trace.AskResolved{AskID: id, Outcome: trace.AskSelected, OptionID: "no", ControlID: fmt.Sprintf("id-%d", i+1), ByDeviceID: ownDevice})
	}
	require.Empty(t, s.m.live.asks)
	require.Empty(t, s.m.outbox)
	require.Empty(t, s.m.armed)
	require.Empty(t, s.m.notice, "one's own answers are no news")
}

func TestAnAskAnsweredElsewhere(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.tell("t", trace.TurnStart{}, permission("a"), permission("b"))
	s.tell("t", trace.AskResolved{AskID: "a", Outcome: trace.AskSelected, OptionID: "once", ControlID: "x", ByDeviceID: phone})
	s.shows("“Run a”: Allow once, by phone", "#1 Run b")
	require.Len(t, s.m.live.asks, 1)
}

func TestOutcomesOfOwnControls(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		result trace.ControlResult
		left   int
		shows  string
	}{
		{trace.ControlResult{Outcome: trace.ControlApplied}, 0, ""},
		{trace.ControlResult{Outcome: trace.ControlRejected, Reason: "not now"}, 0, "rejected (not now)"},
		{trace.ControlResult{Outcome: trace.ControlSuperseded}, 0, "superseded"},
		{trace.ControlResult{Outcome: trace.ControlExpired}, 0, "expired"},
		{trace.ControlResult{Outcome: trace.ControlQueued, BlockedByAskID: "a"}, 1, "waits, first answer: Run a"},
	} {
		s := open(t)
		s.tell("t", trace.TurnStart{}, permission("a"))
		one.result.ControlID = only[sendEffect](t, s.enter("faster")).control.ID
		s.tell("t", one.result)
		require.Len(t, s.m.outbox, one.left)
		s.shows(one.shows)
	}
	t.Run("a control that was applied is not listed", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		id := only[sendEffect](t, s.enter("faster")).control.ID
		s.frames(client.ControlFrame{Control: wire.Control{ID: id, Applied: true}})
		require.Empty(t, s.m.outbox)
		s.m.handle(sentMsg{id: id, err: errors.New("late")})
		require.Empty(t, s.m.outbox)
	})
}

func TestRetries(t *testing.T) {
	t.Parallel()
	t.Run("SS-CON-2 one id per intention, kept across retries", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		first := only[sendEffect](t, s.enter("hello")).control
		for range 8 {
			timer := only[timerEffect](t, s.m.handle(sentMsg{id: first.ID, err: errors.New("no route")}))
			require.LessOrEqual(t, timer.after, 15*time.Second)
			s.shows("trying again")
			require.Equal(t, first, only[sendEffect](t, s.m.handle(timer.msg)).control)
		}
		s.m.handle(sentMsg{id: first.ID})
		s.shows("waits for the executor")
		require.Empty(t, all[sendEffect](s.m.handle(retryMsg{first.ID})))
	})
	t.Run("a refusal is said and not repeated", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		id := only[sendEffect](t, s.enter("hello")).control.ID
		effects := s.m.handle(sentMsg{id: id, err: &client.APIError{Status: 403, Code: code.NotAMember, Message: "no more"}})
		require.Len(t, all[detailEffect](effects), 1)
		require.Empty(t, s.m.outbox)
		s.shows("refused: no more")
		s.press("up")
		require.Equal(t, "hello", s.m.editor.text)
	})
	t.Run("what waits is bounded", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		for range maxWishes {
			require.Len(t, all[sendEffect](s.enter("more")), 1)
		}
		require.Empty(t, all[sendEffect](s.enter("one too many")))
		require.Equal(t, "one too many", s.m.editor.text)
	})
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	t.Run("a viewer is told before", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, func(o *setup) { o.detail = detailFor(wire.RoleViewer) })
		s.begin()
		s.tell("t", trace.TurnStart{}, permission("a"))
		s.arm()
		s.shows("read-only: you are a viewer", "Run a")
		s.hides("[y]")
		require.Empty(t, all[sendEffect](s.press("y", "h", "i", "enter")))
		require.Empty(t, all[sendEffect](s.enter("/steer x")))
		s.press("ctrl+c")
		require.Len(t, all[quitEffect](s.enter("/quit")), 1)
		s.m.handle(tea.PasteMsg{Content: "x"})
		online := true
		s.frames(client.PresenceFrame{Presence: wire.Presence{DeviceID: ownDevice, Role: wire.RoleEditor, Online: &online}})
		s.press("ctrl+c")
		s.m.handle(noticeMsg{s.m.noticeNumber})
		s.hides("read-only")
		s.shows("[y] approve")
	})
	for want, err := range map[string]error{
		"you may not see this session any more":   &client.ClosedError{Code: code.CloseNoAccess},
		"the session was deleted":                 &client.ClosedError{Code: code.CloseNotFound},
		"your key or device is not accepted":      &client.ClosedError{Code: code.CloseBadKey},
		"your key is not accepted any more":       &client.APIError{Status: 401, Code: code.InvalidAPIKey},
		"the stream ended: nobody knows":          errors.New("nobody \x1b[31mknows"),
		"you may not see this session any more; ": &client.APIError{Status: 403, Code: code.NotAMember},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			s.tell("t", trace.TurnStart{}, trace.Assistant{Text: "what was said"})
			s.enter("hm")
			s.m.handle(streamEndMsg{0, err})
			s.shows(want, "what was said", "read-only", "ended")
			require.Empty(t, all[sendEffect](s.enter("x")))
			require.Empty(t, s.m.outbox)
		})
	}
}

func TestLeaving(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.press("a")
	require.Empty(t, all[quitEffect](s.press("ctrl+c")))
	s.shows("ctrl+c again leaves")
	s.press("b")
	require.Empty(t, all[quitEffect](s.press("ctrl+c")))
	s.m.handle(hintMsg{})
	require.Empty(t, all[quitEffect](s.press("ctrl+c")))
	require.Len(t, all[quitEffect](s.press("ctrl+c")), 1)
	require.Len(t, all[quitEffect](s.enter("/quit")), 1)
	s.enter("hello")
	require.Empty(t, all[quitEffect](s.enter("/quit")), "what was not sent is not given up by accident")
	s.shows("gives up what was not sent yet (1)")
	require.Len(t, all[quitEffect](s.press("enter")), 1)
	require.Len(t, all[redrawEffect](s.press("ctrl+l")), 1)
}

func TestAttention(t *testing.T) {
	t.Parallel()
	t.Run("follows the focus that the terminal reports", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, nil)
		require.True(t, s.m.attention)
		require.Equal(t, presenceEffect{}, only[presenceEffect](t, s.m.handle(tea.BlurMsg{})))
		require.Equal(t, presenceEffect{attention: true}, only[presenceEffect](t, s.m.handle(tea.FocusMsg{})))
		s.at = s.at.Add(time.Hour)
		require.Empty(t, all[presenceEffect](s.m.handle(idleMsg{})))
	})
	t.Run("ends after a while without keys where focus is not reported", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, nil)
		s.at = s.at.Add(idleAfter - time.Second)
		require.Empty(t, all[presenceEffect](s.m.handle(idleMsg{})))
		s.at = s.at.Add(time.Second)
		require.Equal(t, presenceEffect{}, only[presenceEffect](t, s.m.handle(idleMsg{})))
		require.Equal(t, presenceEffect{attention: true}, only[presenceEffect](t, s.press("x")))
	})
}

func TestOverlays(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.frames(client.PresenceFrame{Presence: wire.Presence{DeviceID: phone, Role: wire.RoleEditor, Attention: true}})
	s.shows("◉ phone")
	s.enter("/who")
	s.shows("◉ phone, editor", "work station drives", "whose devices")
	s.press("esc")
	s.hides("whose devices")
	s.press("f1")
	s.shows("keys and commands", "approve, deny the selected ask")
	s.press("end")
	s.shows("/quit")
	s.press("x")
	require.Equal(t, "x", s.m.editor.text)
	s.hides("keys and commands")
}
