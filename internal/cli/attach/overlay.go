package attach

import (
	"fmt"
	"strings"
)

// overlay is a text that stands in place of the transcript until a key closes it.
type overlay struct {
	title string
	lines []string // fit to print
	top   int
	fresh func() []string // the lines when more is known, or nil
}

// drawOverlay answers the screen with the overlay.
func (m *model) drawOverlay(head []row) picture {
	var rows []row
	for _, line := range m.overlay.lines {
		for _, wrapped := range overlayLine(line, m.width-2) {
			rows = append(rows, rowOf(plain, " "+wrapped))
		}
	}
	height := max(1, m.height-len(head)-1)
	m.bodyHeight = height
	m.overlay.top = max(0, min(m.overlay.top, len(rows)-height))
	rows = rows[m.overlay.top:min(len(rows), m.overlay.top+height)]
	for len(rows) < height {
		rows = append(rows, nil)
	}
	p := picture{rows: append(append(head, rows...), m.ruleRow(cyan, m.overlay.title+" · esc closes"))}
	return m.trim(p)
}

// Sizes of a line of two columns, which a tab parts.
const (
	keyWidth  = 25
	twoColumn = 60 // from this width on; on narrower screens one stands below the other
)

// overlayLine wraps a line by words, its second column under itself.
func overlayLine(line string, room int) []string {
	key, text, two := strings.Cut(line, "\t")
	if !two {
		return wrap(line, room)
	}
	if room < twoColumn {
		rows := wrap("  "+key, room)
		for _, wrapped := range wrap(text, room-6) {
			rows = append(rows, "      "+wrapped)
		}
		return rows
	}
	var rows []string
	for i, wrapped := range wrap(text, room-keyWidth) {
		if i > 0 {
			key = ""
		}
		rows = append(rows, pad("  "+key, keyWidth-1)+" "+wrapped)
	}
	return rows
}

// overlayKey scrolls the overlay or closes it; other keys close it and do what they do.
func (m *model) overlayKey(name string) bool {
	page := max(1, m.bodyHeight-1)
	switch name {
	case "up":
		m.scroll(-1)
	case "down":
		m.scroll(1)
	case "pgup":
		m.scroll(-page)
	case "pgdown", "space":
		m.scroll(page)
	case "home":
		m.overlay.top = 0
	case "end":
		m.overlay.top = 1 << 20
	case "esc", "enter", "q":
		m.overlay = nil
	case "ctrl+l":
		m.do(redrawEffect{})
	default:
		m.overlay = nil
		return false
	}
	return true
}

// who shows who is here and which devices there are; what the server knows of them by now is asked for.
func (m *model) who() *overlay {
	m.askDetail = true
	return &overlay{title: "who is here", lines: m.whoLines(), fresh: m.whoLines}
}

func (m *model) whoLines() []string {
	lines := []string{m.driverText() + "; " + m.runText(), "", "Here now (◉ looks at it)"}
	for _, p := range m.here() {
		mark := "○"
		if p.Attention {
			mark = "◉"
		}
		line := fmt.Sprintf("%s %s, %s", mark, m.name(p.DeviceID), p.Role)
		if p.DeviceID == m.holder {
			line += ", drives"
		}
		lines = append(lines, oneLine(line))
	}
	for _, member := range m.members[:min(len(m.members), maxPresence)] {
		who := "member " + member.UserID
		if member.UserID == m.setup.detail.OwnerUserID {
			who = "owner, whose devices /dispatch starts a turn on"
		}
		lines = append(lines, "", fmt.Sprintf("%s (%s)", oneLine(who), member.Role))
		for _, d := range member.Devices {
			lines = append(lines, "  "+oneLine(fmt.Sprintf("%s · %s · seen %s", m.name(d.DeviceID), d.Platform,
				d.LastSeenAt.In(m.zone).Format("2006-01-02 15:04"))), "    "+oneLine(short(d.DeviceID, 64)))
		}
	}
	return lines
}

// help explains keys and commands.
func help() *overlay {
	o := &overlay{title: "keys and commands"}
	o.lines = strings.Split(strings.TrimSpace(helpText), "\n")
	o.lines = append(o.lines, "", "Commands")
	for _, s := range slashes() {
		o.lines = append(o.lines, strings.TrimSpace("/"+s.name+" "+s.args)+"\t"+s.help)
	}
	return o
}

const helpText = `
Prompt
enter	sends, or steers while a turn runs (it says which)
alt+enter, ctrl+j	a new line
up, down	what was sent before
Asks, while the prompt is empty
y, n	approve, deny the selected ask
1 … 9	pick one of its options
tab, shift+tab	select another ask
Transcript
page up, page down	scroll; also shift+up, shift+down, the wheel
home, end	the oldest part that is held, the newest
ctrl+o	open or fold the selected tool call, or the newest
ctrl+t	open or fold all of them, and thoughts
ctrl+up, ctrl+down	select a tool call (also ctrl+g, ctrl+r)
esc	select none
Other
ctrl+l	draw the screen again
ctrl+c twice	leave; the session goes on
`
