package identity

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
	wsp "github.com/cairnsync/cairn/wire/workspace"
)

const (
	// onlineWithin is how recently a device was seen that counts as online (SS-DVC-1).
	onlineWithin = 2 * time.Minute
	// maxListed is how many devices one list answers.
	maxListed = 1000
	// deleteAttempts is how often a deletion looks again for the sessions that are open on a device.
	deleteAttempts = 5
)

// DevicePatch is what changes about a device (SS-DVC-1).
type DevicePatch struct {
	SetPushToken bool
	PushToken    *string // with SetPushToken; nil clears it
	Capabilities *[]string
}

// ListDevices answers the devices of a user, seen last first, at most 1 000. Online is set: seen
// within two minutes, or a stream is open on a node that is alive.
func (s *Service) ListDevices(ctx context.Context, userID string) ([]wire.Device, error) {
	return storage.Read(ctx, s.db, func(tx storage.Tx) ([]wire.Device, error) {
		devices := []wire.Device{}
		err := tx.Query(
			`SELECT `+deviceColumns+`, EXISTS (
			     SELECT 1 FROM session_presence p JOIN nodes n ON n.id = p.node_id
			      WHERE p.device_id = devices.id AND n.alive_until > $2)
			   FROM devices WHERE user_id = $1 AND deleted_at IS NULL
			  ORDER BY last_seen_at DESC, id LIMIT $3`,
			[]any{userID, tx.Now(), maxListed},
			func(row storage.Row) error {
				device, err := scanListed(row, tx.Now())
				devices = append(devices, device)
				return err
			})
		if err != nil {
			return nil, fmt.Errorf("list devices: %w", err)
		}
		return devices, nil
	})
}

func scanListed(row storage.Row, now time.Time) (wire.Device, error) {
	var read deviceRow
	var streaming bool
	if err := row.Scan(append(read.fields(), &streaming)...); err != nil {
		return wire.Device{}, err
	}
	device, err := read.wire()
	online := streaming || now.Sub(read.lastSeenAt) <= onlineWithin
	device.Online = &online
	return device, err
}

func (r *deviceRow) wire() (wire.Device, error) {
	device := wire.Device{
		ID: r.id, Name: r.name, Platform: platformOf(r.platform), HasPushToken: r.pushToken != nil,
		LastSeenAt: wire.Time{Time: r.lastSeenAt}, CreatedAt: wire.Time{Time: r.createdAt},
	}
	if err := json.Unmarshal([]byte(r.capabilities), &device.Capabilities); err != nil {
		return wire.Device{}, fmt.Errorf("read capabilities of device: %w", err)
	}
	return device, nil
}

// PatchDevice changes a device of the user's; not_found when it is not one.
func (s *Service) PatchDevice(ctx context.Context, userID, deviceID string, patch DevicePatch) (wire.Device, error) {
	id, ok := env.ParseID(deviceID)
	if !ok {
		return wire.Device{}, missing("Device")
	}
	device, err := storage.Write(ctx, s.db, deviceKeys(id), func(tx storage.Tx) (wire.Device, error) {
		row, err := ownDevice(tx, userID, id)
		if err != nil {
			return wire.Device{}, err
		}
		if err := row.patch(tx, patch); err != nil {
			return wire.Device{}, err
		}
		// What the cache knows of the token is over.
		tx.AfterCommit(func() { s.forgetDevice(id) })
		return row.wire()
	})
	return device, err
}

func (r *deviceRow) patch(tx storage.Tx, patch DevicePatch) error {
	if patch.SetPushToken {
		r.pushToken = patch.PushToken
	}
	if patch.Capabilities != nil {
		encoded, err := json.Marshal(append([]string{}, *patch.Capabilities...))
		if err != nil {
			return fmt.Errorf("encode capabilities: %w", err)
		}
		r.capabilities = string(encoded)
	}
	err := tx.Exec(`UPDATE devices SET push_token = $2, capabilities = $3 WHERE id = $1`,
		r.id, r.pushToken, r.capabilities)
	if err != nil {
		return fmt.Errorf("change device: %w", err)
	}
	return nil
}

// ownDevice reads a device that is the user's and not deleted, or answers not_found.
func ownDevice(tx storage.Tx, userID, id string) (deviceRow, error) {
	row, found, err := readDevice(tx, id)
	if err != nil {
		return deviceRow{}, err
	}
	if !found || row.userID != userID || row.deletedAt != nil {
		return deviceRow{}, missing("Device")
	}
	return row, nil
}

// DeleteDevice deletes a device of by's, in one transaction with everything it held: its push token
// and its leases go, and every session it has open counts as one whose access changed, so that its
// streams end (SS-DVC-1, SS-ROLE-2). A device that has signed in to the Workspace is revoked there too, for
// good (WS-ID-3). byDevice is the device that asked, or empty. It answers the ids
// of the sessions it touched, in order; not_found when the device is not by's.
func (s *Service) DeleteDevice(ctx context.Context, by Principal, byDevice, deviceID string) ([]string, error) {
	id, ok := env.ParseID(deviceID)
	if !ok {
		return nil, missing("Device")
	}
	caller := authz.Caller{Principal: by.UserID, Kind: wsp.KindUser, Device: byDevice}
	return s.deleteOf(ctx, deletion{caller: caller, userID: by.UserID, deviceID: id, byDevice: byDevice})
}

// deletion is a device that is to be deleted.
type deletion struct {
	caller           authz.Caller
	userID, deviceID string // whose device
	byDevice         string // on which device somebody asked, or ""
	workspace        bool   // it was asked for on the Workspace surface, which authorises by its own table
}

