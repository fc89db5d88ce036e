package config_test

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/config"
)

var update = flag.Bool("update", false, "write docs/configuration.md anew")

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cairn.yaml")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func value(t *testing.T, values []config.Value, key string) config.Value {
	t.Helper()
	for _, one := range values {
		if one.Key == key {
			return one
		}
	}
	require.Failf(t, "no value", "of %s", key)
	return config.Value{}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	loaded, values, err := config.Load(config.Sources{})
	require.NoError(t, err)
	require.Equal(t, config.Config{
		Listen: "127.0.0.1:8787", Database: "sqlite:cairn.db",
		HTTP: config.HTTP{
			MaxBodyBytes: 12 << 20, CORSOrigins: []string{}, ReadHeaderTimeout: 10 * time.Second, AllowedOrigins: []string{}, TrustedProxies: []netip.Prefix{},
		},
		RateLimit: config.RateLimit{PerSecond: 0, Burst: 100},
		Log:       config.Log{Level: "info", Format: "text"},
		Push:      config.Push{Pause: 10 * time.Second, FCM: config.FCM{Endpoint: "https://fcm.googleapis.com"}},
		Stream:    config.Stream{QueueFrames: 1024, QueueBytes: 4 << 20, Ping: 15 * time.Second, Pong: 30 * time.Second, MaxAge: 30 * time.Minute},
		Presence:  config.Presence{MaxAnnounced: 200},
		Storage:   config.Storage{Lanes: 2, Readers: 8, Migrate: true},
		Auth: config.Auth{
			AccessTokenTTL: 10 * time.Minute, RefreshTokenTTL: 30 * 24 * time.Hour, DPoPNonceTTL: 5 * time.Minute, StepUpMaxAge: 15 * time.Minute,
			OIDC: config.OIDC{Provision: "off"},
		},
		Sync: config.Sync{
			EventRetention: 30 * 24 * time.Hour, EventPayloadMaxBytes: 65536, WSMaxFrameBytes: 1 << 20, IdentifyTimeout: 10 * time.Second,
			HeartbeatInterval: 30 * time.Second, HeartbeatMissLimit: 2, ResumeWindow: 5 * time.Minute, ReauthLeadTime: time.Minute,
			ReconnectBackoffBase: time.Second, ReconnectBackoffCap: time.Minute, CatchupPageSize: 500, CatchupMaxEvents: 50_000,
			CursorAdvanceEvery: 1000, OutboundQueueMax: 10_000, IdempotencyKeyTTL: 24 * time.Hour, MaxFocusedThreads: 20,
			RunPatchCoalesceInterval: 250 * time.Millisecond, TypingMinInterval: 5 * time.Second, TypingTTL: 8 * time.Second,
		},
		Gateway: config.Gateway{WriteTimeout: 10 * time.Second},
		Authz:   config.Authz{ExpirySweepInterval: time.Minute, ExpiryNotice: 24 * time.Hour},
		Limits: config.Limits{
			Enabled: true, GatewayConnect: config.Rate{Count: 120, Per: time.Minute}, Login: config.Rate{Count: 120, Per: time.Minute},
			Write: config.Rate{Count: 3000, Per: time.Minute}, Search: config.Rate{Count: 300, Per: time.Minute},
		},
		Message: config.Message{MaxChars: 20_000, MaxAttachments: 10},
		File:    config.File{MaxBytes: 100 << 20, Scanner: "none", ClamdAddress: "127.0.0.1:3310", InvocationHoldMax: 2 * time.Minute},
		Voice:   config.Voice{TranscriptHoldMax: 5 * time.Minute},
		Command: config.Command{AutocompleteTimeout: 3 * time.Second, AutocompleteMaxChoices: 25},
		Stats:   config.Stats{LiveInterval: 5 * time.Second},
		Client:  config.Client{CacheMaxAge: 30 * 24 * time.Hour, OutboxRetryBase: 2 * time.Second, OutboxRetryCap: 5 * time.Minute},
		Agent: config.Agent{
			InvocationTokenTTL: time.Minute, AckTimeout: 30 * time.Second, AckPersistInterval: time.Second, MaxInflightEvents: 100,
			RunUpdateMinInterval: 500 * time.Millisecond, PresenceTimeout: 90 * time.Second, CancelGrace: 30 * time.Second,
			MaxTriggerDepth: 1, MaxActiveRuns: 8, StallAfter: 2 * time.Minute,
		},
		ShutdownTimeout: 10 * time.Second,
	}, loaded)
	for _, one := range values {
		require.Equal(t, one.Default, one.Value, one.Key)
		require.Equal(t, "default", one.Source, one.Key)
		require.NotEmpty(t, one.Doc, one.Key)
	}
}

