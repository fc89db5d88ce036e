package signin

import (
	"context"
	"fmt"
	"time"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/identity/token"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

const (
	// codeLife is how long a login code is good (WS-ID-1).
	codeLife = 10 * time.Minute
	// maxOpenCodes is how many unused codes a person has at a time; one more ends the oldest.
	maxOpenCodes = 10
)

// MakeLoginCode makes a code with which a user, named by id, by name or by handle, signs in once. Only the
// operator makes one for others.
func (s *Service) MakeLoginCode(ctx context.Context, userRef string) (wire.LoginCode, error) {
	user, err := s.Identity.ResolvePerson(ctx, userRef)
	if err != nil {
		return wire.LoginCode{}, err
	}
	return s.makeLoginCode(ctx, identity.Operator(), user)
}

// MakeOwnLoginCode makes a code with which the caller signs in on another device. It takes a recent
// authentication (WS-ID-5). A repeat with the same Idempotency-Key makes another code: codes are kept nowhere.
func (s *Service) MakeOwnLoginCode(ctx context.Context, by authz.Caller) (wire.LoginCode, error) {
	return s.makeLoginCode(ctx, by, by.Principal)
}

func (s *Service) makeLoginCode(ctx context.Context, by authz.Caller, user string) (wire.LoginCode, error) {
	text, hash := token.NewCode(s.Env)
	keys := []storage.Key{{Lock: storage.LockUsers, ID: user}, {Lock: storage.LockPrincipals, ID: user}}
	return storage.Write(ctx, s.DB, keys, func(tx storage.Tx) (wire.LoginCode, error) {
		if err := identity.May(tx, by, action.DeviceManage); err != nil {
			return wire.LoginCode{}, err
		}
		if err := mayGetCode(tx, user); err != nil {
			return wire.LoginCode{}, err
		}
		err := tx.Exec(
			`DELETE FROM login_codes WHERE user_id = $1 AND (expires_at <= $2 OR used_at IS NOT NULL OR hash NOT IN (
			     SELECT hash FROM login_codes WHERE user_id = $1 AND expires_at > $2 AND used_at IS NULL ORDER BY created_at DESC, hash LIMIT $3))`,
			user, tx.Now(), maxOpenCodes-1)
		if err != nil {
			return wire.LoginCode{}, fmt.Errorf("forget login codes: %w", err)
		}
		made := wire.LoginCode{Code: text, ExpiresAt: tx.Now().Add(codeLife)}
		err = tx.Exec(`INSERT INTO login_codes (hash, user_id, created_at, expires_at) VALUES ($1, $2, $3, $4)`, hash, user, tx.Now(), made.ExpiresAt)
		if err != nil {
			return wire.LoginCode{}, fmt.Errorf("add login code: %w", err)
		}
		return made, audit.Write(tx, s.Env, audit.Entry{
			UserID: by.AuditID(), DeviceID: by.Device, Action: actionLoginCode, TargetKind: "user", TargetID: user,
		})
	})
}

// mayGetCode refuses a code for somebody who could not use it.
func mayGetCode(tx storage.Tx, user string) error {
	principal, found, err := identity.ReadPrincipal(tx, user)
	switch {
	case err != nil:
		return err
	case !found || principal.Kind != wire.KindUser:
		return fault.Missing("User")
	case principal.Status == wire.StatusDisabled:
		return fault.New(code.Conflict, "The user is disabled.")
	default:
		return nil
	}
}
