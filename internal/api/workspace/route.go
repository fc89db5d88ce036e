package workspace

import (
	"net/http"
	"reflect"

	"github.com/cairnsync/cairn/internal/authz/action"
)

// Access says who reaches a route.
type Access int

// The kinds of access.
const (
	// Principals reach it with a token; a device that waits for approval does not (WS-ID-3).
	Principals Access = iota
	// Pending devices reach it too.
	Pending
	// Public routes ask for no token.
	Public
)

// Route is one row of the surface. The table of them registers the routes and makes the document.
type Route struct {
	Method string
	Path   string // a pattern of http.ServeMux, with Prefix
	// Action is what the route does, a row of the action table (WS-AZ-4). Public routes have none, but for the
	// gateway, which authorises by itself.
	Action  action.Action
	Access  Access
	Tag     string
	Summary string
	Query   []Param
	// IfMatch says what If-Match means here.
	IfMatch Conditional
	// Unkeyed routes ignore Idempotency-Key: what takes or answers a secret, and what has ids of its own or
	// changes nothing when it is repeated.
	Unkeyed bool
	// Replays says that a repeat is answered 200 with Idempotent-Replay (ES-5.1).
	Replays bool

	handler handler
}

// Conditional is what a route makes of If-Match.
type Conditional int

// What If-Match may mean.
const (
	Unconditional Conditional = iota // ignored: the resource has no version that could be named
	Optional
	Required
)

// Prefix is where the surface is.
const Prefix = "/api/v1"

// Pattern is the route as http.ServeMux knows it, and as metrics name it.
func (r *Route) Pattern() string { return r.Method + " " + r.Path }

func (r *Route) writes() bool { return r.Method != http.MethodGet }

// keyed reports whether the route takes an Idempotency-Key.
func (r *Route) keyed() bool { return r.writes() && !r.Unkeyed && r.Access != Public }

// handler is what a route does, with what the document has to know of it.
type handler struct {
	body, answer reflect.Type // nil for none
	status       int
	// content is the media type of an answer that is no JSON; rawBody says that the body is not JSON and is
	// left to the handler.
	content string
	rawBody bool
	run     func(*call) (reply, error)
}

// taking is a handler with a body: fn answers the object to send with status.
func taking[B, O any](status int, fn func(*call, B) (O, error)) handler {
	return handler{
		body: reflect.TypeFor[B](), answer: reflect.TypeFor[O](), status: status,
		run: func(c *call) (reply, error) {
			answer, err := fn(c, c.body.(B))
			return reply{status: status, body: answer}, err
		},
	}
}

// giving is a handler without a body.
func giving[O any](status int, fn func(*call) (O, error)) handler {
	return handler{
		answer: reflect.TypeFor[O](), status: status,
		run: func(c *call) (reply, error) {
			answer, err := fn(c)
			return reply{status: status, body: answer}, err
		},
	}
}

// doing is a handler that answers 204.
func doing(fn func(*call) error) handler {
	return handler{status: http.StatusNoContent, run: func(c *call) (reply, error) {
		return reply{status: http.StatusNoContent}, fn(c)
	}}
}

// doingWith is doing with a body.
func doingWith[B any](fn func(*call, B) error) handler {
	return handler{body: reflect.TypeFor[B](), status: http.StatusNoContent, run: func(c *call) (reply, error) {
		return reply{status: http.StatusNoContent}, fn(c, c.body.(B))
	}}
}

// reply is a success.
type reply struct {
	status int
	body   any // encoded as JSON; nil for none
	// sent says that the handler wrote the answer itself, with status.
	sent bool
}
