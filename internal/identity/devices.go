package identity

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
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
		ID: r.id, Name: r.name, Platform: wire.Platform(r.platform), HasPushToken: r.pushToken != nil,
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
// streams end (SS-DVC-1, SS-ROLE-2). byDevice is the device that asked, or empty. It answers the ids
// of the sessions it touched, in order; not_found when the device is not by's.
func (s *Service) DeleteDevice(ctx context.Context, by Principal, byDevice, deviceID string) ([]string, error) {
	id, ok := env.ParseID(deviceID)
	if !ok {
		return nil, missing("Device")
	}
	// The sessions to lock are known only by reading. A session that was opened between the reading
	// and the locking means reading again.
	for range deleteAttempts {
		expected, err := storage.Read(ctx, s.db, func(tx storage.Tx) (ties, error) { return tiesOf(tx, by, id) })
		if err != nil {
			return nil, err
		}
		keys := append(deviceKeys(id), expected.keys()...)
		deleted, err := storage.Write(ctx, s.db, keys, func(tx storage.Tx) (ties, error) {
			return s.deleteDevice(tx, by, byDevice, id, expected)
		})
		if err != nil {
			return nil, err
		}
		if deleted.complete {
			return deleted.all(), nil
		}
	}
	return nil, fault.New(code.Unavailable, "The device keeps opening sessions. Try again.")
}

// deleteDevice deletes the device, or changes nothing when it has ties that were not expected.
func (s *Service) deleteDevice(tx storage.Tx, by Principal, byDevice, id string, expected ties) (ties, error) {
	found, err := tiesOf(tx, by, id)
	if err != nil || !expected.cover(found) {
		return ties{}, err
	}
	steps := []struct {
		query string
		args  []any
	}{
		{`UPDATE devices SET deleted_at = $2, push_token = NULL WHERE id = $1`, []any{id, tx.Now()}},
		{`UPDATE sessions SET lease_device_id = NULL, lease_expires_at = NULL, lease_revision = lease_revision + 1
		   WHERE id = ANY($1) AND lease_device_id = $2`, []any{found.leased, id}},
		{`UPDATE sessions SET access_version = access_version + 1 WHERE id = ANY($1)`, []any{found.open}},
		{`DELETE FROM session_presence WHERE device_id = $1`, []any{id}},
	}
	for _, step := range steps {
		if err := tx.Exec(step.query, step.args...); err != nil {
			return ties{}, fmt.Errorf("delete device: %w", err)
		}
	}
	err = audit.Write(tx, s.env, audit.Entry{
		UserID: by.UserID, DeviceID: byDevice, Action: audit.DeviceDelete,
		Detail: map[string]string{"device_id": id},
	})
	if err != nil {
		return ties{}, err
	}
	s.wakeAfter(tx, found.all()...)
	found.complete = true
	return found, nil
}

// ties are the sessions a device is bound to.
type ties struct {
	leased   []string // it holds their lease
	open     []string // it has them open
	complete bool     // they were released
}

// tiesOf reads the ties of a device of by's, or answers not_found.
func tiesOf(tx storage.Tx, by Principal, id string) (ties, error) {
	if _, err := ownDevice(tx, by.UserID, id); err != nil {
		return ties{}, err
	}
	leased, err := ids(tx, `SELECT id FROM sessions WHERE lease_device_id = $1 AND lease_expires_at > $2 ORDER BY id`, id, tx.Now())
	if err != nil {
		return ties{}, err
	}
	open, err := ids(tx, `SELECT DISTINCT session_id FROM session_presence WHERE device_id = $1 ORDER BY session_id`, id)
	return ties{leased: leased, open: open}, err
}

func (t ties) all() []string {
	all := slices.Concat(t.leased, t.open)
	slices.Sort(all)
	return slices.Compact(all)
}

func (t ties) keys() []storage.Key { return sessionKeys(t.all()) }

// cover reports whether every session of found is one of t.
func (t ties) cover(found ties) bool {
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
