// Package outbound wakes devices by push: it sends what a transaction wrote down, after it.
//
// Contract. A wake is enqueued in the transaction of what it tells of and leaves the outbox only once it
// was pushed, cannot be pushed, or is pointless (SS-DSP-3). A dispatch wakes one device: the requester
// has the first attempt for claimTerm; a worker makes the later ones, and the first when the requester
// went down in between. News wakes the devices of the people of a session: a worker makes every attempt,
// keeps a distance between those of one session to one device, and asks anew whether the person still
// may and wants to be told right before each. A wake is sent by one process at a time, and at least once: a
// process that goes down after a push and before it noted the push leads to a second one. Push is
// fail-open: its failure is an answer, never an error of the request. What became of each wake is kept,
// the newest of each session. Neither tokens nor credentials reach a log or an error.
//
// Order. Wakes of one device may overtake each other; each only says that something waits. Of the news
// that wait for one device in one session only one is sent: an ask, else the newest.
//
// Blocking and concurrency. All types are safe for concurrent use. Push and SendNow take at most
// attemptTimeout, besides the database. The worker runs at most batchSize pushes at a time. Whatever
// changes the wakes of a session holds its lock.
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

// Wake is what a device is told. A dispatch has a ControlID and a Mode; news have a Seq.
type Wake struct {
	Type      wire.PushType
	SessionID string
	DeviceID  string
	UserID    string // whose device it is
	ControlID string
	Mode      wire.Mode
	Seq       int64
}

// data is what the device receives: for a dispatch the protocol's (SS-DSP-3), for news ours.
func (w Wake) data() map[string]string {
	data := map[string]string{"type": string(w.Type), "session_id": w.SessionID}
	if w.news() {
		data["seq"] = strconv.FormatInt(w.Seq, 10)
		return data
	}
	data["control_id"] = w.ControlID
	if w.Mode == wire.ModeOpen {
		data["mode"] = string(wire.ModeOpen)
	}
	return data
}

// news reports whether the wake is for people rather than for the device itself.
func (w Wake) news() bool { return w.Type != wire.PushDispatch }

func failed(reason wire.PushReason) Result { return Result{Reason: reason} }

const statusPrefix = "http_"

func httpStatus(status int) wire.PushReason {
	return wire.PushReason(statusPrefix + strconv.Itoa(status))
}
