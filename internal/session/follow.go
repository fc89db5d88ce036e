package session

import (
	"context"

	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Find resolves a reference for a caller who wants to follow the session, and answers its id
// (SS-REF-1); a caller without a role is refused.
func (s *Service) Find(ctx context.Context, by Caller, ref string) (string, error) {
	return read(ctx, s, by, ref, wire.RoleViewer, func(_ storage.Tx, sess *record) (string, error) { return sess.ID, nil })
}

// Standing is what a caller may do with a session now.
type Standing struct {
	Access
	// Known is false when the caller's key is revoked, its user disabled or its device deleted.
	Known bool
}

// Standings computes what callers may do with a session, in the transaction's snapshot, and where the
// session stands; false when the session is gone.
func Standings(tx storage.Tx, sessionID string, callers []Caller) ([]Standing, State, bool, error) {
	sess, err := load(tx, sessionID)
	if err != nil || sess == nil {
		return nil, State{}, false, err
	}
	known, err := identity.AliveIn(tx, credentials(callers))
	if err != nil {
		return nil, State{}, false, err
	}
	type person struct{ userID, linkHash string }
	computed := map[person]Access{}
	standings := make([]Standing, len(callers))
	for i, caller := range callers {
		who := person{caller.UserID, caller.LinkHash}
		access, done := computed[who]
		if !done {
			if access, err = accessOf(tx, caller, sess); err != nil {
				return nil, State{}, false, err
			}
			computed[who] = access
		}
		standings[i] = Standing{Access: access, Known: known[i]}
	}
	return standings, sess.state(), true, nil
}

func credentials(callers []Caller) []identity.Credential {
	list := make([]identity.Credential, len(callers))
	for i, caller := range callers {
		list[i] = caller.Credential()
	}
	return list
}

// Credential is what the caller's stream stands on.
func (c Caller) Credential() identity.Credential {
	return identity.Credential{KeyID: c.KeyID, UserID: c.UserID, DeviceID: c.DeviceID}
}

// StateOf reads the positions and revisions of one session; false when it is gone.
func StateOf(tx storage.Tx, id string) (State, bool, error) {
	states, err := States(tx, []string{id})
	state, found := states[id]
	return state, found, err
}

// States reads the positions and revisions of sessions; those that are gone are missing.
func States(tx storage.Tx, ids []string) (map[string]State, error) {
	states := make(map[string]State, len(ids))
	err := tx.Query(`SELECT `+columns+` FROM sessions s WHERE s.id = ANY($1)`, []any{ids}, func(row storage.Row) error {
		var sess record
		err := sess.scan(row, tx.Now())
		states[sess.ID] = sess.state()
		return err
	})
	return states, err
}

// Applied is a control that was applied, as viewers are told of it.
type Applied struct {
	ID       string
	Kind     wire.ControlKind
	Seq      int64 // of its echo
	Revision int64 // the session's control_revision when it was applied
}

// AppliedAfter lists at most limit applied controls whose echo stands behind a seq, in the order of
// the log (SS-STR-2).
func AppliedAfter(tx storage.Tx, sessionID string, seq int64, limit int) ([]Applied, error) {
	return queryApplied(tx, `SELECT id, kind, seq, applied_revision FROM session_controls
		WHERE session_id = $1 AND seq > $2 AND applied ORDER BY seq LIMIT $3`, sessionID, seq, limit)
}

// AppliedSince lists at most limit controls that were applied after a revision, in the order of their
// being applied (SS-FRM-1).
func AppliedSince(tx storage.Tx, sessionID string, revision int64, limit int) ([]Applied, error) {
	return queryApplied(tx, `SELECT id, kind, seq, applied_revision FROM session_controls
		WHERE session_id = $1 AND applied_revision > $2 AND applied ORDER BY applied_revision LIMIT $3`, sessionID, revision, limit)
}

func queryApplied(tx storage.Tx, query string, args ...any) ([]Applied, error) {
	var list []Applied
	err := tx.Query(query, args, func(row storage.Row) error {
		var one Applied
		var kind string
		err := row.Scan(&one.ID, &kind, &one.Seq, &one.Revision)
		one.Kind = wire.ControlKind(kind)
		list = append(list, one)
		return err
	})
	return list, err
}
