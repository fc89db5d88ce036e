package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/conformance/rulebook"
)

var (
	flagURL    = flag.String("url", "", "base URLs of the nodes under test, separated by commas")
	flagOwner  = flag.String("owner", "", "id of the person who owns the instance")
	flagCode   = flag.String("login-code", "cairn user login-code", "command that prints a login code for the id behind it, bare or as {\"code\":…}")
	flagReport = flag.String("report", "", "also write the report to this file")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *flagURL == "" {
		fmt.Println("no -url: the suite checks itself only. Against an instance:")
		fmt.Println("  go test ./conformance/workspace -v -url https://… -owner ID -login-code 'cairn user login-code --json' [-report path]")
	}
	os.Exit(m.Run())
}

// remote is an instance that is reached by its address and a command.
type remote struct{}

func (remote) Nodes() []string { return strings.Split(*flagURL, ",") }
func (remote) Owner() string   { return *flagOwner }

func (remote) LoginCode(ctx context.Context, userID string) (string, error) {
	words := append(strings.Fields(*flagCode), userID)
	printed, err := exec.CommandContext(ctx, words[0], words[1:]...).Output()
	var made struct{ Code string }
	if json.Unmarshal(printed, &made) != nil {
		made.Code = strings.TrimSpace(string(printed))
	}
	return made.Code, err
}

// TestServer asks the instance of -url; without one it asks a server that does everything wrong, which no case may
// believe.
func TestServer(t *testing.T) {
	t.Parallel()
	if *flagURL == "" {
		requireNothingBelieved(t)
		return
	}
	report := Run(t, Target{Main: remote{}})
	fmt.Print(report)
	if *flagReport != "" {
		require.NoError(t, os.WriteFile(*flagReport, []byte(report.String()), 0o600))
	}
}

// liar answers every request with the same success, and publishes the right documents.
type liar struct{ url string }

func (liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for path, file := range map[string]string{"/openapi.yaml": "openapi-workspace.yaml", "/asyncapi.yaml": "asyncapi.yaml"} {
		if strings.HasSuffix(r.URL.Path, path) {
			http.ServeFile(w, r, "../../docs/"+file)
			return
		}
	}
	_, _ = io.CopyN(io.Discard, r.Body, 1<<20)
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"id":"5b3e0000-0000-7000-8000-000000000000","items":[],"events":[],"messages":[],"head_seq":0,"next_cursor":0}`)
}

func (l liar) Nodes() []string                                 { return []string{l.url} }
func (liar) Owner() string                                     { return "5b3e0000-0000-7000-8000-000000000000" }
func (liar) LoginCode(context.Context, string) (string, error) { return "code", nil }
func (liar) Restart(context.Context) error                     { return nil }
func (liar) Restore(context.Context) error                     { return nil }
func (liar) RotateKeys(context.Context) error                  { return nil }
func (liar) Stop(context.Context) error                        { return nil }
func (liar) Configuration(context.Context) (map[string]string, error) {
	return map[string]string{}, nil
}

func (l liar) Start(context.Context, map[string]string) (Operated, error) { return l, nil }

func requireNothingBelieved(t *testing.T) {
	t.Helper()
	server := httptest.NewServer(liar{})
	t.Cleanup(server.Close)
	s := newSuite(Target{Operator: liar{server.URL}})
	t.Cleanup(s.transport.CloseIdleConnections)
	plan := rulebook.Plan{Concurrent: 8, Deadline: 20 * time.Second}
	report := rulebook.NewReport(rules)
	for _, outcome := range plan.TryAll(s.cases()) {
		require.NotEmpty(t, outcome.Failures, "a server that is all wrong passed: %s %s", outcome.Rule, outcome.Name)
		report.Add(outcome)
	}
	require.True(t, report.Failed())
}

func TestRulesAndCasesBelongTogether(t *testing.T) {
	t.Parallel()
	known, asked, titles := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, rule := range rules {
		require.Regexp(t, `^(ES-\d|WS-)`, rule.ID)
		require.False(t, known[rule.ID], "%s stands twice", rule.ID)
		known[rule.ID] = true
	}
	for _, c := range newSuite(Target{}).cases() {
		require.True(t, known[c.Rule], "%s is no rule", c.Title())
		require.False(t, titles[c.Title()], "%s stands twice", c.Title())
		titles[c.Title()], asked[c.Rule] = true, true
	}
	for _, c := range cases() {
		require.Contains(t, profiles, c.profile, c.name)
	}
	for _, rule := range rules {
		require.True(t, asked[rule.ID] || rule.Unseen != "", "%s has no case and no reason", rule.ID)
	}
}

var errAway = errors.New("away")

type nobody struct{}

func (nobody) Start(context.Context, map[string]string) (Operated, error) { return nil, errAway }

func TestWithoutAnInstance(t *testing.T) {
	t.Parallel()
	_, err := newSuite(Target{Operator: nobody{}}).instance(t.Context(), small)
	require.ErrorIs(t, err, errAway)
	in, err := newSuite(Target{Main: remote{}}).instance(t.Context(), small)
	require.NoError(t, err)
	require.Nil(t, in)
	s := newSuite(Target{Main: remote{}})
	cases := s.cases()
	at := slices.IndexFunc(cases, func(c rulebook.Case) bool { return c.Rule == "ES-18" })
	require.Equal(t, "needs the operator of an instance", s.plan.Try(cases[at]).Unseen)
}

func TestHasNull(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`{"a":null}`: true, `[1,[null]]`: true, `{"a":{"b":[{"c":null}]}}`: true, `{"a":"null"}`: false, `{}`: false, ``: false,
	} {
		require.Equal(t, want, hasNull([]byte(text)), text)
	}
}
