package eventlog

import (
	"errors"
	"fmt"
	"math"

	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

var table = storage.Table{Name: "event_log", Columns: []storage.Column{
	{Name: "seq", Type: storage.Bigint},
	{Name: "id", Type: storage.Text},
	{Name: "type", Type: storage.Text},
	{Name: "schema_version", Type: storage.Bigint},
	{Name: "occurred_at", Type: storage.Bigint},
	{Name: "actor_id", Type: storage.Text},
	{Name: "actor_kind", Type: storage.Text},
	{Name: "space_id", Type: storage.Text},
	{Name: "channel_id", Type: storage.Text},
	{Name: "thread_id", Type: storage.Text},
	{Name: "resource_kind", Type: storage.Text},
	{Name: "resource_id", Type: storage.Text},
	{Name: "resource_version", Type: storage.Bigint},
	{Name: "audience_principal_id", Type: storage.Text},
	{Name: "payload", Type: storage.Text},
	{Name: "redacted", Type: storage.Boolean},
	{Name: "truncated", Type: storage.Boolean},
	{Name: "correlation_id", Type: storage.Text},
	{Name: "trace_context", Type: storage.Text},
	{Name: "client_msg_id", Type: storage.Text},
	{Name: "permission_version", Type: storage.Bigint},
}}

// moveTable remembers where in the log threads moved.
var moveTable = storage.Table{Name: "thread_moves", Columns: []storage.Column{
	{Name: "seq", Type: storage.Bigint},
	{Name: "thread_id", Type: storage.Text},
}}

// columns are what scan reads: a missing text is an empty one, a missing version 0.
const columns = `seq, id, type, schema_version, occurred_at, coalesce(actor_id, ''), coalesce(actor_kind, ''), coalesce(space_id, ''),
	coalesce(channel_id, ''), coalesce(thread_id, ''), resource_kind, resource_id, coalesce(resource_version, 0), coalesce(audience_principal_id, ''),
	payload, redacted, truncated, coalesce(correlation_id, ''), coalesce(trace_context, ''), coalesce(client_msg_id, ''), permission_version`

func (r *Record) row() []any {
	var actorID, actorKind any
	if r.Actor != nil {
		actorID, actorKind = optional(r.Actor.ID), string(r.Actor.Kind)
	}
	var version any
	if r.Resource.Version > 0 {
		version = r.Resource.Version
	}
	return []any{
		r.Seq, r.ID, r.Type, r.SchemaVersion, r.OccurredAt, actorID, actorKind,
		optional(r.Scope.SpaceID), optional(r.Scope.ChannelID), optional(r.Scope.ThreadID),
		r.Resource.Kind, r.Resource.ID, version, optional(r.AudienceID), []byte(r.Payload), r.Redacted, r.Truncated,
		optional(r.CorrelationID), optional(r.TraceContext), optional(r.ClientMsgID), r.PermissionVersion,
	}
}

func optional(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func scan(row storage.Row) (*Record, error) {
	var r Record
	var actor wire.Actor
	err := row.Scan(&r.Seq, &r.ID, &r.Type, &r.SchemaVersion, &r.OccurredAt, &actor.ID, (*string)(&actor.Kind),
		&r.Scope.SpaceID, &r.Scope.ChannelID, &r.Scope.ThreadID, &r.Resource.Kind, &r.Resource.ID, &r.Resource.Version, &r.AudienceID,
		(*[]byte)(&r.Payload), &r.Redacted, &r.Truncated, &r.CorrelationID, &r.TraceContext, &r.ClientMsgID, &r.PermissionVersion)
	if err != nil {
		return nil, fmt.Errorf("read event: %w", err)
	}
	if actor.Kind != "" {
		r.Actor = &actor
	}
	if r.AudienceID != "" {
		r.Audience = wire.AudienceSelf
	}
	if t := TypeOf(r.Type); t != nil {
		r.Type, r.Resource.Kind = t.Name, t.Resource // one text for all, not one for each row
	}
	return &r, nil
}

// State is where the log stands.
type State struct {
	Head              int64 // the last number; 0 for an empty log
	MinRetained       int64 // events below it were removed
	SyncEpoch         string
	InstanceID        string
	InstanceName      string
	PermissionVersion int64
}

// StateOf reads where the log stands, in one statement.
func StateOf(tx storage.Tx) (State, error) {
	var s State
	_, err := tx.Get(
		`SELECT i.id, i.name, i.sync_epoch, i.min_retained_seq, e.value, p.value
		   FROM instance i, sequence_counters e, sequence_counters p
		  WHERE e.name = 'event_seq' AND p.name = 'permission_version'`,
		nil, &s.InstanceID, &s.InstanceName, &s.SyncEpoch, &s.MinRetained, &s.Head, &s.PermissionVersion)
	if err != nil {
		return State{}, fmt.Errorf("read state of the log: %w", err)
	}
	return s, nil
}

// Resync answers why a client with this cursor and epoch cannot catch up, or "" when it can (ES-7.3). An
// empty epoch is not compared. maxEvents is sync.catchup_max_events.
func (s State) Resync(cursor int64, epoch string, maxEvents int64) wire.ResyncReason {
	switch {
	case epoch != "" && epoch != s.SyncEpoch:
		return wire.ResyncEpoch
	case cursor > s.Head:
		return wire.ResyncFuture
	case cursor < s.MinRetained-1:
		return wire.ResyncOld
	case s.Head-cursor > maxEvents:
		return wire.ResyncFar
	default:
		return ""
	}
}

// After answers the events after a number up to and including upTo, in order, at most limit, without any
// filter: what a Tail reads.
func After(tx storage.Tx, after, upTo int64, limit int) ([]*Record, error) {
	return query(tx, `SELECT `+columns+` FROM event_log WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT $3`, after, upTo, limit)
}

func query(tx storage.Tx, text string, args ...any) ([]*Record, error) {
	records, _, err := queryUpTo(tx, math.MaxInt, text, args...)
	return records, err
}

// errEnough ends the reading of rows.
var errEnough = errors.New("enough was read")

// queryUpTo is query, up to the event whose payload reaches a number of bytes. It answers how many were read.
func queryUpTo(tx storage.Tx, most int, text string, args ...any) (records []*Record, size int, err error) {
	err = tx.Query(text, args, func(row storage.Row) error {
		record, err := scan(row)
		if err != nil {
			return err
		}
		records = append(records, record)
		if size += len(record.Payload); size >= most {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, 0, fmt.Errorf("read events: %w", err)
	}
	return records, size, nil
}
