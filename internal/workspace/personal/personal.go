// Package personal is the data a person has for itself and shares among its devices: read states, drafts,
// settings, sidebars, what to be told and when not (ES-14).
//
// Contract. Every change writes a personal durable event with the object, its new version and the device
// that made it; all of it is durable or nothing is. The last write in commit order wins, except that a read
// state only moves forward. Lists name only what the person may still read; the rows of the rest stay, and
// count again when access returns. Only people have personal data.
//
// Order. Versions of an object grow by one with each change, also over its deletion: a draft that was
// deleted and written again goes on counting. A write that changes nothing (a read state that is further
// already) writes no event.
//
// What the specification leaves open is decided here: a person has at most MaxSettings keys and MaxDrafts
// drafts at once; a setting has at most MaxSetting, a sidebar MaxSidebar bytes; a read state that was never
// written has version 0, and a reset of it names that version; quiet hours without days are off.
//
// Blocking and concurrency. A Service is safe for concurrent use and owns no goroutine; operations wait for
// the database only. Functions that take a storage.Tx run inside the caller's transaction.
package personal

import (
	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace/place"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// The bounds of what a person stores. Bytes are those of the JSON as it is sent.
const (
	MaxSettings = 1000
	MaxSetting  = 16 << 10
	MaxSidebar  = 48 << 10
	MaxDrafts   = 1000
	maxKey      = 128
)

// Options are what a Service needs.
type Options struct {
	DB  storage.DB
	Log *eventlog.Log
	// MaxChars is message.max_chars, MaxAttachments message.max_attachments: what a draft may have.
	MaxChars       int
	MaxAttachments int
	// MaxPayload is sync.event_payload_max_bytes: a larger draft is named without its text (ES-2.2).
	MaxPayload int
}

// Service is the operations on personal data. Make it with New.
type Service struct{ Options }

// New makes the service.
func New(o Options) *Service { return &Service{o} }

// keys are the locks of a write to the caller's own data: its writes follow one another.
func keys(by authz.Caller) []storage.Key {
	return []storage.Key{{Lock: storage.LockUsers, ID: by.Principal}, by.Lock()}
}

// person authorises what concerns only the caller, who must be a person.
func person(tx storage.Tx, by authz.Caller, a action.Action) (*authz.Snapshot, error) {
	snapshot, err := authz.Check(tx, by, a, authz.Resource{What: "Personal data", Owner: by.Principal})
	if err != nil {
		return nil, err
	}
	if snapshot.Principal.Kind != wire.KindUser {
		return nil, fault.New(code.NotImplementedForKind, "Only people have personal data.")
	}
	return snapshot, nil
}

// thread authorises what concerns the caller's data of a thread, and answers the thread.
func thread(tx storage.Tx, by authz.Caller, a action.Action, id string) (place.Thread, error) {
	t, found, err := place.OfThread(tx, id)
	if err != nil {
		return t, err
	}
	if !found {
		return t, fault.Missing("Thread")
	}
	_, err = authz.Check(tx, by, a, authz.Resource{What: "Thread", Place: t.Place})
	return t, err
}

// tell writes the event of a change for the caller's devices.
func (s *Service) tell(tx storage.Tx, by authz.Caller, kind string, scope wire.Scope, resourceID string, version int64, payload any) error {
	return s.Log.Emit(tx, eventlog.Event{
		Type: kind, Actor: by.Actor(), Scope: scope, ResourceID: resourceID, ResourceVersion: version, Audience: by.Principal,
		Payload: payload, CorrelationID: by.Correlation, TraceContext: by.Trace,
	})
}

func optional(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func value(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
