// Package audit writes down who did what, in the transaction that does it (SS-AUD-1).
//
// Contract. A row is durable exactly when the change it tells of is. It outlives its session: the
// owner of the session is kept in the row, so that the owner can still read it afterwards. The rows of both
// surfaces are one chain: each has a number without gaps, and a hash over itself and the hash before it, so
// that a row that was changed or taken out is found (Verify).
//
// Order. Numbers follow the commits. Rows of a session are read newest first, by the transaction's timestamp
// and then by id.
//
// Blocking and concurrency. The package has no state; every function runs inside the caller's Tx.
package audit

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// The actions that are written down (SS-AUD-1).
const (
	SessionCreate   = "session:create"
	SessionPatch    = "session:patch"
	SessionDelete   = "session:delete"
	Control         = "control"
	Dispatch        = "dispatch"
	LeaseForce      = "lease:force"
	LeaseRelease    = "lease:release"
	ShareAdd        = "share:add"
	ShareRemove     = "share:remove"
	OrgCreate       = "org:create"
	OrgMemberAdd    = "org:member_add"
	OrgMemberRemove = "org:member_remove"
	DeviceDelete    = "device:delete"
)

// System is who did what the server does by itself.
const System = "system"

// MaxRows is how many rows one reading answers.
const MaxRows = 1000

// Entry is one thing that was done. An empty DeviceID, SessionID, OwnerID or OrgID means none.
type Entry struct {
	UserID    string // who did it
	DeviceID  string // on which device
	Action    string // one of the constants of this package
	SessionID string
	OwnerID   string // owner of the session, who may read the row after the session is gone
	OrgID     string
	// TargetKind and TargetID name what it was done to, on the Workspace surface.
	TargetKind string
	TargetID   string
	// Detail is encoded as a JSON object; nil is {}. It never holds a key, a token or a payload.
	Detail any
}

// Write adds entry to the transaction, with the transaction's time. It is in the database once the
// transaction is committed, not before. A Detail that is no JSON object is an error.
func Write(tx storage.Tx, e *env.Env, entry Entry) error {
	detail, err := object(entry.Detail)
	if err != nil {
		return fmt.Errorf("encode audit detail of %s: %w", entry.Action, err)
	}
	err = tx.Finally(chain, link{
		ID: e.NewID(), At: tx.Now().UnixMicro(), UserID: entry.UserID, DeviceID: optional(entry.DeviceID), Action: entry.Action,
		SessionID: optional(entry.SessionID), OwnerID: optional(entry.OwnerID), OrgID: optional(entry.OrgID),
		TargetKind: optional(entry.TargetKind), TargetID: optional(entry.TargetID), Detail: detail,
	})
	if err != nil {
		return fmt.Errorf("write audit row of %s: %w", entry.Action, err)
	}
	return nil
}

// OfSession answers the rows of a session that ownerID owns or owned, newest first, at most MaxRows,
// from behind the row with the id before on, "" for the newest. Somebody else's session and a
// session that never was have none.
func OfSession(tx storage.Tx, sessionID, ownerID, before string) ([]wire.AuditEntry, error) {
	entries := []wire.AuditEntry{}
	err := tx.Query(
		`SELECT id, at, user_id, device_id, action, session_id, org_id, detail
		   FROM audit WHERE session_id = $1 AND owner_id = $2
		    AND ($3 = '' OR (at, id) < (SELECT b.at, b.id FROM audit b WHERE b.id = $3))
		  ORDER BY at DESC, id DESC LIMIT $4`,
		[]any{sessionID, ownerID, before, MaxRows},
		func(row storage.Row) error {
			entry, err := scan(row)
			entries = append(entries, entry)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("read audit of session: %w", err)
	}
	return entries, nil
}

func scan(row storage.Row) (wire.AuditEntry, error) {
	var entry wire.AuditEntry
	var at time.Time
	var detail string
	err := row.Scan(&entry.ID, &at, &entry.UserID, &entry.DeviceID, &entry.Action,
		&entry.SessionID, &entry.OrgID, &detail)
	entry.At = wire.Time{Time: at}
	entry.Detail = json.RawMessage(detail)
	return entry, err
}

func object(detail any) (string, error) {
	if detail == nil {
		return "{}", nil
	}
	encoded, err := json.Marshal(detail)
	if err != nil {
		return "", fmt.Errorf("write JSON: %w", err)
	}
	if encoded[0] != '{' {
		return "", fmt.Errorf("%T is not a JSON object", detail)
	}
	return string(encoded), nil
}

func optional(id string) *string {
	if id == "" {
		return nil
	}
	return &id
}
