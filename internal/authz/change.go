package authz

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/idempotency"
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
	// Affected answers the principals whose permissions may differ afterwards; more than those do no harm. It
	// runs after the permission version was locked, so that what it reads stays true, and before Change. It
	// may refuse: nothing is written yet. ErrUnchanged ends the change without a trace.
	Affected func(tx storage.Tx) ([]string, error)
	// Change makes the change; further events and audit rows are its own. It may refuse before it writes.
	Change func(tx storage.Tx) error
}

// ErrUnchanged is what Plan.Affected answers when there is nothing to change after all, as for a repeated request.
var ErrUnchanged = errors.New("nothing to change")

// Change carries out a permission change (WS-AZ-6): alone in its transaction, under the permission version,
// which grows by one; with one access.changed for each affected principal whose visible targets or levels
// differ, or end at another time: whoever decides by what it has read of a principal reads it anew then. A
// change that would leave the instance without an owner is last_owner (WS-AZ-3). keys are further rows to
// lock; they are locked before Affected when they come before the principals, else after it.
func (s *Service) Change(ctx context.Context, plan Plan, keys ...storage.Key) error {
	first := []storage.Key{storage.ChangePermissions}
	var rest []storage.Key
	for _, key := range keys {
		if key.Lock.Rank < storage.LockPrincipals.Rank {
			first = append(first, key)
		} else {
			rest = append(rest, key)
		}
	}
	return s.db.Write(ctx, first, func(tx storage.Tx) error { return s.ChangeIn(tx, plan, rest...) })
}

// ChangeOnce is Change for a request that may be a repeat (ES-5.2): the caller is authorised in affected,
// which answers the principals whose permissions may differ; a repeated request is answered what it was
// answered then, and changes nothing. Look at by.Key.Replayed to tell.
func ChangeOnce[T any](
	ctx context.Context, s *Service, by Caller, affected func(storage.Tx) ([]string, error), change func(storage.Tx) (T, error), keys ...storage.Key,
) (T, error) {
	var answer T
	err := s.Change(ctx, Plan{
		Actor: by.Actor(), Correlation: by.Correlation,
		Affected: func(tx storage.Tx) ([]string, error) {
			ids, err := affected(tx)
			if err != nil {
				return nil, err
			}
			stored, found, err := idempotency.Recall[T](tx, by.Key)
			if found {
				answer, err = stored, ErrUnchanged
			}
			return ids, err
		},
		Change: func(tx storage.Tx) error {
			made, err := change(tx)
			if err != nil {
				return err
			}
			answer = made
			return idempotency.Remember(tx, by.Key, made)
		},
	}, keys...)
	if err != nil {
		var none T
		return none, err
	}
	return answer, nil
}

// ChangeIn is Change within a transaction that holds storage.ChangePermissions. Grants and memberships that
// have ended are ended in the log first: whatever the change adds to, it adds to what everybody was told.
func (s *Service) ChangeIn(tx storage.Tx, plan Plan, keys ...storage.Key) error {
	affected, err := plan.affected(tx)
	if errors.Is(err, ErrUnchanged) {
		return nil
	}
	if err != nil {
		return err
	}
	ended, err := readEnded(tx)
	if err != nil {
		return err
	}
	if plan.Change == nil && ended.none() {
		return nil
	}
	affected = distinct(append(affected, ended.principals...))
	if err := lockRows(tx, affected, keys); err != nil {
		return err
	}
	before, err := told(tx, affected)
	if err != nil {
		return err
	}
	if err := s.end(tx, ended); err != nil {
		return err
	}
	// What has ended is told by itself: what happened until the change gives it back was not for its principals.
	between := before
	if !ended.none() {
		if between, err = told(tx, affected); err != nil {
			return err
		}
	}
	if err := plan.change(tx); err != nil {
		return err
	}
	if plan.Change != nil {
		if err := requireOwner(tx); err != nil {
			return err
		}
	}
	version, err := raise(tx)
	if err != nil {
		return err
	}
	after, err := told(tx, affected)
	if err != nil {
		return err
	}
	if !ended.none() {
		if err := s.tell(tx, Plan{}, version, affected, before, between); err != nil {
			return err
		}
	}
	return s.tell(tx, plan, version, affected, between, after)
}

func (p Plan) affected(tx storage.Tx) ([]string, error) {
	if p.Affected == nil {
		return nil, nil
	}
	return p.Affected(tx)
}

func (p Plan) change(tx storage.Tx) error {
	if p.Change == nil {
		return nil
	}
	return p.Change(tx)
}

