package workspace

import (
	"fmt"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// everything is a page without an end.
const everything = 1 << 40

// VisibleSpaces answers every space the principal of a snapshot sees, by id: those it has a level on, and
// those with a channel it sees.
func VisibleSpaces(tx storage.Tx, snapshot *authz.Snapshot) ([]wire.Space, error) {
	return spacesBehind(tx, snapshot, "", everything)
}

func spacesBehind(tx storage.Tx, snapshot *authz.Snapshot, after string, limit int64) ([]wire.Space, error) {
	spaces := []wire.Space{}
	if !snapshot.Active() {
		return spaces, nil
	}
	now := tx.Now()
	err := tx.Query(`SELECT `+spaceColumns+` FROM spaces s
		WHERE ($1 OR s.id = ANY($2) OR s.id = ANY($3)) AND s.id > $4 ORDER BY s.id LIMIT $5`,
		[]any{snapshot.SeesEverything(now), snapshot.GrantedSpaces(now), snapshot.HomeSpaces(now), after, limit},
		func(row storage.Row) error {
			var space wire.Space
			err := scanSpace(row, &space)
			spaces = append(spaces, space)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("read visible spaces: %w", err)
	}
	return spaces, nil
}

// VisibleChannels answers every channel the principal of a snapshot sees, by id.
func VisibleChannels(tx storage.Tx, snapshot *authz.Snapshot) ([]wire.Channel, error) {
	return channelsBehind(tx, snapshot, "", "", everything)
}

// channelsBehind answers visible channels of a space, "" for every space.
func channelsBehind(tx storage.Tx, snapshot *authz.Snapshot, spaceID, after string, limit int64) ([]wire.Channel, error) {
	channels := []wire.Channel{}
	if !snapshot.Active() {
		return channels, nil
	}
	now := tx.Now()
	err := tx.Query(`SELECT `+channelColumns+` FROM channels c JOIN spaces s ON s.id = c.space_id
		WHERE ($1 OR c.space_id = ANY($2) OR c.id = ANY($3)) AND ($4 = '' OR c.space_id = $4) AND c.id > $5 ORDER BY c.id LIMIT $6`,
		[]any{snapshot.SeesEverything(now), snapshot.GrantedSpaces(now), snapshot.GrantedChannels(now), spaceID, after, limit},
		func(row storage.Row) error {
			var channel PlacedChannel
			err := scanChannel(row, &channel)
			channels = append(channels, channel.Channel)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("read visible channels: %w", err)
	}
	return channels, nil
}
