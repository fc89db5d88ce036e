package identity

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
	wsp "github.com/cairnsync/cairn/wire/workspace"
)

const (
	// touchInterval is how often last_seen of a device is written at most (SS-DEV-0), and how long it
	// is trusted without asking that the device is still registered.
	touchInterval = 10 * time.Second
	// touchTimeout bounds a write that others may be waiting for too.
	touchTimeout = 10 * time.Second
	// maxCachedDevices is past what the device seen longest ago is forgotten; it costs a read.
	maxCachedDevices = 16_384
)

// Device is what a request says about the device it comes from (SS-DEV-0): a canonical UUID, and
// header values that were checked already. PushToken is empty when the request carried none.
type Device struct {
	ID        string
	Platform  string
	Name      string
	PushToken string
}

// deviceSeen is what this process knows of a device without asking.
type deviceSeen struct {
	userID     string
	token      [sha256.Size]byte // of the push token last presented or stored
	written    time.Time         // when last_seen was written, by the process's clock
	generation uint64
}

// Touch registers the device under p on first sight, and otherwise notes that it was seen and the
// push token it presents (SS-DEV-0). Platform and name count at a registration only; a deleted
// device is registered anew by its user, unless it had signed in to the Workspace: then it was revoked. It
// answers forbidden when it was, and when the id is another account's, also after that account deleted it
// (SS-DEV-1, WS-ID-3).
func (s *Service) Touch(ctx context.Context, p Principal, d Device) error {
	token := sha256.Sum256([]byte(d.PushToken))
	seen, fresh := s.cachedDevice(d.ID)
	if fresh && seen.userID != p.UserID {
		return foreignDevice()
	}
	if fresh && (d.PushToken == "" || seen.token == token) {
		return nil
	}
	generation := s.generation.Load()
	flight := fmt.Sprintf("device %d %s %s %x", generation, d.ID, p.UserID, token)
	_, err, _ := s.flights.Do(flight, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), touchTimeout)
		defer cancel()
		now := s.env.Now()
		row, err := storage.Write(ctx, s.db, deviceKeys(d.ID), func(tx storage.Tx) (deviceRow, error) {
			return touch(tx, p, d)
		})
		if err != nil {
			return nil, err
		}
		s.rememberDevice(d.ID, deviceSeen{
			userID: p.UserID, token: sha256.Sum256([]byte(row.token())), written: now, generation: generation,
		})
		return nil, nil
	})
	return err //nolint:wrapcheck // it is the function's own
}

func (s *Service) cachedDevice(id string) (deviceSeen, bool) {
	now := s.env.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, found := s.devices.Get(id)
	age := now.Sub(seen.written)
	return seen, found && s.caching() && seen.generation == s.generation.Load() && age >= 0 && age < touchInterval
}

func (s *Service) rememberDevice(id string, seen deviceSeen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.devices.Put(id, seen)
}

func (s *Service) forgetDevice(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.devices.Drop(id)
}

// touch brings the row of d up to date and answers it. It writes only what differs.
func touch(tx storage.Tx, p Principal, d Device) (deviceRow, error) {
	row, found, err := readDevice(tx, d.ID)
	if err != nil {
		return deviceRow{}, err
	}
	if !found {
		fresh := newDeviceRow(tx, p, d)
		inserted, err := fresh.insert(tx)
		if err != nil || inserted {
			return fresh, err
		}
		// Another transaction registered the id since; it is committed, so it can be read now.
		if row, found, err = readDevice(tx, d.ID); err != nil {
			return deviceRow{}, err
		}
		if !found {
			return deviceRow{}, errors.New("read device: its id is taken, but by no row")
		}
	}
	if row.userID != p.UserID {
		return deviceRow{}, foreignDevice()
	}
	if row.revoked() {
		return deviceRow{}, fault.New(code.Forbidden, "This device was revoked.")
	}
	if row.deletedAt != nil {
		fresh := newDeviceRow(tx, p, d)
		return fresh, fresh.replace(tx)
	}
	return row, row.see(tx, d.PushToken)
}

// deviceRow is a row of devices.
type deviceRow struct {
	id, userID, name, platform, capabilities string
	pushToken, state                         *string
	lastSeenAt, createdAt                    time.Time
	deletedAt                                *time.Time
}

