package session

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// MaxControls bounds one answer of Controls (SS-CTL-4).
const MaxControls = 500

// Control accepts an editor's control: its row and its echo event in one transaction (SS-CTL-2). A
// repeated id answers the first seq and changes nothing (SS-CTL-1).
func (s *Service) Control(ctx context.Context, by Caller, ref string, in wire.IncomingControl) (wire.ControlReceipt, error) {
	return write(ctx, s, by, ref, wire.RoleEditor, func(tx storage.Tx, sess *record) (wire.ControlReceipt, error) {
		first, err := controlByID(tx, sess.ID, in.ID)
		if err != nil {
			return wire.ControlReceipt{}, err
		}
		if first != nil {
			return wire.ControlReceipt{Accepted: true, Seq: first.Seq, Duplicate: true}, nil
		}
		control := wire.Control{
			ID: in.ID, Kind: in.Kind, Text: in.Text, TurnID: in.TurnID, AskID: in.AskID,
			FromDeviceID: by.DeviceID, CreatedAt: wire.Time{Time: tx.Now()},
		}
		if err := s.accept(tx, sess, &control); err != nil {
			return wire.ControlReceipt{}, err
		}
		err = s.audit(tx, by, sess, audit.Control, controlDetail(control))
		return wire.ControlReceipt{Accepted: true, Seq: control.Seq}, err
	})
}

