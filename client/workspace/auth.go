package workspace

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/cairnsync/cairn/client/internal/httpkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

const (
	// refreshLead is how long before its end an access token is replaced, at most a quarter of its life.
	refreshLead = time.Minute
	// refreshTimeout bounds a refresh, also of a caller that goes away: a lost answer has to be asked for again within a
	// minute (WS-ID-1).
	refreshTimeout = 20 * time.Second
)

// Tokens are a sign-in as it is kept.
type Tokens struct {
	SessionID    string              `json:"session_id"`
	AccessToken  string              `json:"access_token"`
	RefreshToken string              `json:"refresh_token"`
	ExpiresAt    time.Time           `json:"expires_at"` // of the access token, by this machine's clock
	RenewAt      time.Time           `json:"renew_at"`   // from then on it is replaced before use
	Device       wire.DeviceOfToken  `json:"device"`
	Principal    wire.TokenPrincipal `json:"principal"`
}

// TokenStore keeps the tokens of one sign-in durably. It is safe for concurrent use.
type TokenStore interface {
	// LoadTokens answers what was saved last, nil for nothing.
	LoadTokens(ctx context.Context) (*Tokens, error)
	// SaveTokens returns when the tokens would survive the machine's end; nil removes them. A refresh
	// token is used only after that, so that a lost one can still be had again (WS-ID-1).
	SaveTokens(ctx context.Context, tokens *Tokens) error
	// LockTokens keeps everybody else who has this store, also other processes, from refreshing until
	// release is called: two of them with one refresh token would end the sign-in.
	LockTokens(ctx context.Context) (release func(), err error)
}

// Credential is what a person signs in with.
type Credential struct{ request wire.TokenRequest }

// Password signs in with a name and a password.
func Password(username, password string) Credential {
	return Credential{wire.TokenRequest{GrantType: wire.GrantPassword, Username: username, Password: password}}
}

// LoginCode signs in with a single-use code of the CLI or of another device.
func LoginCode(login string) Credential {
	return Credential{wire.TokenRequest{GrantType: wire.GrantLoginCode, Code: login}}
}

// OIDCCode signs in with what an OpenID provider answered to an authorization request with PKCE.
func OIDCCode(authorization, verifier, redirectURI string) Credential {
	return Credential{wire.TokenRequest{
		GrantType: wire.GrantOIDCCode, Code: authorization, CodeVerifier: verifier, RedirectURI: redirectURI,
	}}
}

// auth holds the sign-in of a client.
type auth struct {
	client *Client
	turn   chan struct{} // holds one: who refreshes, steps up or signs in

	mu     sync.Mutex // guards tokens
	tokens *Tokens    // nil: not loaded, or none
}

// SignIn signs the device in and keeps the tokens. It is not repeated on a lost answer, because a code
// works once. A device that waits for approval is signed in too: Device.State of the answer says so.
func (c *Client) SignIn(ctx context.Context, with Credential) (wire.TokenAnswer, error) {
	asked := with.request
	asked.Device = &wire.DeviceRequest{ID: c.config.Device.ID, Name: c.config.Device.Name, Platform: c.config.Device.Platform}
	return c.auth.exclusive(ctx, func(ctx context.Context, _ *Tokens) (wire.TokenAnswer, error) {
		return c.askToken(ctx, asked)
	})
}

// StepUp renews how recently the person proved who they are, and keeps the session (WS-ID-5).
func (c *Client) StepUp(ctx context.Context, with Credential) (wire.TokenAnswer, error) {
	return c.auth.exclusive(ctx, func(ctx context.Context, held *Tokens) (wire.TokenAnswer, error) {
		if held == nil {
			return wire.TokenAnswer{}, ErrSignedOut
		}
		asked := with.request
		asked.SessionID = held.SessionID
		asked.Device = &wire.DeviceRequest{ID: c.config.Device.ID, Name: c.config.Device.Name, Platform: c.config.Device.Platform}
		return c.askToken(ctx, asked)
	})
}

// Refresh replaces the tokens now. Requests and the gateway do it by themselves when it is due.
func (c *Client) Refresh(ctx context.Context) error {
	held, err := c.auth.load(ctx)
	if err != nil {
		return err
	}
	if held == nil {
		return ErrSignedOut
	}
	_, err = c.auth.token(ctx, held.AccessToken)
	return err
}

// Logout ends the sign-in on the server and forgets the tokens. When the server cannot be reached
// nothing is forgotten; Forget does that alone.
func (c *Client) Logout(ctx context.Context) error {
	_, err := c.Do(ctx, Call{Method: http.MethodPost, Path: prefix + "/auth/logout", Body: empty{}})
	refused := AsProblem(err)
	if err != nil && !errors.Is(err, ErrSignedOut) && (refused == nil || refused.Status != http.StatusUnauthorized) {
		return err
	}
	return c.Forget(ctx)
}

// Forget removes the tokens here, and tells nobody.
func (c *Client) Forget(ctx context.Context) error {
	c.auth.hold(nil)
	return c.config.Tokens.SaveTokens(ctx, nil)
}

// SignedIn answers the sign-in that is kept, nil for none.
func (c *Client) SignedIn(ctx context.Context) (*Tokens, error) { return c.auth.load(ctx) }

func (c *Client) askToken(ctx context.Context, asked wire.TokenRequest) (wire.TokenAnswer, error) {
	return fetch[wire.TokenAnswer](ctx, c, Call{
		Method: http.MethodPost, Path: prefix + "/auth/token", Body: asked, public: true, proved: true, once: true,
	})
}

