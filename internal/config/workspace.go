package config

import (
	"path/filepath"
	"strings"
	"time"
)

// Sync is how the event log, the gateway and catching up behave (ES-18).
type Sync struct {
	EventRetention           time.Duration // how long events stay for catching up
	EventPayloadMaxBytes     int
	WSMaxFrameBytes          int
	IdentifyTimeout          time.Duration
	HeartbeatInterval        time.Duration
	HeartbeatMissLimit       int
	ResumeWindow             time.Duration
	ReauthLeadTime           time.Duration
	ReconnectBackoffBase     time.Duration // of clients
	ReconnectBackoffCap      time.Duration // of clients
	CatchupPageSize          int
	CatchupMaxEvents         int64
	CursorAdvanceEvery       int
	OutboundQueueMax         int
	IdempotencyKeyTTL        time.Duration
	MaxFocusedThreads        int
	RunPatchCoalesceInterval time.Duration
	TypingMinInterval        time.Duration
	TypingTTL                time.Duration
}

// Client is what clients of the Workspace surface keep to. The server accepts these values and serves them
// nowhere; they are here so that every value of the protocol has its name in one table.
type Client struct {
	CacheMaxAge     time.Duration
	OutboxRetryBase time.Duration
	OutboxRetryCap  time.Duration
}

// Agent bounds agents and their runs (ES-18, WS-AG).
type Agent struct {
	InvocationTokenTTL   time.Duration
	AckTimeout           time.Duration
	AckPersistInterval   time.Duration
	MaxInflightEvents    int
	RunUpdateMinInterval time.Duration
	PresenceTimeout      time.Duration
	CancelGrace          time.Duration
	MaxTriggerDepth      int
	MaxActiveRuns        int
	StallAfter           time.Duration
}

// Authz says when the end of grants and memberships is looked at and announced (WS-AZ-6).
type Authz struct {
	ExpirySweepInterval time.Duration
	ExpiryNotice        time.Duration
}

// Message bounds one message.
type Message struct {
	MaxChars       int
	MaxAttachments int
}

// File bounds uploads.
type File struct {
	MaxBytes          int64
	Dir               string // empty is FilesDir
	Scanner           string // none or clamd
	ClamdAddress      string
	InvocationHoldMax time.Duration
}

// Voice bounds what a voice message waits for.
type Voice struct {
	TranscriptHoldMax time.Duration
}

// Command bounds the suggestions of commands (ES-15.7).
type Command struct {
	AutocompleteTimeout    time.Duration
	AutocompleteMaxChoices int
}

// Stats is the live statistics (ES-12.4).
type Stats struct {
	LiveInterval time.Duration
}

// Limits are the rate classes of the Workspace surface (WS-AZ-4).
type Limits struct {
	Enabled        bool
	GatewayConnect Rate // identify and resume, for each device or API token
	Login          Rate // attempts to sign in, for each address; refreshes, for each sign-in
	Write          Rate // for each principal
	Search         Rate // for each principal
}

// Rate is how often something may happen: Count times in a row, and as many in each Per after that.
type Rate struct {
	Count int
	Per   time.Duration
}

// Gateway is how the gateway treats its sockets.
type Gateway struct {
	WriteTimeout time.Duration // a write that takes longer ends the connection as a slow consumer
}

// Cluster says whether other nodes share the database.
type Cluster struct {
	Mode string // single, multi, or empty for what the database suggests; ask Multi
}

// FilesDir is the folder of uploaded files (file.dir): without a word about it, beside the SQLite file, or in the
// working directory.
func (c Config) FilesDir() string {
	const name = "cairn-files"
	if c.File.Dir != "" {
		return c.File.Dir
	}
	path, onSQLite := strings.CutPrefix(c.Database, "sqlite:")
	if !onSQLite {
		return name
	}
	return filepath.Join(filepath.Dir(strings.TrimPrefix(path, "//")), name)
}

// Multi reports whether other nodes may share the database (cluster.mode): without a word about it, they may on
// PostgreSQL and not on SQLite.
func (c Config) Multi() bool {
	if c.Cluster.Mode == "" {
		return !onSQLite(c)
	}
	return c.Cluster.Mode == clusterMulti
}
