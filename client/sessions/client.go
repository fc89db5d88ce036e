package sessions

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/cairnsync/cairn/client/internal/httpkit"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Defaults of Config.
const (
	DefaultMaxResponseBytes = 64 << 20
	DefaultRequestTimeout   = 60 * time.Second
	DefaultAttempts         = 3
)

// Device is the install that makes the requests (SS-DEV-0).
type Device struct {
	// ID is a UUID chosen once per install. Empty only for clients that just read.
	ID string
	// Platform is one of wire's platforms; anything else is stored as "agent".
	Platform wire.Platform
	// Name is shown to people; the server cuts it to 120 characters and keeps the first one it sees.
	Name string
	// PushToken is an FCM registration token of 8 to 4096 printable ASCII characters, or "".
	PushToken string
}

// Config says whom a Client speaks to, and as whom.
type Config struct {
	// BaseURL is the server's origin with an optional path in front of /v1, such as
	// "https://sync.example.com". It must carry no user, query or fragment.
	BaseURL string
	// Key is the API key. Its user is who acts (SS-HTTP-2).
	Key string
	// Device is the calling install.
	Device Device
	// ShareToken is the plaintext token of a link share, or "" (SS-SHR-1).
	ShareToken string
	// HTTP carries the requests; nil for a client with a connection pool of its own. Its Timeout is
	// not applied to streams. Its CheckRedirect is replaced: a redirect to another origin is refused.
	HTTP *http.Client
	// Trace, when set, is told about every request that ended. It is called on the caller's goroutine
	// and must be quick and safe for concurrent use. It sees no key, token or body.
	Trace func(RequestTrace)
	// MaxResponseBytes bounds the body of one answer; default 64 MiB. A longer one is ErrResponseTooLarge.
	MaxResponseBytes int64
	// RequestTimeout bounds one attempt of a request that is not a stream; default 60 s.
	RequestTimeout time.Duration
	// Attempts is how often an idempotent request is tried; default 3, 1 for never again.
	Attempts int
}

// RequestTrace is what Config.Trace is told.
type RequestTrace struct {
	Method  string
	Path    string // below the base URL, escaped, without the query
	Status  int    // 0 when there was no answer
	TraceID string // of the answer (SS-HTTP-7), or ""
	Took    time.Duration
	Err     error
}

// Errors of this package that are not answers of the server.
var (
	// ErrResponseTooLarge is an answer over Config.MaxResponseBytes.
	ErrResponseTooLarge = httpkit.ErrResponseTooLarge
	// ErrForeignRedirect is a redirect to another origin, which would have carried the key along.
	ErrForeignRedirect = httpkit.ErrForeignRedirect
	// ErrEmptyReference is an empty session reference or id, which would address another route.
	ErrEmptyReference = httpkit.ErrEmptyReference
)

// Client speaks to one server as one user on one device.
type Client struct {
	config Config
	base   string // scheme, host and path, without a trailing slash
	rest   *http.Client
	stream *http.Client // as rest, without a total timeout
}

// New checks c and answers a Client. It makes no request.
func New(c Config) (*Client, error) {
	base, err := httpkit.ParseBase(c.BaseURL)
	if err != nil {
		return nil, err
	}
	if c.Key == "" || strings.ContainsFunc(c.Key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("check key: it must be printable ASCII without spaces")
	}
	if c.MaxResponseBytes <= 0 {
		c.MaxResponseBytes = DefaultMaxResponseBytes
	}
	if c.RequestTimeout <= 0 {
		c.RequestTimeout = DefaultRequestTimeout
	}
	if c.Attempts <= 0 {
		c.Attempts = DefaultAttempts
	}
	rest := httpkit.Guarded(c.HTTP, base)
	stream := *rest
	stream.Timeout = 0
	return &Client{config: c, base: strings.TrimRight(base.String(), "/"), rest: rest, stream: &stream}, nil
}

// Close lets go of idle connections. Requests under way are not disturbed.
func (c *Client) Close() { c.rest.CloseIdleConnections() }

// DeviceID answers the configured device id.
func (c *Client) DeviceID() string { return c.config.Device.ID }

// identify puts who calls into the headers (SS-HTTP-2, SS-DEV-0).
func (c *Client) identify(header http.Header) {
	header.Set("Authorization", "Bearer "+c.config.Key)
	device := c.config.Device
	for name, value := range map[string]string{
		wire.HeaderDevice:     device.ID,
		wire.HeaderPlatform:   string(device.Platform),
		wire.HeaderDeviceName: headerText(device.Name),
		wire.HeaderPushToken:  device.PushToken,
		wire.HeaderShareToken: c.config.ShareToken,
	} {
		if value != "" {
			header.Set(name, value)
		}
	}
}

// headerText drops what a header line cannot carry; UTF-8 beyond ASCII is allowed.
func headerText(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, text))
}
