package storage

import (
	"context"
	"time"

	"github.com/cairnsync/cairn/internal/env"
)

// backoff spaces attempts: doubling from firstPause to longestPause, jittered.
type backoff struct {
	env  *env.Env
	next time.Duration
}

const (
	firstPause   = 10 * time.Millisecond
	longestPause = 1 * time.Second
)

func newBackoff(e *env.Env) *backoff { return &backoff{env: e, next: firstPause} }

// pause waits before the next attempt; false means that ctx or the deadline ended first.
func (b *backoff) pause(ctx context.Context, deadline <-chan time.Time) bool {
	timer := time.NewTimer(b.env.Jitter(b.next))
	defer timer.Stop()
	b.next = min(b.next*2, longestPause)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-deadline:
		return false
	}
}
