package authz

import (
	"fmt"
	"time"

	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Filter answers what of the log the principal may possibly see (ES-7.2), but for threads that moved: see
// CatchUpFilter. Channels of a space that it was given follow from the space, also those made later.
func (s *Snapshot) Filter(now time.Time) eventlog.Filter {
	if !s.Active() {
		return eventlog.Filter{Principal: s.Principal.ID}
	}
	granted := s.GrantedSpaces(now)
	return eventlog.Filter{
		Principal: s.Principal.ID, Channels: s.GrantedChannels(now), FullSpaces: granted,
		Spaces: distinct(append(s.HomeSpaces(now), granted...)), InstanceWide: s.SeesEverything(now),
	}
}

// CatchUpFilter is Filter for reading what came after a number: it also lets through the past of threads
// that moved since to where the principal sees them now.
func CatchUpFilter(tx storage.Tx, s *Snapshot, after int64) (eventlog.Filter, error) {
	filter := s.Filter(tx.Now())
	err := tx.Query(
		`SELECT DISTINCT m.thread_id, c.id, c.space_id FROM thread_moves m JOIN threads t ON t.id = m.thread_id JOIN channels c ON c.id = t.channel_id
		  WHERE m.seq > $1`, []any{after}, func(row storage.Row) error {
			var thread string
			var place Place
			err := row.Scan(&thread, &place.ChannelID, &place.SpaceID)
			if s.Level(place, tx.Now()) != wire.LevelNone {
				filter.MovedThreads = append(filter.MovedThreads, thread)
			}
			return err
		})
	if err != nil {
		return eventlog.Filter{}, fmt.Errorf("read moved threads: %w", err)
	}
	return filter, nil
}
