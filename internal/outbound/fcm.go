package outbound

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/jwt"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

const (
	// DefaultEndpoint is where Firebase Cloud Messaging answers.
	DefaultEndpoint = "https://fcm.googleapis.com"

	defaultTokenURL = "https://oauth2.googleapis.com/token"
	messagingScope  = "https://www.googleapis.com/auth/firebase.messaging"
	maxAnswer       = 64 << 10 // bytes read of an answer
)

// Config says how to reach Firebase Cloud Messaging.
type Config struct {
	ProjectID string
	// Credentials is the JSON key file of a service account.
	Credentials []byte
	// Endpoint is a base URL; empty is DefaultEndpoint.
	Endpoint string
}

// FCM pushes by the HTTP v1 interface of Firebase Cloud Messaging.
type FCM struct {
	sendURL string
	client  *http.Client
	account jwt.Config
	tokens  chan *oauth2.Token // holds the one access token; who takes it out may renew it
}

// NewFCM checks the configuration; it connects to nothing yet.
func NewFCM(config Config) (*FCM, error) {
	account, err := readAccount(config.Credentials)
	if err != nil {
		return nil, fmt.Errorf("read push credentials: %w", err)
	}
	if config.ProjectID == "" {
		return nil, errors.New("read push configuration: the project id is missing")
	}
	base, err := url.Parse(cmp.Or(config.Endpoint, DefaultEndpoint))
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return nil, errors.New("read push configuration: the endpoint is not an http URL")
	}
	fcm := &FCM{
		sendURL: base.JoinPath("v1", "projects", config.ProjectID, "messages:send").String(),
		client:  &http.Client{Transport: newTransport(), CheckRedirect: stay},
		account: account,
		tokens:  make(chan *oauth2.Token, 1),
	}
	fcm.tokens <- nil
	return fcm, nil
}

// readAccount reads a key file. Its errors quote nothing of the file.
func readAccount(file []byte) (jwt.Config, error) {
	var account struct {
		Type         string `json:"type"`
		ClientEmail  string `json:"client_email"`
		PrivateKeyID string `json:"private_key_id"`
		PrivateKey   string `json:"private_key"`
		TokenURI     string `json:"token_uri"`
	}
	if json.Unmarshal(file, &account) != nil {
		return jwt.Config{}, errors.New("not a JSON key file")
	}
	if account.Type != "service_account" || account.ClientEmail == "" || account.PrivateKey == "" {
		return jwt.Config{}, errors.New("not the key file of a service account")
	}
	return jwt.Config{
		Email: account.ClientEmail, PrivateKey: []byte(account.PrivateKey), PrivateKeyID: account.PrivateKeyID,
		Scopes: []string{messagingScope}, TokenURL: cmp.Or(account.TokenURI, defaultTokenURL),
	}, nil
}

func newTransport() *http.Transport {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxConnsPerHost = 2 * batchSize
	transport.MaxIdleConnsPerHost = batchSize
	return transport
}

// stay refuses redirects: a push token goes nowhere but to the endpoint.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Close drops idle connections.
func (f *FCM) Close() { f.client.CloseIdleConnections() }

// Push sends data, and nothing to display, with high priority to the device behind token. It takes
// at most five seconds, the fetching of an access token included (SS-DSP-3).
func (f *FCM) Push(ctx context.Context, token string, data map[string]string) Result {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	access, reason := f.accessToken(ctx)
	if reason != "" {
		return failed(reason)
	}
	result := f.send(ctx, access, token, data)
	if result.Reason == wire.PushAuthFailed {
		f.dropToken(ctx, access)
	}
	return result
}

// accessToken answers the access token, fetched anew when it is about to expire, or why there is
// none. One caller fetches, the others wait for it.
func (f *FCM) accessToken(ctx context.Context) (string, wire.PushReason) {
	var current *oauth2.Token
	select {
	case current = <-f.tokens:
	case <-ctx.Done():
		return "", wire.PushNetworkError
	}
	defer func() { f.tokens <- current }()
	if current.Valid() {
		return current.AccessToken, ""
	}
	carrier := &carrier{ctx: ctx, next: f.client.Transport}
	client := &http.Client{Transport: carrier, CheckRedirect: stay}
	fetched, err := f.account.TokenSource(context.WithValue(ctx, oauth2.HTTPClient, client)).Token()
	if err != nil {
		return "", carrier.reason(err)
	}
	current = fetched
	return fetched.AccessToken, ""
}

// dropToken forgets the access token the service refused, unless it was renewed since.
func (f *FCM) dropToken(ctx context.Context, access string) {
	select {
	case current := <-f.tokens:
		if current != nil && current.AccessToken == access {
			current = nil
		}
		f.tokens <- current
	case <-ctx.Done():
	}
}

// carrier gives the requests of the token library, which have none, a context, and remembers
// failures of the network, which the library reports as text.
type carrier struct {
	ctx    context.Context //nolint:containedctx // lives as long as one fetch
	next   http.RoundTripper
	failed bool
}

// RoundTrip sends the request within the carrier's context.
func (c *carrier) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(request.WithContext(c.ctx))
	c.failed = err != nil
	return response, err //nolint:wrapcheck // a carrier adds nothing
}

// reason answers why no access token could be had.
func (c *carrier) reason(err error) wire.PushReason {
	var refused *oauth2.RetrieveError
	switch {
	case c.failed, c.ctx.Err() != nil:
		return wire.PushNetworkError
	case errors.As(err, &refused) && refused.Response.StatusCode >= 500:
		return httpStatus(refused.Response.StatusCode)
	default: // refused, a key that cannot sign, an answer that is no token
		return wire.PushAuthFailed
	}
}

// send makes the one request.
func (f *FCM) send(ctx context.Context, access, token string, data map[string]string) Result {
	message, err := encodeMessage(token, data)
	if err != nil {
		return failed(wire.PushNetworkError) // strings always encode
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, f.sendURL, bytes.NewReader(message))
	if err != nil {
		return failed(wire.PushNetworkError) // the URL was checked when it was configured
	}
	request.Header.Set("Authorization", "Bearer "+access)
	request.Header.Set("Content-Type", "application/json")
	response, err := f.client.Do(request)
	if err != nil {
		return failed(wire.PushNetworkError)
	}
	defer func() { _ = response.Body.Close() }() // nothing of the answer is needed any more
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return failed(wire.PushNetworkError)
	}
	return classify(response.StatusCode, answer)
}

// classify answers what the push service's answer means (SS-DSP-3).
func classify(status int, answer []byte) Result {
	switch {
	case status >= 200 && status < 300:
		return Result{Pushed: true}
	case unregistered(status, answer):
		return failed(wire.PushUnregistered)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return failed(wire.PushAuthFailed)
	default:
		return failed(httpStatus(status))
	}
}

// unregistered reports whether the push service says that it does not know the token. A 404 that
// is not in the service's own words (a wrong endpoint, a proxy) is no reason to forget a token.
func unregistered(status int, answer []byte) bool {
	var body struct {
		Error struct {
			Status  string `json:"status"`
			Details []struct {
				ErrorCode string `json:"errorCode"`
			} `json:"details"`
		} `json:"error"`
	}
	if json.Unmarshal(answer, &body) != nil {
		return false
	}
	said := []string{body.Error.Status}
	for _, detail := range body.Error.Details {
		said = append(said, detail.ErrorCode)
	}
	return slices.Contains(said, "UNREGISTERED") ||
		status == http.StatusNotFound && slices.Contains(said, "NOT_FOUND")
}
