package workspace

import (
	"log/slog"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/cairnsync/cairn/internal/api/guard"
	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/gateway"
	"github.com/cairnsync/cairn/internal/idempotency"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/identity/signin"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace"
	"github.com/cairnsync/cairn/internal/workspace/files"
	"github.com/cairnsync/cairn/internal/workspace/imports"
	"github.com/cairnsync/cairn/internal/workspace/personal"
	"github.com/cairnsync/cairn/internal/workspace/search"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Bounds of what all requests together may hold.
const (
	maxBodies  = 256 << 20
	maxAnswers = 256 << 20
)

// Options are what the surface stands on.
type Options struct {
	Env    *env.Env
	Log    *slog.Logger
	Limits config.Limits
	// MaxBodyBytes is http.max_body_bytes; the content of files has its own bound.
	MaxBodyBytes int64
	// AllowedOrigins is http.allowed_origins.
	AllowedOrigins []string
	// TrustedProxies is http.trusted_proxies.
	TrustedProxies []netip.Prefix
	DB             storage.DB
	Identity       *identity.Service
	SignIn         *signin.Service
	Authz          *authz.Service
	Workspace      *workspace.Service
	Personal       *personal.Service
	Files          *files.Service
	Imports        *imports.Service
	Search         *search.Service
	Gateway        *gateway.Gateway
	// OIDCIssuer and OIDCClientID are auth.oidc.issuer and auth.oidc.client_id; empty is none.
	OIDCIssuer, OIDCClientID string
	// Version is the version of the program.
	Version string
	// Observe is told of every answered request; nil is allowed. The route is a pattern, never a path.
	Observe func(route, trace string, status int, took time.Duration)
}

// API is the surface. It is an http.Handler for everything under Prefix and /.well-known.
type API struct {
	Options

	mux      *http.ServeMux
	routes   []*Route
	schemas  *schemas
	document []byte // OpenAPI
	frames   []byte // AsyncAPI
	origins  guard.Origins
	limits   limits
	peers    *guard.Peers
	running  idempotency.Running
	bodies   *guard.Budget
	answers  *guard.Budget
}

// New answers the surface over o.
func New(o Options) *API {
	a := &API{
		Options: o, mux: http.NewServeMux(), limits: newLimits(o.Env, o.Limits),
		peers:   guard.NewPeers(o.Log, o.TrustedProxies),
		origins: guard.NewOrigins(o.AllowedOrigins, requestHeaders(), answerHeaders()),
		bodies:  guard.NewBudget(maxBodies), answers: guard.NewBudget(maxAnswers),
	}
	a.routes = a.table()
	a.schemas = newSchemas()
	a.document, a.frames = documentOf(a.routes, a.schemas), AsyncAPI()
	adapter := humago.NewAdapter(a.mux, "")
	for _, route := range a.routes {
		serve := a.serve(route)
		adapter.Handle(&huma.Operation{Method: route.Method, Path: route.Path}, func(ctx huma.Context) {
			r, w := humago.Unwrap(ctx)
			serve(w, r)
		})
	}
	a.mux.HandleFunc("/", a.unknown)
	return a
}

// Routes lists the surface, for tests and documents.
func Routes() []*Route {
	var a API
	return a.table()
}

// OpenAPI answers the document of the surface, as YAML.
func OpenAPI() []byte { return documentOf(Routes(), newSchemas()) }

func requestHeaders() []string {
	return []string{
		"Authorization", "Content-Type", headerIfMatch, "Range", headerTraceparent, wire.HeaderDPoP, wire.HeaderIdempotencyKey,
	}
}

func answerHeaders() []string {
	return []string{
		headerETag, "Retry-After", "WWW-Authenticate", "Content-Range", wire.HeaderDPoPNonce, wire.HeaderIdempotentReplay, wire.HeaderTrace,
	}
}

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	correlation, traceparent := traced(r, a.Env)
	r = r.WithContext(withTrace(r.Context(), correlation, traceparent))
	header := w.Header()
	header.Set(wire.HeaderTrace, correlation)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
	if a.origins.Answer(w, r) {
		return // a preflight
	}
	if path.Clean(r.URL.Path) != r.URL.Path { // ServeMux would redirect
		a.refuse(w, r, nothingHere())
		return
	}
	a.mux.ServeHTTP(w, r)
}

// keysPath is where the keys that verify tokens are (WS-ID-6).
const keysPath = "/.well-known/jwks.json"

// Owns reports whether a path is the surface's, be there something or not.
func Owns(path string) bool {
	return path == Prefix || strings.HasPrefix(path, Prefix+"/") || path == keysPath
}

func nothingHere() error { return fault.New(code.NotFound, "There is nothing at this path.") }

// unknown answers a path or method that is no route.
func (a *API) unknown(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} {
		probe := r.Clone(r.Context())
		probe.Method = method
		if _, pattern := a.mux.Handler(probe); pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		a.refuse(w, r, nothingHere())
		return
	}
	allowed = append(allowed, http.MethodOptions)
	list := strings.Join(allowed, ", ")
	w.Header().Set("Allow", list)
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	a.refuse(w, r, fault.New(code.MethodNotAllowed, "This path takes %s.", strings.Join(slices.Clip(allowed), ", ")))
}
