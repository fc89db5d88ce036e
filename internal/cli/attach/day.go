package attach

import (
	"time"

	"github.com/cairnsync/cairn/client/sessions/trace"
)

// dayFormat is how dates are written: the same everywhere.
const dayFormat = time.DateOnly

// today answers the date now, where the person is.
func (l looks) today() string { return l.now().In(l.zone).Format(dayFormat) }

// clock answers when something was, with the date when that is not today's.
func (l looks) clock(ms int64) string {
	at := time.UnixMilli(ms).In(l.zone)
	if at.Format(dayFormat) == l.today() {
		return at.Format("15:04")
	}
	return at.Format(dayFormat + " 15:04")
}

// newDay puts the date where it changes, unless the head of a turn says it.
func (t *transcript) newDay(e entry) {
	day := time.UnixMilli(e.event.TS).In(t.zone).Format(dayFormat)
	before := t.day
	if t.day = day; day == before {
		return
	}
	if _, begins := e.payload.(trace.TurnStart); begins {
		return
	}
	today := day == t.today()
	switch {
	case today && before == "":
	case today:
		t.put(e, &block{kind: blockTurn, label: "today"})
	default:
		t.put(e, &block{kind: blockTurn, label: day})
	}
}

// midnight makes dates anew when the day changed.
func (m *model) midnight() {
	today := m.win.looks.today()
	if m.day != "" && m.day != today {
		m.win.refold(func() {})
	}
	m.day = today
}
