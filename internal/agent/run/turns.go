package run

import (
	"strings"

	"github.com/cairnsync/cairn/client/sessions/trace"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// next begins the turn of the oldest prompt that waits, unless one runs or a pause holds.
func (m *machine) next() {
	if m.turn != nil || m.paused || len(m.waiting) == 0 {
		return
	}
	control := m.waiting[0]
	m.waiting = m.waiting[1:]
	m.turn = &turn{id: turnOf(control), text: textOf(control)}
	m.say(trace.TurnStart{Text: m.turn.text, ControlID: control.ID})
	m.do(mark{control.ID})
	m.do(confirm{m.turn.id})
}

// turnOf names the turn that a control starts.
func turnOf(control wire.Control) string {
	if control.TurnID != nil && *control.TurnID != "" {
		return *control.TurnID
	}
	return control.ID
}

func textOf(control wire.Control) string {
	if control.Text == nil {
		return ""
	}
	return *control.Text
}

// stored goes on when the turn_start of a turn cannot get lost any more, so that nobody begins this turn again.
func (m *machine) stored(id string) {
	if m.turn == nil || m.turn.id != id || m.turn.begun {
		return
	}
	m.turn.begun = true
	if m.turn.cancelled {
		m.end(trace.TurnCancelled, "")
		return
	}
	m.goOn()
}

// goOn gives the turn its next prompt; while a pause holds the prompt is due when that ends.
func (m *machine) goOn() {
	if m.paused {
		m.turn.due = true
		return
	}
	waited, text := m.turn.follow, m.turn.text
	if text != "" {
		waited = m.notes
		m.notes = nil
	} else {
		m.turn.follow = nil
	}
	m.turn.text, m.turn.due, m.turn.prompted = "", false, true
	m.give(waited, text)
}

// give prompts the agent with texts that waited, and then text.
func (m *machine) give(waited []followUp, text string) {
	var parts []string
	for _, note := range waited {
		m.say(trace.User{Text: note.text})
		m.conclude(note.control, trace.ControlApplied, "")
		parts = append(parts, note.text)
	}
	if text != "" {
		parts = append(parts, text)
	}
	m.do(prompt{strings.Join(parts, "\n\n")})
}

// ended goes on after a prompt: with what steers the turn, else with the next turn.
func (m *machine) ended(in promptEnded) {
	for _, payload := range in.payloads {
		m.say(payload)
	}
	if m.turn == nil || !m.turn.prompted {
		return
	}
	m.turn.prompted = false
	status, reason := in.status, in.reason
	switch {
	case m.turn.failure != "":
		status, reason = trace.TurnFailed, m.turn.failure
	case m.turn.cancelled:
		status = trace.TurnCancelled
	case in.failure != nil:
		status = trace.TurnFailed
		m.say(*in.failure)
	case status == trace.TurnCompleted && m.steered():
		m.closeAsks(trace.AskCancelled, "", "the agent went on without an answer")
		m.hold()
		m.goOn()
		return
	}
	m.end(status, reason)
}

func (m *machine) steered() bool {
	for _, follow := range m.turn.follow {
		if follow.steers {
			return true
		}
	}
	return false
}

// end closes the turn and all that hangs on it, and begins the next one.
func (m *machine) end(status trace.TurnStatus, reason string) {
	m.closeAsks(trace.AskExpired, "", "the turn ended")
	for _, follow := range m.turn.follow {
		if status == trace.TurnCompleted && !follow.steers {
			m.notes = append(m.notes, follow) // an injected text is for the next call of a model, whenever that is
			continue
		}
		m.conclude(follow.control, trace.ControlSuperseded, "the turn ended first")
	}
	m.turn.follow = nil
	m.say(trace.TurnEnd{Status: status, Reason: reason})
	m.turn = nil
	m.hold()
	m.next()
}

// expire makes a turn end as failed, because of a limit of time. One that was cancelled ends by the grace of its cancellation.
func (m *machine) expire(limit trace.Deadline) {
	if m.turn == nil || m.turn.failure != "" || m.turn.cancelled {
		return
	}
	m.say(limit)
	m.say(trace.Failure{Message: "the agent took too long", Code: "deadline"})
	m.turn.failure = "deadline"
	m.stopTurn("")
}

// stopTurn ends what the turn waits for, and asks the agent to end.
func (m *machine) stopTurn(control string) {
	m.closeAsks(trace.AskCancelled, control, "the turn was stopped")
	m.unhold()
	switch {
	case m.turn.prompted:
		m.do(interrupt{})
	case m.turn.due:
		m.end(trace.TurnCancelled, "")
	}
}

// leave ends the turn, and refuses what the agent may still ask.
func (m *machine) leave(reason string) {
	if m.turn != nil {
		m.closeAsks(trace.AskExpired, "", reason)
		m.say(trace.TurnEnd{Status: trace.TurnCancelled, Reason: reason})
		m.turn = nil
	}
	m.do(release{})
	m.left = true
}
