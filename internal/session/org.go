package session

import (
	"context"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// CreateOrg makes an organisation that the caller owns (SS-ORG-1).
func (s *Service) CreateOrg(ctx context.Context, by Caller, name string) (wire.Org, error) {
	return storage.Write(ctx, s.db, nil, func(tx storage.Tx) (wire.Org, error) {
		org := wire.Org{ID: s.env.RandomID(), Name: name, OwnerUserID: by.UserID, CreatedAt: wire.Time{Time: tx.Now()}, Role: wire.OrgOwner}
		if err := tx.Exec(`INSERT INTO orgs (id, name, owner_user_id, created_at) VALUES ($1, $2, $3, $4)`,
			org.ID, name, by.UserID, tx.Now()); err != nil {
			return wire.Org{}, err
		}
		if err := putMember(tx, org.ID, by.UserID, wire.OrgOwner); err != nil {
			return wire.Org{}, err
		}
		return org, s.auditOrg(tx, by, org.ID, audit.OrgCreate, map[string]string{"name": name})
	})
}

// Orgs lists the caller's organisations in the order of joining.
func (s *Service) Orgs(ctx context.Context, by Caller) ([]wire.Org, error) {
	return storage.Read(ctx, s.db, func(tx storage.Tx) ([]wire.Org, error) {
		orgs := []wire.Org{}
		err := tx.Query(`SELECT o.id, o.name, o.owner_user_id, o.created_at, m.role FROM org_members m JOIN orgs o ON o.id = m.org_id
			WHERE m.user_id = $1 ORDER BY m.created_at, o.id`, []any{by.UserID}, func(row storage.Row) error {
			var org wire.Org
			var role string
			err := row.Scan(&org.ID, &org.Name, &org.OwnerUserID, &org.CreatedAt.Time, &role)
			org.Role = wire.OrgRole(role)
			orgs = append(orgs, org)
			return err
		})
		return orgs, err
	})
}

// Members lists an organisation's members in the order of joining, for a member.
func (s *Service) Members(ctx context.Context, by Caller, orgID string) ([]wire.Membership, error) {
	return storage.Read(ctx, s.db, func(tx storage.Tx) ([]wire.Membership, error) {
		if _, err := orgRole(tx, orgID, by.UserID); err != nil {
			return nil, err
		}
		list := []wire.Membership{}
		err := tx.Query(`SELECT m.user_id, u.email, m.role, m.created_at FROM org_members m JOIN users u ON u.id = m.user_id
			WHERE m.org_id = $1 ORDER BY m.created_at, m.user_id`, []any{orgID}, func(row storage.Row) error {
			var member wire.Membership
			var role string
			err := row.Scan(&member.UserID, &member.Email, &role, &member.CreatedAt.Time)
			member.Role = wire.OrgRole(role)
			list = append(list, member)
			return err
		})
		return list, err
	})
}

// NewMember says who joins an organisation; UserID or Email names them.
type NewMember struct {
	UserID string
	Email  string
	Role   wire.OrgRole
}

// AddMember lets a user join, or changes a member's role (SS-ORG-1): by an owner or admin of the
// org; only its owner grants owner, and the owner's own role stays.
func (s *Service) AddMember(ctx context.Context, by Caller, orgID string, in NewMember) (wire.Membership, error) {
	return storage.Write(ctx, s.db, lockOrg(orgID), func(tx storage.Tx) (wire.Membership, error) {
		owner, err := s.manage(tx, by, orgID)
		if err != nil {
			return wire.Membership{}, err
		}
		if in.Role == wire.OrgOwner && by.UserID != owner {
			return wire.Membership{}, fault.New(code.Forbidden, "Only the organisation's owner grants the role owner.")
		}
		userID, found, err := findUser(tx, in.UserID, in.Email)
		if err != nil {
			return wire.Membership{}, err
		}
		if !found {
			return wire.Membership{}, fault.New(code.NotFound, "User not found.")
		}
		if userID == owner && in.Role != wire.OrgOwner {
			return wire.Membership{}, fault.New(code.Forbidden, "The organisation's owner stays its owner.")
		}
		if err := putMember(tx, orgID, userID, in.Role); err != nil {
			return wire.Membership{}, err
		}
		if err := s.bumpOrgSessions(tx, orgID); err != nil { // presence shows the new role
			return wire.Membership{}, err
		}
		detail := map[string]string{"user_id": userID, "role": string(in.Role)}
		return wire.Membership{UserID: userID, Role: in.Role}, s.auditOrg(tx, by, orgID, audit.OrgMemberAdd, detail)
	})
}

// RemoveMember ends a membership, by an owner or admin of the org; its owner cannot be removed. The
// member loses the org's sessions at once (SS-ROLE-2).
func (s *Service) RemoveMember(ctx context.Context, by Caller, orgID, userID string) error {
	return s.db.Write(ctx, lockOrg(orgID), func(tx storage.Tx) error {
		owner, err := s.manage(tx, by, orgID)
		if err != nil {
			return err
		}
		if userID == owner {
			return fault.New(code.Forbidden, "The organisation's owner cannot be removed.")
		}
		member, err := tx.Get(`SELECT user_id FROM org_members WHERE org_id = $1 AND user_id = $2`, []any{orgID, userID}, new(string))
		if err != nil {
			return err
		}
		if !member {
			return fault.New(code.NotFound, "Member not found.")
		}
		if err := tx.Exec(`DELETE FROM org_members WHERE org_id = $1 AND user_id = $2`, orgID, userID); err != nil {
			return err
		}
		if err := s.bumpOrgSessions(tx, orgID); err != nil {
			return err
		}
		return s.auditOrg(tx, by, orgID, audit.OrgMemberRemove, map[string]string{"user_id": userID})
	})
}

// bumpOrgSessions makes connections of every session shared with the org compute their role anew.
func (s *Service) bumpOrgSessions(tx storage.Tx, orgID string) error {
	var sessions []string
	err := tx.Query(`SELECT id FROM sessions WHERE id IN (
			SELECT session_id FROM session_shares WHERE principal_type = 'org' AND principal_id = $1)
		ORDER BY id FOR NO KEY UPDATE`, []any{orgID}, func(row storage.Row) error {
		var id string
		err := row.Scan(&id)
		sessions = append(sessions, id)
		return err
	})
	if err != nil || len(sessions) == 0 {
		return err
	}
	tx.AfterCommit(func() {
		for _, id := range sessions {
			s.bus.Publish(signal.Wake{Topic: signal.Session, ID: id})
		}
	})
	return tx.Exec(`UPDATE sessions SET access_version = access_version + 1 WHERE id = ANY($1)`, sessions)
}

// manage refuses a caller who may not change the org's members, and answers the org's owner.
func (s *Service) manage(tx storage.Tx, by Caller, orgID string) (string, error) {
	role, err := orgRole(tx, orgID, by.UserID)
	if err != nil {
		return "", err
	}
	if role != wire.OrgOwner && role != wire.OrgAdmin {
		return "", fault.New(code.Forbidden, "Only an owner or admin of the organisation changes its members.")
	}
	var owner string
	_, err = tx.Get(`SELECT owner_user_id FROM orgs WHERE id = $1`, []any{orgID}, &owner)
	return owner, err
}

// orgRole answers a member's role; an unknown org is 404, a stranger 403.
func orgRole(tx storage.Tx, orgID, userID string) (wire.OrgRole, error) {
	var role *string
	found, err := tx.Get(`SELECT m.role FROM orgs o LEFT JOIN org_members m ON m.org_id = o.id AND m.user_id = $2 WHERE o.id = $1`,
		[]any{orgID, userID}, &role)
	switch {
	case err != nil:
		return "", err
	case !found:
		return "", fault.New(code.NotFound, "Organisation not found.")
	case role == nil:
		return "", fault.New(code.Forbidden, "You are not a member of this organisation.")
	default:
		return wire.OrgRole(*role), nil
	}
}

func putMember(tx storage.Tx, orgID, userID string, role wire.OrgRole) error {
	return tx.Exec(`INSERT INTO org_members (org_id, user_id, role, created_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (org_id, user_id) DO UPDATE SET role = excluded.role`, orgID, userID, role, tx.Now())
}

func lockOrg(orgID string) []storage.Key { return []storage.Key{{Lock: storage.LockOrgs, ID: orgID}} }

func (s *Service) auditOrg(tx storage.Tx, by Caller, orgID, action string, detail any) error {
	return audit.Write(tx, s.env, audit.Entry{UserID: by.UserID, DeviceID: by.DeviceID, Action: action, OrgID: orgID, Detail: detail})
}
