// Package history runs people, executors and viewers against a cairn server over real HTTP, records
// what each was told and when, and checks the record against the promises of Shared Sessions.
//
// Contract. Record runs a workload on one session: executors that fight for the lease, append and
// apply, editors that send controls, viewers that come and go on both transports. Answers are lost on
// purpose and the requests repeated with their own ids. The History it answers is complete: every
// request that may have reached the server is in it, with an outcome or as unknown. Check then demands
// a dense log, everything acknowledged there exactly once, nothing that nobody sent, a linearizable
// session (lease, numbering, controls) and viewers whose logs equal the server's.
//
// The package knows the wire objects only, no part of the server. A Client is safe for concurrent
// use; Record blocks until its workers have ended, and leaves no goroutine behind.
package history

import (
	"math"
	"sync"
	"time"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Kind is what an operation asked for.
type Kind string

// The kinds of operation.
const (
	Claim   Kind = "claim"
	Renew   Kind = "renew"
	Release Kind = "release"
	Append  Kind = "append"
	Control Kind = "control"
	Applied Kind = "applied"
	Read    Kind = "read"
)

// Op is one request that may have reached the server.
type Op struct {
	Worker int
	Kind   Kind
	Device string

	Force    bool     // of a claim
	IDs      []string // client_event_ids of an append
	Expected *int64   // expected_last_seq of an append
	ID       string   // of a control
	Again    bool     // of an applied: this device has asked before

	// Call and Return are nanoseconds since the history began; Return is Never for a request whose
	// work may still go on.
	Call, Return int64
	Outcome
}

// Never is the Return of an operation that nobody saw end.
const Never = math.MaxInt64

// Outcome is what the caller was told.
type Outcome struct {
	Known  bool // false: the answer was lost, or says nothing about what was done
	Code   string
	Holder string // of lease_held, or of a read; "" for none

	LastSeq   int64   // of an append, a seq_conflict or a read
	Accepted  int     // of an append
	Seqs      []int64 // of an append
	Seq       int64   // of a control
	Duplicate bool    // of a control
	Released  bool    // of a release
}

// OK reports whether the operation is known to have succeeded.
func (o Outcome) OK() bool { return o.Known && o.Code == "" }

// View is what one viewer received over all its connections.
type View struct {
	Name    string
	Events  []wire.Event
	Applied map[string]bool // controls shown as applied
	Opened  int             // connections
	Cut     int             // of them, how many the server ended
	Trouble []string        // broken promises, as they happened
}

// History is everything that was asked and told, and what the server holds at the end.
type History struct {
	Ops      []Op
	Views    []*View
	Sent     map[string]wire.IncomingEvent   // by device and client_event_id, see eventKey
	Controls map[string]wire.IncomingControl // sent, by id

	Log   []wire.Event   // the server's, whole
	Final []wire.Control // the server's, whole
	// ForceOnly is true when the lease changed hands by force only, so that the log alone tells its holder.
	ForceOnly bool
}

func eventKey(device, id string) string { return device + "/" + id }

// recorder collects operations of many workers.
type recorder struct {
	started time.Time

	mu      sync.Mutex // guards history's ops and sent
	history *History
}

func newRecorder() *recorder {
	return &recorder{started: time.Now(), history: &History{
		Sent: map[string]wire.IncomingEvent{}, Controls: map[string]wire.IncomingControl{},
	}}
}

func (r *recorder) now() int64 { return time.Since(r.started).Nanoseconds() }

func (r *recorder) add(op Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Ops = append(r.history.Ops, op)
}

func (r *recorder) sends(device string, events []wire.IncomingEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, event := range events {
		r.history.Sent[eventKey(device, *event.ClientEventID)] = event
	}
}

func (r *recorder) steers(control wire.IncomingControl) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Controls[control.ID] = control
}
