package eventlog

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Event is something that happened, as its producer says it.
type Event struct {
	Type  string
	Actor wire.Actor // the zero value: a job without a principal
	Scope wire.Scope
	// ResourceID names the object; its kind is the catalogue's. ResourceVersion is there exactly for types
	// that report it.
	ResourceID      string
	ResourceVersion int64
	// Audience is the principal of a personal event.
	Audience string
	// Payload is a value of the catalogue's type.
	Payload any
	// Truncated says that Payload was reduced to fit: receivers load the object by REST (ES-2.2).
	Truncated     bool
	CorrelationID string
	TraceContext  string
	ClientMsgID   string
}

// Record is an event of the log, with its place.
type Record struct {
	wire.Envelope

	// AudienceID is whom a personal event is for.
	AudienceID string
}

// Log writes events. Make it with New.
type Log struct {
	options Options
	last    *storage.LastStep
}

// Options are what a Log needs.
type Options struct {
	// MaxPayload is sync.event_payload_max_bytes.
	MaxPayload int
	// NewID makes the ids of events.
	NewID func() string
	// Committed is called after each commit with what it added, in order; it must not block. It may be nil.
	Committed func(records []*Record)
}

// New makes a Log.
func New(options Options) *Log {
	l := &Log{options: options}
	l.last = &storage.LastStep{Rank: storage.RankEvents, Run: l.append}
	return l
}

// Emit adds events to the transaction, in order, behind those emitted before.
func (l *Log) Emit(tx storage.Tx, events ...Event) error {
	for i := range events {
		record, err := l.record(tx.Now(), &events[i])
		if err != nil {
			return fmt.Errorf("emit %s: %w", events[i].Type, err)
		}
		if err := tx.Finally(l.last, record); err != nil {
			return fmt.Errorf("emit %s: %w", events[i].Type, err)
		}
	}
	return nil
}

// Fits reports whether a payload is small enough for an event: who has a larger one reduces it and says
// Truncated (ES-2.2).
func (l *Log) Fits(payload any) bool {
	encoded, err := encode(payload)
	return err == nil && len(encoded) <= l.options.MaxPayload
}

// record checks an event against its type and encodes it.
func (l *Log) record(now time.Time, event *Event) (*Record, error) {
	t := TypeOf(event.Type)
	if err := t.check(event); err != nil {
		return nil, err
	}
	payload, err := encode(event.Payload)
	switch {
	case err != nil:
		return nil, err
	case len(payload) > l.options.MaxPayload:
		return nil, fmt.Errorf("the payload has %d bytes and may have %d", len(payload), l.options.MaxPayload)
	case hasNull(payload):
		return nil, fmt.Errorf("the payload holds a null") // a list that is nil, or a value passed on unchecked
	}
	record := &Record{AudienceID: event.Audience, Envelope: wire.Envelope{
		ID: l.options.NewID(), Type: event.Type, SchemaVersion: t.Version, OccurredAt: now, Scope: event.Scope,
		Resource: wire.Resource{Kind: t.Resource, ID: event.ResourceID, Version: event.ResourceVersion},
		Payload:  payload, Truncated: event.Truncated, CorrelationID: event.CorrelationID, TraceContext: event.TraceContext,
		ClientMsgID: event.ClientMsgID,
	}}
	if event.Actor != (wire.Actor{}) {
		actor := event.Actor
		record.Actor = &actor
	}
	if t.Personal {
		record.Audience = wire.AudienceSelf
	}
	return record, nil
}

// hasNull reports whether a JSON null stands anywhere in a value.
func hasNull(payload []byte) bool {
	if !bytes.Contains(payload, []byte("null")) {
		return false
	}
	tokens := jsontext.NewDecoder(bytes.NewReader(payload))
	for {
		token, err := tokens.ReadToken()
		if err != nil {
			return false
		}
		if token.Kind() == 'n' {
			return true
		}
	}
}

// check answers what is wrong with an event.
func (t *Type) check(event *Event) error {
	switch {
	case t == nil:
		return fmt.Errorf("the type %q is not in the catalogue", event.Type)
	case !t.Durable:
		return fmt.Errorf("an ephemeral event is not written")
	case t.Payload == nil || reflect.TypeOf(event.Payload) != t.Payload:
		return fmt.Errorf("a payload of type %T is not the catalogue's", event.Payload)
	case event.ResourceID == "":
		return fmt.Errorf("the resource has no id")
	case t.ReportsVersion != (event.ResourceVersion > 0):
		return fmt.Errorf("resource version %d, where reporting one is %t", event.ResourceVersion, t.ReportsVersion)
	case t.Personal != (event.Audience != ""):
		return fmt.Errorf("audience %q, where being personal is %t", event.Audience, t.Personal)
	default:
		return nil
	}
}

// append numbers the events of a transaction and writes them. The permission version is read in a second
// statement: the first one may have waited for the counter, and its view of other rows is older (ES-3.2). Both
// travel together, because the counter is locked from here to the commit.
func (l *Log) append(tx storage.Tx, items []any) error {
	records, err := settle(items)
	if err != nil || len(records) == 0 {
		return err
	}
	var last, permissions int64
	if err := tx.Exec(`UPDATE sequence_counters SET value = value + $1 WHERE name = 'event_seq'`, len(records)); err != nil {
		return fmt.Errorf("take event numbers: %w", err)
	}
	_, err = tx.Get(`SELECT e.value, p.value FROM sequence_counters e, sequence_counters p WHERE e.name = 'event_seq' AND p.name = 'permission_version'`,
		nil, &last, &permissions)
	if err != nil {
		return fmt.Errorf("take event numbers: %w", err)
	}
	rows := make([][]any, len(records))
	var moves [][]any
	for i, record := range records {
		record.Seq = last - int64(len(records)) + 1 + int64(i)
		record.PermissionVersion = permissions
		rows[i] = record.row()
		if record.Type == ThreadMoved {
			moves = append(moves, []any{record.Seq, record.Scope.ThreadID})
		}
	}
	if err := errors.Join(tx.Insert(table, rows), tx.Insert(moveTable, moves)); err != nil {
		return fmt.Errorf("write events: %w", err)
	}
	if l.options.Committed != nil {
		tx.AfterCommit(func() { l.options.Committed(records) })
	}
	return nil
}
