package attach

import (
	"slices"
	"strings"

	"github.com/cairnsync/cairn/client/sessions/trace"
)

// Sizes of the screen, in columns and rows.
const (
	wideWidth  = 100 // from here on the todos stand beside the transcript
	panelWidth = 34
	tallHeight = 16 // from here on the status has two rows
	leastWidth = 16
	leastRows  = 5
)

// picture is the whole screen: exactly as many rows as it is high, none wider than it is, and where the cursor is.
type picture struct {
	rows   []row
	x, y   int
	cursor bool
}

// draw answers the screen. It notes how large the transcript is, which scrolling needs.
func (m *model) draw() picture {
	if m.width < leastWidth || m.height < leastRows {
		return m.tiny()
	}
	head := m.statusRows()
	if m.overlay != nil {
		return m.drawOverlay(head)
	}
	prompt, x, y := m.promptRows()
	foot := m.footRows(m.height - len(head) - len(prompt))
	height := max(0, m.height-len(head)-len(foot)-len(prompt))
	m.bodyRoom, m.bodyHeight = m.width, max(1, height)
	wide := m.width >= wideWidth && m.live.todos != nil
	if wide {
		m.bodyRoom -= panelWidth
	}
	body := m.bodyRows(height)
	if wide {
		body = beside(body, m.todoRows(panelWidth-2, height), m.bodyRoom)
	}
	p := picture{x: x, cursor: len(prompt) > 1}
	p.rows = append(append(append(head, body...), foot...), prompt...)
	p.y = len(p.rows) - len(prompt) + y
	return m.trim(p)
}

// trim makes the picture as high as the screen.
func (m *model) trim(p picture) picture {
	for len(p.rows) < m.height {
		p.rows = append(p.rows, nil)
	}
	p.rows = p.rows[:m.height]
	p.x, p.y = min(p.x, m.width-1), min(p.y, m.height-1)
	return p
}

func (m *model) tiny() picture {
	return m.trim(picture{rows: []row{rowOf(plain, "cairn: the"), rowOf(plain, "window is"), rowOf(plain, "too small")}})
}

// text answers the picture's rows as they are printed.
func (m *model) text(p picture) []string {
	printed := make([]string, len(p.rows))
	for i, r := range p.rows {
		printed[i] = r.text(m.paint, m.width)
	}
	return printed
}

func (m *model) bodyRows(height int) []row {
	body := m.win.look(m.bodyRoom, height)
	if len(body) == 0 && height > 0 {
		body = []row{rowOf(faint, m.emptyText())}
	}
	filled := make([]row, 0, height)
	if m.win.first() <= 1 {
		filled = append(filled, body...) // a short log stands at the top
	}
	for len(filled)+len(body) < height && m.win.first() > 1 {
		filled = append(filled, nil)
	}
	if m.win.first() > 1 {
		filled = append(filled, body...)
	}
	for len(filled) < height {
		filled = append(filled, nil)
	}
	return filled[:height]
}

func (m *model) emptyText() string {
	switch {
	case m.readErr != "":
		return m.readErr
	case !m.ready:
		return "reading the session …"
	default:
		return "nothing has happened here yet"
	}
}

// beside puts a panel to the right of rows that are room columns.
func beside(left, right []row, room int) []row {
	for i := range left {
		var panel row
		if i < len(right) {
			panel = right[i]
		}
		gap := max(0, room-left[i].columns())
		left[i] = slices.Concat(left[i], row{{plain, strings.Repeat(" ", gap)}, {faint, "│ "}}, panel)
	}
	return left
}

// footRows answers what stands between transcript and prompt in no more than most rows less what the transcript needs.
func (m *model) footRows(most int) []row {
	most -= min(3, most/2)
	var where []row
	notice := m.saidRows(max(1, most))
	if line := m.placeText(); line != "" {
		where = []row{rowOf(faint, fit(line, m.width))}
	}
	most -= len(notice)
	asks := m.askRows(max(1, min(most, max(3, m.height/3))))
	asks = asks[:max(0, min(len(asks), most))]
	most -= len(asks)
	wishes := m.wishRows(max(0, min(3, most)))
	most -= len(wishes)
	var todos []row
	if m.width < wideWidth && most > 0 {
		todos = m.todoRows(m.width, min(most, max(1, m.height/6)))
	}
	most -= len(todos)
	where = where[:max(0, min(len(where), most))]
	var rows []row
	for _, part := range [][]row{where, todos, wishes, asks, notice} {
		rows = append(rows, part...)
	}
	return rows
}

