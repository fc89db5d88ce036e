package workspace

import (
	"context"
	"fmt"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/idempotency"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace/place"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// CreateSpace makes a space, which the caller then owns (WS-AZ-7). It is a permission change. What the server
// makes by itself belongs to who owns the instance.
func (s *Service) CreateSpace(ctx context.Context, by authz.Caller, in wire.NewSpace) (wire.Space, error) {
	if err := checkName("/name", in.Name, maxName); err != nil {
		return wire.Space{}, err
	}
	affected := func(tx storage.Tx) ([]string, error) {
		_, err := authz.Check(tx, by, action.SpaceCreate, authz.Resource{What: "Instance"})
		return makers(by), err
	}
	return authz.ChangeOnce(ctx, s.authz, by, affected, func(tx storage.Tx) (wire.Space, error) { return s.addSpace(tx, by, in.Name) })
}

// makers answers who owns what the caller makes.
func makers(by authz.Caller) []string {
	if by.Kind == wire.KindSystem {
		return nil
	}
	return []string{by.Principal}
}

func (s *Service) addSpace(tx storage.Tx, by authz.Caller, name string) (wire.Space, error) {
	space := wire.Space{ID: s.env.NewID(), Name: name, CreatedAt: tx.Now(), Version: 1}
	err := tx.Exec(`INSERT INTO spaces (id, name, created_at, version) VALUES ($1, $2, $3, 1)`, space.ID, name, space.CreatedAt)
	if err != nil {
		return space, fmt.Errorf("insert space: %w", err)
	}
	for _, owner := range makers(by) {
		if _, err := authz.Give(tx, s.env, by, owner, wire.Target{Kind: wire.TargetSpace, ID: space.ID}, wire.LevelOwner); err != nil {
			return space, err
		}
	}
	return space, s.tellSpace(tx, by, eventlog.SpaceCreated, auditSpaceCreate, space, nil)
}

// tellSpace emits an event of a space and writes down what was done.
func (s *Service) tellSpace(tx storage.Tx, by authz.Caller, kind, done string, space wire.Space, detail any) error {
	if err := s.audit(tx, by, done, "space", space.ID, detail); err != nil {
		return err
	}
	scope := wire.Scope{SpaceID: space.ID}
	return s.log.Emit(tx, event(by, kind, scope, space.ID, space.Version, wire.SpaceEvent{Space: space}))
}

// Spaces lists the spaces the caller sees, by id.
func (s *Service) Spaces(ctx context.Context, by authz.Caller, paging Paging) (wire.Page[wire.Space], error) {
	after, err := paging.AfterID()
	if err != nil {
		return wire.Page[wire.Space]{}, err
	}
	return storage.Read(ctx, s.db, func(tx storage.Tx) (wire.Page[wire.Space], error) {
		snapshot, err := authz.Check(tx, by, action.SelfRead, authz.Resource{What: "Space"})
		if err != nil {
			return wire.Page[wire.Space]{}, err
		}
		spaces, err := spacesBehind(tx, snapshot, after, int64(paging.Size())+1)
		return place.Page(spaces, paging.Size(), func(s wire.Space) string { return s.ID }), err
	})
}

// Space answers a space the caller sees.
func (s *Service) Space(ctx context.Context, by authz.Caller, id string) (wire.Space, error) {
	id, err := place.PathID("Space", id)
	if err != nil {
		return wire.Space{}, err
	}
	return storage.Read(ctx, s.db, func(tx storage.Tx) (wire.Space, error) {
		space, _, err := AuthorizedSpace(tx, by, action.SpaceRead, id)
		return space.Space, err
	})
}

// PatchSpace renames a space. ifMatch is honoured.
func (s *Service) PatchSpace(ctx context.Context, by authz.Caller, id string, ifMatch *int64, in wire.PatchSpace) (wire.Space, error) {
	if in.Name != nil {
		if err := checkName("/name", *in.Name, maxName); err != nil {
			return wire.Space{}, err
		}
	}
	id, err := place.PathID("Space", id)
	if err != nil {
		return wire.Space{}, err
	}
	keys := []storage.Key{by.Lock(), {Lock: storage.LockSpaces, ID: id}}
	return storage.Write(ctx, s.db, keys, func(tx storage.Tx) (wire.Space, error) {
		space, _, err := AuthorizedSpace(tx, by, action.SpaceManage, id)
		if err != nil {
			return wire.Space{}, err
		}
		return idempotency.Once(tx, by.Key, func() (wire.Space, error) {
			if err := place.RequireVersion(ifMatch, space.Version, space.Space); err != nil {
				return wire.Space{}, err
			}
			if in.Name == nil || *in.Name == space.Name {
				return space.Space, nil
			}
			return s.renameSpace(tx, by, space.Space, *in.Name)
		})
	})
}

func (s *Service) renameSpace(tx storage.Tx, by authz.Caller, space wire.Space, name string) (wire.Space, error) {
	space.Name = name
	space.Version++
	if err := tx.Exec(`UPDATE spaces SET name = $2, version = $3 WHERE id = $1`, space.ID, name, space.Version); err != nil {
		return wire.Space{}, fmt.Errorf("rename space: %w", err)
	}
	return space, s.tellSpace(tx, by, eventlog.SpaceUpdated, auditSpacePatch, space, map[string]string{"name": name})
}
