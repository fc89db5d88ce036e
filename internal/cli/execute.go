package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	client "github.com/cairnsync/cairn/client/sessions"
	agentrun "github.com/cairnsync/cairn/internal/agent/run"
	"github.com/cairnsync/cairn/internal/cli/attach"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// leaveWithin bounds a clean stop of an agent: its turn is closed, what it said is stored, the lease is released.
const leaveWithin = 20 * time.Second

// executing is how the commands that run an agent run it.
type executing struct {
	root       string
	quietLimit time.Duration
	turnLimit  time.Duration
}

func (e *executing) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&e.root, "root", "", "`FOLDER` the agent works in; its file and terminal requests stay inside (default: here)")
	cmd.Flags().DurationVar(&e.quietLimit, "quiet-limit", agentrun.DefaultQuietLimit,
		"end a turn whose agent says nothing for so `LONG` while it works; 0 for never")
	cmd.Flags().DurationVar(&e.turnLimit, "turn-limit", 0, "end a turn that works longer than this, questions and pauses apart; 0 for never")
}

// options answers how to run the agent for one session.
func (a *app) options(ctx context.Context, c *client.Client, e executing, session wire.Session, command command) (agentrun.Options, error) {
	if e.quietLimit < 0 || e.turnLimit < 0 {
		return agentrun.Options{}, wrongUsage("--quiet-limit and --turn-limit are 0 or more")
	}
	root, err := rootFolder(e.root)
	if err != nil {
		return agentrun.Options{}, err
	}
	folder, err := a.sessionFolder(c, session.ID)
	if err != nil {
		return agentrun.Options{}, err
	}
	options := agentrun.Options{
		Client: c, Session: session.ID, Command: command.words, Shell: command.shell, Root: root, Folder: folder, QuietLimit: e.quietLimit, TurnLimit: e.turnLimit,
		Environ: a.environ, Version: version().Version, Env: a.env,
	}
	if e.quietLimit == 0 {
		options.QuietLimit = -1
	}
	if !session.E2E {
		return options, nil
	}
	if options.Identity, err = a.identity(); err != nil {
		return agentrun.Options{}, err
	}
	if err := a.publish(ctx, c, options.Identity); err != nil {
		return agentrun.Options{}, err
	}
	options.Recipients = func(ctx context.Context) ([]string, error) { return c.MemberRecipients(ctx, session.ID) }
	return options, nil
}

func rootFolder(asked string) (string, error) {
	root, err := filepath.Abs(asked) // "" is here
	if err != nil {
		return "", fmt.Errorf("find the root folder: %w", err)
	}
	info, err := os.Stat(root)
	if err != nil {
		return "", wrongUsage("--root: %v", err)
	}
	if !info.IsDir() {
		return "", wrongUsage("--root: %s is not a folder", root)
	}
	return root, nil
}

// command is how an agent is started.
type command struct {
	words []string
	shell bool // the last word is a line for the shell
}

// shellCommand is a command as one text, which the system's shell understands.
func shellCommand(text string) command {
	if runtime.GOOS == "windows" {
		return command{[]string{"cmd", "/C", text}, true}
	}
	return command{[]string{"sh", "-c", text}, true}
}

// sealedRemark says what an end-to-end encrypted session leaves in clear (SS-E2E-1).
func (a *app) sealedRemark(ctx context.Context, c *client.Client, ref string) error {
	recipients, err := c.MemberRecipients(ctx, ref)
	if err != nil {
		return err
	}
	a.remark(fmt.Sprintf("End-to-end encrypted for %d devices: what the agent says and does is sealed. In clear, because the protocol has no "+
		"place to seal them:\nwhat people send (prompts, answers, dispatched text), titles, the kinds and times of events, and who sent them.", len(recipients)))
	return nil
}

// driver is a runner as the attached screen sees it.
type driver struct{ *agentrun.Runner }

// Err answers why it ended, with what became of events that were not stored.
func (d driver) Err() error {
	err := d.Runner.Err()
	if words := d.LastWords(); words != "" {
		err = errors.Join(err, errors.New(words))
	}
	return err
}

var _ attach.Driver = driver{}

// taker answers what makes this device the executor.
func taker(options agentrun.Options) func(ctx context.Context, force bool) (attach.Driver, error) {
	return func(ctx context.Context, force bool) (attach.Driver, error) {
		asked := options
		asked.Force = force
		runner, err := agentrun.Start(ctx, asked)
		if err != nil {
			return nil, err
		}
		return driver{runner}, nil
	}
}
