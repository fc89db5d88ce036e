package attach

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/cairnsync/cairn/internal/cli/render"
)

// style is the parameter of an ANSI SGR sequence (ECMA-48 section 8.3.117).
type style string

const (
	plain   style = ""
	bold    style = "1"
	faint   style = "2"
	italic  style = "2;3"
	invert  style = "7"
	red     style = "31"
	green   style = "32"
	yellow  style = "1;33"
	magenta style = "35"
	cyan    style = "36"
)

// paint colours a text that was made fit to print.
type paint bool

func (p paint) in(s style, text string) string {
	if !bool(p) || s == plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// columns answers how wide a text is on a terminal. Terminals disagree about joined characters, so it is the larger of
// what the two kinds of them do; what is no wider than that fits on both.
func columns(text string) int {
	if ascii(text) {
		return len(text)
	}
	return max(ansi.StringWidth(text), ansi.StringWidthWc(text))
}

func ascii(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// cluster answers the first character as a person sees it, and its columns.
func cluster(text string) (string, int) {
	if len(text) > 0 && text[0] >= ' ' && text[0] <= '~' && (len(text) == 1 || text[1] < 0x80) {
		return text[:1], 1
	}
	first, wide := ansi.FirstGraphemeCluster(text, ansi.GraphemeWidth)
	return first, max(wide, ansi.StringWidthWc(first))
}

// fit shortens a text without styles to at most room columns, of which the last one is an ellipsis then.
func fit(text string, room int) string {
	if room <= 0 {
		return ""
	}
	if columns(text) <= room {
		return text
	}
	used, at := 0, 0
	for at < len(text) {
		one, wide := cluster(text[at:])
		if used+wide > room-1 {
			break
		}
		used, at = used+wide, at+len(one)
	}
	return text[:at] + "…"
}

// pad fits a text and fills it up to room columns.
func pad(text string, room int) string {
	text = fit(text, room)
	return text + strings.Repeat(" ", max(0, room-columns(text)))
}

// wrap breaks a text without styles into rows of at most room columns, at spaces where there are some. Line ends stay.
func wrap(text string, room int) []string {
	room = max(room, 2) // a wide character needs two
	var rows []string
	for line := range strings.SplitSeq(text, "\n") {
		rows = append(rows, wrapLine(line, room)...)
	}
	return rows
}

func wrapLine(line string, room int) []string {
	if ascii(line) && len(line) <= room {
		return []string{line}
	}
	var rows []string
	for line != "" {
		at := rowEnd(line, room)
		rows = append(rows, strings.TrimRight(line[:at], " "))
		line = strings.TrimLeft(line[at:], " ")
	}
	if rows == nil {
		rows = []string{""}
	}
	return rows
}

// rowEnd answers where the first row of a line ends: after the last space that leaves something, or where it is full.
func rowEnd(line string, room int) int {
	used, at, space := 0, 0, 0
	begun := false
	for at < len(line) {
		one, wide := cluster(line[at:])
		if used+wide > room {
			if one == " " && begun {
				return at
			}
			if space > 0 {
				return space
			}
			return max(at, len(one)*boolInt(at == 0))
		}
		used, at = used+wide, at+len(one)
		if one != " " {
			begun = true
		} else if begun {
			space = at
		}
	}
	return len(line)
}

func boolInt(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// oneLine makes a text of other people fit for one line.
func oneLine(text string) string { return strings.TrimSpace(render.Clean(text)) }

// manyLines makes a text of other people fit for several lines.
func manyLines(text string) string {
	return strings.Trim(render.CleanLines(strings.ReplaceAll(text, "\t", "    ")), "\n")
}

// short answers the beginning of a text, no longer than most characters.
func short(text string, most int) string {
	count := 0
	for at := range text {
		if count++; count > most {
			return text[:at] + "…"
		}
	}
	return text
}
