package authz_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// past is a moment that is over for the database.
var past = time.UnixMicro(1_600_000_000_000_000).UTC()

func (s *stage) sweep(notice time.Duration) {
	s.Helper()
	require.NoError(s, s.authz.Sweep(s.Context(), notice))
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStage(t, db.DB)
		owner := s.owner()
		space := s.space()
		channel := s.channel(space)
		place := authz.Place{SpaceID: space, ChannelID: channel}
		t.Run("ES-8.2 what has ended has no effect at once, and is told by the sweep", func(t *testing.T) {
			s := s.on(t)
			ada := s.person()
			id := s.grantRow(ada.Principal, onChannel(channel), wire.LevelWrite, &past)
			require.Equal(t, wire.LevelNone, s.load(ada.Principal).Level(place, s.env.Now()))
			require.Empty(t, s.visible(ada.Principal))
			before := s.state()
			s.sweep(0)
			require.Equal(t, before.PermissionVersion+1, s.state().PermissionVersion)
			require.Equal(t, []wire.Access{{Kind: wire.TargetSpace, ID: space}, {Kind: wire.TargetChannel, ID: channel}}, s.changes(before.Head)[ada.Principal].Removed)
			require.Equal(t, &wire.Actor{Kind: wire.KindSystem}, s.events(before.Head)[0].Actor)
			s.requireAudited("grant:expire", id)
			state := s.state()
			s.sweep(0)
			require.Equal(t, state, s.state(), "once")
		})
		t.Run("ES-8.2 a membership that has ended is told too", func(t *testing.T) {
			s := s.on(t)
			ada := s.person()
			crew := s.crew(owner, ada)
			s.grant(owner, group(crew), onSpace(space), wire.LevelTrigger)
			s.exec(`UPDATE group_members SET expires_at = $2 WHERE group_id = $1`, crew, past)
			head := s.head()
			s.sweep(0)
			require.Len(t, s.changes(head)[ada.Principal].Removed, 2)
			s.requireAudited("group_member:expire", crew)
			require.NoError(t, s.authz.DeleteGroup(t.Context(), owner, crew))
		})
		t.Run("ES-8.2 who keeps the level another way is told nothing", func(t *testing.T) {
			s := s.on(t)
			ada := s.person()
			s.grantRow(ada.Principal, onChannel(channel), wire.LevelWrite, &past)
			s.grantRow(ada.Principal, onSpace(space), wire.LevelManage, nil)
			head := s.head()
			s.sweep(0)
			require.Empty(t, s.changes(head))
		})
		t.Run("WS-AZ-6 a change that comes before the sweep tells first what has ended", func(t *testing.T) {
			s := s.on(t)
			ada := s.person()
			s.grantRow(ada.Principal, onChannel(channel), wire.LevelManage, &past) // it was told while it was good
			head := s.head()
			s.grant(owner, principal(ada.Principal), onChannel(channel), wire.LevelRead)
			// What happened in between was not for her: she has to load the channel anew.
			changes := s.allChanges(head)[ada.Principal]
			require.Len(t, changes, 2)
			require.Equal(t, []wire.Access{{Kind: wire.TargetSpace, ID: space}, {Kind: wire.TargetChannel, ID: channel}}, changes[0].Removed)
			require.Equal(t, asMap(s.visible(ada.Principal)), asMap(changes[1].Added))
			require.Empty(t, slices.Concat(changes[0].Added, changes[0].Changed, changes[1].Removed, changes[1].Changed))
			head = s.head()
			s.sweep(0)
			require.Empty(t, s.changes(head))
		})
		t.Run("a membership that has ended can be renewed before the sweep", func(t *testing.T) {
			s := s.on(t)
			ada := s.person()
			crew := s.crew(owner, ada)
			s.grant(owner, group(crew), onSpace(space), wire.LevelTrigger)
			s.exec(`UPDATE group_members SET expires_at = $2 WHERE group_id = $1`, crew, past)
			_, err := s.authz.PutMember(t.Context(), owner, crew, ada.Principal, wire.PutMember{})
			require.NoError(t, err)
			s.sweep(0)
			require.NotEmpty(t, s.visible(ada.Principal))
			require.NoError(t, s.authz.DeleteGroup(t.Context(), owner, crew))
		})
		t.Run("WS-AZ-6 many ends are written in small steps", func(t *testing.T) {
			s := s.on(t)
			ada := s.person()
			require.NoError(t, s.db.Write(t.Context(), nil, func(tx storage.Tx) error {
				for i := range 1200 {
					err := tx.Exec(`INSERT INTO grants (id, subject_kind, subject_id, target_kind, target_id, level, created_at, expires_at)
						VALUES ($1, 'principal', $2, 'channel', $3, 'read', 1, $4)`, s.env.NewID(), ada.Principal, channel, past.Add(time.Duration(i)*time.Second))
					if err != nil {
						return err
					}
				}
				return nil
			}))
			before := s.state()
			s.sweep(0)
			require.Equal(t, before.PermissionVersion+3, s.state().PermissionVersion)
			require.Len(t, s.changes(before.Head), 1, "told when the last of them ends")
		})
		t.Run("WS-AZ-6 an end is announced once, in time", func(t *testing.T) {
			s := s.on(t)
			ada, eva := s.person(), s.person()
			end, later := until(s.env.Now(), time.Hour), until(s.env.Now(), 48*time.Hour)
			crew := s.crew(owner, eva)
			s.grant(owner, group(crew), onSpace(space), wire.LevelTrigger)
			s.exec(`UPDATE group_members SET expires_at = $2 WHERE group_id = $1`, crew, end)
			s.grantRow(ada.Principal, onChannel(channel), wire.LevelWrite, end)
			s.grantRow(ada.Principal, onSpace(space), wire.LevelRead, end)
			s.grantRow(ada.Principal, instance, wire.LevelRead, later)
			before := s.state()
			s.sweep(24 * time.Hour)
			s.sweep(24 * time.Hour)
			require.Equal(t, before.PermissionVersion, s.state().PermissionVersion)
			require.Equal(t, map[string]wire.AccessExpiring{
				ada.Principal: {ExpiresAt: *end, Targets: []wire.Access{
					{Kind: wire.TargetChannel, ID: channel, Level: wire.LevelWrite}, {Kind: wire.TargetSpace, ID: space, Level: wire.LevelRead},
				}},
				eva.Principal: {ExpiresAt: *end, Targets: []wire.Access{{Kind: wire.TargetSpace, ID: space, Level: wire.LevelTrigger}}},
			}, s.announced(before.Head))
			head := s.head()
			s.sweep(72 * time.Hour)
			require.Len(t, s.announced(head), 1, "the later one has its turn")
			_, err := s.authz.PutMember(t.Context(), owner, crew, eva.Principal, wire.PutMember{ExpiresAt: later})
			require.NoError(t, err)
			head = s.head()
			s.sweep(72 * time.Hour)
			require.Equal(t, *later, s.announced(head)[eva.Principal].ExpiresAt, "another end is announced anew")
		})
		t.Run("ES-8.2 nodes that sweep at once write it once", func(t *testing.T) {
			s := s.on(t)
			other := newStage(t, testkit.Open(t, storage.Options{URL: db.URL}))
			ada, eva := s.person(), s.person()
			s.grantRow(ada.Principal, onChannel(channel), wire.LevelWrite, &past)
			s.grantRow(eva.Principal, onChannel(channel), wire.LevelWrite, until(s.env.Now(), time.Minute))
			before := s.state()
			var group sync.WaitGroup
			for _, node := range []*stage{s, other, s, other} {
				group.Go(func() {
					if err := node.authz.Sweep(context.WithoutCancel(t.Context()), time.Hour); err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
			require.Equal(t, before.PermissionVersion+1, s.state().PermissionVersion)
			require.Len(t, s.changes(before.Head), 1)
			require.Len(t, s.announced(before.Head), 1)
		})
		t.Run("the service sweeps by itself", func(t *testing.T) {
			s := s.on(t)
			ada := s.person()
			sweeper := authz.NewSweeper(authz.SweeperOptions{Authz: s.authz, Log: quiet, Interval: 10 * time.Millisecond, Notice: time.Hour})
			head := s.head()
			require.NoError(t, sweeper.Start(t.Context()))
			s.grantRow(ada.Principal, onChannel(channel), wire.LevelWrite, &past)
			require.Eventually(t, func() bool { return len(s.changes(head)) == 1 }, 20*time.Second, 5*time.Millisecond)
			require.NoError(t, sweeper.Stop(t.Context()))
		})
	})
}

func (s *stage) requireAudited(act, target string) {
	s.Helper()
	rows, err := storage.Read(s.Context(), s.db, func(tx storage.Tx) ([]audit.Row, error) { return audit.Latest(tx, 0, 1) })
	require.NoError(s, err)
	require.Equal(s, []string{act, target, audit.System}, []string{rows[0].Action, rows[0].TargetID, rows[0].UserID})
}

// announced answers the access.expiring after a number, by whom they are for.
func (s *stage) announced(after int64) map[string]wire.AccessExpiring {
	s.Helper()
	all := map[string]wire.AccessExpiring{}
	for _, record := range s.events(after) {
		if record.Type == eventlog.AccessExpiring {
			var payload wire.AccessExpiring
			require.NoError(s, json.Unmarshal(record.Payload, &payload))
			require.NotContains(s, all, record.AudienceID)
			all[record.AudienceID] = payload
		}
	}
	return all
}

func TestLargeChanges(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStage(t, db.DB)
		owner, ada := s.owner(), s.person()
		space := s.space()
		require.NoError(t, s.db.Write(t.Context(), nil, func(tx storage.Tx) error {
			for i := range 2000 {
				err := tx.Exec(`INSERT INTO channels (id, space_id, kind, name, created_at) VALUES ($1, $2, 'text', $3, 1)`, s.env.NewID(), space, fmt.Sprint(i))
				if err != nil {
					return err
				}
			}
			return nil
		}))
		t.Run("ES-2.2 a change that does not fit into an event says that it is truncated", func(t *testing.T) {
			s := s.on(t)
			head := s.head()
			grant := s.grant(owner, principal(ada.Principal), onSpace(space), wire.LevelRead)
			require.True(t, s.events(head)[0].Truncated)
			require.Equal(t, wire.AccessChanged{PermissionVersion: s.state().PermissionVersion}, s.changes(head)[ada.Principal])
			head = s.head()
			_, err := s.authz.RevokeGrant(t.Context(), owner, grant.ID)
			require.NoError(t, err)
			require.True(t, s.events(head)[0].Truncated)
		})
		t.Run("the server itself, and who has its database in hand, may do everything", func(t *testing.T) {
			s := s.on(t)
			grant := s.grant(authz.System(), principal(ada.Principal), onSpace(space), wire.LevelRead)
			require.Equal(t, &wire.Actor{Kind: wire.KindSystem}, s.events(s.head() - 1)[0].Actor)
			s.requireAudited("grant:create", grant.ID)
			require.NoError(t, s.db.Read(t.Context(), func(tx storage.Tx) error {
				_, err := authz.Check(tx, authz.System(), action.GrantManage, authz.Resource{})
				return err
			}))
		})
	})
}
