// Package sessions is the HTTP surface of Shared Sessions v1, under /v1: it maps requests to the
// domain and its answers to JSON, SSE and WebSocket.
//
// Contract. Every route is a row of one table: its method, path, whether it needs a device, and its
// handler. A request is taken in this order (SS-HTTP-6): the key, the device, the form of what was
// sent, then the domain, which authorises in the transaction that executes. Nothing of the body is
// read before the key is known to be good. JSON around a payload is decoded strictly; a payload's
// bytes are kept as they came (SS-OBJ-1).
//
// Blocking and concurrency. Handlers block on the database only, except the inbox that waits. Streams
// leave net/http: their connections belong to conn, their events to live.
package sessions

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/cairnsync/cairn/internal/api/guard"
	"github.com/cairnsync/cairn/internal/conn"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/outbound"
	"github.com/cairnsync/cairn/internal/session"
	"github.com/cairnsync/cairn/internal/session/live"
	"github.com/cairnsync/cairn/internal/storage"
)

// Options are what the surface stands on.
type Options struct {
	DB       storage.DB
	Identity *identity.Service
	Sessions *session.Service
	Hub      *live.Hub
	Keeper   *conn.Keeper
	Outbox   *outbound.Outbox
	Env      *env.Env
	Log      *slog.Logger

	MaxBodyBytes int64    // SS-HTTP-5
	CORSOrigins  []string // SS-HTTP-8
	RatePerSec   float64  // of one key; 0 is off (SS-HTTP-8)
	RateBurst    int
	// Observe is told of every answered request; nil is allowed. The route is a pattern, never a path.
	Observe func(route, trace string, status int, took time.Duration)
}

// API is the surface. It is an http.Handler.
type API struct {
	Options

	mux      *http.ServeMux
	origins  guard.Origins
	limiter  *guard.Limiter
	bodies   *guard.Budget
	answers  *guard.Budget
	patience context.Context //nolint:containedctx // ends when requests should stop waiting
	hurry    context.CancelFunc
}

// New answers the surface over o.
func New(o Options) *API {
	a := &API{
		Options: o, mux: http.NewServeMux(), origins: guard.NewOrigins(o.CORSOrigins, requestHeaders(), answerHeaders()),
		limiter: guard.NewLimiter(o.Env, o.RatePerSec, o.RateBurst),
		bodies:  guard.NewBudget(maxBodies), answers: guard.NewBudget(maxAnswers),
	}
	a.patience, a.hurry = context.WithCancel(context.Background())
	for _, route := range a.routes() {
		a.mux.HandleFunc(route.Method+" "+route.Path, a.serve(route))
	}
	a.mux.HandleFunc("/", a.unknown)
	return a
}

// Hurry makes requests that wait for something answer at once: the server stops.
func (a *API) Hurry() { a.hurry() }

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(traceHeader, a.trace(r))
	if a.origins.Answer(w, r) {
		return // a preflight
	}
	a.mux.ServeHTTP(w, r)
}

// Need says whether a route asks for a device (SS-DEV-0).
type Need int

// The needs.
const (
	DeviceOptional Need = iota
	DeviceRequired
	// DeviceOrV2 is for the two paths shared with a legacy API (SS-DEV-2).
	DeviceOrV2
)

// Route is one row of the surface.
type Route struct {
	Method string
	Path   string // a pattern of http.ServeMux
	Device Need
	// Body is true when the route reads a JSON body.
	Body bool

	handle func(*call) (reply, error)
	stream func(*call, http.ResponseWriter) error // instead of handle; an error says that nothing was answered
}

// Routes lists the surface, for tests and documents.
func Routes() []Route {
	var a API
	return a.routes()
}

func (a *API) routes() []Route {
	const one = "/v1/sessions/{id}"
	return []Route{
		{Method: "POST", Path: "/v1/sessions", Device: DeviceRequired, Body: true, handle: a.createSession},
		{Method: "GET", Path: "/v1/sessions", Device: DeviceOrV2, handle: a.listSessions},
		{Method: "GET", Path: "/v1/sessions/shared-with-me", handle: a.sharedWithMe},
		{Method: "GET", Path: one, Device: DeviceOrV2, handle: a.getSession},
		{Method: "PATCH", Path: one, Device: DeviceRequired, Body: true, handle: a.patchSession},
		{Method: "DELETE", Path: one, Device: DeviceRequired, handle: a.deleteSession},

		{Method: "GET", Path: one + "/events", handle: a.listEvents},
		{Method: "POST", Path: one + "/events", Device: DeviceRequired, Body: true, handle: a.appendEvents},
		{Method: "GET", Path: one + "/stream", Device: DeviceRequired, stream: a.stream},
		{Method: "GET", Path: one + "/ws", Device: DeviceRequired, stream: a.socket},

		{Method: "GET", Path: one + "/controls", handle: a.listControls},
		{Method: "POST", Path: one + "/control", Device: DeviceRequired, Body: true, handle: a.sendControl},
		{Method: "POST", Path: one + "/control/{cid}/applied", Device: DeviceRequired, handle: a.controlApplied},
		{Method: "POST", Path: one + "/dispatch", Device: DeviceRequired, Body: true, handle: a.dispatch},

		{Method: "GET", Path: one + "/pushes", handle: a.listPushes},
		{Method: "PUT", Path: one + "/notify", Device: DeviceRequired, Body: true, handle: a.setNotify},

		{Method: "POST", Path: one + "/lease", Device: DeviceRequired, Body: true, handle: a.claimLease},
		{Method: "PUT", Path: one + "/lease", Device: DeviceRequired, handle: a.renewLease},
		{Method: "DELETE", Path: one + "/lease", Device: DeviceRequired, handle: a.releaseLease},

		{Method: "GET", Path: one + "/shares", handle: a.listShares},
		{Method: "POST", Path: one + "/shares", Body: true, handle: a.addShare},
		{Method: "DELETE", Path: one + "/shares/{share}", handle: a.removeShare},

		{Method: "GET", Path: "/v1/devices", handle: a.listDevices},
		{Method: "GET", Path: "/v1/devices/me/dispatch", Device: DeviceRequired, handle: a.inbox},
		{Method: "PATCH", Path: "/v1/devices/{device}", Body: true, handle: a.patchDevice},
		{Method: "DELETE", Path: "/v1/devices/{device}", handle: a.deleteDevice},

		{Method: "POST", Path: "/v1/orgs", Body: true, handle: a.createOrg},
		{Method: "GET", Path: "/v1/orgs", handle: a.listOrgs},
		{Method: "GET", Path: "/v1/orgs/{org}/members", handle: a.listMembers},
		{Method: "POST", Path: "/v1/orgs/{org}/members", Body: true, handle: a.addMember},
		{Method: "DELETE", Path: "/v1/orgs/{org}/members/{user}", handle: a.removeMember},

		{Method: "GET", Path: "/v1/audit", handle: a.audit},
	}
}
