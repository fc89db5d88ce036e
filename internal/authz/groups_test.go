package authz_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/idempotency"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestGroups(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStage(t, db.DB)
		owner, ada, eva, bob := s.owner(), s.person(), s.person(), s.person()
		space := s.space()
		channel := s.channel(space)
		crew, err := s.authz.CreateGroup(t.Context(), owner, wire.NewGroup{Name: "crew"})
		require.NoError(t, err)
		put := func(s *stage, id, who string, ends *time.Time) wire.Group {
			group, err := s.authz.PutMember(s.Context(), owner, id, who, wire.PutMember{ExpiresAt: ends})
			require.NoError(s, err)
			return group
		}
		t.Run("WS-AZ-6 what a group is granted is told to each of its members", func(t *testing.T) {
			s := s.on(t)
			put(s, crew.ID, ada.Principal, nil)
			end := until(s.env.Now(), time.Hour)
			got := put(s, crew.ID, eva.Principal, end)
			require.ElementsMatch(t, []wire.GroupMember{{PrincipalID: ada.Principal}, {PrincipalID: eva.Principal, ExpiresAt: end}}, got.Members)
			require.EqualValues(t, 3, got.Version)
			head := s.head()
			s.grant(owner, group(crew.ID), onChannel(channel), wire.LevelWrite)
			changes := s.changes(head)
			require.Len(t, changes, 2)
			require.Contains(t, changes, ada.Principal)
			require.Contains(t, changes, eva.Principal)
			head = s.head()
			put(s, crew.ID, bob.Principal, nil)
			require.Len(t, s.changes(head)[bob.Principal].Added, 2)
			require.NoError(t, s.authz.RemoveMember(t.Context(), owner, crew.ID, bob.Principal))
			require.Len(t, s.changes(head + 1)[bob.Principal].Removed, 2)
			head = s.head()
			require.NoError(t, s.authz.RemoveMember(t.Context(), owner, crew.ID, bob.Principal), "safe to repeat")
			require.Equal(t, head, s.head())
		})
		t.Run("WS-AZ-7 members see each other, strangers see the group and nobody in it", func(t *testing.T) {
			s := s.on(t)
			mine, err := s.authz.Group(t.Context(), ada, crew.ID)
			require.NoError(t, err)
			require.Len(t, mine.Members, 2)
			theirs, _, err := s.authz.ListGroups(t.Context(), bob, "", 0)
			require.NoError(t, err)
			require.Len(t, theirs, 1)
			require.Empty(t, theirs[0].Members)
			all, err := s.authz.Group(t.Context(), owner, crew.ID)
			require.NoError(t, err)
			require.Len(t, all.Members, 2)
			_, err = s.authz.Group(t.Context(), ada, s.env.NewID())
			s.requireCode(code.NotFound, err)
		})
		t.Run("WS-AZ-7 only who owns the instance changes groups", func(t *testing.T) {
			s := s.on(t)
			lead := s.person()
			s.grantRow(lead.Principal, instance, wire.LevelManage, nil)
			_, err := s.authz.CreateGroup(t.Context(), lead, wire.NewGroup{Name: "mine"})
			s.requireCode(code.Forbidden, err)
			_, err = s.authz.RenameGroup(t.Context(), lead, crew.ID, nil, "mine")
			s.requireCode(code.Forbidden, err)
			_, err = s.authz.PutMember(t.Context(), lead, crew.ID, lead.Principal, wire.PutMember{})
			s.requireCode(code.Forbidden, err)
			s.requireCode(code.Forbidden, s.authz.RemoveMember(t.Context(), lead, crew.ID, ada.Principal))
			s.requireCode(code.Forbidden, s.authz.DeleteGroup(t.Context(), lead, crew.ID))
			s.requireCode(code.NotFound, s.authz.DeleteGroup(t.Context(), lead, s.env.NewID()))
			s.requireCode(code.NotFound, s.authz.DeleteGroup(t.Context(), owner, "no UUID"))
			_, err = s.authz.PutMember(t.Context(), owner, crew.ID, s.env.NewID(), wire.PutMember{})
			s.requireCode(code.NotFound, err)
			_, err = s.authz.PutMember(t.Context(), owner, crew.ID, ada.Principal, wire.PutMember{ExpiresAt: until(s.env.Now(), -time.Second)})
			s.requireCode(code.ValidationFailed, err)
		})
		t.Run("names are unique, and a version that is named must be the current one", func(t *testing.T) {
			s := s.on(t)
			second, err := s.authz.CreateGroup(t.Context(), owner, wire.NewGroup{Name: "second"})
			require.NoError(t, err)
			_, err = s.authz.CreateGroup(t.Context(), owner, wire.NewGroup{Name: "crew"})
			s.requireCode(code.Conflict, err)
			_, err = s.authz.RenameGroup(t.Context(), owner, second.ID, nil, "crew")
			s.requireCode(code.Conflict, err)
			stale := int64(7)
			_, err = s.authz.RenameGroup(t.Context(), owner, second.ID, &stale, "third")
			s.requireCode(code.VersionConflict, err)
			renamed, err := s.authz.RenameGroup(t.Context(), owner, second.ID, &second.Version, "third")
			require.NoError(t, err)
			require.Equal(t, wire.Group{ID: second.ID, Name: "third", Members: []wire.GroupMember{}, Version: 2}, renamed)
			for _, bad := range []string{"", "  ", " a", "a\n", string(make([]byte, 5)), "\u0000"} {
				_, err = s.authz.CreateGroup(t.Context(), owner, wire.NewGroup{Name: bad})
				s.requireCode(code.ValidationFailed, err)
			}
			page, more, err := s.authz.ListGroups(t.Context(), owner, "", 1)
			require.NoError(t, err)
			require.True(t, more)
			rest, more, err := s.authz.ListGroups(t.Context(), owner, page[0].ID, 1)
			require.NoError(t, err)
			require.False(t, more)
			require.NotEqual(t, page[0].ID, rest[0].ID)
		})
		t.Run("ES-5.2 a group that is made again with the same key is the same", func(t *testing.T) {
			s := s.on(t)
			by := owner
			by.Key = &idempotency.Key{Principal: owner.Principal, Method: "POST", Path: "/api/v1/groups", ID: s.env.NewID(), Hash: "h"}
			first, err := s.authz.CreateGroup(t.Context(), by, wire.NewGroup{Name: "once"})
			require.NoError(t, err)
			again, err := s.authz.CreateGroup(t.Context(), by, wire.NewGroup{Name: "once"})
			require.NoError(t, err)
			require.Equal(t, first, again)
			require.True(t, by.Key.Replayed)
		})
		t.Run("WS-AZ-6 a group that is deleted takes its grants and memberships with it", func(t *testing.T) {
			s := s.on(t)
			head := s.head()
			require.NoError(t, s.authz.DeleteGroup(t.Context(), owner, crew.ID))
			changes := s.changes(head)
			require.Len(t, changes, 2)
			require.Len(t, changes[ada.Principal].Removed, 2)
			require.Empty(t, s.visible(ada.Principal))
			s.requireCode(code.NotFound, s.authz.DeleteGroup(t.Context(), owner, crew.ID))
		})
	})
}

