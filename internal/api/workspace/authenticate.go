package workspace

import (
	"context"
	"net/http"
	"slices"

	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/identity/signin"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// authenticate answers who calls (WS-ID-2). Every answer to somebody who proves possession carries the nonce
// for the next proofs.
func (a *API) authenticate(c *call) error {
	if c.route.Access == Public {
		return nil
	}
	caller, err := a.SignIn.Authenticate(c.Context(), signin.Request{
		Method: c.Method, URL: urlOf(c.Request), AllowPending: c.route.Access == Pending,
		Authorization: c.Header.Values("Authorization"), DPoP: c.Header.Values(wire.HeaderDPoP),
	})
	if err != nil {
		if code.Of(fault.From(err).Code).Status == http.StatusUnauthorized {
			c.writer.Header().Set(wire.HeaderDPoPNonce, a.SignIn.Nonce())
		}
		return err
	}
	if caller.Thumbprint != "" {
		c.writer.Header().Set(wire.HeaderDPoPNonce, a.SignIn.Nonce())
	}
	c.by, c.signedIn = caller.Caller, caller
	c.by.Correlation, c.by.Trace = traceOf(c.Context())
	if caller.Scopes != nil && !slices.Contains(caller.Scopes, string(c.route.Action)) {
		return fault.New(code.ScopeMissing, "The token lacks the scope %s.", c.route.Action)
	}
	return nil
}

// urlOf is the address of a request as the client wrote it, as far as the server can see that.
func urlOf(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host + r.URL.EscapedPath()
}

type traceKey struct{}

type trace struct{ correlation, traceparent string }

func withTrace(ctx context.Context, correlation, traceparent string) context.Context {
	return context.WithValue(ctx, traceKey{}, trace{correlation, traceparent})
}

// traceOf answers what withTrace put there.
func traceOf(ctx context.Context) (correlation, traceparent string) {
	of, _ := ctx.Value(traceKey{}).(trace)
	return of.correlation, of.traceparent
}