// accept writes a new control and its echo, and gives it its seq.
func (s *Service) accept(tx storage.Tx, sess *record, control *wire.Control) error {
	control.Seq = sess.LastSeq + 1
	echoID := "control:" + control.ID
	if err := s.emit(tx, sess, wire.Event{
		Kind: wire.KindControl, TS: tx.Now().UnixMilli(), SenderDeviceID: control.FromDeviceID,
		TurnID: control.TurnID, ClientEventID: &echoID, Payload: mustJSON(echo{Control: *control}),
	}); err != nil {
		return err
	}
	var mode *string
	if control.Mode != "" {
		mode = (*string)(&control.Mode)
	}
	return tx.Exec(`INSERT INTO session_controls
		(session_id, id, kind, text, turn_id, ask_id, from_device_id, target_device_id, mode, seq, applied, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		sess.ID, control.ID, control.Kind, control.Text, control.TurnID, control.AskID, control.FromDeviceID,
		control.TargetDeviceID, mode, control.Seq, false, control.CreatedAt.Time)
}

// echo is the payload of a control's event.
type echo struct {
	Control wire.Control `json:"control"`
	Applied bool         `json:"applied"`
}

// EchoOf answers the control that a stored event is the echo of, false for every other event.
func EchoOf(event *Stored) (wire.Control, bool) {
	if !event.ByServer || event.Kind != wire.KindControl {
		return wire.Control{}, false
	}
	var payload echo
	err := json.Unmarshal(event.Payload, &payload)
	return payload.Control, err == nil
}

// controlDetail is what the audit keeps of a control; its text stays in the log.
func controlDetail(control wire.Control) any {
	return struct {
		ControlID      string           `json:"control_id"`
		Kind           wire.ControlKind `json:"kind"`
		Seq            int64            `json:"seq"`
		TargetDeviceID *string          `json:"target_device_id,omitempty"`
		Mode           wire.Mode        `json:"mode,omitempty"`
	}{control.ID, control.Kind, control.Seq, control.TargetDeviceID, control.Mode}
}

const controlColumns = `c.id, c.kind, c.text, c.turn_id, c.ask_id, c.from_device_id, c.target_device_id, c.mode, c.seq,
	c.applied, c.created_at`

func scanControl(row storage.Row, extra ...any) (wire.Control, error) {
	var control wire.Control
	var kind string
	var mode *string
	err := row.Scan(append([]any{
		&control.ID, &kind, &control.Text, &control.TurnID, &control.AskID, &control.FromDeviceID,
		&control.TargetDeviceID, &mode, &control.Seq, &control.Applied, &control.CreatedAt.Time,
	}, extra...)...)
	control.Kind = wire.ControlKind(kind)
	if mode != nil {
		control.Mode = wire.Mode(*mode)
	}
	return control, err
}

// queryControls answers controls, fewer when their texts are large, at least one if there is any.
func queryControls(tx storage.Tx, query string, args ...any) ([]wire.Control, error) {
	controls, size := []wire.Control{}, 0
	err := tx.Query(query, args, func(row storage.Row) error {
		if size > answerBytes {
			return errEnough
		}
		control, err := scanControl(row)
		controls = append(controls, control)
		size += textSize(control)
		return err
	})
	return controls, enough(err)
}

func textSize(control wire.Control) int {
	if control.Text == nil {
		return 0
	}
	return len(*control.Text)
}

// storedControl is a control with who applied it.
type storedControl struct {
	wire.Control
	appliedBy *string
}

func controlByID(tx storage.Tx, sessionID, id string) (*storedControl, error) {
	var found *storedControl
	err := tx.Query(`SELECT `+controlColumns+`, c.applied_by FROM session_controls c WHERE c.session_id = $1 AND c.id = $2`,
		[]any{sessionID, id}, func(row storage.Row) error {
			found = &storedControl{}
			var err error
			found.Control, err = scanControl(row, &found.appliedBy)
			return err
		})
	return found, err
}

// ControlFilter narrows Controls (SS-CTL-4).
type ControlFilter struct {
	Applied *bool  // nil: both
	Target  string // "": any
	After   int64
}

// Controls lists controls, oldest first, at most MaxControls; it never depends on the lease.
func (s *Service) Controls(ctx context.Context, by Caller, ref string, filter ControlFilter) ([]wire.Control, error) {
	return read(ctx, s, by, ref, wire.RoleViewer, func(tx storage.Tx, sess *record) ([]wire.Control, error) {
		query := `SELECT ` + controlColumns + ` FROM session_controls c WHERE c.session_id = $1 AND c.seq > $2`
		args := []any{sess.ID, filter.After}
		if filter.Applied != nil && *filter.Applied {
			query += ` AND c.applied`
		} else if filter.Applied != nil {
			query += ` AND NOT c.applied`
		}
		if filter.Target != "" {
			query += ` AND c.target_device_id = $3`
			args = append(args, filter.Target)
		}
		return queryControls(tx, query+` ORDER BY c.seq LIMIT `+strconv.Itoa(MaxControls), args...)
	})
}

// Applied marks a control as carried out (SS-CTL-5): by the lease holder, or by the target of an
// open handoff; again is a no-op, also for the device that applied it and then lost the lease.
func (s *Service) Applied(ctx context.Context, by Caller, ref, controlID string) error {
	_, err := write(ctx, s, by, ref, wire.RoleViewer, func(tx storage.Tx, sess *record) (struct{}, error) {
		control, err := controlByID(tx, sess.ID, controlID)
		if err != nil {
			return struct{}{}, err
		}
		if control == nil {
			return struct{}{}, fault.New(code.NotFound, "Control not found.")
		}
		if err := control.mayApply(by.DeviceID, sess.lease, tx.Now()); err != nil || control.Applied {
			return struct{}{}, err
		}
		return struct{}{}, s.markApplied(tx, sess, control, by.DeviceID)
	})
	return err
}

// mayApply refuses a device that may not mark the control at now.
func (c *storedControl) mayApply(device string, lease Lease, now time.Time) error {
	if c.appliedBy != nil && *c.appliedBy == device {
		return nil
	}
	if c.Mode == wire.ModeOpen && c.TargetDeviceID != nil && *c.TargetDeviceID == device {
		return nil
	}
	return lease.Require(device, now)
}

func (s *Service) markApplied(tx storage.Tx, sess *record, control *storedControl, device string) error {
	sess.controlRevision++
	if err := tx.Exec(`UPDATE session_controls SET applied = $1, applied_by = $2, applied_revision = $3 WHERE session_id = $4 AND id = $5`,
		true, device, sess.controlRevision, sess.ID, control.ID); err != nil {
		return err
	}
	if control.TargetDeviceID != nil {
		s.wakeInbox(tx, *control.TargetDeviceID)
	}
	return tx.Exec(`UPDATE sessions SET control_revision = $1 WHERE id = $2`, sess.controlRevision, sess.ID)
}

func (s *Service) wakeInbox(tx storage.Tx, device string) {
	tx.AfterCommit(func() { s.bus.Publish(signal.Wake{Topic: signal.Inbox, ID: device}) })
}
