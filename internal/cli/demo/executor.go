package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/internal/cli/demo/network"
	"github.com/cairnsync/cairn/internal/cli/demo/script"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

const (
	stopWithin  = 10 * time.Second
	leaveWithin = time.Second           // when nobody waits any more: the server may be gone already
	batchWait   = 40 * time.Millisecond // so short that viewers see it grow
)

// execute takes the lease, goes on where the log stands, and stops when the recording is over or the lease is lost.
func (a *actor) execute(ctx context.Context) error {
	c, err := a.connect(wire.PlatformAgent, network.New(a.Env))
	if err != nil {
		return err
	}
	defer c.Close()
	controls := make(chan wire.Control)
	executor, err := c.Execute(ctx, a.Session, client.ExecutorOptions{
		Force: a.Force, BatchWait: batchWait, OnControl: handOver(controls),
	})
	if err != nil {
		return fmt.Errorf("execute session: %w", err)
	}
	failure := a.perform(ctx, c, executor, controls)
	within := stopWithin
	if ctx.Err() != nil {
		within = leaveWithin
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	stopped := executor.Stop(stopping)
	if lost := executor.Lost(); lost != nil && lost.Reason == client.LossTaken {
		return a.say(report{Kind: saidLost}) // what was not stored is the next executor's to say
	}
	if err := errors.Join(failure, stopped); err != nil {
		return err
	}
	return a.say(report{Kind: saidDone})
}

// handOver gives controls to who plays; one that nobody takes stays pending.
func handOver(to chan<- wire.Control) func(context.Context, wire.Control) error {
	return func(ctx context.Context, control wire.Control) error {
		select {
		case to <- control:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// perform plays the recording. It returns early when the lease is lost.
func (a *actor) perform(ctx context.Context, c *client.Client, executor *client.Executor, controls <-chan wire.Control) error {
	var log []wire.Event
	for event, err := range c.AllEvents(ctx, a.Session, 0) {
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		log = append(log, event)
	}
	if err := a.say(report{Kind: saidClaimed, Seq: int64(len(log))}); err != nil {
		return err
	}
	player := script.Restore(a.run, log)
	for {
		standing, wait := player.Next()
		if standing == script.Finished {
			return nil
		}
		events, err := a.awaitNext(executor.Context(), player, standing, wait, controls)
		if err != nil {
			return nil // the lease is gone or all is over: Stop says which
		}
		for _, event := range events {
			if err := executor.Emit(ctx, event); err != nil {
				return nil // as above
			}
		}
	}
}

// awaitNext answers what the next line or the next control leads to, whichever comes first.
func (a *actor) awaitNext(
	ctx context.Context, player *script.Player, standing script.Standing, wait time.Duration, controls <-chan wire.Control,
) ([]wire.IncomingEvent, error) {
	var due <-chan time.Time
	if standing == script.Ready {
		timer := time.NewTimer(a.paced(wait))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx) //nolint:wrapcheck // only that it ended matters
	case control := <-controls:
		return player.Control(control), nil
	case <-due:
		return player.Advance(), nil
	}
}
