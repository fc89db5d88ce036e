package workspace

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/cairnsync/cairn/client/internal/httpkit"
)

// Defaults of Config.
const (
	DefaultMaxResponseBytes = 64 << 20
	DefaultRequestTimeout   = 60 * time.Second
	DefaultAttempts         = 3
)

// Device is the install that signs in; the same devices as in Shared Sessions.
type Device struct {
	// ID is a UUID chosen once per install.
	ID string
	// Name is shown to people, 1 to 200 characters.
	Name string
	// Platform is one word, 1 to 40 characters.
	Platform string
}

// Config says whom a Client speaks to, and as whom.
type Config struct {
	// BaseURL is the server's origin with an optional path in front of /api/v1, as the server's
	// http.public_url says it. It must carry no user, query or fragment.
	BaseURL string
	// Device is the calling install. Not used with APIToken.
	Device Device
	// Keys holds the key the device proves itself with; nil only with an APIToken that is not bound to one.
	Keys KeyStore
	// Tokens keeps the sign-in; nil keeps it in memory. Not used with APIToken.
	Tokens TokenStore
	// APIToken is the token of an agent or app, in place of a sign-in.
	APIToken string
	// HTTP carries the requests; nil for a client with a connection pool of its own. Its Timeout is not
	// applied to the gateway and to files. Its CheckRedirect is replaced: a redirect to another origin is
	// refused.
	HTTP *http.Client
	// Trace, when set, is told about every request that ended. It is called on the caller's goroutine and
	// must be quick and safe for concurrent use. It sees no token, proof or body.
	Trace func(RequestTrace)
	// MaxResponseBytes bounds the body of one answer; default 64 MiB. A longer one is ErrResponseTooLarge.
	MaxResponseBytes int64
	// RequestTimeout bounds one attempt of a request that carries no file; default 60 s.
	RequestTimeout time.Duration
	// Attempts is how often a request is tried; default 3, 1 for never again. Every write carries an id,
	// so that repeating it does nothing twice (ES-5).
	Attempts int
}

// RequestTrace is what Config.Trace is told.
type RequestTrace struct {
	Method  string
	Path    string // below the base URL, escaped, without the query
	Status  int    // 0 when there was no answer
	TraceID string // of the answer, or ""
	Took    time.Duration
	Err     error
}

// Client speaks to one server as one person on one device, or as one agent or app. It is safe for
// concurrent use and owns no goroutine.
type Client struct {
	config Config
	base   string // scheme, host and path, without a trailing slash
	rest   *http.Client
	stream *http.Client // as rest, without a total timeout
	auth   auth

	mu    sync.Mutex // guards nonce
	nonce string     // the newest one of the server
}

// NewID answers a UUID of version 7, as clients make them for messages and writes (ES-5).
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// CheckURL answers what is wrong with a Config.BaseURL, nil for nothing. Its errors do not repeat it.
func CheckURL(base string) error {
	_, err := httpkit.ParseBase(base)
	return err
}

// New checks c and answers a Client. It makes no request.
func New(c Config) (*Client, error) {
	base, err := httpkit.ParseBase(c.BaseURL)
	if err != nil {
		return nil, err
	}
	if c.APIToken == "" {
		if c.Keys == nil {
			return nil, errors.New("check configuration: a sign-in needs a place for its key")
		}
		if _, err := uuid.Parse(c.Device.ID); err != nil {
			return nil, fmt.Errorf("check configuration: device id: %w", err)
		}
	}
	if strings.ContainsFunc(c.APIToken, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("check API token: it must be printable ASCII without spaces")
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
	if c.Tokens == nil {
		c.Tokens = NewMemory()
	}
	rest := httpkit.Guarded(c.HTTP, base)
	stream := *rest
	stream.Timeout = 0
	client := &Client{config: c, base: strings.TrimRight(base.String(), "/"), rest: rest, stream: &stream}
	client.auth = auth{client: client, turn: make(chan struct{}, 1)}
	return client, nil
}

// Close lets go of idle connections. Requests under way are not disturbed.
func (c *Client) Close() { c.rest.CloseIdleConnections() }

// DeviceID answers the configured device id.
func (c *Client) DeviceID() string { return c.config.Device.ID }

// proof answers a proof for a request, and "" when this client has no key.
func (c *Client) proof(method, path, token, nonce string) (string, error) {
	if c.config.Keys == nil {
		return "", nil
	}
	key, err := c.config.Keys.Key()
	if err != nil {
		return "", err
	}
	return key.Prove(Proof{Method: method, URL: c.base + path, Token: token, Nonce: nonce})
}

func (c *Client) currentNonce() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nonce
}

func (c *Client) noteNonce(nonce string) {
	if nonce == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nonce = nonce
}
