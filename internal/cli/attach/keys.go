package attach

import (
	"strconv"

	tea "charm.land/bubbletea/v2"

	"github.com/cairnsync/cairn/client/sessions/trace"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

const wheelRows = 3

// terminal takes what the terminal says.
func (m *model) terminal(msg any) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = max(1, msg.Width), max(1, msg.Height)
	case tea.FocusMsg:
		m.reports, m.focused = true, true
	case tea.BlurMsg:
		m.reports, m.focused = true, false
	case tea.PasteMsg:
		m.lastKey = m.now()
		m.paste(msg.Content)
	case tea.MouseWheelMsg:
		switch msg.Button {
		case tea.MouseWheelUp:
			m.scroll(-wheelRows)
		case tea.MouseWheelDown:
			m.scroll(wheelRows)
		default:
		}
	case tea.KeyPressMsg:
		m.lastKey, m.focused = m.now(), true
		m.key(msg)
	}
}

func (m *model) paste(text string) {
	m.overlay = nil
	if why := m.readOnly(); why != "" {
		m.sayf(yellow, "%s", why)
		return
	}
	if !m.editor.insert(text) {
		m.sayf(yellow, "that is longer than %d characters, which is the most one can send", wire.MaxText)
	}
}

func (m *model) key(msg tea.KeyPressMsg) {
	name := msg.Keystroke()
	if name == "ctrl+c" {
		m.interrupt()
		return
	}
	if name != "enter" {
		m.quitAsked = false
	}
	if m.overlay != nil && m.overlayKey(name) {
		return
	}
	if m.viewKey(name) {
		return
	}
	if m.editor.empty() && m.askKey(msg.Text) {
		return
	}
	switch why := m.readOnly(); {
	case name == "enter" || name == "kpenter":
		m.submit()
	case why != "" && m.editor.empty() && msg.Text != "/":
		if msg.Text != "" {
			m.sayf(yellow, "%s", why) // only commands are typed then
		}
	case m.editor.key(name):
	case msg.Text != "" && !m.editor.insert(msg.Text):
		m.sayf(yellow, "that is longer than %d characters, which is the most one can send", wire.MaxText)
	}
}

// interrupt leaves when it is meant: twice in a row.
func (m *model) interrupt() {
	if m.quitAsked {
		m.do(quitEffect{})
		return
	}
	m.editor.take()
	m.askQuit()
}

// askQuit says what leaving means.
func (m *model) askQuit() {
	m.quitAsked = true
	what := "ctrl+c again leaves; the session goes on"
	if m.driving {
		what = "ctrl+c again leaves and stops the agent of this device"
	}
	if count := m.unsent(); count > 0 {
		what = "ctrl+c again leaves and gives up what was not sent yet (" + strconv.Itoa(count) + ")"
	}
	m.sayf(yellow, "%s", what)
	m.do(timerEffect{quitWithin, hintMsg{}})
}

// viewKey changes what is looked at.
func (m *model) viewKey(name string) bool {
	page := max(1, m.bodyHeight-1)
	switch name {
	case "pgup":
		m.scroll(-page)
	case "pgdown":
		m.scroll(page)
	case "shift+up", "alt+up":
		m.scroll(-1)
	case "shift+down", "alt+down":
		m.scroll(1)
	case "ctrl+home":
		m.scroll(-1 << 20)
	case "ctrl+end":
		m.toEnd()
	case "home", "end":
		if !m.editor.empty() {
			return false
		}
		if name == "end" {
			m.toEnd()
		} else {
			m.scroll(-1 << 20)
		}
	case "ctrl+o":
		if !m.win.toggle() {
			m.sayf(plain, "there is no tool call here")
		}
	case "ctrl+t":
		m.win.all = !m.win.all
	case "ctrl+up", "ctrl+g":
		m.win.selectTool(-1, m.bodyRoom, m.bodyHeight)
	case "ctrl+down", "ctrl+r":
		m.win.selectTool(1, m.bodyRoom, m.bodyHeight)
	case "tab":
		m.nextAsk(1)
	case "shift+tab":
		m.nextAsk(-1)
	case "ctrl+l":
		m.do(redrawEffect{})
	case "esc":
		m.win.selected, m.notice, m.problem = "", "", ""
	case "f1":
		m.overlay = help()
	default:
		return false
	}
	return true
}

// askKey answers the selected ask with one key. A key that the ask has no answer for goes into the prompt.
func (m *model) askKey(text string) bool {
	ask := m.live.ask(m.ask)
	if ask == nil || len(text) != 1 || m.readOnly() != "" {
		return false
	}
	kinds := map[string]wire.ControlKind{"y": wire.ControlApprove, "n": wire.ControlDeny}
	number := int(text[0]) - '0'
	if kind, decides := kinds[text]; decides {
		if _, err := trace.Resolve(*ask, wire.Control{Kind: kind}); err != nil {
			return false
		}
	} else if number < 1 || number > min(9, len(ask.Options)) {
		return false
	}
	switch kind, decides := kinds[text]; {
	case !m.armed[ask.AskID]:
		m.sayf(yellow, "this ask has just come: look, then press %s again", text)
	case decides:
		m.decide(*ask, kind)
	default:
		m.choose(*ask, number)
	}
	return true
}

// scroll moves the transcript and reads what is missing there.
func (m *model) scroll(by int) {
	if m.overlay != nil {
		m.overlay.top = max(0, m.overlay.top+by)
		return
	}
	atStart := m.win.move(by, m.bodyRoom, m.bodyHeight)
	if by < 0 && (atStart || m.win.at < 5) {
		m.readOlder()
	}
	if by > 0 && m.win.follow && m.behind() {
		m.win.follow = false // the end of the window is not the end of the log
		m.readNewer()
	}
}

// toEnd goes to the newest part, which is read again when it is not held.
func (m *model) toEnd() {
	if !m.behind() || m.conn == ended {
		m.win.follow = true
		return
	}
	m.win.follow, m.catchUp = true, true
	m.goOn()
}
