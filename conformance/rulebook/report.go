package rulebook

import (
	"fmt"
	"strings"
	"sync"
)

// Rule is one rule of a specification. Unseen says what of it a black box cannot see, or is not the suite's
// to ask; a rule without any case is skipped for that reason.
type Rule struct{ ID, Unseen string }

// Verdict is what became of a rule.
type Verdict string

// The verdicts.
const (
	Pass Verdict = "pass"
	Fail Verdict = "fail"
	Skip Verdict = "skip" // not asked, or not to be seen from outside
)

// Line is the verdict on one rule. Why says what failed, or why the rule was skipped; for a pass it
// says which part of the rule cannot be seen from outside, or nothing.
type Line struct {
	Rule    string
	Verdict Verdict
	Why     string
}

// String is the line as printed.
func (l Line) String() string {
	text := fmt.Sprintf("%-4s  %s", l.Verdict, l.Rule)
	if l.Why != "" {
		text += ": " + l.Why
	}
	return text
}

// Report collects the verdicts of a run.
type Report struct {
	rules []Rule

	mu    sync.Mutex // guards tally
	tally map[string]*tally
}

type tally struct {
	passed int
	failed []string // name: first line of what went wrong
	unseen []string
	left   []string // why cases were left out
}

// NewReport makes a report on rules, in their order.
func NewReport(rules []Rule) *Report { return &Report{rules: rules, tally: map[string]*tally{}} }

func (r *Report) of(rule string) *tally {
	found, ok := r.tally[rule]
	if !ok {
		found = &tally{}
		r.tally[rule] = found
	}
	return found
}

// Add counts the outcome of a case.
func (r *Report) Add(o Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rule := r.of(o.Rule)
	switch {
	case len(o.Failures) > 0:
		rule.failed = append(rule.failed, o.Name+": "+gist(o.Failures[0]))
	case o.Unseen != "":
		rule.unseen = append(rule.unseen, o.Name+": "+o.Unseen)
	default:
		rule.passed++
	}
}

// LeaveOut counts a case that the target is not asked for, and why.
func (r *Report) LeaveOut(rule, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	count := r.of(rule)
	count.left = append(count.left, why)
}

// gist makes one line of a failure: testify's labels and traces are for the full output.
func gist(failure string) string {
	var kept []string
	inTrace := false
	for line := range strings.SplitSeq(failure, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "Error Trace:"):
			inTrace = true
		case strings.HasPrefix(line, "Error:"), strings.HasPrefix(line, "Messages:"):
			inTrace = false
			_, line, _ = strings.Cut(line, ":")
			kept = append(kept, strings.TrimSpace(line))
		case !inTrace && line != "":
			kept = append(kept, line)
		}
	}
	return Shorten(strings.Join(kept, " "))
}

// Shorten cuts a text to a readable length.
func Shorten(text string) string {
	const most = 600
	if len(text) <= most {
		return strings.ToValidUTF8(text, "?")
	}
	return strings.ToValidUTF8(fmt.Sprintf("%s… (%d bytes)", text[:most], len(text)), "?")
}

// Lines answers one line per rule, in their order.
func (r *Report) Lines() []Line {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := make([]Line, 0, len(r.rules))
	for _, rule := range r.rules {
		lines = append(lines, r.line(rule))
	}
	return lines
}

func (r *Report) line(rule Rule) Line {
	count := r.of(rule.ID)
	switch {
	case len(count.failed) > 0:
		why := count.failed[0]
		if more := len(count.failed) - 1; more > 0 {
			why += fmt.Sprintf(" (and %d more)", more)
		}
		return Line{rule.ID, Fail, why}
	case count.passed > 0:
		return Line{rule.ID, Pass, rule.note(count)}
	case len(count.unseen) > 0:
		return Line{rule.ID, Skip, count.unseen[0]}
	case len(count.left) > 0:
		return Line{rule.ID, Skip, count.left[0]}
	case rule.Unseen != "":
		return Line{rule.ID, Skip, rule.Unseen}
	default:
		return Line{rule.ID, Skip, "left out by the filter of this run"}
	}
}

// note says what a pass does not cover.
func (rule Rule) note(count *tally) string {
	var parts []string
	if rule.Unseen != "" {
		parts = append(parts, "not seen from outside: "+rule.Unseen)
	}
	parts = append(parts, count.unseen...)
	if n := len(count.left); n > 0 {
		parts = append(parts, fmt.Sprintf("%d more not asked: %s", n, count.left[0]))
	}
	return strings.Join(parts, "; ")
}

// String is the whole report, one line per rule and a line of sums.
func (r *Report) String() string {
	var text strings.Builder
	sums := map[Verdict]int{}
	for _, line := range r.Lines() {
		sums[line.Verdict]++
		fmt.Fprintln(&text, line)
	}
	fmt.Fprintf(&text, "%d pass, %d fail, %d skip\n", sums[Pass], sums[Fail], sums[Skip])
	return text.String()
}

// Failed reports whether any rule failed.
func (r *Report) Failed() bool {
	for _, line := range r.Lines() {
		if line.Verdict == Fail {
			return true
		}
	}
	return false
}
