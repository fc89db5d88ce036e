package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/internal/cli/render"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// dispatchTimeout is how long `dispatch --wait` waits for the device, unless told otherwise.
const dispatchTimeout = time.Minute

func newDispatch(a *app) *cobra.Command {
	var (
		dispatch wire.Dispatch
		id, turn string
		open     bool
		wait     bool
		timeout  time.Duration
	)
	cmd := &cobra.Command{Use: "dispatch SESSION [TEXT...]", Short: "Start work on one device of the session's owner", Args: fits}
	cmd.Annotations = map[string]string{needs: "--device ID"}
	cmd.Flags().StringVar(&dispatch.DeviceID, "device", "", "`ID` of the device that shall work (needed)")
	cmd.Flags().BoolVar(&open, "open", false, "ask the device to open the session instead of sending TEXT")
	cmd.Flags().StringVar(&turn, "turn", "", "the turn `ID`")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the device took the work, and say what became of the push")
	cmd.Flags().DurationVar(&timeout, "timeout", dispatchTimeout, "with --wait: fail after this `TIME`")
	idFlag(cmd, &id)
	cmd.RunE = a.asking(func(ctx context.Context, to *client.Client, args []string) error {
		text, err := a.text(args[1:])
		switch {
		case err != nil:
			return err
		case dispatch.DeviceID == "":
			return wrongUsage("--device is missing: `cairn session show %s` lists devices", args[0])
		case open == (text != ""):
			return wrongUsage("give either TEXT or --open")
		case cmd.Flags().Changed("timeout") && (!wait || timeout <= 0):
			return wrongUsage("--timeout is more than 0s, and goes with --wait")
		case id == "":
			id = "dispatch:" + a.env.NewID()
		}
		dispatch.Mode, dispatch.Text, dispatch.TurnID, dispatch.ControlID = wire.ModeSend, given(text), given(turn), &id
		if open {
			dispatch.Mode = wire.ModeOpen
		}
		receipt, err := to.Dispatch(ctx, args[0], dispatch)
		if err != nil {
			return err
		}
		if wait {
			return a.awaitDispatch(ctx, to, args[0], receipt, timeout)
		}
		return a.show(receipt, func() error { return a.sayDispatched(ctx, to, args[0], receipt) })
	})
	return a.jsonFlag(cmd)
}

func (a *app) sayDispatched(ctx context.Context, to *client.Client, ref string, receipt wire.DispatchReceipt) error {
	return a.say("%s", dispatched(receipt, hasOpen(ctx, to, ref, receipt.TargetDeviceID)))
}

// dispatchAnswer is what `dispatch --wait --json` prints.
type dispatchAnswer struct {
	wire.DispatchReceipt
	Applied bool       `json:"applied"`
	TakenBy *string    `json:"taken_by_device_id"` // nil until it is applied
	Push    *wire.Push `json:"push"`               // nil where the server does not tell
	Refused string     `json:"refused,omitempty"`  // why the device that took it did not work on it
}

// awaitDispatch follows the session until the dispatch is applied, and says who took it and what became of its push.
// A dispatch that nobody took in time is a failure; it stays in the device's inbox.
func (a *app) awaitDispatch(ctx context.Context, to *client.Client, ref string, receipt wire.DispatchReceipt, timeout time.Duration) error {
	if !a.json {
		if err := a.sayDispatched(ctx, to, ref, receipt); err != nil {
			return err
		}
	}
	applied, refused, err := a.untilApplied(ctx, to, ref, receipt, timeout)
	if err != nil {
		return err
	}
	answer := dispatchAnswer{DispatchReceipt: receipt, Applied: applied, Push: pushOf(ctx, to, ref, receipt.ControlID), Refused: refused}
	name := ""
	if applied {
		var id string
		id, name = whoTook(ctx, to, ref, receipt.TargetDeviceID)
		answer.TakenBy = &id
	}
	err = a.show(answer, func() error {
		if err := a.sayPush(answer.Push); err != nil || !applied {
			return err
		}
		if refused != "" {
			return nil
		}
		return a.say("%s took it", name)
	})
	switch {
	case err != nil:
		return err
	case refused != "":
		return fmt.Errorf("%s did not work on it: %s", name, refused)
	case applied:
		return nil
	}
	return fmt.Errorf("the device did not take the dispatch within %s\nIt stays in the device's inbox: "+
		"wait again with --id %s, or see `cairn session pushes %s`", timeout, receipt.ControlID, ref)
}

