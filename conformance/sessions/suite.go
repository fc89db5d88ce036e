package sessions

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Keys are the bearer keys of four different accounts. The names say the part an account plays in
// the cases; nothing else distinguishes them, and no two may be connected by a share or organisation
// outside the suite.
type Keys struct {
	Owner    string
	Editor   string
	Viewer   string
	Stranger string
}

// Target is the server under test.
type Target struct {
	URL  string // base URL, with scheme and without /v1
	Keys Keys
	// Ours adds the cases of cairn's own extensions, which other servers need not have.
	Ours bool
}

// testCase is one promise of one rule. Its function runs in a goroutine of its own.
type testCase struct {
	rule string
	name string
	ours bool // an extension of ours: other servers are not asked
	slow bool // waits for a term of the protocol (lease, ping): started first, outside the limit
	run  func(t *trial)
}

func (c testCase) title() string { return c.rule + " " + c.name }

const (
	// concurrentCases bounds the cases that run at once, besides the slow ones.
	concurrentCases = 6
	caseDeadline    = 60 * time.Second
	slowDeadline    = 85 * time.Second
	// patience is how long a case waits for something that should come at once.
	patience = 10 * time.Second
	// promptly is the second of SS-ROLE-2 and SS-LEASE-5, and what a busy machine adds to it.
	promptly = 2500 * time.Millisecond
)

// suite is what the cases of one run share.
type suite struct {
	target    Target
	base      string
	transport *http.Transport
	client    *http.Client
	owner     account
	editor    account
	viewer    account
	stranger  account
	deadline  time.Duration // of one case; 0 for the usual ones
}

type account struct{ key, userID string }

// Run runs every case against target as parallel subtests of t and answers what became of each rule.
//
// It returns when all cases have ended, within 90 seconds on an idle machine. A case that the filter
// of `go test -run` leaves out is not run and its rule says so. A target that cannot be reached, or
// whose keys do not work, fails t at once.
func Run(t *testing.T, target Target) *Report {
	t.Helper()
	s := newSuite(target)
	defer s.transport.CloseIdleConnections()
	if err := s.identify(t.Context()); err != nil {
		t.Fatalf("prepare the target: %v", err)
	}
	report := newReport(target.Ours)
	t.Run("rules", func(t *testing.T) { s.schedule(t, report) })
	return report
}

func newSuite(target Target) *suite {
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	return &suite{
		target:    target,
		base:      strings.TrimSuffix(target.URL, "/"),
		transport: transport,
		client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// identify learns the user ids behind the keys: the owner of a session each key makes.
func (s *suite) identify(ctx context.Context) error {
	keys := s.target.Keys
	seen := map[string]bool{}
	for _, pair := range []struct {
		key  string
		into *account
	}{{keys.Owner, &s.owner}, {keys.Editor, &s.editor}, {keys.Viewer, &s.viewer}, {keys.Stranger, &s.stranger}} {
		probe := newTrial(ctx, s)
		caller := probe.as(account{key: pair.key})
		answer := caller.post("/v1/sessions", object{})
		var session wire.Session
		if answer.status != http.StatusCreated || decode(answer.body, &session) != nil {
			return fmt.Errorf("create a session with each key: %s", answer)
		}
		probe.finish()
		if seen[session.OwnerUserID] {
			return fmt.Errorf("tell the accounts apart: two keys belong to user %s", session.OwnerUserID)
		}
		seen[session.OwnerUserID] = true
		*pair.into = account{key: pair.key, userID: session.OwnerUserID}
	}
	return nil
}

// schedule makes one parallel subtest per case. The work itself runs in goroutines of the suite, so
// that how many run at once does not depend on the -parallel flag; a subtest only waits for its case.
func (s *suite) schedule(t *testing.T, report *Report) {
	var selected []*attempt
	for _, c := range cases() {
		if c.ours && !s.target.Ours {
			report.omit(c)
			continue
		}
		a := &attempt{testCase: c, done: make(chan struct{})}
		t.Run(c.title(), func(t *testing.T) {
			selected = append(selected, a) // before Parallel: one subtest after the other
			t.Parallel()
			<-a.done
			report.add(a)
			if len(a.failures) > 0 {
				t.Error(strings.Join(a.failures, "\n"))
			}
		})
	}
	go s.execute(selected)
}

// attempt is one run of a case; the fields besides done are written before done is closed.
type attempt struct {
	testCase
	done     chan struct{}
	failures []string
	unseen   string
}

// execute runs every attempt: slow ones at once, the others a few at a time.
func (s *suite) execute(attempts []*attempt) {
	slots := make(chan struct{}, concurrentCases)
	slices.SortStableFunc(attempts, func(a, b *attempt) int { return rank(a) - rank(b) })
	for _, a := range attempts {
		if a.slow {
			go s.attempt(a)
			continue
		}
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			s.attempt(a)
		}()
	}
}

func rank(a *attempt) int {
	if a.slow {
		return 0
	}
	return 1
}

// attempt runs one case in its own goroutine, which FailNow of its trial may end early.
func (s *suite) attempt(a *attempt) {
	defer close(a.done)
	deadline := caseDeadline
	if a.slow {
		deadline = slowDeadline
	}
	if s.deadline > 0 {
		deadline = s.deadline
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	t := newTrial(ctx, s)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		defer t.finish()
		defer t.recoverPanic()
		a.run(t)
	}()
	<-finished
	a.failures, a.unseen = t.outcome()
}

func (t *trial) recoverPanic() {
	if cause := recover(); cause != nil {
		t.Errorf("the case panicked: %v\n%s", cause, debug.Stack())
	}
}

// FailNow ends the case; testify's require calls it.
func (t *trial) FailNow() {
	t.mu.Lock()
	t.failed = true
	t.mu.Unlock()
	runtime.Goexit()
}
