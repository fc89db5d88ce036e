package authz

import (
	"fmt"

	"github.com/cairnsync/cairn/internal/storage"
)

const placeQuery = `SELECT c.id, c.space_id, c.archived_at IS NOT NULL, c.read_only, s.archived_at IS NOT NULL
		   FROM channels c JOIN spaces s ON s.id = c.space_id`

func scanPlace(row storage.Row) (Place, error) {
	var p Place
	err := row.Scan(&p.ChannelID, &p.SpaceID, &p.Archived, &p.ReadOnly, &p.SpaceArchived)
	return p, err
}

// ChannelPlace reads a channel as a place, and whether there is one.
func ChannelPlace(tx storage.Tx, channelID string) (p Place, found bool, err error) {
	err = tx.Query(placeQuery+` WHERE c.id = $1`, []any{channelID}, func(row storage.Row) error {
		found = true
		p, err = scanPlace(row)
		return err
	})
	if err != nil {
		return Place{}, false, fmt.Errorf("read channel's place: %w", err)
	}
	return p, found, nil
}

// SpacePlace reads a space as a place, and whether there is one.
func SpacePlace(tx storage.Tx, spaceID string) (p Place, found bool, err error) {
	found, err = tx.Get(`SELECT id, archived_at IS NOT NULL FROM spaces WHERE id = $1`, []any{spaceID}, &p.SpaceID, &p.SpaceArchived)
	if err != nil {
		return Place{}, false, fmt.Errorf("read space's place: %w", err)
	}
	return p, found, nil
}
