package attach

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cairnsync/cairn/internal/cli/render"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// maxHistory is how many lines the prompt remembers.
const maxHistory = 100

// editor is the prompt: a text of several lines with a cursor, and what was sent before.
type editor struct {
	text    string
	at      int // byte of the cursor
	history []string
	recall  int    // place in history; len(history) is the draft
	draft   string // what was being written before history was looked through
}

// insert puts a text at the cursor. Control characters are dropped; it answers false, and inserts nothing, when the
// result would be longer than a control may be.
func (e *editor) insert(text string) bool {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u2028", "\n", "\u2029", "\n").Replace(text)
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || r == utf8.RuneError {
			return -1
		}
		return r
	}, text)
	if utf8.RuneCountInString(e.text)+utf8.RuneCountInString(text) > wire.MaxText {
		return false
	}
	e.text = e.text[:e.at] + text + e.text[e.at:]
	e.at += len(text)
	return true
}

func (e *editor) set(text string) { e.text, e.at = text, len(text) }

// take empties the prompt and remembers what stood there.
func (e *editor) take() {
	text := e.text
	if strings.TrimSpace(text) != "" && (len(e.history) == 0 || e.history[len(e.history)-1] != text) {
		e.history = append(e.history, text)
		e.history = e.history[max(0, len(e.history)-maxHistory):]
	}
	e.recall, e.draft = len(e.history), ""
	e.set("")
}

func (e *editor) empty() bool { return e.text == "" }

// before answers where the character before at begins.
func (e *editor) before(at int) int {
	line := strings.LastIndexByte(e.text[:at], '\n') + 1
	if line == at {
		return max(0, at-1)
	}
	last := line
	for next := line; next < at; {
		last = next
		one, _ := cluster(e.text[next:])
		next += len(one)
	}
	return last
}

func (e *editor) after(at int) int {
	if at >= len(e.text) {
		return at
	}
	one, _ := cluster(e.text[at:])
	return at + len(one)
}

func (e *editor) wordBefore() int {
	at := len(strings.TrimRightFunc(e.text[:e.at], unicode.IsSpace))
	return strings.LastIndexFunc(e.text[:at], unicode.IsSpace) + 1
}

func (e *editor) wordAfter() int {
	rest := e.text[e.at:]
	skipped := len(rest) - len(strings.TrimLeftFunc(rest, unicode.IsSpace))
	if end := strings.IndexFunc(rest[skipped:], unicode.IsSpace); end >= 0 {
		return e.at + skipped + end
	}
	return len(e.text)
}

func (e *editor) lineStart() int { return strings.LastIndexByte(e.text[:e.at], '\n') + 1 }

func (e *editor) lineEnd() int {
	if end := strings.IndexByte(e.text[e.at:], '\n'); end >= 0 {
		return e.at + end
	}
	return len(e.text)
}

func (e *editor) cut(from, to int) { e.text, e.at = e.text[:from]+e.text[to:], from }

// key edits by one key, by its name, and answers whether it is one of the prompt's.
func (e *editor) key(name string) bool {
	switch name {
	case "backspace", "ctrl+h", "shift+backspace":
		e.cut(e.before(e.at), e.at)
	case "delete", "ctrl+d":
		e.cut(e.at, e.after(e.at))
	case "left", "ctrl+b":
		e.at = e.before(e.at)
	case "right", "ctrl+f":
		e.at = e.after(e.at)
	case "ctrl+left", "alt+left", "alt+b":
		e.at = e.wordBefore()
	case "ctrl+right", "alt+right", "alt+f":
		e.at = e.wordAfter()
	case "home", "ctrl+a":
		e.at = e.lineStart()
	case "ctrl+e":
		e.at = e.lineEnd()
	case "ctrl+w", "alt+backspace", "ctrl+backspace":
		e.cut(e.wordBefore(), e.at)
	case "ctrl+u":
		e.cut(e.lineStart(), e.at)
	case "ctrl+k":
		e.cut(e.at, e.lineEnd())
	case "alt+enter", "ctrl+j", "shift+enter":
		e.insert("\n")
	case "up", "ctrl+p":
		e.older()
	case "down", "ctrl+n":
		e.newer()
	default:
		return false
	}
	return true
}

// older moves a line up, and from the first line to what was sent before.
func (e *editor) older() {
	if start := e.lineStart(); start > 0 {
		e.at = e.across(strings.LastIndexByte(e.text[:start-1], '\n')+1, start)
		return
	}
	if e.recall == 0 {
		return
	}
	if e.recall == len(e.history) {
		e.draft = e.text
	}
	e.recall--
	e.set(e.history[e.recall])
}

func (e *editor) newer() {
	if end := e.lineEnd(); end < len(e.text) {
		e.at = e.across(end+1, e.lineStart())
		return
	}
	switch {
	case e.recall >= len(e.history):
	case e.recall == len(e.history)-1:
		e.recall++
		e.set(e.draft)
	default:
		e.recall++
		e.set(e.history[e.recall])
	}
}

// across answers the place in the line that begins at to with as many characters before it as the cursor has in its own,
// which begins at from.
func (e *editor) across(to, from int) int {
	for at := from; at < e.at && to < len(e.text) && e.text[to] != '\n'; at = e.after(at) {
		to = e.after(to)
	}
	return to
}

// draw answers no more than most rows of room columns with the cursor in one of them, and where.
func (e *editor) draw(room, most int) (rows []string, x, y int) {
	room = max(room, 2)
	var (
		line strings.Builder
		used int
	)
	end := func() {
		rows = append(rows, line.String())
		line.Reset()
		used = 0
	}
	for at := 0; ; {
		one, shown, wide := e.visible(at)
		if one != "\n" && used+wide > room || one == "" && used >= room {
			end()
		}
		if at == e.at {
			x, y = used, len(rows)
		}
		if one == "" {
			break
		}
		at += len(one)
		if one == "\n" {
			if at-1 == e.at && used >= room {
				x = room - 1
			}
			end()
			continue
		}
		line.WriteString(shown)
		used += wide
	}
	end()
	from := max(0, min(y-most/2, len(rows)-most))
	rows = rows[from:min(len(rows), from+most)]
	return rows, x, y - from
}

// visible answers the character at a place, how it is shown, and its columns.
func (e *editor) visible(at int) (one, shown string, wide int) {
	if at >= len(e.text) {
		return "", "", 0
	}
	one, _ = cluster(e.text[at:])
	if one == "\t" {
		return one, "  ", 2
	}
	if shown = one; one != "\n" {
		shown = render.Clean(one)
	}
	return one, shown, columns(shown)
}
