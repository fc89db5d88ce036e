package sessions

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cairnsync/cairn/internal/api/guard"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/session"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// call is one authenticated request.
type call struct {
	*http.Request

	by   session.Caller
	form *form // of routes with a body
}

// reply is a success.
type reply struct {
	status int
	body   any // encoded as JSON, unless raw is set
	raw    []byte
}

func ok(body any) reply { return reply{status: http.StatusOK, body: body} }

// serve takes a request through the order of SS-HTTP-6.
func (a *API) serve(route Route) http.HandlerFunc {
	pattern := route.Method + " " + route.Path
	return func(w http.ResponseWriter, r *http.Request) {
		started := a.Env.Now()
		status := http.StatusOK
		defer func() {
			if a.Observe != nil {
				a.Observe(pattern, w.Header().Get(traceHeader), status, a.Env.Now().Sub(started))
			}
		}()
		if route.stream != nil && r.Method != http.MethodGet {
			a.unknown(w, r) // a pattern for GET takes HEAD too, and a stream has no head alone
			return
		}
		answer, err := a.guarded(w, r, route)
		switch {
		case err != nil && route.stream != nil:
			status = a.refuseStream(w, r, route, err)
		case err != nil:
			status = a.refuse(w, r, err)
		case route.stream == nil:
			status = a.write(w, r, answer)
		default: // the connection has left net/http
		}
	}
}

// guarded is answer whose panic is an error, with its stack for the log.
func (a *API) guarded(w http.ResponseWriter, r *http.Request, route Route) (answer reply, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("handle request: panic: %v\n%s", value, debug.Stack())
		}
	}()
	return a.answer(w, r, route)
}

func (a *API) answer(w http.ResponseWriter, r *http.Request, route Route) (reply, error) {
	c, err := a.begin(r, route)
	switch {
	case err != nil:
		return reply{}, err
	case route.stream != nil:
		return reply{}, route.stream(c, w)
	default:
		return a.perform(c, w, route)
	}
}

// begin authenticates the request and its device.
func (a *API) begin(r *http.Request, route Route) (*call, error) {
	head := credentialsOf(r, route)
	principal, err := a.Identity.Authenticate(r.Context(), head.key)
	if err != nil {
		return nil, err
	}
	if err := a.take(principal.KeyID); err != nil {
		return nil, err
	}
	if err := checkPath(r); err != nil {
		return nil, err
	}
	device, err := head.deviceFor(r, route.Device)
	if err != nil {
		return nil, err
	}
	if device.ID != "" {
		if err := a.Identity.Touch(r.Context(), principal, device); err != nil {
			return nil, err
		}
	}
	c := &call{Request: r, by: session.Caller{UserID: principal.UserID, KeyID: principal.KeyID, DeviceID: device.ID}}
	if token := shareToken(r); token != "" {
		c.by.LinkHash = session.HashToken(token)
	}
	return c, nil
}

// perform reads the body, if the route has one, and handles the call.
func (a *API) perform(c *call, w http.ResponseWriter, route Route) (reply, error) {
	if route.Body {
		body, release, err := a.body(w, c.Request)
		defer release()
		if err != nil {
			return reply{}, err
		}
		if c.form, err = parseForm(body); err != nil {
			return reply{}, err
		}
	}
	return route.handle(c)
}

// head is what a request's headers, or a browser's subprotocols, say about who asks.
type head struct {
	key, device, platform string
	browser               bool // by subprotocols: refusals must be close codes (SS-STR-6)
}

func credentialsOf(r *http.Request, route Route) head {
	h := head{device: r.Header.Get(wire.HeaderDevice), platform: r.Header.Get(wire.HeaderPlatform)}
	if scheme, key, found := strings.Cut(r.Header.Get("Authorization"), " "); found && strings.EqualFold(scheme, "Bearer") {
		h.key = strings.TrimSpace(key)
	}
	if !strings.HasSuffix(route.Path, "/ws") {
		return h
	}
	for _, protocol := range subprotocols(r) {
		switch {
		case strings.HasPrefix(protocol, wire.SubprotocolBearer):
			h.key, h.browser = strings.TrimPrefix(protocol, wire.SubprotocolBearer), true
		case strings.HasPrefix(protocol, wire.SubprotocolDevice):
			h.device, h.browser = strings.TrimPrefix(protocol, wire.SubprotocolDevice), true
		case strings.HasPrefix(protocol, wire.SubprotocolPlatform):
			h.platform, h.browser = strings.TrimPrefix(protocol, wire.SubprotocolPlatform), true
		default:
		}
	}
	return h
}

