package script

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/cairnsync/cairn/client/sessions/trace"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// small is a recording with one of everything.
func small(t require.TestingT) Recording {
	run, err := parse([]byte(`{"wait":1,"turn":"t1","kind":"turn_start","payload":{"text":"a"}}
{"wait":1,"turn":"t1","kind":"step_start","payload":{"step":1}}
{"wait":1,"turn":"t1","kind":"assistant","payload":{"text":"b","final":true},"cue":{"do":"pause","after":5,"again":6}}
{"wait":1,"turn":"t1","kind":"step_start","payload":{"step":2}}
{"wait":1,"turn":"t1","kind":"ask","payload":{"ask_id":"q","ask_kind":"permission","title":"?","options":[{"id":"y","label":"Yes","kind":"allow_once"},{"id":"n","label":"No","kind":"reject_once"}]}}
{"wait":1,"turn":"t1","kind":"wait_user","payload":{"ask_id":"q"}}
{"wait":1,"turn":"t1","kind":"assistant","payload":{"text":"c","final":true},"hold":"steer"}
{"wait":1,"turn":"t1","kind":"assistant","payload":{"text":"d","final":true},"hold":"takeover"}
{"wait":1,"turn":"t1","kind":"turn_end","payload":{"status":"completed"}}
{"wait":1,"turn":"t2","kind":"turn_start","payload":{"text":"?"},"hold":"send"}
{"wait":1,"turn":"t2","kind":"turn_end","payload":{"status":"completed"}}`))
	require.NoError(t, err)
	return run
}

// play is a session's log and who plays into it.
type play struct {
	run Recording
	*Player

	log   []wire.Event
	named int
}

func newPlay(run Recording) *play { return &play{run: run, Player: New(run)} }

func (p *play) store(events []wire.IncomingEvent) []string {
	var kinds []string
	for _, event := range events {
		stored := asEvent(event)
		stored.Seq = int64(len(p.log) + 1)
		p.log = append(p.log, stored)
		kinds = append(kinds, event.Kind)
	}
	return kinds
}

// until advances until something else is needed.
func (p *play) until() Standing {
	for {
		standing, _ := p.Next()
		if standing != Ready {
			return standing
		}
		p.store(p.Advance())
	}
}

// control sends a control as the server does: its echo first.
func (p *play) control(kind wire.ControlKind) []string {
	p.named++
	text := "text of " + string(kind)
	control := wire.Control{ID: string(kind) + string(rune('a'+p.named%26)), Kind: kind, Text: &text, FromDeviceID: "desktop"}
	echo := trace.Must("", trace.Unknown{Name: wire.KindControl, Raw: []byte(`{"control":{"id":"` + control.ID + `","kind":"` + string(kind) + `"}}`)})
	p.store([]wire.IncomingEvent{echo})
	return p.store(p.Control(control))
}

// takeOver goes on as another device.
func (p *play) takeOver() {
	p.store([]wire.IncomingEvent{trace.Must("", trace.Unknown{Name: wire.KindLeaseTransferred, Raw: []byte(`{}`)})})
	p.Player = Restore(p.run, p.log)
}

func (p *play) lastResult(t require.TestingT) trace.ControlResult {
	result, ok := read[trace.ControlResult](p.log[len(p.log)-1])
	require.True(t, ok, p.log[len(p.log)-1].Kind)
	return result
}

func TestPlayToTheEnd(t *testing.T) {
	t.Parallel()
	p := newPlay(small(t))
	require.Equal(t, Waiting, p.until())
	require.Equal(t, "q", p.ask.AskID)
	require.Equal(t, []string{trace.KindAskResolved, trace.KindControlResult}, p.control(wire.ControlApprove))
	require.Equal(t, Waiting, p.until(), "a hold")
	p.control(wire.ControlSteer)
	require.Equal(t, Waiting, p.until(), "the first device stops here")
	p.takeOver()
	require.Equal(t, Waiting, p.until(), "nobody sent the next turn")
	require.Empty(t, p.turn)
	p.control(wire.ControlSend)
	require.Equal(t, Finished, p.until())
	require.Zero(t, p.run.Missing(p.log))
	for _, event := range p.log {
		if start, ok := read[trace.TurnStart](event); ok && event.TurnID != nil && *event.TurnID == "t2" {
			require.Equal(t, "text of send", start.Text)
			require.NotEmpty(t, start.ControlID)
		}
	}
}

