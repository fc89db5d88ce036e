package identity

import (
	"context"
	"fmt"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// addPerson adds a user with its principal, in a transaction that holds storage.ChangePermissions. Whoever
// is there while nobody owns the instance owns it: that is the first one (WS-AZ-3).
func (s *Service) addPerson(tx storage.Tx, by authz.Caller, principal wire.Principal, name string, email *string) error {
	if email != nil {
		address, ok := canonicalEmail(*email)
		if !ok {
			return refuse("This does not look like an e-mail address.")
		}
		email = &address
	}
	if err := insertUser(tx, principal.ID, name, email); err != nil {
		return err
	}
	return s.permissions.ChangeIn(tx, authz.Plan{
		Actor: actorOf(by), Correlation: by.Correlation,
		Affected: func(storage.Tx) ([]string, error) { return []string{principal.ID}, nil },
		Change: func(tx storage.Tx) error {
			if err := insertPrincipal(tx, principal); err != nil {
				return err
			}
			if err := s.ownUnowned(tx, principal); err != nil {
				return err
			}
			return s.note(tx, by, actionPrincipalCreate, principal)
		},
	})
}

// ownUnowned grants an active person the instance when nobody else owns it.
func (s *Service) ownUnowned(tx storage.Tx, principal wire.Principal) error {
	if principal.Status != wire.StatusActive {
		return nil
	}
	_, err := authz.FirstOwner(tx, s.env, principal.ID)
	return err
}

// nameMigrated gives people who were here before there were principals and handles theirs, also those whom a
// server of the version before has added since the schema changed.
func (s *Service) nameMigrated(ctx context.Context) error {
	for {
		named, err := storage.Write(ctx, s.db, []storage.Key{storage.ChangePermissions}, nameSome)
		if err != nil || named == 0 {
			return err
		}
	}
}

// nameSome names some of those people, and answers how many.
func nameSome(tx storage.Tx) (int, error) {
	var people []wire.Principal
	err := tx.Query(
		`SELECT u.id, u.name, COALESCE(p.version, 0) FROM users u LEFT JOIN principals p ON p.id = u.id
		  WHERE p.id IS NULL OR p.handle = 'u-' || u.id ORDER BY u.created_at, u.id LIMIT 500`, nil, func(row storage.Row) error {
			p := wire.Principal{Kind: wire.KindUser, Status: wire.StatusActive}
			err := row.Scan(&p.ID, &p.DisplayName, &p.Version)
			people = append(people, p)
			return err
		})
	if err != nil {
		return 0, fmt.Errorf("look for people without a handle: %w", err)
	}
	for _, p := range people {
		if p.Handle, err = freeHandle(tx, slug(p.DisplayName)); err != nil {
			return 0, err
		}
		if p.Version > 0 {
			err = tx.Exec(`UPDATE principals SET handle = $2 WHERE id = $1`, p.ID, p.Handle)
		} else {
			err = tx.Exec(
				`INSERT INTO principals (id, kind, handle, display_name, status, created_at)
				 SELECT id, 'user', $2, name, CASE WHEN disabled_at IS NULL THEN 'active' ELSE 'disabled' END, created_at FROM users WHERE id = $1`,
				p.ID, p.Handle)
		}
		if err != nil {
			return 0, fmt.Errorf("name person: %w", err)
		}
	}
	return len(people), nil
}
