package bench

import (
	"fmt"
	"strings"
	"time"
)

// pageHead begins the page that all suites share.
const pageHead = "# Benchmarks\n"

// Markdown is the report as its suite's part of the page of the documentation.
func (r Report) Markdown() string {
	var out strings.Builder
	fmt.Fprintf(&out, "## %s\n\nMeasured by `cairn bench %s` on %s, %s. Medians of %d runs; the server and the load are\n"+
		"processes of their own on the same machine, so that they share its cores. Every column is a median of its own.\n\n",
		r.suite.title, r.Surface, r.Date.UTC().Format(time.DateOnly), r.Machine, r.Runs)
	out.WriteString("| what | engine | load | measured | baseline | ratio | goal | CPU-s per million |\n| --- | --- | --- | ---: | ---: | ---: | --- | ---: |\n")
	for _, f := range r.Figures {
		fmt.Fprintf(&out, "| %s | %s | %s | %s %s | %s | %s | %s %s | %s |\n", f.Scenario, f.Engine, f.Load, amount(f.Value), f.Unit,
			f.baseline(), ratio(f.Ratio), f.Goal, mark(f.Met), ratio(f.CPU))
	}
	out.WriteString("\n### What limits them\n\n" + r.suite.limits)
	return out.String()
}

// Page puts the report into the page of all suites, in place of what it said about this one before.
func (r Report) Page(before string) string {
	var out strings.Builder
	out.WriteString(pageHead)
	for _, suite := range []Suite{Sessions(), Workspace()} {
		part := partOf(before, suite)
		if suite.name == r.Surface {
			part = r.Markdown()
		}
		if part != "" {
			out.WriteString("\n" + strings.TrimSpace(part) + "\n")
		}
	}
	return out.String()
}

// partOf answers what a page says about a suite, or "".
func partOf(page string, suite Suite) string {
	_, part, found := strings.Cut("\n"+page, "\n## "+suite.title+"\n")
	if !found {
		return ""
	}
	part, _, _ = strings.Cut(part, "\n## ")
	return "## " + suite.title + "\n" + part
}

// sessionLimits is what the figures of Shared Sessions do not say by themselves.
const sessionLimits = `- **append**: the cores. Server, load and, on PostgreSQL, its backends share them; a write costs a request, its
  statements and a share of one flush. On PostgreSQL each append takes two round trips of its lane.
- **fanout-single**: the system call that writes to each viewer, about four fifths of the server's time. The rest is the
  append itself, and the bookkeeping of each stream. With frames waiting one call carries many, so that ours is below
  the baseline's eight.
- **latency**: a thousand writes one after another, and a load process that reads them on the same cores.
- **idle**: the stack of the one goroutine that waits for the client, and the connection itself.
- **reconnect**: on SQLite the handshakes; on PostgreSQL five statements for each viewer (who may see it, who is present),
  of which a server, its database and two thousand clients share two cores.
- **slow-viewer**: the system's socket buffers take some megabytes before a viewer that reads nothing fills its queue.
`

func (f Figure) baseline() string {
	if f.Against == "" {
		return "–"
	}
	return amount(f.Baseline) + " (" + f.Against + ")"
}

func amount(value float64) string {
	switch {
	case value >= 1000:
		return fmt.Sprintf("%.0f", value)
	case value >= 100:
		return fmt.Sprintf("%.0f", value)
	default:
		return fmt.Sprintf("%.2f", value)
	}
}

func ratio(value float64) string {
	if value == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", value)
}

func mark(met bool) string {
	if met {
		return "✓"
	}
	return "missed"
}

// Table is the report for a terminal.
func (r Report) Table() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s, medians of %d runs\n", r.Machine, r.Runs)
	for _, f := range r.Figures {
		fmt.Fprintf(&out, "%-14s %-8s %12s %-26s ratio %-5s goal %-22s %-6s CPU %s\n    %s\n", f.Scenario, f.Engine, amount(f.Value), f.Unit,
			ratio(f.Ratio), f.Goal, mark(f.Met), ratio(f.CPU), f.Load)
		if f.Against != "" {
			fmt.Fprintf(&out, "    against %s: %s\n", f.Against, amount(f.Baseline))
		}
	}
	return out.String()
}
