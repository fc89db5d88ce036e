package workspace

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
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// CreateChannel makes a channel in a space the caller manages; a text channel with its main timeline.
func (s *Service) CreateChannel(ctx context.Context, by authz.Caller, in wire.NewChannel) (wire.Channel, error) {
	spaceID, err := checkNewChannel(&in)
	if err != nil {
		return wire.Channel{}, err
	}
	keys := []storage.Key{by.Lock(), {Lock: storage.LockSpaces, ID: spaceID}}
	return storage.Write(ctx, s.db, keys, func(tx storage.Tx) (wire.Channel, error) {
		space, err := spaceForChannel(tx, by, spaceID)
		if err != nil {
			return wire.Channel{}, err
		}
		return idempotency.Once(tx, by.Key, func() (wire.Channel, error) { return s.addChannel(tx, by, space, in) })
	})
}

func checkNewChannel(in *wire.NewChannel) (spaceID string, err error) {
	if spaceID, err = place.BodyID("/space_id", in.SpaceID); err != nil {
		return "", err
	}
	if in.Kind != wire.ChannelText && in.Kind != wire.ChannelForum {
		return "", fault.Invalid("/kind", "must be text or forum")
	}
	if err := checkName("/name", in.Name, maxName); err != nil {
		return "", err
	}
	return spaceID, place.Text("/topic", in.Topic, maxTopic)
}

// spaceForChannel reads the space a body names: one the caller does not see is none (WS-AZ-5).
func spaceForChannel(tx storage.Tx, by authz.Caller, id string) (PlacedSpace, error) {
	space, _, err := AuthorizedSpace(tx, by, action.ChannelCreate, id)
	if fault.Is(err, code.NotFound) {
		return space, unknown("/space_id", "space")
	}
	return space, err
}

