package sessions

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cairnsync/cairn/conformance/rulebook"
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

// testCase is one promise of one rule.
type testCase struct {
	rule string
	name string
	ours bool // an extension of ours: other servers are not asked
	slow bool // waits for a term of the protocol (lease, ping): started first, outside the limit
	run  func(t *trial)
}

// notOurs is why an extension is not asked for.
const notOurs = "an extension of cairn; -ours asks for it"

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
}

type account struct{ key, userID string }

// Run runs every case against target as parallel subtests of t and answers what became of each rule.
//
// It returns when all cases have ended, within 90 seconds on an idle machine. A case that the filter
// of `go test -run` leaves out is not run and its rule says so. A target that cannot be reached, or
// whose keys do not work, fails t at once.
func Run(t *testing.T, target Target) *rulebook.Report {
	t.Helper()
	s := newSuite(target)
	defer s.transport.CloseIdleConnections()
	if err := s.identify(t.Context()); err != nil {
		t.Fatalf("prepare the target: %v", err)
	}
	report := rulebook.NewReport(rules)
	plan := rulebook.Plan{Concurrent: concurrentCases, Deadline: caseDeadline, SlowDeadline: slowDeadline}
	plan.Run(t, s.cases(report), report)
	return report
}

// cases answers every case that the target is asked for as the rulebook runs it; the report learns of the others.
func (s *suite) cases(report *rulebook.Report) []rulebook.Case {
	var all []rulebook.Case
	for _, c := range cases() {
		if c.ours && !s.target.Ours {
			report.LeaveOut(c.rule, notOurs)
			continue
		}
		all = append(all, rulebook.Case{Rule: c.rule, Name: c.name, Slow: c.slow, Run: func(t *rulebook.Trial) { c.run(&trial{t, s}) }})
	}
	return all
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
		probe.Finish()
		if seen[session.OwnerUserID] {
			return fmt.Errorf("tell the accounts apart: two keys belong to user %s", session.OwnerUserID)
		}
		seen[session.OwnerUserID] = true
		*pair.into = account{key: pair.key, userID: session.OwnerUserID}
	}
	return nil
}
