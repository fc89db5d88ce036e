package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/internal/cli/demo/view"
	"github.com/cairnsync/cairn/internal/cli/render"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

const tailLines = 50

func newTail(a *app) *cobra.Command {
	var (
		follow bool
		lines  int64
		after  int64
		all    bool
	)
	cmd := &cobra.Command{Use: "tail SESSION", Short: "Print a session's events, and follow it with -f", Args: fits}
	cmd.Long = `Print the last events of a session, one a line, and with -f go on as they come, across lost connections,
without a gap. With --json each line is one frame as the server streams it, its name in "t".
Records that an import kept as they came are left out, but for --all and --json.`
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what comes")
	cmd.Flags().Int64VarP(&lines, "lines", "n", tailLines, "begin with the last `N` events")
	cmd.Flags().Int64Var(&after, "after", 0, "begin after event `SEQ` instead")
	cmd.Flags().BoolVar(&all, "all", false, "also records that an import kept as they came")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			if lines < 0 || after < 0 {
				return wrongUsage("--lines and --after are 0 or more")
			}
			start := after
			if !cmd.Flags().Changed("after") {
				page, err := c.Events(ctx, args[0], client.EventsQuery{Tail: 1})
				if err != nil {
					return err
				}
				start = max(0, page.LastSeq-lines)
			}
			if follow {
				return a.follow(ctx, c, args[0], start, all)
			}
			return a.print(ctx, c, args[0], start, all)
		})(cmd, args)
	}
	return cmd
}

// print prints the log from after to its end.
func (a *app) print(ctx context.Context, c *client.Client, ref string, after int64, all bool) error {
	identity, err := a.knownIdentity()
	if err != nil {
		return err
	}
	write := a.frameWriter(newNameBook(ctx, c, ref, a.json), all)
	for event, err := range c.AllEvents(ctx, ref, after) {
		if err != nil {
			return err
		}
		if identity != "" && client.IsSealed(event.Payload) {
			if plain, err := client.Open(event.Payload, identity); err == nil {
				event.Payload = plain // else it is shown as sealed
			}
		}
		if err := write(client.EventFrame{Event: event}); err != nil {
			return err
		}
	}
	return nil
}

// follow prints the log from after and what comes, until it is interrupted, which is no failure.
func (a *app) follow(ctx context.Context, c *client.Client, ref string, after int64, all bool) error {
	if _, err := c.GetSession(ctx, ref); err != nil {
		return err // the viewer would try again, forever, what is refused or not there from the start
	}
	identity, err := a.knownIdentity()
	if err != nil {
		return err
	}
	err = c.View(ref, client.ViewOptions{After: after, Identity: identity}).Run(ctx, a.frameWriter(newNameBook(ctx, c, ref, a.json), all))
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// frameWriter answers what prints one frame, for people, who know devices by names, or as JSON. all is also what an
// import kept as it came.
func (a *app) frameWriter(names *nameBook, all bool) func(client.Frame) error {
	if a.json {
		return a.writeFrame
	}
	printer := render.Renderer{
		Color: a.colour(), Location: time.Local, Names: names.known, Lines: a.terminal, Kept: all, //nolint:gosmopolitan // people read it where they are
	}
	lease := ""
	day := a.env.Now().In(printer.Location).Format(time.DateOnly)
	return func(frame client.Frame) error {
		names.meet(frame)
		text := printer.Frame(frame)
		if _, is := frame.(client.LeaseFrame); is {
			if text == lease {
				return nil // a heartbeat
			}
			lease = text
		}
		if text == "" {
			return nil
		}
		if event, is := frame.(client.EventFrame); is {
			if on := time.UnixMilli(event.TS).In(printer.Location).Format(time.DateOnly); on != day {
				day, text = on, "      "+on+"\n"+text // lines have times only
			}
		}
		if _, err := fmt.Fprintln(a.out, a.wrapped(text)); err != nil {
			return &printError{err}
		}
		return nil
	}
}

// maxRows bounds what one line of text may become on a narrow terminal.
const maxRows = 200

// wrapped breaks text at the edge of the terminal, if there is one, so that no word is cut.
func (a *app) wrapped(text string) string {
	width := a.columns()
	if width < 2*render.Indent {
		return text
	}
	var rows []string
	for line := range strings.SplitSeq(text, "\n") {
		rows = append(rows, view.Wrap(line, width, render.Indent, maxRows)...)
	}
	return strings.Join(rows, "\n")
}

// colour is true on a terminal whose user did not say otherwise (no-color.org).
func (a *app) colour() bool {
	return a.terminal && a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb"
}

// writeFrame prints a frame as one line of JSON, as on a WebSocket (SS-STR-5).
func (a *app) writeFrame(frame client.Frame) error {
	line, err := frameJSON(frame)
	if err != nil || line == nil {
		return err
	}
	if _, err := a.out.Write(append(line, '\n')); err != nil {
		return &printError{err}
	}
	return nil
}

func frameJSON(frame client.Frame) ([]byte, error) {
	switch frame := frame.(type) {
	case client.EventFrame:
		return named(wire.FrameEvent, frame.Event)
	case client.ControlFrame:
		return named(wire.FrameControl, frame.Control)
	case client.LeaseFrame:
		return named(wire.FrameLease, frame)
	case client.PresenceFrame:
		return named(wire.FramePresence, frame.Presence)
	case client.ResetFrame:
		return named(wire.FrameReset, frame)
	default:
		return nil, nil // connections are not the server's frames
	}
}

// named writes an object with its frame's name in front. The bytes of a payload stay as they came.
func named(name string, object any) ([]byte, error) {
	fields, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode %s frame: %w", name, err)
	}
	return append(fmt.Appendf(nil, `{"t":%q,`, name), fields[1:]...), nil
}
