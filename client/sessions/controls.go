package sessions

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cairnsync/cairn/client/internal/httpkit"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// takeInbox reads what was dispatched to this device before the lease is claimed, and takes open handoffs
// (SS-CON-3).
func (e *Executor) takeInbox(ctx context.Context, ref string) error {
	work := false
	for control, err := range e.client.AllControls(ctx, ref, ControlsQuery{Target: TargetMe}) {
		switch {
		case err != nil:
			return fmt.Errorf("read dispatched controls: %w", err)
		case control.Mode != wire.ModeOpen:
			work = true // it waits for the lease, in its place among the others
		default:
			if err := e.takeHandoff(ctx, ref, control); err != nil {
				return err
			}
		}
	}
	if !work {
		return ErrNothingDispatched
	}
	return nil
}

func (e *Executor) takeHandoff(ctx context.Context, ref string, control wire.Control) error {
	if e.options.OnControl == nil {
		return nil
	}
	e.handled[control.ID] = true
	err := e.options.OnControl(ctx, control)
	if errors.Is(err, ErrLeavePending) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("handle control %s: %w", control.ID, err)
	}
	if err := e.client.MarkApplied(ctx, ref, control.ID); err != nil {
		return fmt.Errorf("mark control %s applied: %w", control.ID, err)
	}
	return nil
}

// drainControls reads pending controls at the start, when it is woken, and now and then.
//
// The log's echo of a control is no more than a wake-up: what is delivered was read from the server's
// table of controls, oldest first and past the last one delivered, so each comes once and in order.
func (e *Executor) drainControls(ctx context.Context) {
	var after int64
	var wait backoff
	for {
		next := e.options.DrainEvery
		err := e.drain(ctx, &after)
		switch {
		case ctx.Err() != nil, e.stopping():
			return
		case err == nil:
			wait.reset()
		case e.refused("read controls", err):
			return
		default:
			next = wait.next(retryAfter(err))
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-e.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// drain delivers what is pending past after, and moves it.
func (e *Executor) drain(ctx context.Context, after *int64) error {
	for control, err := range e.client.AllControls(ctx, e.session, ControlsQuery{After: *after}) {
		if err != nil {
			return err
		}
		if control.Applied || e.foreign(control) || e.handled[control.ID] {
			*after = control.Seq
			continue
		}
		err := e.options.OnControl(ctx, control)
		*after = control.Seq
		if err != nil && !errors.Is(err, ErrLeavePending) {
			if ctx.Err() == nil { // else it ended because it was told to
				e.askStop(fmt.Errorf("handle control %s: %w", control.ID, err))
			}
			return err
		}
		if err == nil && !e.mark(control.ID) { //nolint:contextcheck // a clean stop waits for the mark
			return context.Cause(e.run) //nolint:wrapcheck // it is this package's own
		}
	}
	return nil
}

// foreign reports whether the control is meant for another device.
func (e *Executor) foreign(control wire.Control) bool {
	return control.TargetDeviceID != nil && !strings.EqualFold(*control.TargetDeviceID, e.client.config.Device.ID)
}

// MarkApplied says that a control was carried out that OnControl had left pending (ErrLeavePending). It tries again and again while
// the lease is held, and answers why the Executor ended when it could not.
func (e *Executor) MarkApplied(controlID string) error {
	if e.mark(controlID) {
		return nil
	}
	return context.Cause(e.run) //nolint:wrapcheck // it is this package's own
}

// mark says that a control was applied, again and again while the lease is held: it was carried out, so it
// must not come back. A clean stop waits for it.
func (e *Executor) mark(controlID string) bool {
	var wait backoff
	for {
		err := e.client.MarkApplied(e.run, e.session, controlID)
		if err == nil {
			return true
		}
		if e.refused("mark control applied", err) || !httpkit.Sleep(e.run, wait.next(retryAfter(err))) {
			return false
		}
	}
}

// follow reads the session's stream for what should wake the other loops.
func (e *Executor) follow(ctx context.Context) {
	var wait backoff
	for ctx.Err() == nil {
		err := e.followOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, ErrLogReset) {
			e.end(ErrLogReset)
			return
		}
		var closed *ClosedError
		if errors.As(err, &closed) && closed.final() {
			e.end(fmt.Errorf("follow session: %w", err))
			return
		}
		if !errors.Is(err, ErrBrokenStream) && e.refused("follow session", err) {
			return
		}
		if !httpkit.Sleep(ctx, wait.next(retryAfter(err))) { // meanwhile controls are read now and then
			return
		}
	}
}

// followOnce starts at the log's end: what came before is found by the first drain.
func (e *Executor) followOnce(ctx context.Context) error {
	now, err := e.client.GetSession(ctx, e.session)
	if err != nil {
		return err
	}
	viewer := e.client.View(e.session, ViewOptions{After: now.LastSeq, Transport: e.options.Transport})
	return viewer.Run(ctx, e.notice)
}

func (e *Executor) notice(frame Frame) error {
	switch frame := frame.(type) {
	case EventFrame:
		if frame.Kind == wire.KindControl {
			nudge(e.wake)
		}
	case ControlFrame:
		if !frame.Applied {
			nudge(e.wake)
		}
	case LeaseFrame:
		if frame.HolderDeviceID == nil || !strings.EqualFold(*frame.HolderDeviceID, e.client.config.Device.ID) {
			nudge(e.beat) // the heartbeat says what it means
		}
	case ConnectionFrame:
		if frame.State == Connected {
			nudge(e.wake)
		}
	case ResetFrame:
		return ErrLogReset
	}
	return nil
}

// nudge leaves a wish that is not there yet.
func nudge(wish chan struct{}) {
	select {
	case wish <- struct{}{}:
	default:
	}
}
