package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cairnsync/cairn/client/internal/httpkit"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// accountSink feeds an Account with what its Gateway receives.
type accountSink struct{ *Account }

var _ Sink = (*accountSink)(nil)

// Position answers where the copy stands.
func (a *accountSink) Position(context.Context) (Position, error) { return a.Account.Position(), nil }

// Ready begins with the snapshot where there is no copy yet. Otherwise the copy catches up by events.
func (a *accountSink) Ready(ctx context.Context, ready wire.Ready, from Position) (Position, error) {
	if from.Known() {
		return from, nil
	}
	return a.begin(ctx, ready.Snapshot)
}

// begin starts the copy anew from a snapshot, which is loaded when it is not given, and stores both.
func (a *accountSink) begin(ctx context.Context, snapshot *wire.Snapshot) (Position, error) {
	if snapshot == nil {
		loaded, err := a.snapshot(ctx)
		if err != nil {
			return Position{}, err
		}
		snapshot = &loaded
	}
	a.state.Start(*snapshot)
	at := Position{Seq: snapshot.HeadSeq, Epoch: snapshot.SyncEpoch}
	return at, a.Page(ctx, at)
}

// snapshot asks until there is an answer or the connection ends.
func (a *accountSink) snapshot(ctx context.Context) (wire.Snapshot, error) {
	wait := backoff{base: requestBase, limit: reconnectCap}
	for {
		snapshot, err := a.client.Snapshot(ctx)
		if err == nil || !worthRetry(err) {
			return snapshot, err
		}
		if !httpkit.Sleep(ctx, wait.next(waitOf(err))) {
			return snapshot, errors.Join(ctx.Err(), err)
		}
	}
}

// Resumed goes on where the copy stands.
func (a *accountSink) Resumed(context.Context, wire.Resumed) error { return nil }

// Event applies an event and confirms what it is the echo of.
func (a *accountSink) Event(ctx context.Context, event Event) error {
	if violated := a.state.Apply(event); violated != nil {
		a.config.Gateway.Report(violated)
	}
	if data, ok := event.Data.(*wire.MessageEvent); ok && event.Type == TypeMessageCreated && data.Message.Author.ID == a.state.Me().ID {
		echo := data.Message
		echo.Version = event.Resource.Version
		if echo.ClientMsgID == "" {
			echo.ClientMsgID = event.ClientMsgID
		}
		if _, err := a.outbox.Confirm(ctx, echo); err != nil {
			return err
		}
	}
	a.rest(func() { a.at.Seq = event.Seq })
	signal(a.wanted)
	if a.config.OnEvent != nil {
		a.config.OnEvent(event)
	}
	return nil
}

// Page stores position and copy together: a cursor without what it stands for would lose that (ES-7.1).
func (a *accountSink) Page(ctx context.Context, at Position) error {
	changed, err := a.state.Records()
	if err != nil {
		return err
	}
	if err := a.config.Store.Commit(context.WithoutCancel(ctx), at, changed); err != nil {
		a.state.Unsaved(changed)
		return fmt.Errorf("store local copy: %w", err)
	}
	a.rest(func() { a.at = at })
	return nil
}

// CaughtUp lets the outbox be sent (ES-13.4).
func (a *accountSink) CaughtUp(context.Context) error {
	a.state.SetLive(true)
	a.outbox.Open()
	a.rest(func() { a.live = true })
	signal(a.wanted)
	return nil
}

// Resync discards the copy, begins anew, and opens again what was open. The outbox is untouched (ES-7.3).
func (a *accountSink) Resync(ctx context.Context, _ wire.Resync) (Position, error) {
	snapshot, err := a.snapshot(ctx)
	if err != nil {
		return Position{}, err
	}
	channels, threads := a.state.Discard()
	a.rest(func() { a.at = Position{} }) // the old one stands for a copy that is gone
	for _, id := range channels {
		a.OpenChannel(id)
	}
	for _, id := range threads {
		a.OpenThread(id)
	}
	if err := a.config.Store.Discard(context.WithoutCancel(ctx)); err != nil {
		return Position{}, fmt.Errorf("discard local copy: %w", err)
	}
	return a.begin(ctx, &snapshot)
}

// Ephemeral hands an event on.
func (a *accountSink) Ephemeral(_ context.Context, event Event) {
	if a.config.OnEvent != nil {
		a.config.OnEvent(event)
	}
}

// Failed reports what the server refused.
func (a *accountSink) Failed(_ context.Context, failed wire.OpFailed) {
	a.config.Gateway.Report(fmt.Errorf("server refused %s: %s %s", failed.Op, failed.Code, failed.Detail))
}

// Unknown hands an op on.
func (a *accountSink) Unknown(_ context.Context, op string, d json.RawMessage) {
	if a.config.OnOther != nil {
		a.config.OnOther(op, d)
	}
}

// Down keeps the outbox until the next connection has caught up.
func (a *accountSink) Down(why error) {
	a.outbox.Hold()
	a.state.SetLive(false)
	a.rest(func() { a.live = false })
	if !errors.Is(why, context.Canceled) {
		a.config.Gateway.Report(fmt.Errorf("connection ended: %w", why))
	}
}
