package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	client "github.com/cairnsync/cairn/client/sessions"
	agentrun "github.com/cairnsync/cairn/internal/agent/run"
	"github.com/cairnsync/cairn/internal/cli/attach"
	"github.com/cairnsync/cairn/internal/cli/render"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func newRun(a *app) *cobra.Command {
	r := &running{app: a}
	cmd := &cobra.Command{Use: "run -- COMMAND...", Short: "Run an agent (ACP) here, as the executor of a shared session"}
	cmd.Long = `Start an agent that speaks the Agent Client Protocol on its standard input and output, and share it: everybody with
access to the session watches it live, approves what it asks, steers, pauses and stops it, from any device.

    cairn run --session build -- gemini --acp

At a terminal this shows the session as cairn attach does; elsewhere, or with --plain, it prints one line per event.
With --session KEY the same session goes on after a restart: what was not sent yet is sent, questions that the last run left
open are closed, and what people sent meanwhile is worked on. When another device takes the session over, the agent here is
stopped and this becomes a viewer.`
	cmd.Flags().StringVar(&r.asked.SessionKey, "session", "", "`KEY` of the session, made when it is not there (default: a new one)")
	cmd.Flags().StringVar(&r.asked.Title, "title", "", "`TITLE` of a new session")
	cmd.Flags().BoolVar(&r.asked.E2E, "e2e", false, "make a session whose payloads are sealed end to end")
	cmd.Flags().BoolVar(&r.force, "force", false, "take the session over from the device that executes it now")
	cmd.Flags().BoolVar(&r.plain, "plain", false, "print lines, also at a terminal")
	r.how.flags(cmd)
	cmd.Flags().SetInterspersed(false) // what follows the command is the command's
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return &usageError{message: "say which agent to run: `cairn run -- COMMAND…`", command: "cairn run"}
		}
		return nil
	}
	cmd.RunE = a.asking(r.run)
	return cmd
}

// running is one call of `cairn run`.
type running struct {
	*app

	how   executing
	asked client.NewSession
	force bool
	plain bool
}

func (r *running) run(ctx context.Context, c *client.Client, words []string) error {
	if _, err := rootFolder(r.how.root); err != nil {
		return err // before a session is made for it
	}
	if r.asked.Title == "" {
		r.asked.Title = titleOf(words, r.how.root)
	}
	created, err := c.CreateSession(ctx, r.asked)
	if err != nil {
		return err
	}
	if r.asked.E2E && !created.E2E {
		return fmt.Errorf("session %s exists and is not end-to-end encrypted: choose another --session, or leave --e2e out", r.asked.SessionKey)
	}
	options, err := r.options(ctx, c, r.how, created.Session, command{words: words})
	if err != nil {
		return err
	}
	options.Force = r.force
	r.remark(fmt.Sprintf("session %s — watch and steer it elsewhere with `cairn attach %s`", created.ID, reference(created.SessionKey, created.ID)))
	if created.E2E {
		if err := r.sealedRemark(ctx, c, created.ID); err != nil {
			return err
		}
	}
	if r.terminal && r.interactive && !r.plain {
		err = r.runAttached(ctx, created.Session, options)
	} else {
		options.Stderr = r.errs
		err = r.runPlain(ctx, c, options)
	}
	if created.New && errors.As(err, new(*agentrun.StartError)) {
		return errors.Join(err, dropEmpty(ctx, c, created.ID))
	}
	return err
}

// dropEmpty removes a session that was made for an agent that did not start.
func dropEmpty(ctx context.Context, c *client.Client, id string) error {
	detail, err := c.GetSession(ctx, id)
	if err != nil || detail.LastSeq > 0 {
		return err
	}
	_, err = c.DeleteSession(ctx, id)
	return err
}

// reference is how people name a session: by its key, if somebody chose it.
func reference(key, id string) string {
	if len(key) == len(id) && strings.Count(key, "-") == 4 {
		return id
	}
	return key
}

func titleOf(command []string, root string) string {
	folder, err := filepath.Abs(root)
	if err != nil {
		return filepath.Base(command[0])
	}
	return filepath.Base(command[0]) + " in " + filepath.Base(folder)
}

// runAttached runs the agent behind the screen of `cairn attach`.
func (a *app) runAttached(ctx context.Context, session wire.Session, options agentrun.Options) error {
	screen, err := a.screen(ctx, options.Client, session)
	if err != nil {
		return err
	}
	force, take := options.Force, taker(options)
	screen.TakeAtStart = true
	screen.Take = func(ctx context.Context, again bool) (attach.Driver, error) { return take(ctx, again || force) }
	return attach.Run(ctx, screen)
}

