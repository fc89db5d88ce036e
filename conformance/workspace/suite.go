package workspace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairnsync/cairn/conformance/contract"
	"github.com/cairnsync/cairn/conformance/rulebook"
)

// Instance is a running instance of one or several nodes. Its first person owns it.
type Instance interface {
	// Nodes are the base URLs, with scheme and without /api/v1. Requests and sockets are spread over them.
	Nodes() []string
	// Owner is the id of the person who owns the instance.
	Owner() string
	// LoginCode makes a code that signs a person in once.
	LoginCode(ctx context.Context, userID string) (string, error)
}

// Operated is an instance whose operator is at hand.
type Operated interface {
	Instance

	// Restart stops every node as an update does and starts them again, under the same addresses.
	Restart(ctx context.Context) error
	// Restore stops every node, takes the database into use as a restored backup and starts again.
	Restore(ctx context.Context) error
	// RotateKeys replaces the keys that sign tokens.
	RotateKeys(ctx context.Context) error
	// Configuration answers every configuration key with its value as `cairn config` shows it.
	Configuration(ctx context.Context) (map[string]string, error)
	// Stop ends the instance.
	Stop(ctx context.Context) error
}

// Operator starts instances.
type Operator interface {
	// Start starts an instance on an empty database, with configuration values by their keys (ES-18).
	Start(ctx context.Context, settings map[string]string) (Operated, error)
}

// Target is what is asked. With an Operator, Main may be nil: it is then started too.
type Target struct {
	Main     Instance
	Operator Operator
}

// The settings of instances beside the usual one. Each name is of a profile that some cases need.
const (
	usual     = ""
	hasty     = "hasty"     // nobody may wait with identify
	beating   = "beating"   // a short heartbeat
	fleeting  = "fleeting"  // access tokens of seconds
	stale     = "stale"     // a gateway session cannot be resumed
	stepUp    = "step-up"   // proving who one is lasts seconds
	small     = "small"     // small pages, frames and payloads
	far       = "far"       // a short way to catch up
	narrow    = "narrow"    // short queues
	forgetful = "forgetful" // the log keeps a second
	approval  = "approval"  // devices wait for approval
	limited   = "limited"   // rate classes count
	locking   = "locking"   // failed logins count
	expiring  = "expiring"  // what ends is swept at once
	restarted = "restarted" // for one case that restarts it
	resumed   = "resumed"   // for another one
	restored  = "restored"  // for one case that restores it
	rotating  = "rotating"  // for one case that rotates keys
)

var profiles = map[string]map[string]string{
	usual:     {},
	hasty:     {"sync.identify_timeout": "400ms"},
	beating:   {"sync.heartbeat_interval": "1s"},
	fleeting:  {"auth.access_token_ttl": "8s", "sync.reauth_lead_time": "6s"},
	stale:     {"sync.resume_window": "10ms"},
	stepUp:    {"auth.step_up_max_age": "4s"},
	small:     {"sync.catchup_page_size": "5", "sync.cursor_advance_every": "10", "sync.ws_max_frame_bytes": "16384", "sync.event_payload_max_bytes": "4096", "sync.max_focused_threads": "3", "sync.typing_min_interval": "300ms", "sync.typing_ttl": "2s"},
	far:       {"sync.catchup_max_events": "10"},
	narrow:    {"sync.outbound_queue_max": "16"},
	forgetful: {"sync.event_retention": "1s"},
	approval:  {"auth.require_device_approval": "true"},
	limited: {
		"limits.enabled": "true", "rl.gateway_connect": "3/1m", "rl.login": "10000/1m", "rl.write": "100/1m", "rl.search": "3/1m",
	},
	locking:   {"limits.enabled": "true", "rl.login": "10000/1m"},
	expiring:  {"authz.expiry_sweep_interval": "100ms"},
	restarted: {}, resumed: {}, restored: {}, rotating: {},
}

const (
	concurrentCases = 4
	caseDeadline    = 90 * time.Second
	// patience is how long a case waits for something that should come at once.
	patience = 20 * time.Second
)

// suite is what the cases of one run share.
type suite struct {
	target    Target
	plan      rulebook.Plan
	transport *http.Transport
	client    *http.Client

	mu      sync.Mutex
	started map[string]func() (*instance, error) // guarded by mu; by profile
	left    map[string]int                       // guarded by mu; cases that still need the profile
}

// instance is an instance with its documents.
type instance struct {
	Instance

	answers *contract.Answers
	frames  *contract.Frames
	ended   atomic.Bool
}

func (in *instance) operated() Operated {
	operated, _ := in.Instance.(Operated)
	return operated
}

