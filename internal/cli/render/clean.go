package render

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean makes text of other people fit to print in one line. Escape sequences of terminals (ECMA-48) and
// control characters are taken out, line ends become ⏎, tabs a space, and characters that reorder or hide
// text (Unicode bidirectional controls and the like) and bytes that are no UTF-8 become U+FFFD.
func Clean(text string) string { return clean(text, '⏎') }

// CleanLines is Clean for text of several lines: line ends stay.
func CleanLines(text string) string { return clean(text, '\n') }

func clean(text string, lineEnd rune) string {
	if plain(text) {
		return text
	}
	var out strings.Builder
	for len(text) > 0 {
		if length := sequence(text); length > 0 {
			text = text[length:]
			continue
		}
		r, size := utf8.DecodeRuneInString(text)
		if shown, keep := printable(r, lineEnd); keep {
			out.WriteRune(shown)
		}
		text = text[size:]
	}
	return out.String()
}

// plain is true for the usual text, which needs nothing done.
func plain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

func printable(r, lineEnd rune) (shown rune, keep bool) {
	switch {
	case r == '\n', r == '\u2028', r == '\u2029':
		return lineEnd, true
	case r == '\t':
		return ' ', true
	case unicode.IsControl(r):
		return 0, false
	case hides(r):
		return utf8.RuneError, true
	default:
		return r, true
	}
}

// hides is true for characters that change how their neighbours are shown: bidirectional embeddings,
// overrides and isolates, marks, and tags. Joiners stay: scripts and emoji need them.
func hides(r rune) bool {
	switch {
	case r >= 0x202A && r <= 0x202E, r >= 0x2066 && r <= 0x2069, r == 0x200E, r == 0x200F, r == 0x061C:
		return true
	case r >= 0xE0000 && r <= 0xE007F, r == 0xFEFF:
		return true
	default:
		return false
	}
}

// sequence answers the length of the escape sequence that text begins with, or 0. One that does not end is
// as long as its first two characters, so that it cannot swallow the rest.
func sequence(text string) int {
	kind, head := introducer(text)
	switch kind {
	case 0:
		return 0
	case '[':
		return controlSequence(text, head)
	case ']', 'P', 'X', '^', '_':
		return controlString(text, head)
	default:
		return head
	}
}

// introducer answers what follows ESC, also in its one-character form U+0080–U+009F, and how long both are.
func introducer(text string) (kind byte, length int) {
	if text[0] == '\x1b' {
		if len(text) < 2 || text[1] < ' ' || text[1] > '~' {
			return 'c', 1 // an escape that escapes nothing
		}
		return text[1], 2
	}
	if r, size := utf8.DecodeRuneInString(text); r >= 0x80 && r <= 0x9F {
		return byte(r - 0x40), size
	}
	return 0, 0
}

// controlSequence is CSI: parameters and intermediates from space to ?, then one final character.
func controlSequence(text string, head int) int {
	for i := head; i < len(text); i++ {
		switch {
		case text[i] >= '@' && text[i] <= '~':
			return i + 1
		case text[i] < ' ' || text[i] > '?':
			return head
		}
	}
	return head
}

// controlString is OSC, DCS and the like: up to BEL or ST.
func controlString(text string, head int) int {
	for i := head; i < len(text); i++ {
		switch {
		case text[i] == '\a':
			return i + 1
		case strings.HasPrefix(text[i:], "\x1b\\"), strings.HasPrefix(text[i:], "\u009c"):
			return i + 2
		case text[i] == '\n':
			return head
		}
	}
	return head
}

// cut shortens text to most characters, of which the last one is an ellipsis then.
func cut(text string, most int) string {
	count := 0
	for i, r := range text {
		if count++; count == most && i+utf8.RuneLen(r) < len(text) {
			return text[:i] + "…"
		}
	}
	return text
}