// addChannel makes a channel, with channel.created and for a text channel thread.created of its main timeline.
func (s *Service) addChannel(tx storage.Tx, by authz.Caller, space PlacedSpace, in wire.NewChannel) (wire.Channel, error) {
	now := tx.Now()
	channel := wire.Channel{
		ID: s.env.NewID(), SpaceID: space.ID, Kind: in.Kind, Name: in.Name, Topic: in.Topic, CreatedAt: now, Version: 1, SettingsVersion: 1,
	}
	if in.Kind == wire.ChannelText {
		channel.MainThreadID = s.env.NewID()
	}
	err := tx.Exec(`INSERT INTO channels (id, space_id, kind, name, topic, main_thread_id, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		channel.ID, channel.SpaceID, channel.Kind, channel.Name, optional(channel.Topic), optional(channel.MainThreadID), now)
	if err != nil {
		return wire.Channel{}, fmt.Errorf("insert channel: %w", err)
	}
	if err := s.tellChannel(tx, by, eventlog.ChannelCreated, auditChannelCreate, channel, nil); err != nil {
		return wire.Channel{}, err
	}
	if in.Kind != wire.ChannelText {
		return channel, nil
	}
	main := wire.Thread{
		ID: channel.MainThreadID, ChannelID: channel.ID, Kind: wire.ThreadMain, State: wire.ThreadOpen,
		LastActivityAt: now, CreatedAt: now, Version: 1,
	}
	return channel, s.addThread(tx, by, space.ID, main, "")
}

// tellChannel emits an event of a channel and writes down what was done.
func (s *Service) tellChannel(tx storage.Tx, by authz.Caller, kind, done string, channel wire.Channel, detail any) error {
	if err := s.audit(tx, by, done, "channel", channel.ID, detail); err != nil {
		return err
	}
	scope := wire.Scope{SpaceID: channel.SpaceID, ChannelID: channel.ID}
	return s.log.Emit(tx, event(by, kind, scope, channel.ID, channel.Version, wire.ChannelEvent{Channel: channel}))
}

// Channels lists the channels the caller sees, by id: those of a space, or of every space without one.
func (s *Service) Channels(ctx context.Context, by authz.Caller, spaceID string, paging Paging) (wire.Page[wire.Channel], error) {
	after, err := paging.AfterID()
	if err != nil {
		return wire.Page[wire.Channel]{}, err
	}
	if spaceID != "" {
		if spaceID, err = place.PathID("Space", spaceID); err != nil {
			return wire.Page[wire.Channel]{}, err
		}
	}
	return storage.Read(ctx, s.db, func(tx storage.Tx) (wire.Page[wire.Channel], error) {
		snapshot, err := channelLister(tx, by, spaceID)
		if err != nil {
			return wire.Page[wire.Channel]{}, err
		}
		channels, err := channelsBehind(tx, snapshot, spaceID, after, int64(paging.Size())+1)
		return place.Page(channels, paging.Size(), func(c wire.Channel) string { return c.ID }), err
	})
}

func channelLister(tx storage.Tx, by authz.Caller, spaceID string) (*authz.Snapshot, error) {
	if spaceID == "" {
		return authz.Check(tx, by, action.SelfRead, authz.Resource{What: "Channel"})
	}
	_, snapshot, err := AuthorizedSpace(tx, by, action.SpaceRead, spaceID)
	return snapshot, err
}

// Channel answers a channel the caller sees.
func (s *Service) Channel(ctx context.Context, by authz.Caller, id string) (wire.Channel, error) {
	id, err := place.PathID("Channel", id)
	if err != nil {
		return wire.Channel{}, err
	}
	return storage.Read(ctx, s.db, func(tx storage.Tx) (wire.Channel, error) {
		channel, _, err := AuthorizedChannel(tx, by, action.ChannelRead, id)
		return channel.Channel, err
	})
}

// PatchChannel changes what is named of a channel. ifMatch is honoured.
func (s *Service) PatchChannel(ctx context.Context, by authz.Caller, id string, ifMatch *int64, in wire.PatchChannel) (wire.Channel, error) {
	clearsTopic, err := checkPatchChannel(&in)
	if err != nil {
		return wire.Channel{}, err
	}
	if id, err = place.PathID("Channel", id); err != nil {
		return wire.Channel{}, err
	}
	keys := []storage.Key{by.Lock(), {Lock: storage.LockChannels, ID: id}}
	return storage.Write(ctx, s.db, keys, func(tx storage.Tx) (wire.Channel, error) {
		channel, _, err := AuthorizedChannel(tx, by, action.ChannelManage, id)
		if err != nil {
			return wire.Channel{}, err
		}
		return idempotency.Once(tx, by.Key, func() (wire.Channel, error) {
			if err := place.RequireVersion(ifMatch, channel.Version, channel.Channel); err != nil {
				return wire.Channel{}, err
			}
			return s.changeChannel(tx, by, channel.Channel, in, clearsTopic)
		})
	})
}

func checkPatchChannel(in *wire.PatchChannel) (clearsTopic bool, err error) {
	if in.Name != nil {
		if err := checkName("/name", *in.Name, maxName); err != nil {
			return false, err
		}
	}
	if in.Topic != nil {
		if err := place.Text("/topic", *in.Topic, maxTopic); err != nil {
			return false, err
		}
	}
	return checkClear(in.Clear, "topic", in.Topic != nil)
}

func (s *Service) changeChannel(tx storage.Tx, by authz.Caller, channel wire.Channel, in wire.PatchChannel, clearsTopic bool) (wire.Channel, error) {
	was := channel
	if in.Name != nil {
		channel.Name = *in.Name
	}
	if in.Topic != nil {
		channel.Topic = *in.Topic
	}
	if clearsTopic {
		channel.Topic = ""
	}
	if in.ReadOnly != nil {
		channel.ReadOnly = *in.ReadOnly
	}
	if channel == was {
		return channel, nil
	}
	channel.Version++
	err := tx.Exec(`UPDATE channels SET name = $2, topic = $3, read_only = $4, version = $5 WHERE id = $1`,
		channel.ID, channel.Name, optional(channel.Topic), channel.ReadOnly, channel.Version)
	if err != nil {
		return wire.Channel{}, fmt.Errorf("change channel: %w", err)
	}
	return channel, s.tellChannel(tx, by, eventlog.ChannelUpdated, auditChannelPatch, channel, map[string]any{
		"name": channel.Name, "read_only": channel.ReadOnly,
	})
}
