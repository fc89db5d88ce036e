package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/internal/cli/attach"
)

// takeover makes what /take of a viewer does from an agent's command line: nil when the session cannot be taken over.
type takeover func(a *app, c *client.Client, session, command string) func(ctx context.Context, force bool) (attach.Driver, error)

func newAttach(a *app) *cobra.Command { return attachCommand(a, nil) }

// attachCommand makes `cairn attach`; take runs the agent of --command.
func attachCommand(a *app, take takeover) *cobra.Command {
	var command string
	cmd := &cobra.Command{Use: "attach SESSION", Short: "Watch and steer a session on this terminal", Args: fits}
	cmd.Long = `Show a session on the whole terminal as it goes on, answer what its agent asks with one key, and send or steer from a
prompt. F1 or /help lists keys and commands. Leaving does not stop the session.

With --command, /take takes the session over: the agent runs here then.`
	if take != nil {
		cmd.Flags().StringVar(&command, "command", "", "the agent that /take starts, as one `LINE`")
	}
	cmd.RunE = a.asking(func(ctx context.Context, c *client.Client, args []string) error {
		if !a.terminal || !a.interactive {
			return wrongUsage("attach needs a terminal to draw on and to read keys from\n"+
				"`cairn session tail -f %s` follows the session without one.", args[0])
		}
		options, err := a.screen(c, args[0])
		if err != nil {
			return err
		}
		if take != nil && command != "" {
			options.Take = take(a, c, args[0], command)
		}
		return attach.Run(ctx, options)
	})
	return cmd
}

// screen answers what a viewer on this terminal is made of.
func (a *app) screen(c *client.Client, session string) (attach.Options, error) {
	identity, err := a.knownIdentity()
	if err != nil {
		return attach.Options{}, err
	}
	return attach.Options{
		Client: c, Session: session, Identity: identity, Env: a.env, In: a.in, Out: a.out, Color: a.colour(),
		Zone: time.Local, //nolint:gosmopolitan // people read it where they are
	}, nil
}
