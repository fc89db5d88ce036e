package personal

import (
	"context"
	"fmt"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/idempotency"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace/place"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// PutSidebar saves how the caller arranged a space it sees; the last write wins (ES-14).
func (s *Service) PutSidebar(ctx context.Context, by authz.Caller, spaceID string, ifMatch *int64, in wire.PutSidebar) (wire.Sidebar, error) {
	id, err := place.PathID("Space", spaceID)
	if err != nil {
		return wire.Sidebar{}, err
	}
	state, err := place.JSON("/state", in.State, MaxSidebar)
	if err != nil {
		return wire.Sidebar{}, err
	}
	return storage.Write(ctx, s.DB, keys(by), func(tx storage.Tx) (wire.Sidebar, error) {
		if err := ownSpace(tx, by, action.SelfWrite, id); err != nil {
			return wire.Sidebar{}, err
		}
		load := func(id string) (wire.Sidebar, error) { return sidebarOf(tx, by.Principal, id) }
		return idempotency.OnceByID(tx, by.Key, func() (wire.Sidebar, error) {
			old, err := load(id)
			if err != nil {
				return old, err
			}
			if err := place.RequireVersion(ifMatch, old.Version, &old); err != nil {
				return old, err
			}
			next := wire.Sidebar{SpaceID: id, State: state, Version: old.Version + 1, UpdatedByDeviceID: by.Device}
			return next, s.storeSidebar(tx, by, next)
		}, func(wire.Sidebar) string { return id }, load)
	})
}

func (s *Service) storeSidebar(tx storage.Tx, by authz.Caller, sidebar wire.Sidebar) error {
	err := tx.Exec(
		`INSERT INTO sidebars (principal_id, space_id, state, updated_by_device_id, version) VALUES ($1, $2, $3, $4, $5)
		 ON CONFLICT (principal_id, space_id) DO UPDATE
		    SET state = excluded.state, updated_by_device_id = excluded.updated_by_device_id, version = excluded.version`,
		by.Principal, sidebar.SpaceID, []byte(sidebar.State), optional(by.Device), sidebar.Version)
	if err != nil {
		return fmt.Errorf("write sidebar: %w", err)
	}
	return s.tell(tx, by, eventlog.SidebarUpdated, wire.Scope{SpaceID: sidebar.SpaceID}, sidebar.SpaceID, 0, wire.SidebarEvent{Sidebar: sidebar})
}

// Sidebar answers how the caller arranged a space; not_found when it did not.
func (s *Service) Sidebar(ctx context.Context, by authz.Caller, spaceID string) (wire.Sidebar, error) {
	id, err := place.PathID("Space", spaceID)
	if err != nil {
		return wire.Sidebar{}, err
	}
	return storage.Read(ctx, s.DB, func(tx storage.Tx) (wire.Sidebar, error) {
		if err := ownSpace(tx, by, action.SelfRead, id); err != nil {
			return wire.Sidebar{}, err
		}
		sidebar, err := sidebarOf(tx, by.Principal, id)
		if err == nil && sidebar.Version == 0 {
			err = fault.Missing("Sidebar")
		}
		return sidebar, err
	})
}

// ownSpace authorises what concerns the caller's arrangement of a space.
func ownSpace(tx storage.Tx, by authz.Caller, a action.Action, id string) error {
	snapshot, err := person(tx, by, a)
	if err != nil {
		return err
	}
	where, found, err := authz.SpacePlace(tx, id)
	if err != nil {
		return err
	}
	if !found {
		return fault.Missing("Space")
	}
	return authz.Authorize(snapshot, by, action.SpaceRead, authz.Resource{What: "Space", Place: where}, tx.Now())
}

func sidebarOf(tx storage.Tx, principal, spaceID string) (wire.Sidebar, error) {
	all, err := readSidebars(tx, `SELECT space_id, state, version, updated_by_device_id FROM sidebars WHERE principal_id = $1 AND space_id = $2`,
		[]any{principal, spaceID})
	if err != nil || len(all) == 0 {
		return wire.Sidebar{SpaceID: spaceID}, err
	}
	return all[0], nil
}

// Sidebars answers how a person arranged the spaces it sees: what a snapshot holds of them.
func Sidebars(tx storage.Tx, s *authz.Snapshot) ([]wire.Sidebar, error) {
	now := tx.Now()
	return readSidebars(tx,
		`SELECT space_id, state, version, updated_by_device_id FROM sidebars
		  WHERE principal_id = $1 AND ($2 OR space_id = ANY($3) OR space_id = ANY($4)) ORDER BY space_id`,
		[]any{s.Principal.ID, s.SeesEverything(now), s.GrantedSpaces(now), s.HomeSpaces(now)})
}

func readSidebars(tx storage.Tx, query string, args []any) ([]wire.Sidebar, error) {
	all := []wire.Sidebar{}
	err := tx.Query(query, args, func(row storage.Row) error {
		var sidebar wire.Sidebar
		var state []byte
		var device *string
		err := row.Scan(&sidebar.SpaceID, &state, &sidebar.Version, &device)
		sidebar.State, sidebar.UpdatedByDeviceID = state, value(device)
		all = append(all, sidebar)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read sidebars: %w", err)
	}
	return all, nil
}