// runPlain runs the agent and prints the session from here on. When the lease is lost it goes on as a viewer, and says who drives.
func (a *app) runPlain(ctx context.Context, c *client.Client, options agentrun.Options) error {
	now, err := c.GetSession(ctx, options.Session)
	if err != nil {
		return err
	}
	runner, err := agentrun.Start(ctx, options)
	if err != nil {
		return a.explainStart(ctx, c, options.Session, err)
	}
	viewing, stopViewing := context.WithCancel(context.WithoutCancel(ctx)) // it prints how the agent is stopped, too
	defer stopViewing()
	viewer := c.View(options.Session, client.ViewOptions{After: now.LastSeq, Identity: options.Identity})
	viewed := make(chan error, 1)
	go func() {
		names := newNameBook(viewing, c, options.Session, a.json)
		viewed <- viewer.Run(viewing, a.frameWriter(names, false))
	}()
	ended := a.await(ctx, runner)
	if runner.Lost() != nil && ctx.Err() == nil {
		a.remark("This is a viewer from here on. " + a.driverWords(ctx, c, options.Session, runner) + " Ctrl-C ends it.")
		defer context.AfterFunc(ctx, stopViewing)()
		if err := <-viewed; ctx.Err() == nil {
			return err
		}
		return nil
	}
	a.catchUp(c, options.Session, viewer)
	stopViewing()
	if err := <-viewed; !errors.Is(err, context.Canceled) {
		return errors.Join(ended, err)
	}
	return ended
}

// catchUp lets a viewer print what was said at the end.
func (a *app) catchUp(c *client.Client, session string, viewer *client.Viewer) {
	ctx, cancel := context.WithTimeout(context.Background(), catchUpWithin)
	defer cancel()
	now, err := c.GetSession(ctx, session)
	for err == nil && viewer.LastSeq() < now.LastSeq {
		select {
		case <-time.After(catchUpWithin / 100):
		case <-ctx.Done():
			return
		}
	}
}

// catchUpWithin bounds it.
const catchUpWithin = 2 * time.Second

// await waits for the runner's end, tells what it tells, and stops it when ctx ends.
func (a *app) await(ctx context.Context, runner *agentrun.Runner) error {
	for {
		select {
		case line := <-runner.Notice():
			a.remark("cairn: " + render.CleanLines(line))
		case <-runner.Done():
			return a.lastWords(runner, runner.Err())
		case <-ctx.Done():
			stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
			defer cancel()
			return a.lastWords(runner, runner.Stop(stopping))
		}
	}
}

// lastWords says what became of events that were not stored.
func (a *app) lastWords(runner *agentrun.Runner, err error) error {
	if words := runner.LastWords(); words != "" {
		a.remark("cairn: " + render.CleanLines(words))
	}
	return err
}

func (a *app) driverWords(ctx context.Context, c *client.Client, ref string, runner *agentrun.Runner) string {
	lost := runner.Lost()
	switch {
	case lost.HolderDeviceID != "":
		return render.Clean(newNameBook(ctx, c, ref, false).called(lost.HolderDeviceID)) + " drives now."
	case lost.Reason == client.LossUnreachable:
		return "The server could not be reached for so long that the lease ended."
	default:
		return "Nobody drives."
	}
}

// explainStart adds who has the session, when that is why it did not start.
func (a *app) explainStart(ctx context.Context, c *client.Client, ref string, err error) error {
	if errors.Is(err, agentrun.ErrRunsHere) {
		return fmt.Errorf("%w; watch it with `cairn attach %s`", err, ref)
	}
	holder := ""
	if held, ok := errors.AsType[*agentrun.HeldError](err); ok {
		holder = held.DeviceID
	} else if refused := client.AsAPIError(err); refused != nil {
		holder = refused.HolderDeviceID()
	}
	if holder == "" {
		return err
	}
	return &heldError{who: newNameBook(ctx, c, ref, false).called(holder), session: ref, cause: err}
}

// heldError is a session that another device executes.
type heldError struct {
	who, session string
	cause        error
}

// Error says who, and what can be done.
func (e *heldError) Error() string {
	return fmt.Sprintf("%s executes this session now\nWatch it with `cairn attach %s`, or take it over with --force.", e.who, e.session)
}

// Unwrap answers the refusal.
func (e *heldError) Unwrap() error { return e.cause }
