package workspace

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Sink takes what a Gateway delivers. Its methods are called one at a time, in the order of the log. A
// method that fails ends Gateway.Run with its error. While a method works nothing is read, and a server
// that has too much to say meanwhile closes the connection (4014), which is then caught up.
//
// The contexts of Ready, Resumed and Resync end with their connection, and failing with that is no fault of the sink: the
// next connection begins from Position. All others end with Run, for what was read before a connection ended is handed
// over after its end: a sink that asks somebody there needs a limit of its own.
type Sink interface { //nolint:interfacebloat // it is what a connection has to say, one method each
	// Position answers where to go on from; it is asked before each connection.
	Position(ctx context.Context) (Position, error)
	// Ready begins a new gateway session. When from is known, what came after it follows as events, and it
	// answers from. Otherwise the connection is live: it begins with the ready's snapshot or
	// Client.Snapshot and answers the position of that; events up to there are dropped.
	Ready(ctx context.Context, ready wire.Ready, from Position) (Position, error)
	// Resumed goes on with the session of before; what was missed follows as events.
	Resumed(ctx context.Context, resumed wire.Resumed) error
	// Event is a durable event, each once, in seq order (ES-9.2).
	Event(ctx context.Context, event Event) error
	// Page says that everything up to a position was handed over: store it durably (ES-7.1).
	Page(ctx context.Context, at Position) error
	// CaughtUp says that the connection is live from now on: the outbox may be sent (ES-13.4).
	CaughtUp(ctx context.Context) error
	// Resync says that catching up is not possible: discard the copy, load a snapshot, and answer its
	// position. Events up to there are dropped afterwards (ES-7.3).
	Resync(ctx context.Context, why wire.Resync) (Position, error)
	// Ephemeral is an event without a place in the log.
	Ephemeral(ctx context.Context, event Event)
	// Failed says that the server refused an op.
	Failed(ctx context.Context, failed wire.OpFailed)
	// Unknown is an op this version does not know.
	Unknown(ctx context.Context, op string, d json.RawMessage)
	// Down says that the connection ended, and why.
	Down(why error)
}

// GatewayOptions are what a Gateway may be told. The zero value is fine.
type GatewayOptions struct {
	// Info names the program.
	Info wire.ClientInfo
	// Consumer names an agent's consumer (ES-15.1).
	Consumer string
	// Foreground says whether somebody looks at the app: after a normal close only such an app connects
	// again (ES-6.4). nil says no.
	Foreground func() bool
	// Report is told what is wrong with the server or the connection and was got over: closes that ask
	// for a report, violations of order, refused requests. It must be quick. nil drops it.
	Report func(error)
	// MaxFrameBytes bounds a frame; default 4 MiB, above the server's own limit.
	MaxFrameBytes int64
	// DialTimeout bounds the way from dialling to ready; default 30 s.
	DialTimeout time.Duration
}

const (
	defaultMaxFrame    = 4 << 20
	defaultDialTimeout = 30 * time.Second
)

// Closed is a close of the gateway that ends Run: this client does not connect again by itself (ES-6.4).
type Closed struct {
	Code   code.Close
	Reason string
}

// Error answers code and reason.
func (c *Closed) Error() string {
	if c.Reason == "" {
		return fmt.Sprintf("gateway closed with %d", c.Code)
	}
	return fmt.Sprintf("gateway closed with %d: %s", c.Code, c.Reason)
}

// Phase is what a Gateway does at the moment.
type Phase int

// The phases of a Gateway.
const (
	Stopped    Phase = iota // Run does not run
	Waiting                 // between two attempts
	Connecting              // from dialling to ready or resumed
	CatchingUp              // events of the past arrive
	Live                    // events arrive as they happen
	Approval                // the device waits to be let in
)

// String names the phase.
func (p Phase) String() string {
	return [...]string{"stopped", "waiting", "connecting", "catching up", "live", "waiting for approval"}[p]
}

// Violation is something the server did that the protocol forbids. It is reported, and the client goes on.
type Violation struct {
	Rule string // the rule of the protocol, such as "ES-10"
	What string
}

// Error answers rule and what happened.
func (v *Violation) Error() string { return v.Rule + " violated: " + v.What }