func TestArchive(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStage(t, db.DB)
		owner := s.owner()
		space := s.space()
		channel, beside := s.channel(space), s.channel(space)
		reader, writer, lead, member, away := s.person(), s.person(), s.person(), s.person(), s.person()
		agent := s.principal(wire.KindAgent)
		s.exec(`UPDATE spaces SET operator_agent_id = $2 WHERE id = $1`, space, agent.Principal)
		s.grantRow(reader.Principal, onSpace(space), wire.LevelRead, nil)
		s.grantRow(writer.Principal, onChannel(channel), wire.LevelWrite, nil)
		s.grantRow(lead.Principal, onSpace(space), wire.LevelManage, nil)
		s.grantRow(away.Principal, onChannel(beside), wire.LevelOwner, nil)
		s.grant(owner, group(s.crew(owner, member)), onChannel(channel), wire.LevelTrigger)
		archive := func(s *stage, place authz.Place, query string) map[string]wire.AccessChanged {
			head := s.head()
			key := storage.Key{Lock: storage.LockChannels, ID: place.ChannelID}
			require.NoError(s, s.authz.Change(s.Context(), authz.Plan{
				Affected: func(tx storage.Tx) ([]string, error) { return authz.AffectedByArchive(tx, place) },
				Change:   func(tx storage.Tx) error { return tx.Exec(query) },
			}, key))
			return s.changes(head)
		}
		above := []string{owner.Principal, writer.Principal, lead.Principal, member.Principal, agent.Principal}
		t.Run("ES-8.2 an archived channel lowers everybody above read on it", func(t *testing.T) {
			s := s.on(t)
			changes := archive(s, authz.Place{SpaceID: space, ChannelID: channel}, `UPDATE channels SET archived_at = 1 WHERE id = '`+channel+`'`)
			require.ElementsMatch(t, above, keys(changes))
			require.Equal(t, []wire.Access{{Kind: wire.TargetChannel, ID: channel, Level: wire.LevelRead, PreviousLevel: wire.LevelTrigger}}, changes[agent.Principal].Changed)
			changes = archive(s, authz.Place{SpaceID: space, ChannelID: channel}, `UPDATE channels SET archived_at = NULL WHERE id = '`+channel+`'`)
			require.ElementsMatch(t, above, keys(changes))
		})
		t.Run("ES-8.2 an archived space lowers those on each of its channels", func(t *testing.T) {
			s := s.on(t)
			changes := archive(s, authz.Place{SpaceID: space}, `UPDATE spaces SET archived_at = 1 WHERE id = '`+space+`'`)
			require.ElementsMatch(t, append(slices.Clone(above), away.Principal), keys(changes))
			require.Len(t, changes[lead.Principal].Changed, 3)
		})
	})
}

func keys[T any](all map[string]T) []string {
	ids := make([]string, 0, len(all))
	for id := range all {
		ids = append(ids, id)
	}
	return ids
}
