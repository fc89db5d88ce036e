package workspace

import (
	"encoding/json"
	"time"
)

// AuditEntry is a row of the audit chain: who did what to what (WS-AZ-6).
type AuditEntry struct {
	Seq        int64           `json:"seq"`
	ID         string          `json:"id"`
	At         time.Time       `json:"at"`
	UserID     string          `json:"user_id" doc:"a principal, or system"`
	DeviceID   string          `json:"device_id,omitempty"`
	Action     string          `json:"action"`
	SessionID  string          `json:"session_id,omitempty" doc:"of Shared Sessions"`
	OrgID      string          `json:"org_id,omitempty" doc:"of Shared Sessions"`
	TargetKind string          `json:"target_kind,omitempty"`
	TargetID   string          `json:"target_id,omitempty"`
	Detail     json.RawMessage `json:"detail,omitempty"`
}
