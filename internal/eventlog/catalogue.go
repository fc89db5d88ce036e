package eventlog

import (
	"fmt"
	"reflect"
	"time"

	"github.com/cairnsync/cairn/internal/authz/action"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Type is one row of the catalogue: all there is to know about a type of event (workspace specification,
// section 5). Producers, delivery, the AsyncAPI document and the tests read it.
type Type struct {
	Name    string
	Durable bool
	// Version is the version of the payload's schema; changes are additive.
	Version int
	// Payload is the shape of the payload; nil while nothing writes this type: its place is kept.
	Payload reflect.Type
	// Resource is the kind of the object the event is about.
	Resource string
	// ReportsVersion says that resource.version is the object's new version (ES-9.3).
	ReportsVersion bool
	// Receive is what a receiver must be allowed to do at the moment of the delivery (ES-8.1).
	Receive action.Action
	// Personal events go to one principal, their audience.
	Personal bool
	// Redact answers what is left of a payload after the content it carries was deleted (ES-2.2). It is set
	// exactly for the types about messages and files.
	Redact func(payload []byte, deletedAt time.Time) ([]byte, error)
}

// The types of events.
const (
	MessageCreated         = "message.created"
	MessageUpdated         = "message.updated"
	MessageDeleted         = "message.deleted"
	ReactionAdded          = "reaction.added"
	ReactionRemoved        = "reaction.removed"
	PinAdded               = "pin.added"
	PinRemoved             = "pin.removed"
	ThreadCreated          = "thread.created"
	ThreadUpdated          = "thread.updated"
	ThreadClosed           = "thread.closed"
	ThreadReopened         = "thread.reopened"
	ThreadMoved            = "thread.moved"
	ThreadMovedOut         = "thread.moved_out"
	ChannelCreated         = "channel.created"
	ChannelUpdated         = "channel.updated"
	ChannelArchived        = "channel.archived"
	ChannelUnarchived      = "channel.unarchived"
	ChannelSettingsChanged = "channel.settings_changed"
	SpaceCreated           = "space.created"
	SpaceUpdated           = "space.updated"
	SpaceArchived          = "space.archived"
	SpaceUnarchived        = "space.unarchived"
	PrincipalUpdated       = "principal.updated"
	FileUpdated            = "file.updated"
	ImportProgress         = "import.progress"
	AccessChanged          = "access.changed"
	AccessExpiring         = "access.expiring"
	DeviceUpdated          = "device.updated"
	ReadStateUpdated       = "read_state.updated"
	DraftUpdated           = "draft.updated"
	DraftDeleted           = "draft.deleted"
	SettingsUpdated        = "settings.updated"
	SidebarUpdated         = "sidebar.updated"
	NotificationUpdated    = "notification_pref.updated"
	QuietHoursUpdated      = "quiet_hours.updated"
	TypingStarted          = "typing.started"

	RunStateChanged     = "run.state_changed"
	AgentUpdated        = "agent.updated"
	AgentSessionChanged = "agent_session.changed"
	HostUpdated         = "host.updated"
	AgentInvocation     = "agent.invocation"
	AgentFollowup       = "agent.followup"
	AgentConfigChanged  = "agent.config_changed"
	RunCancelRequested  = "run.cancel_requested"
	InteractionCreated  = "interaction.created"
	CommandInvoked      = "command.invoked"
	TerminalChanged     = "terminal_session.changed"
	RunUpdated          = "run.updated"
	AgentPresence       = "agent.presence_changed"
	NotificationCreated = "notification.created"
	AutocompleteAsked   = "command.autocomplete_requested"
	StatsLive           = "stats.live"
	HostPresence        = "host.presence_changed"
)

func of[T any]() reflect.Type { return reflect.TypeFor[T]() }

// durable is a type about an object that others see too.
func durable[T any](name, resource string, versioned bool, receive action.Action) Type {
	return Type{Name: name, Durable: true, Version: 1, Payload: of[T](), Resource: resource, ReportsVersion: versioned, Receive: receive}
}

// personal is a durable type for one principal.
func personal[T any](name, resource string, versioned bool) Type {
	t := durable[T](name, resource, versioned, action.AudienceReceive)
	t.Personal = true
	return t
}

// content is durable for a type whose payload carries what can be deleted.
func content[T any](name, resource string, versioned bool, receive action.Action, redact func([]byte, time.Time) ([]byte, error)) Type {
	t := durable[T](name, resource, versioned, receive)
	t.Redact = redact
	return t
}

// kept is the place of a type that nothing writes yet.
func kept(name, resource string, versioned, personal bool, receive action.Action) Type {
	return Type{Name: name, Durable: true, Version: 1, Resource: resource, ReportsVersion: versioned, Receive: receive, Personal: personal}
}

func ephemeral(t Type) Type {
	t.Durable = false
	return t
}

// catalogue is the only list of types.
var catalogue = index(
	content[wire.MessageEvent](MessageCreated, "message", true, action.MessageRead, redactMessage),
	content[wire.MessageEvent](MessageUpdated, "message", true, action.MessageRead, redactMessage),
	content[wire.MessageEvent](MessageDeleted, "message", true, action.MessageRead, redactMessage),
	content[wire.ReactionEvent](ReactionAdded, "message", false, action.MessageRead, redactReaction),
	content[wire.ReactionEvent](ReactionRemoved, "message", false, action.MessageRead, redactReaction),
	content[wire.PinEvent](PinAdded, "message", false, action.MessageRead, unchanged),
	content[wire.PinEvent](PinRemoved, "message", false, action.MessageRead, unchanged),
	durable[wire.ThreadEvent](ThreadCreated, "thread", true, action.ThreadRead),
	durable[wire.ThreadEvent](ThreadUpdated, "thread", true, action.ThreadRead),
	durable[wire.ThreadEvent](ThreadClosed, "thread", true, action.ThreadRead),
	durable[wire.ThreadEvent](ThreadReopened, "thread", true, action.ThreadRead),
	durable[wire.ThreadEvent](ThreadMoved, "thread", true, action.ThreadRead),
	durable[wire.ThreadMovedOut](ThreadMovedOut, "channel", false, action.ChannelRead),
	durable[wire.ChannelEvent](ChannelCreated, "channel", true, action.ChannelRead),
	durable[wire.ChannelEvent](ChannelUpdated, "channel", true, action.ChannelRead),
	durable[wire.ChannelEvent](ChannelArchived, "channel", true, action.ChannelRead),
	durable[wire.ChannelEvent](ChannelUnarchived, "channel", true, action.ChannelRead),
	durable[wire.ChannelSettingsChanged](ChannelSettingsChanged, "channel", false, action.ChannelRead),
	durable[wire.SpaceEvent](SpaceCreated, "space", true, action.SpaceRead),
	durable[wire.SpaceEvent](SpaceUpdated, "space", true, action.SpaceRead),
	durable[wire.SpaceEvent](SpaceArchived, "space", true, action.SpaceRead),
	durable[wire.SpaceEvent](SpaceUnarchived, "space", true, action.SpaceRead),
	durable[wire.PrincipalEvent](PrincipalUpdated, "principal", true, action.PrincipalRead),
	content[wire.FileEvent](FileUpdated, "file", true, action.FileRead, redactFile),
	durable[wire.ImportProgress](ImportProgress, "import", true, action.ImportRead),

	personal[wire.AccessChanged](AccessChanged, "principal", false),
	personal[wire.AccessExpiring](AccessExpiring, "principal", false),
	personal[wire.DeviceEvent](DeviceUpdated, "device", false),
	personal[wire.ReadStateEvent](ReadStateUpdated, "thread", false),
	personal[wire.DraftEvent](DraftUpdated, "draft", true),
	personal[wire.DraftDeleted](DraftDeleted, "draft", true),
	personal[wire.SettingEvent](SettingsUpdated, "setting", true),
	personal[wire.SidebarEvent](SidebarUpdated, "space", false),
	personal[wire.NotificationPrefEvent](NotificationUpdated, "notification_pref", true),
	personal[wire.QuietHoursEvent](QuietHoursUpdated, "quiet_hours", true),

	ephemeral(durable[wire.TypingStarted](TypingStarted, "thread", false, action.ThreadRead)),

	kept(RunStateChanged, "run", true, false, action.RunRead),
	kept(AgentUpdated, "agent", true, false, action.AgentRead),
	kept(AgentSessionChanged, "thread", false, false, action.ThreadRead),
	kept(HostUpdated, "host", true, false, action.HostRead),
	kept(AgentInvocation, "run", false, true, action.AudienceReceive),
	kept(AgentFollowup, "run", false, true, action.AudienceReceive),
	kept(AgentConfigChanged, "channel", false, true, action.AudienceReceive),
	kept(RunCancelRequested, "run", false, true, action.AudienceReceive),
	kept(InteractionCreated, "interaction", false, true, action.AudienceReceive),
	kept(CommandInvoked, "command", false, true, action.AudienceReceive),
	kept(TerminalChanged, "terminal_session", true, true, action.AudienceReceive),
	ephemeral(kept(RunUpdated, "run", false, false, action.RunRead)),
	ephemeral(kept(AgentPresence, "agent", false, false, action.AgentRead)),
	ephemeral(kept(NotificationCreated, "notification", false, true, action.NotificationGet)),
	ephemeral(kept(AutocompleteAsked, "command", false, true, action.AudienceReceive)),
	ephemeral(kept(StatsLive, "stats", false, false, action.StatsRead)),
	ephemeral(kept(HostPresence, "host", false, false, action.HostRead)),
)

type indexed struct {
	order  []Type
	byName map[string]*Type
}

func index(types ...Type) indexed {
	c := indexed{order: types, byName: make(map[string]*Type, len(types))}
	for i := range types {
		if c.byName[types[i].Name] != nil {
			panic(fmt.Sprintf("event type %s stands twice in the catalogue", types[i].Name))
		}
		c.byName[types[i].Name] = &types[i]
	}
	return c
}

// Catalogue lists every type.
func Catalogue() []Type { return append([]Type(nil), catalogue.order...) }

// TypeOf answers the type with a name, nil when there is none.
func TypeOf(name string) *Type { return catalogue.byName[name] }
