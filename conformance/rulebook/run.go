package rulebook

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"
)

// Case is one promise of one rule.
type Case struct {
	Rule string
	Name string
	// Slow cases wait for a term of the protocol: they are started first and do not take a place of the others.
	Slow bool
	Run  func(t *Trial)
}

// Title names the case.
func (c Case) Title() string { return c.Rule + " " + c.Name }

// Outcome is what became of a case: failures, or why it could not be seen, or neither.
type Outcome struct {
	Rule, Name string
	Failures   []string
	Unseen     string
}

// Plan says how cases are run.
type Plan struct {
	Concurrent int           // cases at a time, besides the slow ones
	Deadline   time.Duration // of one case
	// SlowDeadline is that of a slow case; 0 is Deadline.
	SlowDeadline time.Duration
}

// Try runs one case.
func (p Plan) Try(c Case) Outcome {
	deadline := p.Deadline
	if c.Slow && p.SlowDeadline > 0 {
		deadline = p.SlowDeadline
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	t := NewTrial(ctx)
	t.run(c.Run)
	return t.Outcome(c.Rule, c.Name)
}

// TryAll runs cases and answers what became of each, in their order.
func (p Plan) TryAll(cases []Case) []Outcome {
	attempts := make([]*attempt, len(cases))
	for i, c := range cases {
		attempts[i] = &attempt{Case: c, done: make(chan struct{})}
	}
	go p.execute(attempts)
	outcomes := make([]Outcome, len(cases))
	for i, a := range attempts {
		<-a.done
		outcomes[i] = a.outcome
	}
	return outcomes
}

// attempt is one run of a case; outcome is written before done is closed.
type attempt struct {
	Case

	done    chan struct{}
	outcome Outcome
}

// Run makes one parallel subtest per case and reports what became of each. The work itself runs in goroutines of its
// own, so that how many run at once does not depend on the -parallel flag; a subtest only waits for its case. It
// returns when all have ended. What the filter of `go test -run` leaves out is not run.
func (p Plan) Run(t *testing.T, cases []Case, report *Report) {
	t.Helper()
	t.Run("rules", func(t *testing.T) {
		var selected []*attempt
		for _, c := range cases {
			a := &attempt{Case: c, done: make(chan struct{})}
			t.Run(c.Title(), func(t *testing.T) {
				selected = append(selected, a) // before Parallel: one subtest after the other
				t.Parallel()
				<-a.done
				report.Add(a.outcome)
				if len(a.outcome.Failures) > 0 {
					t.Error(strings.Join(a.outcome.Failures, "\n"))
				}
			})
		}
		go p.execute(selected)
	})
}

// execute runs every attempt: slow ones at once, the others a few at a time.
func (p Plan) execute(attempts []*attempt) {
	slots := make(chan struct{}, p.Concurrent)
	for _, slow := range []bool{true, false} {
		for _, a := range attempts {
			if a.Slow != slow {
				continue
			}
			if !slow {
				slots <- struct{}{}
			}
			go func() {
				a.outcome = p.Try(a.Case)
				close(a.done)
				if !slow {
					<-slots
				}
			}()
		}
	}
}

// Concurrently starts n calls at one moment and answers what each got, in order of i.
func Concurrently[T any](n int, call func(i int) T) []T {
	results := make([]T, n)
	start := make(chan struct{})
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			<-start
			results[i] = call(i)
		})
	}
	close(start)
	group.Wait()
	return results
}
