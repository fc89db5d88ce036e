package run

import (
	"slices"
	"strings"

	"github.com/cairnsync/cairn/client/sessions/trace"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// control takes a control (SS-CTL-3).
func (m *machine) control(control wire.Control) {
	switch control.Kind {
	case wire.ControlSend:
		m.send(control)
	case wire.ControlSteer, wire.ControlInject:
		m.steer(control)
	case wire.ControlApprove, wire.ControlDeny, wire.ControlAnswer:
		m.answer(control)
	case wire.ControlCancel:
		m.cancel(control)
	case wire.ControlPause:
		m.pause(control)
	case wire.ControlResume:
		m.conclude(control.ID, trace.ControlApplied, "")
		m.unhold()
		if m.turn != nil && m.turn.due {
			m.goOn()
		}
		m.next()
	default:
		m.conclude(control.ID, trace.ControlRejected, "this executor knows no "+string(control.Kind))
	}
}

// send begins a turn, or queues it. It stays pending until its turn has begun.
func (m *machine) send(control wire.Control) {
	switch {
	case control.Mode == wire.ModeOpen: // only asks to open the session, which is done
		m.do(mark{control.ID})
		return
	case strings.TrimSpace(textOf(control)) == "":
		m.conclude(control.ID, trace.ControlRejected, "there is no text to work on")
		return
	case len(m.waiting) >= maxWaiting:
		m.conclude(control.ID, trace.ControlRejected, "too many prompts wait already")
		return
	}
	m.waiting = append(m.waiting, control)
	m.next()
	if slices.ContainsFunc(m.waiting, func(waiting wire.Control) bool { return waiting.ID == control.ID }) {
		m.queued(control.ID)
	}
}

// steer queues a text for the turn that runs; the agent gets it when its prompt has ended. Without a turn a steer begins one,
// and an inject waits for the next.
func (m *machine) steer(control wire.Control) {
	text := strings.TrimSpace(textOf(control))
	steers := control.Kind == wire.ControlSteer
	named := control.TurnID != nil && *control.TurnID != ""
	switch {
	case text == "":
		m.conclude(control.ID, trace.ControlRejected, "there is no text")
	case named && (m.turn == nil || *control.TurnID != m.turn.id):
		m.conclude(control.ID, trace.ControlExpired, "that turn does not run")
	case m.turn == nil && steers:
		m.send(control)
	case m.turn == nil:
		m.note(control, text)
	case m.turn.cancelled || m.turn.failure != "":
		m.conclude(control.ID, trace.ControlSuperseded, "the turn was stopped")
	case len(m.turn.follow) >= maxWaiting:
		m.conclude(control.ID, trace.ControlRejected, "too many texts wait already")
	default:
		m.turn.follow = append(m.turn.follow, followUp{text: text, control: control.ID, steers: steers})
		m.queued(control.ID)
	}
}

func (m *machine) note(control wire.Control, text string) {
	if len(m.notes) >= maxWaiting {
		m.conclude(control.ID, trace.ControlRejected, "too many texts wait already")
		return
	}
	m.notes = append(m.notes, followUp{text: text, control: control.ID})
	m.queued(control.ID)
}

// cancel stops the turn that runs, or takes back one that waits.
func (m *machine) cancel(control wire.Control) {
	if control.TurnID != nil && *control.TurnID != "" && (m.turn == nil || *control.TurnID != m.turn.id) {
		m.takeBack(control)
		return
	}
	if m.turn == nil {
		m.conclude(control.ID, trace.ControlExpired, "nothing runs")
		return
	}
	again := m.turn.cancelled
	m.turn.cancelled = true
	if !again {
		m.dropFollowUps()
	}
	m.conclude(control.ID, trace.ControlApplied, "")
	if !again {
		m.stopTurn(control.ID)
	}
}

// dropFollowUps ends what was meant for a turn that is being cancelled.
func (m *machine) dropFollowUps() {
	for _, follow := range m.turn.follow {
		m.conclude(follow.control, trace.ControlSuperseded, "the turn was cancelled")
	}
	m.turn.follow = nil
}

// takeBack removes a prompt that waits.
func (m *machine) takeBack(control wire.Control) {
	at := slices.IndexFunc(m.waiting, func(waiting wire.Control) bool { return turnOf(waiting) == *control.TurnID })
	if at < 0 {
		m.conclude(control.ID, trace.ControlExpired, "that turn does not run")
		return
	}
	gone := m.waiting[at]
	m.waiting = slices.Delete(m.waiting, at, at+1)
	m.conclude(gone.ID, trace.ControlSuperseded, "cancelled before it began")
	m.conclude(control.ID, trace.ControlApplied, "")
}

// pause holds the agent at the next boundary, or at once when nothing runs.
func (m *machine) pause(control wire.Control) {
	m.conclude(control.ID, trace.ControlApplied, "")
	if m.paused || m.pausing {
		return
	}
	m.pausing = true
	if m.turn == nil || len(m.asks) > 0 { // it stands at a boundary
		m.hold()
	}
}
