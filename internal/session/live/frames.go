package live

import (
	"encoding/json"
	"strconv"

	"github.com/cairnsync/cairn/internal/conn"
	"github.com/cairnsync/cairn/internal/session"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// latestLease is the key under which lease frames overtake each other in a queue (SS-STR-7).
const latestLease = "lease"

func eventFrame(event *session.Stored) conn.Frame {
	object := session.AppendEvent(make([]byte, 0, len(event.Payload)+256), event)
	return conn.Frame{Name: wire.FrameEvent, ID: event.Seq, Object: object}
}

func frame(name string, object any) conn.Frame {
	encoded, err := json.Marshal(object)
	if err != nil {
		panic(err) // structs of strings and numbers always encode
	}
	return conn.Frame{Name: name, Object: encoded}
}

func resetBlock(lastSeq int64) *conn.Block {
	return conn.NewBlock(conn.Frame{Name: wire.FrameReset, Object: []byte(`{"last_seq":` + strconv.FormatInt(lastSeq, 10) + `}`)})
}

func leaseBlock(lease session.Lease, live bool) *conn.Block {
	var object struct {
		HolderDeviceID *string    `json:"holder_device_id"`
		ExpiresAt      *wire.Time `json:"expires_at"`
	}
	if live {
		object.HolderDeviceID, object.ExpiresAt = &lease.Holder, &wire.Time{Time: lease.ExpiresAt}
	}
	return conn.NewBlock(frame(wire.FrameLease, object))
}

// appliedFrame is the frame of a control that was applied (SS-STR-3).
func appliedFrame(control *session.Applied) conn.Frame {
	return frame(wire.FrameControl, struct {
		ID      string           `json:"id"`
		Kind    wire.ControlKind `json:"kind"`
		Seq     int64            `json:"seq"`
		Applied bool             `json:"applied"`
	}{control.ID, control.Kind, control.Seq, true})
}

// appliedBlock is nil when there is nothing to tell.
func appliedBlock(controls []session.Applied) *conn.Block {
	if len(controls) == 0 {
		return nil
	}
	frames := make([]conn.Frame, len(controls))
	for i := range controls {
		frames[i] = appliedFrame(&controls[i])
	}
	return conn.NewBlock(frames...)
}

// newControl is the frame of a control that was accepted (SS-STR-3).
type newControl struct {
	ID             string           `json:"id"`
	Kind           wire.ControlKind `json:"kind"`
	Text           *string          `json:"text"`
	TurnID         *string          `json:"turn_id"`
	AskID          *string          `json:"ask_id"`
	FromDeviceID   string           `json:"from_device_id"`
	TargetDeviceID *string          `json:"target_device_id,omitempty"`
	Mode           wire.Mode        `json:"mode,omitempty"`
	Seq            int64            `json:"seq"`
	Applied        bool             `json:"applied"`
}

// acceptedControl is a control frame, and the event it follows.
type acceptedControl struct {
	seq   int64
	block *conn.Block
}

// acceptedControls makes a frame for every echo among events.
func acceptedControls(events []session.Stored) []acceptedControl {
	var accepted []acceptedControl
	for i := range events {
		c, isEcho := session.EchoOf(&events[i])
		if !isEcho {
			continue
		}
		object := newControl{c.ID, c.Kind, c.Text, c.TurnID, c.AskID, c.FromDeviceID, c.TargetDeviceID, c.Mode, c.Seq, false}
		accepted = append(accepted, acceptedControl{c.Seq, conn.NewBlock(frame(wire.FrameControl, object))})
	}
	return accepted
}