// saidRows answers what was said to the person in no more than most rows, the newest last.
func (m *model) saidRows(most int) []row {
	var notice []row
	if m.notice != "" {
		notice = textRows(m.noticeStyle, m.notice, m.width, most)
	}
	if m.problem == "" {
		return notice
	}
	return append(textRows(m.problemStyle, m.problem, m.width, most-len(notice)), notice...)
}

// textRows wraps a text into no more than most rows.
func textRows(in style, text string, room, most int) []row {
	lines := wrap(text, room)
	if most <= 0 {
		return nil
	}
	if len(lines) > most {
		lines = lines[:most]
		lines[most-1] = strings.TrimSuffix(fit(lines[most-1], room-1), "…") + "…"
	}
	rows := make([]row, len(lines))
	for i, line := range lines {
		rows[i] = rowOf(in, line)
	}
	return rows
}

// placeText says when the newest part is not what is shown.
func (m *model) placeText() string {
	switch {
	case m.win.follow && !m.behind():
		return ""
	case m.reading:
		return "reading more …"
	case m.behind():
		return "older events · end goes to the newest"
	default:
		return "scrolled up · end goes to the newest"
	}
}

// promptRows answers the line that says what enter does, and the prompt.
func (m *model) promptRows() (rows []row, x, y int) {
	mode, in := m.modeText(), cyan
	if why := m.readOnly(); why != "" {
		mode, in = why, yellow
		if m.editor.empty() {
			return []row{m.ruleRow(in, mode)}, 0, 0
		}
	}
	const mark = "› "
	most := max(1, min(6, m.height/4))
	lines, x, y := m.editor.draw(m.width-len([]rune(mark))-1, most)
	rows = []row{m.ruleRow(in, mode)}
	for i, line := range lines {
		head := "  "
		if i == 0 {
			head = mark
		}
		rows = append(rows, row{{cyan, head}, {plain, line}})
	}
	return rows, x + columns(mark), y + 1
}

func (m *model) ruleRow(in style, text string) row {
	text = fit("── "+text+" ", m.width)
	return row{{in, text}, {faint, strings.Repeat("─", max(0, m.width-columns(text)))}}
}

// modeText says what enter will do.
func (m *model) modeText() string {
	if strings.HasPrefix(m.editor.text, "/") && !strings.HasPrefix(m.editor.text, "//") {
		return "enter runs the command · /help"
	}
	blocked := ""
	if len(m.live.asks) > 0 && m.running() {
		blocked = ", which waits for an answer"
	}
	switch {
	case m.starting && m.holder == "":
		return "the agent starts: what you send waits for it"
	case m.holder == "":
		return "no agent runs: what you send waits for one"
	case m.live.paused:
		return "paused: what you send waits; /resume goes on"
	case m.running():
		return "enter steers the running turn" + blocked
	case m.live.turn.lost && m.live.turn.text != "":
		return "enter sends a new turn · the last was cut off; /again sends its prompt again"
	default:
		return "enter sends a new turn"
	}
}

var todoMarks = map[trace.TodoStatus]struct {
	mark string
	in   style
}{
	trace.TodoCompleted: {"✔", green}, trace.TodoInProgress: {"▸", bold}, trace.TodoNotStarted: {"○", faint},
}

// todoRows answers the todos in no more than most rows: all of them when they fit, else around the one in progress.
func (m *model) todoRows(room, most int) []row {
	if m.live.todos == nil || len(m.live.todos.Items) == 0 || most <= 0 {
		return nil
	}
	items := m.live.todos.Items
	done, current := 0, -1
	for i, item := range items {
		if item.Status == trace.TodoCompleted {
			done++
		}
		if item.Status == trace.TodoInProgress && current < 0 {
			current = i
		}
	}
	title := "todos " + fraction(done, len(items))
	if most == 1 {
		if current >= 0 {
			title += " ▸ " + oneLine(short(items[current].Title, 300))
		}
		return []row{rowOf(bold, fit(title, room))}
	}
	rows := []row{rowOf(bold, fit(title, room))}
	from := max(0, min(current-1, len(items)-(most-1)))
	for _, item := range items[from:min(len(items), from+most-1)] {
		look, known := todoMarks[item.Status]
		if !known {
			look.mark = "·"
		}
		rows = append(rows, rowOf(look.in, fit(look.mark+" "+oneLine(short(item.Title, 300)), room)))
	}
	return rows
}
