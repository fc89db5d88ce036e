package outbound

import (
	"strconv"
	"strings"
	"time"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

const (
	// claimTerm is how long a wake belongs to who claimed it. An attempt ends well within it.
	claimTerm = 10 * time.Second
	// attemptTimeout is the longest one attempt takes (SS-DSP-3).
	attemptTimeout = 5 * time.Second

	// maxAttempts and maxAge end a wake that cannot be pushed: whoever starts the device later finds
	// the control in its inbox anyway.
	maxAttempts = 8
	maxAge      = time.Hour

	firstRetry = 5 * time.Second
	lastRetry  = 10 * time.Minute
)

// step is what follows an attempt.
type step struct {
	forget     bool          // the wake leaves the outbox
	clearToken bool          // the push service does not know the token any more
	retryAfter time.Duration // unless forgotten
}

// after decides what follows the attempts-th attempt on a wake of age, when it ended with result.
func after(attempts int64, age time.Duration, result Result) step {
	switch {
	case result.Reason == wire.PushUnregistered:
		return step{forget: true, clearToken: true}
	case result.Pushed, !transient(result.Reason), attempts >= maxAttempts:
		return step{forget: true}
	}
	retry := min(firstRetry<<min(max(attempts-1, 0), maxAttempts), lastRetry)
	if age+retry > maxAge {
		return step{forget: true}
	}
	return step{retryAfter: retry}
}

// transient reports whether another attempt may end better: the network, the credentials, a push
// service that is overloaded or broken.
func transient(reason wire.PushReason) bool {
	if reason == wire.PushNetworkError || reason == wire.PushAuthFailed {
		return true
	}
	text, isStatus := strings.CutPrefix(string(reason), statusPrefix)
	status, err := strconv.Atoi(text)
	return isStatus && err == nil && (status == 429 || status >= 500)
}
