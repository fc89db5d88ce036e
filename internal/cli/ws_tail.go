package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	client "github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/internal/cli/render"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func newWSTail(a *app) *cobra.Command {
	var after int64
	cmd := &cobra.Command{Use: "tail", Short: "Print what happens in the workspace, as it is delivered", Args: fits}
	cmd.Long = `Print every event that you may see, one a line, as the gateway delivers it, across lost connections and without a
gap, until it is interrupted. With --json each line is one event as it came.`
	cmd.Flags().Int64Var(&after, "after", 0, "begin after event `SEQ`, instead of with what comes")
	cmd.RunE = a.signedIn(func(ctx context.Context, c *client.Client, _ []string) error {
		if after < 0 {
			return wrongUsage("--after is 0 or more")
		}
		t := &tailing{app: a, client: c, stopped: func() bool { return ctx.Err() != nil }}
		if cmd.Flags().Changed("after") {
			found, err := c.Discover(ctx)
			if err != nil {
				return err
			}
			t.at = client.Position{Seq: after, Epoch: found.SyncEpoch}
		} else if _, err := c.Me(ctx); err != nil {
			return err // who is not signed in hears it at once
		}
		err := c.Gateway(t, client.GatewayOptions{
			Info: wire.ClientInfo{Platform: "cli", Version: version().Version}, Report: func(err error) { a.remark("cairn: " + render.Clean(err.Error())) },
		}).Run(ctx)
		if ctx.Err() == nil {
			return err
		}
		return nil
	})
	return cmd
}

// tailing prints what a gateway delivers. It is used by one goroutine.
type tailing struct {
	app    *app
	client *client.Client
	at     client.Position
	// stopped reports whether the command was asked to end.
	stopped func() bool

	channels map[string]string
	handles  handleBook
	looked   int  // how often names were looked up
	blind    bool // names could not be looked up on this connection
}

// maxLookups bounds how often names are asked for; later ones are shown by their ids.
const maxLookups = 100

// Position answers where to go on from.
func (t *tailing) Position(context.Context) (client.Position, error) { return t.at, nil }

// Ready begins where the log ends, unless something is to be caught up.
func (t *tailing) Ready(ctx context.Context, ready wire.Ready, from client.Position) (client.Position, error) {
	if !from.Known() {
		from = client.Position{Seq: ready.HeadSeq, Epoch: ready.SyncEpoch}
	}
	t.at = from
	t.look(ctx)
	t.remarkf("connected as @%s, from event %d", ready.Principal.Handle, from.Seq)
	return from, nil
}

// Resumed goes on.
func (t *tailing) Resumed(context.Context, wire.Resumed) error {
	t.blind = false
	t.remarkf("connected again")
	return nil
}

// Event prints an event.
func (t *tailing) Event(ctx context.Context, event client.Event) error {
	return t.print(ctx, event)
}

// Page keeps how far it is.
func (t *tailing) Page(_ context.Context, at client.Position) error {
	t.at = at
	return nil
}

// CaughtUp has nothing to send.
func (t *tailing) CaughtUp(context.Context) error { return nil }

// Resync goes on from the head: there is no copy to load anew.
func (t *tailing) Resync(_ context.Context, why wire.Resync) (client.Position, error) {
	if why.HeadSeq < t.at.Seq && why.SyncEpoch == t.at.Epoch {
		t.remarkf("event %d lies ahead of the log, which ends with %d: going on from there", t.at.Seq, why.HeadSeq)
	} else {
		t.remarkf("events before %d cannot be caught up (%s)", why.HeadSeq+1, why.Reason)
	}
	t.at = client.Position{Seq: why.HeadSeq, Epoch: why.SyncEpoch}
	return t.at, nil
}

// Ephemeral prints an event without a place.
func (t *tailing) Ephemeral(ctx context.Context, event client.Event) {
	_ = t.print(ctx, event) // what cannot be printed shows with the next durable one
}

// Failed has sent nothing that could be refused.
func (t *tailing) Failed(context.Context, wire.OpFailed) {}

// Unknown is of a newer server.
func (t *tailing) Unknown(context.Context, string, json.RawMessage) {}

