package attach

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// maxWishes bounds what was sent and has no outcome yet; more is refused.
const (
	maxWishes = 50
	maxMine   = 5000 // ids of wishes that are remembered after their outcome
)

// wish is something the person wants of the executor. Its id is one across all attempts (SS-CON-2).
type wish struct {
	id       string
	what     string // fit to print
	askID    string
	control  wire.IncomingControl
	dispatch *wire.Dispatch // in place of control
	stored   bool           // the server has it; it is applied later
	note     string         // why it waits, fit to print
	tries    int
}

func (m *model) wish(id string) *wish {
	for _, w := range m.outbox {
		if w.id == id && id != "" {
			return w
		}
	}
	return nil
}

// wishFor answers the wish that answers an ask, or nil.
func (m *model) wishFor(askID string) *wish {
	for _, w := range m.outbox {
		if w.askID == askID && askID != "" {
			return w
		}
	}
	return nil
}

// drop ends a wish: it was applied, or never will be.
func (m *model) drop(id string) {
	m.outbox = slices.DeleteFunc(m.outbox, func(w *wish) bool { return w.id == id && id != "" })
}

// may says why nothing can be sent, and answers whether it can.
func (m *model) may() bool {
	if why := m.readOnly(); why != "" {
		m.sayf(yellow, "%s", why)
		return false
	}
	if len(m.outbox) >= maxWishes {
		m.sayf(yellow, "%d wishes wait already; /cancel or wait", len(m.outbox))
		return false
	}
	return true
}

// send makes a wish of a control and answers whether it could.
func (m *model) send(kind wire.ControlKind, text, askID, turnID, what string) bool {
	if !m.may() {
		return false
	}
	w := &wish{id: m.newID(), what: what, askID: askID}
	w.control = wire.IncomingControl{ID: w.id, Kind: kind, Text: given(text), AskID: given(askID), TurnID: given(turnID)}
	m.keep(w)
	return true
}

// keep lists a wish and tries it for the first time.
func (m *model) keep(w *wish) {
	if len(m.mine) >= maxMine {
		m.mine = map[string]bool{}
	}
	m.mine[w.id] = true
	m.outbox = append(m.outbox, w)
	m.try(w)
}

func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func (m *model) try(w *wish) {
	w.tries++
	if w.dispatch != nil {
		m.do(dispatchEffect{*w.dispatch})
		return
	}
	m.do(sendEffect{w.control})
}

func (m *model) retry(id string) {
	if w := m.wish(id); w != nil && !w.stored && m.conn != ended {
		m.try(w)
	}
}

// sent takes how an attempt went. What may have arrived is sent again with the same id.
func (m *model) sent(msg sentMsg) {
	if msg.err == nil && msg.dispatch != nil {
		m.sayf(plain, "%s", m.dispatched(*msg.dispatch))
	}
	w := m.wish(msg.id)
	if w == nil {
		return // its outcome was quicker than its receipt
	}
	if msg.err == nil {
		w.stored, w.note = true, ""
		return
	}
	refused := client.AsAPIError(msg.err)
	if refused != nil && refused.Status/100 == 4 && refused.Status != http.StatusRequestTimeout && refused.Status != http.StatusTooManyRequests {
		m.drop(w.id)
		m.sayf(red, "%s was refused: %s", w.what, short(refused.Message, 200))
		if refused.Code == code.NotAMember || refused.Code == code.Forbidden {
			m.askDetail = true
		}
		return
	}
	w.note = "not sent yet, trying again"
	wait := min(time.Second<<min(w.tries, 4), 15*time.Second)
	m.do(timerEffect{wait, retryMsg{w.id}})
}

// unsent answers how many wishes the server may not have.
func (m *model) unsent() int {
	count := 0
	for _, w := range m.outbox {
		count += boolInt(!w.stored)
	}
	return count
}

// recheck asks what still waits, after a time in which the stream told of nothing.
func (m *model) recheck() {
	var ids []string
	for _, w := range m.outbox {
		if w.stored {
			ids = append(ids, w.id)
		}
	}
	for _, w := range m.waits {
		ids = append(ids, w.id)
	}
	m.do(pendingEffect{ids})
}

// pending drops what was applied meanwhile, and lists what waits.
func (m *model) pending(msg pendingMsg) {
	if msg.err != nil {
		return
	}
	for _, id := range msg.asked {
		if !msg.waits[id] {
			m.done(id)
		}
	}
	for _, control := range msg.prompts {
		m.waitsFor(control)
	}
}

// again sends every wish again, with its id, to a server that may have lost it.
func (m *model) again() {
	for _, w := range m.outbox {
		w.stored = false
		m.try(w)
	}
}

// dispatched says what became of a dispatch, apart from that it is stored.
func (m *model) dispatched(r wire.DispatchReceipt) string {
	to := m.name(r.TargetDeviceID)
	_, here := m.presence[r.TargetDeviceID]
	switch {
	case here || m.holder == r.TargetDeviceID:
		return "dispatched to " + to + ", which has the session open"
	case r.Pushed:
		return "dispatched to " + to + ", which was woken"
	case r.PushReason == wire.PushNoPushToken:
		return "dispatched to " + to + "; it waits until the device looks, which has no push token"
	case r.PushReason != "":
		return fmt.Sprintf("dispatched to %s; it waits until the device looks, which could not be woken (%s)", to, r.PushReason)
	default:
		return "dispatched to " + to + "; it waits until the device looks"
	}
}

// outcome takes what the executor says became of a control of ours.
func (m *model) outcome(p trace.ControlResult) {
	if p.Outcome == trace.ControlQueued {
		m.queued(p)
		return
	}
	w := m.wish(p.ControlID)
	m.done(p.ControlID)
	if w == nil {
		return
	}
	if p.Outcome != trace.ControlApplied {
		m.sayf(yellow, "%s: %s", w.what, outcomeText(p, m.askTitle))
	}
}

func (m *model) askTitle(id string) string {
	if ask := m.live.ask(id); ask != nil {
		return askLine(*ask)
	}
	return oneLine(short(id, 40))
}

// decide answers an ask with its first allow, or deny with its first reject, if it has one.
func (m *model) decide(ask trace.Ask, kind wire.ControlKind) {
	control := wire.Control{Kind: kind}
	if _, err := trace.Resolve(ask, control); err != nil {
		m.sayf(yellow, "“%s” has nothing to %s: pick an option, or /answer it", short(askLine(ask), 80), kind)
		return
	}
	m.reply(ask, kind, "", string(kind))
}

// choose answers an ask with an option; options count from 1.
func (m *model) choose(ask trace.Ask, number int) {
	if number < 1 || number > len(ask.Options) {
		m.sayf(yellow, "“%s” has no option %d", short(askLine(ask), 80), number)
		return
	}
	option := ask.Options[number-1]
	m.reply(ask, wire.ControlAnswer, option.ID, "answer "+oneLine(short(option.Label, 60)))
}

func (m *model) reply(ask trace.Ask, kind wire.ControlKind, text, what string) {
	if m.wishFor(ask.AskID) != nil {
		m.sayf(yellow, "“%s” has your answer already", short(askLine(ask), 80))
		return
	}
	if m.send(kind, text, ask.AskID, "", what+" “"+short(askLine(ask), 80)+"”") {
		m.nextAsk(1)
	}
}
