package config

import "strings"

// The values of cluster.mode.
const (
	clusterSingle = "single"
	clusterMulti  = "multi"
)

// workspaceTable is every named value of the Workspace surface (ES-18, workspace specification, section 7).
var workspaceTable = []setting{
	{
		"http.allowed_origins", "", origins(func(c *Config) *[]string { return &c.HTTP.AllowedOrigins }),
		"Origins whose pages may use the Workspace surface and its gateway, besides its own. `*` alone allows all.",
	},
	{
		"cluster.mode", "", checked(func(c *Config) *string { return &c.Cluster.Mode }, "single, multi, or empty: multi on PostgreSQL, single on SQLite",
			func(text string) bool { return text == "" || text == clusterSingle || text == clusterMulti }),
		"Whether several nodes may share the database; multi needs PostgreSQL. Nodes on PostgreSQL tell each other what happens, whatever stands here.",
	},
	{
		"sync.event_retention", "30d", span(func(c *Config) *duration { return &c.Sync.EventRetention }, "1s", "3650d"),
		"How long events stay in the log for clients that catch up; after that they load everything anew.",
	},
	{
		"sync.event_payload_max_bytes", "65536", integer(func(c *Config) *int { return &c.Sync.EventPayloadMaxBytes }, 4096, 1<<20),
		"Largest payload of an event, in bytes. A longer message is cut in its event and loaded by REST.",
	},
	{
		"sync.ws_max_frame_bytes", "1048576", integer(func(c *Config) *int { return &c.Sync.WSMaxFrameBytes }, 16_384, 1<<26),
		"Largest frame of the gateway, in bytes.",
	},
	{
		"sync.identify_timeout", "10s", span(func(c *Config) *duration { return &c.Sync.IdentifyTimeout }, "10ms", "5m"),
		"How long a connection to the gateway may take to say who it is.",
	},
	{
		"sync.heartbeat_interval", "30s", span(func(c *Config) *duration { return &c.Sync.HeartbeatInterval }, "50ms", "10m"),
		"How often clients of the gateway give a sign of life.",
	},
	{
		"sync.heartbeat_miss_limit", "2", integer(func(c *Config) *int { return &c.Sync.HeartbeatMissLimit }, 1, 100),
		"Signs of life in a row that may be missing before a connection is closed.",
	},
	{
		"sync.resume_window", "5m", span(func(c *Config) *duration { return &c.Sync.ResumeWindow }, "10ms", "24h"),
		"How long after a disconnect a gateway session can be resumed.",
	},
	{
		"sync.reauth_lead_time", "1m", span(func(c *Config) *duration { return &c.Sync.ReauthLeadTime }, "10ms", "1h"),
		"How long before its token ends a connection is asked for a new one.",
	},
	{
		"sync.reconnect_backoff_base", "1s", span(func(c *Config) *duration { return &c.Sync.ReconnectBackoffBase }, "1ms", "1h"),
		"First pause of a client before it connects again. Advice to clients: the server does not say it to them, and the Go client has the default built in.",
	},
	{
		"sync.reconnect_backoff_cap", "1m", span(func(c *Config) *duration { return &c.Sync.ReconnectBackoffCap }, "1ms", "24h"),
		"Longest pause of a client before it connects again. Advice to clients: the server does not say it to them, and the Go client has the default built in.",
	},
	{
		"sync.catchup_page_size", "500", integer(func(c *Config) *int { return &c.Sync.CatchupPageSize }, 1, 10_000),
		"Events in one page of catching up.",
	},
	{
		"sync.catchup_max_events", "50000", integer(func(c *Config) *int64 { return &c.Sync.CatchupMaxEvents }, 1, 10_000_000),
		"A client further behind than that loads everything anew.",
	},
	{
		"sync.cursor_advance_every", "1000", integer(func(c *Config) *int { return &c.Sync.CursorAdvanceEvery }, 1, 100_000),
		"Events that a client may not see, after which it is told how far it was looked through.",
	},
	{
		"sync.outbound_queue_max", "10000", integer(func(c *Config) *int { return &c.Sync.OutboundQueueMax }, 16, 1<<20),
		"Frames that may wait for one connection of the gateway; a client further behind is cut and catches up.",
	},
	{
		"sync.idempotency_key_ttl", "24h", span(func(c *Config) *duration { return &c.Sync.IdempotencyKeyTTL }, "1s", "365d"),
		"How long the answer to a write with an Idempotency-Key is kept for its repeat.",
	},
	{
		"sync.max_focused_threads", "20", integer(func(c *Config) *int { return &c.Sync.MaxFocusedThreads }, 1, 1000),
		"Threads that one connection may have in focus.",
	},
	{
		"sync.run_patch_coalesce_interval", "250ms", span(func(c *Config) *duration { return &c.Sync.RunPatchCoalesceInterval }, "1ms", "1m"),
		"How long changes of a run are collected before they are sent.",
	},
	{
		"sync.typing_min_interval", "5s", span(func(c *Config) *duration { return &c.Sync.TypingMinInterval }, "0s", "1m"),
		"Least time between two signs of one connection that somebody types.",
	},
	{
		"sync.typing_ttl", "8s", span(func(c *Config) *duration { return &c.Sync.TypingTTL }, "10ms", "5m"),
		"How long a sign that somebody types is good.",
	},
	{
		"gateway.write_timeout", "10s", span(func(c *Config) *duration { return &c.Gateway.WriteTimeout }, "10ms", "5m"),
		"How long one write to a connection of the gateway may take.",
	},
	{
		"authz.expiry_sweep_interval", "1m", span(func(c *Config) *duration { return &c.Authz.ExpirySweepInterval }, "10ms", "1h"),
		"How often the end of grants and memberships is written to the log. It takes effect without that.",
	},
	{
		"authz.expiry_notice", "24h", span(func(c *Config) *duration { return &c.Authz.ExpiryNotice }, "0s", "365d"),
		"How long before their end grants and memberships are announced to whom they belong.",
	},
	{
		"limits.enabled", "true", truth(func(c *Config) *bool { return &c.Limits.Enabled }),
		"Whether the rate classes `rl.…` count.",
	},
	{
		"rl.gateway_connect", "120/1m", rate(func(c *Config) *Rate { return &c.Limits.GatewayConnect }),
		"How often a device may identify or resume.",
	},
	{
		"rl.login", "120/1m", rate(func(c *Config) *Rate { return &c.Limits.Login }),
		"How often one address (of IPv6: one /64) may try to sign in, and how often one sign-in may refresh.",
	},
	{
		"rl.write", "3000/1m", rate(func(c *Config) *Rate { return &c.Limits.Write }),
		"How often one principal may write.",
	},
	{
		"rl.search", "300/1m", rate(func(c *Config) *Rate { return &c.Limits.Search }),
		"How often one principal may search.",
	},
	{
		"message.max_chars", "20000", integer(func(c *Config) *int { return &c.Message.MaxChars }, 1, 1_000_000),
		"Longest message, in characters.",
	},
	{
		"message.max_attachments", "10", integer(func(c *Config) *int { return &c.Message.MaxAttachments }, 0, 100),
		"Files that one message may have.",
	},
	{
		"file.max_bytes", "104857600", integer(func(c *Config) *int64 { return &c.File.MaxBytes }, 1, 1<<40),
		"Largest file, in bytes.",
	},
	{
		"file.dir", "", text(func(c *Config) *string { return &c.File.Dir }, "a path of a folder, or empty"),
		"Folder of uploaded files; all nodes share it. Empty is cairn-files beside the SQLite file, or in the working directory.",
	},
	{
		"file.scanner", "none", choice(func(c *Config) *string { return &c.File.Scanner }, "none", "clamd"),
		"What looks through uploaded files before anybody gets them.",
	},
	{
		"file.clamd_address", "127.0.0.1:3310",
		text(func(c *Config) *string { return &c.File.ClamdAddress }, "host:port, or unix:/path of a socket"),
		"Where clamd listens, for file.scanner clamd.",
	},
	{
		"file.invocation_hold_max", "2m", span(func(c *Config) *duration { return &c.File.InvocationHoldMax }, "0s", "1h"),
		"How long the invocation of an agent waits for attachments to be scanned.",
	},
	{
		"voice.transcript_hold_max", "5m", span(func(c *Config) *duration { return &c.Voice.TranscriptHoldMax }, "0s", "1h"),
		"How long the invocation of an agent waits for the transcript of a voice message.",
	},
	{
		"command.autocomplete_timeout", "3s", span(func(c *Config) *duration { return &c.Command.AutocompleteTimeout }, "10ms", "1m"),
		"How long the owner of a command may take to suggest something.",
	},
	{
		"command.autocomplete_max_choices", "25", integer(func(c *Config) *int { return &c.Command.AutocompleteMaxChoices }, 1, 100),
		"Suggestions in one answer.",
	},
	{
		"stats.live_interval", "5s", span(func(c *Config) *duration { return &c.Stats.LiveInterval }, "100ms", "10m"),
		"How often live statistics are sent.",
	},
	{
		"client.cache_max_age", "30d", span(func(c *Config) *duration { return &c.Client.CacheMaxAge }, "1m", "3650d"),
		"How long clients keep what nobody looked at. Advice to clients: the server does not say it to them, and the Go client has the default built in.",
	},
	{
		"client.outbox_retry_base", "2s", span(func(c *Config) *duration { return &c.Client.OutboxRetryBase }, "1ms", "1h"),
		"First pause of a client before it sends again. Advice to clients: the server does not say it to them, and the Go client has the default built in.",
	},
	{
		"client.outbox_retry_cap", "5m", span(func(c *Config) *duration { return &c.Client.OutboxRetryCap }, "1ms", "24h"),
		"Longest pause of a client before it sends again. Advice to clients: the server does not say it to them, and the Go client has the default built in.",
	},
	{
		"agent.invocation_token_ttl", "1m", span(func(c *Config) *duration { return &c.Agent.InvocationTokenTTL }, "1s", "1h"),
		"How long an invocation token is good.",
	},
	{
		"agent.ack_timeout", "30s", span(func(c *Config) *duration { return &c.Agent.AckTimeout }, "10ms", "1h"),
		"How long an agent may leave an event unacknowledged before it is delivered again.",
	},
	{
		"agent.ack_persist_interval", "1s", span(func(c *Config) *duration { return &c.Agent.AckPersistInterval }, "1ms", "1m"),
		"How long an acknowledgement may wait before it is stored.",
	},
	{
		"agent.max_inflight_events", "100", integer(func(c *Config) *int { return &c.Agent.MaxInflightEvents }, 1, 10_000),
		"Unacknowledged events that one agent may have.",
	},
	{
		"agent.run_update_min_interval", "500ms", span(func(c *Config) *duration { return &c.Agent.RunUpdateMinInterval }, "0s", "1m"),
		"Least time between two changes of a run; agents keep to it.",
	},
	{
		"agent.presence_timeout", "1m30s", span(func(c *Config) *duration { return &c.Agent.PresenceTimeout }, "100ms", "1h"),
		"How long after its last sign of life an agent counts as offline.",
	},
	{
		"agent.cancel_grace", "30s", span(func(c *Config) *duration { return &c.Agent.CancelGrace }, "10ms", "1h"),
		"How long an agent may take to end a run that was cancelled.",
	},
	{
		"agent.max_trigger_depth", "1", integer(func(c *Config) *int { return &c.Agent.MaxTriggerDepth }, 0, 16),
		"How many agents one after another a message of a person may set off through messages of agents.",
	},
	{
		"agent.max_active_runs", "8", integer(func(c *Config) *int { return &c.Agent.MaxActiveRuns }, 1, 1000),
		"Runs of one agent at a time; more wait.",
	},
	{
		"agent.stall_after", "2m", span(func(c *Config) *duration { return &c.Agent.StallAfter }, "100ms", "24h"),
		"How long a run may be silent before it is marked.",
	},
}

var workspaceRules = []rule{
	{"cluster.mode", func(c Config) string {
		return unless(c.Cluster.Mode != clusterMulti || !onSQLite(c), "single on SQLite: several nodes share a PostgreSQL")
	}},
	{"sync.reconnect_backoff_cap", func(c Config) string {
		return unless(c.Sync.ReconnectBackoffCap >= c.Sync.ReconnectBackoffBase, "a duration not shorter than sync.reconnect_backoff_base")
	}},
	{"client.outbox_retry_cap", func(c Config) string {
		return unless(c.Client.OutboxRetryCap >= c.Client.OutboxRetryBase, "a duration not shorter than client.outbox_retry_base")
	}},
	{"sync.ws_max_frame_bytes", func(c Config) string {
		return unless(c.Sync.WSMaxFrameBytes >= c.Sync.EventPayloadMaxBytes+frameOverhead,
			"at least 8192 more than sync.event_payload_max_bytes, so that a frame holds every event")
	}},
}

// frameOverhead is more than what an event has around its payload.
const frameOverhead = 8192

func onSQLite(c Config) bool { return strings.HasPrefix(c.Database, "sqlite:") }
