package guard

import (
	"sync"
	"time"

	"github.com/cairnsync/cairn/internal/env"
)

// maxBuckets bounds those whose rate is remembered; past it the fullest are forgotten, which
// forgives them nothing.
const maxBuckets = 100_000

// Limiter is a token bucket for each key. A rate of 0 limits nothing.
type Limiter struct {
	env   *env.Env
	rate  float64 // tokens per second
	burst float64

	mu      sync.Mutex
	buckets map[string]bucket // guarded by mu
}

type bucket struct {
	tokens float64
	at     time.Time
}

// NewLimiter makes a Limiter of perSecond on average and burst at once.
func NewLimiter(e *env.Env, perSecond float64, burst int) *Limiter {
	return &Limiter{env: e, rate: perSecond, burst: max(float64(burst), 1), buckets: map[string]bucket{}}
}

// Take spends one token of a key and answers 0, or answers how long the next one takes.
func (l *Limiter) Take(key string) time.Duration {
	if l.rate <= 0 {
		return 0
	}
	now := l.env.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	b, known := l.buckets[key]
	if !known {
		l.forgetFull(now)
		b = bucket{tokens: l.burst, at: now}
	}
	b = bucket{tokens: l.filled(b, now), at: now}
	if b.tokens < 1 {
		l.buckets[key] = b
		return max(time.Duration((1-b.tokens)/l.rate*float64(time.Second)), 1)
	}
	b.tokens--
	l.buckets[key] = b
	return 0
}

func (l *Limiter) filled(b bucket, now time.Time) float64 {
	return min(l.burst, b.tokens+max(now.Sub(b.at).Seconds(), 0)*l.rate)
}

// forgetFull makes room for a new key: a full bucket is the same as none.
func (l *Limiter) forgetFull(now time.Time) {
	if len(l.buckets) < maxBuckets {
		return
	}
	for key, b := range l.buckets {
		if l.filled(b, now) >= l.burst {
			delete(l.buckets, key)
		}
	}
	if len(l.buckets) >= maxBuckets { // nobody is idle; begin anew rather than grow
		clear(l.buckets)
	}
}
