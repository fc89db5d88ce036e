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

// nameMigrated gives people who were here before there were handles one that can be typed.
func (s *Service) nameMigrated(ctx context.Context) error {
	const query = `SELECT id, display_name FROM principals WHERE kind = 'user' AND handle = 'u-' || id ORDER BY created_at, id LIMIT 500`
	for {
		named := 0
		err := s.db.Write(ctx, nil, func(tx storage.Tx) error {
			named = 0
			var people []wire.Principal
			err := tx.Query(query, nil, func(row storage.Row) error {
				var p wire.Principal
				err := row.Scan(&p.ID, &p.DisplayName)
				people = append(people, p)
				return err
			})
			if err != nil {
				return fmt.Errorf("look for people without a handle: %w", err)
			}
			for _, p := range people {
				handle, err := freeHandle(tx, slug(p.DisplayName))
				if err != nil {
					return err
				}
				if err := tx.Exec(`UPDATE principals SET handle = $2 WHERE id = $1`, p.ID, handle); err != nil {
					return fmt.Errorf("name person: %w", err)
				}
			}
			named = len(people)
			return nil
		})
		if err != nil || named == 0 {
			return err
		}
	}
}
