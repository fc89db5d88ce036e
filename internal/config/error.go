package config

import (
	"fmt"
	"strings"
)

// Problem is one wrong value.
type Problem struct {
	Key        string
	Value      string // secrets are taken out
	Source     string
	Allowed    string // what would be right
	Unknown    bool   // nobody knows Key
	Suggestion string // what an unknown Key may have meant, or what to do about a wrong value, or ""
}

// String says what is wrong with one value and what to do.
func (p Problem) String() string {
	switch {
	case p.Unknown && p.Suggestion != "":
		return fmt.Sprintf("%s (%s): nobody knows this name; did you mean %s?", p.Key, p.Source, p.Suggestion)
	case p.Unknown:
		return fmt.Sprintf("%s (%s): nobody knows this name; `cairn config` lists them all", p.Key, p.Source)
	case p.Suggestion != "":
		return fmt.Sprintf("%s = %q (%s): %s; allowed is %s", p.Key, p.Value, p.Source, p.Suggestion, p.Allowed)
	default:
		return fmt.Sprintf("%s = %q (%s): allowed is %s", p.Key, p.Value, p.Source, p.Allowed)
	}
}

// Error is everything that is wrong with a configuration.
type Error struct {
	Problems []Problem // at least one
}

// Error names every problem, one a line.
func (e *Error) Error() string {
	lines := make([]string, 0, len(e.Problems)+1)
	lines = append(lines, "the configuration is wrong:")
	for _, problem := range e.Problems {
		lines = append(lines, "  "+problem.String())
	}
	return strings.Join(lines, "\n")
}
