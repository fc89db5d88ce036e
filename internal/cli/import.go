package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	client "github.com/cairnsync/cairn/client/sessions"
	agentrun "github.com/cairnsync/cairn/internal/agent/run"
	"github.com/cairnsync/cairn/internal/agent/transcript"
	"github.com/cairnsync/cairn/internal/cli/render"
)

func newImport(a *app) *cobra.Command {
	var (
		options transcript.Options
		format  string
	)
	cmd := &cobra.Command{Use: "import FILE...", Short: "Make sessions of transcripts of Claude Code, Codex and ACP agents", Args: fits}
	cmd.Long = `Make a session of each transcript: Claude Code's JSONL (~/.claude/projects), Codex's rollouts
(~/.codex/sessions), or a recording of the Agent Client Protocol. A folder stands for every *.jsonl below it. The session
is called import:TOOL:ID. Importing again adds only what is new, also from another device, and after a crash. Records
that have no counterpart are kept as they came; "session tail" leaves them out unless it is given --all.`
	cmd.Flags().StringVar(&format, "format", "", "`FORMAT` of the files: claude, codex or acp (default: by content)")
	cmd.Flags().StringVar(&options.Title, "title", "", "`TITLE` of the session (default: the first prompt)")
	cmd.Flags().BoolVar(&options.DryRun, "dry-run", false, "only read and count, without a server")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(formatNames(), cobra.ShellCompDirectiveNoFileComp)))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		options.Format = transcript.Format(format)
		if format != "" && !slices.Contains(transcript.Formats(), options.Format) {
			return wrongUsage("--format is claude, codex or acp, not %q", format)
		}
		files, err := transcripts(args)
		if err != nil {
			return err
		}
		if options.Title != "" && len(files) != 1 {
			return wrongUsage("--title is for one file, and these are %d", len(files))
		}
		if options.DryRun {
			return a.importAll(cmd.Context(), files, options)
		}
		return a.asking(func(ctx context.Context, c *client.Client, _ []string) error {
			options.Client, options.Lock = c, a.sessionLock(c)
			return a.importAll(ctx, files, options)
		})(cmd, args)
	}
	return a.jsonFlag(cmd)
}

func formatNames() []string {
	var names []string
	for _, format := range transcript.Formats() {
		names = append(names, string(format))
	}
	return names
}

// transcripts are the files that the arguments name, in order; a folder stands for every *.jsonl below it.
func transcripts(args []string) ([]string, error) {
	var files []string
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, fmt.Errorf("open transcript: %w", err)
		}
		if !info.IsDir() {
			files = append(files, arg)
			continue
		}
		before := len(files)
		err = filepath.WalkDir(arg, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() && filepath.Ext(path) == ".jsonl" {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("list folder: %w", err)
		}
		if len(files) == before {
			return nil, fmt.Errorf("there is no *.jsonl in %s", arg)
		}
	}
	return files, nil
}

// importAnswer is what --json says.
type importAnswer struct {
	Files   []transcript.Report `json:"files"`
	Added   int                 `json:"events_added"`
	Known   int                 `json:"events_known"`
	Skipped int                 `json:"lines_skipped"`
	Refused int                 `json:"files_refused"`
}

// errNothingImported ends an import of which nothing went in.
var errNothingImported = errors.New("nothing could be imported")

// importAll imports file after file. One that is no transcript, or whose session
// somebody executes now, is said and left out; any other failure ends it.
func (a *app) importAll(ctx context.Context, files []string, o transcript.Options) error {
	answer := importAnswer{Files: []transcript.Report{}}
	var (
		failed error
		held   []string
	)
	for _, file := range files {
		report, err := a.importOne(ctx, file, o)
		if err != nil {
			report.Error = render.Clean(a.explain(err))
		}
		answer.Files = append(answer.Files, report)
		answer.Added, answer.Known, answer.Skipped = answer.Added+report.Added, answer.Known+report.Known, answer.Skipped+report.Skipped
		if refused := isRefusedFile(err); refused {
			answer.Refused++
			a.complain(file, 0, report.Error)
			continue
		}
		if len(files) > 1 && isHeldElsewhere(err) {
			answer.Refused++
			held = append(held, file)
			a.complain(file, 0, report.Error)
			continue
		}
		if err == nil && report.Added+report.Known == 0 {
			answer.Refused++
		}
		if failed = importFailure(err); failed != nil {
			break
		}
	}
	if err := a.show(answer, func() error { return a.sayImported(answer, o.DryRun) }); err != nil {
		return err
	}
	switch {
	case failed != nil:
		return failed
	case len(held) > 0:
		return fmt.Errorf("%d sessions are executed by somebody now and were left out: import them again later", len(held))
	case answer.Refused == len(answer.Files):
		return errNothingImported
	default:
		return nil
	}
}

// isHeldElsewhere is true for a session that somebody executes now: the others can be imported all the same.
func isHeldElsewhere(err error) bool {
	return errors.Is(err, transcript.ErrHeld) || errors.Is(err, agentrun.ErrRunsHere)
}

