package render

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct{ in, want string }{
		"plain":                  {"hello, world ~", "hello, world ~"},
		"umlauts and emoji":      {"grüße 👩‍💻 ✓", "grüße 👩‍💻 ✓"},
		"line ends":              {"a\r\nb\u2028c\td", "a⏎b⏎c d"},
		"colour":                 {"\x1b[1;31mred\x1b[0m", "red"},
		"cursor":                 {"a\x1b[2J\x1b[Hb", "ab"},
		"title, ended by BEL":    {"a\x1b]0;evil\ab", "ab"},
		"title, ended by ST":     {"a\x1b]0;evil\x1b\\b", "ab"},
		"title that never ends":  {"a\x1b]0;evil", "a0;evil"},
		"title over a line end":  {"a\x1b]0;ev\nil\a", "a0;ev⏎il"},
		"link":                   {"\x1b]8;;http://x\x1b\\text\x1b]8;;\x1b\\", "text"},
		"sequence cut short":     {"a\x1b[12", "a12"},
		"sequence interrupted":   {"a\x1b[1\x07b", "a1b"},
		"lone escape":            {"a\x1b", "a"},
		"escape of an escape":    {"\x1b\x1b[31mx", "x"},
		"sequence out of pieces": {"\x1b\x1b[m[31mx", "[31mx"},
		"one-character CSI":      {"a\u009b31mb", "ab"},
		"one-character OSC":      {"a\u009d0;x\u009cb", "ab"},
		"bell and backspace":     {"a\a\b\x7f\x00b", "ab"},
		"not UTF-8":              {"a\xff\x9bb", "a\uFFFD\uFFFDb"},
		"right to left override": {"a\u202Eb\u2066c\u200Fd", "a\uFFFDb\uFFFDc\uFFFDd"},
		"byte order mark, tags":  {"\uFEFFa\U000E0041", "\uFFFDa\uFFFD"},
	} {
		require.Equal(t, one.want, Clean(one.in), name)
	}
	require.Equal(t, "a\nb", CleanLines("a\r\n\x1b[31mb"))
}

func TestCut(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		text string
		most int
		want string
	}{{"", 3, ""}, {"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"äöü", 3, "äöü"}, {"äöüß", 3, "äö…"}, {"ab", 1, "…"}} {
		require.Equal(t, one.want, cut(one.text, one.most))
	}
}

func FuzzClean(f *testing.F) {
	for _, seed := range []string{"", "\x1b[31m", "\x1b]0;x\a", "\u009b1m", "a\xffb", "\x1b\x1b[m[31m", "\u202e\r\n\t", "\x1bP\x1b\\"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cleaned := Clean(text)
		require.True(t, utf8.ValidString(cleaned))
		require.False(t, strings.ContainsFunc(cleaned, unicode.IsControl), "%q", cleaned)
		require.Equal(t, cleaned, Clean(cleaned), "cleaning again changes nothing")
	})
}
