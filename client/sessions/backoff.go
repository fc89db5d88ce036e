package sessions

import (
	"math/rand/v2"
	"time"
)

// Bounds of the waits between attempts.
const (
	minBackoff = 250 * time.Millisecond
	maxBackoff = 15 * time.Second
)

// backoff counts failures and answers how long to wait before the next attempt. The zero value is ready.
type backoff struct{ failures int }

// next counts a failure and answers the wait, at least what the server asked for.
func (b *backoff) next(asked time.Duration) time.Duration {
	wait := backoffDelay(b.failures, asked, rand.Float64())
	b.failures++
	return wait
}

// reset forgets the failures, after a period that was healthy.
func (b *backoff) reset() { b.failures = 0 }

// backoffDelay is min·2^failures up to max, of which a random part (0 ≤ chance < 1) between a half and the
// whole is taken, but never under min, so that clients cut together do not come back together. A longer
// wait the server asked for wins and is only stretched, by up to a tenth.
func backoffDelay(failures int, asked time.Duration, chance float64) time.Duration {
	ceiling := maxBackoff
	if failures < 10 {
		ceiling = min(maxBackoff, 2*minBackoff<<failures)
	}
	wait := ceiling/2 + time.Duration(chance*float64(ceiling/2))
	if asked > wait {
		return asked + time.Duration(chance*float64(asked/10))
	}
	return wait
}
