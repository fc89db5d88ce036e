package authz

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Audit answers rows of the audit chain below a number, 0 for the newest, newest first, at most limit, and
// whether there are more. The caller owns the instance.
func (s *Service) Audit(ctx context.Context, by Caller, before int64, limit int) (entries []wire.AuditEntry, more bool, err error) {
	rows, err := storage.Read(ctx, s.db, func(tx storage.Tx) ([]audit.Row, error) {
		if _, err := Check(tx, by, action.AuditRead, Resource{What: "Instance"}); err != nil {
			return nil, err
		}
		return audit.Latest(tx, before, limit+1)
	})
	if err != nil {
		return nil, false, err
	}
	if len(rows) > limit {
		rows, more = rows[:limit], true
	}
	entries = make([]wire.AuditEntry, len(rows))
	for i, row := range rows {
		entries[i] = wire.AuditEntry{
			Seq: row.Seq, ID: row.ID, At: row.At, UserID: row.UserID, DeviceID: row.DeviceID, Action: row.Action, SessionID: row.SessionID,
			OrgID: row.OrgID, TargetKind: row.TargetKind, TargetID: row.TargetID, Detail: withoutNull(row.Detail),
		}
	}
	return entries, more, nil
}

// withoutNull leaves out the members of a detail that are null, which this surface does not have; rows of Shared
// Sessions do.
func withoutNull(detail json.RawMessage) json.RawMessage {
	if !bytes.Contains(detail, []byte("null")) {
		return detail
	}
	decoder := json.NewDecoder(bytes.NewReader(detail))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return nil
	}
	if value = dropNull(value); value == nil {
		return nil
	}
	kept, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	return kept
}

func dropNull(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			if member = dropNull(member); member == nil {
				delete(value, name)
			} else {
				value[name] = member
			}
		}
		return value
	case []any:
		kept := value[:0]
		for _, element := range value {
			if element = dropNull(element); element != nil {
				kept = append(kept, element)
			}
		}
		return kept
	default:
		return value
	}
}
