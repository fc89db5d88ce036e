package attach

import (
	"slices"

	"github.com/cairnsync/cairn/client/sessions/trace"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// waiting is a prompt that was sent elsewhere and is not applied yet. At most maxWishes are held.
type waiting struct {
	id, from string
	kind     wire.ControlKind
	words    string // fit to print
	note     string // why it waits, fit to print
}

// isPrompt reports whether a control brings words for the agent.
func isPrompt(kind wire.ControlKind) bool {
	return kind == wire.ControlSend || kind == wire.ControlSteer || kind == wire.ControlInject
}

// waitsFor lists a prompt that was sent elsewhere.
func (m *model) waitsFor(control wire.Control) {
	known := slices.ContainsFunc(m.waits, func(w waiting) bool { return w.id == control.ID })
	if known || !isPrompt(control.Kind) || control.Text == nil || m.mine[control.ID] || m.settled[control.ID] || len(m.waits) >= maxWishes {
		return
	}
	m.learn(control.FromDeviceID)
	m.waits = append(m.waits, waiting{
		id: control.ID, from: control.FromDeviceID, kind: control.Kind,
		words: controlVerb(control) + " “" + oneLine(short(*control.Text, 120)) + "”",
	})
}

// done ends what waits: it was applied, or never will be.
func (m *model) done(id string) {
	if id == "" {
		return
	}
	m.drop(id)
	m.waits = slices.DeleteFunc(m.waits, func(w waiting) bool { return w.id == id })
	if len(m.settled) >= maxMine {
		m.settled = map[string]bool{}
	}
	m.settled[id] = true
}

// queued notes why a control waits. What waits for the end of a pause is told by the pause.
func (m *model) queued(p trace.ControlResult) {
	note := outcomeText(p, m.askTitle)
	if m.live.paused && p.BlockedByAskID == "" {
		note = ""
	}
	if w := m.wish(p.ControlID); w != nil {
		w.stored, w.note = true, note
	}
	for i := range m.waits {
		if m.waits[i].id == p.ControlID {
			m.waits[i].note = note
		}
	}
}

// elsewhere answers the prompts of others that wait for longer than a moment.
func (m *model) elsewhere() []waiting {
	var long []waiting
	for _, w := range m.waits {
		if w.note != "" || m.live.paused || w.kind == wire.ControlSend && (m.holder == "" || m.live.turn.open) {
			long = append(long, w)
		}
	}
	return long
}

// prompts counts the prompts that wait.
func (m *model) prompts() int {
	total := len(m.waits)
	for _, w := range m.outbox {
		total += boolInt(w.isPrompt())
	}
	return total
}

func (w *wish) isPrompt() bool { return w.dispatch != nil || isPrompt(w.control.Kind) }

// pausedText says that a pause holds, what waits for its end, and how to end it.
func (m *model) pausedText() string {
	text := "paused"
	if total := m.prompts(); total == 1 {
		text += ", 1 prompt waits"
	} else if total > 1 {
		text += ", " + plural(total, "prompt") + " wait"
	}
	if m.readOnly() == "" {
		text += " · /resume"
	}
	return text
}

// held says why something waits that the server has.
func (m *model) held(note string, prompt bool) string {
	switch {
	case note != "":
		return note
	case m.live.paused && prompt:
		return "waits (the session is paused)"
	case m.holder == "":
		return "waits for an agent"
	default:
		return "waits for the executor"
	}
}

// wishRows lists what was sent and has no outcome yet: what was sent here first, then what comes from elsewhere.
func (m *model) wishRows(most int) []row {
	type line struct{ what, state string }
	var lines []line
	for _, w := range m.outbox {
		state := w.note
		if w.stored {
			state = m.held(w.note, w.isPrompt())
		} else if state == "" {
			state = "sending"
		}
		lines = append(lines, line{w.what, state})
	}
	for _, w := range m.elsewhere() {
		lines = append(lines, line{m.name(w.from) + " " + w.words, m.held(w.note, true)})
	}
	var rows []row
	for i, l := range lines {
		if i == most-1 && len(lines) > most {
			return append(rows, rowOf(faint, fit("  … and "+plural(len(lines)-i, "more wish")+" waiting", m.width)))
		}
		if i >= most {
			break
		}
		state := fit(l.state, m.width/2)
		rows = append(rows, row{{yellow, "◷ "}, {plain, fit(l.what, m.width-5-columns(state))}, {faint, " · " + state}})
	}
	return rows
}
