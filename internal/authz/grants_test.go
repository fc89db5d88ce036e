package authz_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/idempotency"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func (s *stage) grant(by authz.Caller, subject wire.Subject, target wire.Target, level wire.Level) wire.Grant {
	s.Helper()
	grant, err := s.authz.CreateGrant(s.Context(), by, wire.NewGrant{Subject: subject, Target: target, Level: level})
	require.NoError(s, err)
	return grant
}

// changes answers the access.changed after a number, by whom they are for.
func (s *stage) changes(after int64) map[string]wire.AccessChanged {
	s.Helper()
	all := map[string]wire.AccessChanged{}
	for id, changes := range s.allChanges(after) {
		require.Len(s, changes, 1, "one for each principal")
		all[id] = changes[0]
	}
	return all
}

// allChanges is changes for whoever may have several, in order.
func (s *stage) allChanges(after int64) map[string][]wire.AccessChanged {
	s.Helper()
	all := map[string][]wire.AccessChanged{}
	for _, record := range s.events(after) {
		if record.Type != eventlog.AccessChanged {
			continue
		}
		var change wire.AccessChanged
		require.NoError(s, json.Unmarshal(record.Payload, &change))
		require.Equal(s, change.PermissionVersion, record.PermissionVersion)
		all[record.AudienceID] = append(all[record.AudienceID], change)
	}
	return all
}

func (s *stage) requireCode(want code.Code, err error) {
	s.Helper()
	require.Error(s, err)
	require.Equal(s, want, fault.From(err).Code, "%v", err)
}

