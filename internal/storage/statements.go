package storage

import (
	"strings"
	"sync"
)

// maxStatements bounds the translated statements; beyond it all are forgotten and translated anew.
// Statements are written in the program, so the bound is met only by SQL that is put together at run time.
const maxStatements = 2048

// statementCache translates each statement once. It is safe for concurrent use.
type statementCache struct {
	translate func(query string) string
	mu        sync.RWMutex
	known     map[string]statement // guarded by mu
}

func newStatementCache(translate func(string) string) *statementCache {
	return &statementCache{translate: translate, known: make(map[string]statement)}
}

func (c *statementCache) get(query string) statement {
	c.mu.RLock()
	stmt, ok := c.known[query]
	c.mu.RUnlock()
	if ok {
		return stmt
	}
	stmt = statement{query: query, text: c.translate(query), writes: writes(query)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxStatements {
		clear(c.known)
	}
	c.known[query] = stmt
	return stmt
}

// writes reports whether a statement may change rows. A SELECT does not; a WITH does when one of the
// changing verbs stands in it; everything else does.
func writes(query string) bool {
	words := significantWords(query)
	if len(words) == 0 || words[0] == "SELECT" || words[0] == "VALUES" {
		return false
	}
	if words[0] != "WITH" {
		return true
	}
	for i, word := range words {
		switch word {
		case "INSERT", "DELETE":
			return true
		case "UPDATE":
			if words[i-1] != "FOR" && words[i-1] != "KEY" { // FOR UPDATE and FOR NO KEY UPDATE only lock
				return true
			}
		}
	}
	return false
}

// significantWords answers the words of a statement in upper case, without literals and comments.
func significantWords(query string) []string {
	var words []string
	for _, part := range tokens(query) {
		if part.kind == wordToken {
			words = append(words, strings.ToUpper(part.text))
		}
	}
	return words
}

// tokenKind is as much grammar as translation needs.
type tokenKind int

const (
	otherToken tokenKind = iota
	wordToken
	spaceToken // and comments
	parameterToken
)

type token struct {
	kind tokenKind
	text string
}

// tokens cuts a statement into tokens whose texts, put together, are the statement.
func tokens(query string) []token {
	var parts []token
	for len(query) > 0 {
		kind, size := nextToken(query)
		parts = append(parts, token{kind, query[:size]})
		query = query[size:]
	}
	return parts
}

func nextToken(query string) (tokenKind, int) {
	switch first := query[0]; {
	case first == '\'' || first == '"':
		return otherToken, quoted(query, first)
	case strings.HasPrefix(query, "--"):
		return spaceToken, until(query, "\n")
	case strings.HasPrefix(query, "/*"):
		return spaceToken, until(query, "*/")
	case first == '$':
		return parameterToken, 1 + span(query[1:], isDigit)
	case isSpace(first):
		return spaceToken, span(query, isSpace)
	case isLetter(first):
		return wordToken, span(query, func(b byte) bool { return isLetter(b) || isDigit(b) })
	default:
		return otherToken, 1
	}
}

// quoted answers the length of a literal; its quote stands doubled inside it.
func quoted(query string, quote byte) int {
	for i := 1; i < len(query); i++ {
		if query[i] != quote {
			continue
		}
		if i+1 < len(query) && query[i+1] == quote {
			i++
			continue
		}
		return i + 1
	}
	return len(query)
}

func until(query, end string) int {
	at := strings.Index(query, end)
	if at < 0 {
		return len(query)
	}
	return at + len(end)
}

func span(text string, belongs func(byte) bool) int {
	n := 0
	for n < len(text) && belongs(text[n]) {
		n++
	}
	return n
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }
func isSpace(b byte) bool { return b == ' ' || b == '\n' || b == '\t' || b == '\r' }
func isLetter(b byte) bool {
	return b == '_' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= 0x80
}
