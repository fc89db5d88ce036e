package authz

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// capTerminal is the capability of a grant on a host.
const capTerminal = "terminal"

// Visible answers everything the principal of a snapshot sees, with its level there: the instance when it
// has one on it, every visible space, every visible channel, every host.
func Visible(tx storage.Tx, s *Snapshot) ([]wire.Access, error) {
	if !s.Active() {
		return nil, nil
	}
	places, err := placesOf(tx, map[string]*Snapshot{s.Principal.ID: s}, tx.Now())
	if err != nil {
		return nil, err
	}
	return s.visible(places, tx.Now()), nil
}

// structure is spaces and channels, each in the order of their ids.
type structure struct {
	spaces   []Place
	channels []Place
}

// placesOf reads every place that one of the snapshots sees.
func placesOf(tx storage.Tx, snapshots map[string]*Snapshot, now time.Time) (structure, error) {
	everything := false
	var spaces, homes, channels []string
	for _, s := range snapshots {
		if !s.Active() {
			continue
		}
		everything = everything || s.SeesEverything(now)
		spaces = append(spaces, s.GrantedSpaces(now)...)
		homes = append(homes, s.HomeSpaces(now)...)
		channels = append(channels, s.GrantedChannels(now)...)
	}
	return readPlaces(tx, everything, distinct(spaces), distinct(homes), distinct(channels))
}

func readPlaces(tx storage.Tx, everything bool, spaces, homes, channels []string) (structure, error) {
	var all structure
	err := tx.Query(
		`SELECT id, archived_at IS NOT NULL FROM spaces WHERE $1 OR id = ANY($2) OR id = ANY($3) ORDER BY id`,
		[]any{everything, spaces, homes}, func(row storage.Row) error {
			var place Place
			err := row.Scan(&place.SpaceID, &place.SpaceArchived)
			all.spaces = append(all.spaces, place)
			return err
		})
	if err != nil {
		return structure{}, fmt.Errorf("read visible spaces: %w", err)
	}
	err = tx.Query(placeQuery+` WHERE $1 OR c.space_id = ANY($2) OR c.id = ANY($3) ORDER BY c.id`,
		[]any{everything, spaces, channels}, func(row storage.Row) error {
			place, err := scanPlace(row)
			all.channels = append(all.channels, place)
			return err
		})
	if err != nil {
		return structure{}, fmt.Errorf("read visible channels: %w", err)
	}
	return all, nil
}

// visible answers what of the places the principal sees at a moment.
func (s *Snapshot) visible(places structure, now time.Time) []wire.Access {
	if !s.Active() {
		return nil
	}
	var all []wire.Access
	if level := highest(s.instance, now); level != wire.LevelNone {
		all = append(all, wire.Access{Kind: wire.TargetInstance, Level: level})
	}
	for _, place := range places.spaces {
		if s.SeesSpace(place.SpaceID, now) {
			all = append(all, wire.Access{Kind: wire.TargetSpace, ID: place.SpaceID, Level: s.Level(place, now)})
		}
	}
	for _, place := range places.channels {
		if level := s.Level(place, now); level != wire.LevelNone {
			all = append(all, wire.Access{Kind: wire.TargetChannel, ID: place.ChannelID, Level: level})
		}
	}
	for _, host := range slices.Sorted(maps.Keys(s.hosts)) {
		if alive(s.hosts[host], now) {
			all = append(all, wire.Access{Kind: wire.TargetHost, ID: host, Capabilities: []string{capTerminal}})
		}
	}
	return all
}

func distinct(ids []string) []string {
	slices.Sort(ids)
	return slices.Compact(ids)
}