func TestLaterSourcesWin(t *testing.T) {
	t.Parallel()
	all := config.Sources{
		File: file(t, "listen: 127.0.0.1:1\n"), Env: []string{"CAIRN_LISTEN=127.0.0.1:2"},
		Set: []string{"listen=127.0.0.1:3"}, Flags: map[string]string{"listen": "127.0.0.1:4"},
	}
	steps := []struct {
		want, source string
		drop         func(*config.Sources)
	}{
		{"127.0.0.1:4", "flag", func(s *config.Sources) { s.Flags = nil }},
		{"127.0.0.1:3", "--set", func(s *config.Sources) { s.Set = nil }},
		{"127.0.0.1:2", "environment CAIRN_LISTEN", func(s *config.Sources) { s.Env = nil }},
		{"127.0.0.1:1", "file " + all.File, func(s *config.Sources) { s.File = "" }},
		{"127.0.0.1:8787", "default", func(*config.Sources) {}},
	}
	for _, step := range steps {
		loaded, values, err := config.Load(all)
		require.NoError(t, err)
		require.Equal(t, step.want, loaded.Listen)
		require.Equal(t, step.source, value(t, values, "listen").Source)
		step.drop(&all)
	}
}

func TestFileForms(t *testing.T) {
	t.Parallel()
	path := file(t, `
http:
  max_body_bytes: 2048
  cors_origins: [https://a.example, "http://localhost:3000"]
rate_limit: {per_second: 2.5}
stream.ping: 20s
metrics:
log:
  level: debug
storage: {migrate: false}
`)
	loaded, _, err := config.Load(config.Sources{Env: []string{"CAIRN_CONFIG=" + path}})
	require.NoError(t, err)
	require.EqualValues(t, 2048, loaded.HTTP.MaxBodyBytes)
	require.Equal(t, []string{"https://a.example", "http://localhost:3000"}, loaded.HTTP.CORSOrigins)
	require.InDelta(t, 2.5, loaded.RateLimit.PerSecond, 0)
	require.Equal(t, 20*time.Second, loaded.Stream.Ping)
	require.Equal(t, "debug", loaded.Log.Level)
	require.False(t, loaded.Storage.Migrate)
}

func TestDurationsInDays(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"30d": 720 * time.Hour, "1d12h": 36 * time.Hour, "0d5m": 5 * time.Minute, "48h": 48 * time.Hour, "1d": 24 * time.Hour,
	} {
		loaded, _, err := config.Load(config.Sources{Set: []string{"auth.refresh_token_ttl=" + text}})
		require.NoError(t, err, text)
		require.Equal(t, want, loaded.Auth.RefreshTokenTTL, text)
	}
	for _, text := range []string{"d", "-1d", "1.5d", "1d-1h", "1dd", "1d24h", "99999999999d", "1day", " 1d"} {
		_, _, err := config.Load(config.Sources{Set: []string{"auth.refresh_token_ttl=" + text}})
		require.Error(t, err, text)
	}
}

