package personal

import (
	"context"
	"fmt"
	"strings"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/idempotency"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace/place"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// The kinds of targets that a person sets notifications for.
const (
	ofSpace   = "space"
	ofChannel = "channel"
	ofThread  = "thread"
)

// PutNotificationPref sets what the caller wants to be told about a space, channel or thread it sees
// (ES-14).
func (s *Service) PutNotificationPref(
	ctx context.Context, by authz.Caller, kind, targetID string, ifMatch *int64, in wire.PutNotificationPref,
) (wire.NotificationPref, error) {
	id, err := target(kind, targetID)
	if err != nil {
		return wire.NotificationPref{}, err
	}
	switch in.Level {
	case "all", "mentions", "none":
	default:
		return wire.NotificationPref{}, fault.Invalid("/level", "must be all, mentions or none")
	}
	return storage.Write(ctx, s.DB, keys(by), func(tx storage.Tx) (wire.NotificationPref, error) {
		scope, err := seesTarget(tx, by, kind, id)
		if err != nil {
			return wire.NotificationPref{}, err
		}
		return idempotency.Once(tx, by.Key, func() (wire.NotificationPref, error) {
			old, err := prefOf(tx, by.Principal, kind, id)
			if err != nil {
				return old, err
			}
			if err := place.RequireVersion(ifMatch, old.Version, &old); err != nil {
				return old, err
			}
			next := wire.NotificationPref{
				Kind: kind, ID: id, Level: in.Level, MutedUntil: in.MutedUntil, Version: old.Version + 1, UpdatedByDeviceID: by.Device,
			}
			return next, s.storePref(tx, by, scope, next)
		})
	})
}

// target answers the canonical id of a target; another kind names nothing.
func target(kind, id string) (string, error) {
	switch kind {
	case ofSpace, ofChannel, ofThread:
		return place.PathID(strings.ToUpper(kind[:1])+kind[1:], id)
	default:
		return "", fault.Missing("Target")
	}
}

// seesTarget authorises and answers where the target is.
func seesTarget(tx storage.Tx, by authz.Caller, kind, id string) (wire.Scope, error) {
	if kind == ofSpace {
		return wire.Scope{SpaceID: id}, ownSpace(tx, by, action.SelfWrite, id)
	}
	if kind == ofThread {
		t, err := thread(tx, by, action.PersonalWrite, id)
		return t.Scope(), err
	}
	where, found, err := authz.ChannelPlace(tx, id)
	if err != nil {
		return wire.Scope{}, err
	}
	if !found {
		return wire.Scope{}, fault.Missing("Channel")
	}
	_, err = authz.Check(tx, by, action.PersonalWrite, authz.Resource{What: "Channel", Place: where})
	return wire.Scope{SpaceID: where.SpaceID, ChannelID: id}, err
}

func (s *Service) storePref(tx storage.Tx, by authz.Caller, scope wire.Scope, pref wire.NotificationPref) error {
	err := tx.Exec(
		`INSERT INTO notification_prefs (principal_id, kind, target_id, level, muted_until, updated_by_device_id, version)
		 VALUES ($1, $2, $3, $4, $5, $6, $7)
		 ON CONFLICT (principal_id, kind, target_id) DO UPDATE
		    SET level = excluded.level, muted_until = excluded.muted_until, updated_by_device_id = excluded.updated_by_device_id,
		        version = excluded.version`,
		by.Principal, pref.Kind, pref.ID, pref.Level, pref.MutedUntil, optional(by.Device), pref.Version)
	if err != nil {
		return fmt.Errorf("write notification preference: %w", err)
	}
	return s.tell(tx, by, eventlog.NotificationUpdated, scope, pref.ID, pref.Version, wire.NotificationPrefEvent{NotificationPref: pref})
}

const prefColumns = `n.kind, n.target_id, n.level, n.muted_until, n.version, n.updated_by_device_id`

// listPrefsQuery names only targets the person may read.
var listPrefsQuery = `SELECT ` + prefColumns + ` FROM notification_prefs n
	WHERE n.principal_id = $1 AND (n.kind > $5 OR n.kind = $5 AND n.target_id > $6)
	  AND (n.kind = 'space' AND EXISTS (SELECT 1 FROM spaces s WHERE s.id = n.target_id AND ($2 OR s.id = ANY($3) OR s.id = ANY($7)))
	    OR n.kind = 'channel' AND EXISTS (SELECT 1 FROM channels c WHERE c.id = n.target_id AND ` + place.Visible("c", 2) + `)
	    OR n.kind = 'thread' AND EXISTS (SELECT 1 FROM threads t JOIN channels c ON c.id = t.channel_id
	                                      WHERE t.id = n.target_id AND ` + place.Visible("c", 2) + `))
	ORDER BY n.kind, n.target_id LIMIT $8`

// NotificationPrefs lists what the caller wants to be told, of targets it may read.
func (s *Service) NotificationPrefs(ctx context.Context, by authz.Caller, p place.Paging) (wire.Page[wire.NotificationPref], error) {
	kind, after, err := prefCursor(p.After)
	if err != nil {
		return wire.Page[wire.NotificationPref]{}, err
	}
	return storage.Read(ctx, s.DB, func(tx storage.Tx) (wire.Page[wire.NotificationPref], error) {
		snapshot, err := person(tx, by, action.SelfRead)
		if err != nil {
			return wire.Page[wire.NotificationPref]{}, err
		}
		args := append([]any{by.Principal}, place.VisibleArgs(tx, snapshot)...)
		prefs, err := readPrefs(tx, listPrefsQuery, append(args, kind, after, snapshot.HomeSpaces(tx.Now()), p.Size()+1))
		return place.Page(prefs, p.Size(), func(n wire.NotificationPref) string { return n.Kind + "_" + n.ID }), err
	})
}

func prefCursor(after string) (kind, id string, err error) {
	if after == "" {
		return "", "", nil
	}
	kind, id, _ = strings.Cut(after, "_")
	id, ok := env.ParseID(id)
	if !ok {
		return "", "", place.BadCursor()
	}
	return kind, id, nil
}

func prefOf(tx storage.Tx, principal, kind, id string) (wire.NotificationPref, error) {
	prefs, err := readPrefs(tx, `SELECT `+prefColumns+` FROM notification_prefs n WHERE n.principal_id = $1 AND n.kind = $2 AND n.target_id = $3`,
		[]any{principal, kind, id})
	if err != nil || len(prefs) == 0 {
		return wire.NotificationPref{Kind: kind, ID: id}, err
	}
	return prefs[0], nil
}

func readPrefs(tx storage.Tx, query string, args []any) ([]wire.NotificationPref, error) {
	var prefs []wire.NotificationPref
	err := tx.Query(query, args, func(row storage.Row) error {
		var n wire.NotificationPref
		var device *string
		err := row.Scan(&n.Kind, &n.ID, &n.Level, &n.MutedUntil, &n.Version, &device)
		n.UpdatedByDeviceID = value(device)
		prefs = append(prefs, n)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read notification preferences: %w", err)
	}
	return prefs, nil
}
