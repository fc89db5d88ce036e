package workspace

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxNames is how many different names after an @ a message is searched for; further ones mention nobody.
const maxNames = 100

// mentionsIn answers the names that stand behind an @ outside of code, each once. A name is of letters,
// digits, dots, dashes and underscores, and begins and ends with a letter or digit; the @ does not follow a
// word, so that an address of e-mail is none.
func mentionsIn(content string) []string {
	var names []string
	if !strings.Contains(content, "@") {
		return nil
	}
	for _, text := range proseOf(content) {
		for at := strings.IndexByte(text, '@'); at >= 0; {
			name := nameAt(text, at)
			if name != "" && !slices.Contains(names, name) {
				if names = append(names, name); len(names) == maxNames {
					return names
				}
			}
			next := strings.IndexByte(text[at+1:], '@')
			if next < 0 {
				break
			}
			at += 1 + next
		}
	}
	return names
}

// nameAt answers the name behind the @ at a position, "" when it mentions nobody.
func nameAt(text string, at int) string {
	before, _ := utf8.DecodeLastRuneInString(text[:at])
	if at > 0 && (isNameRune(before) || strings.ContainsRune(`@/\+`, before)) {
		return ""
	}
	rest := text[at+1:]
	end := strings.IndexFunc(rest, func(r rune) bool { return !isNameRune(r) })
	if end < 0 {
		end = len(rest)
	}
	name := strings.TrimRight(rest[:end], "._-")
	if first, _ := utf8.DecodeRuneInString(name); !unicode.IsLetter(first) && !unicode.IsDigit(first) {
		return ""
	}
	return name
}

func isNameRune(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '.' || r == '_' || r == '-'
}

// proseOf answers the parts of a Markdown text that are no code (CommonMark 0.31: fenced blocks, indented
// blocks, code spans). Indentation under a list item continues the item.
func proseOf(content string) []string {
	var prose []string
	var paragraph strings.Builder
	flush := func() {
		prose = append(prose, withoutSpans(paragraph.String())...)
		paragraph.Reset()
	}
	blocks := blockReader{blankBefore: true}
	for line := range strings.Lines(content) {
		switch blocks.read(line) {
		case codeLine:
			flush()
		case blankLine:
			flush() // a code span does not reach over the end of a paragraph
		case proseLine:
			paragraph.WriteString(line)
		}
	}
	flush()
	return prose
}

type lineKind int

const (
	proseLine lineKind = iota
	blankLine
	codeLine
)

// blockReader tells lines of code from others.
type blockReader struct {
	fence       string // what opened the block the line is in, "" outside
	blankBefore bool
	inList      bool
	inIndented  bool
}

func (b *blockReader) read(line string) lineKind {
	indent, text := indentOf(line)
	if b.fence != "" {
		if indent < 4 && closesFence(text, b.fence) {
			b.fence, b.blankBefore = "", false
		}
		return codeLine
	}
	if text == "" {
		b.blankBefore = true
		return blankLine
	}
	indented := indent >= 4 && !b.inList && (b.blankBefore || b.inIndented)
	b.blankBefore = false
	if b.inIndented = indented; indented {
		return codeLine
	}
	if b.fence = opensFence(text); b.fence != "" {
		return codeLine
	}
	b.inList = startsItem(text) || b.inList && indent > 0
	return proseLine
}

// indentOf answers the columns of white space a line begins with, and the rest of it.
func indentOf(line string) (columns int, text string) {
	for i := range len(line) {
		switch line[i] {
		case ' ':
			columns++
		case '\t':
			columns += 4 - columns%4
		default:
			return columns, strings.TrimRight(line[i:], " \t\r\n")
		}
	}
	return columns, ""
}

// opensFence answers the run of a line that begins a fenced block. The one of backticks has none behind it.
func opensFence(text string) string {
	run := runOf(text)
	if len(run) < 3 || run[0] == '`' && strings.Contains(text[len(run):], "`") {
		return ""
	}
	return run
}

func closesFence(text, fence string) bool {
	run := runOf(text)
	return len(run) >= len(fence) && run[0] == fence[0] && len(run) == len(text)
}

func runOf(text string) string {
	if text == "" || text[0] != '`' && text[0] != '~' {
		return ""
	}
	return text[:len(text)-len(strings.TrimLeft(text, text[:1]))]
}

// startsItem reports whether a line begins an item of a list, or quotes something that may hold one.
func startsItem(text string) bool {
	if text == "-" || text == "*" || text == "+" {
		return true
	}
	if strings.ContainsRune("-*+>", rune(text[0])) {
		return text[0] == '>' || strings.HasPrefix(text[1:], " ")
	}
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	return digits > 0 && digits < 10 && len(text) > digits && strings.ContainsRune(".)", rune(text[digits]))
}

// withoutSpans cuts the code spans out of a paragraph: a run of backticks up to the next run of the same
// length. A run without such a partner is text.
func withoutSpans(text string) []string {
	var parts []string
	start := 0
	for at := 0; at < len(text); {
		if text[at] == '\\' { // an escaped backtick opens nothing
			at += 2
			continue
		}
		if text[at] != '`' {
			at++
			continue
		}
		run := len(text[at:]) - len(strings.TrimLeft(text[at:], "`"))
		end := closingRun(text, at+run, run)
		if end < 0 {
			at += run
			continue
		}
		parts = append(parts, text[start:at])
		at = end
		start = end
	}
	return append(parts, text[start:])
}

// closingRun answers the position behind the next run of exactly n backticks, -1 when there is none.
func closingRun(text string, from, n int) int {
	for at := from; at < len(text); {
		next := strings.IndexByte(text[at:], '`')
		if next < 0 {
			return -1
		}
		at += next
		run := len(text[at:]) - len(strings.TrimLeft(text[at:], "`"))
		if run == n {
			return at + run
		}
		at += run
	}
	return -1
}