// Down says that the connection is lost.
func (t *tailing) Down(why error) {
	var closed *client.Closed
	if errors.As(why, &closed) && closed.Code == code.CloseDeviceReplaced {
		return // the command ends and says so
	}
	if t.stopped() {
		return // nothing was lost
	}
	t.remarkf("not connected: %v", why)
}

func (t *tailing) remarkf(format string, args ...any) {
	if !t.app.json {
		t.app.remark(render.Clean(fmt.Sprintf("── "+format, args...)))
	}
}

func (t *tailing) print(ctx context.Context, event client.Event) error {
	if t.app.json {
		line, err := json.Marshal(event.Envelope)
		if err != nil {
			return fmt.Errorf("encode event: %w", err)
		}
		if _, err := t.app.out.Write(append(line, '\n')); err != nil {
			return &printError{err}
		}
		return nil
	}
	t.learn(ctx, event)
	if _, err := fmt.Fprintln(t.app.out, t.app.wrapped(t.line(event))); err != nil {
		return &printError{err}
	}
	return nil
}

// learn looks names up anew when an event tells of what has none.
func (t *tailing) learn(ctx context.Context, event client.Event) {
	unknown := event.Scope.ChannelID != "" && t.channels[event.Scope.ChannelID] == ""
	if event.Actor != nil && event.Actor.ID != "" {
		unknown = unknown || t.handles[event.Actor.ID] == ""
	}
	if unknown && !t.blind && t.looked < maxLookups {
		t.look(ctx)
	}
}

// lookLimit is how long events wait for names.
const lookLimit = 10 * time.Second

// look reads names. Where they cannot be read, ids are shown, until the next connection.
func (t *tailing) look(ctx context.Context) {
	t.looked++
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	defer func() { t.blind = ctx.Err() != nil }()
	if handles, err := handlesOf(ctx, t.client); err == nil {
		t.handles = handles
	}
	if channels, err := allChannels(ctx, t.client, ""); err == nil {
		t.channels = map[string]string{}
		for _, channel := range channels {
			t.channels[channel.ID] = "#" + channel.Name
		}
	}
}

// line is an event for people: number, time, type, where, who, and what matters of it.
func (t *tailing) line(event client.Event) string {
	where := t.channels[event.Scope.ChannelID]
	if where == "" {
		where = orDashes(render.Short(event.Scope.ChannelID))
	}
	who := "-"
	if event.Actor != nil {
		who = string(event.Actor.Kind)
		if event.Actor.ID != "" {
			who = t.handles.of(event.Actor.ID)
		}
	}
	seq := "-"
	if event.Durable() {
		seq = fmt.Sprint(event.Seq)
	}
	at := event.OccurredAt.In(time.Local).Format(time.TimeOnly) //nolint:gosmopolitan // people read it where they are
	return fmt.Sprintf("%6s %s  %-22s %-14s %-10s %s", seq, at, event.Type, render.Clean(where), render.Clean(who), render.Clean(t.gist(event)))
}

// gist is what matters of an event.
func (t *tailing) gist(event client.Event) string {
	switch data := event.Data.(type) {
	case *wire.MessageEvent:
		return data.Message.ContentMD
	case *wire.ReactionEvent:
		return fmt.Sprintf("%s (%d)", data.Emoji, data.Count)
	case *wire.ThreadEvent:
		return orDashes(data.Thread.Title)
	case *wire.ChannelEvent:
		return data.Channel.Name
	case *wire.SpaceEvent:
		return data.Space.Name
	case *wire.PrincipalEvent:
		return "@" + data.Principal.Handle
	case *wire.ImportProgress:
		return fmt.Sprintf("%d messages in %d threads", data.Messages, data.Threads)
	case *wire.AccessChanged:
		return fmt.Sprintf("%d added, %d removed, %d changed", len(data.Added), len(data.Removed), len(data.Changed))
	case *wire.DraftEvent:
		return data.Draft.ContentMD
	case *wire.ReadStateEvent:
		return fmt.Sprintf("up to %d", data.ReadState.LastReadSeq)
	case *wire.TypingStarted:
		return t.handles.of(data.PrincipalID)
	default:
		return ""
	}
}
