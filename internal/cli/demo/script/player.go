package script

import (
	"time"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Player is an executor's state while it plays a Recording.
type Player struct {
	run    Recording
	next   int        // line to be played
	turn   string     // open turn, or ""
	paused bool       // by a control
	ask    *trace.Ask // open question, or nil

	pause *wire.Control   // waits for the next step boundary
	send  *wire.Control   // waits for the next turn to open
	done  map[string]bool // what happened of what holds wait for; at most one entry per kind of control
}

// New answers a Player at the beginning.
func New(run Recording) *Player { return &Player{run: run, done: map[string]bool{}} }

// Restore answers a Player that goes on where a log stands.
func Restore(run Recording, log []wire.Event) *Player {
	p := New(run)
	kinds := map[string]wire.ControlKind{}
	for _, event := range log {
		if i, ok := run.Index(event); ok {
			p.next = max(p.next, i+1)
		}
		if control, ok := client.ControlOf(event); ok {
			kinds[control.ID] = control.Kind
		}
		if event.Kind == wire.KindLeaseTransferred {
			p.done[HoldTakeover] = true
		}
		if result, ok := read[trace.ControlResult](event); ok && result.Outcome == trace.ControlApplied {
			p.done[string(kinds[result.ControlID])] = true
		}
		p.observe(event)
	}
	return p
}

func read[P trace.Payload](event wire.Event) (P, bool) {
	payload, err := trace.Read(event)
	if err != nil {
		var none P
		return none, false
	}
	fitting, ok := payload.(P)
	return fitting, ok
}

// observe takes over what an event of the executor means for what follows.
func (p *Player) observe(event wire.Event) {
	payload, err := trace.Read(event)
	if err != nil {
		return // another executor's event in another form tells us nothing
	}
	switch payload := payload.(type) {
	case trace.TurnStart:
		if event.TurnID != nil {
			p.turn = *event.TurnID
		}
	case trace.TurnEnd:
		p.turn, p.paused, p.ask = "", false, nil
		for event.TurnID != nil && p.next < len(p.run) && p.run[p.next].Turn == *event.TurnID {
			p.next++ // of a cancelled turn nothing more is played, on no device
		}
	case trace.Ask:
		p.ask = &payload
	case trace.AskResolved:
		p.ask = nil
	case trace.RunState:
		p.paused = payload.State == trace.StatePaused
	}
}

// Standing is what stands between a Player and its next line.
type Standing int

// The standings.
const (
	Ready    Standing = iota // nothing but its wait
	Waiting                  // a control, or another device
	Finished                 // there is no next line
)

// Next answers how the Player stands, and when it is Ready, the time until Advance.
func (p *Player) Next() (Standing, time.Duration) {
	switch {
	case p.next >= len(p.run):
		return Finished, 0
	case p.paused:
		return Waiting, 0
	case p.pausing():
		return Ready, 0
	case p.ask != nil && p.run[p.next].Kind != trace.KindWaitUser, !p.lifted(p.run[p.next].Hold):
		return Waiting, 0
	default:
		return Ready, p.run[p.next].Wait
	}
}

func (p *Player) lifted(hold string) bool { return hold == "" || p.done[hold] }

// pausing is true when a pause was asked for and the next line begins something new (SS-CTL-3).
func (p *Player) pausing() bool {
	kind := p.run[p.next].Kind
	return p.pause != nil && (kind == trace.KindStepStart || kind == trace.KindTurnEnd)
}

// Advance plays the next line, or stops before it when a pause was asked for, and answers what to append.
func (p *Player) Advance() []wire.IncomingEvent {
	if p.pausing() {
		paused := p.pause
		p.pause = nil
		return p.emit(trace.RunState{State: trace.StatePaused}, applied(paused.ID))
	}
	line := p.run[p.next]
	p.next++
	if line.Kind == trace.KindTurnStart && p.send != nil {
		return p.open(line)
	}
	event := line.event()
	p.observe(asEvent(event))
	return []wire.IncomingEvent{event}
}

// open opens a turn by the `send` control that waits.
func (p *Player) open(line Line) []wire.IncomingEvent {
	send := p.send
	p.send, p.turn = nil, line.Turn
	start := trace.TurnStart{ControlID: send.ID}
	if send.Text != nil {
		start.Text = *send.Text
	}
	events := p.emit(start, applied(send.ID))
	events[0].ClientEventID = &line.ID
	return events
}

// emit makes events in the open turn.
func (p *Player) emit(payloads ...trace.Payload) []wire.IncomingEvent {
	events := make([]wire.IncomingEvent, len(payloads))
	for i, payload := range payloads {
		events[i] = trace.Must(p.turn, payload)
		p.observe(asEvent(events[i]))
	}
	return events
}

func asEvent(event wire.IncomingEvent) wire.Event {
	return wire.Event{Kind: event.Kind, TurnID: event.TurnID, ClientEventID: event.ClientEventID, Payload: event.Payload}
}

func applied(controlID string) trace.ControlResult {
	return trace.ControlResult{ControlID: controlID, Outcome: trace.ControlApplied}
}

func superseded(controlID string) trace.ControlResult {
	return trace.ControlResult{ControlID: controlID, Outcome: trace.ControlSuperseded}
}

// Control carries out a control as far as it can be at once, and answers what to append. What it asks for later (a pause
// at the step boundary, a new turn) follows from Advance.
func (p *Player) Control(control wire.Control) []wire.IncomingEvent {
	events, refusal := p.carryOut(control)
	if refusal != "" {
		return p.emit(trace.ControlResult{ControlID: control.ID, Outcome: trace.ControlRejected, Reason: refusal})
	}
	p.done[string(control.Kind)] = true
	return events
}

func (p *Player) carryOut(control wire.Control) (events []wire.IncomingEvent, refusal string) {
	switch control.Kind {
	case wire.ControlApprove, wire.ControlDeny, wire.ControlAnswer:
		return p.answer(control)
	case wire.ControlSend:
		return nil, p.sendTurn(control)
	case wire.ControlInject:
		return p.emit(applied(control.ID)), ""
	default:
	}
	if p.turn == "" {
		return nil, "no turn is open"
	}
	switch control.Kind {
	case wire.ControlSteer:
		return p.emit(applied(control.ID)), ""
	case wire.ControlPause:
		return nil, p.askPause(control)
	case wire.ControlResume:
		return p.resume(control)
	case wire.ControlCancel:
		return append(p.emit(applied(control.ID)), p.cancel("cancelled from another device")...), ""
	default:
		return nil, "this kind of control is not known"
	}
}

func (p *Player) sendTurn(control wire.Control) (refusal string) {
	switch {
	case p.turn != "" || p.send != nil:
		return "a turn is open"
	case p.next >= len(p.run):
		return "the recording has ended"
	default:
		p.send = &control
		return ""
	}
}

func (p *Player) askPause(control wire.Control) (refusal string) {
	if p.paused || p.pause != nil {
		return "the turn is paused"
	}
	p.pause = &control
	return ""
}

func (p *Player) resume(control wire.Control) (events []wire.IncomingEvent, refusal string) {
	switch {
	case p.paused:
		return p.emit(trace.RunState{State: trace.StateRunning}, applied(control.ID)), ""
	case p.pause != nil:
		overtaken := p.pause.ID
		p.pause = nil
		return p.emit(superseded(overtaken), applied(control.ID)), ""
	default:
		return nil, "the turn is not paused"
	}
}

// answer settles the open question. A question whose answer is no ends the turn.
func (p *Player) answer(control wire.Control) (events []wire.IncomingEvent, refusal string) {
	if p.ask == nil {
		return nil, "no question is open"
	}
	ask := *p.ask
	resolved, err := trace.Resolve(ask, control)
	if err != nil {
		return nil, err.Error()
	}
	events = p.emit(resolved, applied(control.ID))
	if !allows(ask, resolved.OptionID) {
		events = append(events, p.cancel("not allowed")...)
	}
	return events, ""
}

func allows(ask trace.Ask, optionID string) bool {
	for _, option := range ask.Options {
		if option.ID == optionID {
			return option.Kind == trace.AllowOnce || option.Kind == trace.AllowAlways
		}
	}
	return false
}

// cancel ends the open turn.
func (p *Player) cancel(reason string) []wire.IncomingEvent {
	var events []wire.IncomingEvent
	if p.pause != nil {
		events = p.emit(superseded(p.pause.ID))
		p.pause = nil
	}
	if p.paused {
		events = append(events, p.emit(trace.RunState{State: trace.StateRunning})...)
	}
	return append(events, p.emit(trace.TurnEnd{Status: trace.TurnCancelled, Reason: reason})...)
}

// Missing answers how many lines are not in a log exactly once.
func (r Recording) Missing(log []wire.Event) int {
	found := make([]int, len(r))
	for _, event := range log {
		if i, ok := r.Index(event); ok {
			found[i]++
		}
	}
	missing := 0
	for _, times := range found {
		if times != 1 {
			missing++
		}
	}
	return missing
}
