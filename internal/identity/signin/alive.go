package signin

import (
	"context"
	"fmt"

	"github.com/cairnsync/cairn/internal/storage"
)

// Credential is what an open connection was authenticated with: a sign-in with its device, or an API token.
type Credential struct {
	Principal string
	Device    string
	SignIn    string
	TokenID   string
}

// CredentialsAlive reports for each credential, in order, whether it still holds: sign-in or token not
// revoked, device active, principal active (ES-8.5). Expiry is the connection's own clock. It is one
// statement: give it some hundreds at a time, not more.
func CredentialsAlive(tx storage.Tx, credentials []Credential) ([]bool, error) {
	signIns, tokens := make([]string, 0, len(credentials)), make([]string, 0, len(credentials))
	for _, c := range credentials {
		if c.SignIn != "" {
			signIns = append(signIns, c.SignIn)
		}
		if c.TokenID != "" {
			tokens = append(tokens, c.TokenID)
		}
	}
	living := make(map[Credential]bool, len(credentials))
	err := tx.Query(
		`SELECT s.user_id, s.device_id, s.id, '' FROM sign_ins s JOIN devices d ON d.id = s.device_id JOIN principals p ON p.id = s.user_id
		  WHERE s.id = ANY($1) AND s.revoked_at IS NULL AND d.state = 'active' AND d.deleted_at IS NULL AND p.status = 'active'
		 UNION ALL
		 SELECT p.id, '', '', t.id FROM api_tokens t JOIN principals p ON p.id = t.principal_id
		  WHERE t.id = ANY($2) AND t.revoked_at IS NULL AND p.status = 'active'`,
		[]any{signIns, tokens}, func(row storage.Row) error {
			var c Credential
			err := row.Scan(&c.Principal, &c.Device, &c.SignIn, &c.TokenID)
			living[c] = true
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("check credentials: %w", err)
	}
	alive := make([]bool, len(credentials))
	for i, c := range credentials {
		alive[i] = living[c]
	}
	return alive, nil
}

// Alive is CredentialsAlive for one credential.
func (s *Service) Alive(ctx context.Context, c Credential) (bool, error) {
	alive, err := storage.Read(ctx, s.DB, func(tx storage.Tx) ([]bool, error) { return CredentialsAlive(tx, []Credential{c}) })
	return err == nil && alive[0], err
}
