package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	client "github.com/cairnsync/cairn/client/sessions"
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
	cmd.Annotations = map[string]string{needs: "--device DEVICE"}
	cmd.Flags().StringVar(&dispatch.DeviceID, "device", "", "the `DEVICE` that shall work, by id, the beginning of it, or name (needed)")
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
		d := &dispatching{app: a, to: to, ref: args[0]}
		if dispatch.DeviceID, err = ownersDevice(ctx, to, args[0], dispatch.DeviceID); err == nil {
			d.receipt, err = to.Dispatch(ctx, args[0], dispatch)
		}
		if err != nil {
			return orCreate(args[0], err)
		}
		if wait {
			return d.await(ctx, timeout)
		}
		return a.show(d.receipt, func() error { return d.tell(ctx) })
	})
	return a.jsonFlag(cmd)
}

// dispatching is a dispatch that was sent.
type dispatching struct {
	*app

	to      *client.Client
	ref     string
	receipt wire.DispatchReceipt
}

// tell says what became of it.
func (d *dispatching) tell(ctx context.Context) error {
	return d.say("%s", d.look(ctx).words(d.receipt))
}

// scene is how a session and the device that shall work in it stand; the zero value is that nothing is known.
type scene struct {
	target string            // its id
	names  map[string]string // of devices, by id
	driver string            // the id of the device that executes, or ""
	open   bool              // the target has the session open, or executes it
	online bool              // the target was heard of just now: it needs no waking
}

// look reads how things stand. What cannot be read is not known, which is no failure of the dispatch.
func (d *dispatching) look(ctx context.Context) scene {
	s := scene{target: d.receipt.TargetDeviceID}
	detail, err := d.to.GetSession(ctx, d.ref)
	if err != nil {
		return s
	}
	s.names = deviceNames(detail)
	if detail.Lease != nil {
		s.driver = detail.Lease.DeviceID
	}
	s.open = s.driver == s.target ||
		slices.ContainsFunc(detail.Presence, func(p wire.Presence) bool { return p.DeviceID == s.target })
	s.online = s.open || slices.ContainsFunc(ownersDevices(detail), func(device wire.MemberDevice) bool {
		return device.DeviceID == s.target && d.env.Now().Sub(device.LastSeenAt.Time) <= onlineWithin
	})
	return s
}

// onlineWithin is how recently a device was heard of that counts as online, as the server counts (SS-DVC-1).
const onlineWithin = 2 * time.Minute

// called answers what a device is called.
func (s scene) called(id string) string { return cmp.Or(s.names[id], "device "+render.Short(id)) }

// heldFrom says that another device than the target executes, and what helps, or "".
func (s scene) heldFrom() string {
	if s.driver == "" || s.driver == s.target {
		return ""
	}
	return s.called(s.driver) + " drives the session; `cairn agent --force` or `cairn run --force` on " + s.called(s.target) + " takes it over"
}

// words say what became of a dispatch.
func (s scene) words(receipt wire.DispatchReceipt) string {
	if receipt.Duplicate {
		return fmt.Sprintf("%s was sent before, as event %d; what it said first stands", receipt.ControlID, receipt.Seq)
	}
	became := "it waits until the device looks, which could not be woken (" + string(receipt.PushReason) + ")"
	switch held := s.heldFrom(); {
	case held != "" && receipt.Mode == wire.ModeSend:
		became = "it waits: " + held
	case s.open:
		became = "the device has the session open"
	case receipt.Pushed:
		became = "the device was woken"
	case receipt.PushReason != wire.PushNoPushToken:
	case s.online:
		became = "the device is online"
	default:
		became = "it waits until the device looks, which cannot be woken: it has no push token"
	}
	return fmt.Sprintf("the dispatch is event %d; %s", receipt.Seq, became)
}