func TestGrants(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStage(t, db.DB)
		owner, ada, eva := s.owner(), s.person(), s.person()
		space := s.space()
		channel, other := s.channel(space), s.channel(s.space())
		t.Run("WS-AZ-6 a grant is told to its subject alone, with the version it made", func(t *testing.T) {
			s := s.on(t)
			before := s.state()
			grant := s.grant(owner, principal(ada.Principal), onChannel(channel), wire.LevelWrite)
			require.Equal(t, before.PermissionVersion+1, s.state().PermissionVersion)
			require.Equal(t, map[string]wire.AccessChanged{ada.Principal: {
				PermissionVersion: before.PermissionVersion + 1,
				Added: []wire.Access{
					{Kind: wire.TargetSpace, ID: space}, {Kind: wire.TargetChannel, ID: channel, Level: wire.LevelWrite},
				},
			}}, s.changes(before.Head))
			require.Equal(t, &wire.Actor{ID: owner.Principal, Kind: wire.KindUser}, s.events(before.Head)[0].Actor)
			head := s.head()
			s.grant(owner, principal(ada.Principal), onSpace(space), wire.LevelRead)
			require.Equal(t, []wire.Access{{Kind: wire.TargetSpace, ID: space, Level: wire.LevelRead}}, s.changes(head)[ada.Principal].Changed,
				"the channel is granted higher: no difference there")
			head = s.head()
			s.grant(owner, principal(ada.Principal), onChannel(channel), wire.LevelManage)
			require.Equal(t, []wire.Access{{Kind: wire.TargetChannel, ID: channel, Level: wire.LevelManage, PreviousLevel: wire.LevelWrite}},
				s.changes(head)[ada.Principal].Changed)
			head = s.head()
			s.grant(owner, principal(ada.Principal), onChannel(channel), wire.LevelRead)
			require.Empty(t, s.changes(head), "whoever has no difference is told nothing")
			revoked, err := s.authz.RevokeGrant(t.Context(), owner, grant.ID)
			require.NoError(t, err)
			require.NotNil(t, revoked.RevokedAt)
			require.Empty(t, s.changes(head), "there is a higher one")
			version := s.state().PermissionVersion
			again, err := s.authz.RevokeGrant(t.Context(), owner, grant.ID)
			require.NoError(t, err)
			require.Equal(t, revoked.RevokedAt, again.RevokedAt)
			require.Equal(t, version, s.state().PermissionVersion, "safe to repeat")
		})
		t.Run("WS-AZ-3 the instance keeps an active person who owns it", func(t *testing.T) {
			s := s.on(t)
			grants, more, err := s.authz.ListGrants(t.Context(), owner, authz.GrantFilter{Target: &instance})
			require.NoError(t, err)
			require.False(t, more)
			require.Len(t, grants, 1)
			_, err = s.authz.RevokeGrant(t.Context(), owner, grants[0].ID)
			s.requireCode(code.LastOwner, err)
			for name, in := range map[string]wire.NewGrant{ // none of these is an owner in the sense of the rule
				"a group's":     {Subject: group(s.crew(owner, eva)), Target: instance, Level: wire.LevelOwner},
				"one that ends": {Subject: principal(eva.Principal), Target: instance, Level: wire.LevelOwner, ExpiresAt: until(s.env.Now(), time.Hour)},
				"an agent's":    {Subject: principal(s.principal(wire.KindAgent).Principal), Target: instance, Level: wire.LevelOwner},
				"a manager's":   {Subject: principal(eva.Principal), Target: instance, Level: wire.LevelManage},
			} {
				_, err = s.authz.CreateGrant(t.Context(), owner, in)
				require.NoError(t, err, name)
				_, err = s.authz.RevokeGrant(t.Context(), owner, grants[0].ID)
				s.requireCode(code.LastOwner, err)
			}
			second := s.grant(owner, principal(eva.Principal), instance, wire.LevelOwner)
			_, err = s.authz.RevokeGrant(t.Context(), owner, grants[0].ID)
			require.NoError(t, err)
			_, err = s.authz.RevokeGrant(t.Context(), eva, second.ID)
			s.requireCode(code.LastOwner, err)
			s.grant(eva, principal(owner.Principal), instance, wire.LevelOwner)
			all, _, err := s.authz.ListGrants(t.Context(), owner, authz.GrantFilter{Subject: &wire.Subject{Kind: "principal", ID: eva.Principal}})
			require.NoError(t, err)
			for _, grant := range all {
				_, err = s.authz.RevokeGrant(t.Context(), owner, grant.ID)
				require.NoError(t, err)
			}
			require.NoError(t, s.authz.DeleteGroup(t.Context(), owner, s.groupNamed(owner, "crew")))
		})
		t.Run("WS-AZ-5 what the caller does not see does not exist", func(t *testing.T) {
			s := s.on(t)
			lead := s.person()
			s.grant(owner, principal(lead.Principal), onSpace(space), wire.LevelOwner)
			nobody := s.env.NewID()
			valid := wire.NewGrant{Subject: principal(ada.Principal), Target: onChannel(channel), Level: wire.LevelRead}
			_, err := s.authz.CreateGrant(t.Context(), lead, valid)
			require.NoError(t, err, "an owner of a space grants on it and its channels")
			answers := map[string]error{}
			for name, change := range map[string]func(*wire.NewGrant){
				"unknown subject": func(in *wire.NewGrant) { in.Subject.ID = nobody },
				"stranger":        func(in *wire.NewGrant) { in.Subject.ID = eva.Principal },
				"unknown group":   func(in *wire.NewGrant) { in.Subject = group(nobody) },
				"unknown target":  func(in *wire.NewGrant) { in.Target.ID = nobody },
				"unseen target":   func(in *wire.NewGrant) { in.Target.ID = other },
				"unknown space":   func(in *wire.NewGrant) { in.Target = onSpace(nobody) },
				"unknown host": func(in *wire.NewGrant) {
					in.Target, in.Level, in.Capabilities = wire.Target{Kind: "host", ID: nobody}, "", []string{"terminal"}
				},
				"no UUID":           func(in *wire.NewGrant) { in.Subject.ID = "ada" },
				"instance with id":  func(in *wire.NewGrant) { in.Target = wire.Target{Kind: "instance", ID: nobody} },
				"level of a host":   func(in *wire.NewGrant) { in.Target.Kind = "host" },
				"capability only":   func(in *wire.NewGrant) { in.Level, in.Capabilities = "", []string{"terminal"} },
				"both":              func(in *wire.NewGrant) { in.Capabilities = []string{"terminal"} },
				"no level":          func(in *wire.NewGrant) { in.Level = "" },
				"unknown level":     func(in *wire.NewGrant) { in.Level = "admin" },
				"unknown kind":      func(in *wire.NewGrant) { in.Target.Kind = "thread" },
				"over already":      func(in *wire.NewGrant) { in.ExpiresAt = until(s.env.Now(), -time.Hour) },
				"subject of a kind": func(in *wire.NewGrant) { in.Subject.Kind = "user" },
			} {
				in := valid
				change(&in)
				_, err := s.authz.CreateGrant(t.Context(), lead, in)
				s.requireCode(code.ValidationFailed, err)
				answers[name] = err
			}
			require.Equal(t, answers["unknown subject"], answers["stranger"])
			require.Equal(t, answers["unknown target"], answers["unseen target"])
			_, err = s.authz.CreateGrant(t.Context(), lead, wire.NewGrant{Subject: principal(ada.Principal), Target: instance, Level: wire.LevelRead})
			s.requireCode(code.Forbidden, err)
			_, err = s.authz.CreateGrant(t.Context(), ada, valid)
			s.requireCode(code.Forbidden, err)
			grant := s.grant(owner, principal(lead.Principal), onChannel(other), wire.LevelRead)
			_, err = s.authz.RevokeGrant(t.Context(), ada, grant.ID)
			s.requireCode(code.NotFound, err)
			_, err = s.authz.RevokeGrant(t.Context(), lead, grant.ID)
			s.requireCode(code.Forbidden, err)
			for _, id := range []string{nobody, "no UUID"} {
				_, err = s.authz.RevokeGrant(t.Context(), owner, id)
				s.requireCode(code.NotFound, err)
			}
		})
		t.Run("WS-AZ-5 lists are for those who own what is listed", func(t *testing.T) {
			s := s.on(t)
			target, mine := onChannel(channel), principal(ada.Principal)
			list := func(by authz.Caller, filter authz.GrantFilter) error {
				_, _, err := s.authz.ListGrants(t.Context(), by, filter)
				return err
			}
			require.NoError(t, list(ada, authz.GrantFilter{Subject: &mine}))
			s.requireCode(code.Forbidden, list(ada, authz.GrantFilter{}))
			s.requireCode(code.Forbidden, list(ada, authz.GrantFilter{Target: &target}))
			unseen := onChannel(other)
			s.requireCode(code.NotFound, list(eva, authz.GrantFilter{Target: &unseen}))
			gone := onChannel(s.env.NewID())
			s.requireCode(code.NotFound, list(owner, authz.GrantFilter{Target: &gone}))
			goneSpace, unseenSpace := onSpace(gone.ID), onSpace(s.space())
			host := wire.Target{Kind: wire.TargetHost, ID: gone.ID}
			for _, target := range []wire.Target{unseen, goneSpace, unseenSpace, host} {
				require.Equal(t, fault.From(list(eva, authz.GrantFilter{Target: &gone})), fault.From(list(eva, authz.GrantFilter{Target: &target})),
					"what is not seen reads like what is not there")
			}
			var ids []string
			for after := ""; ; {
				page, more, err := s.authz.ListGrants(t.Context(), owner, authz.GrantFilter{Target: &target, After: after, Limit: 1})
				require.NoError(t, err)
				for _, grant := range page {
					require.Equal(t, target, grant.Target)
					ids, after = append(ids, grant.ID), grant.ID
				}
				if !more {
					break
				}
			}
			whole, _, err := s.authz.ListGrants(t.Context(), owner, authz.GrantFilter{Target: &target})
			require.NoError(t, err)
			require.Len(t, ids, len(whole))
		})
		t.Run("WS-ID-5 changing grants needs a recent proof of who one is", func(t *testing.T) {
			s := s.on(t)
			tired := owner
			tired.AuthTime = time.Now().Add(-2 * tired.StepUpMaxAge)
			_, err := s.authz.CreateGrant(t.Context(), tired, wire.NewGrant{Subject: principal(ada.Principal), Target: instance, Level: wire.LevelRead})
			s.requireCode(code.StepUpRequired, err)
			_, err = s.authz.CreateGroup(t.Context(), tired, wire.NewGroup{Name: "tired"})
			s.requireCode(code.StepUpRequired, err)
		})
		t.Run("ES-5.2 a repeated grant is answered as the first time, and made once", func(t *testing.T) {
			s := s.on(t)
			in := wire.NewGrant{Subject: principal(eva.Principal), Target: onChannel(channel), Level: wire.LevelRead, ExpiresAt: until(s.env.Now(), 300*time.Millisecond)}
			by := owner
			by.Key = &idempotency.Key{Principal: owner.Principal, Method: "POST", Path: "/api/v1/grants", ID: s.env.NewID(), Hash: "h"}
			first, err := s.authz.CreateGrant(t.Context(), by, in)
			require.NoError(t, err)
			require.False(t, by.Key.Replayed)
			version := s.state().PermissionVersion
			require.Eventually(t, func() bool { return s.env.Now().After(*in.ExpiresAt) }, 10*time.Second, time.Millisecond)
			second, err := s.authz.CreateGrant(t.Context(), by, in)
			require.NoError(t, err, "also when its end has come meanwhile")
			require.True(t, by.Key.Replayed)
			require.Equal(t, first.ID, second.ID)
			require.Equal(t, version, s.state().PermissionVersion)
			by.Key.Hash = "another"
			_, err = s.authz.CreateGrant(t.Context(), by, in)
			s.requireCode(code.IdempotencyKeyReuse, err)
		})
		t.Run("WS-AZ-6 every change has its audit row", func(t *testing.T) {
			report, err := audit.Verify(t.Context(), s.db)
			require.NoError(t, err)
			require.Zero(t, report.Broken)
			rows, err := storage.Read(t.Context(), s.db, func(tx storage.Tx) ([]audit.Row, error) { return audit.Latest(tx, 0, 1000) })
			require.NoError(t, err)
			done := map[string]int{}
			for _, row := range rows {
				done[row.Action]++
			}
			require.Positive(t, done["grant:create"])
			require.Positive(t, done["grant:revoke"])
			require.Positive(t, done["group:create"])
		})
	})
}

