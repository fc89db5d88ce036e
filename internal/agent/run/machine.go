package run

import (
	"github.com/cairnsync/cairn/client/sessions/trace"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Bounds of the machine.
const (
	// maxWaiting bounds the prompts, and apart from them the texts, that wait for their turn; one more is rejected, visibly.
	maxWaiting = 100
	// maxSettled is how many settled questions are remembered for answers that come late.
	maxSettled = 256
)

// machine decides what an executor does: which turn runs, what waits, which questions are open, and what became of each
// control. It is pure: handle takes an input and answers effects, to be carried out in order.
//
// Invariants. At most one turn runs. A control that was taken is marked exactly once, after what came of it was said. A
// question is settled exactly once; none is open without a turn. What was queued ends by its turn_start, its user text or a
// control_result.
type machine struct {
	turn    *turn
	waiting []wire.Control // prompts, oldest first
	notes   []followUp     // injected texts that wait for the next prompt
	asks    []trace.Ask    // open, oldest first
	settled []trace.AskResolved
	pausing bool // asked for; holds at the next boundary
	paused  bool
	left    bool     // nothing begins any more
	effects []effect // of the input at hand
}

// turn is the one that runs.
type turn struct {
	id        string
	text      string // of its first prompt, until that is given
	begun     bool   // its turn_start is stored
	due       bool   // a prompt is to be given when the pause ends
	prompted  bool   // the agent has a prompt that has not ended
	follow    []followUp
	cancelled bool
	failure   string // why it is made to end as failed, or ""
}

// followUp is a text for a turn that runs already, or for the next one.
type followUp struct {
	text    string
	control string // "" for the text of an answer
	steers  bool   // it is worth a prompt of its own when nothing else makes one
}

// effect is something to be done.
type effect interface{ isEffect() }

type (
	// say appends an event.
	say struct {
		turn    string
		payload trace.Payload
	}
	// mark says that a control is applied, once all that was said before is stored.
	mark struct{ control string }
	// confirm asks for turnStored, once all that was said before is stored.
	confirm struct{ turn string }
	// prompt gives a text to the agent.
	prompt struct{ text string }
	// interrupt asks the agent to end its prompt.
	interrupt struct{}
	// reply answers the agent's question; no option is a cancelled one.
	reply struct{ ask, option string }
	// release lets go on what is held by a pause.
	release struct{}
)

func (say) isEffect()       {}
func (mark) isEffect()      {}
func (confirm) isEffect()   {}
func (prompt) isEffect()    {}
func (interrupt) isEffect() {}
func (reply) isEffect()     {}
func (release) isEffect()   {}

// input is something that happened.
type input interface{ isInput() }

type (
	// gotControl is a pending control for this device; each comes once.
	gotControl struct{ control wire.Control }
	// turnStored follows confirm.
	turnStored struct{ turn string }
	// gotOutput is what the agent did. A boundary is a place where a pause may hold it.
	gotOutput struct {
		payloads []trace.Payload
		boundary bool
	}
	// gotAsk is a question of the agent.
	gotAsk struct{ ask trace.Ask }
	// askGone is a question that the agent does not wait for any more.
	askGone struct{ ask string }
	// promptEnded follows prompt.
	promptEnded struct {
		payloads []trace.Payload // the last ones of the prompt
		status   trace.TurnStatus
		reason   string
		failure  *trace.Failure // what went wrong, when something did
	}
	// overdue is a limit of time that ran out.
	overdue struct{ limit trace.Deadline }
	// agentGone is an agent that ended while no prompt ran.
	agentGone struct{ failure trace.Failure }
	// leaving ends the turn because the executor stops. What waits stays pending, for the next executor.
	leaving struct{ reason string }
)

func (gotControl) isInput()  {}
func (turnStored) isInput()  {}
func (gotOutput) isInput()   {}
func (gotAsk) isInput()      {}
func (askGone) isInput()     {}
func (promptEnded) isInput() {}
func (overdue) isInput()     {}
func (agentGone) isInput()   {}
func (leaving) isInput()     {}

// handle takes an input and answers what to do.
func (m *machine) handle(in input) []effect {
	m.effects = nil
	if m.left {
		return nil
	}
	switch in := in.(type) {
	case gotControl:
		m.control(in.control)
	case turnStored:
		m.stored(in.turn)
	case gotOutput:
		m.output(in)
	case gotAsk:
		m.ask(in.ask)
	case askGone:
		m.withdraw(in.ask)
	case promptEnded:
		m.ended(in)
	case overdue:
		m.expire(in.limit)
	case agentGone:
		m.say(in.failure)
	case leaving:
		m.leave(in.reason)
	}
	return m.effects
}

// idle reports whether nothing runs and nothing waits that could.
func (m *machine) idle() bool { return m.turn == nil && len(m.waiting) == 0 }

// working reports whether the agent is expected to do something: no pause and no question holds it.
func (m *machine) working() bool {
	return m.turn != nil && m.turn.prompted && !m.paused && len(m.asks) == 0
}

// cancelled reports whether the turn that runs was cancelled.
func (m *machine) cancelled() bool { return m.turn != nil && m.turn.cancelled }

func (m *machine) do(next effect) { m.effects = append(m.effects, next) }

// say appends an event to the turn that runs, if one does.
func (m *machine) say(payload trace.Payload) {
	id := ""
	if m.turn != nil {
		id = m.turn.id
	}
	m.do(say{id, payload})
}

// conclude says what became of a control, and marks it.
func (m *machine) conclude(control string, outcome trace.ControlOutcome, reason string) {
	if control == "" {
		return
	}
	m.say(trace.ControlResult{ControlID: control, Outcome: outcome, Reason: reason})
	m.do(mark{control})
}

// queued says that a control waits, and for what.
func (m *machine) queued(control string) {
	result := trace.ControlResult{ControlID: control, Outcome: trace.ControlQueued, Reason: "the prompt that runs comes first"}
	switch {
	case len(m.asks) > 0:
		result.Reason, result.BlockedByAskID = "a question is open: "+m.asks[0].Title, m.asks[0].AskID
	case m.paused:
		result.Reason = "the session is paused"
	case m.turn == nil:
		result.Reason = "it goes with the next prompt"
	}
	m.say(result)
}

// output says what the agent did, and holds it there when a pause was asked for.
func (m *machine) output(in gotOutput) {
	for _, payload := range in.payloads {
		m.say(payload)
	}
	if in.boundary {
		m.hold()
	}
}

// hold begins the pause that was asked for.
func (m *machine) hold() {
	if !m.pausing || m.paused {
		return
	}
	m.pausing, m.paused = false, true
	m.say(trace.RunState{State: trace.StatePaused})
}

// unhold ends a pause, begun or asked for.
func (m *machine) unhold() {
	m.pausing = false
	if !m.paused {
		return
	}
	m.paused = false
	m.say(trace.RunState{State: trace.StateRunning})
	m.do(release{})
}
