package workspace

import (
	"context"
	"fmt"
	"time"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace/place"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Archiving caps levels, so that it is a permission change (ES-8.2): alone in its transaction, with
// access.changed for whoever had more than read. Who is concerned is decided before the row is locked, what
// becomes of it after.

// ArchiveSpace makes a space and its channels readable only. Safe to repeat. ifMatch is honoured.
func (s *Service) ArchiveSpace(ctx context.Context, by authz.Caller, id string, ifMatch *int64) (wire.Space, error) {
	return s.archiveSpace(ctx, by, id, ifMatch, true)
}

// UnarchiveSpace takes an ArchiveSpace back. Safe to repeat. ifMatch is honoured.
func (s *Service) UnarchiveSpace(ctx context.Context, by authz.Caller, id string, ifMatch *int64) (wire.Space, error) {
	return s.archiveSpace(ctx, by, id, ifMatch, false)
}

func (s *Service) archiveSpace(ctx context.Context, by authz.Caller, id string, ifMatch *int64, archive bool) (wire.Space, error) {
	id, err := place.PathID("Space", id)
	if err != nil {
		return wire.Space{}, err
	}
	affected := func(tx storage.Tx) ([]string, error) {
		if _, _, err := AuthorizedSpace(tx, by, action.SpaceArchive, id); err != nil {
			return nil, err
		}
		return authz.AffectedByArchive(tx, authz.Place{SpaceID: id})
	}
	return authz.ChangeOnce(ctx, s.authz, by, affected, func(tx storage.Tx) (wire.Space, error) {
		space, found, err := SpacePlace(tx, id)
		if err != nil || !found {
			return space.Space, orMissing(err, "Space")
		}
		if err := place.RequireVersion(ifMatch, space.Version, space.Space); err != nil {
			return space.Space, err
		}
		if archive == (space.ArchivedAt != nil) {
			return space.Space, nil
		}
		return s.flipSpace(tx, by, space.Space, archive)
	}, storage.Key{Lock: storage.LockSpaces, ID: id})
}

func (s *Service) flipSpace(tx storage.Tx, by authz.Caller, space wire.Space, archive bool) (wire.Space, error) {
	kind, done := eventlog.SpaceUnarchived, auditSpaceUnarchive
	if archive {
		kind, done = eventlog.SpaceArchived, auditSpaceArchive
	}
	space.ArchivedAt = archivedAt(tx, archive)
	space.Version++
	err := tx.Exec(`UPDATE spaces SET archived_at = $2, version = $3 WHERE id = $1`, space.ID, space.ArchivedAt, space.Version)
	if err != nil {
		return space, fmt.Errorf("archive space: %w", err)
	}
	return space, s.tellSpace(tx, by, kind, done, space, nil)
}

func archivedAt(tx storage.Tx, archive bool) *time.Time {
	if !archive {
		return nil
	}
	now := tx.Now()
	return &now
}

func orMissing(err error, what string) error {
	if err != nil {
		return err
	}
	return fault.Missing(what)
}

// ArchiveChannel makes a channel readable only. Safe to repeat. ifMatch is honoured.
func (s *Service) ArchiveChannel(ctx context.Context, by authz.Caller, id string, ifMatch *int64) (wire.Channel, error) {
	return s.archiveChannel(ctx, by, id, ifMatch, true)
}

// UnarchiveChannel takes an ArchiveChannel back. Safe to repeat. ifMatch is honoured.
func (s *Service) UnarchiveChannel(ctx context.Context, by authz.Caller, id string, ifMatch *int64) (wire.Channel, error) {
	return s.archiveChannel(ctx, by, id, ifMatch, false)
}

func (s *Service) archiveChannel(ctx context.Context, by authz.Caller, id string, ifMatch *int64, archive bool) (wire.Channel, error) {
	id, err := place.PathID("Channel", id)
	if err != nil {
		return wire.Channel{}, err
	}
	affected := func(tx storage.Tx) ([]string, error) {
		channel, _, err := AuthorizedChannel(tx, by, action.ChannelArchive, id)
		if err != nil {
			return nil, err
		}
		return authz.AffectedByArchive(tx, authz.Place{SpaceID: channel.SpaceID, ChannelID: id})
	}
	return authz.ChangeOnce(ctx, s.authz, by, affected, func(tx storage.Tx) (wire.Channel, error) {
		channel, found, err := ChannelPlace(tx, id)
		if err != nil || !found {
			return channel.Channel, orMissing(err, "Channel")
		}
		if err := place.RequireVersion(ifMatch, channel.Version, channel.Channel); err != nil {
			return channel.Channel, err
		}
		if archive == (channel.ArchivedAt != nil) {
			return channel.Channel, nil
		}
		return s.flipChannel(tx, by, channel.Channel, archive)
	}, storage.Key{Lock: storage.LockChannels, ID: id})
}

func (s *Service) flipChannel(tx storage.Tx, by authz.Caller, channel wire.Channel, archive bool) (wire.Channel, error) {
	kind, done := eventlog.ChannelUnarchived, auditChannelUnarchive
	if archive {
		kind, done = eventlog.ChannelArchived, auditChannelArchive
	}
	channel.ArchivedAt = archivedAt(tx, archive)
	channel.Version++
	err := tx.Exec(`UPDATE channels SET archived_at = $2, version = $3 WHERE id = $1`, channel.ID, channel.ArchivedAt, channel.Version)
	if err != nil {
		return channel, fmt.Errorf("archive channel: %w", err)
	}
	return channel, s.tellChannel(tx, by, kind, done, channel, nil)
}