// isRefusedFile is true for what is wrong with one file only.
func isRefusedFile(err error) bool {
	var path *fs.PathError
	return errors.Is(err, transcript.ErrUnknownFormat) || errors.Is(err, transcript.ErrSealed) || errors.As(err, &path)
}

// importFailure says what ends an import, and that it can be gone on with.
func importFailure(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, transcript.ErrHeld):
		return fmt.Errorf("%w\nImport again when it is done there.", err) //nolint:revive,staticcheck // a sentence for people
	case errors.Is(err, transcript.ErrTaken):
		return fmt.Errorf("%w\nWhat was stored stays; import again to go on.", err) //nolint:revive,staticcheck // a sentence for people
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted\nWhat was stored stays; import again to go on.") //nolint:revive,staticcheck // a sentence for people
	default:
		return err
	}
}

func (a *app) importOne(ctx context.Context, file string, o transcript.Options) (transcript.Report, error) {
	meter := &meter{app: a, file: file, started: a.env.Now(), enabled: !a.json && isTerminal(a.errs)}
	o.Progress = meter.show
	shown := 0
	o.Problem = func(problem transcript.Problem) {
		if shown++; shown <= maxProblems {
			meter.clear()
			a.complain(file, problem.Line, problem.Reason)
		}
	}
	report, err := transcript.Import(ctx, file, o)
	meter.clear()
	if shown > maxProblems {
		a.complain(file, 0, fmt.Sprintf("%d more lines were skipped", shown-maxProblems))
	}
	return report, err
}

// maxProblems bounds how many lines of one file are complained about.
const maxProblems = 20

// complain says what is wrong with a line of a file, or with line 0 with the file.
func (a *app) complain(file string, line int, reason string) {
	if a.json {
		return // the answer says it
	}
	place := render.Clean(file)
	if line > 0 {
		place = fmt.Sprintf("%s:%d", place, line)
	}
	a.remark(place + ": " + render.Clean(reason))
}

func (a *app) sayImported(answer importAnswer, dry bool) error {
	for _, report := range answer.Files {
		if report.Format == "" {
			continue
		}
		if err := a.sayReport(report, dry); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) sayReport(report transcript.Report, dry bool) error {
	place := "session " + report.SessionID
	added := fmt.Sprintf("%s added", count(report.Added, "event"))
	if dry {
		place, added = "nothing was sent", fmt.Sprintf("%s would be sent", count(report.Added, "event"))
	}
	if report.Known > 0 {
		added += fmt.Sprintf(", %d were there", report.Known)
	}
	lines := count(report.Lines, "line")
	if report.Skipped > 0 {
		lines += fmt.Sprintf(", %d of them skipped", report.Skipped)
	}
	if report.Cut > 0 {
		lines += fmt.Sprintf(", %d too large and cut", report.Cut)
	}
	if !report.Complete {
		lines += ", not read to the end"
	}
	return a.say("%s: %s; %s; %s, %s", report.File, lines, added, place, report.SessionKey)
}

func count(number int, of string) string {
	if number == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", number, of)
}

// meter is the line on a terminal that says how far an import is.
type meter struct {
	app     *app
	file    string
	started time.Time
	shown   time.Time
	enabled bool
	drawn   bool
}

const (
	meterEvery = 100 * time.Millisecond
	meterCells = 20
)

func (m *meter) show(p transcript.Progress) {
	m.draw(func(after time.Duration) string { return meterLine(m.file, p, after) })
}

// draw shows a line in place of the one before, if it is time for another one.
func (m *meter) draw(line func(after time.Duration) string) {
	if !m.enabled {
		return
	}
	now := m.app.env.Now()
	if now.Sub(m.shown) < meterEvery {
		return
	}
	m.shown, m.drawn = now, true
	_, _ = fmt.Fprint(m.app.errs, "\r\x1b[K"+line(now.Sub(m.started))) // as remark
}

func (m *meter) clear() {
	if m.drawn {
		_, _ = fmt.Fprint(m.app.errs, "\r\x1b[K")
		m.drawn = false
	}
}

// meterLine is how far an import is after some time.
func meterLine(file string, p transcript.Progress, after time.Duration) string {
	part := 1.0
	if p.Size > 0 {
		part = min(1, float64(p.Read)/float64(p.Size))
	}
	full := int(part * meterCells)
	rate := 0.0
	if after > 0 {
		rate = float64(p.Events) / after.Seconds()
	}
	return fmt.Sprintf("%s [%s%s] %3.0f%% of %s, %d events, %.0f/s", shortName(file), strings.Repeat("#", full),
		strings.Repeat("-", meterCells-full), 100*part, megabytes(p.Size), p.Events, rate)
}

// shortName is a file's name as a meter shows it.
func shortName(file string) string {
	name := []rune(render.Clean(filepath.Base(file)))
	return string(name[:min(len(name), 24)])
}

func megabytes(size int64) string { return fmt.Sprintf("%.1f MB", float64(size)/1e6) }
