package attach

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cairnsync/cairn/client/sessions/trace"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// slash is a command of the prompt.
type slash struct {
	name, args, help string
	run              func(m *model, rest string) (done bool)
}

// slashes lists the commands in the order of the help. It is a function, since the help is one of them.
func slashes() []slash {
	return []slash{
		{"send", "TEXT", "start a new turn, now or after this one", func(m *model, rest string) bool { return m.words(wire.ControlSend, rest, "send") }},
		{"again", "", "send the prompt of the last turn again", (*model).resend},
		{"steer", "TEXT", "say something to the turn that runs", func(m *model, rest string) bool { return m.words(wire.ControlSteer, rest, "steer") }},
		{"inject", "TEXT", "add text to the next call of the model", func(m *model, rest string) bool { return m.words(wire.ControlInject, rest, "inject") }},
		{"cancel", "", "cancel the turn that runs", (*model).cancel},
		{"pause", "", "pause before the next step", func(m *model, _ string) bool { return m.send(wire.ControlPause, "", "", "", "pause") }},
		{"resume", "", "go on after a pause", func(m *model, _ string) bool { return m.send(wire.ControlResume, "", "", "", "resume") }},
		{"approve", "[ASK]", "allow what an ask asks for", func(m *model, rest string) bool { return m.decideNamed(rest, wire.ControlApprove) }},
		{"deny", "[ASK]", "refuse it", func(m *model, rest string) bool { return m.decideNamed(rest, wire.ControlDeny) }},
		{"answer", "[ASK] TEXT", "answer an ask, with an option or in your own words", (*model).answerNamed},
		{"dispatch", "DEVICE TEXT", "start a turn on a device of the owner", (*model).dispatch},
		{"take", "", "take the session over with the agent of --command", func(m *model, _ string) bool { m.startAgent(true); return true }},
		{"who", "", "show who is here, and the devices", func(m *model, _ string) bool { m.overlay = m.who(); return true }},
		{"help", "", "show the keys and commands", func(m *model, _ string) bool { m.overlay = help(); return true }},
		{"quit", "", "leave; the session goes on", (*model).quit},
	}
}

// submit carries out what stands in the prompt.
func (m *model) submit() {
	text := strings.TrimSpace(m.editor.text)
	if text == "" {
		return
	}
	m.notice, m.problem = "", "" // what is said next is about this
	if command, is := strings.CutPrefix(text, "/"); is && !strings.HasPrefix(command, "/") {
		if m.command(command) {
			m.editor.take()
		}
		return
	}
	text = strings.TrimPrefix(text, "/") // a second slash: a text that begins with one
	kind := wire.ControlSend
	if m.running() {
		kind = wire.ControlSteer
	}
	if m.send(kind, text, "", "", string(kind)+" “"+oneLine(short(text, 120))+"”") {
		m.editor.take()
		m.toEnd()
	}
}

// command runs a slash command and answers whether it is done with; the prompt keeps what it is not.
func (m *model) command(text string) bool {
	name, rest := text, ""
	if at := strings.IndexAny(text, " \n\t"); at >= 0 {
		name, rest = text[:at], strings.TrimSpace(text[at:])
	}
	var found []slash
	for _, s := range slashes() {
		if s.name == name {
			return s.run(m, rest)
		}
		if name != "" && strings.HasPrefix(s.name, name) {
			found = append(found, s)
		}
	}
	if len(found) == 1 {
		return found[0].run(m, rest)
	}
	if len(found) > 1 {
		m.sayf(yellow, "/%s could be %s", name, eitherOf(found))
		return false
	}
	m.sayf(yellow, "/%s is no command; /help lists them, and // begins a text with a slash", short(name, 40))
	return false
}

