package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// start does everything that may fail, the lease last.
func (r *Runner) start(ctx context.Context) error {
	if r.o.Woken {
		if err := r.drainInbox(ctx); err != nil {
			return err
		}
	}
	if r.o.Recipients != nil { // before anybody loses the lease for it
		if _, err := r.o.Recipients(ctx); err != nil {
			return fmt.Errorf("find recipients: %w", err)
		}
	}
	if err := r.refuseHeld(ctx); err != nil {
		return err
	}
	before, err := readPast(ctx, r.o.Client, r.o.Session, r.o.Identity, nil)
	if err != nil {
		return err
	}
	r.session = before.agent
	started, err := r.startAgent(ctx, r.session)
	if err != nil {
		return &StartError{err}
	}
	r.agent, r.session = started.agent, started.session.ID
	then, err := r.claim(ctx)
	if err != nil {
		return err
	}
	if err := r.execute(ctx, then, r.control); err != nil {
		return err
	}
	r.introduce(started)
	return nil
}

// claim takes the lease, and answers what the log says under it.
func (r *Runner) claim(ctx context.Context) (*past, error) {
	if _, err := r.o.Client.ClaimLease(ctx, r.o.Session, sessions.Claim{Force: r.o.Force}); err != nil {
		err = fmt.Errorf("claim lease: %w", err)
		if sessions.AsAPIError(err) == nil { // it may have been granted
			err = errors.Join(err, r.giveBack(ctx))
		}
		return nil, err
	}
	then, err := r.survey(ctx)
	if err != nil {
		return nil, errors.Join(err, r.giveBack(ctx))
	}
	return then, nil
}

// execute becomes the session's writer, and closes what a dead one left open.
func (r *Runner) execute(ctx context.Context, then *past, onControl func(context.Context, wire.Control) error) error {
	executor, err := r.o.Client.Execute(context.WithoutCancel(ctx), r.o.Session, sessions.ExecutorOptions{
		OnControl: onControl, Refused: r.refuse, Recipients: r.o.Recipients, Journal: r.journal,
		BatchEvents: 100, BatchWait: batchWait, QueueEvents: r.o.QueueEvents, QueueBytes: r.o.QueueBytes,
	})
	if err != nil {
		return errors.Join(err, r.giveBack(ctx))
	}
	r.executor = executor
	r.takeUp(then)
	return nil
}

// drainInbox looks at what was dispatched to this device, before the lease is claimed (SS-CON-3).
func (r *Runner) drainInbox(ctx context.Context) error {
	for _, err := range r.o.Client.AllControls(ctx, r.o.Session, sessions.ControlsQuery{Target: sessions.TargetMe}) {
		if err != nil {
			return fmt.Errorf("read dispatched controls: %w", err)
		}
		return nil
	}
	return sessions.ErrNothingDispatched
}

// HeldError is a session that another device executes now.
type HeldError struct{ DeviceID string }

// Error names the device.
func (e *HeldError) Error() string { return "device " + e.DeviceID + " executes this session now" }

// refuseHeld saves the start of an agent for a lease that is not free.
func (r *Runner) refuseHeld(ctx context.Context) error {
	if r.o.Force {
		return nil
	}
	detail, err := r.o.Client.GetSession(ctx, r.o.Session)
	if err != nil {
		return fmt.Errorf("read session: %w", err)
	}
	if detail.Lease != nil && !strings.EqualFold(detail.Lease.DeviceID, r.o.Client.DeviceID()) {
		return &HeldError{detail.Lease.DeviceID}
	}
	return nil
}

// survey reads the log under the lease: nobody else appends any more. Events that a process before left in the journal are sent
// only when nobody has executed since.
func (r *Runner) survey(ctx context.Context) (*past, error) {
	then, err := readPast(ctx, r.o.Client, r.o.Session, r.o.Identity, nil)
	if err != nil || r.journal.Waiting() == 0 {
		return then, err
	}
	if then.writer != "" && then.writer != r.o.Client.DeviceID() {
		err := r.setAside("another device has executed since")
		r.noticef("%s", r.lastWords)
		return then, err
	}
	return readPast(ctx, r.o.Client, r.o.Session, r.o.Identity, r.journal.Events())
}

// refuse puts an event that the server refuses aside, and says so in its place. It runs beside the loop.
func (r *Runner) refuse(event wire.IncomingEvent, refusal error) (instead wire.IncomingEvent, ok bool) {
	path := filepath.Join(r.o.Folder, "refused.jsonl")
	line, err := json.Marshal(event)
	if err == nil {
		err = appendLine(path, line)
	}
	if err != nil {
		r.o.Log.Error("put a refused event aside", "kind", event.Kind, "error", err)
		return instead, false
	}
	turn := ""
	if event.TurnID != nil {
		turn = *event.TurnID
	}
	r.noticef("an event of kind %s was refused by the server (%v); it is kept in %s", event.Kind, refusal, path)
	return missing(turn, event.Kind, refusal), true
}

func appendLine(path string, line []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open file: %w", err)
	}
	_, err = file.Write(append(line, '\n'))
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	return nil
}

// takeUp closes what a dead executor left open, and remembers what it had said.
func (r *Runner) takeUp(then *past) {
	for _, closed := range then.openAsks {
		r.emit(then.openTurn, closed)
	}
	if then.openTurn != "" {
		for _, id := range then.tools {
			content := []trace.Content{trace.TextContent(lostReason)}
			r.emit(then.openTurn, trace.ToolResult{ToolCallID: id, Status: trace.ToolCancelled, Content: content})
		}
		r.emit(then.openTurn, trace.TurnEnd{Status: trace.TurnFailed, Reason: lostReason})
	}
	r.said, r.context = then.said, then.context()
	if r.machine.paused = then.paused; then.paused {
		r.gate.set(true)
		r.noticef("the session is paused: resume it to let the agent work")
	}
}

// giveBack releases a lease that was claimed in vain.
func (r *Runner) giveBack(ctx context.Context) error {
	_, err := r.o.Client.ReleaseLease(context.WithoutCancel(ctx), r.o.Session)
	return err
}

// abandon puts everything away after a start that failed.
func (r *Runner) abandon() error {
	close(r.ended) // lets handlers of the agent return
	err := r.endAgent(r.agent)
	r.endLife()
	return errors.Join(err, r.close())
}
