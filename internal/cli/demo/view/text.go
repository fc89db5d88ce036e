package view

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

const resetStyle = "\x1b[0m"

// Width answers how many columns a line takes on a terminal. SGR sequences take none.
func Width(line string) int {
	columns := 0
	for len(line) > 0 {
		_, size, taken := cell(line)
		columns += taken
		line = line[size:]
	}
	return columns
}

// cell answers what a line begins with: an SGR sequence, or a character and its columns.
func cell(line string) (styled bool, size, columns int) {
	if strings.HasPrefix(line, "\x1b[") {
		if end := strings.IndexByte(line, 'm'); end > 0 {
			return true, end + 1, 0
		}
	}
	r, size := utf8.DecodeRuneInString(line)
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return false, size, 0
	case width.LookupRune(r).Kind() == width.EastAsianWide, width.LookupRune(r).Kind() == width.EastAsianFullwidth:
		return false, size, 2
	default:
		return false, size, 1
	}
}

// Cut shortens a line to at most columns, of which the last one is an ellipsis then.
func Cut(line string, columns int) string {
	if Width(line) <= columns {
		return line
	}
	used, at, styled := 0, 0, false
	for at < len(line) {
		isStyle, size, taken := cell(line[at:])
		if used+taken > columns-1 {
			break
		}
		styled = styled || isStyle
		used, at = used+taken, at+size
	}
	cut := line[:at] + "…"
	if styled {
		cut += resetStyle
	}
	return cut
}

// Wrap breaks a line into at most rows of at most columns, later ones indented, at spaces where there are some. What does
// not fit is cut. A style that is in force goes on in the next row.
func Wrap(line string, columns, indent, rows int) []string {
	var broken []string
	for len(broken) < rows-1 && Width(line) > columns {
		at := breakAt(line, columns, indent, len(broken) > 0)
		head := strings.TrimRight(line[:at], " ")
		style := styleAfter(head)
		if style != "" {
			head += resetStyle
		}
		broken = append(broken, head)
		line = strings.Repeat(" ", indent) + style + strings.TrimLeft(line[at:], " ")
	}
	return append(broken, Cut(line, columns))
}

// breakAt answers where the first row of a line ends: after the last space that is past the indent, or where it is full.
func breakAt(line string, columns, indent int, indented bool) int {
	used, at, space := 0, 0, 0
	for at < len(line) {
		_, size, taken := cell(line[at:])
		if used+taken > columns {
			break
		}
		used, at = used+taken, at+size
		if line[at-1] == ' ' && used > indent+1 {
			space = at
		}
	}
	if space > 0 && (!indented || space > indent) {
		return space
	}
	return max(at, 1)
}

// styleAfter answers the SGR sequence that is in force at the end of a line, or "".
func styleAfter(line string) string {
	style := ""
	for len(line) > 0 {
		isStyle, size, _ := cell(line)
		if isStyle {
			style = line[:size]
			if style == resetStyle {
				style = ""
			}
		}
		line = line[size:]
	}
	return style
}

func pad(text string, columns int) string {
	return Cut(text, columns-1) + strings.Repeat(" ", max(1, columns-Width(text)))
}
