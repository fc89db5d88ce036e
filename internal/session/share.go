package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// tokenBytes is the randomness of a link token: 43 base64url characters.
const tokenBytes = 32

// HashToken answers what is stored of a link token, and compared.
func HashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// NewShare is a request to give somebody a role. For users PrincipalID or Email says who.
type NewShare struct {
	PrincipalType wire.PrincipalType
	PrincipalID   string
	Email         string
	Role          wire.Role
	ExpiresAt     *time.Time
}

// Shares lists a session's shares, oldest first (SS-SHR-1).
func (s *Service) Shares(ctx context.Context, by Caller, ref string) ([]wire.Share, error) {
	return read(ctx, s, by, ref, wire.RoleOwner, func(tx storage.Tx, sess *record) ([]wire.Share, error) {
		shares := []wire.Share{}
		err := tx.Query(`SELECT `+shareColumns+` FROM session_shares h WHERE h.session_id = $1 ORDER BY h.created_at, h.id`,
			[]any{sess.ID}, func(row storage.Row) error {
				share, err := scanShare(row)
				shares = append(shares, share)
				return err
			})
		return shares, err
	})
}

const shareColumns = `h.id, h.session_id, h.principal_type, h.principal_id, h.role, h.token_hash IS NOT NULL, h.expires_at,
	h.created_by_user_id, h.created_at`

func scanShare(row storage.Row) (wire.Share, error) {
	var share wire.Share
	var principalType, role string
	var expires *time.Time
	err := row.Scan(&share.ID, &share.SessionID, &principalType, &share.PrincipalID, &role, &share.HasToken, &expires,
		&share.CreatedByUserID, &share.CreatedAt.Time)
	share.PrincipalType, share.Role = wire.PrincipalType(principalType), wire.Role(role)
	if expires != nil {
		share.ExpiresAt = &wire.Time{Time: *expires}
	}
	return share, err
}

// AddShare gives a role on the session (SS-SHR-1). A link's token is in the answer once; only its
// hash is stored.
func (s *Service) AddShare(ctx context.Context, by Caller, ref string, in NewShare) (wire.Share, error) {
	var more []storage.Key
	if in.PrincipalType == wire.PrincipalOrg {
		more = lockOrg(in.PrincipalID) // a membership that is being ended sees this share, or is seen
	}
	return write(ctx, s, by, ref, wire.RoleOwner, func(tx storage.Tx, sess *record) (wire.Share, error) {
		if in.ExpiresAt != nil && !in.ExpiresAt.After(tx.Now()) {
			return wire.Share{}, fault.BadField("expires_at", "must lie in the future")
		}
		share := wire.Share{
			ID: s.env.RandomID(), SessionID: sess.ID, PrincipalType: in.PrincipalType, Role: in.Role,
			CreatedByUserID: by.UserID, CreatedAt: wire.Time{Time: tx.Now()},
		}
		if in.ExpiresAt != nil {
			share.ExpiresAt = &wire.Time{Time: *in.ExpiresAt}
		}
		principal, err := sharePrincipal(tx, by, sess, in)
		if err != nil {
			return wire.Share{}, err
		}
		share.PrincipalID = principal
		var tokenHash *string
		if in.PrincipalType == wire.PrincipalLink {
			share.Token, share.HasToken = s.env.Token(tokenBytes), true
			hash := HashToken(share.Token)
			tokenHash = &hash
		}
		if err := tx.Exec(`INSERT INTO session_shares (id, session_id, principal_type, principal_id, token_hash, role, expires_at,
			created_by_user_id, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`, share.ID, share.SessionID, share.PrincipalType,
			principal, tokenHash, share.Role, in.ExpiresAt, by.UserID, tx.Now()); err != nil {
			return wire.Share{}, err
		}
		if err := bumpAccess(tx, sess); err != nil { // presence shows the new role
			return wire.Share{}, err
		}
		return share, s.audit(tx, by, sess, audit.ShareAdd, shareDetail(share))
	}, more...)
}

func shareDetail(share wire.Share) any {
	return struct {
		ShareID       string             `json:"share_id"`
		PrincipalType wire.PrincipalType `json:"principal_type"`
		PrincipalID   *string            `json:"principal_id"`
		Role          wire.Role          `json:"role"`
		ExpiresAt     *wire.Time         `json:"expires_at"`
	}{share.ID, share.PrincipalType, share.PrincipalID, share.Role, share.ExpiresAt}
}

// sharePrincipal checks whom a share is for: a user other than the owner, or an org of the caller's.
func sharePrincipal(tx storage.Tx, by Caller, sess *record, in NewShare) (*string, error) {
	switch in.PrincipalType {
	case wire.PrincipalLink:
		return nil, nil //nolint:nilnil // a link has no principal
	case wire.PrincipalOrg:
		if _, err := orgRole(tx, in.PrincipalID, by.UserID); err != nil {
			return nil, err
		}
		return &in.PrincipalID, nil
	default:
		field, userID := "principal_id", in.PrincipalID
		if in.Email != "" {
			field = "email"
		}
		userID, found, err := findUser(tx, userID, in.Email)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, fault.BadField(field, "no such user")
		}
		if userID == by.UserID || userID == sess.OwnerUserID {
			return nil, fault.BadField(field, "must be somebody else than you and the session's owner")
		}
		return &userID, nil
	}
}

func findUser(tx storage.Tx, userID, email string) (string, bool, error) {
	if email != "" {
		return identity.UserByEmail(tx, email)
	}
	found, err := identity.UserExists(tx, userID)
	return userID, found, err
}

// RemoveShare takes a share away, by the session's owner or by the user it was given to (SS-SHR-1).
// Whoever loses access receives no event that is committed after this (SS-ROLE-2).
func (s *Service) RemoveShare(ctx context.Context, by Caller, ref, shareID string) (string, error) {
	return write(ctx, s, by, ref, wire.RoleViewer, func(tx storage.Tx, sess *record) (string, error) {
		share, err := shareByID(tx, sess.ID, shareID)
		if err != nil {
			return "", err
		}
		recipient := share != nil && share.PrincipalType == wire.PrincipalUser && *share.PrincipalID == by.UserID
		if sess.role != wire.RoleOwner && !recipient {
			return "", notAMember(sess.role)
		}
		if share == nil {
			return "", fault.New(code.NotFound, "Share not found.")
		}
		if err := tx.Exec(`DELETE FROM session_shares WHERE id = $1`, share.ID); err != nil {
			return "", err
		}
		if err := bumpAccess(tx, sess); err != nil {
			return "", err
		}
		return share.ID, s.audit(tx, by, sess, audit.ShareRemove, shareDetail(*share))
	})
}

func shareByID(tx storage.Tx, sessionID, shareID string) (*wire.Share, error) {
	var found *wire.Share
	err := tx.Query(`SELECT `+shareColumns+` FROM session_shares h WHERE h.session_id = $1 AND h.id = $2`,
		[]any{sessionID, shareID}, func(row storage.Row) error {
			share, err := scanShare(row)
			found = &share
			return err
		})
	return found, err
}

// bumpAccess makes every connection compute its role anew before it delivers the next event.
func bumpAccess(tx storage.Tx, sess *record) error {
	sess.accessVersion++
	return tx.Exec(`UPDATE sessions SET access_version = $1 WHERE id = $2`, sess.accessVersion, sess.ID)
}
