package eventlog

import (
	"fmt"
	"strings"
	"time"

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

var columns = func() string {
	names := make([]string, len(table.Columns))
	for i, column := range table.Columns {
		names[i] = column.Name
	}
	return strings.Join(names, ", ")
}()

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
	var actorID, actorKind, space, channel, thread, audience, correlation, trace, message *string
	var version *int64
	var payload []byte
	err := row.Scan(&r.Seq, &r.ID, &r.Type, &r.SchemaVersion, &r.OccurredAt, &actorID, &actorKind, &space, &channel, &thread,
		&r.Resource.Kind, &r.Resource.ID, &version, &audience, &payload, &r.Redacted, &r.Truncated,
		&correlation, &trace, &message, &r.PermissionVersion)
	if err != nil {
		return nil, err
	}
	if actorKind != nil {
		r.Actor = &wire.Actor{ID: value(actorID), Kind: wire.Kind(*actorKind)}
	}
	if version != nil {
		r.Resource.Version = *version
	}
	r.Scope = wire.Scope{SpaceID: value(space), ChannelID: value(channel), ThreadID: value(thread)}
	if r.AudienceID = value(audience); r.AudienceID != "" {
		r.Audience = wire.AudienceSelf
	}
	r.Payload = payload
	r.CorrelationID, r.TraceContext, r.ClientMsgID = value(correlation), value(trace), value(message)
	return &r, nil
}

func value(text *string) string {
	if text == nil {
		return ""
	}
	return *text
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

// Filter is what a principal may possibly see (ES-7.2). It narrows the reading; whether an event is
// delivered is decided for each by its receive action.
type Filter struct {
	Principal    string
	Channels     []string // visible ones
	Spaces       []string // with at least one visible channel, or a grant
	FullSpaces   []string // with a grant on the space
	InstanceWide bool     // owner, or a grant on the instance
	MovedThreads []string // threads that moved, after the cursor, to where the principal may see them
}

// Visible answers the events after a number up to and including upTo that filter lets through, in order,
// at most limit.
func Visible(tx storage.Tx, filter Filter, after, upTo int64, limit int) ([]*Record, error) {
	return query(tx, `SELECT `+columns+` FROM event_log
		  WHERE seq > $1 AND seq <= $2
		    AND ((audience_principal_id IS NULL
		          AND (channel_id = ANY($4) OR space_id = ANY($5) OR (channel_id IS NULL AND space_id = ANY($6))
		               OR ($7 AND space_id IS NOT NULL) OR thread_id = ANY($8)
		               OR (space_id IS NULL AND channel_id IS NULL)))
		         OR audience_principal_id = $9)
		  ORDER BY seq LIMIT $3`,
		after, upTo, limit, filter.Channels, filter.FullSpaces, filter.Spaces, filter.InstanceWide, filter.MovedThreads, filter.Principal)
}

func query(tx storage.Tx, text string, args ...any) ([]*Record, error) {
	var records []*Record
	err := tx.Query(text, args, func(row storage.Row) error {
		record, err := scan(row)
		records = append(records, record)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	return records, nil
}

// Moves answers the threads that moved in events after a number. Events before a move name the channel the
// thread was in; what counts is the current one.
func Moves(tx storage.Tx, after int64) ([]string, error) {
	var threads []string
	err := tx.Query(`SELECT DISTINCT thread_id FROM thread_moves WHERE seq > $1`, []any{after}, func(row storage.Row) error {
		var id string
		err := row.Scan(&id)
		threads = append(threads, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read moved threads: %w", err)
	}
	return threads, nil
}

// retentionBatch is how many events one transaction removes.
const retentionBatch = 1000

// Trim removes up to one batch of events older than keep (sync.event_retention) from the beginning of the
// log and answers how many it removed. min_retained_seq moves in the same transaction (ES-7.3).
func Trim(tx storage.Tx, keep time.Duration) (int64, error) {
	var from, upTo int64
	if _, err := tx.Get(`SELECT min_retained_seq FROM instance`, nil, &from); err != nil {
		return 0, fmt.Errorf("read beginning of the log: %w", err)
	}
	// Times do not order the log: the first event that is young enough keeps everything after it.
	_, err := tx.Get(
		`SELECT coalesce(min(CASE WHEN occurred_at >= $3 THEN seq END), max(seq) + 1, $1)
		   FROM (SELECT seq, occurred_at FROM event_log WHERE seq >= $1 ORDER BY seq LIMIT $2) oldest`,
		[]any{from, retentionBatch, tx.Now().Add(-keep)}, &upTo)
	if err != nil {
		return 0, fmt.Errorf("find old events: %w", err)
	}
	if upTo <= from {
		return 0, nil
	}
	steps := []struct {
		query string
		args  []any
	}{
		{`UPDATE instance SET min_retained_seq = $1`, []any{upTo}},
		{`DELETE FROM event_log WHERE seq < $1`, []any{upTo}},
		{`DELETE FROM thread_moves WHERE seq < $1`, []any{upTo}},
	}
	for _, step := range steps {
		if err := tx.Exec(step.query, step.args...); err != nil {
			return 0, fmt.Errorf("remove old events: %w", err)
		}
	}
	return upTo - from, nil
}
