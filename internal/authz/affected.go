package authz

import (
	"fmt"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// membersOf answers everybody in a group, also those whose membership has just ended.
func membersOf(tx storage.Tx, groupID string) ([]string, error) {
	return readIDs(tx, `SELECT principal_id FROM group_members WHERE group_id = $1 ORDER BY principal_id`, groupID)
}

// subjectPrincipals answers whom a subject stands for.
func subjectPrincipals(tx storage.Tx, subject wire.Subject) ([]string, error) {
	if subject.Kind == wire.SubjectGroup {
		return membersOf(tx, subject.ID)
	}
	return []string{subject.ID}, nil
}

// AffectedByArchive answers everybody whose level changes when a channel or a space is archived or
// unarchived: who has more than read on it, by a grant on it, above it or, for a space, on one of its
// channels, by a group, or as the operator (ES-8.2). It is for Plan.Affected.
func AffectedByArchive(tx storage.Tx, place Place) ([]string, error) {
	return readIDs(tx, `
WITH able AS (
    SELECT subject_kind, subject_id FROM grants
     WHERE revoked_at IS NULL AND level <> 'read'
       AND (target_kind = 'instance' OR target_kind = 'space' AND target_id = $1
            OR target_kind = 'channel' AND (target_id = $2 OR $2 = '' AND target_id IN (SELECT id FROM channels WHERE space_id = $1))))
SELECT subject_id FROM able WHERE subject_kind = 'principal'
UNION SELECT m.principal_id FROM able a JOIN group_members m ON m.group_id = a.subject_id WHERE a.subject_kind = 'group'
UNION SELECT operator_agent_id FROM spaces WHERE id = $1 AND operator_agent_id IS NOT NULL`,
		place.SpaceID, place.ChannelID)
}

func readIDs(tx storage.Tx, query string, args ...any) ([]string, error) {
	var ids []string
	err := tx.Query(query, args, func(row storage.Row) error {
		var id string
		err := row.Scan(&id)
		ids = append(ids, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find affected principals: %w", err)
	}
	return ids, nil
}

// FirstOwner makes a person the owner of an instance that nobody owns, and answers whether it did (WS-AZ-3).
// It belongs into the Change of a permission change that adds the person and has it among its affected.
func FirstOwner(tx storage.Tx, e *env.Env, principalID string) (bool, error) {
	var owned bool
	if _, err := tx.Get(`SELECT EXISTS (`+ownsInstance+`)`, nil, &owned); err != nil {
		return false, fmt.Errorf("look for an owner: %w", err)
	}
	if owned {
		return false, nil
	}
	err := insertGrant(tx, principalID, wire.Grant{
		ID: e.NewID(), Subject: wire.Subject{Kind: wire.SubjectPrincipal, ID: principalID},
		Target: wire.Target{Kind: wire.TargetInstance}, Level: wire.LevelOwner, CreatedAt: tx.Now(),
	})
	return err == nil, err
}

// Give makes a grant of the server's own accord, such as that of a space to who makes it. It belongs into the
// Change of a permission change that has the subject among its affected.
func Give(tx storage.Tx, e *env.Env, by Caller, principalID string, target wire.Target, level wire.Level) (wire.Grant, error) {
	grant := wire.Grant{
		ID: e.NewID(), Subject: wire.Subject{Kind: wire.SubjectPrincipal, ID: principalID}, Target: target, Level: level, CreatedAt: tx.Now(),
	}
	return grant, insertGrant(tx, by.AuditID(), grant)
}

func insertGrant(tx storage.Tx, createdBy string, g wire.Grant) error {
	capabilities, level := any(nil), any(nil)
	if len(g.Capabilities) > 0 {
		capabilities = terminalOnly
	}
	if g.Level != wire.LevelNone {
		level = g.Level
	}
	err := tx.Exec(
		`INSERT INTO grants (id, subject_kind, subject_id, target_kind, target_id, level, capabilities, created_by, created_at, expires_at)
		 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		g.ID, g.Subject.Kind, g.Subject.ID, g.Target.Kind, g.Target.ID, level, capabilities, createdBy, g.CreatedAt, g.ExpiresAt)
	if err != nil {
		return fmt.Errorf("store grant: %w", err)
	}
	return nil
}

// terminalOnly is the one list of capabilities there is.
const terminalOnly = `["terminal"]`
