package workspace

import (
	"fmt"
	"mime"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/cairnsync/cairn/internal/api/guard"
	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/identity/signin"
	"github.com/cairnsync/cairn/internal/workspace/place"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

const headerETag = "ETag"

// call is one request, with its form checked.
type call struct {
	*http.Request

	by       authz.Caller
	signedIn signin.Caller
	// version is what If-Match asks for: nil without the header, place.AnyVersion for "*".
	version *int64
	params  *params
	ids     map[string]string
	body    any // of the route's type
	// replayed says that nothing was changed: the answer is the one of an earlier request.
	replayed bool

	api    *API
	route  *Route
	writer http.ResponseWriter
}

// exact is version for objects that exist whenever the caller may change them: "*" demands nothing of them.
func (c *call) exact() *int64 {
	if c.version != nil && *c.version == place.AnyVersion {
		return nil
	}
	return c.version
}

// id answers an id of the path, in its canonical form.
func (c *call) id(name string) string { return c.ids[name] }

// after answers where the page of a list begins.
func (c *call) after() (string, error) { return positionOf(c.route.Path, c.params.texts["cursor"]) }

// limit answers how many items a page of a list has.
func (c *call) limit() int { return c.params.limit(place.DefaultPage, place.MaxPage) }

// serve takes a request through the order of WS-AZ-5.
func (a *API) serve(route *Route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		started := a.Env.Now()
		watched := &watcher{ResponseWriter: w}
		status := a.guarded(watched, r, route)
		if a.Observe != nil {
			a.Observe(route.Pattern(), w.Header().Get(wire.HeaderTrace), status, a.Env.Now().Sub(started))
		}
	}
}

// guarded answers a panic as an internal error, with its stack in the log.
func (a *API) guarded(w *watcher, r *http.Request, route *Route) (status int) {
	defer func() {
		if value := recover(); value != nil {
			err := fmt.Errorf("handle request: panic: %v\n%s", value, debug.Stack())
			status = http.StatusInternalServerError
			if w.begun {
				a.Log.ErrorContext(r.Context(), "request failed after its answer had begun", "route", r.Pattern, "error", err)
				return
			}
			status = a.refuse(w, r, err)
		}
	}()
	answer, c, err := a.answer(w, r, route)
	switch {
	case err != nil:
		return a.refuse(w, r, err)
	case answer.sent:
		return answer.status
	default:
		return a.succeed(w, c, answer)
	}
}

// watcher knows whether an answer has begun. The connection of a gateway leaves through Unwrap.
type watcher struct {
	http.ResponseWriter

	begun bool
}

// WriteHeader begins the answer.
func (w *watcher) WriteHeader(status int) {
	w.begun = true
	w.ResponseWriter.WriteHeader(status)
}

// Write goes on with the answer.
func (w *watcher) Write(text []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(text) //nolint:wrapcheck // it is the same writer
}

// Unwrap is for http.ResponseController.
func (w *watcher) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (a *API) answer(w http.ResponseWriter, r *http.Request, route *Route) (reply, *call, error) {
	c := &call{Request: r, api: a, route: route, writer: w}
	if err := a.authenticate(c); err != nil {
		return reply{}, c, err
	}
	if err := a.limit(c); err != nil {
		return reply{}, c, err
	}
	body, release, err := a.read(c)
	defer release()
	if err != nil {
		return reply{}, c, err
	}
	key, err := c.form(body)
	if err != nil {
		return reply{}, c, err
	}
	if c.by.Key, err = keyOf(r, key, c.by.Principal, body); err != nil {
		return reply{}, c, err
	}
	leave, err := a.running.Enter(c.by.Key)
	if err != nil {
		return reply{}, c, err
	}
	defer leave()
	answer, err := route.handler.run(c)
	return answer, c, err
}

// limit counts the request against its rate class. What asks for no token has none, or counts itself.
func (a *API) limit(c *call) error {
	if c.route.Access == Public {
		return nil
	}
	rule, _ := authz.RuleOf(c.route.Action)
	return a.limits.take(rule.Rate, c.by.Principal)
}

