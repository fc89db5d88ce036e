package fault

import (
	"fmt"
	"time"

	"github.com/cairnsync/cairn/wire/code"
	"github.com/cairnsync/cairn/wire/workspace"
)

// Extra is what a problem of the Workspace surface carries besides its code (RFC 9457 section 3.2).
type Extra struct {
	Errors     []workspace.FieldProblem
	Current    any // of version_conflict: the object as it is, one of wire/workspace
	Reason     string
	RetryAfter time.Duration
	HeadSeq    int64
	SyncEpoch  string
}

// Invalid is validation_failed that names one place of the request, by a JSON Pointer (RFC 6901) into its
// body or by the name of a parameter.
func Invalid(pointer, format string, args ...any) *Error {
	message := fmt.Sprintf(format, args...)
	return New(code.ValidationFailed, "%s: %s.", pointer, message).WithDetails(Extra{
		Errors: []workspace.FieldProblem{{Pointer: pointer, Message: message}},
	})
}

// Missing is not_found for what does not exist, and for what the caller may not see (WS-AZ-5).
func Missing(what string) *Error { return New(code.NotFound, "%s not found.", what) }

// Stale is version_conflict; current is the object as it is (ES-13.3).
func Stale(current any) *Error {
	return New(code.VersionConflict, "It has another version by now.").WithDetails(Extra{Current: current})
}

// Unconditional is precondition_required.
func Unconditional() *Error {
	return New(code.PreconditionRequired, "Name the version you know in the If-Match header.")
}

// ExtraOf answers what a refusal carries for the Workspace surface.
func ExtraOf(refusal *Error) Extra {
	extra, _ := refusal.Details.(Extra)
	return extra
}
