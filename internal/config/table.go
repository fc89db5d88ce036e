package config

import (
	"net/netip"
	"slices"
)

// setting is one row of the table: a key, its default as text, what is allowed, and what it means.
type setting struct {
	key      string
	fallback string
	kind     kind
	doc      string
}

// table is every named value, in the order it is shown.
var table = slices.Concat(commonTable, workspaceTable)

// commonTable is every named value but those of the Workspace surface alone.
var commonTable = []setting{
	{
		"listen", "127.0.0.1:8787", address(func(c *Config) *string { return &c.Listen }, false),
		"Where the server listens. Port 0 picks a free one.",
	},
	{
		"database", "sqlite:cairn.db", database(func(c *Config) *string { return &c.Database }),
		"The database: one SQLite file, or PostgreSQL for more than one machine.",
	},
	{
		"http.max_body_bytes", "12582912", integer(func(c *Config) *int64 { return &c.HTTP.MaxBodyBytes }, 1024, 1<<30),
		"Longest request body and WebSocket message, in bytes.",
	},
	{
		"http.cors_origins", "", origins(func(c *Config) *[]string { return &c.HTTP.CORSOrigins }),
		"Origins whose pages may call the server, besides its own. `*` alone allows all.",
	},
	{
		"http.read_header_timeout", "10s", span(func(c *Config) *duration { return &c.HTTP.ReadHeaderTimeout }, "100ms", "5m"),
		"How long a client may take to send the head of a request.",
	},
	{
		"http.public_url", "", optionalEndpoint(func(c *Config) *string { return &c.HTTP.PublicURL }),
		"Where clients reach the server. What they sign names it, so it must be set unless the server listens on loopback only.",
	},
	{
		"http.trusted_proxies", "", networks(func(c *Config) *[]netip.Prefix { return &c.HTTP.TrustedProxies }),
		"Networks of proxies whose X-Forwarded-For says where a request comes from. Those on this machine are trusted always.",
	},
	{
		"rate_limit.per_second", "0", decimal(func(c *Config) *float64 { return &c.RateLimit.PerSecond }, 1_000_000),
		"Requests per second and API key, on average. 0 is no limit.",
	},
	{
		"rate_limit.burst", "100", integer(func(c *Config) *int { return &c.RateLimit.Burst }, 1, 1_000_000),
		"Requests that an API key may make at once before the average counts.",
	},
	{
		"tls.cert_file", "", text(func(c *Config) *string { return &c.TLS.CertFile }, "a path of a PEM file, or empty"),
		"Certificate chain to listen with. Needs tls.key_file; both empty is plain HTTP.",
	},
	{
		"tls.key_file", "", text(func(c *Config) *string { return &c.TLS.KeyFile }, "a path of a PEM file, or empty"),
		"Private key of tls.cert_file.",
	},
	{
		"metrics.listen", "", address(func(c *Config) *string { return &c.Metrics.Listen }, true),
		"Where Prometheus metrics are served to everybody who reaches it. With and without it, loopback peers get them on the main address.",
	},
	{
		"log.level", "info", choice(func(c *Config) *string { return &c.Log.Level }, "debug", "info", "warn", "error"),
		"Least severity that is written to the log.",
	},
	{
		"log.format", "text", choice(func(c *Config) *string { return &c.Log.Format }, "text", "json"),
		"Form of a line of the log.",
	},
	{
		"push.pause", "10s", span(func(c *Config) *duration { return &c.Push.Pause }, "10ms", "1h"),
		"Least time between two pushes to people of one session to one device; what comes sooner waits.",
	},
	{
		"push.fcm.project", "", text(func(c *Config) *string { return &c.Push.FCM.Project }, "a project id, or empty"),
		"Firebase project that wakes devices. Empty is off.",
	},
	{
		"push.fcm.credentials_file", "",
		text(func(c *Config) *string { return &c.Push.FCM.CredentialsFile }, "a path of a JSON file, or empty"),
		"Google credentials for push.fcm.project.",
	},
	{
		"push.fcm.endpoint", "https://fcm.googleapis.com", endpoint(func(c *Config) *string { return &c.Push.FCM.Endpoint }),
		"Base URL of Firebase Cloud Messaging.",
	},
	{
		"stream.queue_frames", "1024", integer(func(c *Config) *int { return &c.Stream.QueueFrames }, 16, 1<<20),
		"Frames that may wait for one stream; a client further behind is cut and resumes.",
	},
	{
		"stream.queue_bytes", "4194304", integer(func(c *Config) *int { return &c.Stream.QueueBytes }, 4096, 1<<30),
		"Bytes that may wait for one stream; one frame is always admitted.",
	},
	{
		"stream.ping", "15s", span(func(c *Config) *duration { return &c.Stream.Ping }, "50ms", "10m"),
		"Silence after which the server pings a stream.",
	},
	{
		"stream.pong", "30s", span(func(c *Config) *duration { return &c.Stream.Pong }, "50ms", "30m"),
		"How long a WebSocket may leave pings unanswered. Longer than stream.ping.",
	},
	{
		"stream.max_age", "30m", span(func(c *Config) *duration { return &c.Stream.MaxAge }, "100ms", "24h"),
		"Longest life of one stream; the client resumes.",
	},
	{
		"presence.max_announced", "200", integer(func(c *Config) *int { return &c.Presence.MaxAnnounced }, 0, 100_000),
		"Devices in one session above which plain viewers come and go unannounced.",
	},
	{
		"storage.lanes", "2", integer(func(c *Config) *int { return &c.Storage.Lanes }, 1, 16),
		"Writing transactions at a time on PostgreSQL. SQLite always has one.",
	},
	{
		"storage.readers", "8", integer(func(c *Config) *int { return &c.Storage.Readers }, 1, 256),
		"Connections for reading.",
	},
	{
		"storage.migrate", "true", truth(func(c *Config) *bool { return &c.Storage.Migrate }),
		"Bring the database's schema up to date when the server starts; otherwise an old one is refused.",
	},
	{
		"auth.access_token_ttl", "10m", span(func(c *Config) *duration { return &c.Auth.AccessTokenTTL }, "1s", "24h"),
		"How long an access token of the Workspace surface is good.",
	},
	{
		"auth.refresh_token_ttl", "30d", span(func(c *Config) *duration { return &c.Auth.RefreshTokenTTL }, "1m", "400d"),
		"How long a sign-in lasts that is not refreshed.",
	},
	{
		"auth.dpop_nonce_ttl", "5m", span(func(c *Config) *duration { return &c.Auth.DPoPNonceTTL }, "1s", "1h"),
		"How long a nonce for proofs of possession is good. Proofs are remembered that long.",
	},
	{
		"auth.step_up_max_age", "15m", span(func(c *Config) *duration { return &c.Auth.StepUpMaxAge }, "1s", "30d"),
		"How long after proving who they are people may change grants, devices and tokens.",
	},
	{
		"auth.require_device_approval", "false", truth(func(c *Config) *bool { return &c.Auth.RequireDeviceApproval }),
		"The second and later devices of a person wait until an active one, or an administrator, approves them.",
	},
	{
		"auth.oidc.issuer", "", optionalEndpoint(func(c *Config) *string { return &c.Auth.OIDC.Issuer }),
		"OpenID Connect issuer that people may sign in with. Empty is off.",
	},
	{
		"auth.oidc.client_id", "", text(func(c *Config) *string { return &c.Auth.OIDC.ClientID }, "a client id, or empty"),
		"The id under which the issuer knows this server's clients. Needed with auth.oidc.issuer.",
	},
	{
		"auth.oidc.client_secret", "", secret(func(c *Config) *string { return &c.Auth.OIDC.ClientSecret }, "a client secret, or empty"),
		"The secret of auth.oidc.client_id. Empty is a public client.",
	},
	{
		"auth.oidc.provision", "off", choice(func(c *Config) *string { return &c.Auth.OIDC.Provision }, "off", "pending", "active"),
		"What happens to people of the issuer whom nobody knows: refused, added and waiting for approval, or added.",
	},
	{
		"ready_file", "", text(func(c *Config) *string { return &c.ReadyFile }, "a path, or empty"),
		"File that gets the server's base URL once it serves.",
	},
	{
		"shutdown_timeout", "10s", span(func(c *Config) *duration { return &c.ShutdownTimeout }, "10ms", "10m"),
		"How long a stopping server waits for requests and streams to end.",
	},
}

// rule is what several values must fulfil together. broken answers what is wrong, or "".
type rule struct {
	key    string // where the error is shown
	broken func(Config) string
}

var rules = slices.Concat(commonRules, workspaceRules)

var commonRules = []rule{
	{"tls.cert_file", func(c Config) string {
		return unless((c.TLS.CertFile == "") == (c.TLS.KeyFile == ""), "tls.cert_file and tls.key_file only go together")
	}},
	{"push.fcm.project", func(c Config) string {
		return unless((c.Push.FCM.Project == "") == (c.Push.FCM.CredentialsFile == ""),
			"push.fcm.project and push.fcm.credentials_file only go together")
	}},
	{"auth.oidc.issuer", func(c Config) string {
		return unless((c.Auth.OIDC.Issuer == "") == (c.Auth.OIDC.ClientID == ""),
			"auth.oidc.issuer and auth.oidc.client_id only go together")
	}},
	{"stream.pong", func(c Config) string {
		return unless(c.Stream.Pong > c.Stream.Ping, "a duration longer than stream.ping ("+shortDuration(c.Stream.Ping)+")")
	}},
}

func unless(fine bool, problem string) string {
	if fine {
		return ""
	}
	return problem
}
