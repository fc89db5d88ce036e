package attach

import (
	"slices"
	"strings"

	"github.com/cairnsync/cairn/client/sessions/trace"
)

// span is a piece of a row in one style; a row is what stands on one line of the screen.
type (
	span struct {
		in   style
		text string
	}
	row []span
)

func rowOf(in style, text string) row { return row{{in, text}} }

func (r row) columns() int {
	total := 0
	for _, s := range r {
		total += columns(s.text)
	}
	return total
}

// text answers a row for the screen, no wider than room.
func (r row) text(p paint, room int) string {
	var out strings.Builder
	for i, s := range r {
		wide := columns(s.text)
		if wide > room || wide == room && i < len(r)-1 && len(r[i+1].text) > 0 {
			out.WriteString(p.in(s.in, fit(s.text+"…", room)))
			return out.String()
		}
		out.WriteString(p.in(s.in, s.text))
		room -= wide
	}
	return out.String()
}

// Bounds of one block. More of it is said to be there.
const (
	maxBlockBytes = 64 << 10 // of what people and agents say; a longer text goes on in the next block
	maxToolBytes  = 64 << 10 // of one piece of a result
	maxToolRows   = 400
	thoughtRows   = 3
)

// blockKind says how a block looks.
type blockKind int

const (
	blockLine    blockKind = iota // one thing in its own rows
	blockTurn                     // a turn begins
	blockPerson                   // what a person said
	blockAgent                    // what the agent says
	blockThought                  // what it thinks
	blockTool
	blockSealed
)

// block is a part of the transcript: one or more events that are shown as one.
type block struct {
	kind        blockKind
	first, last int64 // events
	turn        string
	mark        string
	label       string // already fit to print
	body        string // already fit to print
	style       style
	text        strings.Builder // of what grows, as it came
	closed      bool            // nothing is appended any more
	hidden      bool            // something later says the same
	tool        *tool
	count       int // of sealed events

	rows []row // as they were last asked for
	drew drawn
}

// drawn is what rows were made for.
type drawn struct {
	room     int
	open     bool
	selected bool
	valid    bool
}

// touch forgets the rows after a change.
func (b *block) touch() { b.drew.valid = false }

// draw answers the block's rows for a screen with room columns. They are kept until something changes.
func (b *block) draw(room int, open, selected bool) []row {
	want := drawn{room, open, selected, true}
	if b.drew == want {
		return b.rows
	}
	b.rows, b.drew = b.make(room, open, selected), want
	return b.rows
}

func (b *block) make(room int, open, selected bool) []row {
	if b.hidden {
		return nil
	}
	switch b.kind {
	case blockTurn:
		return b.turnRows(room)
	case blockPerson:
		return hang(row{{cyan, "› "}}, plain, withLabel(b.label, b.body), room)
	case blockAgent:
		return hang(row{{green, "● "}}, plain, manyLines(b.text.String()), room)
	case blockThought:
		rows := hang(row{{faint, "∴ "}}, italic, manyLines(b.text.String()), room)
		if !open && len(rows) > thoughtRows {
			rows = append(rows[:thoughtRows-1:thoughtRows-1], rowOf(faint, fit("  … thinking, ctrl+t shows all", room)))
		}
		return rows
	case blockTool:
		return b.tool.rows(room, open, selected)
	case blockSealed:
		return hang(row{{faint, "◆ "}}, faint, plural(b.count, "sealed event")+": "+b.label, room)
	default:
		return hang(row{{b.style, b.mark + " "}}, b.style, withLabel(b.label, b.body), room)
	}
}

func (b *block) turnRows(room int) []row {
	head := "── " + b.label + " "
	fill := max(0, room-columns(head))
	rows := []row{nil, {{faint, fit(head, room)}, {faint, strings.Repeat("─", fill)}}}
	if b.body == "" {
		return rows
	}
	return append(rows, hang(row{{cyan, "› "}}, bold, b.body, room)...)
}

func withLabel(label, body string) string {
	switch {
	case label == "":
		return body
	case body == "":
		return label
	default:
		return label + ": " + body
	}
}

// hang puts a mark before a text; later rows stand under the text.
func hang(mark row, in style, text string, room int) []row {
	indent := mark.columns()
	var rows []row
	for i, line := range wrap(text, max(2, room-indent)) {
		head := row{{plain, strings.Repeat(" ", indent)}}
		if i == 0 {
			head = mark
		}
		rows = append(rows, append(slices.Clip(head), span{in, line}))
	}
	return rows
}

var turnMarks = map[trace.TurnStatus]struct {
	mark  string
	style style
}{
	trace.TurnCompleted: {"■", green}, trace.TurnCancelled: {"■", yellow}, trace.TurnFailed: {"■", red},
}
