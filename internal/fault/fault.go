// Package fault is the one error type that crosses from the domains to the surfaces.
//
// A fault.Error carries the code of the protocol, a message that may be shown to anybody who made
// the request, and optionally details and a cause that is only logged. Every other error is
// internal_error outside and a full line in the log inside.
package fault

import (
	"errors"
	"fmt"

	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Error is a refusal with a code of the protocol.
type Error struct {
	Code    code.Code
	Message string // public
	Details any    // public; encoded as JSON
	Cause   error  // for the log only
}

// Error answers code, message and cause, for logs and tests.
func (e *Error) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.Cause)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Message)
}

// Unwrap answers the cause.
func (e *Error) Unwrap() error { return e.Cause }

// New makes a refusal with a public message.
func New(c code.Code, format string, args ...any) *Error {
	return &Error{Code: c, Message: fmt.Sprintf(format, args...)}
}

// BadField is bad_request that names one field (SS-HTTP-4).
func BadField(field, problem string) *Error {
	return New(code.BadRequest, "Invalid request: %s %s.", field, problem).WithDetails(wire.FieldErrors{
		FormErrors: []string{}, FieldErrors: map[string][]string{field: {problem}},
	})
}

// WithDetails answers a copy of e that carries public details.
func (e *Error) WithDetails(details any) *Error {
	copied := *e
	copied.Details = details
	return &copied
}

// WithCause answers a copy of e that remembers why, for the log.
func (e *Error) WithCause(cause error) *Error {
	copied := *e
	copied.Cause = cause
	return &copied
}

// From answers the refusal in err's chain, or an internal error that wraps err.
func From(err error) *Error {
	if refusal, found := errors.AsType[*Error](err); found {
		return refusal
	}
	return &Error{Code: code.InternalError, Message: "The server failed to carry this out.", Cause: err}
}

// Is reports whether err is a refusal with code c.
func Is(err error, c code.Code) bool {
	refusal, found := errors.AsType[*Error](err)
	return found && refusal.Code == c
}
