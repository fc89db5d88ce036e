package sessions

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// trial is one case while it runs: what testify reports to, and what the case made and must remove.
type trial struct {
	suite *suite
	ctx   context.Context

	mu        sync.Mutex // guards what follows
	failed    bool
	failures  []string
	exchanges []string // the last requests and answers, shown when the case fails
	cleanups  []func()
	unseen    string
}

const rememberedExchanges = 6

func newTrial(ctx context.Context, s *suite) *trial { return &trial{suite: s, ctx: ctx} }

// Errorf records a failure; the case goes on.
func (t *trial) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed = true
	t.failures = append(t.failures, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// notSeen ends the case without a verdict: why the target cannot show this.
func (t *trial) notSeen(why string) {
	t.mu.Lock()
	t.unseen = why
	t.mu.Unlock()
	runtime.Goexit()
}

func (t *trial) outcome() (failures []string, unseen string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.failed {
		return nil, t.unseen
	}
	if len(t.failures) == 0 {
		t.failures = append(t.failures, "the case ended early")
	}
	return append(t.failures, "last exchanges:\n"+strings.Join(t.exchanges, "\n")), ""
}

// cleanup registers what finish runs, last first.
func (t *trial) cleanup(run func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, run)
}

// finish removes what the case made, on a context of its own: the case's may have ended.
func (t *trial) finish() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), patience)
	defer cancel()
	t.ctx = ctx
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

// remember keeps an exchange for the message of a failure.
func (t *trial) remember(a *answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed {
		return // keep what led to the failure, not the cleaning up
	}
	t.exchanges = append(t.exchanges, a.String())
	if len(t.exchanges) > rememberedExchanges {
		t.exchanges = t.exchanges[1:]
	}
}

// eventually waits until condition holds, asking every 50 ms, and fails the case after within.
func (t *trial) eventually(within time.Duration, what string, condition func() bool) {
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Errorf("within %s: %s", within, what)
			t.FailNow()
		case <-t.ctx.Done():
			t.Errorf("deadline of the case: %s", what)
			t.FailNow()
		}
	}
}

// concurrently starts n calls at one moment and answers what each got, in order of i.
func concurrently[T any](n int, call func(i int) T) []T {
	results := make([]T, n)
	start := make(chan struct{})
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			<-start
			results[i] = call(i)
		})
	}
	close(start)
	group.Wait()
	return results
}

func newID() string { return uuid.NewString() }
