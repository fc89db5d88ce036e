package authz

import (
	"context"

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
			OrgID: row.OrgID, TargetKind: row.TargetKind, TargetID: row.TargetID, Detail: row.Detail,
		}
		if string(row.Detail) == "null" { // there is no null on this surface
			entries[i].Detail = nil
		}
	}
	return entries, more, nil
}
