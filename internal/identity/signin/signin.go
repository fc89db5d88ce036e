// Package signin lets people, agents and apps in on the Workspace surface: it exchanges credentials for
// tokens, refreshes and ends sign-ins, and answers who a request or a connection comes from (WS-ID-1…6).
//
// Contract. Authenticate and AuthenticateGateway rest on the signature of the token, on a fresh proof of
// possession, and on the database: whether sign-in, device and principal still count is trusted for at
// most trusted.Trust of the process's clock, and dropped at once by a wake-up of signal.Identity.
// CredentialsAlive is never cached. A token that Token answered is in the database, as a hash; the
// secrets themselves are answered once and kept nowhere.
//
// Order. What ends a sign-in is durable before it is answered, and wakes signal.Identity after its
// commit. Everything about a person's devices is decided under the person's lock, in the transaction
// that writes.
//
// Blocking and concurrency. A Service is safe for concurrent use. Methods may wait for the database, and
// sign-ins for a lane of the password hasher or for the OpenID Connect issuer. Caches and what is
// remembered of failures and proofs are bounded.
package signin

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/identity/dpop"
	"github.com/cairnsync/cairn/internal/identity/oidc"
	"github.com/cairnsync/cairn/internal/identity/password"
	"github.com/cairnsync/cairn/internal/identity/token"
	"github.com/cairnsync/cairn/internal/identity/trusted"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
)

// Options are what a Service needs.
type Options struct {
	DB       storage.DB
	Bus      signal.Bus
	Env      *env.Env
	Identity *identity.Service
	Auth     config.Auth
	// PublicURL is http.public_url. Where it is empty, proofs name the address of the request as the server
	// sees it, which is right on loopback only.
	PublicURL string
	// LoopbackOnly says that nobody but this machine reaches the server.
	LoopbackOnly bool
	// Limits is limits.enabled: without it failed logins are not counted.
	Limits bool
}

// Service signs in and authenticates. Make it with New.
type Service struct {
	Options

	proofs    *dpop.Verifier
	passwords *password.Hasher
	issuer    *oidc.Issuer // nil without one
	failures  *failures
	keys      *ring

	signIns *trusted.Answers[string, standing]     // by sid
	tokens  *trusted.Answers[token.Hash, apiToken] // API tokens

	mu       sync.Mutex // guards unlisten
	unlisten func()
}

// Caller is who a request or a connection comes from.
type Caller struct {
	// Caller is what authorisation needs. Correlation, Trace and Key are the surface's to fill in.
	authz.Caller

	// TokenID is the API token of an agent or app; people have none.
	TokenID string
	// ExpiresAt is when the token that was shown ends; the zero value is never.
	ExpiresAt time.Time
	// Scopes are what an API token is for; nil is everything its principal may do.
	Scopes []string
	// Thumbprint is of the key that proved possession, "" for an unbound API token.
	Thumbprint string
	// Pending says that the device or the person waits for approval (WS-ID-3): only its own device, refresh
	// and logout are within reach.
	Pending bool
}

// Credential names what the caller came with, for CredentialsAlive.
func (c Caller) Credential() Credential {
	return Credential{Principal: c.Principal, Device: c.Device, SignIn: c.SignIn, TokenID: c.TokenID}
}

// Request is what a request says about who sends it.
type Request struct {
	Method string
	// URL is the address as the client wrote it: scheme and host as the server sees them, and the path with
	// its escapes. Scheme and host do not count where http.public_url is set.
	URL           string
	Authorization []string // every value of the header
	DPoP          []string // every value of the header
	// AllowPending lets a pending device in (WS-ID-3).
	AllowPending bool
}

// GatewayRequest is what identify, resume and reauth say about who is there (ES-6.3).
type GatewayRequest struct {
	AccessToken string
	APIToken    string
	DPoP        string
	// DeviceID must be the token's, unless it is empty: resume and reauth name none.
	DeviceID string
	// Nonce is the one the server gave this connection, in hello or reauth_required.
	Nonce string
	// URL is the address of the gateway as the client wrote it, with http or https.
	URL string
}

// errRevoked is the cause of refusals of what was good before, see Revoked.
var errRevoked = errors.New("it was revoked or is not active")

// Revoked reports whether err refuses a sign-in, device, token or principal that was revoked or is not
// active: the client deletes its local data (ES-8.5).
func Revoked(err error) bool { return errors.Is(err, errRevoked) }

// CloseCode answers with which code the gateway closes a connection that cannot be let in for err
// (ES-6.4). What is no refusal of ours is unknown_error: the client comes back.
func CloseCode(err error) code.Close {
	if Revoked(err) {
		return code.CloseRevoked
	}
	switch fault.From(err).Code {
	case code.InvalidToken, code.InvalidDPoPProof, code.UseDPoPNonce, code.InvalidCredentials:
		return code.CloseAuthentication
	case code.TokenExpired:
		return code.CloseTokenExpired
	case code.DevicePending:
		return code.CloseDevicePending
	case code.Forbidden, code.ScopeMissing, code.NotImplementedForKind:
		return code.CloseForbidden
	case code.RateLimited:
		return code.CloseRateLimited
	default:
		return code.CloseUnknownError
	}
}

// New makes the service. Between New and Start nothing is cached.
func New(options Options) *Service {
	s := &Service{
		Options:   options,
		proofs:    dpop.New(options.Env, options.Auth.DPoPNonceTTL),
		passwords: password.New(options.Env),
		failures:  newFailures(options.Env, options.Limits),
		keys:      newRing(options.DB, options.Env, options.Auth.AccessTokenTTL),
		signIns:   trusted.New[string, standing](options.Env),
		tokens:    trusted.New[token.Hash, apiToken](options.Env),
	}
	if options.Auth.OIDC.Issuer != "" {
		s.issuer = oidc.New(options.Auth.OIDC, options.Env)
	}
	return s
}

// Start makes sure that there is a key to sign with, and begins to listen for wake-ups and, with them, to
// cache.
func (s *Service) Start(ctx context.Context) error {
	if err := s.keys.ensure(ctx); err != nil {
		return err
	}
	unlisten := s.Bus.Subscribe(func(wake signal.Wake) {
		if wake.Topic == signal.Identity || wake.Topic == "" {
			s.signIns.Forget()
			s.tokens.Forget()
			s.keys.outdated()
		}
	})
	s.listening(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlisten = unlisten
	return nil
}

// Stop ends the listening and the caching.
func (s *Service) Stop(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unlisten != nil {
		s.listening(false)
		s.unlisten()
		s.unlisten = nil
	}
	return nil
}

func (s *Service) listening(on bool) {
	s.signIns.Listening(on)
	s.tokens.Listening(on)
	s.keys.listening.Store(on)
}

// Nonce makes a nonce for the proofs of this node, for the header DPoP-Nonce, hello and reauth_required.
func (s *Service) Nonce() string { return s.proofs.Nonce() }

// wakeAfter wakes Identity once tx is committed: whoever caches something about credentials reads anew.
func (s *Service) wakeAfter(tx storage.Tx) {
	tx.AfterCommit(func() { s.Bus.Publish(signal.Wake{Topic: signal.Identity}) })
}
