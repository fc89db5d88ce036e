package authz

import (
	"github.com/cairnsync/cairn/internal/authz/action"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// place is on what an action's level is needed.
type place int

const (
	onNothing   place = iota // any active principal
	onInstance               // the instance
	onSpace                  // the space of the resource
	onChannel                // the channel of the resource
	onVisible                // the space of the resource is visible
	onPrincipal              // oneself, or a principal in a shared channel
	onAudience               // the audience of the resource is the caller
	onOwn                    // the resource is the caller's own
	onTarget                 // the target of a grant, or the instance
	onHost
)

// Rate is a class of actions that share a limit (WS-AZ-4).
type Rate string

// The rate classes; RateNone is not limited.
const (
	RateNone    Rate = ""
	RateConnect Rate = "rl.gateway_connect"
	RateLogin   Rate = "rl.login"
	RateWrite   Rate = "rl.write"
	RateSearch  Rate = "rl.search"
)

// Rule is a row of the action table.
type Rule struct {
	place place
	level wire.Level
	// ownLevel is enough where the resource is the caller's own; none means that being its own changes nothing.
	ownLevel wire.Level
	// own demands that the resource is the caller's own, whatever the level.
	own bool
	// uncapped says that an archive does not cap the level (WS-AZ-2).
	uncapped bool
	// StepUp demands a recent authentication (WS-ID-5).
	StepUp bool
	// People says that agents and apps cannot do this.
	People bool
	Rate   Rate
}

func read(p place, l wire.Level) Rule  { return Rule{place: p, level: l} }
func write(p place, l wire.Level) Rule { return Rule{place: p, level: l, Rate: RateWrite} }

func (r Rule) stepUp() Rule { r.StepUp = true; return r }
func (r Rule) people() Rule { r.People = true; return r }

// throughArchives is for what an archive does not hinder: unarchiving and deleting (WS-AZ-2).
func (r Rule) throughArchives() Rule {
	r.uncapped = true
	return r
}

// table is the action table.
var table = map[action.Action]Rule{
	action.GatewayConnect:  {place: onNothing, Rate: RateConnect},
	action.SelfRead:        read(onNothing, wire.LevelNone),
	action.SelfWrite:       write(onNothing, wire.LevelNone).people(),
	action.AudienceReceive: read(onAudience, wire.LevelNone),
	action.DeviceManage:    write(onNothing, wire.LevelNone).people().stepUp(),

	action.UserManage:  write(onInstance, wire.LevelOwner).people().stepUp(),
	action.GroupManage: write(onInstance, wire.LevelOwner).people().stepUp(),
	action.GroupRead:   read(onNothing, wire.LevelNone),
	action.AgentManage: write(onInstance, wire.LevelOwner).people().stepUp(),
	action.KeyManage:   write(onInstance, wire.LevelOwner).people().stepUp(),
	action.AuditRead:   read(onInstance, wire.LevelOwner),
	action.GrantManage: write(onTarget, wire.LevelOwner).people().stepUp(),
	action.GrantRead:   read(onTarget, wire.LevelOwner),

	action.PrincipalRead: read(onPrincipal, wire.LevelRead),
	action.AgentRead:     read(onPrincipal, wire.LevelRead),

	action.SpaceCreate: write(onInstance, wire.LevelManage),
	action.SpaceRead:   read(onVisible, wire.LevelNone),
	action.SpaceManage: write(onSpace, wire.LevelManage),

	action.SpaceArchive: write(onSpace, wire.LevelManage).throughArchives(),

	action.ChannelCreate:  write(onSpace, wire.LevelManage),
	action.ChannelRead:    read(onChannel, wire.LevelRead),
	action.ChannelManage:  write(onChannel, wire.LevelManage),
	action.ChannelArchive: write(onChannel, wire.LevelManage).throughArchives(),
	action.SettingsRead:   read(onChannel, wire.LevelManage).throughArchives(),
	action.SettingsManage: write(onChannel, wire.LevelManage),

	action.ThreadRead:   read(onChannel, wire.LevelRead),
	action.ThreadCreate: write(onChannel, wire.LevelWrite),
	action.ThreadWrite:  write(onChannel, wire.LevelWrite),
	action.ThreadMove:   write(onChannel, wire.LevelManage),

	action.MessageRead:   read(onChannel, wire.LevelRead),
	action.MessageCreate: write(onChannel, wire.LevelWrite),
	action.MessageEdit:   {place: onChannel, level: wire.LevelWrite, own: true, Rate: RateWrite},
	action.MessageDelete: {place: onChannel, level: wire.LevelManage, ownLevel: wire.LevelWrite, uncapped: true, Rate: RateWrite},
	action.ReactionWrite: write(onChannel, wire.LevelWrite),
	action.PinWrite:      write(onChannel, wire.LevelManage),
	action.TypingStart:   read(onChannel, wire.LevelWrite).people(),
	action.PersonalRead:  read(onChannel, wire.LevelRead).people(),
	action.PersonalWrite: write(onChannel, wire.LevelRead).people(),
	action.SearchRead:    {place: onNothing, Rate: RateSearch},

	action.FileCreate: write(onNothing, wire.LevelNone),
	action.FileRead:   {place: onChannel, level: wire.LevelRead, ownLevel: wire.LevelNone},
	action.FileDelete: {place: onOwn, Rate: RateWrite},

	action.ImportApply: write(onSpace, wire.LevelManage),
	action.ImportRead:  read(onChannel, wire.LevelRead),

	action.AgentInvoke:     write(onChannel, wire.LevelTrigger),
	action.RunRead:         read(onChannel, wire.LevelRead),
	action.RunCancel:       write(onChannel, wire.LevelTrigger),
	action.RunReport:       {place: onOwn, Rate: RateWrite},
	action.CommandInvoke:   write(onChannel, wire.LevelWrite),
	action.WebhookManage:   write(onInstance, wire.LevelOwner).people().stepUp(),
	action.WebhookDeliver:  read(onChannel, wire.LevelRead),
	action.PushManage:      write(onNothing, wire.LevelNone).people(),
	action.PushDeliver:     read(onChannel, wire.LevelRead),
	action.HostRead:        read(onHost, wire.LevelNone),
	action.StatsRead:       read(onVisible, wire.LevelManage),
	action.NotificationGet: read(onAudience, wire.LevelNone),
}

// RuleOf answers the row of an action, and whether there is one.
func RuleOf(a action.Action) (Rule, bool) {
	rule, ok := table[a]
	return rule, ok
}

// Actions lists every action of the table.
func Actions() []action.Action {
	all := make([]action.Action, 0, len(table))
	for a := range table {
		all = append(all, a)
	}
	return all
}
