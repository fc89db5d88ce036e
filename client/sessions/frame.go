package sessions

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

// NewID answers a random UUID (version 7, RFC 9562), fit for a control id, a client_event_id or a device id.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// Frame is one thing a Viewer tells: an EventFrame, ControlFrame, LeaseFrame, PresenceFrame, ResetFrame or
// ConnectionFrame. More may come; ignore what you do not know (SS-CON-1).
type Frame interface{ frame() }

// EventFrame is the next event of the log: seq is the one before it plus one.
type EventFrame struct {
	wire.Event
	// Sealed is true when the payload came sealed. With ViewOptions.Identity it is opened in place,
	// unless OpenErr says why it could not be; then the payload is still the sealed one.
	Sealed  bool
	OpenErr error
}

// ControlFrame is a control as it arrives or was applied. An applied one may carry no more than ID, Kind,
// Seq and Applied.
type ControlFrame struct{ wire.Control }

// LeaseFrame says who executes.
type LeaseFrame struct {
	HolderDeviceID *string    `json:"holder_device_id"` // nil: no executor
	ExpiresAt      *wire.Time `json:"expires_at"`
}

// PresenceFrame says that a device came (Online true), changed or left (Online false).
type PresenceFrame struct{ wire.Presence }

// ResetFrame says that the log no longer has what was seen, for example after a restored back-up: drop the
// copy. The events come again from seq 1.
type ResetFrame struct {
	LastSeq int64 `json:"last_seq"` // of the log now
}

// Connection is the state of a Viewer's connection.
type Connection string

// The states.
const (
	Connected Connection = "connected" // the stream is open
	Lost      Connection = "lost"      // it ended and will be tried again after RetryIn
)

// ConnectionFrame says that the connection changed. It is made by the Viewer, not sent by the server.
type ConnectionFrame struct {
	State   Connection
	RetryIn time.Duration // with Lost
	Err     error         // with Lost: why
}

func (EventFrame) frame()      {}
func (ControlFrame) frame()    {}
func (LeaseFrame) frame()      {}
func (PresenceFrame) frame()   {}
func (ResetFrame) frame()      {}
func (ConnectionFrame) frame() {}

// ControlOf answers the control that an event of kind "control" echoes, as it was when it arrived, and
// whether it is one (SS-CTL-2).
func ControlOf(event wire.Event) (wire.Control, bool) {
	if event.Kind != wire.KindControl {
		return wire.Control{}, false
	}
	var payload struct {
		Control wire.Control `json:"control"`
		Applied bool         `json:"applied"`
	}
	if json.Unmarshal(event.Payload, &payload) != nil || payload.Control.ID == "" {
		return wire.Control{}, false
	}
	payload.Control.Applied = payload.Applied
	return payload.Control, true
}
