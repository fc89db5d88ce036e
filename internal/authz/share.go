package authz

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Share reports whether two principals meet somewhere: in a channel both see, or in a space both were given
// (WS-AZ-7). Whether they are active does not matter: who has left is still somebody to those who stayed.
func Share(a, b *Snapshot, now time.Time) bool {
	switch {
	case a.Principal.ID == b.Principal.ID:
		return true
	case has(a.instance, now):
		return b.hasAny(now)
	case has(b.instance, now):
		return a.hasAny(now)
	default:
		return a.meets(b, now) || b.meets(a, now)
	}
}

func has(all []given, now time.Time) bool { return highest(all, now) != wire.LevelNone }

// hasAny reports whether the principal was given anything where others are.
func (s *Snapshot) hasAny(now time.Time) bool {
	return has(s.instance, now) || anyLive(s.spaces, now) || anyLive(s.channels, now)
}

func anyLive(all map[string][]given, now time.Time) bool {
	for _, levels := range all {
		if has(levels, now) {
			return true
		}
	}
	return false
}

// meets reports whether b was given a space, or a channel in a space, that a was given too, or one of its channels.
func (s *Snapshot) meets(b *Snapshot, now time.Time) bool {
	for space, levels := range s.spaces {
		if has(levels, now) && (has(b.spaces[space], now) || b.hasHome(space, now)) {
			return true
		}
	}
	for channel, levels := range s.channels {
		if has(levels, now) && has(b.channels[channel], now) {
			return true
		}
	}
	return false
}

// hasHome reports whether a channel of the space was given.
func (s *Snapshot) hasHome(space string, now time.Time) bool {
	return slices.ContainsFunc(s.homes[space], func(channel string) bool { return has(s.channels[channel], now) })
}

// SeesPrincipal reports whether the caller sees a principal: itself, who it meets, or everybody when it was
// given anything on the instance. Who does not exist is not seen.
func SeesPrincipal(tx storage.Tx, by Caller, id string) (bool, error) {
	both, err := LoadMany(tx, []string{by.Principal, id})
	if err != nil || both[id] == nil {
		return false, err
	}
	if by.Kind == wire.KindSystem {
		return true, nil
	}
	s := both[by.Principal]
	return s != nil && (s.SeesEverything(tx.Now()) || Share(s, both[id], tx.Now())), nil
}

// Sharers answers every principal whom the one of a snapshot sees, itself included, in the order of their
// ids: the bulk of SeesPrincipal.
func Sharers(tx storage.Tx, s *Snapshot) ([]string, error) {
	now := tx.Now()
	if s.system || s.SeesEverything(now) {
		return readIDs(tx, `SELECT id FROM principals ORDER BY id`)
	}
	spaces := s.GrantedSpaces(now)
	homes := distinct(append(s.HomeSpaces(now), spaces...))
	ids, err := readIDs(tx, `
WITH near AS (
    SELECT subject_kind, subject_id FROM grants
     WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $1)
       AND (target_kind = 'instance' OR target_kind = 'space' AND target_id = ANY($2)
            OR target_kind = 'channel' AND (target_id = ANY($3) OR target_id IN (SELECT id FROM channels WHERE space_id = ANY($4)))))
SELECT subject_id FROM near WHERE subject_kind = 'principal'
UNION SELECT m.principal_id FROM near n JOIN group_members m ON m.group_id = n.subject_id
       WHERE n.subject_kind = 'group' AND (m.expires_at IS NULL OR m.expires_at > $1)
UNION SELECT operator_agent_id FROM spaces WHERE id = ANY($2) AND operator_agent_id IS NOT NULL`,
		now, homes, s.GrantedChannels(now), spaces)
	if err != nil {
		return nil, err
	}
	if !s.hasAny(now) {
		ids = nil // also who was given the whole instance meets nobody who is nowhere
	}
	return distinct(append(ids, s.Principal.ID)), nil
}

// ReadersOf answers which of the principals may read a channel now.
func ReadersOf(tx storage.Tx, place Place, ids []string) (map[string]bool, error) {
	snapshots, err := LoadMany(tx, ids)
	if err != nil {
		return nil, fmt.Errorf("find readers: %w", err)
	}
	maps.DeleteFunc(snapshots, func(_ string, s *Snapshot) bool { return s.Level(place, tx.Now()) == wire.LevelNone })
	readers := make(map[string]bool, len(snapshots))
	for id := range snapshots {
		readers[id] = true
	}
	return readers, nil
}
