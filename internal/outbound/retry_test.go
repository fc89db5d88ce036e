package outbound

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

func TestWhatFollowsAnAttempt(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name     string
		attempts int64
		age      time.Duration
		result   Result
		want     step
	}{
		{"pushed", 1, 0, Result{Pushed: true}, step{forget: true}},
		{"unregistered clears the token", 1, 0, failed(wire.PushUnregistered), step{forget: true, clearToken: true}},
		{"no push token", 1, 0, failed(wire.PushNoPushToken), step{forget: true}},
		{"not configured", 1, 0, failed(wire.PushNoToken), step{forget: true}},
		{"a bad request stays bad", 1, 0, failed("http_400"), step{forget: true}},
		{"network", 1, 0, failed(wire.PushNetworkError), step{retryAfter: firstRetry}},
		{"credentials", 2, 0, failed(wire.PushAuthFailed), step{retryAfter: 2 * firstRetry}},
		{"broken service", 3, 0, failed("http_503"), step{retryAfter: 4 * firstRetry}},
		{"overloaded service", 4, 0, failed("http_429"), step{retryAfter: 8 * firstRetry}},
		{"pauses have a bound", 7, 0, failed(wire.PushNetworkError), step{retryAfter: 64 * firstRetry}},
		{"attempts have a bound", maxAttempts, 0, failed(wire.PushNetworkError), step{forget: true}},
		{"age has a bound", 1, maxAge, failed(wire.PushNetworkError), step{forget: true}},
	}
	for _, c := range cases {
		t.Run("SS-DSP-3 "+c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, after(c.attempts, c.age, c.result))
		})
	}
}

// Whatever happens, a wake leaves the outbox after a bounded number of attempts and a bounded time.
func TestEveryWakeEnds(t *testing.T) {
	t.Parallel()
	reasons := []wire.PushReason{
		wire.PushNetworkError, wire.PushAuthFailed, "http_500", "http_429", "http_404", wire.PushUnregistered, "",
	}
	rapid.Check(t, func(t *rapid.T) {
		var age time.Duration
		for attempts := int64(1); ; attempts++ {
			reason := rapid.SampledFrom(reasons).Draw(t, "reason")
			next := after(attempts, age, Result{Pushed: reason == "", Reason: reason})
			if next.forget {
				return
			}
			if next.retryAfter < firstRetry || next.retryAfter > lastRetry || next.clearToken {
				t.Fatalf("after %d attempts: %+v", attempts, next)
			}
			if attempts >= maxAttempts || age > maxAge {
				t.Fatalf("still kept after %d attempts and %s", attempts, age)
			}
			age += next.retryAfter
		}
	})
}
