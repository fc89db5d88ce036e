package audit

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/cairnsync/cairn/internal/storage"
)

// Row is a row of the chain, as those who may read all of it see it.
type Row struct {
	Seq        int64           `json:"seq"`
	ID         string          `json:"id"`
	At         time.Time       `json:"at"`
	UserID     string          `json:"user_id"` // a principal, or System
	DeviceID   string          `json:"device_id,omitempty"`
	Action     string          `json:"action"`
	SessionID  string          `json:"session_id,omitempty"`
	OrgID      string          `json:"org_id,omitempty"`
	TargetKind string          `json:"target_kind,omitempty"`
	TargetID   string          `json:"target_id,omitempty"`
	Detail     json.RawMessage `json:"detail"`
}

// Latest answers the rows of the chain below the number before, newest first, at most limit; 0 is from the end.
func Latest(tx storage.Tx, before int64, limit int) ([]Row, error) {
	rows := []Row{}
	err := tx.Query(
		`SELECT seq, id, at, user_id, coalesce(device_id, ''), action, coalesce(session_id, ''), coalesce(org_id, ''),
		        coalesce(target_kind, ''), coalesce(target_id, ''), detail
		   FROM audit WHERE seq IS NOT NULL AND ($1 = 0 OR seq < $1) ORDER BY seq DESC LIMIT $2`,
		[]any{before, limit}, func(row storage.Row) error {
			var r Row
			var detail string
			err := row.Scan(&r.Seq, &r.ID, &r.At, &r.UserID, &r.DeviceID, &r.Action, &r.SessionID, &r.OrgID, &r.TargetKind, &r.TargetID, &detail)
			r.Detail = json.RawMessage(detail)
			rows = append(rows, r)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("read audit chain: %w", err)
	}
	return rows, nil
}