// token answers an access token that is good for some time and is not spent, which the server refused.
func (a *auth) token(ctx context.Context, spent string) (string, error) {
	if a.client.config.APIToken != "" {
		return a.client.config.APIToken, nil
	}
	held, err := a.load(ctx)
	if err != nil {
		return "", err
	}
	if held == nil {
		return "", ErrSignedOut
	}
	if held.AccessToken != spent && time.Now().Before(held.RenewAt) {
		return held.AccessToken, nil
	}
	renewed, err := a.refresh(ctx, spent)
	if err == nil {
		return renewed.AccessToken, nil
	}
	if held.AccessToken != spent && time.Now().Before(held.ExpiresAt) && !errors.Is(err, ErrSignedOut) {
		return held.AccessToken, nil // the old one still works while the server does not answer
	}
	return "", err
}

func (a *auth) load(ctx context.Context) (*Tokens, error) {
	a.mu.Lock()
	held := a.tokens
	a.mu.Unlock()
	if held != nil {
		return held, nil
	}
	loaded, err := a.client.config.Tokens.LoadTokens(ctx)
	if err != nil {
		return nil, fmt.Errorf("load tokens: %w", err)
	}
	a.hold(loaded)
	return loaded, nil
}

func (a *auth) hold(tokens *Tokens) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tokens = tokens
}

// refresh replaces the tokens, unless somebody else did while this waited for its turn.
func (a *auth) refresh(ctx context.Context, spent string) (*Tokens, error) {
	var renewed *Tokens
	_, err := a.exclusive(ctx, func(ctx context.Context, held *Tokens) (wire.TokenAnswer, error) {
		if held == nil {
			return wire.TokenAnswer{}, ErrSignedOut
		}
		if held.AccessToken != spent && time.Now().Before(held.RenewAt) {
			renewed = held
			return wire.TokenAnswer{}, errUnchanged
		}
		return a.askRefresh(ctx, held)
	})
	if errors.Is(err, errUnchanged) {
		return renewed, nil
	}
	if err != nil {
		return nil, err
	}
	return a.load(ctx)
}

// errUnchanged says that somebody else has refreshed already.
var errUnchanged = errors.New("tokens are fresh")

// askRefresh asks for new tokens until there is an answer or the time is up, always with the same token: the
// server answers its last successor again, or a fresh one, to who did not get it (WS-ID-1).
func (a *auth) askRefresh(ctx context.Context, held *Tokens) (wire.TokenAnswer, error) {
	wait := backoff{base: requestBase, limit: requestCap}
	for {
		answer, err := a.client.askToken(ctx, wire.TokenRequest{GrantType: wire.GrantRefreshToken, RefreshToken: held.RefreshToken})
		switch {
		case err == nil:
			return answer, nil
		case endsSignIn(err):
			return answer, fmt.Errorf("%w: %w", ErrSignedOut, err)
		case !worthRetry(err), !httpkit.Sleep(ctx, wait.next(waitOf(err))):
			return answer, err
		}
	}
}

// endsSignIn reports whether a refused refresh is final.
func endsSignIn(err error) bool {
	return IsCode(err, code.InvalidCredentials) || IsCode(err, code.InvalidToken) || IsCode(err, code.Forbidden)
}

// exclusive runs a step that replaces the tokens: alone in this process and among all that have the store, with what is
// kept at that moment. What it answers is kept durably before anybody uses it. A caller that goes away does not
// interrupt it.
func (a *auth) exclusive(ctx context.Context, step func(context.Context, *Tokens) (wire.TokenAnswer, error)) (wire.TokenAnswer, error) {
	if a.client.config.APIToken != "" {
		return wire.TokenAnswer{}, httpkit.NotSent("sign in: the client has an API token")
	}
	select {
	case a.turn <- struct{}{}:
	case <-ctx.Done():
		return wire.TokenAnswer{}, fmt.Errorf("wait for the sign-in: %w", ctx.Err())
	}
	defer func() { <-a.turn }()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshTimeout)
	defer cancel()
	release, err := a.client.config.Tokens.LockTokens(ctx)
	if err != nil {
		return wire.TokenAnswer{}, fmt.Errorf("lock tokens: %w", err)
	}
	defer release()
	held, err := a.client.config.Tokens.LoadTokens(ctx)
	if err != nil {
		return wire.TokenAnswer{}, fmt.Errorf("load tokens: %w", err)
	}
	a.hold(held)
	asked := time.Now()
	answer, err := step(ctx, held)
	if errors.Is(err, ErrSignedOut) && held != nil {
		a.hold(nil)
		return answer, errors.Join(err, a.client.config.Tokens.SaveTokens(ctx, nil))
	}
	if err != nil {
		return answer, err
	}
	return answer, a.keep(ctx, answer, asked)
}

// keep stores an answer and then puts it to use.
func (a *auth) keep(ctx context.Context, answer wire.TokenAnswer, asked time.Time) error {
	life := time.Duration(answer.ExpiresIn) * time.Second
	tokens := &Tokens{
		SessionID: answer.SessionID, AccessToken: answer.AccessToken, RefreshToken: answer.RefreshToken,
		ExpiresAt: asked.Add(life), RenewAt: asked.Add(life - min(refreshLead, life/4)),
		Device: answer.Device, Principal: answer.Principal,
	}
	if err := a.client.config.Tokens.SaveTokens(ctx, tokens); err != nil {
		return fmt.Errorf("keep tokens: %w", err)
	}
	a.hold(tokens)
	return nil
}
