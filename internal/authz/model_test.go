package authz_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// world is a naive model: rows, looked at one by one.
type world struct {
	people   []string
	agents   []string
	groups   []string
	spaces   map[string]*modelSpace
	channels map[string]*modelChannel
	grants   []modelGrant
	members  []modelMember
}

type (
	modelSpace struct {
		archived bool
		operator string
	}
	modelChannel struct {
		space              string
		archived, readOnly bool
	}
	modelGrant struct {
		id, subject string
		target      wire.Target
		level       wire.Level
		ends        *time.Time
	}
	modelMember struct {
		group, principal string
		ends             *time.Time
	}
)

func over(ends *time.Time, now time.Time) bool { return ends != nil && !now.Before(*ends) }

// subjects are whom a principal stands for: itself and its groups.
func (w *world) subjects(principal string, now time.Time) map[string]bool {
	all := map[string]bool{principal: true}
	for _, m := range w.members {
		if m.principal == principal && !over(m.ends, now) {
			all[m.group] = true
		}
	}
	return all
}

// given is the highest level on exactly one target.
func (w *world) given(principal string, target wire.Target, now time.Time) wire.Level {
	best := wire.LevelNone
	subjects := w.subjects(principal, now)
	for _, g := range w.grants {
		if subjects[g.subject] && g.target == target && !over(g.ends, now) && g.level.Rank() > best.Rank() {
			best = g.level
		}
	}
	if space := w.spaces[target.ID]; target.Kind == wire.TargetSpace && space.operator == principal && best.Rank() < wire.LevelTrigger.Rank() {
		best = wire.LevelTrigger
	}
	return best
}

func (w *world) level(principal, channel string, now time.Time) wire.Level {
	c := w.channels[channel]
	best := wire.LevelNone
	for _, target := range []wire.Target{instance, onSpace(c.space), onChannel(channel)} {
		if level := w.given(principal, target, now); level.Rank() > best.Rank() {
			best = level
		}
	}
	capped := c.archived || w.spaces[c.space].archived || c.readOnly && best.Rank() < wire.LevelManage.Rank()
	if capped && best != wire.LevelNone {
		return wire.LevelRead
	}
	return best
}

func (w *world) visible(principal string, now time.Time) map[wire.Target]wire.Level {
	all := map[wire.Target]wire.Level{}
	if level := w.given(principal, instance, now); level != wire.LevelNone {
		all[instance] = level
	}
	for id := range w.channels {
		if level := w.level(principal, id, now); level != wire.LevelNone {
			all[onChannel(id)] = level
			all[onSpace(w.channels[id].space)] = wire.LevelNone
		}
	}
	for id, space := range w.spaces {
		best := w.given(principal, instance, now)
		if level := w.given(principal, onSpace(id), now); level.Rank() > best.Rank() {
			best = level
		}
		if space.archived && best != wire.LevelNone {
			best = wire.LevelRead
		}
		if best != wire.LevelNone {
			all[onSpace(id)] = best
		}
	}
	return all
}

// meet is whom one sees: oneself, and who sees the same channel or was given the same space.
func (w *world) meet(a, b string, now time.Time) bool {
	seesA, seesB := w.visible(a, now), w.visible(b, now)
	if a == b {
		return true
	}
	for target, level := range seesA {
		other, both := seesB[target]
		if both && (target.Kind == wire.TargetChannel || target.Kind == wire.TargetSpace && level != "" && other != "") {
			return true
		}
	}
	// Two who were given the instance, or one of them with the other anywhere, meet also where there is no channel yet.
	return w.given(a, instance, now) != "" && len(seesB) > 0 || w.given(b, instance, now) != "" && len(seesA) > 0
}

// randomWorld is a world of rows, written to the database.
func randomWorld(s *stage, random *rand.Rand, now time.Time) *world {
	w := &world{spaces: map[string]*modelSpace{}, channels: map[string]*modelChannel{}}
	for _, table := range []string{"grants", "group_members", "principal_groups", "channels", "spaces"} {
		s.exec("DELETE FROM " + table) // of the world before
	}
	pick := func(ids []string) string { return ids[random.IntN(len(ids))] }
	end := func() *time.Time {
		if random.IntN(3) > 0 {
			return nil
		}
		at := now.Add(time.Duration(random.IntN(40)-10) * time.Minute).Truncate(time.Microsecond)
		return &at
	}
	for range 5 {
		w.people = append(w.people, s.person().Principal)
	}
	w.agents = []string{s.principal(wire.KindAgent).Principal}
	for i := range 2 {
		id := s.env.NewID()
		s.exec(`INSERT INTO principal_groups (id, name, created_at) VALUES ($1, $2, 1)`, id, fmt.Sprint(id, i))
		w.groups = append(w.groups, id)
	}
	for range 3 {
		space := &modelSpace{archived: random.IntN(5) == 0}
		id := s.space()
		if random.IntN(3) == 0 {
			space.operator = w.agents[0]
			s.exec(`UPDATE spaces SET operator_agent_id = $2 WHERE id = $1`, id, space.operator)
		}
		if space.archived {
			s.exec(`UPDATE spaces SET archived_at = 1 WHERE id = $1`, id)
		}
		w.spaces[id] = space
		for range 1 + random.IntN(3) {
			channel := &modelChannel{space: id, archived: random.IntN(6) == 0, readOnly: random.IntN(5) == 0}
			made := s.channel(id)
			s.exec(`UPDATE channels SET read_only = $2, archived_at = CASE WHEN $3 THEN 1 END WHERE id = $1`, made, channel.readOnly, channel.archived)
			w.channels[made] = channel
		}
	}
	spaces, channels := slices.Sorted(maps.Keys(w.spaces)), slices.Sorted(maps.Keys(w.channels))
	for range 14 {
		subject, kind := pick(slices.Concat(w.people, w.agents)), "principal"
		if random.IntN(3) == 0 {
			subject, kind = pick(w.groups), "group"
		}
		target := onChannel(pick(channels))
		switch random.IntN(8) {
		case 0:
			target = instance
		case 1, 2, 3:
			target = onSpace(pick(spaces))
		}
		g := modelGrant{id: s.env.NewID(), subject: subject, target: target, level: levels[1+random.IntN(5)], ends: end()}
		s.exec(`INSERT INTO grants (id, subject_kind, subject_id, target_kind, target_id, level, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, 1, $7)`,
			g.id, kind, g.subject, g.target.Kind, g.target.ID, g.level, g.ends)
		if random.IntN(6) == 0 { // revoked: as if it had never been
			s.exec(`UPDATE grants SET revoked_at = 1 WHERE id = $1`, g.id)
			continue
		}
		w.grants = append(w.grants, g)
	}
	for _, group := range w.groups {
		for _, principal := range w.people {
			if random.IntN(2) == 0 {
				m := modelMember{group: group, principal: principal, ends: end()}
				s.exec(`INSERT INTO group_members (group_id, principal_id, expires_at) VALUES ($1, $2, $3)`, m.group, m.principal, m.ends)
				w.members = append(w.members, m)
			}
		}
	}
	return w
}

