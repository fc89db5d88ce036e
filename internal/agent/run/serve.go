package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Times of Serve.
const (
	// inboxRest is the least time between two looks at an inbox that has nothing new for us.
	inboxRest = time.Second
	// coolFor is how long a session that could not be executed is left alone.
	coolFor      = 5 * time.Second
	longestPause = 30 * time.Second
	leaveWithin  = 20 * time.Second
)

// DefaultMaxSessions is how many sessions are executed at the same time.
const DefaultMaxSessions = 4

// ServeOptions say how to work on what is dispatched to this device.
type ServeOptions struct {
	Client *sessions.Client
	// Options answers how to execute a session; Woken is set by Serve.
	Options     func(ctx context.Context, session wire.Session) (Options, error)
	MaxSessions int // default 4; dispatches to further ones wait
	Env         *env.Env
	// Say tells the person at this machine what happens; it is called by several goroutines.
	Say func(format string, args ...any)
}

// Serve waits for dispatches to this device and executes their sessions, until ctx ends; then it stops each cleanly. It waits on
// the server (SS-DSP-4), so an idle one costs a request in half a minute, and goes on by itself after an outage.
func Serve(ctx context.Context, o ServeOptions) error {
	if o.MaxSessions <= 0 {
		o.MaxSessions = DefaultMaxSessions
	}
	s := &servant{o: o, busy: map[string]bool{}, cool: map[string]time.Time{}, ended: make(chan struct{}, 1)}
	defer s.workers.Wait()
	pause := time.Second
	for ctx.Err() == nil {
		inbox, err := o.Client.Inbox(ctx, sessions.InboxQuery{Wait: sessions.MaxInboxWait})
		switch {
		case ctx.Err() != nil:
		case err != nil && refusedForGood(err):
			return fmt.Errorf("read inbox: %w", err)
		case err != nil:
			o.Say("the server cannot be asked for work, again in %s: %v", pause, err)
			s.rest(ctx, o.Env.Jitter(pause))
			pause = min(2*pause, longestPause)
		default:
			pause = time.Second
			if s.begin(ctx, inbox) == 0 && len(inbox.Sessions) > 0 {
				s.rest(ctx, inboxRest)
			}
		}
	}
	return nil
}

// refusedForGood reports whether asking again cannot help.
func refusedForGood(err error) bool {
	return sessions.IsCode(err, code.InvalidAPIKey) || sessions.IsCode(err, code.Forbidden)
}

// servant is one Serve.
type servant struct {
	o       ServeOptions
	workers sync.WaitGroup
	ended   chan struct{} // holds one: a worker ended

	mu   sync.Mutex // guards what follows
	busy map[string]bool
	cool map[string]time.Time // sessions to leave alone until then
}

// rest waits, but not longer than until a worker ends.
func (s *servant) rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-s.ended:
	}
}

// begin starts to work on what can be worked on, and answers how many sessions these are.
func (s *servant) begin(ctx context.Context, inbox wire.Inbox) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, started := s.o.Env.Now(), 0
	for id, until := range s.cool {
		if now.After(until) {
			delete(s.cool, id)
		}
	}
	for _, entry := range inbox.Sessions {
		if _, cools := s.cool[entry.ID]; cools || s.busy[entry.ID] || len(s.busy) >= s.o.MaxSessions {
			continue
		}
		s.busy[entry.ID] = true
		started++
		s.workers.Go(func() {
			failed := s.work(ctx, entry.ID)
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.busy, entry.ID)
			if failed {
				s.cool[entry.ID] = s.o.Env.Now().Add(coolFor)
			}
			select {
			case s.ended <- struct{}{}:
			default:
			}
		})
	}
	return started
}

// work executes one session until it rests, and reports whether it could not.
func (s *servant) work(ctx context.Context, id string) (failed bool) {
	options, err := s.options(ctx, id)
	if err != nil {
		s.o.Say("session %s: %v", id, err)
		return true
	}
	runner, err := Start(ctx, options)
	var broken *StartError
	switch {
	case err == nil:
		s.o.Say("session %s: begun", id)
		s.o.Say("session %s: %s", id, s.attend(ctx, runner))
		return false
	case errors.Is(err, sessions.ErrNothingDispatched):
		return false // somebody else was faster
	case ctx.Err() != nil:
		return true
	case errors.As(err, &broken):
		s.o.Say("session %s: %v", id, err)
		if err := Refuse(ctx, options, broken); err != nil {
			s.o.Say("session %s: say so in the session: %v", id, err)
		}
		return true
	default:
		s.o.Say("session %s: waits: %v", id, err)
		return true
	}
}

func (s *servant) options(ctx context.Context, id string) (Options, error) {
	detail, err := s.o.Client.GetSession(ctx, id)
	if err != nil {
		return Options{}, err
	}
	options, err := s.o.Options(ctx, detail.Session)
	options.Woken = true
	return options, err
}

// attend waits for the end of a runner, and answers how it was.
func (s *servant) attend(ctx context.Context, runner *Runner) string {
	var err error
	for waiting := true; waiting; {
		select {
		case line := <-runner.Notice():
			s.o.Say("session %s: %s", runner.Session(), line)
		case <-runner.Done():
			err, waiting = runner.Err(), false
		case <-ctx.Done():
			stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
			err, waiting = runner.Stop(stopping), false
			cancel()
		}
	}
	said := "done"
	if err != nil {
		said = "ended: " + err.Error()
	}
	if words := runner.LastWords(); words != "" {
		said += "; " + words
	}
	return said
}

// Refuse says in the session that the agent cannot be started here, and rejects what was dispatched to this device, so that
// nobody waits for it in vain.
func Refuse(ctx context.Context, o Options, cause error) error {
	var dispatched []wire.Control
	for control, err := range o.Client.AllControls(ctx, o.Session, sessions.ControlsQuery{Target: sessions.TargetMe}) {
		if err != nil {
			return fmt.Errorf("read dispatched controls: %w", err)
		}
		dispatched = append(dispatched, control)
	}
	executor, err := o.Client.Execute(ctx, o.Session, sessions.ExecutorOptions{Recipients: o.Recipients})
	if err != nil {
		return err
	}
	err = executor.Emit(ctx, trace.Must("", trace.Failure{Message: cause.Error(), Code: "agent_start"}))
	for _, control := range dispatched {
		result := trace.ControlResult{ControlID: control.ID, Outcome: trace.ControlRejected, Reason: "the agent could not be started"}
		err = errors.Join(err, executor.Emit(ctx, trace.Must(turnOf(control), result)))
	}
	if err = errors.Join(err, executor.Flush(ctx)); err == nil {
		for _, control := range dispatched {
			err = errors.Join(err, executor.MarkApplied(control.ID))
		}
	}
	return errors.Join(err, executor.Stop(ctx))
}
