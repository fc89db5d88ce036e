package attach

import (
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/require"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	agentrun "github.com/cairnsync/cairn/internal/agent/run"
	"github.com/cairnsync/cairn/internal/testkit"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func fromPhone(id, text string) client.ControlFrame {
	return client.ControlFrame{Control: wire.Control{ID: id, Kind: wire.ControlSend, Text: &text, FromDeviceID: phone}}
}

func TestAPauseAtRestIsSeen(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.tell("t", trace.TurnStart{Text: "x"}, trace.TurnEnd{Status: trace.TurnCompleted})
	s.tell("", trace.RunState{State: trace.StatePaused})
	s.shows("paused · /resume", "paused: what you send waits; /resume goes on")
	own := only[sendEffect](t, s.enter("later")).control.ID
	s.m.handle(sentMsg{id: own})
	s.frames(fromPhone("p1", "and the docs"), fromPhone("p1", "and the docs"))
	s.tell("", trace.ControlResult{ControlID: own, Outcome: trace.ControlQueued, Reason: "the session is paused"})
	s.tell("", trace.ControlResult{ControlID: "p1", Outcome: trace.ControlQueued, Reason: "the session is paused"})
	s.shows("paused, 2 prompts wait · /resume", "send “later” · waits (the session is paused)", "phone sends “and the docs” · waits (the session is paused)")
	s.m.handle(tea.WindowSizeMsg{Width: 40, Height: 10})
	s.shows("paused, 2 prompts wait · work")
	fits(t, s.m)
	s.m.handle(tea.WindowSizeMsg{Width: 80, Height: 24})
	s.tell("", trace.RunState{State: trace.StateRunning})
	s.hides("the session is paused", "/resume")
	s.tell("p1", trace.TurnStart{Text: "and the docs", ControlID: "p1"})
	s.hides("phone sends “and")
	s.shows("send “later” · waits for the executor")
	s.frames(client.ControlFrame{Control: wire.Control{ID: own, Applied: true}})
	s.hides("◷")
}

func TestAPauseOutlivesItsTurn(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.tell("t", trace.TurnStart{Text: "x"}, trace.RunState{State: trace.StatePaused})
	s.shows("paused")
	s.tell("t", trace.TurnEnd{Status: trace.TurnCancelled})
	s.shows("paused · /resume")
	s.tell("u", trace.TurnStart{Text: "y"})
	s.hides("/resume")
}

func TestPromptsThatWaitFromBefore(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.frames(client.LeaseFrame{})
	effects := s.frames(client.ConnectionFrame{State: client.Lost}, fromPhone("gone", "old"), client.ConnectionFrame{State: client.Connected})
	asked := only[pendingEffect](t, effects)
	require.Equal(t, []string{"gone"}, asked.ids)
	s.tell("raced", trace.TurnStart{ControlID: "raced"}, trace.TurnEnd{Status: trace.TurnCompleted})
	s.m.handle(pendingMsg{asked: asked.ids, waits: map[string]bool{"new": true, "raced": true}, prompts: []wire.Control{
		fromPhone("new", "do it").Control, fromPhone("raced", "done already").Control, {ID: "x", Kind: wire.ControlCancel, FromDeviceID: phone},
	}})
	s.shows("phone sends “do it” · waits for an agent")
	s.hides("“old”", "done already", "cancels")
	for range 2 * maxWishes {
		s.ids++
		s.frames(fromPhone(s.m.newID(), "more"))
	}
	require.Len(t, s.m.waits, maxWishes)
	fits(t, s.m)
	s.frames(client.ResetFrame{})
	require.Empty(t, s.m.waits)
}

func TestAPausedSessionOnAServer(t *testing.T) {
	t.Parallel()
	r := newRoom(t, testkit.New(t, testkit.SQLite))
	_, err := r.client(r.owner, phone, "phone", "").SendControl(t.Context(), r.session.ID, wire.IncomingControl{ID: "c", Kind: wire.ControlSend, Text: given("look at this")})
	require.NoError(t, err)
	w := r.attach(r.client(r.owner, laptop, "laptop", ""), nil)
	w.shows("phone sends “look at this” · waits for an agent")
	r.execute()
	require.Equal(t, "c", r.control().ID)
	w.hides("◷")
	r.emit("", trace.RunState{State: trace.StatePaused})
	w.shows("paused · /resume")
	r.emit("", trace.RunState{State: trace.StateRunning})
	w.shows("idle")
}

func TestWaitingLinesEnd(t *testing.T) {
	t.Parallel()
	queued := func(l *log, id, ask string) entry {
		return l.add("", trace.ControlResult{ControlID: id, Outcome: trace.ControlQueued, Reason: "why", BlockedByAskID: ask})
	}
	var l log
	first := []entry{l.add("", trace.RunState{State: trace.StatePaused}), queued(&l, "a", ""), queued(&l, "b", "q")}
	require.Equal(t, "‖ paused\n« control a: waits (why)\n« control b: waits, first answer: q (why)", foldRows(false, first...))
	first = append(first, l.add("", trace.RunState{State: trace.StateRunning}))
	require.Equal(t, "‖ paused\n« control b: waits, first answer: q (why)\n‖ goes on", foldRows(false, first...))
	first = append(first, l.add("", trace.ControlResult{ControlID: "b", Outcome: trace.ControlApplied}))
	require.Equal(t, "‖ paused\n‖ goes on", foldRows(false, first...))
}

func TestATurnThatWasCutOff(t *testing.T) {
	t.Parallel()
	s := open(t)
	require.Empty(t, all[sendEffect](s.enter("/again")))
	s.shows("no turn whose prompt is known")
	s.tell("t", trace.TurnStart{Text: "fix\nthe build"})
	require.Empty(t, all[sendEffect](s.enter("/again")))
	s.shows("that turn runs still")
	s.tell("t", trace.TurnEnd{Status: trace.TurnFailed, Reason: agentrun.LostReason})
	s.shows("── enter sends a new turn · the last was cut off; /again sends its prompt again")
	again := only[sendEffect](t, s.enter("/again")).control
	require.Equal(t, wire.IncomingControl{ID: "id-1", Kind: wire.ControlSend, Text: given("fix\nthe build")}, again)
	s.tell("id-1", trace.TurnStart{Text: "fix\nthe build", ControlID: "id-1"}, trace.TurnEnd{Status: trace.TurnFailed, Reason: "the model is away"})
	s.hides("cut off")
	require.Len(t, all[sendEffect](s.enter("/again")), 1, "any last turn can be had again")
}
