package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	client "github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/internal/cli/render"
	"github.com/cairnsync/cairn/internal/transfer"
)

var importFormats = []string{string(transfer.Slack), string(transfer.Mattermost)}

func newWSImport(a *app) *cobra.Command {
	var (
		o             transfer.Options
		format, space string
	)
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Bring the export of another chat into a space", Args: fits,
		Annotations: map[string]string{needs: "--format slack|mattermost --space SPACE"},
	}
	cmd.Long = `Bring an export into a space: of Slack (the zip file, or its folder) or of Mattermost (the bulk export, JSONL or in a zip
file). Channels, threads, messages with their authors and times, edits, reactions and pins come over; authors whose
address nobody here has stand for themselves, and nobody is told about old messages. Importing again, also after an
interruption or with a newer export, adds only what is new.`
	cmd.Flags().StringVar(&format, "format", "", "`FORMAT` of the export: slack or mattermost")
	cmd.Flags().StringVar(&space, "space", "", "`SPACE` to bring it into, by id or name")
	cmd.Flags().StringVar(&o.Source, "source", "", "`NAME` of the export: the same name goes on with the same import (default: format and team of the export)")
	cmd.Flags().IntVar(&o.MaxChars, "max-chars", transfer.DefaultMaxChars, "`CHARACTERS` a message may have on the server (its message.max_chars)")
	cmd.Flags().BoolVar(&o.Private, "private", false, "private channels too; whoever sees the space sees them then")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(importFormats, cobra.ShellCompDirectiveNoFileComp)))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(importFormats, format) {
			return wrongUsage("--format is slack or mattermost, not %q", format)
		}
		if space == "" {
			return wrongUsage("--space is missing: where should it go?")
		}
		if o.MaxChars < 1 {
			return wrongUsage("--max-chars is at least 1")
		}
		o.Format = transfer.Format(format)
		ctx := cmd.Context()
		return a.asMember(ctx, "", func(m *membership) error {
			into, err := aSpace(ctx, m.client, space)
			if err != nil {
				return err
			}
			o.SpaceID, o.Position = into.ID, filepath.Join(m.folder, "import-"+into.ID+"-"+format)
			return a.importChat(ctx, m.client, args[0], o)
		})
	}
	return cmd
}

// chatImport is what --json says.
type chatImport struct {
	ImportID string           `json:"import_id"`
	State    string           `json:"state"`
	Channels int              `json:"channels"`
	Threads  int64            `json:"threads"`
	Messages int64            `json:"messages"`
	Added    int64            `json:"messages_added"`
	Known    int64            `json:"messages_known"`
	Left     map[string]int64 `json:"left_out"`
	Problems int64            `json:"problems"`
}

// importChat brings an export to the server, with a line on a terminal that says how far it is.
func (a *app) importChat(ctx context.Context, c *client.Client, file string, o transfer.Options) error {
	meter := &meter{app: a, file: file, started: a.env.Now(), enabled: !a.json && isTerminal(a.errs)}
	o.Progress = func(r transfer.Report) {
		meter.draw(func(after time.Duration) string { return chatMeter(file, r, after) })
	}
	shown := 0
	o.Problem = func(problem transfer.Problem) {
		if shown++; shown <= maxProblems && !a.json {
			meter.clear()
			a.remark(render.Clean(problem.String()))
		}
	}
	report, err := transfer.Run(ctx, c, file, o)
	meter.clear()
	if shown > maxProblems {
		a.complain(file, 0, fmt.Sprintf("%d more could not be read", shown-maxProblems))
	}
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted\nWhat was stored stays; import again to go on.") //nolint:revive,staticcheck // a sentence for people
	}
	if err != nil {
		return err
	}
	answer := chatImport{
		ImportID: report.Import.ID, State: report.Import.State, Channels: report.Channels, Threads: report.Import.Threads,
		Messages: report.Import.Messages, Added: report.Added, Known: report.Known, Left: report.Left, Problems: report.Problems,
	}
	return a.show(answer, func() error { return a.sayImport(answer) })
}

func (a *app) sayImport(done chatImport) error {
	err := a.say("%s added, %d were there; the import has %d in %s of %s",
		count(int(done.Added), "message"), done.Known, done.Messages, count(int(done.Threads), "thread"), count(done.Channels, "channel"))
	if err == nil && done.Problems > 0 {
		err = a.say("could not be read: %s", count(int(done.Problems), "item"))
	}
	if err != nil || len(done.Left) == 0 {
		return err
	}
	var left []string
	for what, n := range done.Left {
		left = append(left, fmt.Sprintf("%d %s", n, what))
	}
	slices.Sort(left)
	return a.say("left out: %s", strings.Join(left, ", "))
}

// chatMeter is how far an import of a chat is.
func chatMeter(file string, r transfer.Report, after time.Duration) string {
	part := 1.0
	if r.Total > 0 {
		part = min(1, float64(r.Read)/float64(r.Total))
	}
	done := r.Added + r.Known
	rate := 0.0
	if after > 0 {
		rate = float64(done) / after.Seconds()
	}
	full := int(part * meterCells)
	return fmt.Sprintf("%s [%s%s] %3.0f%% of %s, %d messages, %.0f/s", shortName(file), strings.Repeat("#", full),
		strings.Repeat("-", meterCells-full), 100*part, megabytes(r.Total), done, rate)
}
