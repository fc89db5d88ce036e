package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/internal/cli/attach"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func newAttach(a *app) *cobra.Command {
	var (
		how     executing
		command string
	)
	cmd := &cobra.Command{Use: "attach SESSION", Short: "Watch and steer a session on this terminal", Args: fits}
	cmd.Long = `Show a session on the whole terminal as it goes on, answer what its agent asks with one key, and send or steer from a
prompt. F1 or /help lists keys and commands. Leaving does not stop the session.

With --command, /take takes the session over: the agent runs here then.`
	cmd.Flags().StringVar(&command, "command", "", "the agent that /take starts, as one `COMMAND` of the shell")
	how.flags(cmd)
	cmd.RunE = a.asking(func(ctx context.Context, c *client.Client, args []string) error {
		if !a.terminal || !a.interactive {
			return wrongUsage("attach needs a terminal to draw on and to read keys from\n"+
				"`cairn session tail -f %s` follows the session without one.", args[0])
		}
		detail, err := c.GetSession(ctx, args[0])
		if err != nil {
			return err
		}
		screen, err := a.screen(ctx, c, detail.Session)
		if err != nil {
			return err
		}
		if command != "" {
			options, err := a.options(ctx, c, how, detail.Session, shellCommand(command))
			if err != nil {
				return err
			}
			screen.Take = taker(options)
		}
		return attach.Run(ctx, screen)
	})
	return cmd
}

// screen answers what a viewer on this terminal is made of. What is sealed from now on is sealed for this device too.
func (a *app) screen(ctx context.Context, c *client.Client, session wire.Session) (attach.Options, error) {
	options := attach.Options{
		Client: c, Session: session.ID, Env: a.env, In: a.in, Out: a.out, Color: a.colour(),
		Zone: time.Local, //nolint:gosmopolitan // people read it where they are
	}
	if !session.E2E {
		return options, nil
	}
	var err error
	if options.Identity, err = a.identity(); err != nil {
		return attach.Options{}, err
	}
	return options, a.publish(ctx, c, options.Identity)
}