func TestTheSecretOfAnIssuerIsNotShown(t *testing.T) {
	t.Parallel()
	_, values, err := config.Load(config.Sources{Set: []string{
		"auth.oidc.issuer=https://id.example.org", "auth.oidc.client_id=cairn", "auth.oidc.client_secret=hush",
	}})
	require.NoError(t, err)
	require.Equal(t, "xxxxx", value(t, values, "auth.oidc.client_secret").Value)
	_, _, err = config.Load(config.Sources{Set: []string{"auth.oidc.client_secret=hush\n"}})
	require.NotContains(t, err.Error(), "hush")
}

func TestUnreadableFile(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{
		"missing":     filepath.Join(t.TempDir(), "none.yaml"),
		"not YAML":    file(t, "listen: [\n"),
		"not a map":   file(t, "- listen\n"),
		"said twice":  file(t, "listen: 127.0.0.1:1\nlisten: 127.0.0.1:2\n"),
		"a directory": t.TempDir(),
	} {
		_, _, err := config.Load(config.Sources{File: path})
		require.ErrorContains(t, err, "read configuration file", name)
		require.ErrorContains(t, err, path, name)
	}
}

// Every key refuses something, and says so with its key, the value, the source and what is allowed.
func TestWrongValues(t *testing.T) {
	t.Parallel()
	wrong := map[string]string{
		"listen": "8787", "database": "mysql://x", "http.max_body_bytes": "12MB", "http.cors_origins": "example.org",
		"http.read_header_timeout": "10", "rate_limit.per_second": "NaN", "rate_limit.burst": "0", "tls.cert_file": "a\nb",
		"tls.key_file": "a\x00", "metrics.listen": ":99999", "log.level": "INFO", "log.format": "xml",
		"push.pause": "0s", "push.fcm.project": "a\nb", "push.fcm.credentials_file": "a\rb", "push.fcm.endpoint": "https://user@host",
		"stream.queue_frames": "1", "stream.queue_bytes": "-1", "stream.ping": "0s", "stream.pong": "99h", "stream.max_age": "1ms",
		"presence.max_announced": "1.5", "storage.lanes": "17", "storage.readers": "", "storage.migrate": "yes",
		"http.public_url": "chat.example.org", "auth.access_token_ttl": "0s", "auth.refresh_token_ttl": "401d", "auth.dpop_nonce_ttl": "2h",
		"auth.step_up_max_age": "d", "auth.require_device_approval": "1", "auth.oidc.issuer": "https://id.example.org?x",
		"auth.oidc.client_id": "a\nb", "auth.oidc.client_secret": "a\nb", "auth.oidc.provision": "on",
		"ready_file": "a\nb", "shutdown_timeout": "-1s", "http.allowed_origins": "*,*", "http.trusted_proxies": "10.0.0.0/33", "cluster.mode": "two",
		"limits.enabled": "on", "rl.gateway_connect": "0/1m", "rl.login": "1", "rl.write": "5/0s", "rl.search": "a/1m",
		"file.max_bytes": "1MB", "file.dir": "a\nb", "file.scanner": "avast", "file.clamd_address": "a\nb",
	}
	for _, key := range config.Keys() {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			text, known := wrong[key]
			if !known && slices.Contains(config.WorkspaceKeys(), key) {
				text, known = "-1", true // a duration or a whole number, none of which may be negative
			}
			require.True(t, known, "the test has no wrong value for %s", key)
			_, _, err := config.Load(config.Sources{Set: []string{key + "=" + text}})
			var refused *config.Error
			require.ErrorAs(t, err, &refused)
			require.Len(t, refused.Problems, 1)
			require.Equal(t, key, refused.Problems[0].Key)
			require.Equal(t, "--set", refused.Problems[0].Source)
			require.NotEmpty(t, refused.Problems[0].Allowed)
		})
	}
}

