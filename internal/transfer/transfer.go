// Package transfer reads what other chats export and hands it to an import of the Workspace surface
// (ES-15.8), batch by batch.
//
// Contract. Run reads a Slack export (a zip file or its folder) or a Mattermost bulk export (JSONL, plain or
// in a zip file) from beginning to end and applies it through a Target. What cannot be read is reported with
// its place and skipped; what an export holds and an import has no place for is counted. Running it again, or
// going on after it was interrupted, adds nothing twice: every message has a source id that is the same each
// time, and the server skips what it knows. A position file spares the reading of what was applied for sure.
//
// Order. The messages of a thread are handed over in the order of the export. Threads wait until there is
// enough for a batch, or until too much waits.
//
// What comes over: public channels (private ones when Private is set, never direct messages), authors, texts
// in Markdown, threads, reactions, edits, pins. Files are named and not copied. A message that was the start
// of a thread is the thread's first message. A text that is too long becomes several messages.
//
// Blocking and concurrency. Run works in the goroutine of its caller, one batch at a time, and holds some
// megabytes whatever the size of the export.
package transfer

import (
	"context"
	"fmt"
	"time"

	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Format is what wrote an export.
type Format string

// The formats.
const (
	Slack      Format = "slack"
	Mattermost Format = "mattermost"
)

// Target is where an export goes: the imports of a server. It repeats what failed for a moment by itself; an
// error ends the run.
type Target interface {
	StartImport(ctx context.Context, in wire.NewImport) (wire.Import, error)
	ImportBatch(ctx context.Context, importID string, batch wire.ImportBatch) (wire.ImportReceipt, error)
	FinishImport(ctx context.Context, importID string) (wire.Import, error)
}

// Options say what to do with an export.
type Options struct {
	Format  Format
	SpaceID string
	// Source names the export on the server; empty is the format with the team of the export, else with the name of the file.
	Source string
	// Private brings private channels too. Whoever sees the space then sees them.
	Private bool
	// Position is the path of a file that remembers how far a run came; empty is none. It is removed at the end.
	Position string
	// MaxChars is the server's message.max_chars; 0 is DefaultMaxChars.
	MaxChars int
	// Progress is told after every batch, Problem of everything that is skipped because it cannot be read.
	// Both may be nil.
	Progress func(Report)
	Problem  func(Problem)
}

// DefaultMaxChars is message.max_chars of a server that was not told otherwise.
const DefaultMaxChars = 20_000

// Problem is something in an export that cannot be read.
type Problem struct {
	File   string // within the export
	Line   int64  // from 1; of a file that has no lines, the number of the item
	Reason string
}

func (p Problem) String() string { return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Reason) }

// Report is what a run has done.
type Report struct {
	Import   wire.Import
	Channels int   // with at least one message
	Batches  int   // applied
	Added    int64 // messages that are new on the server
	Known    int64 // messages that were there
	// Left counts what has no place in an import, by what it is: "joined and left", "direct messages".
	Left     map[string]int64
	Problems int64
	Read     int64 // bytes of the export
	Total    int64 // bytes of the export, 0 when nobody knows
}

// Run brings an export to the server and finishes its import.
func Run(ctx context.Context, target Target, file string, o Options) (Report, error) {
	if o.MaxChars <= 0 {
		o.MaxChars = DefaultMaxChars
	}
	source, err := open(file, o.Format)
	if err != nil {
		return Report{}, err
	}
	defer source.close()
	if o.Source == "" {
		o.Source = sourceOf(source, o.Format, file)
	}
	place, err := openPosition(o.Position, o.Source+"\n"+o.SpaceID)
	if err != nil {
		return Report{}, err
	}
	defer place.close()
	r := &run{Options: o, target: target, source: source, position: place, report: Report{Left: map[string]int64{}, Total: source.total}}
	r.batches = newBatcher(r)
	if err := r.read(ctx); err != nil {
		return r.report, err
	}
	if err := r.batches.flush(ctx); err != nil {
		return r.report, err
	}
	if err := r.begin(ctx); err != nil {
		return r.report, err
	}
	if r.report.Import, err = target.FinishImport(ctx, r.report.Import.ID); err != nil {
		return r.report, fmt.Errorf("finish import: %w", err)
	}
	return r.report, place.remove()
}

// run is one run.
type run struct {
	Options

	target   Target
	source   *source
	position *position
	batches  *batcher
	report   Report
}

// begin begins the import on the server, once: with its first batch, or when all was read, so that a file that turns out
// to be something else leaves nothing there.
func (r *run) begin(ctx context.Context) (err error) {
	if r.report.Import.ID != "" {
		return nil
	}
	if r.report.Import, err = r.target.StartImport(ctx, wire.NewImport{SpaceID: r.SpaceID, Source: r.Source}); err != nil {
		return fmt.Errorf("begin import: %w", err)
	}
	return nil
}

func (r *run) read(ctx context.Context) error {
	if r.Format == Slack {
		return r.readSlack(ctx)
	}
	return r.readMattermost(ctx)
}

func (r *run) problemf(file string, line int64, format string, args ...any) {
	r.report.Problems++
	if r.Problem != nil {
		r.Problem(Problem{File: file, Line: line, Reason: fmt.Sprintf(format, args...)})
	}
}

func (r *run) left(what string) { r.report.Left[what]++ }

// moment is a time of an export, if it is one a server takes.
func moment(t time.Time) (time.Time, bool) {
	return t.UTC(), t.Year() >= 1970 && t.Year() < 2200
}
