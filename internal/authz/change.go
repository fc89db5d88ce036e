package authz

import (
	"context"
	"fmt"
	"slices"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Service changes permissions. Make it with New; it is safe for concurrent use.
type Service struct {
	db  storage.DB
	log *eventlog.Log
	env *env.Env
}

// New makes the service.
func New(db storage.DB, log *eventlog.Log, e *env.Env) *Service {
	return &Service{db: db, log: log, env: e}
}

// Plan is a permission change.
type Plan struct {
	// Actor is who changes; the zero value is the server itself.
	Actor       wire.Actor
	Correlation string
	// Affected answers the principals whose permissions may differ afterwards. It runs after the permission
	// version was locked, so that what it reads stays true, and before Change. It may refuse: nothing is
	// written yet.
	Affected func(tx storage.Tx) ([]string, error)
	// Change makes the change; further events and audit rows are its own. It may refuse before it writes.
	Change func(tx storage.Tx) error
}

// Change carries out a permission change (WS-AZ-6): alone in its transaction, under the permission version,
// which grows by one; with one access.changed for each affected principal whose visible targets or levels
// differ. A change that would leave the instance without an owner is last_owner (WS-AZ-3). keys are further
// rows to lock.
func (s *Service) Change(ctx context.Context, plan Plan, keys ...storage.Key) error {
	keys = append(keys, storage.ChangePermissions)
	return s.db.Write(ctx, keys, func(tx storage.Tx) error { return s.ChangeIn(tx, plan) })
}

// ChangeIn is Change within a transaction that holds storage.ChangePermissions.
func (s *Service) ChangeIn(tx storage.Tx, plan Plan) error {
	affected, err := plan.Affected(tx)
	if err != nil {
		return err
	}
	slices.Sort(affected)
	affected = slices.Compact(affected)
	if err := lockPrincipals(tx, affected); err != nil {
		return err
	}
	before, err := visibleToEach(tx, affected)
	if err != nil {
		return err
	}
	if err := plan.Change(tx); err != nil {
		return err
	}
	if err := requireOwner(tx); err != nil {
		return err
	}
	var version int64
	_, err = tx.Get(`UPDATE sequence_counters SET value = value + 1 WHERE name = 'permission_version' RETURNING value`, nil, &version)
	if err != nil {
		return fmt.Errorf("raise permission version: %w", err)
	}
	after, err := visibleToEach(tx, affected)
	if err != nil {
		return err
	}
	return s.tell(tx, plan, version, affected, before, after)
}

// lockPrincipals waits for the writes that were authorised before, and keeps new ones waiting (LockPrincipals).
func lockPrincipals(tx storage.Tx, ids []string) error {
	err := tx.Query(`SELECT id FROM principals WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE`, []any{ids}, func(storage.Row) error { return nil })
	if err != nil {
		return fmt.Errorf("lock principals: %w", err)
	}
	return nil
}

func visibleToEach(tx storage.Tx, ids []string) (map[string][]wire.Access, error) {
	all := make(map[string][]wire.Access, len(ids))
	for _, id := range ids {
		snapshot, found, err := Load(tx, id)
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		if all[id], err = Visible(tx, snapshot); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// tell writes access.changed for whoever has a difference.
func (s *Service) tell(tx storage.Tx, plan Plan, version int64, ids []string, before, after map[string][]wire.Access) error {
	for _, id := range ids {
		change, differs := Difference(before[id], after[id])
		if !differs {
			continue
		}
		change.PermissionVersion = version
		err := s.log.Emit(tx, eventlog.Event{
			Type: eventlog.AccessChanged, Actor: plan.Actor, ResourceID: id, Audience: id, Payload: change, CorrelationID: plan.Correlation,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Difference answers what changed between two lists of visible targets, and whether anything did.
func Difference(before, after []wire.Access) (wire.AccessChanged, bool) {
	var change wire.AccessChanged
	old := make(map[wire.Target]wire.Access, len(before))
	for _, access := range before {
		old[wire.Target{Kind: access.Kind, ID: access.ID}] = access
	}
	for _, access := range after {
		target := wire.Target{Kind: access.Kind, ID: access.ID}
		was, seen := old[target]
		delete(old, target)
		switch {
		case !seen:
			change.Added = append(change.Added, access)
		case was.Level != access.Level:
			access.PreviousLevel = was.Level
			change.Changed = append(change.Changed, access)
		}
	}
	for _, access := range before {
		if _, gone := old[wire.Target{Kind: access.Kind, ID: access.ID}]; gone {
			change.Removed = append(change.Removed, wire.Access{Kind: access.Kind, ID: access.ID, Capabilities: access.Capabilities})
		}
	}
	return change, len(change.Added)+len(change.Changed)+len(change.Removed) > 0
}

// requireOwner keeps invariant I1: an active person with a direct, unexpiring owner grant on the instance. An
// instance without any person has no owner yet.
func requireOwner(tx storage.Tx) error {
	var people, owners int
	_, err := tx.Get(
		`SELECT (SELECT count(*) FROM principals WHERE kind = 'user' AND source IS NULL),
		        (SELECT count(*) FROM grants g JOIN principals p ON p.id = g.subject_id
		          WHERE g.subject_kind = 'principal' AND g.target_kind = 'instance' AND g.level = 'owner' AND g.revoked_at IS NULL
		            AND g.expires_at IS NULL AND p.kind = 'user' AND p.status = 'active')`, nil, &people, &owners)
	if err != nil {
		return fmt.Errorf("count owners: %w", err)
	}
	if people > 0 && owners == 0 {
		return fault.New(code.LastOwner, "The instance needs an active person who owns it.")
	}
	return nil
}
