package session

import (
	"context"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/outbound"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Page limits of the inbox (SS-DSP-4).
const (
	DefaultInbox = 200
	MaxInbox     = 500
)

// Dispatched is the outcome of Dispatch: the answer so far, and the wake-up to be sent, "" for none.
type Dispatched struct {
	Receipt wire.DispatchReceipt
	WakeID  string
}

// Dispatch queues work for one device of the session's owner (SS-DSP-1). It writes the wake-up down
// with the control; sending it is the caller's next step (SS-DSP-3). A repeated control id answers
// the first and wakes nobody.
func (s *Service) Dispatch(ctx context.Context, by Caller, ref string, in wire.Dispatch) (Dispatched, error) {
	return write(ctx, s, by, ref, wire.RoleEditor, func(tx storage.Tx, sess *record) (Dispatched, error) {
		control := s.dispatchControl(by, in, wire.Time{Time: tx.Now()})
		first, err := controlByID(tx, sess.ID, control.ID)
		if err != nil {
			return Dispatched{}, err
		}
		if first != nil && first.TargetDeviceID == nil {
			return Dispatched{}, fault.BadField("control_id", "is the id of a control that is no dispatch")
		}
		if first != nil {
			return Dispatched{Receipt: dispatchReceipt(first.Control, true)}, nil
		}
		owned, err := ownersDevice(tx, sess, in.DeviceID)
		if err != nil {
			return Dispatched{}, err
		}
		if !owned {
			return Dispatched{}, fault.New(code.NotFound, "Target device not found for this session.")
		}
		return s.queue(tx, by, sess, control)
	}, lockDevice(in.DeviceID))
}

// dispatchControl is the control a dispatch stands for; an open handoff has no text and no turn
// (SS-DSP-2).
func (s *Service) dispatchControl(by Caller, in wire.Dispatch, now wire.Time) wire.Control {
	control := wire.Control{
		Kind: wire.ControlSend, Text: in.Text, TurnID: in.TurnID, FromDeviceID: by.DeviceID,
		TargetDeviceID: &in.DeviceID, CreatedAt: now,
	}
	if in.Mode == wire.ModeOpen {
		control.Text, control.TurnID, control.Mode = nil, nil, wire.ModeOpen
	}
	if in.ControlID != nil {
		control.ID = *in.ControlID
	} else {
		control.ID = "dispatch:" + s.env.RandomID()
	}
	return control
}

// queue writes the control, its wake-up and its audit row.
func (s *Service) queue(tx storage.Tx, by Caller, sess *record, control wire.Control) (Dispatched, error) {
	if err := s.accept(tx, sess, &control); err != nil {
		return Dispatched{}, err
	}
	receipt := dispatchReceipt(control, false)
	wakeID, err := outbound.Enqueue(tx, s.env, outbound.Wake{
		SessionID: sess.ID, ControlID: control.ID, DeviceID: receipt.TargetDeviceID, UserID: sess.OwnerUserID, Mode: receipt.Mode,
	})
	if err != nil {
		return Dispatched{}, err
	}
	s.wakeInbox(tx, receipt.TargetDeviceID)
	tx.AfterCommit(func() { s.bus.Publish(signal.Wake{Topic: signal.Push}) })
	return Dispatched{Receipt: receipt, WakeID: wakeID}, s.audit(tx, by, sess, audit.Dispatch, controlDetail(control))
}

// dispatchReceipt always shows a mode.
func dispatchReceipt(control wire.Control, duplicate bool) wire.DispatchReceipt {
	receipt := wire.DispatchReceipt{
		ControlID: control.ID, Seq: control.Seq, TargetDeviceID: *control.TargetDeviceID, Mode: wire.ModeSend,
		Queued: true, Duplicate: duplicate,
	}
	if control.Mode != "" {
		receipt.Mode = control.Mode
	}
	return receipt
}

// Inbox lists the controls waiting for the calling device over the caller's own unarchived sessions,
// at most limit controls and fewer when their texts are large, oldest first (SS-DSP-4).
func (s *Service) Inbox(ctx context.Context, by Caller, limit int) (wire.Inbox, error) {
	return storage.Read(ctx, s.db, func(tx storage.Tx) (wire.Inbox, error) { return inbox(tx, by, limit) })
}

func inbox(tx storage.Tx, by Caller, limit int) (wire.Inbox, error) {
	inbox, size := wire.Inbox{DeviceID: by.DeviceID, Sessions: []wire.InboxSession{}}, 0
	place := map[string]int{}
	err := tx.Query(`SELECT `+controlColumns+`, s.id, s.session_key, s.title
		FROM session_controls c JOIN sessions s ON s.id = c.session_id
		WHERE c.target_device_id = $1 AND NOT c.applied AND s.owner_user_id = $2 AND NOT s.archived
		ORDER BY c.created_at, c.session_id, c.seq LIMIT $3`, []any{by.DeviceID, by.UserID, limit}, func(row storage.Row) error {
		if size > answerBytes {
			return errEnough
		}
		var entry wire.InboxSession
		control, err := scanControl(row, &entry.ID, &entry.SessionKey, &entry.Title)
		if err != nil {
			return err
		}
		at, seen := place[entry.ID]
		if !seen {
			at = len(inbox.Sessions)
			place[entry.ID] = at
			inbox.Sessions = append(inbox.Sessions, entry)
		}
		inbox.Sessions[at].Controls = append(inbox.Sessions[at].Controls, control)
		size += textSize(control)
		return nil
	})
	return inbox, enough(err)
}
