package sessions

import (
	"fmt"
	"strings"
	"sync"
)

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

// Report collects the verdicts of a run. It is safe for concurrent use.
type Report struct {
	ours bool

	mu    sync.Mutex // guards rules
	rules map[string]*tally
}

type tally struct {
	passed  int
	failed  []string // title: first line of what went wrong
	unseen  []string
	omitted int // extensions the target was not asked for
}

func newReport(ours bool) *Report { return &Report{ours: ours, rules: map[string]*tally{}} }

func (r *Report) of(rule string) *tally {
	found, ok := r.rules[rule]
	if !ok {
		found = &tally{}
		r.rules[rule] = found
	}
	return found
}

// omit counts a case of an extension that is not asked for.
func (r *Report) omit(c testCase) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of(c.rule).omitted++
}

// add counts the outcome of a case.
func (r *Report) add(a *attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rule := r.of(a.rule)
	switch {
	case len(a.failures) > 0:
		rule.failed = append(rule.failed, a.name+": "+gist(a.failures[0]))
	case a.unseen != "":
		rule.unseen = append(rule.unseen, a.name+": "+a.unseen)
	default:
		rule.passed++
	}
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
	return shorten(strings.Join(kept, " "))
}

// Lines answers one line per rule of the specification, in its order.
func (r *Report) Lines() []Line {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := make([]Line, 0, len(rules))
	for _, rule := range rules {
		lines = append(lines, r.line(rule))
	}
	return lines
}

func (r *Report) line(rule rule) Line {
	count := r.of(rule.id)
	switch {
	case len(count.failed) > 0:
		why := count.failed[0]
		if more := len(count.failed) - 1; more > 0 {
			why += fmt.Sprintf(" (and %d more)", more)
		}
		return Line{rule.id, Fail, why}
	case count.passed > 0:
		return Line{rule.id, Pass, rule.note(count)}
	case len(count.unseen) > 0:
		return Line{rule.id, Skip, count.unseen[0]}
	case count.omitted > 0:
		return Line{rule.id, Skip, "an extension of cairn; -ours asks for it"}
	case rule.unseen != "":
		return Line{rule.id, Skip, rule.unseen}
	default:
		return Line{rule.id, Skip, "left out by the filter of this run"}
	}
}

// note says what a pass does not cover.
func (rule rule) note(count *tally) string {
	var parts []string
	if rule.unseen != "" {
		parts = append(parts, "not seen from outside: "+rule.unseen)
	}
	parts = append(parts, count.unseen...)
	if count.omitted > 0 {
		parts = append(parts, fmt.Sprintf("%d extensions of cairn not asked", count.omitted))
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
