package bench_test

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/cli/bench"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/testkit"
)

// TestMain lets the test binary be the processes that a measurement starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "bench" {
		os.Exit(play(os.Args[2], os.Args[3:]))
	}
	os.Exit(m.Run())
}

func play(role string, args []string) int {
	var err error
	switch role {
	case "node":
		var settings []string
		for i := 0; i+1 < len(args); i += 2 {
			settings = append(settings, args[i+1])
		}
		err = bench.Node(context.Background(), settings, "", os.Stdin, os.Stdout)
	case "broadcast":
		connections, _ := strconv.Atoi(args[0])
		size, _ := strconv.Atoi(args[1])
		err = bench.Broadcast(context.Background(), connections, size, os.Stdin, os.Stdout)
	default:
		return 2
	}
	if err != nil {
		return 1
	}
	return 0
}

// Every scenario that is quick enough runs, and answers figures that can be read.
func TestMeasure(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	require.NoError(t, err)
	var progress bytes.Buffer
	report, err := bench.Measure(t.Context(), env.Real(), bench.Sessions(), bench.Options{
		Postgres: testkit.EmptyURL(t, testkit.Postgres), Runs: 1, Quick: true, Only: []string{"append", "reconnect"},
		Program: program, Progress: &progress,
	}, t.TempDir())
	require.NoError(t, err, progress.String())
	require.Len(t, report.Figures, 4)
	for _, figure := range report.Figures {
		require.Positive(t, figure.Value, figure.Scenario)
		require.NotEmpty(t, figure.Goal)
		if figure.Against != "" {
			require.Positive(t, figure.Ratio, figure.Scenario)
		}
		require.Contains(t, report.Markdown(), figure.Load)
		require.Contains(t, report.Table(), figure.Load)
	}
}

// The Workspace's scenarios run, too.
func TestMeasureWorkspace(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	require.NoError(t, err)
	var progress bytes.Buffer
	report, err := bench.Measure(t.Context(), env.Real(), bench.Workspace(), bench.Options{
		Postgres: testkit.EmptyURL(t, testkit.Postgres), Runs: 1, Quick: true, Only: []string{"message", "catch-up", "resume"},
		Program: program, Progress: &progress,
	}, t.TempDir())
	require.NoError(t, err, progress.String())
	require.Len(t, report.Figures, 8)
	for _, figure := range report.Figures {
		require.Positive(t, figure.Value, figure.Scenario)
		require.NotEmpty(t, figure.Goal)
		require.Contains(t, report.Markdown(), figure.Load)
	}
}

func TestScenariosAreNamed(t *testing.T) {
	t.Parallel()
	require.Contains(t, bench.Sessions().Scenarios(), "fanout-single")
}

func TestMedians(t *testing.T) {
	t.Parallel()
	run := func(value float64, met bool) []bench.Figure {
		return []bench.Figure{{Scenario: "s", Value: value, Met: met}}
	}
	joined := bench.Medians([][]bench.Figure{run(9, false), run(1, true), run(5, true)})
	require.InDelta(t, 5, joined[0].Value, 0)
	require.True(t, joined[0].Met)
}

// A page has a part for each suite, and a report replaces its own.
func TestPageKeepsBothSurfaces(t *testing.T) {
	t.Parallel()
	report := func(suite bench.Suite, load string) bench.Report {
		return bench.NewReport(suite, []bench.Figure{{Scenario: "s", Load: load}})
	}
	page := report(bench.Sessions(), "first sessions").Page("")
	page = report(bench.Workspace(), "first workspace").Page(page)
	page = report(bench.Sessions(), "second sessions").Page(page)
	for _, text := range []string{"second sessions", "first workspace", "## Shared Sessions", "## Workspace"} {
		require.Equal(t, 1, strings.Count(page, text), text)
	}
	require.NotContains(t, page, "first sessions")
	require.Equal(t, page, report(bench.Workspace(), "first workspace").Page(page))
}
