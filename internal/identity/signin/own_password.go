package signin

import (
	"context"
	"fmt"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/storage"
)

// SetOwnPassword gives the caller a password. It takes a recent authentication (WS-ID-5); sign-ins stay.
func (s *Service) SetOwnPassword(ctx context.Context, by authz.Caller, newPassword string) error {
	may := func(tx storage.Tx) error {
		_, err := authz.Check(tx, by, action.DeviceManage, authz.Resource{What: "Account"})
		return err
	}
	if err := s.DB.Read(ctx, may); err != nil { // before the hash, which costs the most
		return err
	}
	hash, err := s.passwords.Hash(ctx, newPassword)
	if err != nil {
		return err
	}
	keys := []storage.Key{{Lock: storage.LockUsers, ID: by.Principal}, by.Lock()}
	return s.DB.Write(ctx, keys, func(tx storage.Tx) error {
		if err := may(tx); err != nil {
			return err
		}
		if err := tx.Exec(`UPDATE users SET password_hash = $2 WHERE id = $1`, by.Principal, hash); err != nil {
			return fmt.Errorf("set password: %w", err)
		}
		return audit.Write(tx, s.Env, audit.Entry{
			UserID: by.AuditID(), DeviceID: by.Device, Action: actionPassword, TargetKind: "user", TargetID: by.Principal,
		})
	})
}