func asMap(all []wire.Access) map[wire.Target]wire.Level {
	levels := map[wire.Target]wire.Level{}
	for _, access := range all {
		levels[wire.Target{Kind: access.Kind, ID: access.ID}] = access.Level
	}
	return levels
}

// applied is what somebody sees who was told of a change.
func applied(before []wire.Access, change wire.AccessChanged) map[wire.Target]wire.Level {
	after := asMap(before)
	for _, access := range change.Removed {
		delete(after, wire.Target{Kind: access.Kind, ID: access.ID})
	}
	for _, access := range slices.Concat(change.Added, change.Changed) {
		after[wire.Target{Kind: access.Kind, ID: access.ID}] = access.Level
	}
	return after
}

func TestModel(t *testing.T) {
	t.Parallel()
	const worlds = 6
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStage(t, db.DB)
		for i := range worlds {
			seed := rand.Uint64()
			random := rand.New(rand.NewPCG(seed, 1))
			t.Run(fmt.Sprintf("WS-AZ-2 ES-8.1 world %d", i), func(t *testing.T) {
				s := s.on(t)
				t.Logf("seed %d", seed)
				w := randomWorld(s, random, s.env.Now())
				var previous []wire.Access
				for _, id := range slices.Concat(w.people, w.agents) {
					seen := s.visible(id)
					checkPerson(s, w, id, seen)
					change, differs := authz.Difference(previous, seen)
					require.Equal(t, asMap(seen), applied(previous, change), "ES-8.2 the difference leads from one to the other")
					require.Equal(t, !maps.Equal(asMap(previous), asMap(seen)), differs)
					previous = seen
				}
			})
		}
	})
}

// checkPerson compares what the snapshot says with the rows, now and at moments to come.
func checkPerson(s *stage, w *world, id string, seen []wire.Access) {
	now := s.env.Now()
	snapshot := s.load(id)
	require.Equal(s, w.visible(id, now), asMap(seen))
	for _, later := range []time.Duration{0, 5 * time.Minute, time.Hour} {
		at := now.Add(later)
		for channel, c := range w.channels {
			place := authz.Place{SpaceID: c.space, ChannelID: channel, Archived: c.archived, ReadOnly: c.readOnly, SpaceArchived: w.spaces[c.space].archived}
			require.Equal(s, w.level(id, channel, at), snapshot.Level(place, at), "expiry takes effect at once")
		}
		for space := range w.spaces {
			_, visible := w.visible(id, at)[onSpace(space)]
			require.Equal(s, visible, snapshot.SeesSpace(space, at))
		}
	}
	require.NoError(s, s.db.Read(s.Context(), func(tx storage.Tx) error {
		sharers, err := authz.Sharers(tx, snapshot)
		if err != nil {
			return err
		}
		everybody := slices.Concat(w.people, w.agents)
		loaded, err := authz.LoadMany(tx, everybody)
		if err != nil {
			return err
		}
		for _, other := range everybody {
			want := w.meet(id, other, now)
			require.Equal(s, want, authz.Share(snapshot, loaded[other], now), "WS-AZ-7")
			everything := w.given(id, instance, now) != ""
			require.Equal(s, want || everything, slices.Contains(sharers, other), "WS-AZ-7 in bulk")
			sees, err := authz.SeesPrincipal(tx, authz.Caller{Principal: id, Kind: wire.KindUser}, other)
			require.NoError(s, err)
			require.Equal(s, want || everything, sees)
		}
		for channel, c := range w.channels {
			readers, err := authz.ReadersOf(tx, authz.Place{SpaceID: c.space, ChannelID: channel}, everybody)
			require.NoError(s, err)
			require.Equal(s, w.level(id, channel, now) != "", readers[id])
		}
		return nil
	}))
}
