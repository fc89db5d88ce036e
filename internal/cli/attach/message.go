package attach

import (
	"time"

	client "github.com/cairnsync/cairn/client/sessions"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Messages are what the model is told, besides what bubbletea tells it.
type (
	// pageMsg answers a readEffect.
	pageMsg struct {
		gen     int
		want    reading
		query   client.EventsQuery
		entries []entry
		last    int64 // of the whole log
		err     error
	}
	// streamMsg is a part of the stream: entries for events, frames for the rest.
	streamMsg struct {
		gen   int
		items []any
	}
	// streamEndMsg says that the stream ended for good.
	streamEndMsg struct {
		gen int
		err error
	}
	detailMsg struct {
		detail wire.SessionDetail
		err    error
	}
	// pendingMsg answers a pendingEffect.
	pendingMsg struct {
		asked   []string
		waits   map[string]bool
		prompts []wire.Control // of those that wait, the oldest
		err     error
	}
	// sentMsg says how one attempt to send a wish went.
	sentMsg struct {
		id       string
		dispatch *wire.DispatchReceipt
		err      error
	}
	takenMsg        struct{ err error }
	driverNoticeMsg struct{ text string }
	driverEndMsg    struct{ err error }

	// Timers.
	armMsg    struct{ asks []string }
	retryMsg  struct{ id string }
	rereadMsg struct{ effect readEffect }
	noticeMsg struct{ number int }
	idleMsg   struct{}
	hintMsg   struct{}
)

// reading says what a part of the log is read for.
type reading int

const (
	readTail  reading = iota // the beginning of everything
	readJump                 // the newest part again, after older ones were looked at
	readOlder                // what stands before the window
	readNewer                // what stands after the window
	readOpen                 // what may be open from before the state
)

// effect is what the model wants done.
type effect any

// Effects.
type (
	readEffect struct {
		gen   int
		want  reading
		query client.EventsQuery
	}
	// followEffect starts the stream after an event, in place of an older one.
	followEffect struct {
		gen   int
		after int64
	}
	detailEffect struct{}
	// pendingEffect asks what waits, and which of these controls still do.
	pendingEffect  struct{ ids []string }
	sendEffect     struct{ control wire.IncomingControl }
	dispatchEffect struct{ dispatch wire.Dispatch }
	takeEffect     struct{ force bool }
	presenceEffect struct{ attention, driving bool }
	timerEffect    struct {
		after time.Duration
		msg   any
	}
	redrawEffect struct{}
	quitEffect   struct{}
)
