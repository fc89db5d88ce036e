package signin

import (
	"fmt"
	"time"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	sessions "github.com/cairnsync/cairn/wire/sessions"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// deviceRow is what a row of devices says about signing in.
type deviceRow struct {
	id, user   string
	state      wire.DeviceState // "" for a device that never signed in to the Workspace
	thumbprint string
	deleted    bool
}

func readDevice(tx storage.Tx, id string) (row deviceRow, found bool, err error) {
	var state, thumbprint *string
	var deletedAt *time.Time
	found, err = tx.Get(`SELECT id, user_id, state, dpop_jkt, deleted_at FROM devices WHERE id = $1`, []any{id},
		&row.id, &row.user, &state, &thumbprint, &deletedAt)
	if err != nil {
		return deviceRow{}, false, fmt.Errorf("read device: %w", err)
	}
	row.state, row.thumbprint, row.deleted = wire.DeviceState(orEmpty(state)), orEmpty(thumbprint), deletedAt != nil
	return row, found, nil
}

// usableDevice reads a device that has signed in and was not revoked since.
func usableDevice(tx storage.Tx, id string) (deviceRow, error) {
	row, found, err := readDevice(tx, id)
	if err == nil && (!found || row.deleted || row.state == "" || row.state == wire.DeviceRevoked) {
		err = badCredentials().WithCause(errRevoked)
	}
	return row, err
}

// binding is a device that signs in, as it is to be.
type binding struct {
	deviceRow

	name, platform string
	known          bool // it has a row
	told           bool // its person is told: it is new here, or its state or key changes
	rebound        bool // it takes another key: its earlier sign-ins end
}

// decideDevice answers what becomes of the device that signs in (WS-ID-3). The caller holds the person's
// lock. Where approval is required, every device but the first starts pending, and so does a device that
// shows another key than before: ids of devices are no secrets, only keys are.
func (s *Service) decideDevice(tx storage.Tx, user string, request wire.DeviceRequest, thumbprint string) (binding, error) {
	row, found, err := readDevice(tx, request.ID)
	if err != nil {
		return binding{}, err
	}
	switch {
	case found && row.user != user:
		return binding{}, fault.New(code.Forbidden, "Device id is registered to another account.")
	case found && row.state == wire.DeviceRevoked:
		return binding{}, fault.New(code.Forbidden, "This device was revoked.")
	}
	b := binding{deviceRow: row, name: shortened(request.Name), platform: request.Platform, known: found}
	b.id, b.user, b.thumbprint = request.ID, user, thumbprint
	b.rebound = row.thumbprint != "" && row.thumbprint != thumbprint
	b.told = row.state == "" || b.rebound
	if !b.told {
		return b, nil
	}
	b.state = wire.DeviceActive
	if s.Auth.RequireDeviceApproval {
		others, err := tx.Get(`SELECT 1 FROM devices WHERE user_id = $1 AND state IS NOT NULL AND (id <> $2 OR dpop_jkt <> $3)`,
			[]any{user, b.id, thumbprint}, new(int))
		if err != nil {
			return binding{}, fmt.Errorf("count devices: %w", err)
		}
		if others {
			b.state = wire.DevicePending
		}
	}
	return b, nil
}

// bindDevice writes what decideDevice answered.
func (s *Service) bindDevice(tx storage.Tx, b binding) error {
	if b.rebound {
		if err := endSignIns(tx, endedByKey, `device_id = $3`, b.id); err != nil {
			return err
		}
		if err := authz.Raise(tx, b.user); err != nil {
			return err
		}
	}
	if b.known {
		err := tx.Exec(
			`UPDATE devices SET name = $2, platform = $3, state = $4, dpop_jkt = $5, last_seen_at = $6, deleted_at = NULL WHERE id = $1`,
			b.id, b.name, b.platform, b.state, b.thumbprint, tx.Now())
		if err != nil {
			return fmt.Errorf("bind device: %w", err)
		}
	} else {
		rows, err := tx.Changed(
			`INSERT INTO devices (id, user_id, name, platform, capabilities, last_seen_at, created_at, state, dpop_jkt)
			 VALUES ($1, $2, $3, $4, '[]', $5, $5, $6, $7) ON CONFLICT (id) DO NOTHING`,
			b.id, b.user, b.name, b.platform, tx.Now(), b.state, b.thumbprint)
		if err != nil {
			return fmt.Errorf("add device: %w", err)
		}
		if rows == 0 { // somebody else registered the id since
			return fault.New(code.Unavailable, "The device is being registered elsewhere. Try again.")
		}
	}
	if !b.told {
		return nil
	}
	return s.Identity.TellDevice(tx, authz.Caller{Principal: b.user, Kind: wire.KindUser}, b.id)
}

// shortened cuts a name to what both surfaces show.
func shortened(name string) string {
	if runes := []rune(name); len(runes) > sessions.MaxDeviceName {
		return string(runes[:sessions.MaxDeviceName])
	}
	return name
}
