package outbound

import (
	"fmt"
	"time"

	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// outcomesTable holds what became of wakes.
var outcomesTable = storage.Table{Name: "push_outcomes", Columns: []storage.Column{
	{Name: "id", Type: storage.Text},
	{Name: "session_id", Type: storage.Text},
	{Name: "type", Type: storage.Text},
	{Name: "device_id", Type: storage.Text},
	{Name: "user_id", Type: storage.Text},
	{Name: "control_id", Type: storage.Text},
	{Name: "seq", Type: storage.Bigint},
	{Name: "state", Type: storage.Text},
	{Name: "reason", Type: storage.Text},
	{Name: "attempts", Type: storage.Bigint},
	{Name: "created_at", Type: storage.Bigint},
	{Name: "updated_at", Type: storage.Bigint},
}}

// fate is how far a wake is.
type fate struct {
	state  wire.PushState
	reason wire.PushReason // "" for none
}

func skipped(reason wire.PushReason) fate { return fate{wire.PushSkipped, reason} }

// outcomeRow is the first that is known of a wake.
func outcomeRow(id string, w Wake, f fate, now time.Time) []any {
	return []any{
		id, w.SessionID, string(w.Type), w.DeviceID, w.UserID, optional(w.ControlID), w.seq(), string(f.state), optional(string(f.reason)),
		int64(0), now, now,
	}
}

// optional is NULL for nothing.
func optional(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// seq is NULL for a wake without one.
func (w Wake) seq() any {
	if !w.news() {
		return nil
	}
	return w.Seq
}

// keep writes outcomes of one session and forgets the oldest ones past the bound, whatever their state: the wake
// itself is in the outbox.
func keep(tx storage.Tx, sessionID string, rows [][]any) error {
	if err := tx.Insert(outcomesTable, rows); err != nil {
		return fmt.Errorf("keep outcomes of pushes: %w", err)
	}
	err := tx.Exec(`DELETE FROM push_outcomes WHERE session_id = $1 AND (created_at, id) <= (
			SELECT created_at, id FROM push_outcomes WHERE session_id = $1 ORDER BY created_at DESC, id DESC LIMIT 1 OFFSET $2)`,
		sessionID, wire.MaxPushes)
	if err != nil {
		return fmt.Errorf("forget old outcomes of pushes: %w", err)
	}
	return nil
}

// note writes what became of wakes.
func note(tx storage.Tx, f fate, attempts int64, ids ...string) error {
	err := tx.Exec(`UPDATE push_outcomes SET state = $2, reason = $3, attempts = $4, updated_at = $5 WHERE id = ANY($1)`,
		ids, string(f.state), optional(string(f.reason)), attempts, tx.Now())
	if err != nil {
		return fmt.Errorf("note outcome of push: %w", err)
	}
	return nil
}

// noteReplaced writes that wakes were replaced; how often they were tried stays.
func noteReplaced(tx storage.Tx, ids ...string) error {
	err := tx.Exec(`UPDATE push_outcomes SET state = $2, reason = $3, updated_at = $4 WHERE id = ANY($1)`,
		ids, string(wire.PushSkipped), string(wire.PushReplaced), tx.Now())
	if err != nil {
		return fmt.Errorf("note replaced pushes: %w", err)
	}
	return nil
}

// Pushes answers the pushes of a session and what became of them, newest first, at most wire.MaxPushes.
func Pushes(tx storage.Tx, sessionID string) ([]wire.Push, error) {
	pushes := []wire.Push{}
	err := tx.Query(`SELECT id, type, device_id, user_id, control_id, seq, state, reason, attempts, created_at, updated_at
		FROM push_outcomes WHERE session_id = $1 ORDER BY created_at DESC, id DESC LIMIT $2`,
		[]any{sessionID, wire.MaxPushes}, func(row storage.Row) error {
			var push wire.Push
			var reason *string
			err := row.Scan(&push.ID, &push.Type, &push.DeviceID, &push.UserID, &push.ControlID, &push.Seq, &push.State, &reason,
				&push.Attempts, &push.CreatedAt.Time, &push.UpdatedAt.Time)
			if reason != nil {
				push.Reason = wire.PushReason(*reason)
			}
			pushes = append(pushes, push)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("read outcomes of pushes: %w", err)
	}
	return pushes, nil
}
