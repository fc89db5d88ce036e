package identity

import (
	"context"
	"fmt"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/idempotency"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wsp "github.com/cairnsync/cairn/wire/workspace"
)

// workspaceDevice is what a device that has signed in to the Workspace looks like there. Nothing of a person
// who waits for approval is active.
const workspaceDevice = `
	SELECT d.id, d.user_id, d.name, d.platform, CASE WHEN d.state = 'active' AND p.status = 'pending' THEN 'pending' ELSE d.state END,
	       COALESCE(d.dpop_jkt, ''), d.created_at, d.last_seen_at
	  FROM devices d JOIN principals p ON p.id = d.user_id WHERE d.state IS NOT NULL AND `

func scanWorkspaceDevice(row storage.Row) (wsp.Device, error) {
	var device wsp.Device
	err := row.Scan(&device.ID, &device.UserID, &device.Name, &device.Platform, &device.State, &device.DPoPJKT, &device.CreatedAt, &device.LastSeenAt)
	return device, err
}

// ReadDevice reads a device that has signed in to the Workspace, revoked ones too.
func ReadDevice(tx storage.Tx, id string) (device wsp.Device, found bool, err error) {
	err = tx.Query(workspaceDevice+`d.id = $1`, []any{id}, func(row storage.Row) (err error) {
		found = true
		device, err = scanWorkspaceDevice(row)
		return err
	})
	if err != nil {
		return wsp.Device{}, false, fmt.Errorf("read device: %w", err)
	}
	return device, found, nil
}

// ownWorkspaceDevice reads a device of a person's, or answers not_found. The operator's are everybody's.
func ownWorkspaceDevice(tx storage.Tx, by authz.Caller, id string) (wsp.Device, error) {
	device, found, err := ReadDevice(tx, id)
	if err != nil {
		return wsp.Device{}, err
	}
	if !found || by.Kind != wsp.KindSystem && device.UserID != by.Principal {
		return wsp.Device{}, fault.Missing("Device")
	}
	return device, nil
}

// WorkspaceDevices answers the devices of a person that have signed in to the Workspace and are not revoked,
// seen last first, at most 1 000.
func (s *Service) WorkspaceDevices(ctx context.Context, userID string) ([]wsp.Device, error) {
	return storage.Read(ctx, s.db, func(tx storage.Tx) ([]wsp.Device, error) {
		devices := []wsp.Device{}
		err := tx.Query(workspaceDevice+`d.user_id = $1 AND d.state <> 'revoked' ORDER BY d.last_seen_at DESC, d.id LIMIT $2`,
			[]any{userID, maxListed}, func(row storage.Row) error {
				device, err := scanWorkspaceDevice(row)
				devices = append(devices, device)
				return err
			})
		if err != nil {
			return nil, fmt.Errorf("list devices: %w", err)
		}
		return devices, nil
	})
}

// WorkspaceDevice answers a device of the caller's, revoked ones too; not_found when it is not one.
func (s *Service) WorkspaceDevice(ctx context.Context, by authz.Caller, id string) (wsp.Device, error) {
	canonical, ok := env.ParseID(id)
	if !ok {
		return wsp.Device{}, fault.Missing("Device")
	}
	return storage.Read(ctx, s.db, func(tx storage.Tx) (wsp.Device, error) { return ownWorkspaceDevice(tx, by, canonical) })
}

// ApproveDevice makes a pending device of the caller's own active (WS-ID-3); the operator approves
// everybody's. Again is no error; a revoked device is conflict.
func (s *Service) ApproveDevice(ctx context.Context, by authz.Caller, id string) (wsp.Device, error) {
	canonical, ok := env.ParseID(id)
	if !ok {
		return wsp.Device{}, fault.Missing("Device")
	}
	keys := append(deviceKeys(canonical), storage.ChangePermissions)
	return storage.Write(ctx, s.db, keys, func(tx storage.Tx) (wsp.Device, error) {
		device, err := ownWorkspaceDevice(tx, by, canonical)
		if err != nil {
			return wsp.Device{}, err
		}
		if err := May(tx, by, action.DeviceManage); err != nil {
			return wsp.Device{}, err
		}
		return idempotency.Once(tx, by.Key, func() (wsp.Device, error) { return s.approve(tx, by, device) })
	})
}

func (s *Service) approve(tx storage.Tx, by authz.Caller, device wsp.Device) (wsp.Device, error) {
	if device.State == wsp.DeviceRevoked {
		return wsp.Device{}, fault.New(code.Conflict, "This device was revoked.")
	}
	err := s.permissions.ChangeIn(tx, authz.Plan{
		Actor: actorOf(by), Correlation: by.Correlation,
		Affected: func(storage.Tx) ([]string, error) { return []string{device.UserID}, nil },
		Change: func(tx storage.Tx) error {
			rows, err := tx.Changed(`UPDATE devices SET state = 'active' WHERE id = $1 AND state = 'pending'`, device.ID)
			if err != nil {
				return fmt.Errorf("approve device: %w", err)
			}
			if rows == 0 {
				return nil
			}
			s.wakeAfter(tx)
			if err := s.TellDevice(tx, by, device.ID); err != nil {
				return err
			}
			return audit.Write(tx, s.env, audit.Entry{
				UserID: by.AuditID(), DeviceID: by.Device, Action: actionDeviceApprove, TargetKind: "device", TargetID: device.ID,
			})
		},
	})
	if err != nil {
		return wsp.Device{}, err
	}
	device, _, err = ReadDevice(tx, device.ID)
	return device, err
}

// TellDevice writes device.updated to the person whose device it is.
func (s *Service) TellDevice(tx storage.Tx, by authz.Caller, id string) error {
	device, found, err := ReadDevice(tx, id)
	if err != nil || !found {
		return err
	}
	return s.log.Emit(tx, eventlog.Event{
		Type: eventlog.DeviceUpdated, Actor: actorOf(by), ResourceID: device.ID, Audience: device.UserID,
		Payload: wsp.DeviceEvent{Device: device}, CorrelationID: by.Correlation, TraceContext: by.Trace,
	})
}

// RevokeDevice ends a device of the caller's own for good, on both surfaces, with its sign-ins and everything
// DeleteDevice ends; the operator revokes everybody's. Again is no error.
func (s *Service) RevokeDevice(ctx context.Context, by authz.Caller, id string) error {
	canonical, ok := env.ParseID(id)
	if !ok {
		return fault.Missing("Device")
	}
	device, err := s.WorkspaceDevice(ctx, by, canonical)
	if err != nil {
		return err
	}
	_, err = s.deleteOf(ctx, deletion{caller: by, userID: device.UserID, deviceID: canonical, byDevice: by.Device, workspace: true})
	return err
}
