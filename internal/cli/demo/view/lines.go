package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/internal/cli/render"
)

// Sizes of the picture, in columns and lines.
const (
	MinWidth  = 40
	MinHeight = 12

	wideWidth  = 110 // from here on the list stands beside the transcript
	panelWidth = 42
	nameWidth  = 18
	viaWidth   = 11
	stateWidth = 25
	hangIndent = 27 // where the text of an event's line begins
	mostRows   = 3  // of one entry
	headIndent = " Executor  "
	noBreak    = "\u00a0"
)

// style is the parameter of an ANSI SGR sequence (ECMA-48 section 8.3.117).
type style string

const (
	bold   style = "1"
	faint  style = "2"
	green  style = "32"
	red    style = "31"
	cyan   style = "36"
	note   style = "1;35"
	invert style = "7"
)

func (s *Scene) paint(in style, text string) string {
	if !s.Render.Color {
		return text
	}
	return "\x1b[" + string(in) + "m" + text + "\x1b[0m"
}

// Lines answers the picture: at most height lines, each at most width columns.
func (s *Scene) Lines(width, height int) []string {
	width, height = max(width, MinWidth), max(height, MinHeight)
	head := append([]string{s.title(width), s.executor()}, Wrap(s.here(), width, len(headIndent), mostRows)...)
	head = append(head, s.rule(width))
	foot := []string{s.rule(width)}
	wide := width >= wideWidth
	if !wide {
		foot = append(foot, s.todosLine())
	}
	for _, follower := range s.Followers {
		foot = append(foot, s.follower(follower, width))
	}
	room := max(1, height-len(head)-len(foot))
	body := s.transcript(width, room)
	if wide {
		body = beside(s.transcript(width-panelWidth, room), s.panel(room), width-panelWidth)
	}
	lines := make([]string, 0, height)
	for _, line := range append(append(head, body...), foot...) {
		lines = append(lines, Cut(line, width))
	}
	return lines[:min(len(lines), height)]
}

func (s *Scene) rule(width int) string { return s.paint(faint, strings.Repeat("─", width)) }

func (s *Scene) title(width int) string {
	left := s.paint(invert, " cairn demo ") + " " + s.paint(bold, render.Clean(s.Title))
	right := fmt.Sprintf("%s · %d events · %s", s.Engine, s.lastSeq, s.Elapsed.Truncate(100*time.Millisecond))
	if s.tokens > 0 {
		right = fmt.Sprintf("%.1fk tokens · $%.3f · ", float64(s.tokens)/1000, float64(s.cost)/1e6) + right
	}
	gap := width - Width(left) - Width(right)
	if gap < 1 {
		return left
	}
	return left + strings.Repeat(" ", gap) + s.paint(faint, right)
}

func (s *Scene) executor() string {
	switch {
	case s.holder == "":
		return headIndent + s.paint(faint, "nobody")
	case s.forced:
		return headIndent + s.paint(green, s.Name(s.holder)) + s.paint(faint, "  (took the lease by force)")
	default:
		return headIndent + s.paint(green, s.Name(s.holder))
	}
}

func (s *Scene) here() string {
	var parts []string
	for _, device := range s.devices {
		name := strings.ReplaceAll("● "+device.Name, " ", noBreak)
		driving, here := s.presence[device.ID]
		switch {
		case here && driving:
			parts = append(parts, s.paint(green, name)+s.paint(faint, noBreak+"(driving)"))
		case here:
			parts = append(parts, s.paint(green, name))
		default:
			parts = append(parts, s.paint(faint, strings.Replace(name, "●", "○", 1)))
		}
	}
	return " Here      " + strings.Join(parts, "  ")
}

// transcript answers the newest entries in exactly room lines, the newest at the bottom.
func (s *Scene) transcript(width, room int) []string {
	var rows []string
	for i := len(s.entries) - 1; i >= 0 && len(rows) < room; i-- {
		rows = append(s.rows(s.entries[i], width), rows...)
	}
	if len(rows) > room {
		rows = rows[len(rows)-room:]
	}
	for len(rows) < room {
		rows = append(rows, "")
	}
	return rows
}

func (s *Scene) rows(e entry, width int) []string {
	if e.event == nil {
		return Wrap(s.paint(note, "   ━━ "+e.note), width, 6, mostRows)
	}
	return Wrap(s.line(e), width, hangIndent, mostRows)
}

// line answers an entry in one line, with names for devices.
func (s *Scene) line(e entry) string {
	if e.event == nil {
		return s.paint(note, "   ━━ "+e.note)
	}
	return s.names.Replace(s.Render.Event(*e.event))
}

var todoMarks = map[trace.TodoStatus]string{trace.TodoCompleted: "✔", trace.TodoInProgress: "▸", trace.TodoNotStarted: "○"}

func (s *Scene) todosLine() string {
	if s.todos.Total == 0 {
		return s.paint(faint, " Todos     none yet")
	}
	text := fmt.Sprintf(" Todos     %d/%d ", s.todos.Done, s.todos.Total)
	for _, item := range s.todos.Items {
		if item.Status == trace.TodoInProgress {
			return s.paint(cyan, text) + " ▸ " + render.Clean(item.Title)
		}
	}
	return s.paint(cyan, text)
}

// panel answers the list in at most room lines.
func (s *Scene) panel(room int) []string {
	if s.todos.Total == 0 {
		return []string{s.paint(faint, "Todos  none yet")}
	}
	lines := []string{s.paint(bold, fmt.Sprintf("Todos  %d/%d", s.todos.Done, s.todos.Total)), ""}
	for _, item := range s.todos.Items {
		text := todoMarks[item.Status] + " " + render.Clean(item.Title)
		switch item.Status {
		case trace.TodoCompleted:
			text = s.paint(green, text)
		case trace.TodoInProgress:
			text = s.paint(bold, text)
		default:
			text = s.paint(faint, text)
		}
		lines = append(lines, text)
	}
	return lines[:min(len(lines), room)]
}

// beside puts right to the right of left, which is wide columns.
func beside(left, right []string, wide int) []string {
	for i := range min(len(left), len(right)) {
		left[i] = Cut(left[i], wide-1)
		left[i] += strings.Repeat(" ", wide-Width(left[i])) + "│ " + right[i]
	}
	return left
}

// follower answers how far one is, as text and as a bar.
func (s *Scene) follower(f *Follower, width int) string {
	state := string(f.State)
	paint := green
	switch {
	case f.State == Offline:
		paint = red
		if behind := s.lastSeq - f.Seq; behind > 0 {
			state = fmt.Sprintf("offline, %d behind", behind)
		}
	case f.State == Away:
		paint = faint
	case f.State == Live && s.lastSeq-f.Seq > 5:
		paint, state = cyan, fmt.Sprintf("catching up, %d behind", s.lastSeq-f.Seq)
	}
	left := " " + pad(f.Name, nameWidth) + pad(f.Via, viaWidth)
	seq := fmt.Sprintf(" %4d  ", f.Seq)
	bar := max(0, width-Width(left)-Width(seq)-stateWidth)
	right := seq + s.paint(paint, state)
	full := 0
	if s.lastSeq > 0 {
		full = min(bar, int(int64(bar)*f.Seq/s.lastSeq))
	}
	return left + s.paint(paint, strings.Repeat("━", full)) + s.paint(faint, strings.Repeat("·", bar-full)) + right
}