func TestEveryProblemIsNamed(t *testing.T) {
	t.Parallel()
	_, _, err := config.Load(config.Sources{
		File:  file(t, "listen: nowhere\nhtp: {max_body_bytes: 5}\nlog: loud\n"),
		Env:   []string{"CAIRN_LOG_LEVEL=loud", "CAIRN_LISTN=x:1", "PATH=/bin"},
		Set:   []string{"stream.ping=never", "lanes=3", "nonsense"},
		Flags: map[string]string{"shutdown_timeout": "soon"},
	})
	var refused *config.Error
	require.ErrorAs(t, err, &refused)
	require.Len(t, refused.Problems, 8)
	for _, part := range []string{
		`listen = "nowhere" (file `, "host:port", "did you mean http.max_body_bytes?", "log (file ",
		`log.level = "loud" (environment CAIRN_LOG_LEVEL): allowed is one of debug, info, warn, error`,
		`stream.ping = "never" (--set): allowed is a duration from`, "lanes (--set): nobody knows this name; did you mean storage.lanes?",
		`nonsense = "" (--set): allowed is key=value`, `shutdown_timeout = "soon" (flag)`,
	} {
		require.ErrorContains(t, err, part)
	}
}

// Others choose names that begin with CAIRN_ too: they stop nothing, and are answered for a warning.
func TestUnknownVariablesAreIgnored(t *testing.T) {
	t.Parallel()
	environ := []string{
		"CAIRN_LISTN=127.0.0.1:1", "CAIRN_PORT=tcp://10.0.0.1:8787", "CAIRN_SERVICE_HOST=10.0.0.1", "CAIRN_PORT_8787_TCP=x", "CAIRN_EMPTY=",
		"PATH=/bin", "CAIRN_URL=u", "CAIRN_API_KEY=k", "CAIRN_DEVICE=d", "CAIRN_SHARE_TOKEN=t", "CAIRN_TEST_X=1", "CAIRN_LOG_LEVEL=warn",
	}
	loaded, _, err := config.Load(config.Sources{Env: environ})
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:8787", loaded.Listen)
	require.Equal(t, "warn", loaded.Log.Level)
	var named []string
	for _, one := range config.Ignored(environ) {
		named = append(named, one.Key)
		require.Contains(t, one.String(), "nobody knows this name")
	}
	require.Equal(t, []string{"CAIRN_LISTN", "CAIRN_PORT", "CAIRN_SERVICE_HOST", "CAIRN_PORT_8787_TCP"}, named)
	require.Equal(t, "CAIRN_LISTEN", config.Ignored(environ)[0].Suggestion)
}

func TestEmptyVariablesAreUnset(t *testing.T) {
	t.Parallel()
	loaded, values, err := config.Load(config.Sources{
		File: file(t, "storage: {readers: 3}\n"), Env: []string{"CAIRN_STORAGE_READERS=", "CAIRN_LISTEN=", "CAIRN_CONFIG="},
	})
	require.NoError(t, err)
	require.Equal(t, 3, loaded.Storage.Readers)
	require.Equal(t, "default", value(t, values, "listen").Source)
}

func TestAPathIsNoURL(t *testing.T) {
	t.Parallel()
	_, _, err := config.Load(config.Sources{Set: []string{"database=/tmp/foo.db"}})
	require.ErrorContains(t, err, `database = "/tmp/foo.db" (--set): write sqlite:/tmp/foo.db; allowed is sqlite:PATH`)
}

