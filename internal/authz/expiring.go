package authz

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// maxAnnounced is how many grants, and how many memberships, one transaction announces the end of.
const maxAnnounced = 200

// ending is what ends soon and was not announced yet.
type ending struct {
	grants  []wire.Grant
	members []endingMember
}

type endingMember struct {
	membership

	ends time.Time
}

// announce tells to whom grants and memberships belong that end within notice, once for each end.
func (s *Service) announce(ctx context.Context, notice time.Duration) error {
	for {
		due, err := storage.Read(ctx, s.db, func(tx storage.Tx) (ending, error) { return readEnding(tx, notice) })
		if err != nil {
			return fmt.Errorf("look for what will end: %w", err)
		}
		if len(due.grants)+len(due.members) == 0 {
			return nil
		}
		// Under the permission version, so that no node announces the same and nothing is revoked meanwhile.
		err = s.db.Write(ctx, []storage.Key{storage.ChangePermissions}, func(tx storage.Tx) error { return s.announceIn(tx, notice) })
		if err != nil {
			return fmt.Errorf("announce what will end: %w", err)
		}
	}
}

func readEnding(tx storage.Tx, notice time.Duration) (ending, error) {
	const soon = ` expires_at > $1 AND expires_at <= $2 AND (noticed_at IS NULL OR noticed_at <> expires_at)`
	var e ending
	var err error
	now, until := tx.Now(), tx.Now().Add(notice)
	e.grants, err = queryGrants(tx, ` WHERE revoked_at IS NULL AND`+soon+` ORDER BY expires_at, id LIMIT $3`, now, until, maxAnnounced)
	if err != nil {
		return ending{}, err
	}
	err = tx.Query(`SELECT group_id, principal_id, expires_at FROM group_members WHERE`+soon+` ORDER BY expires_at, group_id, principal_id LIMIT $3`,
		[]any{now, until, maxAnnounced}, func(row storage.Row) error {
			var m endingMember
			err := row.Scan(&m.group, &m.principal, &m.ends)
			e.members = append(e.members, m)
			return err
		})
	if err != nil {
		return ending{}, fmt.Errorf("find ending memberships: %w", err)
	}
	return e, nil
}

// whoAndWhen is what one announcement is about.
type whoAndWhen struct {
	principal string
	ends      int64 // microseconds
}

func (s *Service) announceIn(tx storage.Tx, notice time.Duration) error {
	due, err := readEnding(tx, notice)
	if err != nil {
		return err
	}
	targets := map[whoAndWhen][]wire.Access{}
	for _, grant := range due.grants {
		principals, err := subjectPrincipals(tx, grant.Subject)
		if err != nil {
			return err
		}
		for _, principal := range principals {
			key := whoAndWhen{principal, grant.ExpiresAt.UnixMicro()}
			targets[key] = append(targets[key], accessOf(grant))
		}
		if err := tx.Exec(`UPDATE grants SET noticed_at = expires_at WHERE id = $1`, grant.ID); err != nil {
			return fmt.Errorf("note that an end was announced: %w", err)
		}
	}
	for _, m := range due.members {
		grants, err := queryGrants(tx,
			` WHERE subject_kind = 'group' AND subject_id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2) ORDER BY id`, m.group, tx.Now())
		if err != nil {
			return err
		}
		for _, grant := range grants {
			key := whoAndWhen{m.principal, m.ends.UnixMicro()}
			targets[key] = append(targets[key], accessOf(grant))
		}
		err = tx.Exec(`UPDATE group_members SET noticed_at = expires_at WHERE group_id = $1 AND principal_id = $2`, m.group, m.principal)
		if err != nil {
			return fmt.Errorf("note that an end was announced: %w", err)
		}
	}
	return s.tellEnds(tx, targets)
}

func (s *Service) tellEnds(tx storage.Tx, targets map[whoAndWhen][]wire.Access) error {
	keys := slices.SortedFunc(maps.Keys(targets), func(a, b whoAndWhen) int {
		return cmp.Or(cmp.Compare(a.principal, b.principal), cmp.Compare(a.ends, b.ends))
	})
	for _, key := range keys {
		payload := wire.AccessExpiring{Targets: targets[key], ExpiresAt: time.UnixMicro(key.ends).UTC()}
		truncated := !s.log.Fits(payload)
		if truncated {
			payload.Targets = []wire.Access{}
		}
		err := s.log.Emit(tx, eventlog.Event{
			Type: eventlog.AccessExpiring, Actor: System().Actor(), ResourceID: key.principal, Audience: key.principal,
			Payload: payload, Truncated: truncated,
		})
		if err != nil {
			return fmt.Errorf("announce an end: %w", err)
		}
	}
	return nil
}

func accessOf(g wire.Grant) wire.Access {
	return wire.Access{Kind: g.Target.Kind, ID: g.Target.ID, Level: g.Level, Capabilities: g.Capabilities}
}