func TestPauseHoldsAtTheStepBoundary(t *testing.T) {
	t.Parallel()
	p := newPlay(small(t))
	p.store(p.Advance())
	p.store(p.Advance()) // step 1
	require.Empty(t, p.control(wire.ControlPause), "the step goes on")
	require.Equal(t, Waiting, p.until())
	require.True(t, p.paused)
	require.Equal(t, 3, p.next, "stopped before step 2")
	require.Equal(t, trace.ControlApplied, p.lastResult(t).Outcome)
	require.Equal(t, "t1", p.turn, "the turn stays open")

	require.Equal(t, []string{trace.KindControlResult}, p.control(wire.ControlPause))
	require.Equal(t, trace.ControlRejected, p.lastResult(t).Outcome)
	p.takeOver()
	require.True(t, p.paused, "also on another device")
	require.Equal(t, []string{trace.KindRunState, trace.KindControlResult}, p.control(wire.ControlResume))
	require.Equal(t, Waiting, p.until())
	require.NotNil(t, p.ask)
}

func TestResumeOvertakesAPause(t *testing.T) {
	t.Parallel()
	p := newPlay(small(t))
	p.store(p.Advance())
	p.control(wire.ControlPause)
	require.Equal(t, []string{trace.KindControlResult, trace.KindControlResult}, p.control(wire.ControlResume))
	require.Equal(t, Waiting, p.until())
	require.False(t, p.paused)
}

func TestDenialEndsTheTurn(t *testing.T) {
	t.Parallel()
	p := newPlay(small(t))
	p.until()
	require.Equal(t, []string{trace.KindAskResolved, trace.KindControlResult, trace.KindTurnEnd}, p.control(wire.ControlDeny))
	require.Empty(t, p.turn)
	require.Equal(t, trace.KindTurnStart, p.run[p.next].Kind, "the rest of the turn is not played")
}

func TestCancelEndsTheTurn(t *testing.T) {
	t.Parallel()
	p := newPlay(small(t))
	p.store(p.Advance())
	p.control(wire.ControlPause)
	require.Equal(t, []string{trace.KindControlResult, trace.KindControlResult, trace.KindTurnEnd}, p.control(wire.ControlCancel))
	p.control(wire.ControlSend)
	require.Equal(t, Finished, p.until())
}

func TestControlsOutOfPlaceAreRejected(t *testing.T) {
	t.Parallel()
	running := func() *play {
		p := newPlay(small(t))
		p.store(p.Advance())
		return p
	}
	ended := func() *play {
		p := newPlay(small(t))
		p.next = len(p.run)
		return p
	}
	for _, one := range []struct {
		kind wire.ControlKind
		in   *play
		why  string
	}{
		{wire.ControlApprove, running(), "no question is open"},
		{wire.ControlResume, running(), "the turn is not paused"},
		{wire.ControlSend, running(), "a turn is open"},
		{wire.ControlSend, ended(), "the recording has ended"},
		{wire.ControlSteer, ended(), "no turn is open"},
		{wire.ControlPause, ended(), "no turn is open"},
		{"dance", running(), "this kind of control is not known"},
	} {
		require.Equal(t, []string{trace.KindControlResult}, one.in.control(one.kind), one.why)
		require.Equal(t, trace.ControlRejected, one.in.lastResult(t).Outcome)
		require.Equal(t, one.why, one.in.lastResult(t).Reason)
	}
}

// Whatever is steered, and however often another device takes over, lines come in order and none twice; without a
// cancelled turn all of them come.
func TestEveryLineOnce(t *testing.T) {
	t.Parallel()
	kinds := append(wire.ControlKinds(), wire.ControlResume, wire.ControlApprove)
	rapid.Check(t, func(t *rapid.T) {
		p := newPlay(small(t))
		for range rapid.IntRange(0, 40).Draw(t, "acts") {
			switch act := rapid.IntRange(0, 9).Draw(t, "act"); {
			case act == 0:
				p.takeOver()
			case act < 4:
				p.control(rapid.SampledFrom(kinds).Draw(t, "kind"))
			default:
				if standing, _ := p.Next(); standing == Ready {
					p.store(p.Advance())
				}
			}
		}
		p.takeOver()
		for rounds := 0; p.until() != Finished; rounds++ {
			require.Less(t, rounds, 20, "stuck before line %d", p.next)
			for _, kind := range []wire.ControlKind{wire.ControlResume, wire.ControlApprove, wire.ControlSteer, wire.ControlSend} {
				p.control(kind)
			}
		}
		requireOnce(t, p)
	})
}

func requireOnce(t *rapid.T, p *play) {
	last, cancelled := -1, false
	for _, event := range p.log {
		if end, ok := read[trace.TurnEnd](event); ok && end.Status == trace.TurnCancelled {
			cancelled = true
		}
		if i, ok := p.run.Index(event); ok {
			require.Greater(t, i, last)
			last = i
		}
	}
	require.True(t, cancelled || p.run.Missing(p.log) == 0, "%d lines are missing", p.run.Missing(p.log))
}
