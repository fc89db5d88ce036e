package sessions

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/conformance/rulebook"
	"github.com/cairnsync/cairn/wire/code"
)

var (
	flagURL    = flag.String("url", "", "base URL of the server under test")
	flagKeys   = flag.String("keys", "", "keys of four accounts: owner,editor,viewer,stranger")
	flagOurs   = flag.Bool("ours", false, "also ask for the extensions of cairn")
	flagReport = flag.String("report", "", "also write the report to this file")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *flagURL == "" {
		fmt.Println("no -url: the suite checks itself only. Against a server:")
		fmt.Println("  go test ./conformance/sessions -v -url https://… -keys owner,editor,viewer,stranger [-ours] [-report path]")
	}
	os.Exit(m.Run())
}

// TestServer asks the server of -url; without one it asks a server that does everything wrong, which
// no case may believe.
func TestServer(t *testing.T) {
	t.Parallel()
	if *flagURL == "" {
		requireNothingBelieved(t)
		return
	}
	keys := strings.Split(*flagKeys, ",")
	require.Len(t, keys, 4, "-keys owner,editor,viewer,stranger")
	report := Run(t, Target{URL: *flagURL, Keys: Keys{keys[0], keys[1], keys[2], keys[3]}, Ours: *flagOurs})
	fmt.Print(report)
	if *flagReport != "" {
		require.NoError(t, os.WriteFile(*flagReport, []byte(report.String()), 0o600))
	}
}

// liar answers every request with the same success. Nothing it says keeps any rule.
type liar struct{ requests atomic.Int64 }

func (l *liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.requests.Add(1)
	_, _ = io.CopyN(io.Discard, r.Body, 1<<20)
	w.Header().Set("Content-Type", "application/json")
	status := http.StatusOK
	if r.Method == http.MethodPost {
		status = http.StatusCreated
	}
	w.WriteHeader(status)
	fmt.Fprint(w, `{"id":"5b3e0000-0000-4000-8000-000000000000","owner_user_id":"u","last_seq":0,"events":[],"sessions":[],
		"controls":[],"devices":[],"shares":[],"members":[],"presence":[],"lease":null,"deleted":true}`)
}

func requireNothingBelieved(t *testing.T) {
	t.Helper()
	server := httptest.NewServer(&liar{})
	t.Cleanup(server.Close)
	s := newSuite(Target{URL: server.URL, Ours: true})
	t.Cleanup(s.transport.CloseIdleConnections)
	report := rulebook.NewReport(rules)
	for _, outcome := range (rulebook.Plan{Concurrent: concurrentCases, Deadline: 2 * time.Second}).TryAll(s.cases(report)) {
		require.NotEmpty(t, outcome.Failures, "a server that is all wrong passed: %s %s", outcome.Rule, outcome.Name)
		report.Add(outcome)
	}
	require.True(t, report.Failed())
}

func title(c testCase) string { return rulebook.Case{Rule: c.rule, Name: c.name}.Title() }

func TestRulesAndCasesBelongTogether(t *testing.T) {
	t.Parallel()
	known, asked, titles := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, rule := range rules {
		require.Regexp(t, `^SS-[A-Z0-9]+-\d+$`, rule.ID)
		require.False(t, known[rule.ID], "%s stands twice", rule.ID)
		known[rule.ID] = true
	}
	for _, c := range cases() {
		require.True(t, known[c.rule], "%s is no rule", title(c))
		require.False(t, titles[title(c)], "%s stands twice", title(c))
		require.NotNil(t, c.run, title(c))
		titles[title(c)], asked[c.rule] = true, true
	}
	for _, rule := range rules {
		require.True(t, asked[rule.ID] || rule.Unseen != "", "%s has no case and no reason", rule.ID)
	}
	require.Len(t, rules, 66)
}

func TestExtensionsAreAskedForOnDemand(t *testing.T) {
	t.Parallel()
	report := rulebook.NewReport(rules)
	theirs := newSuite(Target{}).cases(report)
	all := newSuite(Target{Ours: true}).cases(rulebook.NewReport(rules))
	require.Less(t, len(theirs), len(all))
	require.Contains(t, report.String(), notOurs)
}

// failing runs check in a trial of its own and answers what it found.
func failing(check func(*trial)) []string {
	plan := rulebook.Plan{Concurrent: 1, Deadline: caseDeadline}
	return plan.Try(rulebook.Case{Run: func(t *rulebook.Trial) { check(&trial{t, newSuite(Target{})}) }}).Failures
}

