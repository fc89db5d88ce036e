// Package config holds every named value of the server: its default, where it may come from and what
// is allowed, in one table.
//
// Contract. Load reads a YAML file, the environment (CAIRN_…), --set key=value and flags, later ones
// winning, and answers a Config in which every value is valid, or one Error that names every wrong
// value with its source and what is allowed. A key nobody knows is an error too, so that a misspelt
// limit cannot silently keep its default; only in the environment, where others choose names that begin with
// CAIRN_ too, it is not, and Ignored answers it for a warning. What Load answers to be shown has passwords taken out.
//
// Order and concurrency. A Config is a plain value, read once at start and never changed; copies may be
// read by any number of goroutines. Load reads one file and blocks no longer than that.
package config

import (
	"net/netip"
	"time"
)

// Config is every named value of one server.
type Config struct {
	Listen          string
	Database        string
	HTTP            HTTP
	RateLimit       RateLimit
	TLS             TLS
	Metrics         Metrics
	Log             Log
	Push            Push
	Stream          Stream
	Presence        Presence
	Storage         Storage
	Auth            Auth
	Cluster         Cluster
	Sync            Sync
	Gateway         Gateway
	Authz           Authz
	Limits          Limits
	Message         Message
	File            File
	Voice           Voice
	Command         Command
	Stats           Stats
	Client          Client
	Agent           Agent
	ReadyFile       string
	ShutdownTimeout time.Duration
}

// HTTP bounds what a request may cost.
type HTTP struct {
	MaxBodyBytes      int64    // of a request body and of a WebSocket message (SS-HTTP-5, SS-STR-5)
	CORSOrigins       []string // exact origins, or one "*"; empty means the server's own only (SS-HTTP-8)
	ReadHeaderTimeout time.Duration
	// PublicURL is where clients reach the server, as they write it; empty is what each request says, for
	// servers on loopback only (WS-ID-2).
	PublicURL string
	// AllowedOrigins are the origins of pages that may use the Workspace surface, besides its own; one "*" is all.
	AllowedOrigins []string
	// TrustedProxies are the networks of proxies that say in X-Forwarded-For for whom they ask, besides this
	// machine.
	TrustedProxies []netip.Prefix
}

// RateLimit is the token bucket of each API key (SS-HTTP-8).
type RateLimit struct {
	PerSecond float64 // 0 is off
	Burst     int
}

// TLS names the certificate the server listens with; both empty is plain HTTP.
type TLS struct {
	CertFile string
	KeyFile  string
}

// Metrics is the second listener, for Prometheus.
type Metrics struct {
	Listen string // empty is none: loopback peers get metrics on the main address
}

// Log says what the server writes about itself.
type Log struct {
	Level  string // debug, info, warn or error
	Format string // text or json
}

// Push configures the services that wake devices.
type Push struct {
	Pause time.Duration // at least, between two pushes to people of one session to one device
	FCM   FCM
}

// FCM is Firebase Cloud Messaging (SS-DSP-3); an empty Project is off.
type FCM struct {
	Project         string
	CredentialsFile string
	Endpoint        string
}

// Stream bounds one stream of a viewer (SS-STR-4, SS-STR-7).
type Stream struct {
	QueueFrames int
	QueueBytes  int
	Ping        time.Duration
	Pong        time.Duration
	MaxAge      time.Duration
}

// Presence bounds what is told about who is there.
type Presence struct {
	MaxAnnounced int
}

// Storage tunes the database's connections.
type Storage struct {
	Lanes   int
	Readers int
	Migrate bool // bring the schema up to date when starting; otherwise an old schema is refused
}

// Auth is how people and programs prove who they are on the Workspace surface (WS-ID).
type Auth struct {
	AccessTokenTTL        time.Duration
	RefreshTokenTTL       time.Duration
	DPoPNonceTTL          time.Duration
	StepUpMaxAge          time.Duration
	RequireDeviceApproval bool // second and later devices of a person wait for approval (WS-ID-3)
	OIDC                  OIDC
}

// OIDC is the OpenID Connect issuer that people may sign in with; an empty Issuer is off (WS-ID-4).
type OIDC struct {
	Issuer       string
	ClientID     string
	ClientSecret string
	Provision    string // off, pending or active: what happens to people nobody knows yet
}
