package signin

import (
	"context"
	"fmt"

	"github.com/go-jose/go-jose/v4"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/storage"
)

// JWKS answers the public keys that verify access tokens, the current one first (WS-ID-6).
func (s *Service) JWKS(ctx context.Context) (jose.JSONWebKeySet, error) {
	now, err := s.keys.current(ctx)
	if err != nil {
		return jose.JSONWebKeySet{}, err
	}
	return now.keys.JWKS(), nil
}

// RotateKeys puts a new key in the place of the current one and answers its id. Tokens that the one before
// has signed stay good until they end; it signs nothing any more. It needs owner on the instance.
func (s *Service) RotateKeys(ctx context.Context, by authz.Caller) (string, error) {
	// The permission version serialises rotations.
	return storage.Write(ctx, s.DB, []storage.Key{storage.ChangePermissions}, func(tx storage.Tx) (string, error) {
		if err := identity.May(tx, by, action.KeyManage); err != nil {
			return "", err
		}
		steps := []struct {
			query string
			args  []any
		}{
			{`DELETE FROM signing_keys WHERE rotated_at < $1`, []any{tx.Now().Add(-keysKept)}},
			{`UPDATE signing_keys SET is_current = NULL, rotated_at = $1 WHERE is_current = TRUE`, []any{tx.Now()}},
		}
		for _, step := range steps {
			if err := tx.Exec(step.query, step.args...); err != nil {
				return "", fmt.Errorf("rotate signing key: %w", err)
			}
		}
		id, err := s.keys.insert(tx)
		if err != nil {
			return "", err
		}
		s.wakeAfter(tx)
		tx.AfterCommit(s.keys.forget)
		return id, audit.Write(tx, s.Env, audit.Entry{
			UserID: by.AuditID(), DeviceID: by.Device, Action: actionKeyRotate, TargetKind: "signing_key", TargetID: id,
		})
	})
}
