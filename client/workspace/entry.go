package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/cairnsync/cairn/client/internal/httpkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// EntryKind is what an entry of the outbox does.
type EntryKind string

// The kinds of entries.
const (
	EntryMessage EntryKind = "message" // sends a message
	EntryThread  EntryKind = "thread"  // starts a thread with a message
	EntryEdit    EntryKind = "edit"    // edits a sent message
	EntryDelete  EntryKind = "delete"  // deletes a sent message
	EntryWrite   EntryKind = "write"   // anything else
)

// EntryState is how an entry stands.
type EntryState string

// The states of entries.
const (
	EntryWaiting  EntryState = "waiting"  // it is sent, or will be
	EntryFailed   EntryState = "failed"   // the server refused it for good; the person edits, sends again or discards it
	EntryConflict EntryState = "conflict" // somebody else changed the object: the person decides (ES-13.3)
)

// Entry is one write in the outbox (ES-13.2).
type Entry struct {
	// ID is the client_msg_id of a message and the Idempotency-Key of anything else, the same on every
	// attempt.
	ID string `json:"id"`
	// Place orders the entries; Lane is what they wait for each other in: a thread, mostly.
	Place int64  `json:"place"`
	Lane  string `json:"lane"`

	Kind      EntryKind `json:"kind"`
	ThreadID  string    `json:"thread_id,omitempty"`
	ChannelID string    `json:"channel_id,omitempty"`
	MessageID string    `json:"message_id,omitempty"` // of an edit or deletion
	// Target is the entry whose message an edit or deletion is about, while that is not confirmed.
	Target string `json:"target,omitempty"`
	// Content is the text of a message or an edit. It stays readable whatever becomes of the entry.
	Content string `json:"content,omitempty"`

	Method  string          `json:"method"`
	Path    string          `json:"path"`
	Body    json.RawMessage `json:"body,omitempty"`
	IfMatch int64           `json:"if_match,omitempty"`

	CreatedAt time.Time     `json:"created_at"`
	State     EntryState    `json:"state"`
	Attempts  int           `json:"attempts,omitempty"` // begun; with one the server may know the entry
	Problem   *wire.Problem `json:"problem,omitempty"`  // of the last attempt
}

// Sent reports whether the server may know the entry.
func (e Entry) Sent() bool { return e.Attempts > 0 }

// call answers the request of an entry.
func (e Entry) call() Call {
	made := Call{Method: e.Method, Path: e.Path, IfMatch: e.IfMatch, once: true}
	if len(e.Body) > 0 {
		made.Body = e.Body
	}
	if e.Kind != EntryMessage && e.Kind != EntryThread { // these carry their id in the body (ES-5.1)
		made.Key = e.ID
	}
	return made
}

// verdict is what the end of an attempt means for an entry.
type verdict int

const (
	verdictDone  verdict = iota // the server has done it
	verdictRetry                // the same again, later
	verdictAsk                  // the person decides
	verdictFail                 // never again by itself
	verdictPause                // nothing can be sent until somebody signs in
)

// judge sorts the end of an attempt into the classes of ES-13.2. An access token that has ended was renewed
// and tried again before this.
func judge(err error) verdict {
	refused := AsProblem(err)
	switch {
	case err == nil:
		return verdictDone
	case errors.Is(err, ErrSignedOut):
		return verdictPause
	case errors.Is(err, httpkit.ErrNotSent):
		return verdictFail
	case refused == nil || errors.Is(err, context.Canceled):
		return verdictRetry
	}
	switch {
	case refused.Status == http.StatusUnauthorized, worthRetry(err):
		return verdictRetry
	case refused.Status == http.StatusPreconditionFailed:
		return verdictAsk
	case refused.Status >= 500:
		return verdictRetry
	default:
		return verdictFail
	}
}

// problemOf answers what to show of an error.
func problemOf(err error) *wire.Problem {
	if refused := AsProblem(err); refused != nil {
		shown := refused.Problem
		return &shown
	}
	if err == nil {
		return nil
	}
	return &wire.Problem{Title: "The server could not be reached.", Code: string(code.Unavailable), Detail: err.Error()}
}

// setContent changes the text in the body of a message, a new thread or an edit.
func setContent(e *Entry, text string) error {
	var body map[string]json.RawMessage
	if err := json.Unmarshal(e.Body, &body); err != nil {
		return httpkit.NotSent("decode entry %s: %w", e.ID, err)
	}
	encoded, err := httpkit.Encode(text)
	if err != nil {
		return err
	}
	body["content_md"] = encoded
	if e.Body, err = httpkit.Encode(body); err != nil {
		return err
	}
	e.Content = text
	return nil
}

// renew gives an entry another id, also in its body: it is a new write.
func renew(e *Entry) error {
	e.ID = NewID()
	e.State, e.Attempts, e.Problem = EntryWaiting, 0, nil
	if e.Kind != EntryMessage && e.Kind != EntryThread {
		return nil
	}
	var body map[string]json.RawMessage
	if err := json.Unmarshal(e.Body, &body); err != nil {
		return httpkit.NotSent("decode entry: %w", err)
	}
	encoded, err := httpkit.Encode(e.ID)
	if err != nil {
		return err
	}
	body["client_msg_id"] = encoded
	e.Body, err = httpkit.Encode(body)
	return err
}

// pointTo makes an edit or deletion one of a message that is known now.
func pointTo(e *Entry, message wire.Message) error {
	at, err := httpkit.Path("/messages/", message.ID)
	if err != nil {
		return err
	}
	e.MessageID, e.Path, e.Target = message.ID, prefix+at, ""
	if e.Kind == EntryEdit {
		e.IfMatch = message.Version
	}
	return nil
}
