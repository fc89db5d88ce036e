package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
	inboxRest = 2 * time.Second
	// coolFor is how long a session that could not be executed is left alone, at first; each time it fails again twice as long.
	coolFor      = 5 * time.Second
	longestCool  = 5 * time.Minute
	longestPause = 30 * time.Second
	leaveWithin  = 20 * time.Second
)

// maxInbox is how many controls one look at the inbox answers.
const maxInbox = 500

// DefaultMaxSessions is how many sessions are executed at the same time.
const DefaultMaxSessions = 4

// ServeOptions say how to work on what is dispatched to this device.
type ServeOptions struct {
	Client *sessions.Client
	// Options answers how to execute a session; Woken is set by Serve.
	Options     func(ctx context.Context, session wire.Session) (Options, error)
	MaxSessions int // default 4; dispatches to further ones wait
	// Folder remembers which sessions are at work, so that one that was killed takes them up again when it is started; it is made
	// when it is not there. "" remembers nothing.
	Folder string
	Env    *env.Env
	// Say tells the person at this machine what happens; it is called by several goroutines.
	Say func(format string, args ...any)
}

// Serve waits for dispatches to this device and executes their sessions, until ctx ends; then it stops each cleanly. It waits on
// the server (SS-DSP-4), so an idle one costs a request in half a minute, and goes on by itself after an outage.
func Serve(ctx context.Context, o ServeOptions) error {
	if o.MaxSessions <= 0 {
		o.MaxSessions = DefaultMaxSessions
	}
	s := &servant{o: o, busy: map[string]bool{}, cool: map[string]cooling{}, ended: make(chan struct{}, 1)}
	defer s.workers.Wait()
	pause := time.Second
	for ctx.Err() == nil {
		if err := s.takeUp(ctx); err != nil {
			return err
		}
		inbox, err := o.Client.Inbox(ctx, sessions.InboxQuery{Wait: sessions.MaxInboxWait, Limit: maxInbox})
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
	cool map[string]cooling
}

// cooling is a session that is left alone for a while.
type cooling struct {
	until  time.Time
	length time.Duration
	why    string
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
	for id, cools := range s.cool {
		if now.After(cools.until.Add(longestCool)) {
			delete(s.cool, id) // nobody dispatches it any more
		}
	}
	for _, entry := range inbox.Sessions {
		if s.rests(entry.ID) {
			continue
		}
		s.start(ctx, entry.ID, true)
		started++
	}
	return started
}

// start works on a session, in a goroutine of its own; mu is held.
func (s *servant) start(ctx context.Context, id string, woken bool) {
	s.busy[id] = true
	s.workers.Go(func() {
		err := s.work(ctx, id, woken)
		s.done(ctx, id, err)
	})
}

// takeUp goes on with the sessions that were at work when a process before this one was killed.
func (s *servant) takeUp(ctx context.Context) error {
	if s.o.Folder == "" {
		return nil
	}
	if err := os.MkdirAll(s.o.Folder, 0o700); err != nil {
		return fmt.Errorf("make folder for sessions at work: %w", err)
	}
	left, err := os.ReadDir(s.o.Folder)
	if err != nil {
		return fmt.Errorf("read sessions at work: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, entry := range left {
		id := entry.Name()
		if s.rests(id) {
			continue
		}
		if _, tried := s.cool[id]; !tried {
			s.o.Say("session %s: it was at work when this machine last stopped; it goes on", id)
		}
		s.start(ctx, id, false)
	}
	return nil
}

// rests reports whether a session is not to be begun now; mu is held.
func (s *servant) rests(id string) bool {
	return s.o.Env.Now().Before(s.cool[id].until) || s.busy[id] || len(s.busy) >= s.o.MaxSessions
}

// remember notes that a session is at work, or not any more.
func (s *servant) remember(id string, works bool) {
	if s.o.Folder == "" {
		return
	}
	path := filepath.Join(s.o.Folder, id)
	err := os.Remove(path)
	if works {
		err = os.WriteFile(path, nil, 0o600)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.o.Say("session %s: note that it is at work: %v", id, err)
	}
}

// done notes how the work on a session ended. One that failed rests, longer each time, and why is said when it is new.
func (s *servant) done(ctx context.Context, id string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, id)
	before := s.cool[id]
	delete(s.cool, id)
	if err != nil && ctx.Err() == nil {
		next := cooling{length: min(max(coolFor, 2*before.length), longestCool), why: err.Error()}
		if _, held := errors.AsType[*HeldError](err); held {
			next.length = coolFor // it costs one look, and may be over at any time
		}
		next.until = s.o.Env.Now().Add(next.length)
		s.cool[id] = next
		if next.why != before.why {
			s.o.Say("session %s: %s", id, next.why)
		}
	}
	select {
	case s.ended <- struct{}{}:
	default:
	}
}

// work executes one session until it rests; the error is why it could not.
func (s *servant) work(ctx context.Context, id string, woken bool) error {
	options, err := s.options(ctx, id)
	if err != nil {
		return err
	}
	options.Woken = woken
	runner, err := Start(ctx, options)
	var (
		broken *StartError
		held   *HeldError
	)
	switch {
	case err == nil:
		s.remember(id, true)
		s.o.Say("session %s: begun", id)
		err := s.attend(ctx, runner)
		s.remember(id, false)
		return err
	case errors.Is(err, sessions.ErrNothingDispatched):
		return nil // somebody else was faster
	case errors.As(err, &held):
		s.remember(id, false) // who executes it now has closed what was open
		return fmt.Errorf("it waits: %s executes it, and only force takes it over (%w)", s.nameOf(ctx, id, held.DeviceID), err)
	case errors.As(err, &broken) && ctx.Err() == nil:
		s.remember(id, false)
		if told := Refuse(ctx, options, broken); told != nil {
			return fmt.Errorf("%w; it could not be said in the session: %w", err, told)
		}
		return err
	default:
		return err
	}
}

// nameOf is what a device of a session is called, else its id.
func (s *servant) nameOf(ctx context.Context, id, device string) string {
	detail, err := s.o.Client.GetSession(ctx, id)
	if err != nil {
		return "device " + device
	}
	for _, member := range detail.Members {
		for _, known := range member.Devices {
			if known.DeviceID == device && known.Name != "" {
				return known.Name
			}
		}
	}
	return "device " + device
}

func (s *servant) options(ctx context.Context, id string) (Options, error) {
	detail, err := s.o.Client.GetSession(ctx, id)
	if err != nil {
		return Options{}, err
	}
	return s.o.Options(ctx, detail.Session)
}

// attend waits for the end of a runner.
func (s *servant) attend(ctx context.Context, runner *Runner) error {
	for {
		select {
		case line := <-runner.Notice():
			s.o.Say("session %s: %s", runner.Session(), line)
		case <-runner.Done():
			return s.ending(runner)
		case <-ctx.Done():
			stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
			defer cancel()
			_ = runner.Stop(stopping) // ending tells
			return s.ending(runner)
		}
	}
}

func (s *servant) ending(runner *Runner) error {
	if words := runner.LastWords(); words != "" {
		s.o.Say("session %s: %s", runner.Session(), words)
	}
	if runner.Err() == nil {
		s.o.Say("session %s: done", runner.Session())
	}
	return runner.Err()
}

// Refuse says in the session that the agent cannot be started here, and rejects what was dispatched to this device, so that
// nobody waits for it in vain. Like Start it closes what a dead executor left open.
func Refuse(ctx context.Context, o Options, cause error) error {
	r := newRunner(o.withDefaults())
	defer r.endLife()
	if err := r.open(); err != nil {
		return err
	}
	err := r.reject(ctx, cause)
	return errors.Join(err, r.close())
}

func (r *Runner) reject(ctx context.Context, cause error) error {
	var dispatched []wire.Control
	for control, err := range r.o.Client.AllControls(ctx, r.o.Session, sessions.ControlsQuery{Target: sessions.TargetMe}) {
		if err != nil {
			return fmt.Errorf("read dispatched controls: %w", err)
		}
		dispatched = append(dispatched, control)
	}
	then, err := r.claim(ctx)
	if err != nil {
		return err
	}
	if err := r.execute(ctx, then, nil); err != nil {
		return err
	}
	r.emit("", trace.Failure{Message: cause.Error(), Code: "agent_start"})
	for _, control := range dispatched {
		if !r.said[control.ID] {
			r.emit(turnOf(control), trace.ControlResult{ControlID: control.ID, Outcome: trace.ControlRejected, Reason: "the agent could not be started"})
		}
	}
	if err = r.executor.Flush(ctx); err == nil {
		for _, control := range dispatched {
			err = errors.Join(err, r.executor.MarkApplied(control.ID))
		}
	}
	return errors.Join(err, r.executor.Stop(ctx), r.settle())
}
