// Package action names what can be done on the Workspace surface (WS-AZ-4). It holds names only: the
// level, target and rate class of each are in the table of package authz, and the receive action of each
// event in the catalogue of package eventlog.
package action

// Action is the name of something a principal can do or receive.
type Action string

// The actions. Those of agents, runs, commands, webhooks, push, hosts and statistics keep their place here.
const (
	GatewayConnect Action = "gateway.connect"
	SelfRead       Action = "self.read"  // one's own principal, devices, personal data, snapshot and events
	SelfWrite      Action = "self.write" // one's own settings and preferences

	DeviceManage    Action = "device.manage" // one's own devices and login codes; with step-up
	UserManage      Action = "user.manage"
	GroupManage     Action = "group.manage"
	GroupRead       Action = "group.read"
	AgentManage     Action = "agent.manage" // agents, apps and their tokens
	KeyManage       Action = "key.manage"
	AuditRead       Action = "audit.read"
	GrantManage     Action = "grant.manage" // on the target of the grant
	GrantRead       Action = "grant.read"
	PrincipalRead   Action = "principal.read"
	AgentRead       Action = "agent.read"
	SpaceCreate     Action = "space.create"
	SpaceRead       Action = "space.read"
	SpaceManage     Action = "space.manage"  // rename
	SpaceArchive    Action = "space.archive" // archive, unarchive
	ChannelCreate   Action = "channel.create"
	ChannelRead     Action = "channel.read"
	ChannelManage   Action = "channel.manage"  // rename, topic, read-only
	ChannelArchive  Action = "channel.archive" // archive, unarchive
	SettingsRead    Action = "channel.settings.read"
	SettingsManage  Action = "channel.settings.manage"
	ThreadRead      Action = "thread.read"
	ThreadCreate    Action = "thread.create"
	ThreadWrite     Action = "thread.write" // rename, done, reopen
	ThreadMove      Action = "thread.move"  // on both channels
	MessageRead     Action = "message.read"
	MessageCreate   Action = "message.create"
	MessageEdit     Action = "message.edit"   // one's own
	MessageDelete   Action = "message.delete" // one's own, or others' with manage
	ReactionWrite   Action = "reaction.write"
	PinWrite        Action = "pin.write"
	PersonalRead    Action = "personal.read" // read states and drafts of a thread
	PersonalWrite   Action = "personal.write"
	SearchRead      Action = "search.read"
	FileCreate      Action = "file.create"
	FileRead        Action = "file.read"
	FileDelete      Action = "file.delete"
	ImportApply     Action = "import.apply"
	ImportRead      Action = "import.read"
	TypingStart     Action = "typing.start"
	AudienceReceive Action = "audience.receive" // a personal event

	AgentInvoke     Action = "agent.invoke"
	RunRead         Action = "run.read"
	RunCancel       Action = "run.cancel"
	RunReport       Action = "run.report"
	CommandInvoke   Action = "command.invoke"
	WebhookManage   Action = "webhook.manage"
	WebhookDeliver  Action = "webhook_out.deliver"
	PushManage      Action = "push.manage"
	PushDeliver     Action = "push.deliver"
	HostRead        Action = "host.read"
	StatsRead       Action = "stats.read"
	NotificationGet Action = "notification.receive"
)