// Raise raises the permission version for what it stands for besides grants: whether the sign-ins and API tokens of
// principals are good (ES-8.2). It waits for the writes of these principals that were authorised before. The caller
// holds storage.ChangePermissions.
func Raise(tx storage.Tx, principals ...string) error {
	if err := lockRows(tx, distinct(principals), nil); err != nil {
		return err
	}
	_, err := raise(tx)
	return err
}

func raise(tx storage.Tx) (version int64, err error) {
	_, err = tx.Get(`UPDATE sequence_counters SET value = value + 1 WHERE name = 'permission_version' RETURNING value`, nil, &version)
	if err != nil {
		return 0, fmt.Errorf("raise permission version: %w", err)
	}
	return version, nil
}

// lockRows waits for the writes that were authorised before, and keeps new ones waiting (LockPrincipals),
// then locks what comes after the principals, in the one order of all locks.
func lockRows(tx storage.Tx, principals []string, keys []storage.Key) error {
	none := func(storage.Row) error { return nil }
	if len(principals) == 0 && len(keys) == 0 {
		return nil
	}
	err := tx.Query(`SELECT id FROM principals WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE`, []any{principals}, none)
	if err != nil {
		return fmt.Errorf("lock principals: %w", err)
	}
	slices.SortFunc(keys, func(a, b storage.Key) int {
		return cmp.Or(cmp.Compare(a.Lock.Rank, b.Lock.Rank), cmp.Compare(a.ID, b.ID))
	})
	for _, key := range keys {
		if err := tx.Query(key.Lock.Query, []any{[]string{key.ID}}, none); err != nil {
			return fmt.Errorf("lock what changes: %w", err)
		}
	}
	return nil
}

// view is what principals were told they see, at one moment of a change.
type view struct {
	snapshots map[string]*Snapshot
	places    structure
}

func told(tx storage.Tx, ids []string) (view, error) {
	if len(ids) == 0 {
		return view{}, nil
	}
	snapshots, err := asTold(tx, ids)
	if err != nil {
		return view{}, err
	}
	places, err := placesOf(tx, snapshots, untold)
	return view{snapshots: snapshots, places: places}, err
}

func (v view) of(id string) []wire.Access {
	if s := v.snapshots[id]; s != nil {
		return s.visible(v.places, untold)
	}
	return nil
}

// tell writes access.changed for whoever has a difference, or other ends.
func (s *Service) tell(tx storage.Tx, plan Plan, version int64, ids []string, before, after view) error {
	actor := plan.Actor
	if actor == (wire.Actor{}) {
		actor.Kind = wire.KindSystem
	}
	for _, id := range ids {
		change, differs := Difference(before.of(id), after.of(id))
		if !differs && before.snapshots[id].same(after.snapshots[id], tx.Now()) {
			continue
		}
		change.PermissionVersion = version
		payload, truncated := s.reduced(change)
		err := s.log.Emit(tx, eventlog.Event{
			Type: eventlog.AccessChanged, Actor: actor, ResourceID: id, Audience: id, Payload: payload, Truncated: truncated,
			CorrelationID: plan.Correlation,
		})
		if err != nil {
			return fmt.Errorf("tell what changed: %w", err)
		}
	}
	return nil
}

// reduced answers a change that fits into an event. Of one that does not, what was removed is kept as long as
// that fits; the rest is loaded by REST (ES-2.2).
func (s *Service) reduced(change wire.AccessChanged) (reduced wire.AccessChanged, truncated bool) {
	if s.log.Fits(change) {
		return change, false
	}
	reduced = wire.AccessChanged{PermissionVersion: change.PermissionVersion, Removed: change.Removed}
	if !s.log.Fits(reduced) {
		reduced.Removed = nil
	}
	return reduced, true
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

// ownsInstance matches a live, unexpiring owner grant of an active person on the instance.
const ownsInstance = `SELECT 1 FROM grants g JOIN principals p ON p.id = g.subject_id
		  WHERE g.target_kind = 'instance' AND g.target_id = '' AND g.subject_kind = 'principal' AND g.level = 'owner'
		    AND g.revoked_at IS NULL AND g.expires_at IS NULL AND p.kind = 'user' AND p.status = 'active'`

// requireOwner keeps invariant I1: an active person with a direct, unexpiring owner grant on the instance. An
// instance without any person has no owner yet.
func requireOwner(tx storage.Tx) error {
	var people, owned bool
	_, err := tx.Get(`SELECT EXISTS (SELECT 1 FROM principals WHERE kind = 'user' AND source IS NULL), EXISTS (`+ownsInstance+`)`, nil, &people, &owned)
	if err != nil {
		return fmt.Errorf("look for an owner: %w", err)
	}
	if people && !owned {
		return fault.New(code.LastOwner, "The instance needs an active person who owns it.")
	}
	return nil
}
