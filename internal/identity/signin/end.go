package signin

import (
	"context"
	"fmt"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
)

// Logout ends the caller's sign-in: its tokens are no good any more, and its connections end (ES-8.5). A
// pending device may do it too. Again is no error.
func (s *Service) Logout(ctx context.Context, by authz.Caller) error {
	if by.SignIn == "" {
		return fault.New(code.NotImplementedForKind, "An API token is revoked by an owner, it does not sign out.")
	}
	keys := []storage.Key{storage.ChangePermissions, {Lock: storage.LockUsers, ID: by.Principal}}
	return s.DB.Write(ctx, keys, func(tx storage.Tx) error {
		row, found, err := readSignIn(tx, `id = $1`, by.SignIn)
		if err != nil || !found || row.revoked || row.user != by.Principal {
			return err
		}
		if err := endSignIns(tx, endedByLogout, `id = $3`, row.id); err != nil {
			return err
		}
		if err := authz.Raise(tx, row.user); err != nil {
			return err
		}
		s.wakeAfter(tx)
		return audit.Write(tx, s.Env, audit.Entry{
			UserID: by.Principal, DeviceID: by.Device, Action: actionLogout, TargetKind: "sign_in", TargetID: row.id,
		})
	})
}

// EndAllSignIns ends every sign-in and login code of the instance, after a restore: the backup may have
// brought back ones that were ended or used since (workspace specification, section 8). Clients sign in
// again and keep their data. It answers how many sign-ins it ended. The caller's transaction holds
// storage.ChangePermissions, and no server runs.
func EndAllSignIns(tx storage.Tx, e *env.Env) (int64, error) {
	ended, err := tx.Changed(`UPDATE sign_ins SET revoked_at = $1, revoked_reason = $2 WHERE revoked_at IS NULL`, tx.Now(), endedByRestore)
	if err != nil {
		return 0, fmt.Errorf("end sign-ins: %w", err)
	}
	if err := tx.Exec(`DELETE FROM login_codes`); err != nil {
		return 0, fmt.Errorf("forget login codes: %w", err)
	}
	if err := authz.Raise(tx); err != nil {
		return 0, err
	}
	return ended, audit.Write(tx, e, audit.Entry{
		UserID: audit.System, Action: actionRestore, TargetKind: "instance", Detail: map[string]int64{"ended": ended},
	})
}

// SetPassword gives a user, named by id, by name or by handle, a password. Sign-ins stay. Only
// the operator does it.
func (s *Service) SetPassword(ctx context.Context, userRef, newPassword string) error {
	hash, err := s.passwords.Hash(ctx, newPassword)
	if err != nil {
		return err
	}
	user, err := s.Identity.ResolvePerson(ctx, userRef)
	if err != nil {
		return err
	}
	keys := []storage.Key{{Lock: storage.LockUsers, ID: user}}
	return s.DB.Write(ctx, keys, func(tx storage.Tx) error {
		if err := tx.Exec(`UPDATE users SET password_hash = $2 WHERE id = $1`, user, hash); err != nil {
			return fmt.Errorf("set password: %w", err)
		}
		return audit.Write(tx, s.Env, audit.Entry{UserID: audit.System, Action: actionPassword, TargetKind: "user", TargetID: user})
	})
}