// Run runs every case against target as parallel subtests of t and answers what became of each rule.
//
// It returns when all cases have ended. A case that the filter of `go test -run` leaves out is not run and its rule
// says so. A target that cannot be reached fails t at once.
func Run(t *testing.T, target Target) *rulebook.Report {
	t.Helper()
	s := newSuite(target)
	defer s.transport.CloseIdleConnections()
	t.Cleanup(func() { s.stop(t) })
	if _, err := s.instance(t.Context(), usual); err != nil {
		t.Fatalf("prepare the target: %v", err)
	}
	report := rulebook.NewReport(rules)
	s.plan.Run(t, s.cases(), report)
	return report
}

func newSuite(target Target) *suite {
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	return &suite{
		target: target, plan: rulebook.Plan{Concurrent: concurrentCases, Deadline: caseDeadline},
		transport: transport, client: &http.Client{Transport: transport, CheckRedirect: lastAnswer},
		started: map[string]func() (*instance, error){}, left: map[string]int{},
	}
}

func lastAnswer(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// instance answers the instance of a profile, starting it for the first who asks; nil where nobody can start one.
func (s *suite) instance(ctx context.Context, profile string) (*instance, error) {
	s.mu.Lock()
	start := s.started[profile]
	if start == nil {
		start = sync.OnceValues(func() (*instance, error) { return s.guarded(context.WithoutCancel(ctx), profile) })
		s.started[profile] = start
	}
	s.mu.Unlock()
	return start()
}

var errEndedEarly = errors.New("the start of the instance ended early")

// guarded starts an instance in a goroutine of its own, which the operator may end: tests do that when they fail.
func (s *suite) guarded(ctx context.Context, profile string) (in *instance, err error) {
	err = errEndedEarly
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		in, err = s.start(ctx, profile)
	}()
	<-ended
	return in, err
}

func (s *suite) start(ctx context.Context, profile string) (*instance, error) {
	in := &instance{}
	switch {
	case profile == usual && s.target.Main != nil:
		in.Instance = s.target.Main
	case s.target.Operator == nil:
		return nil, nil //nolint:nilnil // the case says that it was not asked
	default:
		settings := map[string]string{"limits.enabled": "false"}
		maps.Copy(settings, profiles[profile])
		started, err := s.target.Operator.Start(ctx, settings)
		if err != nil {
			return nil, fmt.Errorf("start an instance with %v: %w", settings, err)
		}
		in.Instance = started
	}
	openAPI, err := s.document(ctx, in, "openapi.yaml")
	if err != nil {
		return nil, err
	}
	asyncAPI, err := s.document(ctx, in, "asyncapi.yaml")
	if err != nil {
		return nil, err
	}
	if in.answers, err = documents.answers(openAPI); err != nil {
		return nil, err
	}
	in.frames, err = documents.frames(asyncAPI)
	return in, err
}

// stop ends what was started and still runs.
func (s *suite) stop(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	profiles := slices.Sorted(maps.Keys(s.started))
	s.mu.Unlock()
	for _, profile := range profiles {
		if err := s.end(context.WithoutCancel(t.Context()), profile); err != nil {
			t.Errorf("stop the instance %q: %v", profile, err)
		}
	}
}

// end stops the instance of a profile, once.
func (s *suite) end(ctx context.Context, profile string) error {
	s.mu.Lock()
	start := s.started[profile]
	s.mu.Unlock()
	if start == nil {
		return nil
	}
	in, err := start()
	if err != nil || in == nil || in.operated() == nil || in.Instance == s.target.Main || in.ended.Swap(true) {
		return nil //nolint:nilerr // what could not be started was told by its cases
	}
	return in.operated().Stop(ctx)
}

// release ends the instance of a profile when no case needs it any more: instances cost connections.
func (s *suite) release(t *rulebook.Trial, profile string) {
	s.mu.Lock()
	s.left[profile]--
	last := s.left[profile] == 0
	s.mu.Unlock()
	if !last {
		return
	}
	if err := s.end(t.Context(), profile); err != nil {
		t.Errorf("stop the instance %q: %v", profile, err)
	}
}

// testCase is one promise of one rule. Its function runs in a goroutine of its own.
type testCase struct {
	rule    string
	name    string
	profile string
	slow    bool // waits for a term of the protocol: started first, outside the limit
	run     func(t *trial)
}

// cases answers every case as the rulebook runs it.
func (s *suite) cases() []rulebook.Case {
	var all []rulebook.Case
	for _, c := range cases() {
		s.left[c.profile]++
		all = append(all, rulebook.Case{Rule: c.rule, Name: c.name, Slow: c.slow, Run: func(base *rulebook.Trial) {
			base.Cleanup(func() { s.release(base, c.profile) })
			t := &trial{Trial: base, suite: s}
			in, err := s.instance(base.Context(), c.profile)
			if err != nil {
				t.Errorf("%v", err)
				return
			}
			if in == nil {
				t.NotSeen("needs the operator of an instance")
			}
			t.in = in
			c.run(t)
		}})
	}
	return all
}

// trial is one case while it runs, on its instance.
type trial struct {
	*rulebook.Trial

	suite *suite
	in    *instance
}
