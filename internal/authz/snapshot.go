package authz

import (
	"slices"
	"time"

	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Snapshot is what one principal was granted, at one permission version. It is never changed.
type Snapshot struct {
	Principal wire.Principal
	// Version is the permission version it was read at.
	Version int64

	// system is set for System, which may do everything.
	system bool

	instance []given
	spaces   map[string][]given
	channels map[string][]given
	// homes are the granted channels of each space: a space is visible to whoever sees one of its channels.
	homes map[string][]string
	hosts map[string][]given // the capability on a host has no level
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

// alive reports whether anything was given that has not ended, whatever its level.
func alive(all []given, now time.Time) bool {
	return slices.ContainsFunc(all, func(g given) bool { return g.ends == nil || now.Before(*g.ends) })
}

func system() *Snapshot {
	return &Snapshot{
		Principal: wire.Principal{Kind: wire.KindSystem, Status: wire.StatusActive}, system: true,
		instance: []given{{level: wire.LevelOwner}},
	}
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

// GrantedSpaces answers the spaces with a grant on the space itself.
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
