package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/internal/cli/render"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// dispatchAnswer is what `dispatch --wait --json` prints.
type dispatchAnswer struct {
	wire.DispatchReceipt
	Applied bool       `json:"applied"`
	TakenBy *string    `json:"taken_by_device_id"` // nil until it is applied
	Push    *wire.Push `json:"push"`               // nil where the server does not tell
	Refused string     `json:"refused,omitempty"`  // why the device that took it did not work on it
	Waits   string     `json:"waits,omitempty"`    // for what, said the device that has it and did not begin it
}

// progress is how far a dispatch came.
type progress struct {
	applied bool
	refused string // why nobody works on it
	by      string // the id of the device that has it waiting
	waits   string // for what it waits there, as in "it waits for …"
}

// await follows the session until the dispatch is applied, and says who took it and what became of its push. A dispatch that
// nobody began in time is a failure; it stays in the device's inbox.
func (d *dispatching) await(ctx context.Context, timeout time.Duration) error {
	if !d.json {
		if err := d.tell(ctx); err != nil {
			return err
		}
	}
	came, err := d.follow(ctx, timeout)
	if err != nil {
		return err
	}
	answer := dispatchAnswer{
		DispatchReceipt: d.receipt, Applied: came.applied, Push: d.push(ctx), Refused: came.refused, Waits: came.waits,
	}
	now := d.look(ctx)
	taker := cmp.Or(now.driver, now.target) // only they may take it
	if came.applied {
		answer.TakenBy, answer.Waits = &taker, ""
	}
	err = d.show(answer, func() error {
		if err := d.sayPush(answer.Push, now.online); err != nil || !came.applied || came.refused != "" {
			return err
		}
		return d.say("%s took it", now.called(taker))
	})
	switch {
	case err != nil:
		return err
	case came.refused != "":
		return fmt.Errorf("%s did not work on it: %s", now.called(taker), came.refused)
	case came.applied:
		return nil
	default:
		return fmt.Errorf("%s\nIt stays in the device's inbox: wait again with --id %s, or see `cairn session pushes %s`",
			now.late(came, timeout), d.receipt.ControlID, d.ref)
	}
}

// late says why a dispatch was not begun in time.
func (s scene) late(came progress, timeout time.Duration) string {
	held := s.heldFrom()
	switch {
	case came.waits != "":
		return fmt.Sprintf("%s has the dispatch, but did not begin it within %s: it waits %s", s.called(came.by), timeout, came.waits)
	case held != "":
		return fmt.Sprintf("the device did not take the dispatch within %s: %s", timeout, held)
	case s.driver != "":
		return fmt.Sprintf("%s drives the session, but did not begin the dispatch within %s: a prompt that runs comes first", s.called(s.driver), timeout)
	default:
		return fmt.Sprintf("the device did not take the dispatch within %s: does `cairn agent` run there?", timeout)
	}
}

// follow answers how far a dispatch came before timeout.
func (d *dispatching) follow(ctx context.Context, timeout time.Duration) (progress, error) {
	identity, err := d.knownIdentity()
	if err != nil {
		return progress{}, err
	}
	var came progress
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// From its echo on, so that the server also tells of it when it is applied already (SS-STR-2).
	viewer := d.to.View(d.ref, client.ViewOptions{After: d.receipt.Seq - 1, Identity: identity})
	errApplied := errors.New("it was applied")
	err = viewer.Run(waiting, func(frame client.Frame) error {
		switch frame := frame.(type) {
		case client.EventFrame:
			return d.learn(ctx, &came, frame.Event)
		case client.ControlFrame:
			if frame.ID == d.receipt.ControlID && frame.Applied {
				came.applied = true
				return errApplied
			}
		}
		return nil
	})
	if errors.Is(err, errApplied) || (ctx.Err() == nil && waiting.Err() != nil) {
		return came, nil
	}
	return came, err
}

// learn takes what an event says about the dispatch, which is stored before the control is applied.
func (d *dispatching) learn(ctx context.Context, came *progress, event wire.Event) error {
	payload, err := trace.Read(event)
	result, is := payload.(trace.ControlResult)
	if err != nil || !is || result.ControlID != d.receipt.ControlID {
		return nil //nolint:nilerr // an event of somebody else, whatever it holds
	}
	switch result.Outcome {
	case trace.ControlApplied:
		return nil
	case trace.ControlQueued:
		first := came.waits == ""
		came.by, came.waits = event.SenderDeviceID, waitsFor(result)
		if d.json || !first {
			return nil
		}
		return d.say("%s has it: it waits %s", d.look(ctx).called(came.by), came.waits)
	default:
		came.refused = cmp.Or(came.refused, render.Clean(result.Reason), string(result.Outcome))
		return nil
	}
}

// promptRuns is why an executor of ours lets a dispatch wait, when it is not for a question or a pause.
const promptRuns = "the prompt that runs comes first"

func waitsFor(result trace.ControlResult) string {
	switch reason := render.Clean(result.Reason); reason {
	case "", promptRuns:
		return "for the prompt that runs"
	default:
		return "because " + reason
	}
}

// push answers what became of the dispatch's push, nil where it is not known: that is no failure of the dispatch.
func (d *dispatching) push(ctx context.Context) *wire.Push {
	pushes, err := d.to.Pushes(ctx, d.ref)
	if err != nil {
		return nil
	}
	at := slices.IndexFunc(pushes, func(p wire.Push) bool { return p.ControlID != nil && *p.ControlID == d.receipt.ControlID })
	if at < 0 {
		return nil
	}
	return &pushes[at]
}

// sayPush says what became of a push; a device that is online and has no token is not expected to get one.
func (a *app) sayPush(push *wire.Push, online bool) error {
	if push == nil || (online && push.Reason == wire.PushNoPushToken) {
		return nil
	}
	attempts := fmt.Sprintf("%d attempts", push.Attempts)
	if push.Attempts == 1 {
		attempts = "1 attempt"
	}
	reason := ""
	if push.Reason != "" {
		reason = " (" + string(push.Reason) + ")"
	}
	return a.say("the push: %s%s, %s", string(push.State), reason, attempts)
}
