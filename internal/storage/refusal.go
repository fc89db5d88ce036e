package storage

import (
	"errors"
	"fmt"

	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/wire/code"
)

// Reason is why a database cannot be used.
type Reason string

// The reasons of a Refusal.
const (
	BadURL          Reason = "bad_url"
	MissingFolder   Reason = "missing_folder"
	MissingFile     Reason = "missing_file"
	ReadOnly        Reason = "read_only"
	ForeignDatabase Reason = "foreign_database"
	NewerSchema     Reason = "newer_schema"
	OldSchema       Reason = "old_schema"
	InUse           Reason = "in_use"
	Unreachable     Reason = "unreachable"
	LeftLog         Reason = "left_log"
)

// Refusal says why a database cannot be used and what to do about it. It never shows a password.
type Refusal struct {
	Reason Reason
	Advice string
	Cause  error
}

// Error answers the advice and the cause.
func (r *Refusal) Error() string {
	if r.Cause == nil {
		return "open database: " + r.Advice
	}
	return fmt.Sprintf("open database: %s (%v)", r.Advice, r.Cause)
}

// Unwrap answers the cause.
func (r *Refusal) Unwrap() error { return r.Cause }

func refuse(reason Reason, cause error, advice string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Advice: fmt.Sprintf(advice, args...), Cause: cause}
}

// ErrClosed answers a Read or Write on a database that was closed.
var ErrClosed = errors.New("the database is closed")

// unavailable is what callers get while the database cannot be reached.
func unavailable(cause error) error {
	return fault.New(code.Unavailable, "The database cannot be reached.").WithCause(cause)
}
