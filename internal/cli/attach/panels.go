package attach

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cairnsync/cairn/client/sessions/trace"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func fraction(done, total int) string { return strconv.Itoa(done) + "/" + strconv.Itoa(total) }

// statusRows answers what the session is and how it stands.
func (m *model) statusRows() []row {
	title := oneLine(short(m.called, 300))
	if m.title != "" {
		title = oneLine(short(m.title, 300))
	}
	link, in := m.linkText()
	right := link
	if m.e2e {
		right = "sealed · " + right
	}
	if m.height < tallHeight {
		mark, _, _ := strings.Cut(link, " ")
		run := m.runText()
		if m.live.paused {
			run, _, _ = strings.Cut(run, " · ")
		}
		most := max(8, m.width*3/4-columns(run)-5)
		right = run + " · " + fit(m.driverText(), most) + " " + mark
	}
	right = fit(right, m.width-2)
	room := max(0, m.width-columns(right)-1)
	first := row{{bold, pad(" "+title, room)}, {plain, " "}, {in, right}}
	if m.height < tallHeight {
		return []row{first}
	}
	return []row{first, m.standRow(), rowOf(faint, strings.Repeat("─", m.width))}
}

func (m *model) linkText() (string, style) {
	switch m.conn {
	case online:
		return "● live", green
	case offline:
		return "○ offline, trying again", red
	case ended:
		return "✗ ended", red
	default:
		return "○ connecting", yellow
	}
}

func (m *model) driverText() string {
	switch {
	case m.starting:
		return "this device starts an agent"
	case m.holder == "":
		return "no executor"
	default:
		return m.name(m.holder) + " drives"
	}
}

func (m *model) runText() string {
	t := m.live.turn
	switch {
	case m.live.paused:
		return m.pausedText()
	case t.open && len(m.live.asks) > 0:
		return "asks"
	case t.open && m.holder == "":
		return "interrupted"
	case t.open && t.step > 0:
		return "runs, step " + strconv.Itoa(t.step)
	case t.open:
		return "runs"
	case t.status != "":
		return "idle, last turn " + oneLine(short(string(t.status), 40))
	default:
		return "idle"
	}
}

// standRow says who drives, how it runs, who is here and what it cost, as much of it as there is room for.
func (m *model) standRow() row {
	driver, run := " "+m.driverText(), m.runText()
	parts := []span{{plain, driver}, {cyan, run}, {green, m.hereText(m.width - columns(driver+" · "+run+" · "))}}
	if usage := usageText(m.live.usage, m.live.used); usage != "" {
		parts = append(parts, span{faint, usage})
	}
	if m.live.turn.model != "" {
		parts = append(parts, span{faint, m.live.turn.model})
	}
	var shown row
	left := m.width
	for _, part := range parts {
		separator := ""
		if len(shown) > 0 {
			separator = " · "
		}
		if part.text == "" {
			continue
		}
		if columns(separator+part.text) > left {
			part.text = fit(part.text, left-columns(separator))
			if columns(part.text) < 6 {
				break
			}
		}
		shown = append(shown, span{faint, separator}, part)
		left -= columns(separator + part.text)
	}
	return shown
}

// here answers who is here, those who look at it first.
func (m *model) here() []wire.Presence {
	return slices.SortedFunc(maps.Values(m.presence), func(a, b wire.Presence) int {
		return cmp.Or(boolInt(b.Attention)-boolInt(a.Attention), strings.Compare(m.name(a.DeviceID), m.name(b.DeviceID)), strings.Compare(a.DeviceID, b.DeviceID))
	})
}

// hereText names who is here in no more than room columns; how many there is no room for is said.
func (m *model) hereText(room int) string {
	names := m.hereNames(24)
	if text := strings.Join(names, " "); columns(text) <= room && len(names) <= mostHere {
		return text
	}
	names = m.hereNames(12)
	text := ""
	for i, name := range names {
		if i > 0 {
			name = " " + name
		}
		rest := ""
		if left := len(names) - i - 1; left > 0 {
			rest = fmt.Sprintf(" +%d", left)
		}
		if columns(text+name+rest) > room || i == mostHere {
			return strings.TrimSpace(fmt.Sprintf("%s +%d", text, len(names)-i))
		}
		text += name
	}
	return text
}

const mostHere = 6 // names in the row of who is here

func (m *model) hereNames(most int) []string {
	var names []string
	for _, p := range m.here() {
		mark := "○"
		if p.Attention {
			mark = "◉"
		}
		names = append(names, mark+" "+short(m.name(p.DeviceID), most))
	}
	return names
}

