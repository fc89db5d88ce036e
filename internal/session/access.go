package session

import (
	"time"

	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Access is what a caller may do with a session, and until when that is known.
type Access struct {
	Role    wire.Role
	Until   *time.Time // the first expiry among the shares that count; nil when none expires
	Version int64      // the session's access_version it was computed under (SS-ROLE-2)
}

// grant is an unexpired share that matches a caller.
type grant struct {
	role    wire.Role
	expires *time.Time
}

// strongest answers the highest role over grants and the first moment it may change.
func strongest(grants []grant) (wire.Role, *time.Time) {
	role := wire.RoleNone
	var until *time.Time
	for _, g := range grants {
		if g.role.Rank() > role.Rank() {
			role = g.role
		}
		if g.expires != nil && (until == nil || g.expires.Before(*until)) {
			until = g.expires
		}
	}
	return role, until
}

// matching is the condition under which a share called h counts for user $1 at the moment $2, apart
// from links.
const matching = `(h.expires_at IS NULL OR h.expires_at > $2)
	AND ((h.principal_type = 'user' AND h.principal_id = $1)
	  OR (h.principal_type = 'org' AND h.principal_id IN (SELECT org_id FROM org_members WHERE user_id = $1)))`

// accessOf computes a caller's role: owner, else the strongest of the shares that match (section 3).
func accessOf(tx storage.Tx, by Caller, sess *record) (Access, error) {
	if by.UserID == sess.OwnerUserID {
		return Access{Role: wire.RoleOwner, Version: sess.accessVersion}, nil
	}
	var grants []grant
	err := tx.Query(`SELECT h.role, h.expires_at FROM session_shares h WHERE h.session_id = $3 AND (`+matching+`
		OR (h.principal_type = 'link' AND h.token_hash = $4 AND (h.expires_at IS NULL OR h.expires_at > $2)))`,
		[]any{by.UserID, tx.Now(), sess.ID, by.LinkHash}, func(row storage.Row) error {
			var g grant
			var role string
			if err := row.Scan(&role, &g.expires); err != nil {
				return err
			}
			g.role = wire.Role(role)
			grants = append(grants, g)
			return nil
		})
	role, until := strongest(grants)
	return Access{Role: role, Until: until, Version: sess.accessVersion}, err
}
