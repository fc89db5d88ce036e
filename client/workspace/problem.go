package workspace

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/cairnsync/cairn/client/internal/httpkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// maxProblemBody bounds how much of a refusal is read; the rest is dropped.
const maxProblemBody = 1 << 20

// maxWait bounds how long a server can make the client wait.
const maxWait = time.Hour

// Problem is an answer that is not a success (RFC 9457).
type Problem struct {
	wire.Problem

	// Wait is what the server asked to wait before another attempt; 0 when it did not.
	Wait time.Duration
}

// Error answers status, code and detail.
func (p *Problem) Error() string {
	text := "server answered " + strconv.Itoa(p.Status)
	if p.Code != "" {
		text += " " + p.Code
	}
	if said := p.said(); said != "" {
		text += ": " + said
	}
	return text
}

func (p *Problem) said() string {
	said := p.Detail
	if said == "" {
		said = p.Title
	}
	for i, field := range p.Errors {
		separator := "; "
		if i == 0 && said == "" {
			separator = ""
		}
		said += separator + field.Pointer + " " + field.Message
	}
	return said
}

// Is lets errors.Is compare by code: errors.Is(err, &Problem{Problem: wire.Problem{Code: …}}).
func (p *Problem) Is(target error) bool {
	other, ok := target.(*Problem)
	return ok && other.Code == p.Code
}

// AsProblem answers the refusal in err's chain, or nil.
func AsProblem(err error) *Problem {
	refused, _ := errors.AsType[*Problem](err)
	return refused
}

// IsCode reports whether err is a refusal with code c.
func IsCode(err error, c code.Code) bool {
	refused := AsProblem(err)
	return refused != nil && refused.Code == string(c)
}

// Current decodes what a version_conflict names as the current state of the object (ES-13.3).
func Current[T any](err error) (T, bool) {
	var current T
	refused := AsProblem(err)
	if refused == nil || len(refused.Current) == 0 || json.Unmarshal(refused.Current, &current) != nil {
		return current, false
	}
	return current, true
}

// refusal makes a Problem of an answer that is not 2xx. A body of another form is not shown: it may be a
// page of something between here and the server.
func refusal(response *http.Response, body []byte) *Problem {
	refused := &Problem{Wait: httpkit.ParseWait(response.Header.Get("Retry-After"), time.Now(), maxWait)}
	if json.Unmarshal(body, &refused.Problem) != nil || refused.Code == "" {
		refused.Problem = wire.Problem{Title: http.StatusText(response.StatusCode)}
	}
	refused.Status = response.StatusCode
	if refused.TraceID == "" {
		refused.TraceID = response.Header.Get(wire.HeaderTrace)
	}
	if refused.Wait == 0 && refused.RetryAfter > 0 {
		refused.Wait = min(time.Duration(min(refused.RetryAfter, int64(maxWait/time.Second)))*time.Second, maxWait)
	}
	return refused
}

// waitOf answers what the refusal in err asks to wait; 0 for nothing.
func waitOf(err error) time.Duration {
	if refused := AsProblem(err); refused != nil {
		return refused.Wait
	}
	return 0
}

// Errors of this package that are not answers of the server.
var (
	// ErrResponseTooLarge is an answer over Config.MaxResponseBytes.
	ErrResponseTooLarge = httpkit.ErrResponseTooLarge
	// ErrForeignRedirect is a redirect to another origin, which would have carried the token along.
	ErrForeignRedirect = httpkit.ErrForeignRedirect
	// ErrEmptyReference is an empty id, which would address another route.
	ErrEmptyReference = httpkit.ErrEmptyReference
	// ErrSignedOut says that nobody is signed in here, or that the sign-in has ended: sign in again.
	ErrSignedOut = errors.New("signed out")
	// ErrRevoked says that the server revoked the session, the device or the person: local data was
	// deleted (ES-8.5).
	ErrRevoked = errors.New("access was revoked")
)

// worthRetry reports whether the same request may succeed later: a lost answer, 408, 425, 429, 5xx, a
// first request that still runs, or a nonce of another node.
func worthRetry(err error) bool {
	for _, final := range []error{ErrForeignRedirect, ErrResponseTooLarge, ErrSignedOut, httpkit.ErrNotSent} {
		if errors.Is(err, final) {
			return false
		}
	}
	refused := AsProblem(err)
	if refused == nil {
		return true
	}
	switch refused.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	case http.StatusConflict:
		return refused.Code == string(code.RequestInProgress)
	case http.StatusUnauthorized:
		return refused.Code == string(code.UseDPoPNonce)
	default:
		return refused.Status >= 500 && refused.Status != http.StatusNotImplemented
	}
}
