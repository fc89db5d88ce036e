package workspace

import (
	"math/rand/v2"
	"time"
)

// Bounds of waits (ES-18).
const (
	reconnectBase = time.Second      // sync.reconnect_backoff_base
	reconnectCap  = 60 * time.Second // sync.reconnect_backoff_cap
	outboxBase    = 2 * time.Second  // client.outbox_retry_base
	outboxCap     = 5 * time.Minute  // client.outbox_retry_cap
	requestBase   = 250 * time.Millisecond
	requestCap    = 15 * time.Second
)

// fullJitter is the wait before attempt n, counted from 0 (ES-6.5): between 0 and min(limit, base·2^n),
// where 0 ≤ chance < 1 says which part of it.
func fullJitter(n int, base, limit time.Duration, chance float64) time.Duration {
	ceiling := limit
	if n < 30 && base<<n < limit {
		ceiling = base << n
	}
	return time.Duration(chance * float64(ceiling))
}

// backoff counts failures and answers how long to wait before the next attempt.
type backoff struct {
	base, limit time.Duration
	failures    int
}

// next counts a failure and answers the wait. A longer one that the server asked for wins, stretched by
// up to a tenth, so that clients cut together do not come back together.
func (b *backoff) next(asked time.Duration) time.Duration {
	wait := fullJitter(b.failures, b.base, b.limit, rand.Float64())
	b.failures++
	if asked > wait {
		return asked + time.Duration(rand.Float64()*float64(asked/10))
	}
	return wait
}