const deviceColumns = `id, user_id, name, platform, capabilities, push_token, last_seen_at, created_at, deleted_at, state`

func (r *deviceRow) fields() []any {
	return []any{&r.id, &r.userID, &r.name, &r.platform, &r.capabilities, &r.pushToken,
		&r.lastSeenAt, &r.createdAt, &r.deletedAt, &r.state}
}

// revoked reports whether the device was ended for good: it had signed in to the Workspace (WS-ID-3).
func (r *deviceRow) revoked() bool { return r.state != nil && *r.state == string(wsp.DeviceRevoked) }

func (r *deviceRow) token() string {
	if r.pushToken == nil {
		return ""
	}
	return *r.pushToken
}

// readDevice reads a device, deleted ones too.
func readDevice(tx storage.Tx, id string) (row deviceRow, found bool, err error) {
	found, err = tx.Get(`SELECT `+deviceColumns+` FROM devices WHERE id = $1`, []any{id}, row.fields()...)
	if err != nil {
		return deviceRow{}, false, fmt.Errorf("read device: %w", err)
	}
	return row, found, nil
}

func newDeviceRow(tx storage.Tx, p Principal, d Device) deviceRow {
	row := deviceRow{
		id: d.ID, userID: p.UserID, platform: string(platformOf(d.Platform)), capabilities: "[]",
		lastSeenAt: tx.Now(), createdAt: tx.Now(),
	}
	row.name = deviceName(d.Name, row.platform)
	if d.PushToken != "" {
		row.pushToken = &d.PushToken
	}
	return row
}

// insert registers the device and answers false when the id is taken.
func (r *deviceRow) insert(tx storage.Tx) (bool, error) {
	rows, err := tx.Changed(
		`INSERT INTO devices (`+deviceColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, NULL, NULL)
		 ON CONFLICT (id) DO NOTHING`,
		r.id, r.userID, r.name, r.platform, r.capabilities, r.pushToken, r.lastSeenAt, r.createdAt)
	if err != nil {
		return false, fmt.Errorf("register device: %w", err)
	}
	return rows == 1, nil
}

// replace registers a deleted device anew.
func (r *deviceRow) replace(tx storage.Tx) error {
	err := tx.Exec(
		`UPDATE devices SET name = $2, platform = $3, capabilities = $4, push_token = $5,
		        last_seen_at = $6, created_at = $7, deleted_at = NULL WHERE id = $1`,
		r.id, r.name, r.platform, r.capabilities, r.pushToken, r.lastSeenAt, r.createdAt)
	if err != nil {
		return fmt.Errorf("register device again: %w", err)
	}
	return nil
}

// see notes that the device was seen now, if that is worth a write, and the token it presented.
func (r *deviceRow) see(tx storage.Tx, token string) error {
	renewed := token != "" && token != r.token()
	if !renewed && tx.Now().Sub(r.lastSeenAt) < touchInterval {
		return nil
	}
	if renewed {
		r.pushToken = &token
	}
	r.lastSeenAt = tx.Now()
	err := tx.Exec(`UPDATE devices SET last_seen_at = $2, push_token = $3 WHERE id = $1`,
		r.id, r.lastSeenAt, r.pushToken)
	if err != nil {
		return fmt.Errorf("note that device was seen: %w", err)
	}
	return nil
}

func platformOf(name string) wire.Platform {
	switch platform := wire.Platform(name); platform {
	case wire.PlatformAndroid, wire.PlatformIOS, wire.PlatformWeb, wire.PlatformDesktop, wire.PlatformCLI:
		return platform
	default:
		return wire.PlatformAgent
	}
}

// deviceName answers the label of a new device, at most MaxDeviceName code points.
func deviceName(name, platform string) string {
	if name == "" {
		return platform + " device"
	}
	if runes := []rune(name); len(runes) > wire.MaxDeviceName {
		return string(runes[:wire.MaxDeviceName])
	}
	return name
}

func deviceKeys(id string) []storage.Key {
	return []storage.Key{{Lock: storage.LockDevices, ID: id}}
}

func foreignDevice() error {
	return fault.New(code.Forbidden, "Device id is registered to another account.")
}
