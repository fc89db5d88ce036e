package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cairnsync/cairn/internal/cli/bench"
)

func newBench(a *app) *cobra.Command {
	return group("bench", "Measure the server against baselines", []func(*app) *cobra.Command{
		newBenchSessions, newBenchWorkspace, newBenchNode, newBenchBroadcast,
	}, a)
}

func newBenchSessions(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "sessions", Short: "Measure Shared Sessions", Args: fits}
	return a.measuring(cmd, bench.Sessions(), "appends, fan-out, latency, memory, reconnects, long logs")
}

func newBenchWorkspace(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "workspace", Short: "Measure the Workspace", Args: fits}
	return a.measuring(cmd, bench.Workspace(), "messages, deliveries with permissions, memory, catching up, resuming, latency")
}

// measuring makes a command of a suite.
func (a *app) measuring(cmd *cobra.Command, suite bench.Suite, what string) *cobra.Command {
	cmd.Long = cmd.Short + ": " + what + `. The server and the load are
processes of their own; every figure stands beside a baseline of the same run. Scenarios: ` + strings.Join(suite.Scenarios(), " ") + `.`
	var o bench.Options
	cmd.Flags().StringVar(&o.Postgres, "postgres", os.Getenv("CAIRN_TEST_POSTGRES"), "an empty database on PostgreSQL; none leaves PostgreSQL out")
	cmd.Flags().IntVar(&o.Runs, "runs", 3, "how often each scenario runs; figures are medians")
	cmd.Flags().StringSliceVar(&o.Only, "only", nil, "scenarios to measure")
	cmd.Flags().BoolVar(&o.Quick, "quick", false, "short runs, to try the benchmark itself")
	cmd.Flags().StringVar(&o.Profiles, "profiles", "", "a folder for CPU profiles of the servers")
	cmd.Flags().BoolVar(&a.json, "json", false, "print JSON")
	page := cmd.Flags().String("write", "", "also write the report as Markdown into its part of this file")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if o.Runs < 1 {
			return &usageError{message: "--runs must be at least 1", command: cmd.CommandPath()}
		}
		program, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find this program: %w", err)
		}
		o.Program, o.Progress = program, a.errs
		dir, err := os.MkdirTemp("", "cairn-bench-")
		if err != nil {
			return fmt.Errorf("make a folder for the databases: %w", err)
		}
		defer func() { _ = os.RemoveAll(dir) }() // what stays behind is in the system's temporary folder
		report, err := bench.Measure(cmd.Context(), a.env, suite, o, dir)
		if err != nil {
			return err
		}
		return a.showReport(report, *page)
	}
	return cmd
}

func (a *app) showReport(report bench.Report, page string) error {
	if page != "" {
		before, err := os.ReadFile(page)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("read report: %w", err)
		}
		if err := os.WriteFile(page, []byte(report.Page(string(before))), 0o644); err != nil { //nolint:gosec // a page of the documentation
			return fmt.Errorf("write report: %w", err)
		}
	}
	if !a.json {
		if _, err := fmt.Fprint(a.out, report.Table()); err != nil {
			return fmt.Errorf("print report: %w", err)
		}
		return nil
	}
	encoder := json.NewEncoder(a.out)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(report); err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	return nil
}

// newBenchNode is the server's side of a measurement.
func newBenchNode(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "node", Short: "Serve for a measurement", Args: fits, Hidden: true}
	settings := cmd.Flags().StringArray("set", nil, "key=value")
	profile := cmd.Flags().String("profile", "", "a file for the CPU profile")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return bench.Node(cmd.Context(), *settings, *profile, a.in, a.out)
	}
	return cmd
}

// newBenchBroadcast is the baseline of fan-out.
func newBenchBroadcast(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "broadcast CONNECTIONS SIZE", Short: "Broadcast for a measurement", Args: fits, Hidden: true}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		connections, err := strconv.Atoi(args[0])
		if err != nil {
			return &usageError{message: "CONNECTIONS must be a number", command: cmd.CommandPath()}
		}
		size, err := strconv.Atoi(args[1])
		if err != nil {
			return &usageError{message: "SIZE must be a number", command: cmd.CommandPath()}
		}
		return bench.Broadcast(cmd.Context(), connections, size, a.in, a.out)
	}
	return cmd
}
