package attach

import (
	"errors"
	"fmt"
	"slices"
	"time"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Times of the model.
const (
	armAfter    = 300 * time.Millisecond // before one key answers an ask, so that nobody hits it while typing
	noticeStays = 8 * time.Second
	idleAfter   = 5 * time.Minute // without a key, on terminals that do not report focus
	idleEvery   = 30 * time.Second
	rereadAfter = 2 * time.Second
	quitWithin  = 2 * time.Second
)

// Bounds of the model.
const (
	maxPresence = 1000
	maxBackward = 20 // pages read to learn what is open
)

// connection is how the stream stands.
type connection int

const (
	opening connection = iota
	online
	offline
	ended
)

// setup is what a model starts with.
type setup struct {
	own     string // this device
	title   string
	canTake bool
	take    bool // at once
	colour  bool
	keyed   bool // what is sealed for this device can be opened
	zone    *time.Location
	now     func() time.Time
	newID   func() string
	detail  wire.SessionDetail
}

// model is the whole screen. handle takes a message and answers effects; view answers the screen.
type model struct {
	setup
	paint         paint
	width, height int
	effects       []effect

	gen      int // of the stream; what comes from an older one is dropped
	ready    bool
	win      *window
	live     state
	reading  bool // a request for the window is under way
	catchUp  bool // go on reading newer parts until the end
	backward int  // pages read to learn what is open
	readErr  string

	conn     connection
	connText string
	endErr   error

	day      string // today's date, as transcripts were made with
	called   string // the session's own title
	role     wire.Role
	e2e      bool
	members  []wire.Member
	names    map[string]string
	unknown  map[string]bool // devices whose names were asked for
	presence map[string]wire.Presence
	holder   string

	outbox  []*wish
	waits   []waiting       // prompts from elsewhere
	settled map[string]bool // controls that need not be listed any more, though a list that is under way may have them
	mine    map[string]bool // ids of wishes of this screen
	ask     string          // the one that keys answer
	armed   map[string]bool

	editor  editor
	overlay *overlay

	sought    string // the command that names a device which is looked for
	looked    bool   // it was looked for
	asking    bool   // a request for the detail is under way
	askDetail bool   // and one more is wanted

	notice       string
	noticeStyle  style
	noticeNumber int
	noticeFresh  bool
	problem      string // several lines that stay until the person does something; fit to print
	problemStyle style
	retell       func() // makes problem anew

	focused    bool
	reports    bool // the terminal reports focus
	lastKey    time.Time
	attention  bool
	driving    bool // the agent of this process executes
	starting   bool
	ran        bool   // an agent of this process did
	takeErr    error  // why the last one did not start
	heldBy     string // the device that was in its way
	saidPoint  presenceEffect
	saidOnce   bool
	quitAsked  bool
	bodyRoom   int // columns and rows of the transcript, as last drawn
	bodyHeight int
}

func newModel(s setup) *model {
	if s.zone == nil {
		s.zone = time.UTC
	}
	m := &model{
		setup: s, paint: paint(s.colour), width: 80, height: 24, names: map[string]string{}, unknown: map[string]bool{},
		presence: map[string]wire.Presence{}, armed: map[string]bool{}, mine: map[string]bool{}, settled: map[string]bool{},
		focused: true, bodyRoom: 80, bodyHeight: 10,
	}
	m.lastKey = s.now()
	m.win = newWindow(looks{m.name, s.zone, s.now, s.keyed})
	m.midnight()
	m.meet(s.detail)
	return m
}

// start answers the first effects.
func (m *model) start() []effect {
	m.do(m.tail(readTail), timerEffect{idleEvery, idleMsg{}})
	if m.take {
		m.startAgent(false)
	}
	m.settle()
	return m.drain()
}

func (m *model) do(effects ...effect) { m.effects = append(m.effects, effects...) }

func (m *model) drain() []effect {
	effects := m.effects
	m.effects = nil
	return effects
}

// handle takes a message and answers what is to be done.
func (m *model) handle(msg any) []effect {
	switch msg := msg.(type) {
	case pageMsg:
		m.page(msg)
	case streamMsg:
		if msg.gen == m.gen {
			m.stream(msg.items)
		}
	case streamEndMsg:
		if msg.gen == m.gen {
			m.streamEnd(msg.err)
		}
	case detailMsg:
		m.asking = false
		if msg.err == nil {
			m.meet(msg.detail)
		}
		m.lookAgain()
	case pendingMsg:
		m.pending(msg)
	case sentMsg:
		m.sent(msg)
	case takenMsg, driverNoticeMsg, driverEndMsg:
		m.agent(msg)
	case armMsg, retryMsg, rereadMsg, noticeMsg, idleMsg, hintMsg:
		m.timer(msg)
	default:
		m.terminal(msg)
	}
	m.settle()
	return m.drain()
}

func (m *model) timer(msg any) {
	switch msg := msg.(type) {
	case armMsg:
		for _, id := range msg.asks {
			if m.live.ask(id) != nil {
				m.armed[id] = true
			}
		}
	case retryMsg:
		m.retry(msg.id)
	case rereadMsg:
		if msg.effect.gen == m.gen && m.conn != ended {
			m.do(msg.effect)
		}
	case noticeMsg:
		if msg.number == m.noticeNumber {
			m.notice = ""
		}
	case idleMsg:
		m.midnight()
		m.do(timerEffect{idleEvery, idleMsg{}})
	case hintMsg:
		m.quitAsked = false
	}
}

// sayf shows a line for a while. It must be fit to print.
func (m *model) sayf(in style, format string, args ...any) {
	m.notice, m.noticeStyle = oneLine(fmt.Sprintf(format, args...)), in
	m.noticeNumber++
	m.noticeFresh = true
}

// settle asks for what the message made necessary, once for all of it.
func (m *model) settle() {
	m.arm()
	m.pay()
	if m.noticeFresh {
		m.noticeFresh = false
		m.do(timerEffect{noticeStays, noticeMsg{m.noticeNumber}})
	}
	if m.askDetail && !m.asking && m.conn != ended {
		m.askDetail, m.asking = false, true
		m.do(detailEffect{})
	}
}

// pay tells the server whether somebody looks, when that changed.
func (m *model) pay() {
	m.attention = m.focused && (m.reports || m.now().Sub(m.lastKey) < idleAfter)
	want := presenceEffect{m.attention, m.driving}
	if want != m.saidPoint || !m.saidOnce {
		m.saidPoint, m.saidOnce = want, true
		m.do(want)
	}
}

// arm lets keys answer the asks that are new, after a moment.
func (m *model) arm() {
	var fresh []string
	for _, ask := range m.live.asks {
		if _, known := m.armed[ask.AskID]; !known {
			m.armed[ask.AskID] = false
			fresh = append(fresh, ask.AskID)
		}
	}
	if len(m.armed) > len(m.live.asks) {
		for id := range m.armed {
			if m.live.ask(id) == nil {
				delete(m.armed, id)
			}
		}
	}
	if fresh != nil {
		m.do(timerEffect{armAfter, armMsg{fresh}})
	}
	if m.live.ask(m.ask) == nil {
		m.ask = ""
	}
	if m.ask == "" {
		m.nextAsk(1)
	}
}

// readOnly answers why nothing can be sent, or "".
func (m *model) readOnly() string {
	switch {
	case m.conn == ended:
		return "read-only: " + m.connText
	case m.role.Rank() < wire.RoleEditor.Rank():
		return "read-only: you are a viewer of this session"
	default:
		return ""
	}
}

// streamEnd keeps what was seen readable after the server's last word.
func (m *model) streamEnd(err error) {
	m.conn, m.endErr = ended, err
	m.connText = endText(err)
	m.outbox, m.waits = nil, nil
	m.presence, m.holder = map[string]wire.Presence{}, ""
	m.sayf(red, "%s; what is here stays readable, ctrl+c leaves", m.connText)
}

func endText(err error) string {
	if closed, is := errors.AsType[*client.ClosedError](err); is {
		switch closed.Code { //nolint:exhaustive // the others are not the last word
		case code.CloseNoAccess:
			return "you may not see this session any more"
		case code.CloseNotFound:
			return "the session was deleted"
		case code.CloseBadKey:
			return "your key or device is not accepted any more"
		}
	}
	switch {
	case client.IsCode(err, code.NotAMember), client.IsCode(err, code.Forbidden):
		return "you may not see this session any more"
	case client.IsCode(err, code.NotFound):
		return "the session was deleted"
	case client.IsCode(err, code.InvalidAPIKey):
		return "your key is not accepted any more"
	case err == nil:
		return "the stream ended"
	default:
		return "the stream ended: " + oneLine(short(err.Error(), 200))
	}
}

// running reports whether a turn is under way, so that a line steers it.
func (m *model) running() bool { return m.live.turn.open && m.holder != "" }

// nextAsk selects an ask that waits for an answer, from the selected one on.
func (m *model) nextAsk(by int) {
	asks := m.live.asks
	if len(asks) == 0 {
		m.ask = ""
		return
	}
	place := slices.IndexFunc(asks, func(a trace.Ask) bool { return a.AskID == m.ask })
	if place < 0 && by < 0 {
		place = 0
	}
	for step := 1; step <= len(asks); step++ {
		next := asks[((place+by*step)%len(asks)+len(asks))%len(asks)]
		if m.wishFor(next.AskID) == nil {
			m.ask = next.AskID
			return
		}
	}
	if place < 0 {
		m.ask = asks[0].AskID
	}
}
