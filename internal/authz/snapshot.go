package authz

import (
	"fmt"
	"time"

	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Snapshot is what one principal was granted, at one permission version. It is never changed.
type Snapshot struct {
	Principal wire.Principal
	// Version is the permission version it was read at.
	Version int64

	instance []given
	spaces   map[string][]given
	channels map[string][]given
	// homes counts the granted channels of each space: a space is visible to whoever sees one of its channels.
	homes map[string][]string // space → channels granted in it
	hosts map[string][]given
}

// given is a level, until it ends. Several on one target come from several grants.
type given struct {
	level wire.Level
	ends  *time.Time
}

// highest answers the highest level that has not ended.
func highest(all []given, now time.Time) wire.Level {
	best := wire.LevelNone
	for _, g := range all {
		if (g.ends == nil || now.Before(*g.ends)) && g.level.Rank() > best.Rank() {
			best = g.level
		}
	}
	return best
}

// Active reports whether the principal may act at all.
func (s *Snapshot) Active() bool { return s.Principal.Status == wire.StatusActive }

// Place is a channel with what caps levels on it, or a space, or with neither the instance.
type Place struct {
	SpaceID       string
	ChannelID     string
	SpaceArchived bool
	Archived      bool // the channel
	ReadOnly      bool
}

// Level answers the effective level on a place at a moment (WS-AZ-2): the highest of the grants on it and
// above it, capped where it is read-only or archived.
func (s *Snapshot) Level(p Place, now time.Time) wire.Level {
	if !s.Active() {
		return wire.LevelNone
	}
	level := s.granted(p, now)
	return p.cap(level)
}

// granted is Level without the caps: unarchiving, grants and deleting stay with it.
func (s *Snapshot) granted(p Place, now time.Time) wire.Level {
	level := highest(s.instance, now)
	if p.SpaceID != "" {
		level = higher(level, highest(s.spaces[p.SpaceID], now))
	}
	if p.ChannelID != "" {
		level = higher(level, highest(s.channels[p.ChannelID], now))
	}
	return level
}

func (p Place) cap(level wire.Level) wire.Level {
	switch {
	case level.Rank() <= wire.LevelRead.Rank():
		return level
	case p.Archived, p.SpaceArchived:
		return wire.LevelRead
	case p.ReadOnly && level.Rank() < wire.LevelManage.Rank():
		return wire.LevelRead
	default:
		return level
	}
}

func higher(a, b wire.Level) wire.Level {
	if b.Rank() > a.Rank() {
		return b
	}
	return a
}

// SeesSpace reports whether the space is visible: a grant on it or above it, or on one of its channels.
func (s *Snapshot) SeesSpace(spaceID string, now time.Time) bool {
	if !s.Active() {
		return false
	}
	if s.granted(Place{SpaceID: spaceID}, now) != wire.LevelNone {
		return true
	}
	for _, channel := range s.homes[spaceID] {
		if highest(s.channels[channel], now) != wire.LevelNone {
			return true
		}
	}
	return false
}

// SeesEverything reports whether the principal has a level on the instance.
func (s *Snapshot) SeesEverything(now time.Time) bool {
	return s.Active() && highest(s.instance, now) != wire.LevelNone
}

// GrantedSpaces answers the spaces with a grant on the space itself; GrantedChannels the channels with a
// grant of their own, by their space.
func (s *Snapshot) GrantedSpaces(now time.Time) []string { return live(s.spaces, now) }

// GrantedChannels answers the channels with a grant on the channel itself.
func (s *Snapshot) GrantedChannels(now time.Time) []string { return live(s.channels, now) }

// HomeSpaces answers the spaces of GrantedChannels.
func (s *Snapshot) HomeSpaces(now time.Time) []string {
	var spaces []string
	for space, channels := range s.homes {
		for _, channel := range channels {
			if highest(s.channels[channel], now) != wire.LevelNone {
				spaces = append(spaces, space)
				break
			}
		}
	}
	return spaces
}

func live(all map[string][]given, now time.Time) []string {
	ids := make([]string, 0, len(all))
	for id, levels := range all {
		if highest(levels, now) != wire.LevelNone {
			ids = append(ids, id)
		}
	}
	return ids
}

// Load reads the snapshot of a principal; found is false when there is none. It is one statement for the
// grants, direct, by group and of an operator, and one for the principal.
func Load(tx storage.Tx, principalID string) (s *Snapshot, found bool, err error) {
	s = &Snapshot{
		spaces: map[string][]given{}, channels: map[string][]given{}, homes: map[string][]string{}, hosts: map[string][]given{},
	}
	err = tx.Query(loadQuery, []any{principalID, tx.Now()}, func(row storage.Row) error {
		found = true
		return s.scan(row)
	})
	if err != nil {
		return nil, false, fmt.Errorf("load permissions: %w", err)
	}
	return s, found, nil
}

// loadQuery answers one row of the principal, with an empty target kind, and one for each level it was given.
const loadQuery = `
SELECT p.id, p.kind, p.handle, p.display_name, p.status, p.version, c.value, '', '', '', NULL, NULL
  FROM principals p, sequence_counters c WHERE p.id = $1 AND c.name = 'permission_version'
UNION ALL
SELECT '', '', '', '', '', 0, 0, g.target_kind, g.target_id, coalesce(c.space_id, ''), coalesce(g.level, 'terminal'), g.expires_at
  FROM grants g LEFT JOIN channels c ON g.target_kind = 'channel' AND c.id = g.target_id
 WHERE g.subject_id = $1 AND g.revoked_at IS NULL AND (g.expires_at IS NULL OR g.expires_at > $2)
UNION ALL
SELECT '', '', '', '', '', 0, 0, g.target_kind, g.target_id, coalesce(c.space_id, ''), coalesce(g.level, 'terminal'),
       CASE WHEN m.expires_at IS NULL OR g.expires_at < m.expires_at THEN g.expires_at ELSE m.expires_at END
  FROM group_members m JOIN grants g ON g.subject_id = m.group_id AND g.subject_kind = 'group'
  LEFT JOIN channels c ON g.target_kind = 'channel' AND c.id = g.target_id
 WHERE m.principal_id = $1 AND (m.expires_at IS NULL OR m.expires_at > $2)
   AND g.revoked_at IS NULL AND (g.expires_at IS NULL OR g.expires_at > $2)
UNION ALL
SELECT '', '', '', '', '', 0, 0, 'space', id, '', 'trigger', NULL FROM spaces WHERE operator_agent_id = $1`

func (s *Snapshot) scan(row storage.Row) error {
	var p wire.Principal
	var version int64
	var kind, target, space string
	var level *string
	var ends *time.Time
	err := row.Scan(&p.ID, &p.Kind, &p.Handle, &p.DisplayName, &p.Status, &p.Version, &version, &kind, &target, &space, &level, &ends)
	if err != nil {
		return err
	}
	if kind == "" {
		s.Principal, s.Version = p, version
		return nil
	}
	g := given{ends: ends}
	if level != nil {
		g.level = wire.Level(*level)
	}
	switch wire.TargetKind(kind) {
	case wire.TargetInstance:
		s.instance = append(s.instance, g)
	case wire.TargetSpace:
		s.spaces[target] = append(s.spaces[target], g)
	case wire.TargetChannel:
		if len(s.channels[target]) == 0 {
			s.homes[space] = append(s.homes[space], target)
		}
		s.channels[target] = append(s.channels[target], g)
	case wire.TargetHost:
		s.hosts[target] = append(s.hosts[target], g)
	}
	return nil
}
