package gateway

import (
	"fmt"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// places is where channels are and what caps levels on them, in the order of the log (ES-8.1). It is as large as the
// two tables it mirrors. It is guarded by the gateway's mu.
type places struct {
	spaces   map[string]spaceState
	channels map[string]channelState
}

type spaceState struct {
	archived bool
	version  int64
}

type channelState struct {
	space              string
	archived, readOnly bool
	version            int64
}

func newPlaces() places {
	return places{spaces: map[string]spaceState{}, channels: map[string]channelState{}}
}

func readPlaces(tx storage.Tx) (places, error) {
	all := newPlaces()
	err := tx.Query(`SELECT id, archived_at IS NOT NULL, version FROM spaces`, nil, func(row storage.Row) error {
		var id string
		var s spaceState
		err := row.Scan(&id, &s.archived, &s.version)
		all.spaces[id] = s
		return err
	})
	if err != nil {
		return places{}, fmt.Errorf("read spaces: %w", err)
	}
	err = tx.Query(`SELECT id, space_id, archived_at IS NOT NULL, read_only, version FROM channels`, nil, func(row storage.Row) error {
		var id string
		var c channelState
		err := row.Scan(&id, &c.space, &c.archived, &c.readOnly, &c.version)
		all.channels[id] = c
		return err
	})
	if err != nil {
		return places{}, fmt.Errorf("read channels: %w", err)
	}
	return all, nil
}

// merge takes in what others know better.
func (p *places) merge(others places) {
	for id, s := range others.spaces {
		p.setSpace(id, s)
	}
	for id, c := range others.channels {
		p.setChannel(id, c)
	}
}

func (p *places) setSpace(id string, s spaceState) {
	if s.version >= p.spaces[id].version {
		p.spaces[id] = s
	}
}

func (p *places) setChannel(id string, c channelState) {
	if c.version >= p.channels[id].version {
		p.channels[id] = c
	}
}

// apply takes in what an event says about a space or channel, and reports whether it says anything.
func (p *places) apply(ev *event) bool {
	switch ev.kind.Name {
	case eventlog.SpaceCreated, eventlog.SpaceUpdated, eventlog.SpaceArchived, eventlog.SpaceUnarchived:
		if body, ok := payloadOf[wire.SpaceEvent](ev.record); ok {
			p.setSpace(body.Space.ID, spaceState{archived: body.Space.ArchivedAt != nil, version: body.Space.Version})
		}
		return true
	case eventlog.ChannelCreated, eventlog.ChannelUpdated, eventlog.ChannelArchived, eventlog.ChannelUnarchived:
		if body, ok := payloadOf[wire.ChannelEvent](ev.record); ok {
			c := body.Channel
			p.setChannel(c.ID, channelState{space: c.SpaceID, archived: c.ArchivedAt != nil, readOnly: c.ReadOnly, version: c.Version})
		}
		return true
	}
	return false
}

// of answers the place of a channel; spaceID counts where the channel is not known.
func (p *places) of(channelID, spaceID string) authz.Place {
	place := authz.Place{SpaceID: spaceID, ChannelID: channelID}
	if c, known := p.channels[channelID]; known && channelID != "" {
		place.SpaceID, place.Archived, place.ReadOnly = c.space, c.archived, c.readOnly
	}
	place.SpaceArchived = p.spaces[place.SpaceID].archived
	return place
}