// whoTook answers the id and the name of the device that took a dispatch to target: who executes now, else target. Only
// they may take it.
func whoTook(ctx context.Context, to *client.Client, ref, target string) (id, name string) {
	detail, err := to.GetSession(ctx, ref)
	if err != nil {
		return target, target
	}
	if detail.Lease != nil {
		target = detail.Lease.DeviceID
	}
	return target, cmp.Or(deviceNames(detail)[target], target)
}

// untilApplied answers whether a dispatch was applied before timeout, and then why nobody works on it, or "".
func (a *app) untilApplied(
	ctx context.Context, to *client.Client, ref string, receipt wire.DispatchReceipt, timeout time.Duration,
) (applied bool, refused string, err error) {
	identity, err := a.knownIdentity()
	if err != nil {
		return false, "", err
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	errApplied := errors.New("it was applied")
	// From its echo on, so that the server also tells of it when it is applied already (SS-STR-2).
	err = to.View(ref, client.ViewOptions{After: receipt.Seq - 1, Identity: identity}).Run(waiting, func(frame client.Frame) error {
		if event, is := frame.(client.EventFrame); is {
			refused = cmp.Or(refused, refusal(event.Event, receipt.ControlID)) // it is stored before the control is applied
		}
		if control, is := frame.(client.ControlFrame); is && control.ID == receipt.ControlID && control.Applied {
			return errApplied
		}
		return nil
	})
	switch {
	case errors.Is(err, errApplied):
		return true, refused, nil
	case ctx.Err() == nil && waiting.Err() != nil:
		return false, "", nil
	default:
		return false, "", err
	}
}

// refusal answers why an event says that a control came to nothing, or "".
func refusal(event wire.Event, control string) string {
	payload, err := trace.Read(event)
	result, is := payload.(trace.ControlResult)
	if err != nil || !is || result.ControlID != control || result.Outcome == trace.ControlQueued || result.Outcome == trace.ControlApplied {
		return ""
	}
	return cmp.Or(render.Clean(result.Reason), string(result.Outcome))
}

// pushOf answers what became of a dispatch's push, nil where it is not known: that is no failure of the dispatch.
func pushOf(ctx context.Context, to *client.Client, ref, control string) *wire.Push {
	pushes, err := to.Pushes(ctx, ref)
	if err != nil {
		return nil
	}
	at := slices.IndexFunc(pushes, func(p wire.Push) bool { return p.ControlID != nil && *p.ControlID == control })
	if at < 0 {
		return nil
	}
	return &pushes[at]
}

func (a *app) sayPush(push *wire.Push) error {
	if push == nil {
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

// dispatched says what became of a dispatch; here is whether the device has the session open.
func dispatched(receipt wire.DispatchReceipt, here bool) string {
	switch {
	case receipt.Duplicate:
		return fmt.Sprintf("%s was sent before, as event %d; what it said first stands", receipt.ControlID, receipt.Seq)
	case here:
		return fmt.Sprintf("the dispatch is event %d; the device has the session open", receipt.Seq)
	case receipt.Pushed:
		return fmt.Sprintf("the dispatch is event %d; the device was woken", receipt.Seq)
	case receipt.PushReason == wire.PushNoPushToken:
		return fmt.Sprintf("the dispatch is event %d; it waits until the device looks, which cannot be woken: it has no push token", receipt.Seq)
	default:
		return fmt.Sprintf("the dispatch is event %d; it waits until the device looks, which could not be woken (%s)", receipt.Seq, receipt.PushReason)
	}
}

// hasOpen is true when a device is known to execute the session or to have it open.
func hasOpen(ctx context.Context, to *client.Client, ref, device string) bool {
	detail, err := to.GetSession(ctx, ref)
	if err != nil {
		return false
	}
	return detail.Lease != nil && detail.Lease.DeviceID == device ||
		slices.ContainsFunc(detail.Presence, func(p wire.Presence) bool { return p.DeviceID == device })
}