func TestValuesThatGoTogether(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		set     []string
		problem string
	}{
		{[]string{"tls.cert_file=a.pem"}, "tls.cert_file"},
		{[]string{"tls.key_file=a.pem"}, "tls.cert_file"},
		{[]string{"tls.cert_file=a.pem", "tls.key_file=b.pem"}, ""},
		{[]string{"push.fcm.project=p"}, "push.fcm.project"},
		{[]string{"stream.ping=30s"}, "stream.pong"},
		{[]string{"cluster.mode=multi"}, "cluster.mode"},
		{[]string{"cluster.mode=multi", "database=postgres://db/cairn"}, ""},
		{[]string{"sync.reconnect_backoff_base=2m"}, "sync.reconnect_backoff_cap"},
		{[]string{"client.outbox_retry_base=6m"}, "client.outbox_retry_cap"},
		{[]string{"sync.event_payload_max_bytes=1048576"}, "sync.ws_max_frame_bytes"},
	} {
		_, _, err := config.Load(config.Sources{Set: one.set})
		if one.problem == "" {
			require.NoError(t, err)
			continue
		}
		var refused *config.Error
		require.ErrorAs(t, err, &refused)
		require.Equal(t, one.problem, refused.Problems[0].Key)
	}
}

func TestSeveralNodesShareADatabaseByItsKind(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		database, mode string
		multi          bool
	}{
		{"sqlite:a.db", "", false},
		{"sqlite:a.db", "single", false},
		{"postgres://db/cairn", "", true},
		{"postgresql://db/cairn", "multi", true},
		{"postgres://db/cairn", "single", false},
	} {
		loaded, _, err := config.Load(config.Sources{Set: []string{"database=" + one.database, "cluster.mode=" + one.mode}})
		require.NoError(t, err)
		require.Equal(t, one.multi, loaded.Multi(), "%+v", one)
	}
}

func TestPasswordsAreNeverShown(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"postgres://cairn:hunter2@db/cairn", "postgres://db/cairn?password=hunter2&sslmode=disable",
		"postgres://db/cairn?sslpassword=hunter2", "postgres://cairn:hunter2@%zz/cairn", "mysql://cairn:hunter2@db",
		"postgres:cairn:hunter2@db", "host=db password=hunter2", "",
	} {
		_, values, err := config.Load(config.Sources{Set: []string{"database=" + url}})
		if err != nil {
			require.NotContains(t, err.Error(), "hunter2", url)
			continue
		}
		require.NotContains(t, value(t, values, "database").Value, "hunter2", url)
	}
	require.Equal(t, "postgres://cairn:xxxxx@db/cairn", config.RedactDatabase("postgres://cairn:hunter2@db/cairn"))
	require.Equal(t, "sqlite:my.db", config.RedactDatabase("sqlite:my.db"))
}

func TestTrustedProxies(t *testing.T) {
	t.Parallel()
	load := func(text string) ([]netip.Prefix, error) {
		loaded, _, err := config.Load(config.Sources{Set: []string{"http.trusted_proxies=" + text}})
		return loaded.HTTP.TrustedProxies, err
	}
	found, err := load("10.1.2.3/8, 192.0.2.1,2001:db8::/32 ,::2,")
	require.NoError(t, err)
	require.Equal(t, []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("::2/128"),
	}, found)
	for _, wrong := range []string{"10.0.0", "proxy.example.org", "10.0.0.0/8;192.0.2.1", "fe80::1%eth0", "::ffff:10.0.0.0/104", "192.0.2.1:80"} {
		_, err := load(wrong)
		require.ErrorContains(t, err, "networks such as 10.0.0.0/8", wrong)
	}
}

func TestDocumentationIsCurrent(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "docs", "configuration.md")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(config.Markdown()), 0o600))
	}
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, config.Markdown(), string(page), "run `make docs`")
	for _, key := range config.Keys() {
		require.Equal(t, 1, strings.Count(string(page), "| `"+key+"` |"), key)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("listen: 127.0.0.1:1\nhttp: {max_body_bytes: 5}", "stream.ping=3s")
	f.Add("a: &a [*a]", "=")
	f.Add("database: postgres://u:secret-word@h/d\n", "database=postgres://u:secret-word@%")
	f.Fuzz(func(t *testing.T, content, set string) {
		path := filepath.Join(t.TempDir(), "cairn.yaml")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		_, values, err := config.Load(config.Sources{File: path, Set: []string{set}})
		if err == nil {
			require.Len(t, values, len(config.Keys()))
		}
	})
}
