package search

import (
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/cairnsync/cairn/internal/authz"
)

const (
	// maxWord is how many characters of a word count.
	maxWord = 64
	// maxIndexed bounds the different words of one message that are found, maxBytes what they take together: an
	// entry of PostgreSQL holds a megabyte.
	maxIndexed = 5000
	maxBytes   = 512 << 10
	// maxText is how much of one message is looked at: an index must not hold up who writes.
	maxText = 128 << 10
)

// wordsOf cuts a text into different words, in their order: runs of letters and digits, without case and
// accents. Scripts that write no blanks are cut into pairs of neighbours.
func wordsOf(text string) []string {
	var all []string
	seen, bytes := map[string]bool{}, 0
	add := func(word string) {
		if word != "" && !seen[word] && len(all) < maxIndexed && bytes+len(word) <= maxBytes {
			seen[word] = true
			bytes += len(word)
			all = append(all, word)
		}
	}
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	folded := norm.NFKD.String(cases.Fold().String(text))
	for _, run := range strings.FieldsFunc(folded, between) {
		for _, part := range split(plain(run)) {
			add(part)
		}
	}
	return all
}

// between reports whether a character parts words. Accents stand within them.
func between(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r) }

// Below these characters no table has to be asked.
const (
	firstMark     = 0x0300 // of the accents
	firstUnspaced = 0x0E00 // of Thai, the lowest of the scripts without blanks
)

func plain(run string) []rune {
	var kept []rune
	for _, r := range run {
		if r < firstMark || !unicode.Is(unicode.Mn, r) {
			kept = append(kept, r)
		}
	}
	return kept
}

// split cuts a run into a word of letters as they are and pairs of those that are written without blanks.
func split(run []rune) []string {
	var parts []string
	for begin := 0; begin < len(run); {
		end, dense := begin, unspaced(run[begin])
		for end < len(run) && unspaced(run[end]) == dense {
			end++
		}
		if dense {
			parts = append(parts, pairs(run[begin:end])...)
		} else {
			parts = append(parts, string(run[begin:min(end, begin+maxWord)]))
		}
		begin = end
	}
	return parts
}

func unspaced(r rune) bool {
	return r >= firstUnspaced && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

func pairs(run []rune) []string {
	if len(run) == 1 {
		return []string{string(run)}
	}
	all := make([]string, 0, len(run)-1)
	for i := range len(run) - 1 {
		all = append(all, string(run[i:i+2]))
	}
	return all
}

// placeMark begins the words that say where a message is. No text has a word with it.
const placeMark = "\uE000"

// mark is the word that says that a message is in a space or channel.
func mark(id string) string { return placeMark + strings.ReplaceAll(id, "-", "") }

// marks are the words of a place.
func marks(p authz.Place) []string { return []string{mark(p.SpaceID), mark(p.ChannelID)} }