func subprotocols(r *http.Request) []string {
	var offered []string
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for protocol := range strings.SplitSeq(line, ",") {
			offered = append(offered, strings.TrimSpace(protocol))
		}
	}
	return offered
}

// deviceFor answers the device the request names, as the route needs it (SS-DEV-0, SS-DEV-2).
func (h head) deviceFor(r *http.Request, need Need) (identity.Device, error) {
	if h.device == "" {
		switch {
		case need == DeviceRequired:
			return identity.Device{}, fault.BadField("x-codai-device", "is required here: a UUID that stays the same for this install")
		case need == DeviceOrV2 && r.URL.Query().Get("v") != "2":
			return identity.Device{}, fault.New(code.BadRequest,
				"This path is Shared Sessions when the request carries the header x-codai-device or the query v=2; send one of them.")
		default:
			return identity.Device{}, nil
		}
	}
	id, valid := env.ParseID(h.device)
	if !valid {
		return identity.Device{}, fault.BadField("x-codai-device", "must be a UUID")
	}
	device := identity.Device{ID: id, Platform: h.platform, Name: label(r.Header.Get(wire.HeaderDeviceName))}
	if token := r.Header.Get(wire.HeaderPushToken); validPushToken(token) {
		device.PushToken = token
	}
	return device, nil
}

// label makes a header value fit to be stored and shown.
func label(value string) string {
	return strings.Map(func(c rune) rune {
		if c == utf8.RuneError || unicode.IsControl(c) {
			return -1
		}
		return c
	}, strings.TrimSpace(value))
}

func validPushToken(token string) bool {
	if len(token) < wire.MinPushToken || len(token) > wire.MaxPushToken {
		return false
	}
	return strings.IndexFunc(token, func(c rune) bool { return c < '!' || c > '~' }) < 0
}

func shareToken(r *http.Request) string {
	if token := r.Header.Get(wire.HeaderShareToken); token != "" {
		return token
	}
	return r.URL.Query().Get("share")
}

// checkPath refuses ids that no database can hold (SS-OBJ-4).
func checkPath(r *http.Request) error {
	for _, name := range []string{"id", "cid", "share", "device", "org", "user"} {
		if value := r.PathValue(name); !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
			return fault.BadField(name, "must be valid UTF-8 without U+0000")
		}
	}
	return nil
}

// number reads a query value as SS-HTTP-3 says: never an error, the default when it is none, at most
// the maximum.
func (c *call) number(name string, standard, least, most int64) int64 {
	return clamped(c.URL.Query().Get(name), standard, least, most)
}

func clamped(text string, standard, least, most int64) int64 {
	value, err := strconv.ParseInt(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange) && value > 0:
		return most
	case err != nil || value < least:
		return standard
	default:
		return min(value, most)
	}
}

func (c *call) flag(name string) bool {
	value := c.URL.Query().Get(name)
	return value == "1" || value == "true"
}

// write sends a success and answers its status.
func (a *API) write(w http.ResponseWriter, r *http.Request, answer reply) int {
	body := answer.raw
	if body == nil {
		body = encoded(answer.body)
	}
	if len(body) >= guard.LargeAnswer {
		if err := a.answers.Take(int64(len(body))); err != nil {
			return a.refuse(w, r, a.unreadable(err))
		}
		defer a.answers.Give(int64(len(body)))
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(answer.status)
	a.send(w, body)
	return answer.status
}

func encoded(body any) []byte {
	encoded, err := json.Marshal(body)
	if err != nil {
		panic(err) // the objects of the protocol always encode
	}
	return encoded
}
