package authz

import (
	"context"
	"fmt"
	"slices"

	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Group answers a group with those of its members whom the caller sees.
func (s *Service) Group(ctx context.Context, by Caller, id string) (wire.Group, error) {
	if !canonical(&id) {
		return wire.Group{}, fault.Missing("Group")
	}
	groups, err := s.groups(ctx, by, `WHERE id = $1`, id)
	if err == nil && len(groups) == 0 {
		err = fault.Missing("Group")
	}
	if err != nil {
		return wire.Group{}, err
	}
	return groups[0], nil
}

// ListGroups answers groups in the order of their ids, with those of their members whom the caller sees, from
// behind the one with the id after, at most limit (MaxPage; 0 is MaxPage), and whether there are more.
func (s *Service) ListGroups(ctx context.Context, by Caller, after string, limit int) (groups []wire.Group, more bool, err error) {
	limit = pageLimit(limit)
	groups, err = s.groups(ctx, by, `WHERE id > $1 ORDER BY id LIMIT $2`, after, limit+1)
	if len(groups) > limit {
		groups, more = groups[:limit], true
	}
	return groups, more, err
}

func pageLimit(limit int) int {
	if limit <= 0 || limit > MaxPage {
		return MaxPage
	}
	return limit
}

// groups answers the groups of a condition as the caller sees them.
func (s *Service) groups(ctx context.Context, by Caller, condition string, args ...any) ([]wire.Group, error) {
	return storage.Read(ctx, s.db, func(tx storage.Tx) ([]wire.Group, error) {
		snapshot, err := Check(tx, by, action.GroupRead, Resource{})
		if err != nil {
			return nil, err
		}
		groups, err := readGroups(tx, condition, args...)
		if err != nil || snapshot.system || snapshot.SeesEverything(tx.Now()) {
			return groups, err
		}
		return groups, hideStrangers(tx, snapshot, groups)
	})
}

// hideStrangers takes the members out of groups whom the principal of a snapshot does not see.
func hideStrangers(tx storage.Tx, s *Snapshot, groups []wire.Group) error {
	var ids []string
	for _, group := range groups {
		for _, member := range group.Members {
			ids = append(ids, member.PrincipalID)
		}
	}
	members, err := LoadMany(tx, distinct(ids))
	if err != nil {
		return err
	}
	for i := range groups {
		groups[i].Members = slices.DeleteFunc(groups[i].Members, func(m wire.GroupMember) bool {
			return members[m.PrincipalID] == nil || !Share(s, members[m.PrincipalID], tx.Now())
		})
	}
	return nil
}

// readGroup reads a group with all its members, and whether there is one.
func readGroup(tx storage.Tx, id string) (wire.Group, bool, error) {
	groups, err := readGroups(tx, `WHERE id = $1`, id)
	if err != nil || len(groups) == 0 {
		return wire.Group{}, false, err
	}
	return groups[0], true, nil
}

func readGroups(tx storage.Tx, condition string, args ...any) ([]wire.Group, error) {
	groups := []wire.Group{}
	places := map[string]int{}
	var ids []string
	err := tx.Query(`SELECT id, name, version FROM principal_groups `+condition, args, func(row storage.Row) error {
		group := wire.Group{Members: []wire.GroupMember{}}
		err := row.Scan(&group.ID, &group.Name, &group.Version)
		places[group.ID] = len(groups)
		ids = append(ids, group.ID)
		groups = append(groups, group)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read groups: %w", err)
	}
	err = tx.Query(
		`SELECT group_id, principal_id, expires_at FROM group_members
		  WHERE group_id = ANY($1) AND (expires_at IS NULL OR expires_at > $2) ORDER BY group_id, principal_id`,
		[]any{ids, tx.Now()}, func(row storage.Row) error {
			var group string
			var member wire.GroupMember
			err := row.Scan(&group, &member.PrincipalID, &member.ExpiresAt)
			members := &groups[places[group]].Members
			*members = append(*members, member)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("read group members: %w", err)
	}
	return groups, nil
}
