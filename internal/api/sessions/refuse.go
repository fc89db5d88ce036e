package sessions

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

const traceHeader = wire.HeaderTrace

// maxTrace bounds a request id taken from a client.
const maxTrace = 128

// trace answers the id by which this request is found in the log (SS-HTTP-7): the client's, if it is
// printable ASCII of a sane length, or a new one.
func (a *API) trace(r *http.Request) string {
	id := r.Header.Get(wire.HeaderRequestID)
	if id == "" || len(id) > maxTrace || strings.IndexFunc(id, func(c rune) bool { return c < '!' || c > '~' }) >= 0 {
		return a.Env.RandomID()
	}
	return id
}

// refuse answers an error and its status. What is no refusal of ours is logged in full and shown as
// an internal error.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, err error) int {
	refusal := fault.From(err)
	status := code.Of(refusal.Code).Status
	if status >= http.StatusInternalServerError && r.Context().Err() == nil {
		a.Log.ErrorContext(r.Context(), "request failed", "trace", w.Header().Get(traceHeader), "route", r.Pattern, "error", err)
	}
	if refusal.Code == code.RateLimitExceeded {
		if wait, found := refusal.Details.(retryAfter); found {
			w.Header().Set("Retry-After", strconv.Itoa(wait.Seconds))
		}
	}
	return a.write(w, r, reply{status: status, body: wire.Error{Error: errorBody(refusal)}})
}

// errorBody is the public form of a refusal (SS-ERR-1). Over HTTP only bad_request shows details;
// what lease_held and seq_conflict have to say is in their message too.
func errorBody(refusal *fault.Error) wire.ErrorBody {
	body := detailedBody(refusal)
	if refusal.Code != code.BadRequest {
		body.Details = nil
	}
	return body
}

// detailedBody is errorBody with every detail, as a WebSocket shows it (SS-STR-5).
func detailedBody(refusal *fault.Error) wire.ErrorBody {
	body := wire.ErrorBody{Message: refusal.Message, Type: code.Of(refusal.Code).Type, Code: string(refusal.Code)}
	details := refusal.Details
	if details == nil && refusal.Code == code.BadRequest {
		details = wire.FieldErrors{FormErrors: []string{refusal.Message}, FieldErrors: map[string][]string{}}
	}
	if details != nil {
		encoded, err := json.Marshal(details)
		if err != nil {
			panic(err) // details are structs of ours
		}
		body.Details = encoded
	}
	return body
}

// unknown answers a path or method that is no route.
func (a *API) unknown(w http.ResponseWriter, r *http.Request) {
	allowed := []string{}
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		probe := r.Clone(r.Context())
		probe.Method = method
		if _, pattern := a.mux.Handler(probe); pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		a.refuse(w, r, fault.New(code.NotFound, "There is nothing at this path."))
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	a.refuse(w, r, fault.New(code.MethodNotAllowed, "This path takes %s.", strings.Join(allowed, ", ")))
}
