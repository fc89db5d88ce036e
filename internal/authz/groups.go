package authz

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/idempotency"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// The actions of the audit log.
const (
	auditGroupCreate  = "group:create"
	auditGroupRename  = "group:rename"
	auditGroupDelete  = "group:delete"
	auditMemberPut    = "group_member:put"
	auditMemberRemove = "group_member:remove"
)

const maxGroupName = 100

// CreateGroup makes a group without members. Its name is unique. The caller owns the instance.
func (s *Service) CreateGroup(ctx context.Context, by Caller, in wire.NewGroup) (wire.Group, error) {
	if err := checkGroupName(in.Name); err != nil {
		return wire.Group{}, err
	}
	return storage.Write(ctx, s.db, []storage.Key{by.Lock()}, func(tx storage.Tx) (wire.Group, error) {
		if _, err := Check(tx, by, action.GroupManage, Resource{}); err != nil {
			return wire.Group{}, err
		}
		return idempotency.Once(tx, by.Key, func() (wire.Group, error) {
			group := wire.Group{ID: s.env.NewID(), Name: in.Name, Members: []wire.GroupMember{}, Version: 1}
			if err := requireFreeName(tx, in.Name); err != nil {
				return wire.Group{}, err
			}
			changed, err := tx.Changed(`INSERT INTO principal_groups (id, name, created_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
				group.ID, group.Name, tx.Now())
			if err != nil {
				return wire.Group{}, fmt.Errorf("store group: %w", err)
			}
			if changed == 0 {
				return wire.Group{}, nameTaken()
			}
			return group, s.audit(tx, by, auditGroupCreate, "group", group.ID, map[string]string{"name": group.Name})
		})
	})
}

func checkGroupName(name string) error {
	switch {
	case strings.TrimSpace(name) == "":
		return fault.Invalid("/name", "it must not be blank")
	case utf8.RuneCountInString(name) > maxGroupName:
		return fault.Invalid("/name", "it may have %d characters", maxGroupName)
	case strings.ContainsFunc(name, unicode.IsControl), strings.TrimSpace(name) != name:
		return fault.Invalid("/name", "it must not hold control characters, nor begin or end with blanks")
	default:
		return nil
	}
}

func nameTaken() error { return fault.New(code.Conflict, "A group of this name exists.") }

func requireFreeName(tx storage.Tx, name string) error {
	var id string
	taken, err := tx.Get(`SELECT id FROM principal_groups WHERE name = $1`, []any{name}, &id)
	if err != nil {
		return fmt.Errorf("look for group name: %w", err)
	}
	if taken {
		return nameTaken()
	}
	return nil
}

// RenameGroup gives a group another name, when it still has the version ifMatch, if there is one. The caller
// owns the instance.
func (s *Service) RenameGroup(ctx context.Context, by Caller, id string, ifMatch *int64, name string) (wire.Group, error) {
	if err := checkGroupName(name); err != nil {
		return wire.Group{}, err
	}
	return storage.Write(ctx, s.db, []storage.Key{by.Lock()}, func(tx storage.Tx) (wire.Group, error) {
		group, err := s.managedGroup(tx, by, id)
		if err != nil {
			return wire.Group{}, err
		}
		return idempotency.Once(tx, by.Key, func() (wire.Group, error) {
			if ifMatch != nil && *ifMatch != group.Version {
				return wire.Group{}, fault.Stale(group)
			}
			if name == group.Name {
				return group, nil
			}
			if err := requireFreeName(tx, name); err != nil {
				return wire.Group{}, err
			}
			_, err := tx.Get(`UPDATE principal_groups SET name = $2, version = version + 1 WHERE id = $1 RETURNING version`,
				[]any{group.ID, name}, &group.Version)
			if err != nil {
				return wire.Group{}, fmt.Errorf("rename group: %w", err)
			}
			was := group.Name
			group.Name = name
			return group, s.audit(tx, by, auditGroupRename, "group", group.ID, map[string]string{"name": name, "was": was})
		})
	})
}

// managedGroup reads a group and demands that the caller may change it.
func (s *Service) managedGroup(tx storage.Tx, by Caller, id string) (wire.Group, error) {
	group, found := wire.Group{}, canonical(&id)
	if found {
		var err error
		if group, found, err = readGroup(tx, id); err != nil {
			return wire.Group{}, err
		}
	}
	if !found { // whoever may know that there are groups may know that this is none
		if _, err := Check(tx, by, action.GroupRead, Resource{}); err != nil {
			return wire.Group{}, err
		}
		return wire.Group{}, fault.Missing("Group")
	}
	_, err := Check(tx, by, action.GroupManage, Resource{})
	return group, err
}

// DeleteGroup removes a group with its memberships and revokes its grants. The caller owns the instance.
func (s *Service) DeleteGroup(ctx context.Context, by Caller, id string) error {
	var group wire.Group
	_, err := ChangeOnce(ctx, s, by, func(tx storage.Tx) ([]string, error) {
		var err error
		if group, err = s.managedGroup(tx, by, id); err != nil {
			return nil, err
		}
		return membersOf(tx, group.ID)
	}, func(tx storage.Tx) (struct{}, error) {
		err := errors.Join(
			tx.Exec(`UPDATE grants SET revoked_at = $2 WHERE subject_kind = 'group' AND subject_id = $1 AND revoked_at IS NULL`, group.ID, tx.Now()),
			tx.Exec(`DELETE FROM group_members WHERE group_id = $1`, group.ID),
			tx.Exec(`DELETE FROM principal_groups WHERE id = $1`, group.ID))
		if err != nil {
			return struct{}{}, fmt.Errorf("delete group: %w", err)
		}
		return struct{}{}, s.audit(tx, by, auditGroupDelete, "group", group.ID, map[string]string{"name": group.Name})
	})
	return err
}

// PutMember puts a principal into a group, until ExpiresAt if there is one; of one who is a member already
// it changes the end. The caller owns the instance.
func (s *Service) PutMember(ctx context.Context, by Caller, groupID, principalID string, in wire.PutMember) (wire.Group, error) {
	in.ExpiresAt = micros(in.ExpiresAt)
	return ChangeOnce(ctx, s, by, func(tx storage.Tx) ([]string, error) {
		group, err := s.managedGroup(tx, by, groupID)
		if err != nil {
			return nil, err
		}
		groupID = group.ID
		return []string{principalID}, requireMember(tx, by, &principalID)
	}, func(tx storage.Tx) (wire.Group, error) {
		if in.ExpiresAt != nil && !in.ExpiresAt.After(tx.Now()) {
			return wire.Group{}, fault.Invalid("/expires_at", "it must be in the future")
		}
		err := tx.Exec(
			`INSERT INTO group_members (group_id, principal_id, expires_at) VALUES ($1, $2, $3)
			 ON CONFLICT (group_id, principal_id) DO UPDATE SET expires_at = excluded.expires_at, noticed_at = NULL`,
			groupID, principalID, in.ExpiresAt)
		if err != nil {
			return wire.Group{}, fmt.Errorf("store group member: %w", err)
		}
		detail := map[string]any{"principal_id": principalID}
		if in.ExpiresAt != nil {
			detail["expires_at"] = in.ExpiresAt
		}
		return s.changedGroup(tx, by, auditMemberPut, groupID, detail)
	})
}

// requireMember demands that a principal of a path exists, and makes its id canonical.
func requireMember(tx storage.Tx, by Caller, principalID *string) error {
	seen := canonical(principalID)
	if seen {
		var err error
		if seen, err = SeesPrincipal(tx, by, *principalID); err != nil {
			return err
		}
	}
	if !seen {
		return fault.Missing("Principal")
	}
	return nil
}

// RemoveMember takes a principal out of a group; one who is not in it is no error. The caller owns the instance.
func (s *Service) RemoveMember(ctx context.Context, by Caller, groupID, principalID string) error {
	_, err := ChangeOnce(ctx, s, by, func(tx storage.Tx) ([]string, error) {
		group, err := s.managedGroup(tx, by, groupID)
		if err != nil {
			return nil, err
		}
		groupID = group.ID
		if err := requireMember(tx, by, &principalID); err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(group.Members, func(m wire.GroupMember) bool { return m.PrincipalID == principalID }) {
			return nil, ErrUnchanged
		}
		return []string{principalID}, nil
	}, func(tx storage.Tx) (struct{}, error) {
		if err := tx.Exec(`DELETE FROM group_members WHERE group_id = $1 AND principal_id = $2`, groupID, principalID); err != nil {
			return struct{}{}, fmt.Errorf("remove group member: %w", err)
		}
		_, err := s.changedGroup(tx, by, auditMemberRemove, groupID, map[string]any{"principal_id": principalID})
		return struct{}{}, err
	})
	return err
}

// changedGroup raises the version of a group whose members have changed, and answers it.
func (s *Service) changedGroup(tx storage.Tx, by Caller, act, id string, detail any) (wire.Group, error) {
	if err := tx.Exec(`UPDATE principal_groups SET version = version + 1 WHERE id = $1`, id); err != nil {
		return wire.Group{}, fmt.Errorf("raise version of group: %w", err)
	}
	group, _, err := readGroup(tx, id)
	if err != nil {
		return wire.Group{}, err
	}
	return group, s.audit(tx, by, act, "group", id, detail)
}
