package sessions

import (
	"math"

	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// requestHeaders are what a page may send (SS-HTTP-8).
func requestHeaders() []string {
	return []string{
		"Authorization", "Content-Type", "Last-Event-ID", wire.HeaderDevice, wire.HeaderPlatform, wire.HeaderDeviceName,
		wire.HeaderPushToken, wire.HeaderShareToken, wire.HeaderRequestID,
	}
}

// answerHeaders are what a page may read.
func answerHeaders() []string { return []string{wire.HeaderTrace, "Retry-After"} }

// retryAfter is the detail of a refusal for its rate.
type retryAfter struct {
	Seconds int `json:"retry_after_seconds"`
}

// take spends one token of a key, or refuses and says when the next one is there (SS-HTTP-8).
func (a *API) take(key string) error {
	wait := a.limiter.Take(key)
	if wait == 0 {
		return nil
	}
	seconds := int(math.Ceil(wait.Seconds()))
	return fault.New(code.RateLimitExceeded, "Too many requests with this key; try again in %d s.", seconds).
		WithDetails(retryAfter{seconds})
}
