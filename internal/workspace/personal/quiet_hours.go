package personal

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"time"
	_ "time/tzdata" // the zones are the same on every machine

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/idempotency"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace/place"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

var (
	weekdays  = []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}
	clockTime = regexp.MustCompile(`^([01][0-9]|2[0-3]):[0-5][0-9]$`)
)

// PutQuietHours sets when the caller does not want to be told. Without days they are off (ES-14).
func (s *Service) PutQuietHours(ctx context.Context, by authz.Caller, ifMatch *int64, in wire.PutQuietHours) (wire.QuietHours, error) {
	if err := checkQuietHours(&in); err != nil {
		return wire.QuietHours{}, err
	}
	return storage.Write(ctx, s.DB, keys(by), func(tx storage.Tx) (wire.QuietHours, error) {
		if _, err := person(tx, by, action.SelfWrite); err != nil {
			return wire.QuietHours{}, err
		}
		return idempotency.Once(tx, by.Key, func() (wire.QuietHours, error) {
			old, err := quietHoursOf(tx, by.Principal)
			if err != nil {
				return old, err
			}
			if err := place.RequireVersion(ifMatch, old.Version, &old); err != nil {
				return old, err
			}
			next := wire.QuietHours{
				Timezone: in.Timezone, Days: in.Days, From: in.From, To: in.To, Version: old.Version + 1, UpdatedByDeviceID: by.Device,
			}
			return next, s.storeQuietHours(tx, by, next)
		})
	})
}

// checkQuietHours refuses what is no zone, day or time, and puts the days into their order.
func checkQuietHours(in *wire.PutQuietHours) error {
	if _, err := time.LoadLocation(in.Timezone); err != nil || in.Timezone == "" || in.Timezone == "Local" || len(in.Timezone) > 64 {
		return fault.Invalid("/timezone", "must be a zone of the IANA database")
	}
	for pointer, text := range map[string]string{"/from": in.From, "/to": in.To} {
		if !clockTime.MatchString(text) {
			return fault.Invalid(pointer, "must be HH:MM")
		}
	}
	days := []string{}
	for _, day := range weekdays {
		if slices.Contains(in.Days, day) {
			days = append(days, day)
		}
	}
	if len(days) != len(in.Days) {
		return fault.Invalid("/days", "must be different days of mon, tue, wed, thu, fri, sat and sun")
	}
	in.Days = days
	return nil
}

func (s *Service) storeQuietHours(tx storage.Tx, by authz.Caller, hours wire.QuietHours) error {
	days, err := json.Marshal(hours.Days)
	if err != nil {
		return fmt.Errorf("encode days: %w", err)
	}
	err = tx.Exec(
		`INSERT INTO quiet_hours (principal_id, timezone, days, from_time, to_time, updated_by_device_id, version) VALUES ($1, $2, $3, $4, $5, $6, $7)
		 ON CONFLICT (principal_id) DO UPDATE
		    SET timezone = excluded.timezone, days = excluded.days, from_time = excluded.from_time, to_time = excluded.to_time,
		        updated_by_device_id = excluded.updated_by_device_id, version = excluded.version`,
		by.Principal, hours.Timezone, string(days), hours.From, hours.To, optional(by.Device), hours.Version)
	if err != nil {
		return fmt.Errorf("write quiet hours: %w", err)
	}
	return s.tell(tx, by, eventlog.QuietHoursUpdated, wire.Scope{}, by.Principal, hours.Version, wire.QuietHoursEvent{QuietHours: hours})
}

// QuietHours answers when the caller does not want to be told; not_found when it never said.
func (s *Service) QuietHours(ctx context.Context, by authz.Caller) (wire.QuietHours, error) {
	return storage.Read(ctx, s.DB, func(tx storage.Tx) (wire.QuietHours, error) {
		if _, err := person(tx, by, action.SelfRead); err != nil {
			return wire.QuietHours{}, err
		}
		hours, err := quietHoursOf(tx, by.Principal)
		if err == nil && hours.Version == 0 {
			err = fault.Missing("Quiet hours")
		}
		return hours, err
	})
}

func quietHoursOf(tx storage.Tx, principal string) (wire.QuietHours, error) {
	hours := wire.QuietHours{Days: []string{}}
	var device *string
	var days []byte
	found, err := tx.Get(`SELECT timezone, days, from_time, to_time, updated_by_device_id, version FROM quiet_hours WHERE principal_id = $1`,
		[]any{principal}, &hours.Timezone, &days, &hours.From, &hours.To, &device, &hours.Version)
	if err != nil {
		return hours, fmt.Errorf("read quiet hours: %w", err)
	}
	if !found {
		return hours, nil
	}
	hours.UpdatedByDeviceID = value(device)
	if err := json.Unmarshal(days, &hours.Days); err != nil {
		return hours, fmt.Errorf("decode days: %w", err)
	}
	return hours, nil
}
