package workspace

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/cairnsync/cairn/internal/api/guard"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

const (
	typeJSON    = "application/json"
	typeProblem = "application/problem+json"
)

// refuse answers an error as a problem and answers its status. What is no refusal of ours is logged in full
// and shown as an internal error (RFC 9457).
func (a *API) refuse(w http.ResponseWriter, r *http.Request, err error) int {
	refusal := fault.From(err)
	status := code.Of(refusal.Code).Status
	trace := w.Header().Get(wire.HeaderTrace)
	if status >= http.StatusInternalServerError && r.Context().Err() == nil {
		a.Log.ErrorContext(r.Context(), "request failed", "trace", trace, "route", r.Pattern, "error", err)
	}
	problem, err := problemFor(refusal, status)
	if err != nil {
		a.Log.ErrorContext(r.Context(), "problem cannot be encoded", "trace", trace, "error", err)
	}
	problem.TraceID = trace
	header := w.Header()
	header.Del(headerETag)
	if problem.RetryAfter > 0 {
		header.Set("Retry-After", strconv.FormatInt(problem.RetryAfter, 10))
	}
	if status == http.StatusUnauthorized {
		challenge(header, refusal.Code)
	}
	header.Set("Content-Type", typeProblem)
	a.write(w, r, status, encoded(problem))
	return status
}

// problemFor is the public form of a refusal.
func problemFor(refusal *fault.Error, status int) (wire.Problem, error) {
	extra := fault.ExtraOf(refusal)
	problem := wire.Problem{
		Title: title(status), Status: status, Code: string(refusal.Code), Detail: refusal.Message,
		Errors: extra.Errors, Reason: extra.Reason, HeadSeq: extra.HeadSeq, SyncEpoch: extra.SyncEpoch,
		RetryAfter: seconds(extra.RetryAfter),
	}
	if extra.Current == nil {
		return problem, nil
	}
	current, err := json.Marshal(extra.Current)
	if err != nil {
		return problem, fmt.Errorf("encode current object: %w", err)
	}
	problem.Current = current
	return problem, nil
}

// title is what a status means; code and detail say the rest.
func title(status int) string {
	if text := http.StatusText(status); text != "" {
		return text
	}
	return "Error"
}

// seconds rounds up: who waits that long is not early.
func seconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }

// challenge says how to authenticate (RFC 9110 section 11.6.1, RFC 9449 section 7.1).
func challenge(header http.Header, c code.Code) {
	reason := "invalid_token"
	switch c {
	case code.UseDPoPNonce:
		reason = "use_dpop_nonce"
	case code.InvalidDPoPProof:
		reason = "invalid_dpop_proof"
	default:
	}
	header.Set("WWW-Authenticate", `DPoP error="`+reason+`", algs="ES256 EdDSA"`)
}

// unread translates why a body was not read.
func (a *API) unread(err error) error {
	switch {
	case errors.Is(err, guard.ErrTooLarge):
		return fault.New(code.PayloadTooLarge, "The body is larger than %d bytes.", a.MaxBodyBytes)
	case errors.Is(err, guard.ErrBusy):
		return fault.New(code.Unavailable, "The server is busy with other large requests; try again.")
	default:
		return fault.New(code.MalformedJSON, "The body could not be read to its end.").WithCause(err)
	}
}

// encoded is an object of the protocol as JSON; those always encode but for raw JSON that storage broke.
func encoded(body any) []byte {
	text, err := json.Marshal(body)
	if err != nil {
		panic(fmt.Sprintf("encode answer: %v", err)) // becomes an internal error, see guarded
	}
	return text
}
