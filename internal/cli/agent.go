package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	client "github.com/cairnsync/cairn/client/sessions"
	agentrun "github.com/cairnsync/cairn/internal/agent/run"
	"github.com/cairnsync/cairn/internal/cli/render"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func newAgent(a *app) *cobra.Command {
	var (
		how      executing
		command  string
		force    bool
		linger   time.Duration
		sessions int
	)
	cmd := &cobra.Command{
		Use: "agent", Short: "Wait on this machine for dispatched work, and let an agent (ACP) do it", Args: fits,
		Annotations: map[string]string{needs: "--command COMMAND"},
	}
	cmd.Long = `Wait for dispatches to this device, without a terminal and without being asked twice: each dispatched session is executed by
an agent of its own, and given back when it has rested for --linger. Anybody who may steer a session of yours can dispatch to
this device with cairn dispatch, from any machine; the command that runs here is only the one given here.`
	cmd.Flags().StringVar(&command, "command", "", "the agent, as one `COMMAND` of the shell")
	cmd.Flags().BoolVar(&force, "force", false, "take dispatched sessions over from devices that execute them")
	cmd.Flags().DurationVar(&linger, "linger", time.Minute, "give a session back when nothing happened for so `LONG`")
	cmd.Flags().IntVar(&sessions, "max-sessions", agentrun.DefaultMaxSessions, "work on at most `N` sessions at the same time")
	how.flags(cmd)
	cmd.RunE = a.asking(func(ctx context.Context, c *client.Client, _ []string) error {
		switch {
		case command == "":
			return wrongUsage("say which agent to run: --command \"COMMAND\"")
		case linger <= 0, sessions < 1:
			return wrongUsage("--linger is more than 0, and --max-sessions 1 or more")
		}
		if err := a.expectDispatch(ctx, c); err != nil {
			return err
		}
		folder, err := a.sessionFolder(c, "at work")
		if err != nil {
			return err
		}
		return agentrun.Serve(ctx, agentrun.ServeOptions{
			Client: c, MaxSessions: sessions, Folder: folder, Env: a.env,
			Options: func(ctx context.Context, session wire.Session) (agentrun.Options, error) {
				options, err := a.options(ctx, c, how, session, shellCommand(command))
				options.Force, options.Linger, options.Stderr = force, linger, a.errs
				return options, err
			},
			Say: func(format string, args ...any) {
				a.remark("cairn: " + render.CleanLines(fmt.Sprintf(format, args...)))
			},
		})
	})
	return cmd
}

// expectDispatch makes this device known to the server, able to read sealed sessions, and says how to reach it.
func (a *app) expectDispatch(ctx context.Context, c *client.Client) error {
	secret, err := a.identity()
	if err != nil {
		return err
	}
	if err := a.publish(ctx, c, secret); err != nil {
		return err
	}
	a.remark(fmt.Sprintf("waiting for work on this device — from anywhere: cairn dispatch SESSION --device %s \"what to do\"", c.DeviceID()))
	return nil
}
