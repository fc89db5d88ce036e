package authz

import (
	"fmt"

	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Visible answers everything the principal of a snapshot sees, with its level there: the instance when it
// has one on it, every visible space, every visible channel, every host.
func Visible(tx storage.Tx, s *Snapshot) ([]wire.Access, error) {
	var all []wire.Access
	now := tx.Now()
	if !s.Active() {
		return nil, nil
	}
	if level := highest(s.instance, now); level != wire.LevelNone {
		all = append(all, wire.Access{Kind: wire.TargetInstance, Level: level})
	}
	everything := s.SeesEverything(now)
	err := tx.Query(
		`SELECT id, archived_at IS NOT NULL FROM spaces WHERE $1 OR id = ANY($2) OR id = ANY($3) ORDER BY id`,
		[]any{everything, s.GrantedSpaces(now), s.HomeSpaces(now)}, func(row storage.Row) error {
			var place Place
			if err := row.Scan(&place.SpaceID, &place.SpaceArchived); err != nil {
				return err
			}
			all = append(all, wire.Access{Kind: wire.TargetSpace, ID: place.SpaceID, Level: s.Level(place, now)})
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("read visible spaces: %w", err)
	}
	err = tx.Query(
		`SELECT c.id, c.space_id, c.archived_at IS NOT NULL, c.read_only, s.archived_at IS NOT NULL
		   FROM channels c JOIN spaces s ON s.id = c.space_id
		  WHERE $1 OR c.space_id = ANY($2) OR c.id = ANY($3) ORDER BY c.id`,
		[]any{everything, s.GrantedSpaces(now), s.GrantedChannels(now)}, func(row storage.Row) error {
			var place Place
			if err := row.Scan(&place.ChannelID, &place.SpaceID, &place.Archived, &place.ReadOnly, &place.SpaceArchived); err != nil {
				return err
			}
			if level := s.Level(place, now); level != wire.LevelNone {
				all = append(all, wire.Access{Kind: wire.TargetChannel, ID: place.ChannelID, Level: level})
			}
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("read visible channels: %w", err)
	}
	for host := range s.hosts {
		if highest(s.hosts[host], now) != wire.LevelNone || len(s.hosts[host]) > 0 {
			all = append(all, wire.Access{Kind: wire.TargetHost, ID: host, Capabilities: []string{"terminal"}})
		}
	}
	return all, nil
}
