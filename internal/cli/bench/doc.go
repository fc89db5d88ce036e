// Package bench measures the server against baselines in the same run.
//
// Contract. Every figure comes with its baseline, its load and the server's CPU seconds per million
// operations. The server is a process of its own (this binary again), the load is another. A figure is
// the median of several runs. What falls short of its goal is shown as it is.
//
// Blocking and concurrency. Measure runs one scenario after another and may take many minutes. It ends
// every process it started. CPU and memory of the server are read from /proc and missing elsewhere.
package bench

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/cairnsync/cairn/internal/env"
)

// Options say what to measure.
type Options struct {
	// Postgres is the address of an empty database, or cairn's own, on PostgreSQL; "" leaves it out.
	Postgres string
	// Runs is how often each scenario runs.
	Runs int
	// Only names scenarios; none means all.
	Only []string
	// Quick shortens every scenario, to try the bench itself; its figures mean little.
	Quick bool
	// Program is this binary, which is started again as the server.
	Program string
	// Profiles is a folder for the servers' CPU profiles, "" for none.
	Profiles string
	// Progress gets a line for every run.
	Progress io.Writer
}

// Figure is one result.
type Figure struct {
	Scenario string  `json:"scenario"`
	Engine   string  `json:"engine"`
	Load     string  `json:"load"`
	Unit     string  `json:"unit"`
	Value    float64 `json:"value"`
	// Baseline is what Value is compared with, in the same unit; Against says what it is.
	Baseline float64 `json:"baseline,omitempty"`
	Against  string  `json:"against,omitempty"`
	// Ratio is Value / Baseline.
	Ratio float64 `json:"ratio,omitempty"`
	// CPU is the server's CPU seconds per million operations; 0 where it is not measured.
	CPU  float64 `json:"cpu_seconds_per_million,omitempty"`
	Goal string  `json:"goal"`
	Met  bool    `json:"met"`
}

// Report is a whole measurement.
type Report struct {
	Surface string    `json:"surface"`
	Machine string    `json:"machine"`
	Date    time.Time `json:"date"`
	Runs    int       `json:"runs"`
	Figures []Figure  `json:"figures"`

	suite Suite
}

// scenario measures one thing once.
type scenario struct {
	name    string
	engines bool // once per engine; otherwise on SQLite only
	run     func(ctx context.Context, b *bench, engine string) ([]Figure, error)
}

// Suite is what is measured together: one surface.
type Suite struct {
	name, title string
	scenarios   []scenario
	limits      string // what the figures do not say by themselves
}

// Sessions is the suite of Shared Sessions.
func Sessions() Suite { return Suite{"sessions", "Shared Sessions", sessionScenarios, sessionLimits} }

var sessionScenarios = []scenario{
	{"append", true, measureAppends},
	{"append-batch", true, measureBatches},
	{"fanout-loaded", false, measureLoadedFanout},
	{"fanout-single", false, measureSingleFanout},
	{"latency", false, measureLatency},
	{"idle", false, measureIdle},
	{"reconnect", true, measureReconnect},
	{"slow-viewer", false, measureSlowViewer},
	{"long-log", true, measureLongLog},
}

// Scenarios names everything that a suite measures.
func (u Suite) Scenarios() []string {
	names := make([]string, len(u.scenarios))
	for i, s := range u.scenarios {
		names[i] = s.name
	}
	return names
}

// bench is one measurement under way.
type bench struct {
	Options

	env *env.Env
	dir string // for SQLite files
}

// Measure runs the scenarios of a suite and answers their medians.
func Measure(ctx context.Context, e *env.Env, suite Suite, o Options, dir string) (Report, error) {
	b := &bench{Options: o, env: e, dir: dir}
	report := Report{Surface: suite.name, Machine: machine(), Date: e.Now(), Runs: o.Runs, suite: suite}
	for _, s := range suite.scenarios {
		if len(o.Only) > 0 && !slices.Contains(o.Only, s.name) {
			continue
		}
		for _, engine := range b.engines(s) {
			figures, err := b.repeat(ctx, s, engine)
			if err != nil {
				return report, fmt.Errorf("measure %s on %s: %w", s.name, engine, err)
			}
			report.Figures = append(report.Figures, figures...)
		}
	}
	return report, nil
}

const (
	sqlite   = "sqlite"
	postgres = "postgres"
)

func (b *bench) engines(s scenario) []string {
	if s.engines && b.Postgres != "" {
		return []string{sqlite, postgres}
	}
	return []string{sqlite}
}

// repeat runs a scenario and answers the median of every figure.
func (b *bench) repeat(ctx context.Context, s scenario, engine string) ([]Figure, error) {
	var runs [][]Figure
	for i := range b.Runs {
		started := b.env.Now()
		figures, err := s.run(ctx, b, engine)
		if err != nil {
			return nil, err
		}
		for _, f := range figures {
			_, _ = fmt.Fprintf(b.Progress, "%s %s run %d (%.0f s): %s: %.4g %s, baseline %.4g, ratio %.2f, CPU %.2f\n",
				s.name, engine, i+1, b.env.Now().Sub(started).Seconds(), f.Load, f.Value, f.Unit, f.Baseline, f.Ratio, f.CPU)
		}
		runs = append(runs, figures)
	}
	return medians(runs), nil
}

// medians joins runs of the same figures.
func medians(runs [][]Figure) []Figure {
	joined := slices.Clone(runs[0])
	for i := range joined {
		of := func(value func(Figure) float64) float64 {
			values := make([]float64, len(runs))
			for k, run := range runs {
				values[k] = value(run[i])
			}
			slices.Sort(values)
			return values[len(values)/2]
		}
		f := &joined[i]
		f.Value = of(func(f Figure) float64 { return f.Value })
		f.Baseline = of(func(f Figure) float64 { return f.Baseline })
		f.Ratio = of(func(f Figure) float64 { return f.Ratio })
		f.CPU = of(func(f Figure) float64 { return f.CPU })
		met := 0
		for _, run := range runs {
			if run[i].Met {
				met++
			}
		}
		f.Met = met > len(runs)/2
	}
	return joined
}

// against completes a figure with its baseline.
func (f Figure) against(what string, baseline float64) Figure {
	f.Against, f.Baseline = what, baseline
	if baseline > 0 {
		f.Ratio = f.Value / baseline
	}
	return f
}

// goal notes whether the goal is met.
func (f Figure) goal(text string, met bool) Figure {
	f.Goal, f.Met = text, met
	return f
}
