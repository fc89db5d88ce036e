package storage

import "strings"

// toSQLite translates a statement of the portable dialect:
//
//	$n            → ?n (in SQLite $1 is a name, numbered by its first appearance)
//	= ANY($n)     → IN (SELECT value FROM json_each(?n))
//	<> ALL($n)    → NOT IN (SELECT value FROM json_each(?n))
//	FOR UPDATE …  → nothing: the one writer holds the whole file
func toSQLite(query string) string {
	parts := tokens(query)
	var out strings.Builder
	for i := 0; i < len(parts); {
		text, used := translateAt(parts[i:])
		out.WriteString(text)
		i += used
	}
	return out.String()
}

// translateAt translates what begins at the first token and answers how many tokens that took.
func translateAt(parts []token) (string, int) {
	if parts[0].kind == parameterToken {
		return "?" + parts[0].text[1:], 1
	}
	if list, used := listOperator(parts, "=", "ANY", "IN"); used > 0 {
		return list, used
	}
	if list, used := listOperator(parts, "<>", "ALL", "NOT IN"); used > 0 {
		return list, used
	}
	if used := lockClause(parts); used > 0 {
		return "", used
	}
	return parts[0].text, 1
}

// listOperator recognises `operator word ( $n )`, blanks aside.
func listOperator(parts []token, operator, word, replacement string) (string, int) {
	wanted := make([]string, 0, 6)
	for _, char := range operator {
		wanted = append(wanted, string(char))
	}
	wanted = append(wanted, word, "(", "$", ")")
	parameter, next := "", 0
	for i, want := range wanted {
		if i > 0 {
			next += blanks(parts[next:])
		}
		if next >= len(parts) {
			return "", 0
		}
		got := parts[next]
		switch {
		case want == "$" && got.kind == parameterToken:
			parameter = got.text[1:]
		case strings.EqualFold(got.text, want):
		default:
			return "", 0
		}
		next++
	}
	return replacement + " (SELECT value FROM json_each(?" + parameter + "))", next
}

// lockWords are the words of a locking clause after FOR.
var lockWords = map[string]bool{"UPDATE": true, "SHARE": true, "NO": true, "KEY": true, "OF": true, "NOWAIT": true, "SKIP": true, "LOCKED": true}

// lockClause recognises FOR UPDATE, FOR SHARE, FOR NO KEY UPDATE, FOR KEY SHARE, with OF table,
// NOWAIT and SKIP LOCKED, and answers how many tokens it takes.
func lockClause(parts []token) int {
	if parts[0].kind != wordToken || !strings.EqualFold(parts[0].text, "FOR") {
		return 0
	}
	used, strength, afterOf := 1, false, false
	for next := used; next < len(parts); next++ {
		if parts[next].kind == spaceToken {
			continue
		}
		word := strings.ToUpper(parts[next].text)
		if parts[next].kind != wordToken || !(lockWords[word] || afterOf) {
			break
		}
		strength = strength || word == "UPDATE" || word == "SHARE"
		afterOf = word == "OF"
		used = next + 1
	}
	if !strength {
		return 0
	}
	return used
}

func blanks(parts []token) int {
	n := 0
	for n < len(parts) && parts[n].kind == spaceToken {
		n++
	}
	return n
}
