package run

import (
	"errors"
	"slices"
	"strings"

	"github.com/cairnsync/cairn/client/sessions/trace"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// ask opens a question of the agent. A turn that was stopped answers it at once: the agent may not have heard yet.
func (m *machine) ask(ask trace.Ask) {
	if m.turn == nil {
		m.say(trace.Failure{Message: "the agent asked for something while no turn ran, and was refused: " + ask.Title, Code: "ask_outside_turn"})
	}
	if m.turn == nil || m.turn.cancelled || m.turn.failure != "" {
		m.do(reply{ask: ask.AskID})
		return
	}
	m.say(ask)
	m.asks = append(m.asks, ask)
	m.hold()
}

// withdraw closes a question that the agent does not wait for any more.
func (m *machine) withdraw(id string) {
	if at := m.open(id); at >= 0 {
		m.settle(at, trace.AskResolved{AskID: id, Outcome: trace.AskCancelled, Reason: "the agent took it back"})
	}
}

// open answers where an open question stands, or -1.
func (m *machine) open(id string) int {
	return slices.IndexFunc(m.asks, func(ask trace.Ask) bool { return ask.AskID == id })
}

// settle closes a question, tells everybody and the agent.
func (m *machine) settle(at int, resolved trace.AskResolved) {
	m.asks = slices.Delete(m.asks, at, at+1)
	m.say(resolved)
	m.do(reply{ask: resolved.AskID, option: resolved.OptionID})
	if m.settled = append(m.settled, resolved); len(m.settled) > maxSettled {
		m.settled = m.settled[1:]
	}
}

// closeAsks closes every open question.
func (m *machine) closeAsks(outcome trace.AskOutcome, control, reason string) {
	for len(m.asks) > 0 {
		m.settle(0, trace.AskResolved{AskID: m.asks[0].AskID, Outcome: outcome, ControlID: control, Reason: reason})
	}
}

// answer settles a question by a control; the first one wins.
func (m *machine) answer(control wire.Control) {
	at, problem := m.asked(control)
	if at < 0 {
		m.late(control, problem)
		return
	}
	ask := m.asks[at]
	resolved, err := trace.Resolve(ask, control)
	if errors.Is(err, trace.ErrNoOption) {
		m.conclude(control.ID, trace.ControlRejected, "the question offers nothing to "+string(control.Kind))
		return
	}
	if err != nil {
		m.conclude(control.ID, trace.ControlRejected, err.Error())
		return
	}
	if resolved.Outcome == trace.AskText {
		m.answerText(at, ask, resolved)
	} else {
		m.settle(at, resolved)
	}
	m.do(mark{control.ID})
}

// answerText settles a question by words: the agent is refused, and given the words when its prompt has ended.
func (m *machine) answerText(at int, ask trace.Ask, resolved trace.AskResolved) {
	told := resolved
	if refusal, err := trace.Resolve(ask, wire.Control{Kind: wire.ControlDeny}); err == nil {
		told.OptionID = refusal.OptionID
	}
	m.settle(at, told)
	if strings.TrimSpace(resolved.Text) != "" {
		m.turn.follow = append(m.turn.follow, followUp{text: resolved.Text, steers: true})
	}
}

// asked answers which open question a control is for, or why none.
func (m *machine) asked(control wire.Control) (at int, problem string) {
	if control.AskID != nil && *control.AskID != "" {
		return m.open(*control.AskID), "no such question is open"
	}
	switch len(m.asks) {
	case 0:
		return -1, "no question is open"
	case 1:
		return 0, ""
	default:
		ids := make([]string, len(m.asks))
		for i, ask := range m.asks {
			ids[i] = ask.AskID
		}
		return -1, "several questions are open, say which: " + strings.Join(ids, ", ")
	}
}

// late says what became of a control that answers no open question.
func (m *machine) late(control wire.Control, problem string) {
	if control.AskID == nil {
		m.conclude(control.ID, trace.ControlRejected, problem)
		return
	}
	at := slices.IndexFunc(m.settled, func(done trace.AskResolved) bool { return done.AskID == *control.AskID })
	if at < 0 {
		m.conclude(control.ID, trace.ControlExpired, problem)
		return
	}
	done := m.settled[at]
	reason := "the question was answered already"
	switch {
	case done.Outcome == trace.AskCancelled || done.Outcome == trace.AskExpired:
		m.conclude(control.ID, trace.ControlExpired, "the question was closed: "+done.Reason)
		return
	case done.OptionID != "":
		reason += ", with " + done.OptionID
	}
	m.conclude(control.ID, trace.ControlSuperseded, reason)
}
