package workspace

import (
	"fmt"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// PlacedSpace is a space with the place that permissions on it go by.
type PlacedSpace struct {
	wire.Space
}

// Place is where the space stands in permissions.
func (s *PlacedSpace) Place() authz.Place {
	return authz.Place{SpaceID: s.ID, SpaceArchived: s.ArchivedAt != nil}
}

// PlacedChannel is a channel with the place that permissions on it go by.
type PlacedChannel struct {
	wire.Channel

	SpaceArchived bool
}

// Place is where the channel stands in permissions.
func (c *PlacedChannel) Place() authz.Place {
	return authz.Place{
		SpaceID: c.SpaceID, ChannelID: c.ID, SpaceArchived: c.SpaceArchived, Archived: c.ArchivedAt != nil, ReadOnly: c.ReadOnly,
	}
}

// Scope is where events of the channel happen.
func (c *PlacedChannel) Scope() wire.Scope { return wire.Scope{SpaceID: c.SpaceID, ChannelID: c.ID} }

// PlacedThread is a thread with the place of its channel.
type PlacedThread struct {
	wire.Thread

	Place       authz.Place
	ChannelKind wire.ChannelKind
}

// Scope is where events of the thread and its messages happen.
func (t *PlacedThread) Scope() wire.Scope {
	return wire.Scope{SpaceID: t.Place.SpaceID, ChannelID: t.ChannelID, ThreadID: t.ID}
}

// Summary is what events of messages say about the thread.
func (t *PlacedThread) Summary() wire.ThreadSummary {
	return wire.ThreadSummary{
		ID: t.ID, Version: t.Version, State: t.State, LastMessageSeq: t.LastMessageSeq, MessageCount: t.MessageCount,
		LastActivityAt: t.LastActivityAt,
	}
}

const spaceColumns = `s.id, s.name, s.archived_at, s.operator_agent_id, s.created_at, s.version`

func scanSpace(row storage.Row, s *wire.Space) error {
	var operator *string
	err := row.Scan(&s.ID, &s.Name, &s.ArchivedAt, &operator, &s.CreatedAt, &s.Version)
	s.OperatorAgentID = valueOf(operator)
	return err
}

// SpacePlace reads a space; found is false when there is none.
func SpacePlace(tx storage.Tx, id string) (space PlacedSpace, found bool, err error) {
	err = tx.Query(`SELECT `+spaceColumns+` FROM spaces s WHERE s.id = $1`, []any{id}, func(row storage.Row) error {
		found = true
		return scanSpace(row, &space.Space)
	})
	if err != nil {
		return space, false, fmt.Errorf("read space: %w", err)
	}
	return space, found, nil
}

const channelColumns = `c.id, c.space_id, c.kind, c.name, c.topic, c.read_only, c.archived_at, c.main_thread_id, c.created_at,
	c.version, c.settings_version, s.archived_at IS NOT NULL`

func scanChannel(row storage.Row, c *PlacedChannel, extra ...any) error {
	var topic, main *string
	dest := append([]any{
		&c.ID, &c.SpaceID, &c.Kind, &c.Name, &topic, &c.ReadOnly, &c.ArchivedAt, &main, &c.CreatedAt,
		&c.Version, &c.SettingsVersion, &c.SpaceArchived,
	}, extra...)
	if err := row.Scan(dest...); err != nil {
		return err
	}
	c.Topic, c.MainThreadID = valueOf(topic), valueOf(main)
	return nil
}

// ChannelPlace reads a channel; found is false when there is none.
func ChannelPlace(tx storage.Tx, id string) (channel PlacedChannel, found bool, err error) {
	err = tx.Query(`SELECT `+channelColumns+` FROM channels c JOIN spaces s ON s.id = c.space_id WHERE c.id = $1`, []any{id},
		func(row storage.Row) error {
			found = true
			return scanChannel(row, &channel)
		})
	if err != nil {
		return channel, false, fmt.Errorf("read channel: %w", err)
	}
	return channel, found, nil
}

const threadColumns = `t.id, t.channel_id, t.kind, t.title, t.state, t.last_message_seq, t.message_count, t.last_activity_at,
	t.unread_floor_seq, t.created_at, t.version, c.space_id, c.kind, c.archived_at IS NOT NULL, c.read_only, s.archived_at IS NOT NULL`

const threadTables = ` FROM threads t JOIN channels c ON c.id = t.channel_id JOIN spaces s ON s.id = c.space_id`

func scanThread(row storage.Row, t *PlacedThread, extra ...any) error {
	var title *string
	dest := append([]any{
		&t.ID, &t.ChannelID, &t.Kind, &title, &t.State, &t.LastMessageSeq, &t.MessageCount, &t.LastActivityAt,
		&t.UnreadFloorSeq, &t.CreatedAt, &t.Version,
		&t.Place.SpaceID, &t.ChannelKind, &t.Place.Archived, &t.Place.ReadOnly, &t.Place.SpaceArchived,
	}, extra...)
	if err := row.Scan(dest...); err != nil {
		return err
	}
	t.Title, t.Place.ChannelID = valueOf(title), t.ChannelID
	return nil
}

// ThreadPlace reads a thread; found is false when there is none.
func ThreadPlace(tx storage.Tx, id string) (thread PlacedThread, found bool, err error) {
	err = tx.Query(`SELECT `+threadColumns+threadTables+` WHERE t.id = $1`, []any{id}, func(row storage.Row) error {
		found = true
		return scanThread(row, &thread)
	})
	if err != nil {
		return thread, false, fmt.Errorf("read thread: %w", err)
	}
	return thread, found, nil
}

// AuthorizedSpace reads a space that the caller may do something to; what it does not see is not_found.
func AuthorizedSpace(tx storage.Tx, by authz.Caller, a action.Action, id string) (PlacedSpace, *authz.Snapshot, error) {
	space, found, err := SpacePlace(tx, id)
	if err != nil {
		return space, nil, err
	}
	snapshot, err := authorized(tx, by, a, "Space", space.Place(), found)
	return space, snapshot, err
}

// AuthorizedChannel reads a channel that the caller may do something to; what it does not see is not_found.
func AuthorizedChannel(tx storage.Tx, by authz.Caller, a action.Action, id string) (PlacedChannel, *authz.Snapshot, error) {
	channel, found, err := ChannelPlace(tx, id)
	if err != nil {
		return channel, nil, err
	}
	snapshot, err := authorized(tx, by, a, "Channel", channel.Place(), found)
	return channel, snapshot, err
}

// AuthorizedThread reads a thread that the caller may do something to; what it does not see is not_found.
func AuthorizedThread(tx storage.Tx, by authz.Caller, a action.Action, id string) (PlacedThread, *authz.Snapshot, error) {
	thread, found, err := ThreadPlace(tx, id)
	if err != nil {
		return thread, nil, err
	}
	snapshot, err := authorized(tx, by, a, "Thread", thread.Place, found)
	return thread, snapshot, err
}

func authorized(tx storage.Tx, by authz.Caller, a action.Action, what string, place authz.Place, found bool) (*authz.Snapshot, error) {
	if !found {
		return nil, fault.Missing(what)
	}
	return authz.Check(tx, by, a, authz.Resource{What: what, Place: place})
}
