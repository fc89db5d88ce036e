// Package outbound wakes devices by push: it sends what a transaction wrote down, after it.
//
// Contract. A wake is enqueued in the transaction of its control and leaves the outbox only once it
// was pushed, cannot be pushed, or is pointless (SS-DSP-3). The requester has the first attempt for
// claimTerm; a worker makes the later ones, and the first when the requester went down in between. A
// wake is sent by one process at a time, and at least once: a process that goes down after a push
// and before it noted the push leads to a second one. Push is fail-open: its failure is an answer,
// never an error of the request. Neither tokens nor credentials reach a log or an error.
//
// Order. Wakes of one device may overtake each other; each only says that something waits.
//
// Blocking and concurrency. All types are safe for concurrent use. Push and SendNow take at most
// attemptTimeout, besides the database. The worker runs at most batchSize pushes at a time.
package outbound

import (
	"context"
	"strconv"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Result is what became of one attempt. Reason is empty when Pushed is true.
type Result struct {
	Pushed bool
	Reason wire.PushReason
}

// Pusher sends one message to one device, in one attempt that is bounded by itself.
type Pusher interface {
	Push(ctx context.Context, token string, data map[string]string) Result
}

// Wake is a control that waits for a device.
type Wake struct {
	SessionID string
	ControlID string
	DeviceID  string
	Mode      wire.Mode
}

// data is what the device receives (SS-DSP-3).
func (w Wake) data() map[string]string {
	data := map[string]string{"type": "dispatch", "session_id": w.SessionID, "control_id": w.ControlID}
	if w.Mode == wire.ModeOpen {
		data["mode"] = string(wire.ModeOpen)
	}
	return data
}

func failed(reason wire.PushReason) Result { return Result{Reason: reason} }

const statusPrefix = "http_"

func httpStatus(status int) wire.PushReason {
	return wire.PushReason(statusPrefix + strconv.Itoa(status))
}
