package identity

import (
	"context"
	"fmt"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/idempotency"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wsp "github.com/cairnsync/cairn/wire/workspace"
)

// openOfUser are the sessions a user has open.
const openOfUser = `SELECT DISTINCT session_id FROM session_presence WHERE user_id = $1 ORDER BY session_id`

// disablePerson disables a person, in one transaction with everything that follows from it.
func (s *Service) disablePerson(ctx context.Context, by authz.Caller, id string) (wsp.Principal, error) {
	userID, ok := env.ParseID(id)
	if !ok {
		return wsp.Principal{}, fault.Missing("Principal")
	}
	// The sessions to lock are known only by reading; see DeleteDevice.
	for range deleteAttempts {
		expected, err := storage.Read(ctx, s.db, func(tx storage.Tx) ([]string, error) { return ids(tx, openOfUser, userID) })
		if err != nil {
			return wsp.Principal{}, err
		}
		keys := append(append(userKeys(userID), sessionKeys(expected)...), storage.ChangePermissions)
		disabled, err := storage.Write(ctx, s.db, keys, func(tx storage.Tx) (*wsp.Principal, error) {
			return s.disableExpected(tx, by, userID, expected)
		})
		if err != nil {
			return wsp.Principal{}, err
		}
		if disabled != nil {
			return *disabled, nil
		}
	}
	return wsp.Principal{}, fault.New(code.Unavailable, "The user keeps opening sessions. Try again.")
}

// disableExpected disables the person, or changes nothing and answers nil when it has sessions open that were
// not expected.
func (s *Service) disableExpected(tx storage.Tx, by authz.Caller, userID string, expected []string) (*wsp.Principal, error) {
	open, err := ids(tx, openOfUser, userID)
	if err != nil || !(ties{open: expected}).cover(ties{open: open}) {
		return nil, err
	}
	principal, found, err := ReadPrincipal(tx, userID)
	if err != nil {
		return nil, err
	}
	if err := s.mayChange(tx, by, principal, found); err != nil {
		return nil, err
	}
	changed, err := idempotency.Once(tx, by.Key, func() (wsp.Principal, error) {
		return s.applyChange(tx, by, principal, func(tx storage.Tx, p *wsp.Principal) (string, error) {
			p.Status = wsp.StatusDisabled
			return actionPrincipalDisable, s.disable(tx, userID, open)
		})
	})
	return &changed, err
}

func (s *Service) disable(tx storage.Tx, userID string, open []string) error {
	steps := []struct {
		query string
		args  []any
	}{
		{`UPDATE users SET disabled_at = COALESCE(disabled_at, $2) WHERE id = $1`, []any{userID, tx.Now()}},
		{`UPDATE sign_ins SET revoked_at = $2, revoked_reason = 'disabled' WHERE user_id = $1 AND revoked_at IS NULL`, []any{userID, tx.Now()}},
		{`DELETE FROM login_codes WHERE user_id = $1`, []any{userID}},
		{`UPDATE sessions SET access_version = access_version + 1 WHERE id = ANY($1)`, []any{open}},
	}
	for _, step := range steps {
		if err := tx.Exec(step.query, step.args...); err != nil {
			return fmt.Errorf("disable user: %w", err)
		}
	}
	s.wakeAfter(tx, open...)
	return nil
}