func (s *Service) deleteOf(ctx context.Context, d deletion) ([]string, error) {
	// The sessions to lock are known only by reading. A session that was opened between the reading
	// and the locking means reading again.
	for range deleteAttempts {
		expected, err := storage.Read(ctx, s.db, d.ties)
		if err != nil {
			return nil, err
		}
		keys := append(append(userKeys(d.userID), deviceKeys(d.deviceID)...), expected.keys()...)
		if expected.signedIn {
			keys = append(keys, storage.ChangePermissions) // the status of such a device is a permission (ES-8.2)
		}
		deleted, err := storage.Write(ctx, s.db, keys, func(tx storage.Tx) (ties, error) { return s.delete(tx, d, expected) })
		if err != nil {
			return nil, err
		}
		if deleted.complete {
			return deleted.all(), nil
		}
	}
	return nil, fault.New(code.Unavailable, "The device keeps opening sessions. Try again.")
}

// delete deletes the device, or changes nothing when it has ties that were not expected.
func (s *Service) delete(tx storage.Tx, d deletion, expected ties) (ties, error) {
	found, err := d.ties(tx)
	if err != nil || !expected.cover(found) {
		return ties{}, err
	}
	if d.workspace {
		if err := May(tx, d.caller, action.DeviceManage); err != nil {
			return ties{}, err
		}
	}
	found.complete = true
	if found.revoked {
		return found, nil
	}
	if !found.signedIn {
		return found, s.release(tx, d, found)
	}
	return found, s.permissions.ChangeIn(tx, authz.Plan{
		Actor: actorOf(d.caller), Correlation: d.caller.Correlation,
		Affected: func(storage.Tx) ([]string, error) { return []string{d.userID}, nil },
		Change: func(tx storage.Tx) error {
			if err := s.release(tx, d, found); err != nil {
				return err
			}
			return s.TellDevice(tx, d.caller, d.deviceID)
		},
	})
}

// release takes everything from a device that it holds.
func (s *Service) release(tx storage.Tx, d deletion, held ties) error {
	steps := []struct {
		query string
		args  []any
	}{
		{`UPDATE devices SET deleted_at = $2, push_token = NULL, state = CASE WHEN state IS NULL THEN NULL ELSE 'revoked' END WHERE id = $1`,
			[]any{d.deviceID, tx.Now()}},
		{`UPDATE sign_ins SET revoked_at = $2, revoked_reason = 'device' WHERE device_id = $1 AND revoked_at IS NULL`, []any{d.deviceID, tx.Now()}},
		{`UPDATE sessions SET lease_device_id = NULL, lease_expires_at = NULL, lease_revision = lease_revision + 1
		   WHERE id = ANY($1) AND lease_device_id = $2`, []any{held.leased, d.deviceID}},
		{`UPDATE sessions SET access_version = access_version + 1 WHERE id = ANY($1)`, []any{held.open}},
		{`DELETE FROM session_presence WHERE device_id = $1`, []any{d.deviceID}},
	}
	for _, step := range steps {
		if err := tx.Exec(step.query, step.args...); err != nil {
			return fmt.Errorf("delete device: %w", err)
		}
	}
	s.wakeAfter(tx, held.all()...)
	return audit.Write(tx, s.env, audit.Entry{
		UserID: d.caller.AuditID(), DeviceID: d.byDevice, Action: audit.DeviceDelete,
		Detail: map[string]string{"device_id": d.deviceID},
	})
}

// ties are the sessions a device is bound to.
type ties struct {
	leased   []string // it holds their lease
	open     []string // it has them open
	signedIn bool     // it has signed in to the Workspace
	revoked  bool     // it was revoked before
	complete bool     // they were released
}

// ties reads the ties of the device, or answers not_found.
func (d deletion) ties(tx storage.Tx) (ties, error) {
	row, found, err := readDevice(tx, d.deviceID)
	if err != nil {
		return ties{}, err
	}
	revoked := row.revoked() && d.workspace // there, again is no error
	if !found || row.userID != d.userID || row.deletedAt != nil && !revoked {
		return ties{}, missing("Device")
	}
	leased, err := ids(tx, `SELECT id FROM sessions WHERE lease_device_id = $1 AND lease_expires_at > $2 ORDER BY id`, d.deviceID, tx.Now())
	if err != nil {
		return ties{}, err
	}
	open, err := ids(tx, `SELECT DISTINCT session_id FROM session_presence WHERE device_id = $1 ORDER BY session_id`, d.deviceID)
	return ties{leased: leased, open: open, signedIn: row.state != nil, revoked: revoked}, err
}

func (t ties) all() []string {
	all := slices.Concat(t.leased, t.open)
	slices.Sort(all)
	return slices.Compact(all)
}

func (t ties) keys() []storage.Key { return sessionKeys(t.all()) }

// cover reports whether every session of found is one of t, and whether t knew that the device has signed in.
func (t ties) cover(found ties) bool {
	if found.signedIn && !t.signedIn {
		return false
	}
	expected := t.all()
	return !slices.ContainsFunc(found.all(), func(id string) bool {
		_, known := slices.BinarySearch(expected, id)
		return !known
	})
}

func sessionKeys(sessions []string) []storage.Key {
	keys := make([]storage.Key, len(sessions))
	for i, id := range sessions {
		keys[i] = storage.Key{Lock: storage.LockSessions, ID: id}
	}
	return keys
}

// ids answers the one column of a query.
func ids(tx storage.Tx, query string, args ...any) ([]string, error) {
	var all []string
	err := tx.Query(query, args, func(row storage.Row) error {
		var id string
		err := row.Scan(&id)
		all = append(all, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read ids: %w", err)
	}
	return all, nil
}