// eitherOf names commands, with "or" before the last.
func eitherOf(found []slash) string {
	names := make([]string, len(found))
	for i, s := range found {
		names[i] = "/" + s.name
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// words sends a text as a control of a kind.
func (m *model) words(kind wire.ControlKind, text, name string) bool {
	if text == "" {
		m.sayf(yellow, "say what: /%s TEXT", name)
		return false
	}
	if !m.send(kind, text, "", "", name+" “"+oneLine(short(text, 120))+"”") {
		return false
	}
	m.toEnd()
	return true
}

// resend starts a turn with the words of the last one.
func (m *model) resend(string) bool {
	text := m.live.turn.text
	switch {
	case m.running():
		m.sayf(yellow, "that turn runs still")
		return true
	case text == "":
		m.sayf(yellow, "no turn whose prompt is known")
		return true
	case utf8.RuneCountInString(text) > wire.MaxText:
		m.sayf(yellow, "its prompt is longer than %d characters, which is the most one can send", wire.MaxText)
		return true
	default:
		return m.words(wire.ControlSend, text, "send")
	}
}

func (m *model) cancel(string) bool {
	if m.live.turnKnown && !m.live.turn.open {
		m.sayf(yellow, "no turn runs")
		return true
	}
	return m.send(wire.ControlCancel, "", "", m.live.turn.id, "cancel")
}

func (m *model) quit(string) bool {
	if m.unsent() == 0 || m.quitAsked {
		m.do(quitEffect{})
		return true
	}
	m.askQuit()
	return false
}

// find answers the open ask that a word names: its number in the list, its id, or the beginning of only one id.
func (m *model) find(word string) *trace.Ask {
	if number, err := strconv.Atoi(strings.TrimPrefix(word, "#")); err == nil && number >= 1 && number <= len(m.live.asks) {
		return &m.live.asks[number-1]
	}
	if ask := m.live.ask(word); ask != nil {
		return ask
	}
	var found *trace.Ask
	for i := range m.live.asks {
		if word != "" && strings.HasPrefix(m.live.asks[i].AskID, word) {
			if found != nil {
				return nil
			}
			found = &m.live.asks[i]
		}
	}
	return found
}

func (m *model) decideNamed(word string, kind wire.ControlKind) bool {
	ask := m.live.ask(m.ask)
	if word != "" {
		ask = m.find(word)
	}
	if ask == nil {
		m.noAsk(word)
		return false
	}
	m.decide(*ask, kind)
	return true
}

func (m *model) noAsk(word string) {
	if word == "" || len(m.live.asks) == 0 {
		m.sayf(yellow, "nothing is asked")
		return
	}
	m.sayf(yellow, "no open ask is called %s", short(word, 40))
}

// answerNamed takes its first word for an ask when it names one, else all of it answers the selected one.
func (m *model) answerNamed(rest string) bool {
	word, text := rest, ""
	if at := strings.IndexAny(rest, " \n\t"); at >= 0 {
		word, text = rest[:at], strings.TrimSpace(rest[at:])
	}
	ask := m.find(word)
	if ask == nil || text == "" {
		ask, text = m.live.ask(m.ask), rest
	}
	switch {
	case ask == nil:
		m.noAsk("")
		return false
	case text == "":
		m.sayf(yellow, "say what: /answer [ASK] TEXT")
		return false
	}
	m.reply(*ask, wire.ControlAnswer, text, "answer “"+oneLine(short(text, 60))+"” to")
	return true
}

// dispatch starts a turn on a device of the owner, by name, id, or the beginning of either.
func (m *model) dispatch(rest string) bool {
	if !m.may() {
		return false
	}
	device, text, problem := m.target(rest)
	if problem == noDevice && !m.looked && m.conn == online {
		m.askDetail = m.askDetail || m.sought == "" // it may be new
		m.sought = strings.TrimSpace(m.editor.text)
		m.sayf(plain, "looking for that device …")
		return false
	}
	if problem == noDevice {
		word, _, _ := strings.Cut(rest, " ")
		problem = "the owner has no device called " + oneLine(short(word, 40)) + "; /who lists them"
	}
	if problem != "" {
		m.sayf(yellow, "%s", problem)
		return false
	}
	id := "dispatch:" + m.newID()
	w := &wish{id: id, what: "dispatch to " + m.name(device) + " “" + oneLine(short(text, 120)) + "”"}
	w.dispatch = &wire.Dispatch{DeviceID: device, Mode: wire.ModeSend, Text: &text, ControlID: &id}
	m.keep(w)
	m.toEnd()
	return true
}

// owned answers the devices of the session's owner.
func (m *model) owned() []wire.MemberDevice {
	for _, member := range m.members {
		if member.UserID == m.setup.detail.OwnerUserID {
			return member.Devices
		}
	}
	return nil
}

// noDevice is a name that no device has.
const noDevice = "no device"

// target splits what follows /dispatch. Names may have spaces: the longest name or id that rest begins with wins, else
// the first word is the beginning of only one.
func (m *model) target(rest string) (device, text, problem string) {
	const how = "say where and what: /dispatch DEVICE TEXT; /who lists the devices"
	if rest == "" {
		return "", "", how
	}
	best := 0
	word, after, _ := strings.Cut(rest, " ")
	var near []string
	for _, d := range m.owned() {
		for _, name := range []string{d.DeviceID, d.Name, m.names[d.DeviceID]} {
			if left, is := cutName(rest, name); is && len(name) > best {
				best, device, text = len(name), d.DeviceID, left
			}
			if name != "" && strings.HasPrefix(strings.ToLower(name), strings.ToLower(word)) && !slices.Contains(near, d.DeviceID) {
				near = append(near, d.DeviceID)
			}
		}
	}
	if best == 0 {
		switch len(near) {
		case 1:
			device, text = near[0], strings.TrimSpace(after)
		case 0:
			return "", "", noDevice
		default:
			return "", "", "several devices begin with " + oneLine(short(word, 40)) + "; say more of the name, or the id"
		}
	}
	if text == "" {
		return "", "", how
	}
	return device, text, ""
}

// cutName takes a name, with or without quotes, from the beginning of a text.
func cutName(text, name string) (rest string, is bool) {
	if name == "" {
		return "", false
	}
	for _, begin := range []string{name, `"` + name + `"`} {
		if len(text) >= len(begin) && strings.EqualFold(text[:len(begin)], begin) {
			rest := text[len(begin):]
			if rest == "" || rest[0] == ' ' || rest[0] == '\n' {
				return strings.TrimSpace(rest), true
			}
		}
	}
	return "", false
}
