package personal

import (
	"context"
	"fmt"
	"regexp"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/idempotency"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace/place"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// key is what a setting may be called.
var key = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]*$`)

func checkKey(name string) error {
	if len(name) > maxKey || !key.MatchString(name) {
		return fault.Invalid("key", "must be 1 to %d of letters, digits, dot, dash, underscore and colon, with a letter or digit first", maxKey)
	}
	return nil
}

// PutSetting sets one of the caller's settings; keys do not interfere with each other (ES-14).
func (s *Service) PutSetting(ctx context.Context, by authz.Caller, name string, ifMatch *int64, in wire.PutSetting) (wire.Setting, error) {
	if err := checkKey(name); err != nil {
		return wire.Setting{}, err
	}
	given, err := place.JSON("/value", in.Value, MaxSetting)
	if err != nil {
		return wire.Setting{}, err
	}
	return s.writeSetting(ctx, by, name, func(tx storage.Tx, old *wire.Setting) (wire.Setting, error) {
		if err := place.RequireVersion(ifMatch, old.Version, old); err != nil {
			return *old, err
		}
		if old.Version == 0 {
			if err := roomForSetting(tx, by.Principal); err != nil {
				return *old, err
			}
		}
		return wire.Setting{Key: name, Value: given, Version: old.Version + 1, UpdatedByDeviceID: by.Device}, nil
	})
}

// DeleteSetting deletes one of the caller's settings. Without it nothing happens.
func (s *Service) DeleteSetting(ctx context.Context, by authz.Caller, name string, ifMatch *int64) error {
	if err := checkKey(name); err != nil {
		return err
	}
	_, err := s.writeSetting(ctx, by, name, func(_ storage.Tx, old *wire.Setting) (wire.Setting, error) {
		if err := place.RequireVersion(ifMatch, old.Version, old); err != nil || old.Deleted || old.Version == 0 {
			return *old, err
		}
		return wire.Setting{Key: name, Deleted: true, Version: old.Version + 1, UpdatedByDeviceID: by.Device}, nil
	})
	return err
}

// writeSetting stores what decide makes of a setting; the same version changes nothing.
func (s *Service) writeSetting(
	ctx context.Context, by authz.Caller, name string, decide func(tx storage.Tx, old *wire.Setting) (wire.Setting, error),
) (wire.Setting, error) {
	return storage.Write(ctx, s.DB, keys(by), func(tx storage.Tx) (wire.Setting, error) {
		if _, err := person(tx, by, action.SelfWrite); err != nil {
			return wire.Setting{}, err
		}
		load := func(name string) (wire.Setting, error) { return settingOf(tx, by.Principal, name) }
		return idempotency.OnceByID(tx, by.Key, func() (wire.Setting, error) {
			old, err := load(name)
			if err != nil {
				return old, err
			}
			next, err := decide(tx, &old)
			if err != nil || next.Version == old.Version {
				return next, err
			}
			return next, s.storeSetting(tx, by, next)
		}, func(wire.Setting) string { return name }, load)
	})
}

func (s *Service) storeSetting(tx storage.Tx, by authz.Caller, setting wire.Setting) error {
	err := tx.Exec(
		`INSERT INTO settings (principal_id, key, value, updated_by_device_id, version) VALUES ($1, $2, $3, $4, $5)
		 ON CONFLICT (principal_id, key) DO UPDATE
		    SET value = excluded.value, updated_by_device_id = excluded.updated_by_device_id, version = excluded.version`,
		by.Principal, setting.Key, []byte(setting.Value), optional(by.Device), setting.Version)
	if err != nil {
		return fmt.Errorf("write setting: %w", err)
	}
	return s.tell(tx, by, eventlog.SettingsUpdated, wire.Scope{}, setting.Key, setting.Version, wire.SettingEvent{Setting: setting})
}

// roomForSetting counts deleted keys too: they keep their version.
func roomForSetting(tx storage.Tx, principal string) error {
	var known int
	if _, err := tx.Get(`SELECT count(*) FROM settings WHERE principal_id = $1`, []any{principal}, &known); err != nil {
		return fmt.Errorf("count settings: %w", err)
	}
	if known >= MaxSettings {
		return fault.New(code.Conflict, "There are %d settings already.", MaxSettings)
	}
	return nil
}

// Setting answers one of the caller's settings; a key that is not set is not_found.
func (s *Service) Setting(ctx context.Context, by authz.Caller, name string) (wire.Setting, error) {
	return storage.Read(ctx, s.DB, func(tx storage.Tx) (wire.Setting, error) {
		if _, err := person(tx, by, action.SelfRead); err != nil {
			return wire.Setting{}, err
		}
		setting, err := settingOf(tx, by.Principal, name)
		if err == nil && (setting.Version == 0 || setting.Deleted) {
			err = fault.Missing("Setting")
		}
		return setting, err
	})
}

// Settings lists the caller's settings by key.
func (s *Service) Settings(ctx context.Context, by authz.Caller, p place.Paging) (wire.Page[wire.Setting], error) {
	if p.After != "" && checkKey(p.After) != nil {
		return wire.Page[wire.Setting]{}, place.BadCursor()
	}
	return storage.Read(ctx, s.DB, func(tx storage.Tx) (wire.Page[wire.Setting], error) {
		if _, err := person(tx, by, action.SelfRead); err != nil {
			return wire.Page[wire.Setting]{}, err
		}
		settings, err := readSettings(tx, `AND value IS NOT NULL AND key > $2 ORDER BY key LIMIT $3`, by.Principal, p.After, p.Size()+1)
		return place.Page(settings, p.Size(), func(s wire.Setting) string { return s.Key }), err
	})
}

// SettingsVersions answers the versions of a person's settings by key: what a snapshot holds of them.
func SettingsVersions(tx storage.Tx, principal string) (map[string]int64, error) {
	return versions(tx, `SELECT key, version FROM settings WHERE principal_id = $1 AND value IS NOT NULL`, []any{principal})
}

func settingOf(tx storage.Tx, principal, name string) (wire.Setting, error) {
	settings, err := readSettings(tx, `AND key = $2`, principal, name)
	if err != nil || len(settings) == 0 {
		return wire.Setting{Key: name}, err
	}
	return settings[0], nil
}

func readSettings(tx storage.Tx, narrowed string, args ...any) ([]wire.Setting, error) {
	var settings []wire.Setting
	err := tx.Query(`SELECT key, value, version, updated_by_device_id FROM settings WHERE principal_id = $1 `+narrowed, args, func(row storage.Row) error {
		var setting wire.Setting
		var stored []byte
		var device *string
		err := row.Scan(&setting.Key, &stored, &setting.Version, &device)
		setting.Value, setting.Deleted, setting.UpdatedByDeviceID = stored, stored == nil, value(device)
		settings = append(settings, setting)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	return settings, nil
}
