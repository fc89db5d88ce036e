package authz_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

var levels = []wire.Level{wire.LevelNone, wire.LevelRead, wire.LevelWrite, wire.LevelTrigger, wire.LevelManage, wire.LevelOwner}

// refusal is the code that an action is refused with, "" when it is allowed.
func refusal(s *authz.Snapshot, by authz.Caller, a action.Action, r authz.Resource, now time.Time) code.Code {
	err := authz.Authorize(s, by, a, r, now)
	if err == nil {
		return ""
	}
	return fault.From(err).Code
}

func TestLevels(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStage(t, db.DB)
		space := s.space()
		channel := s.channel(space)
		people := map[wire.Level]authz.Caller{}
		for _, level := range levels {
			people[level] = s.person()
			if level != wire.LevelNone {
				s.grantRow(people[level].Principal, onChannel(channel), level, nil)
			}
		}
		now := s.env.Now()
		open := authz.Place{SpaceID: space, ChannelID: channel}
		readOnly, archived, archivedSpace := open, open, open
		readOnly.ReadOnly, archived.Archived, archivedSpace.SpaceArchived = true, true, true
		refused := func(level wire.Level, a action.Action, place authz.Place, owner string) code.Code {
			return refusal(s.load(people[level].Principal), people[level], a, authz.Resource{What: "Channel", Place: place, Owner: owner}, now)
		}
		// Which level an action needs where the channel is open, read-only, and archived; "-" is none that reaches.
		const never = wire.Level("-")
		for _, row := range []struct {
			action                   action.Action
			open, readOnly, archived wire.Level
		}{
			{action.MessageRead, wire.LevelRead, wire.LevelRead, wire.LevelRead},
			{action.MessageCreate, wire.LevelWrite, wire.LevelManage, never},
			{action.ReactionWrite, wire.LevelWrite, wire.LevelManage, never},
			{action.ThreadCreate, wire.LevelWrite, wire.LevelManage, never},
			{action.AgentInvoke, wire.LevelTrigger, wire.LevelManage, never},
			{action.PinWrite, wire.LevelManage, wire.LevelManage, never},
			{action.ThreadMove, wire.LevelManage, wire.LevelManage, never},
			{action.SettingsManage, wire.LevelManage, wire.LevelManage, never},
			{action.ChannelManage, wire.LevelManage, wire.LevelManage, never},
			{action.ChannelArchive, wire.LevelManage, wire.LevelManage, wire.LevelManage},
			{action.MessageDelete, wire.LevelManage, wire.LevelManage, wire.LevelManage},
			{action.GrantManage, wire.LevelOwner, wire.LevelOwner, wire.LevelOwner},
			{action.PersonalWrite, wire.LevelRead, wire.LevelRead, wire.LevelRead},
		} {
			t.Run("WS-AZ-1 WS-AZ-2 "+string(row.action), func(t *testing.T) {
				for _, level := range levels {
					for _, where := range []struct {
						place  authz.Place
						needed wire.Level
					}{{open, row.open}, {readOnly, row.readOnly}, {archived, row.archived}, {archivedSpace, row.archived}} {
						want := code.Code("")
						switch {
						case level == wire.LevelNone:
							want = code.NotFound
						case where.needed == never || level.Rank() < where.needed.Rank():
							want = code.Forbidden
						}
						require.Equal(t, want, refused(level, row.action, where.place, ""), "%s at %+v", level, where.place)
					}
				}
			})
		}
		t.Run("WS-AZ-7 manage deletes others' messages and never edits them", func(t *testing.T) {
			author := people[wire.LevelWrite].Principal
			require.Empty(t, refused(wire.LevelManage, action.MessageDelete, open, author))
			require.Equal(t, code.Forbidden, refused(wire.LevelOwner, action.MessageEdit, open, author))
			require.Empty(t, refused(wire.LevelWrite, action.MessageEdit, open, author))
			require.Equal(t, code.Forbidden, refused(wire.LevelWrite, action.MessageEdit, readOnly, author))
		})
		t.Run("a refusal says what is missing", func(t *testing.T) {
			for _, row := range []struct {
				level  wire.Level
				action action.Action
				place  authz.Place
				want   string
			}{
				{wire.LevelRead, action.MessageCreate, open, "This needs the level write on the channel."},
				{wire.LevelWrite, action.MessageCreate, readOnly, "The channel is read-only: this needs the level manage on it."},
				{wire.LevelOwner, action.MessageCreate, archived, "The channel is archived."},
				{wire.LevelOwner, action.MessageCreate, archivedSpace, "The space is archived."},
				{wire.LevelOwner, action.MessageEdit, open, "Only who it belongs to may do this."},
				{wire.LevelWrite, action.ChannelCreate, authz.Place{SpaceID: space}, "This needs the level manage on the space."},
				{wire.LevelOwner, action.UserManage, authz.Place{}, "This needs the level owner on the instance."},
			} {
				who := people[row.level]
				err := authz.Authorize(s.load(who.Principal), who, row.action, authz.Resource{What: "Channel", Place: row.place, Owner: "else"}, now)
				require.Equal(t, row.want, fault.From(err).Message, row.action)
			}
		})
		t.Run("WS-AZ-2 one's own messages can be deleted wherever one could write", func(t *testing.T) {
			for _, place := range []authz.Place{open, readOnly, archived, archivedSpace} {
				require.Empty(t, refused(wire.LevelWrite, action.MessageDelete, place, people[wire.LevelWrite].Principal))
				require.Equal(t, code.Forbidden, refused(wire.LevelRead, action.MessageDelete, place, people[wire.LevelRead].Principal))
				require.Equal(t, code.NotFound, refused(wire.LevelNone, action.MessageDelete, place, people[wire.LevelNone].Principal))
			}
		})
		t.Run("WS-AZ-5 a file is read by its uploader and by whoever reads its channel", func(t *testing.T) {
			require.Empty(t, refused(wire.LevelNone, action.FileRead, authz.Place{}, people[wire.LevelNone].Principal))
			require.Empty(t, refused(wire.LevelRead, action.FileRead, open, "somebody"))
			require.Equal(t, code.NotFound, refused(wire.LevelNone, action.FileRead, open, "somebody"))
			require.Equal(t, code.NotFound, refused(wire.LevelOwner, action.FileRead, authz.Place{}, "somebody"), "in no channel yet")
		})
		t.Run("WS-AZ-2 the highest of what is granted counts, on the channel, its space and the instance", func(t *testing.T) {
			ada := s.person()
			s.grantRow(ada.Principal, onChannel(channel), wire.LevelRead, nil)
			s.grantRow(ada.Principal, onSpace(space), wire.LevelTrigger, nil)
			require.Equal(t, wire.LevelTrigger, s.load(ada.Principal).Level(open, now))
			s.grantRow(ada.Principal, instance, wire.LevelWrite, nil)
			require.Equal(t, wire.LevelTrigger, s.load(ada.Principal).Level(open, now))
			require.Equal(t, wire.LevelWrite, s.load(ada.Principal).Level(authz.Place{SpaceID: "another"}, now))
			s.grantRow(ada.Principal, onChannel(channel), wire.LevelManage, nil)
			require.Equal(t, wire.LevelManage, s.load(ada.Principal).Level(open, now))
		})
		t.Run("WS-AZ-7 what concerns everybody needs owner on the instance, a new space manage", func(t *testing.T) {
			for _, level := range levels {
				someone := s.person()
				s.grantRow(someone.Principal, onSpace(space), wire.LevelOwner, nil) // owning a space is not enough
				if level != wire.LevelNone {
					s.grantRow(someone.Principal, instance, level, nil)
				}
				snapshot := s.load(someone.Principal)
				for _, a := range []action.Action{action.UserManage, action.GroupManage, action.AgentManage, action.KeyManage, action.AuditRead, action.GrantManage} {
					require.Equal(t, level == wire.LevelOwner, refusal(snapshot, someone, a, authz.Resource{}, now) == "", "%s with %s", a, level)
				}
				require.Equal(t, level.Rank() >= wire.LevelManage.Rank(), refusal(snapshot, someone, action.SpaceCreate, authz.Resource{}, now) == "")
			}
		})
		t.Run("WS-AZ-2 the operator of a space triggers everywhere in it", func(t *testing.T) {
			agent := s.principal(wire.KindAgent)
			mine := s.space()
			s.exec(`UPDATE spaces SET operator_agent_id = $2 WHERE id = $1`, mine, agent.Principal)
			snapshot := s.load(agent.Principal)
			require.Equal(t, wire.LevelTrigger, snapshot.Level(authz.Place{SpaceID: mine, ChannelID: s.channel(mine)}, now))
			require.Equal(t, wire.LevelNone, snapshot.Level(open, now))
		})
		t.Run("WS-AZ-2 a space is visible to whoever sees one of its channels", func(t *testing.T) {
			require.True(t, s.load(people[wire.LevelRead].Principal).SeesSpace(space, now))
			require.False(t, s.load(people[wire.LevelNone].Principal).SeesSpace(space, now))
			require.Equal(t, code.Forbidden, refusal(s.load(people[wire.LevelOwner].Principal), people[wire.LevelOwner], action.SpaceManage,
				authz.Resource{What: "Space", Place: authz.Place{SpaceID: space}}, now))
			require.Equal(t, code.NotFound, refusal(s.load(people[wire.LevelNone].Principal), people[wire.LevelNone], action.SpaceManage,
				authz.Resource{What: "Space", Place: authz.Place{SpaceID: space}}, now))
		})
		t.Run("WS-AZ-4 a personal event is its audience's alone", func(t *testing.T) {
			ada := s.load(people[wire.LevelOwner].Principal)
			_, may := ada.May(action.AudienceReceive, &authz.Resource{Audience: ada.Principal.ID}, now)
			require.True(t, may)
			for _, audience := range []string{"", people[wire.LevelRead].Principal} {
				_, may = ada.May(action.AudienceReceive, &authz.Resource{Audience: audience}, now)
				require.False(t, may)
			}
		})
		t.Run("ES-8.2 a capability on a host ends when its grant does", func(t *testing.T) {
			ada, soon := s.person(), now.Add(time.Hour)
			s.exec(`INSERT INTO grants (id, subject_kind, subject_id, target_kind, target_id, capabilities, created_at, expires_at)
				VALUES ($1, 'principal', $2, 'host', 'h', '["terminal"]', 1, $3)`, s.env.NewID(), ada.Principal, soon)
			snapshot := s.load(ada.Principal)
			_, may := snapshot.May(action.HostRead, &authz.Resource{Host: "h"}, now)
			require.True(t, may)
			_, may = snapshot.May(action.HostRead, &authz.Resource{Host: "h"}, soon)
			require.False(t, may)
			_, may = snapshot.May(action.HostRead, &authz.Resource{Host: "another"}, now)
			require.False(t, may)
			require.Equal(t, []wire.Access{{Kind: wire.TargetHost, ID: "h", Capabilities: []string{"terminal"}}}, s.visible(ada.Principal))
		})
		t.Run("WS-AZ-4 who is not active may nothing, and agents not what only people may", func(t *testing.T) {
			ada := s.person()
			s.grantRow(ada.Principal, instance, wire.LevelOwner, nil)
			s.exec(`UPDATE principals SET status = 'pending' WHERE id = $1`, ada.Principal)
			require.Equal(t, code.InvalidToken, refusal(s.load(ada.Principal), ada, action.MessageRead, authz.Resource{Place: open}, now))
			require.Empty(t, s.visible(ada.Principal))
			agent := s.principal(wire.KindAgent)
			s.grantRow(agent.Principal, instance, wire.LevelOwner, nil)
			require.Equal(t, code.NotImplementedForKind, refusal(s.load(agent.Principal), agent, action.TypingStart, authz.Resource{Place: open}, now))
			require.Equal(t, code.NotImplementedForKind, refusal(s.load(agent.Principal), agent, action.GrantManage, authz.Resource{Place: open}, now))
			require.Empty(t, refusal(s.load(agent.Principal), agent, action.MessageCreate, authz.Resource{Place: open}, now))
		})
	})
}
