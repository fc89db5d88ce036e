package attach

import (
	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// page takes a part of the log that was asked for.
func (m *model) page(msg pageMsg) {
	if msg.gen != m.gen {
		return
	}
	if msg.err != nil {
		m.pageFailed(msg)
		return
	}
	m.readErr = ""
	switch msg.want {
	case readTail:
		m.begin(msg)
	case readJump:
		m.reading = false
		m.win.restart()
		m.win.append(msg.entries)
		m.goOn()
	case readOlder:
		m.reading = false
		m.older(msg)
		m.goOn()
	case readNewer:
		m.reading = false
		m.newer(msg.entries)
		m.goOn()
	case readOpen:
		m.older(msg)
		m.lookBack()
	}
}

func (m *model) pageFailed(msg pageMsg) {
	m.readErr = "cannot read the log: " + oneLine(short(msg.err.Error(), 200))
	refused := client.AsAPIError(msg.err)
	if refused != nil && refused.Status/100 == 4 && refused.Status != 408 && refused.Status != 429 {
		m.reading, m.catchUp = false, false
		if msg.want == readTail {
			m.streamEnd(msg.err)
		}
		return
	}
	// The same again: a request for the window stays under way, so that none is made twice.
	m.do(timerEffect{rereadAfter, rereadMsg{readEffect{msg.gen, msg.want, msg.query}}})
}

// begin starts from the newest part.
func (m *model) begin(msg pageMsg) {
	m.ready = true
	m.live = fold(msg.entries)
	m.win.restart()
	m.win.append(msg.entries)
	after := m.live.last
	if after == 0 {
		after = msg.last
	}
	m.do(followEffect{m.gen, after})
	m.lookBack()
}

// fold answers the state of a stretch of the log.
func fold(entries []entry) state {
	var s state
	for _, e := range entries {
		s.add(e)
	}
	return s
}

// lookBack reads on until it is known where the newest turn began: what is open was opened after that.
func (m *model) lookBack() {
	if m.live.begins || m.live.first <= 1 || m.backward >= maxBackward {
		return
	}
	m.backward++
	m.do(readEffect{m.gen, readOpen, client.EventsQuery{Before: m.live.first, Limit: client.MaxEventsPage}})
}

// older puts a part before what it was asked for, wherever that still is.
func (m *model) older(msg pageMsg) {
	if len(msg.entries) == 0 {
		return
	}
	if msg.query.Before == m.live.first {
		m.live.prepend(fold(msg.entries))
	}
	if msg.query.Before == m.win.first() && (msg.want == readOlder || !m.win.full()) {
		m.win.prepend(msg.entries)
	}
}

// newer appends what follows the window.
func (m *model) newer(entries []entry) {
	for i, e := range entries {
		if e.event.Seq == m.win.last()+1 {
			m.win.append(entries[i:])
			return
		}
	}
}

// behind reports whether the log goes on after the window.
func (m *model) behind() bool { return m.win.last() < m.live.last }

// goOn reads newer parts until the window meets the stream, when somebody asked for the end.
func (m *model) goOn() {
	if !m.behind() {
		m.catchUp = false
	}
	if !m.catchUp || m.reading || m.conn == ended {
		return
	}
	if m.live.last-m.win.last() <= pageSize {
		m.readNewer()
		return
	}
	m.reading = true
	m.do(m.tail(readJump)) // nearer than all the pages between
}

func (m *model) readNewer() {
	if m.reading || !m.behind() || m.conn == ended {
		return
	}
	m.reading = true
	m.do(readEffect{m.gen, readNewer, client.EventsQuery{After: m.win.last(), Limit: pageSize}})
}

func (m *model) readOlder() {
	if m.reading || m.win.first() <= 1 || m.conn == ended {
		return
	}
	m.reading = true
	m.do(readEffect{m.gen, readOlder, client.EventsQuery{Before: m.win.first(), Limit: pageSize}})
}

// stream takes what the stream brought.
func (m *model) stream(items []any) {
	for _, item := range items {
		switch item := item.(type) {
		case entry:
			m.event(item)
		case client.ControlFrame:
			if item.Applied {
				m.done(item.ID)
			} else {
				m.waitsFor(item.Control)
			}
		case client.LeaseFrame:
			m.lease(item)
		case client.PresenceFrame:
			m.join(item.Presence)
		case client.ResetFrame:
			m.reset()
			return // what else this stream brings is of the old log or comes again
		case client.ConnectionFrame:
			m.connected(item)
		}
	}
}

func (m *model) event(e entry) {
	if e.event.Seq <= m.live.last {
		return
	}
	m.beforeEvent(e)
	m.live.add(e)
	m.learn(e.event.SenderDeviceID)
	if e.event.Seq != m.win.last()+1 && m.win.last() != 0 {
		return // older parts are looked at
	}
	if m.win.follow || !m.win.full() {
		m.win.append([]entry{e})
	}
}

// beforeEvent tells the person what an event means for what they see and sent.
func (m *model) beforeEvent(e entry) {
	if e.sealed && e.event.Kind == trace.KindTurnStart {
		m.done(e.turn()) // a turn is called as the prompt that it begins with, unless that says otherwise
	}
	switch p := e.payload.(type) {
	case trace.TurnStart:
		m.done(p.ControlID)
	case trace.AskResolved:
		m.answered(p)
	case trace.ControlResult:
		m.outcome(p)
	}
}

// answered says who was quicker.
func (m *model) answered(p trace.AskResolved) {
	ask := m.live.ask(p.AskID)
	if ask == nil {
		return
	}
	if !m.mine[p.ControlID] {
		m.sayf(yellow, "“%s”: %s", askLine(*ask), settledText(p, *ask, m.name))
	}
	m.drop(p.ControlID)
}

func (m *model) lease(frame client.LeaseFrame) {
	m.holder, m.heldBy = "", ""
	if frame.HolderDeviceID != nil {
		m.holder = *frame.HolderDeviceID
		m.learn(m.holder)
	}
}

func (m *model) connected(frame client.ConnectionFrame) {
	if frame.State == client.Connected {
		m.conn, m.connText = online, ""
		m.presence = map[string]wire.Presence{} // it is told anew
		m.askDetail = true
		m.recheck()
		return
	}
	m.conn = offline
	m.connText = ""
	if frame.Err != nil {
		m.connText = oneLine(short(frame.Err.Error(), 120))
	}
}

// reset drops the copy of a log that the server does not have any more, and begins again.
func (m *model) reset() {
	m.gen++
	m.waits, m.settled = nil, map[string]bool{}
	m.live, m.backward, m.reading, m.catchUp, m.ready = state{}, 0, false, false, false
	m.win.restart()
	m.conn = opening
	m.again()
	m.sayf(yellow, "the server's log was restored: it is read anew")
	m.do(m.tail(readTail))
}

// tail asks for the newest part.
func (m *model) tail(want reading) readEffect {
	return readEffect{m.gen, want, client.EventsQuery{Tail: pageSize}}
}
