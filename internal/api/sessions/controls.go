package sessions

import (
	"context"
	"net/http"
	"time"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/session"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func (a *API) listControls(c *call) (reply, error) {
	filter := session.ControlFilter{After: c.number("after", 0, 0, largestInteger)}
	switch applied := c.URL.Query().Get("applied"); applied {
	case "all":
	case "1", "true":
		filter.Applied = new(bool)
		*filter.Applied = true
	default:
		filter.Applied = new(bool)
	}
	target, err := c.target()
	if err != nil {
		return reply{}, err
	}
	filter.Target = target
	controls, err := a.Sessions.Controls(c.Context(), c.by, c.PathValue("id"), filter)
	return ok(map[string]any{"controls": controls}), err
}

// target reads ?target: none, me, or a device's UUID (SS-CTL-4).
func (c *call) target() (string, error) {
	switch target := c.URL.Query().Get("target"); {
	case target == "":
		return "", nil
	case target == "me" && c.by.DeviceID == "":
		return "", fault.BadField("target", "me needs the header x-codai-device")
	case target == "me":
		return c.by.DeviceID, nil
	default:
		id, valid := env.ParseID(target)
		if !valid {
			return "", fault.BadField("target", "must be me or the UUID of a device")
		}
		return id, nil
	}
}

func (a *API) sendControl(c *call) (reply, error) {
	receipt, err := a.control(c.Context(), c.by, c.PathValue("id"), c.form)
	return accepted(receipt, receipt.Duplicate), err
}

func (a *API) control(ctx context.Context, by session.Caller, ref string, f *form) (wire.ControlReceipt, error) {
	control := f.control()
	if err := f.err(); err != nil {
		return wire.ControlReceipt{}, err
	}
	return a.Sessions.Control(ctx, by, ref, control)
}

// accepted is 202 for something new and 200 for a repetition.
func accepted(body any, duplicate bool) reply {
	if duplicate {
		return ok(body)
	}
	return reply{status: http.StatusAccepted, body: body}
}

func (a *API) controlApplied(c *call) (reply, error) {
	id := c.PathValue("cid")
	err := a.Sessions.Applied(c.Context(), c.by, c.PathValue("id"), id)
	return ok(struct {
		ID      string `json:"id"`
		Applied bool   `json:"applied"`
	}{id, true}), err
}

func (a *API) dispatch(c *call) (reply, error) {
	in := wire.Dispatch{Mode: wire.ModeSend}
	if mode := choice(c.form, "mode", wire.ModeSend, wire.ModeOpen); mode != nil {
		in.Mode = *mode
	}
	if _, there := c.form.value("device_id"); !there {
		c.form.badf("device_id", "is required")
	}
	if device := c.form.id("device_id"); device != nil {
		in.DeviceID = *device
	}
	in.ControlID = c.form.text("control_id", 1, wire.MaxID)
	if in.Mode == wire.ModeSend { // an open handoff ignores both (SS-DSP-2)
		text := c.form.require("text", 1, wire.MaxText)
		in.Text, in.TurnID = &text, c.form.text("turn_id", 0, wire.MaxID)
	}
	if err := c.form.err(); err != nil {
		return reply{}, err
	}
	done, err := a.Sessions.Dispatch(c.Context(), c.by, c.PathValue("id"), in)
	if err != nil {
		return reply{}, err
	}
	if done.WakeID != "" {
		result := a.Outbox.SendNow(c.Context(), done.WakeID)
		done.Receipt.Pushed, done.Receipt.PushReason = result.Pushed, result.Reason
	}
	return accepted(done.Receipt, done.Receipt.Duplicate), nil
}

// maxWait is the longest an inbox waits, in seconds (SS-DSP-4).
const maxWait = 30

func (a *API) inbox(c *call) (reply, error) {
	limit := int(c.number("limit", session.DefaultInbox, 1, session.MaxInbox))
	wait := c.number("wait", 0, 0, maxWait)
	if wait == 0 {
		inbox, err := a.Sessions.Inbox(c.Context(), c.by, limit)
		return ok(inbox), err
	}
	patience, cancel := context.WithTimeout(a.patience, time.Duration(wait)*time.Second)
	defer cancel()
	inbox, err := a.Sessions.AwaitInbox(c.Context(), patience, c.by, limit)
	return ok(inbox), err
}

func (a *API) listPushes(c *call) (reply, error) {
	pushes, err := a.Sessions.Pushes(c.Context(), c.by, c.PathValue("id"))
	return ok(map[string]any{"pushes": pushes}), err
}

func (a *API) setNotify(c *call) (reply, error) {
	c.form.require("notify", 0, wire.MaxText)
	notify := choice(c.form, "notify", wire.NotifyAll, wire.NotifyAsks, wire.NotifyNone)
	if err := c.form.err(); err != nil {
		return reply{}, err
	}
	setting, err := a.Sessions.SetNotify(c.Context(), c.by, c.PathValue("id"), *notify)
	return ok(setting), err
}
