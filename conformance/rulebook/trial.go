package rulebook

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

const (
	rememberedExchanges = 8
	cleaningTime        = 10 * time.Second
)

// Trial is one case while it runs: what testify reports to, and what the case made and must remove.
type Trial struct {
	mu        sync.Mutex // guards what follows
	ctx       context.Context
	failed    bool
	failures  []string
	exchanges []string // the last requests and answers, shown when the case fails
	cleanups  []func()
	unseen    string
}

// NewTrial makes a trial that ends with ctx.
func NewTrial(ctx context.Context) *Trial { return &Trial{ctx: ctx} }

// Context ends at the deadline of the case; while the trial cleans up it is another one.
func (t *Trial) Context() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ctx
}

// Errorf records a failure; the case goes on.
func (t *Trial) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed = true
	t.failures = append(t.failures, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// FailNow ends the case; testify's require calls it.
func (t *Trial) FailNow() {
	t.mu.Lock()
	t.failed = true
	t.mu.Unlock()
	runtime.Goexit()
}

// NotSeen ends the case without a verdict: why the target cannot show this.
func (t *Trial) NotSeen(why string) {
	t.mu.Lock()
	t.unseen = why
	t.mu.Unlock()
	runtime.Goexit()
}

// Outcome answers what became of the case so far.
func (t *Trial) Outcome(rule, name string) Outcome {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.failed {
		return Outcome{Rule: rule, Name: name, Unseen: t.unseen}
	}
	if len(t.failures) == 0 {
		t.failures = append(t.failures, "the case ended early")
	}
	return Outcome{Rule: rule, Name: name, Failures: append(t.failures, "last exchanges:\n"+strings.Join(t.exchanges, "\n"))}
}

// Cleanup registers what runs when the case has ended, last first.
func (t *Trial) Cleanup(run func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, run)
}

// Finish runs what Cleanup registered, on a context of its own: the case's may have ended. A Plan does it by itself.
func (t *Trial) Finish() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), cleaningTime)
	defer cancel()
	t.mu.Lock()
	t.ctx = ctx
	t.mu.Unlock()
	for {
		t.mu.Lock()
		if len(t.cleanups) == 0 {
			t.mu.Unlock()
			return
		}
		last := t.cleanups[len(t.cleanups)-1]
		t.cleanups = t.cleanups[:len(t.cleanups)-1]
		t.mu.Unlock()
		last()
	}
}

// Remember keeps an exchange for the message of a failure.
func (t *Trial) Remember(exchange string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed {
		return // keep what led to the failure, not the cleaning up
	}
	t.exchanges = append(t.exchanges, exchange)
	if len(t.exchanges) > rememberedExchanges {
		t.exchanges = t.exchanges[1:]
	}
}

// Eventually waits until condition holds, asking every 20 ms, and fails the case after within.
func (t *Trial) Eventually(within time.Duration, what string, condition func() bool) {
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Errorf("within %s: %s", within, what)
			t.FailNow()
		case <-t.Context().Done():
			t.Errorf("deadline of the case: %s", what)
			t.FailNow()
		}
	}
}

// run runs a case in its own goroutine, which FailNow may end early.
func (t *Trial) run(play func(*Trial)) {
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		defer t.Finish()
		defer t.recoverPanic()
		play(t)
	}()
	<-finished
}

func (t *Trial) recoverPanic() {
	if cause := recover(); cause != nil {
		t.Errorf("the case panicked: %v\n%s", cause, debug.Stack())
	}
}