func TestChecksFindWhatIsWrong(t *testing.T) {
	t.Parallel()
	answerOf := func(t *trial, status int, body string) *answer {
		return &answer{t: t, status: status, header: http.Header{"Content-Type": {"application/json"}}, body: []byte(body)}
	}
	good := `{"error":{"message":"m","type":"invalid_request_error","code":"not_found"}}`
	for name, check := range map[string]struct {
		fails bool
		run   func(*trial)
	}{
		"exact fields":    {false, func(t *trial) { requireFields(t, []byte(`{"a":1,"b":null}`), "x", "b", "a") }},
		"a missing field": {true, func(t *trial) { requireFields(t, []byte(`{"a":1}`), "x", "b", "a") }},
		"a field of ours": {false, func(t *trial) { requireFields(t, []byte(`{"a":1,"b":2}`), "x", "a", "b?") }},
		"none of ours":    {false, func(t *trial) { requireFields(t, []byte(`{"a":1}`), "x", "a", "b?") }},
		"an extra field":  {true, func(t *trial) { requireFields(t, []byte(`{"a":1,"b":2}`), "x", "a") }},
		"a good error":    {false, func(t *trial) { answerOf(t, 404, good).refused(code.NotFound) }},
		"another status":  {true, func(t *trial) { answerOf(t, 403, good).refused(code.NotFound) }},
		"another code":    {true, func(t *trial) { answerOf(t, 404, good).refused(code.Forbidden) }},
		"a wrong type": {true, func(t *trial) {
			answerOf(t, 404, strings.Replace(good, "invalid_request", "server", 1)).refused(code.NotFound)
		}},
		"no message": {true, func(t *trial) { answerOf(t, 404, strings.Replace(good, `"m"`, `""`, 1)).refused(code.NotFound) }},
		"foreign details": {true, func(t *trial) {
			answerOf(t, 404, strings.Replace(good, `"code"`, `"details":{},"code"`, 1)).refused(code.NotFound)
		}},
		"null for a list":   {true, func(t *trial) { list(t, []byte(`{"a":null}`), "a") }},
		"a wire time":       {false, func(t *trial) { requireTimes(t, []byte(`{"a":"2026-09-13T10:00:00.000Z"}`), "a") }},
		"no milliseconds":   {true, func(t *trial) { requireTimes(t, []byte(`{"a":"2026-09-13T10:00:00Z"}`), "a") }},
		"a panic":           {true, func(*trial) { panic("x") }},
		"nothing to report": {false, func(*trial) {}},
	} {
		require.Equal(t, check.fails, len(failing(check.run)) > 0, name)
	}
}

func TestEventStreamReader(t *testing.T) {
	t.Parallel()
	stream := ": ping 7\n\nevent: event\nid: 3\ndata: {\"a\":\ndata: 1}\n\nevent:closed\r\ndata:{\"code\":4403}\r\n\r\n" +
		"data: x\rdata:  y\r\revent: lost\ndata: unfinished"
	var got []frame
	require.Empty(t, failing(func(trial *trial) {
		f, ctx := newFeed(trial, "SSE")
		f.readSSE(ctx, io.NopCloser(iotestOneByte(stream)))
		for one := range f.frames {
			one.at = time.Time{}
			got = append(got, one)
		}
		require.Equal(trial, 4403, f.end.code)
	}))
	require.Equal(t, []frame{
		{name: "comment", data: []byte("ping 7")},
		{name: "event", id: "3", data: []byte("{\"a\":\n1}")},
		{name: "closed", data: []byte(`{"code":4403}`)},
		{data: []byte("x\n y")},
	}, got)
}

// iotestOneByte reads text one byte at a time, so that every split of a line happens.
func iotestOneByte(text string) io.Reader { return &oneByte{rest: []byte(text)} }

type oneByte struct{ rest []byte }

func (o *oneByte) Read(p []byte) (int, error) {
	if len(o.rest) == 0 {
		return 0, io.EOF
	}
	p[0], o.rest = o.rest[0], o.rest[1:]
	return 1, nil
}

func TestPayloadsAreWhatTheySay(t *testing.T) {
	t.Parallel()
	for _, payload := range slices.Concat(opaquePayloads(), spacedPayloads()) {
		require.Empty(t, failing(func(trial *trial) { compact(trial, []byte(payload)) }), payload)
		require.True(t, strings.HasPrefix(payload, "{"))
	}
	require.Regexp(t, `^\[{511}\]{511}$`, strings.Trim(opaquePayloads()[7], `{}":dep`))
}

func TestKeysMustBeFourAccounts(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(&liar{})
	t.Cleanup(server.Close)
	s := newSuite(Target{URL: server.URL, Keys: Keys{"a", "b", "c", "d"}})
	t.Cleanup(s.transport.CloseIdleConnections)
	require.ErrorContains(t, s.identify(context.Background()), "tell the accounts apart")
	s = newSuite(Target{URL: "http://127.0.0.1:1"})
	require.ErrorContains(t, s.identify(context.Background()), "create a session with each key")
}
