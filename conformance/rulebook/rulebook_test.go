package rulebook

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var plan = Plan{Concurrent: 2, Deadline: 10 * time.Second}

func TestReport(t *testing.T) {
	t.Parallel()
	report := NewReport([]Rule{{ID: "A-1"}, {ID: "A-2", Unseen: "a clock"}, {ID: "A-3"}, {ID: "A-4", Unseen: "a rule for clients"}, {ID: "A-5"}, {ID: "A-6"}, {ID: "A-7"}})
	report.Add(Outcome{Rule: "A-1", Name: "a"})
	report.Add(Outcome{Rule: "A-2", Name: "b"})
	report.Add(Outcome{Rule: "A-3", Name: "c", Failures: []string{"\n\tError Trace:\tx.go:1\n\tError:      \tNot equal\n\tMessages:   \tGET /x"}})
	report.Add(Outcome{Rule: "A-3", Name: "d", Failures: []string{"late"}})
	report.Add(Outcome{Rule: "A-5", Name: "e", Unseen: "no operator"})
	report.LeaveOut("A-1", "an extension")
	report.LeaveOut("A-6", "an extension")
	require.Equal(t, []string{
		"pass  A-1: 1 more not asked: an extension",
		"pass  A-2: not seen from outside: a clock",
		"fail  A-3: c: Not equal GET /x (and 1 more)",
		"skip  A-4: a rule for clients",
		"skip  A-5: e: no operator",
		"skip  A-6: an extension",
		"skip  A-7: left out by the filter of this run",
		"2 pass, 1 fail, 4 skip",
		"",
	}, strings.Split(report.String(), "\n"))
	require.True(t, report.Failed())
}

func TestTrials(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		run      func(*Trial)
		failures int // lines, besides the exchanges
		unseen   string
	}{
		"good":           {func(*Trial) {}, 0, ""},
		"a failed check": {func(t *Trial) { require.NoError(t, errors.New("x")); panic("not reached") }, 1, ""},
		"two failures":   {func(t *Trial) { t.Errorf("a"); t.Errorf("b") }, 2, ""},
		"an early end":   {func(t *Trial) { t.FailNow() }, 1, ""},
		"a panic":        {func(*Trial) { panic("x") }, 1, ""},
		"not seen":       {func(t *Trial) { t.NotSeen("why") }, 0, "why"},
		"never":          {func(t *Trial) { t.Eventually(time.Millisecond, "it", func() bool { return false }) }, 1, ""},
		"in a while": {func(t *Trial) {
			n := 0
			t.Eventually(time.Minute, "it", func() bool { n++; return n == 3 })
		}, 0, ""},
	} {
		cleaned := false
		outcome := plan.Try(Case{Rule: "A-1", Name: name, Run: func(t *Trial) {
			t.Remember("GET /x")
			t.Cleanup(func() { cleaned = t.Context().Err() == nil })
			c.run(t)
		}})
		require.True(t, cleaned, name)
		require.Equal(t, c.unseen, outcome.Unseen, name)
		if c.failures == 0 {
			require.Empty(t, outcome.Failures, name)
			continue
		}
		require.Len(t, outcome.Failures, c.failures+1, name)
		require.Contains(t, outcome.Failures[c.failures], "GET /x", name)
	}
}

func TestSlowCasesHaveTimeOfTheirOwn(t *testing.T) {
	t.Parallel()
	p := Plan{Concurrent: 1, Deadline: time.Minute, SlowDeadline: time.Hour}
	left := func(c Case) time.Duration {
		var left time.Duration
		c.Run = func(t *Trial) {
			deadline, _ := t.Context().Deadline()
			left = time.Until(deadline)
		}
		p.Try(c)
		return left
	}
	require.LessOrEqual(t, left(Case{}), time.Minute)
	require.Greater(t, left(Case{Slow: true}), time.Minute)
	p.SlowDeadline = 0
	require.LessOrEqual(t, left(Case{Slow: true}), time.Minute)
}

func TestRun(t *testing.T) {
	t.Parallel()
	report := NewReport([]Rule{{ID: "A-1"}, {ID: "A-2"}})
	var running, most atomic.Int64
	meet := make(chan struct{})
	cases := []Case{{Rule: "A-2", Name: "slow", Slow: true, Run: func(*Trial) { <-meet }}}
	for _, name := range []string{"a", "b", "c", "d"} {
		cases = append(cases, Case{Rule: "A-1", Name: name, Run: func(*Trial) {
			most.Store(max(most.Load(), running.Add(1)))
			running.Add(-1)
			if name == "d" {
				close(meet)
			}
		}})
	}
	t.Run("all", func(t *testing.T) { plan.Run(t, cases, report) })
	require.Equal(t, "pass  A-1\npass  A-2\n2 pass, 0 fail, 0 skip\n", report.String())
	require.LessOrEqual(t, most.Load(), int64(2))
	require.Equal(t, []int{0, 1, 4, 9}, Concurrently(4, func(i int) int { return i * i }))
}