// read reads the body of a route that has one.
func (a *API) read(c *call) (body []byte, release func(), err error) {
	handler := &c.route.handler
	if handler.body == nil || handler.rawBody {
		return nil, func() {}, nil
	}
	if err := checkType(c.Request); err != nil {
		return nil, func() {}, err
	}
	body, release, err = a.bodies.ReadBody(c.writer, c.Request, a.MaxBodyBytes)
	if err != nil {
		return nil, release, a.unread(err)
	}
	return body, release, nil
}

// checkType refuses a body that says that it is no JSON. Without a body there is nothing to say.
func checkType(r *http.Request) error {
	text := r.Header.Get("Content-Type")
	if text == "" && r.ContentLength == 0 {
		return nil
	}
	media, parameters, err := mime.ParseMediaType(text)
	charset := parameters["charset"]
	if err != nil || media != typeJSON || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return fault.New(code.UnsupportedMediaType, "Send %s, in UTF-8.", typeJSON)
	}
	return nil
}

// form checks everything that was sent and answers the Idempotency-Key. Problems of the parameters, the
// headers and the body are named together; ids of the path that are no ids come after them.
func (c *call) form(body []byte) (key string, err error) {
	var found problems
	c.params = readParams(c.Request, c.route.Query, &found)
	if c.route.IfMatch != Unconditional {
		c.version, err = conditionOf(c.Request)
		found.add(err)
	}
	if c.route.keyed() {
		key, err = keyID(c.Request)
		found.add(err)
	}
	if t := c.route.handler.body; t != nil && !c.route.handler.rawBody {
		c.body, err = c.api.schemas.decode(t, body)
		if err != nil && !fault.Is(err, code.ValidationFailed) {
			return "", err
		}
		found.add(err)
	}
	if err := found.err(); err != nil {
		return "", err
	}
	return key, c.path()
}

// add takes the problems of a refusal.
func (p *problems) add(err error) {
	if err == nil {
		return
	}
	refusal := fault.From(err)
	extra := fault.ExtraOf(refusal)
	for _, one := range extra.Errors {
		p.addf(one.Pointer, "%s", one.Message)
	}
	if len(extra.Errors) == 0 {
		p.addf("", "%s", refusal.Message)
	}
}

// path reads the parameters of the path. What is no id names nothing.
func (c *call) path() error {
	c.ids = map[string]string{}
	for _, name := range c.route.pathNames() {
		value := c.PathValue(name)
		if !isID(name) {
			c.ids[name] = value
			continue
		}
		id, valid := env.ParseID(value)
		if !valid {
			return fault.New(code.NotFound, "There is nothing with this id.")
		}
		c.ids[name] = id
	}
	return nil
}

// isID reports whether a parameter of a path is an id.
func isID(name string) bool { return name == "id" || strings.HasSuffix(name, "_id") }

// pathNames are the parameters of the route's path.
func (r *Route) pathNames() []string {
	var names []string
	for segment := range strings.SplitSeq(r.Path, "/") {
		if strings.HasPrefix(segment, "{") {
			names = append(names, strings.Trim(segment, "{}"))
		}
	}
	return names
}

// succeed sends an answer and answers its status.
func (a *API) succeed(w http.ResponseWriter, c *call, answer reply) int {
	header := w.Header()
	if c.replayed || c.by.Key != nil && c.by.Key.Replayed {
		header.Set(wire.HeaderIdempotentReplay, "true")
		if c.replayed {
			answer.status = http.StatusOK
		}
	}
	if answer.status == http.StatusNoContent {
		w.WriteHeader(answer.status)
		return answer.status
	}
	if version, versioned := versionOf(answer.body); versioned {
		header.Set(headerETag, tagOf(version))
	}
	header.Set("Content-Type", typeJSON)
	return a.write(w, c.Request, answer.status, encoded(answer.body))
}

// write sends a body and answers the status. A large one has to fit into the memory of all answers.
func (a *API) write(w http.ResponseWriter, r *http.Request, status int, body []byte) int {
	if len(body) >= guard.LargeAnswer {
		if err := a.answers.Take(int64(len(body))); err != nil {
			return a.refuse(w, r, a.unread(err))
		}
		defer a.answers.Give(int64(len(body)))
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if err := guard.Send(w, a.Env, body); err != nil {
		a.Log.Debug("answer not taken", "error", err) // the client has gone; there is nobody else to tell
	}
	return status
}
