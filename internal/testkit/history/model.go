package history

import (
	"encoding/json"
	"time"

	"github.com/anishathalye/porcupine"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

// term is the least time a lease lasts (SS-LEASE-1).
const term = int64(30 * time.Second)

// state is a session as the model sees it.
type state struct {
	holder string // "" for none
	since  int64  // the earliest moment at which the holder's term may have begun
	last   int64  // last_seq
}

// place is where the final log has what an operation may have stored.
type place struct{ first, last int64 }

// transfer is what a lease_transferred event says.
type transfer struct {
	From   string `json:"from_device_id"`
	To     string `json:"to_device_id"`
	Forced bool   `json:"forced"`
}

// model knows the final log, which tells what became of requests whose answer was lost.
type model struct {
	transfers map[int64]transfer // by seq
	appended  map[string]int64   // seq by eventKey
	controls  map[string]int64   // seq of the echo by control id
	horizon   int64              // when the last answer came
}

func newModel(log []wire.Event) *model {
	m := &model{transfers: map[int64]transfer{}, appended: map[string]int64{}, controls: map[string]int64{}}
	for _, event := range log {
		switch event.Kind {
		case wire.KindLeaseTransferred:
			var said transfer
			if json.Unmarshal(event.Payload, &said) == nil {
				m.transfers[event.Seq] = said
			}
		case wire.KindControl:
			var echo struct{ Control struct{ ID string } }
			if json.Unmarshal(event.Payload, &echo) == nil {
				m.controls[echo.Control.ID] = event.Seq
			}
		default:
			if event.ClientEventID != nil {
				m.appended[eventKey(event.SenderDeviceID, *event.ClientEventID)] = event.Seq
			}
		}
	}
	return m
}

// placeOf answers where an operation's work is in the log; false when it is not.
func (m *model) placeOf(op *Op) (place, bool) {
	if op.Kind == Control {
		seq, stored := m.controls[op.ID]
		return place{seq, seq}, stored
	}
	if len(op.IDs) == 0 {
		return place{}, false
	}
	first, stored := m.appended[eventKey(op.Device, op.IDs[0])]
	last := m.appended[eventKey(op.Device, op.IDs[len(op.IDs)-1])]
	return place{first, last}, stored
}

// matters leaves out requests of unknown outcome that changed nothing the model sees.
func (m *model) matters(op *Op) bool {
	switch {
	case op.Known:
		return true
	case op.Kind == Claim, op.Kind == Release:
		return true
	case op.Kind == Append, op.Kind == Control:
		_, stored := m.placeOf(op)
		return stored
	default: // an unseen renewal only makes a term longer than the model counts on
		return false
	}
}

// step answers every state the session may be in after op, none when op cannot have happened in s.
func (m *model) step(s state, op *Op) []state {
	before := []state{s}
	if s.holder != "" && min(op.Return, m.horizon)-s.since >= term { // it may have run out meanwhile
		before = append(before, state{last: s.last})
	}
	var after []state
	for _, b := range before {
		if next, fits := m.apply(b, op); fits {
			after = append(after, next)
		}
		if !op.Known {
			after = append(after, b) // it may have failed
		}
	}
	return after
}

// apply answers the state after op was carried out in s, and whether that fits what its caller was
// told. An unknown outcome fits every success.
func (m *model) apply(s state, op *Op) (state, bool) {
	switch op.Kind {
	case Claim:
		return m.claim(s, op)
	case Renew:
		if op.OK() {
			return s.extended(op), s.holder == op.Device
		}
		return s, s.holder == op.Holder && s.holder != op.Device
	case Release:
		held := s.holder == op.Device
		if op.Known && op.Released != held {
			return s, false
		}
		if held {
			s.holder, s.since = "", 0
		}
		return s, true
	case Append:
		return m.append(s, op)
	case Control:
		at, _ := m.placeOf(op)
		return s.numbered(at, !op.Known, op.Duplicate)
	case Applied:
		if op.OK() {
			return s, s.holder == op.Device || op.Again
		}
		return s, s.holder == op.Holder && s.holder != op.Device
	default: // Read
		return s, s.holder == op.Holder && s.last == op.LastSeq
	}
}

func (m *model) claim(s state, op *Op) (state, bool) {
	refused := op.Known && !op.OK()
	switch {
	case s.holder == "", s.holder == op.Device:
		return s.extended(op), !refused
	case op.Force:
		s.last++
		said, there := m.transfers[s.last]
		fits := there && said == transfer{From: s.holder, To: op.Device, Forced: true}
		s.since = 0
		return s.extended(op), fits && !refused
	default:
		return s, refused && op.Holder == s.holder
	}
}

func (m *model) append(s state, op *Op) (state, bool) {
	switch {
	case op.Known && op.Code == "lease_held":
		return s, s.holder == op.Holder && s.holder != op.Device
	case s.holder != op.Device:
		return s, false
	case op.Known && op.Code == "seq_conflict":
		return s, op.Expected != nil && *op.Expected != s.last && s.last == op.LastSeq
	case op.Expected != nil && *op.Expected != s.last:
		return s, false
	}
	at, _ := m.placeOf(op)
	next, fits := s.numbered(at, !op.Known, op.Accepted == 0)
	return next, fits && (!op.Known || next.last == op.LastSeq)
}

// numbered is the state after something that stands at a place of the log was stored, or found there
// already.
func (s state) numbered(at place, either, duplicate bool) (state, bool) {
	switch {
	case s.last >= at.last:
		return s, either || duplicate
	case s.last == at.first-1:
		s.last = at.last
		return s, either || !duplicate
	default:
		return s, false
	}
}

func (s state) extended(op *Op) state {
	if s.holder != op.Device {
		s.since = 0
	}
	s.holder, s.since = op.Device, max(s.since, op.Call)
	return s
}

// linearizable answers whether the session behaved as if its operations had happened one after the
// other, each between its call and its return.
func (m *model) linearizable(ops []Op, patience time.Duration) porcupine.CheckResult {
	var history []porcupine.Operation
	for i := range ops {
		op := &ops[i]
		if op.Return != Never {
			m.horizon = max(m.horizon, op.Return)
		}
		if m.matters(op) {
			history = append(history, porcupine.Operation{ClientId: op.Worker, Input: op, Call: op.Call, Return: op.Return})
		}
	}
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{state{}} },
		Step: func(s, input, _ any) []any {
			var next []any
			for _, one := range m.step(s.(state), input.(*Op)) { //nolint:forcetypeassert // made above
				next = append(next, one)
			}
			return next
		},
	}
	return porcupine.CheckOperationsTimeout(model.ToModel(), history, patience)
}