const microsPerDollar = 1e6

func usageText(u trace.Usage, used bool) string {
	if !used {
		return ""
	}
	text := count(u.PromptTokens) + " in " + count(u.CompletionTokens) + " out"
	if u.CostMicroUSD != nil {
		text += fmt.Sprintf(" $%.3f", float64(*u.CostMicroUSD)/microsPerDollar)
	}
	return text
}

func count(tokens int64) string {
	if tokens < 1000 {
		return strconv.FormatInt(tokens, 10)
	}
	return fmt.Sprintf("%.1fk", float64(tokens)/1000)
}

// askRows lists what waits for an answer in no more than most rows: the selected ask in full, the others in a row each.
func (m *model) askRows(most int) []row {
	asks := m.live.asks
	if len(asks) == 0 || most <= 0 {
		return nil
	}
	chosen := max(0, slices.IndexFunc(asks, func(a trace.Ask) bool { return a.AskID == m.ask }))
	full := m.fullAsk(asks[chosen], chosen, max(2, most-min(len(asks)-1, most/2)))
	others := max(0, most-len(full))
	var before, after []row
	for i, ask := range asks {
		if i == chosen {
			continue
		}
		if others--; others < 0 {
			break
		}
		if others == 0 && len(asks)-1 > most-len(full) {
			after = append(after, rowOf(yellow, fit(fmt.Sprintf("  … %d asks in all, tab moves between them", len(asks)), m.width)))
			break
		}
		line := row{{yellow, fmt.Sprintf("? #%d ", i+1)}, {plain, askLine(ask) + m.repliedText(ask)}}
		if i < chosen {
			before = append(before, line)
		} else {
			after = append(after, line)
		}
	}
	return append(append(before, full...), after...)
}

func askLine(ask trace.Ask) string {
	title := oneLine(short(ask.Title, 300))
	if title == "" {
		title = firstLine(ask.Text)
	}
	if title == "" {
		title = oneLine(short(ask.AskID, wire.MaxID))
	}
	return title
}

func (m *model) repliedText(ask trace.Ask) string {
	if w := m.wishFor(ask.AskID); w != nil {
		return " (answered, not settled yet)"
	}
	return ""
}

func (m *model) fullAsk(ask trace.Ask, place, most int) []row {
	head := fmt.Sprintf("? #%d ", place+1)
	rows := []row{{{invert, head}, {yellow, fit(askLine(ask)+m.repliedText(ask), m.width-columns(head))}}}
	keys := m.askKeys(ask, max(1, min(3, most-1)))
	for i, line := range wrap(manyLines(short(ask.Text, 2000)), m.width-2) {
		if ask.Text == "" || ask.Title == "" || i >= most-1-len(keys) {
			break
		}
		rows = append(rows, rowOf(plain, "  "+line))
	}
	return append(rows, keys...)
}

// askKeys says which keys answer an ask, in no more than most rows.
func (m *model) askKeys(ask trace.Ask, most int) []row {
	if why := m.readOnly(); why != "" || m.wishFor(ask.AskID) != nil {
		return nil
	}
	if !m.armed[ask.AskID] {
		return []row{rowOf(faint, "  …")}
	}
	var keys []string
	for _, kind := range []struct {
		key  string
		kind wire.ControlKind
	}{{"y", wire.ControlApprove}, {"n", wire.ControlDeny}} {
		if _, err := trace.Resolve(ask, wire.Control{Kind: kind.kind}); err == nil {
			keys = append(keys, "["+kind.key+"] "+string(kind.kind))
		}
	}
	for i, option := range ask.Options[:min(len(ask.Options), 9)] {
		keys = append(keys, fmt.Sprintf("[%d] %s", i+1, oneLine(short(option.Label, 100))))
	}
	if len(keys) == 0 {
		keys = []string{"/answer TEXT"}
	}
	if !m.editor.empty() {
		keys = append([]string{"(empty the prompt first)"}, keys...)
	}
	var rows []row
	line := " "
	for _, key := range keys {
		if columns(line)+1+columns(key) > m.width && line != " " {
			rows, line = append(rows, rowOf(cyan, line)), " "
		}
		line += " " + key
	}
	rows = append(rows, rowOf(cyan, line))
	if len(rows) > most {
		rows = rows[:most]
		last := rows[most-1][0].text
		rows[most-1] = rowOf(cyan, fit(last, m.width-2)+" …")
	}
	return rows
}
