package attach

import (
	"maps"
	"slices"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	agentrun "github.com/cairnsync/cairn/internal/agent/run"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// entry is one event as it is held: its payload read, or what could not be.
type entry struct {
	event   wire.Event
	payload trace.Payload // nil for controls, transfers, and what is sealed
	control *wire.Control // of an echo
	sealed  bool
	bytes   int // of the payload
}

// newEntry reads an event. A payload that does not fit its kind is kept as an unknown one (SS-TRC-1).
func newEntry(frame client.EventFrame) entry {
	e := entry{event: frame.Event, bytes: len(frame.Payload)}
	switch control, echo := client.ControlOf(frame.Event); {
	case echo:
		e.control = &control
	case frame.Kind == wire.KindLeaseTransferred:
	case frame.Sealed && (frame.OpenErr != nil || client.IsSealed(frame.Payload)):
		e.sealed = true
	default:
		payload, err := trace.Read(frame.Event)
		e.payload, e.event.Payload = payload, nil // it is held once
		if err != nil {
			e.payload = trace.Unknown{Name: frame.Kind, Raw: frame.Payload}
		}
	}
	return e
}

func (e entry) turn() string {
	if e.event.TurnID == nil {
		return ""
	}
	return *e.event.TurnID
}

// Bounds of what is kept open. What is over them is not shown, and can still be answered from the command line.
const (
	maxAsks     = 200
	maxResolved = 5000
)

// turn is the newest turn.
type turn struct {
	id     string
	open   bool
	begun  int64 // milliseconds since the Unix epoch
	step   int
	model  string
	status trace.TurnStatus // of one that ended
	lost   bool             // it ended because its executor was lost
	text   string           // the prompt it began with
}

// state is what is open in a stretch of the log, and the newest of everything there is one of. Two stretches that follow
// each other make one: fold(a+b) is fold(b) with prepend(fold(a)).
type state struct {
	first, last int64 // of the stretch; 0 for none
	asks        []trace.Ask
	resolved    map[string]bool // asks that were settled in the stretch
	begins      bool            // the stretch has the beginning of a turn, so what is open is known
	turnKnown   bool
	turn        turn
	paused      bool // a pause outlives its turn, and begins at rest too
	pausedKnown bool
	todos       *trace.Todos
	usage       trace.Usage // of the newest turn
	used        bool
}

// add takes the next event.
func (s *state) add(e entry) {
	if s.first == 0 {
		s.first = e.event.Seq
	}
	s.last = e.event.Seq
	if e.sealed {
		s.addSealed(e)
		return
	}
	switch p := e.payload.(type) {
	case trace.TurnStart:
		s.begin(e)
		s.turn.text = p.Text
	case trace.TurnEnd:
		s.turn.open, s.turn.status, s.turnKnown = false, p.Status, true
		s.turn.lost = p.Status == trace.TurnFailed && p.Reason == agentrun.LostReason
	case trace.StepStart:
		s.turn.step = p.Step
	case trace.ReqStart:
		s.turn.model = oneLine(short(p.Model, 80))
	case trace.LocalGen:
		s.turn.model = oneLine(short(p.Model, 80))
	case trace.RunState:
		s.paused, s.pausedKnown = p.State == trace.StatePaused, true
	case trace.Todos:
		p.Items = p.Items[:min(len(p.Items), trace.MaxTodos)]
		s.todos = &p
	case trace.Usage:
		s.addUsage(p)
	case trace.Ask:
		s.open(p)
	case trace.AskResolved:
		s.settle(p.AskID)
	}
}

func (s *state) begin(e entry) {
	s.turn = turn{id: e.turn(), open: true, begun: e.event.TS}
	s.turnKnown, s.begins, s.usage, s.used = true, true, trace.Usage{}, false
	s.paused, s.pausedKnown = false, true // none begins in a pause
}

// addSealed takes an event that cannot be opened: its kind and its turn are in clear.
func (s *state) addSealed(e entry) {
	switch e.event.Kind {
	case trace.KindTurnStart:
		s.begin(e)
	case trace.KindTurnEnd:
		s.turn.open, s.turn.status, s.turn.lost, s.turnKnown = false, "", false, true
	}
}

func (s *state) open(ask trace.Ask) {
	if ask.AskID == "" || s.ask(ask.AskID) != nil || len(s.asks) >= maxAsks {
		return
	}
	s.asks = append(s.asks, ask)
}

func (s *state) settle(id string) {
	s.asks = slices.DeleteFunc(s.asks, func(a trace.Ask) bool { return a.AskID == id })
	if s.resolved == nil || len(s.resolved) >= maxResolved {
		s.resolved = map[string]bool{}
	}
	s.resolved[id] = true
}

// ask answers an open ask, or nil.
func (s *state) ask(id string) *trace.Ask {
	for i := range s.asks {
		if s.asks[i].AskID == id {
			return &s.asks[i]
		}
	}
	return nil
}

func (s *state) addUsage(p trace.Usage) {
	s.used = true
	s.usage.PromptTokens += p.PromptTokens
	s.usage.CompletionTokens += p.CompletionTokens
	s.usage.CachedTokens = sum(s.usage.CachedTokens, p.CachedTokens)
	s.usage.CostMicroUSD = sum(s.usage.CostMicroUSD, p.CostMicroUSD)
}

func sum(a, b *int64) *int64 {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	default:
		total := *a + *b
		return &total
	}
}

// prepend takes in the stretch just before this one.
func (s *state) prepend(old state) {
	if s.last == 0 {
		*s = old
		return
	}
	if old.last == 0 {
		return
	}
	s.first = old.first
	s.prependAsks(old)
	if !s.begins {
		s.prependTurn(old)
	}
	if s.todos == nil {
		s.todos = old.todos
	}
	if !s.pausedKnown {
		s.paused, s.pausedKnown = old.paused, old.pausedKnown
	}
}

func (s *state) prependAsks(old state) {
	asks := slices.DeleteFunc(slices.Clone(old.asks), func(a trace.Ask) bool { return s.resolved[a.AskID] })
	for _, ask := range s.asks {
		known := slices.ContainsFunc(asks, func(a trace.Ask) bool { return a.AskID == ask.AskID })
		if !known {
			asks = append(asks, ask)
		}
	}
	s.asks = asks[:min(len(asks), maxAsks)]
	if len(s.resolved)+len(old.resolved) > maxResolved {
		return
	}
	resolved := maps.Clone(old.resolved)
	if resolved == nil {
		resolved = map[string]bool{}
	}
	maps.Copy(resolved, s.resolved)
	s.resolved = resolved
}

// prependTurn goes on with a turn that began in the older stretch.
func (s *state) prependTurn(old state) {
	newer := s.turn
	if !s.turnKnown {
		s.turn.open = old.turn.open
		s.turn.status, s.turn.lost = old.turn.status, old.turn.lost
	}
	s.turn.id, s.turn.begun, s.turn.text = old.turn.id, old.turn.begun, old.turn.text
	if newer.step == 0 {
		s.turn.step = old.turn.step
	}
	if newer.model == "" {
		s.turn.model = old.turn.model
	}
	usage, used := s.usage, s.used
	s.usage, s.used = old.usage, old.used
	if used {
		s.addUsage(usage)
	}
	s.begins, s.turnKnown = old.begins, s.turnKnown || old.turnKnown
}