func until(now time.Time, d time.Duration) *time.Time {
	at := now.Add(d).UTC().Truncate(time.Microsecond)
	return &at
}

// crew makes a group called crew of one member.
func (s *stage) crew(by, member authz.Caller) string {
	s.Helper()
	group, err := s.authz.CreateGroup(s.Context(), by, wire.NewGroup{Name: "crew"})
	require.NoError(s, err)
	_, err = s.authz.PutMember(s.Context(), by, group.ID, member.Principal, wire.PutMember{})
	require.NoError(s, err)
	return group.ID
}

func (s *stage) groupNamed(by authz.Caller, name string) string {
	s.Helper()
	groups, _, err := s.authz.ListGroups(s.Context(), by, "", 0)
	require.NoError(s, err)
	for _, group := range groups {
		if group.Name == name {
			return group.ID
		}
	}
	s.Fatalf("no group %s", name)
	return ""
}

func TestFirstOwner(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		t.Run("WS-AZ-3 who comes first owns the instance, and nobody after", func(t *testing.T) {
			s := newStage(t, db.DB)
			var group sync.WaitGroup
			for i := range 6 {
				group.Go(func() {
					id := s.env.NewID()
					err := s.authz.Change(context.WithoutCancel(t.Context()), authz.Plan{
						Affected: func(storage.Tx) ([]string, error) { return []string{id}, nil },
						Change: func(tx storage.Tx) error {
							err := tx.Exec(`INSERT INTO principals (id, kind, handle, display_name, status, created_at) VALUES ($1, 'user', $2, 'x', 'active', 1)`,
								id, fmt.Sprint("h", i))
							if err != nil {
								return err
							}
							_, err = authz.FirstOwner(tx, s.env, id)
							return err
						},
					})
					if err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
			require.Len(t, s.changes(0), 1)
			for id, change := range s.changes(0) {
				require.Equal(t, []wire.Access{{Kind: wire.TargetInstance, Level: wire.LevelOwner}}, change.Added)
				require.Equal(t, wire.LevelOwner, s.load(id).Level(authz.Place{}, s.env.Now()))
			}
		})
	})
}
