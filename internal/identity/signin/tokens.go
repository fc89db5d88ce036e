package signin

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/idempotency"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/identity/token"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// maxTokensListed is how many API tokens one list answers, and how many a principal has that are not revoked.
const maxTokensListed = 100

var (
	thumbprintForm = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)
	scopeForm      = regexp.MustCompile(`^[a-z][a-z0-9_.:]{0,63}$`)
)

// AddToken makes an API token for an agent or app (WS-ID-2). The token itself is answered here and never
// again; a repeat with the same Idempotency-Key answers it without. It needs owner on the instance.
func (s *Service) AddToken(ctx context.Context, by authz.Caller, principalID string, request wire.NewToken) (wire.APITokenMade, error) {
	principal, ok := env.ParseID(principalID)
	if !ok {
		return wire.APITokenMade{}, fault.Missing("Principal")
	}
	if err := checkToken(request); err != nil {
		return wire.APITokenMade{}, err
	}
	text, hash, hint := token.NewAPI(s.Env)
	id := s.Env.NewID()
	keys := []storage.Key{{Lock: storage.LockPrincipals, ID: by.Principal}, {Lock: storage.LockPrincipals, ID: principal}}
	made, err := storage.Write(ctx, s.DB, keys, func(tx storage.Tx) (wire.APIToken, error) {
		if err := mayManageTokens(tx, by, principal); err != nil {
			return wire.APIToken{}, err
		}
		return idempotency.OnceByID(tx, by.Key, func() (wire.APIToken, error) {
			return s.insertToken(tx, by, principal, id, hash, hint, request)
		}, func(made wire.APIToken) string { return made.ID }, func(id string) (wire.APIToken, error) { return readToken(tx, id) })
	})
	if err != nil || made.ID != id {
		return wire.APITokenMade{APIToken: made}, err
	}
	return wire.APITokenMade{APIToken: made, Token: text}, nil
}

func checkToken(request wire.NewToken) error {
	switch {
	case request.Name == "" || len([]rune(request.Name)) > 200:
		return fault.Invalid("/name", "has 1 to 200 characters")
	case request.DPoPJKT != "" && !thumbprintForm.MatchString(request.DPoPJKT):
		return fault.Invalid("/dpop_jkt", "is a thumbprint of RFC 7638: 43 characters of base64url")
	case slices.ContainsFunc(request.Scopes, func(scope string) bool { return !scopeForm.MatchString(scope) }):
		return fault.Invalid("/scopes", "are words such as message.create")
	default:
		return nil
	}
}

// mayManageTokens authorises, and answers not_found for what is no agent or app.
func mayManageTokens(tx storage.Tx, by authz.Caller, principal string) error {
	if err := identity.May(tx, by, action.AgentManage); err != nil {
		return err
	}
	read, found, err := identity.ReadPrincipal(tx, principal)
	if err == nil && (!found || read.Kind == wire.KindUser) {
		err = fault.Missing("Principal")
	}
	return err
}

func (s *Service) insertToken(
	tx storage.Tx, by authz.Caller, principal, id string, hash token.Hash, hint string, request wire.NewToken,
) (wire.APIToken, error) {
	if request.ExpiresAt != nil && !request.ExpiresAt.After(tx.Now()) {
		return wire.APIToken{}, fault.Invalid("/expires_at", "lies in the past")
	}
	var count int
	if _, err := tx.Get(`SELECT count(*) FROM api_tokens WHERE principal_id = $1 AND revoked_at IS NULL`, []any{principal}, &count); err != nil {
		return wire.APIToken{}, fmt.Errorf("count API tokens: %w", err)
	}
	if count >= maxTokensListed {
		return wire.APIToken{}, fault.New(code.Conflict, "It has %d tokens already. Revoke one first.", count)
	}
	var scopes, thumbprint *string
	if request.Scopes != nil {
		encoded, err := json.Marshal(request.Scopes)
		if err != nil {
			return wire.APIToken{}, fmt.Errorf("encode scopes: %w", err)
		}
		text := string(encoded)
		scopes = &text
	}
	if request.DPoPJKT != "" {
		thumbprint = &request.DPoPJKT
	}
	err := tx.Exec(
		`INSERT INTO api_tokens (id, principal_id, name, hash, hint, dpop_jkt, scopes, created_by, created_at, expires_at)
		 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		id, principal, request.Name, hash, hint, thumbprint, scopes, by.AuditID(), tx.Now(), request.ExpiresAt)
	if err != nil {
		return wire.APIToken{}, fmt.Errorf("add API token: %w", err)
	}
	err = s.noteToken(tx, by, actionTokenCreate, principal, id)
	if err != nil {
		return wire.APIToken{}, err
	}
	return readToken(tx, id)
}

func (s *Service) noteToken(tx storage.Tx, by authz.Caller, audited, principal, id string) error {
	return audit.Write(tx, s.Env, audit.Entry{
		UserID: by.AuditID(), DeviceID: by.Device, Action: audited, TargetKind: "api_token", TargetID: id,
		Detail: map[string]string{"principal_id": principal},
	})
}

const tokenQuery = `SELECT id, principal_id, name, hint, COALESCE(dpop_jkt, ''), scopes, created_at, expires_at, revoked_at FROM api_tokens WHERE `

func scanToken(row storage.Row) (wire.APIToken, error) {
	var read wire.APIToken
	var scopes *string
	err := row.Scan(&read.ID, &read.PrincipalID, &read.Name, &read.Hint, &read.DPoPJKT, &scopes, &read.CreatedAt, &read.ExpiresAt, &read.RevokedAt)
	if err != nil {
		return wire.APIToken{}, err
	}
	read.Scopes, err = scopesOf(scopes)
	return read, err
}

func readToken(tx storage.Tx, id string) (read wire.APIToken, err error) {
	found := false
	err = tx.Query(tokenQuery+`id = $1`, []any{id}, func(row storage.Row) (err error) {
		found = true
		read, err = scanToken(row)
		return err
	})
	switch {
	case err != nil:
		return wire.APIToken{}, fmt.Errorf("read API token: %w", err)
	case !found:
		return wire.APIToken{}, fault.Missing("Token")
	default:
		return read, nil
	}
}

// ListTokens answers the API tokens of an agent or app, newest first, never the tokens themselves; at most 100.
func (s *Service) ListTokens(ctx context.Context, by authz.Caller, principalID string) ([]wire.APIToken, error) {
	principal, ok := env.ParseID(principalID)
	if !ok {
		return nil, fault.Missing("Principal")
	}
	return storage.Read(ctx, s.DB, func(tx storage.Tx) ([]wire.APIToken, error) {
		if err := mayManageTokens(tx, by, principal); err != nil {
			return nil, err
		}
		tokens := []wire.APIToken{}
		err := tx.Query(tokenQuery+`principal_id = $1 ORDER BY created_at DESC, id DESC LIMIT $2`, []any{principal, maxTokensListed},
			func(row storage.Row) error {
				read, err := scanToken(row)
				tokens = append(tokens, read)
				return err
			})
		if err != nil {
			return nil, fmt.Errorf("list API tokens: %w", err)
		}
		return tokens, nil
	})
}

// RevokeToken revokes an API token; its connections end (ES-8.5). Again is no error. It needs owner on the
// instance.
func (s *Service) RevokeToken(ctx context.Context, by authz.Caller, principalID, tokenID string) error {
	principal, principalOK := env.ParseID(principalID)
	id, tokenOK := env.ParseID(tokenID)
	if !principalOK || !tokenOK {
		return fault.Missing("Token")
	}
	return s.DB.Write(ctx, []storage.Key{storage.ChangePermissions}, func(tx storage.Tx) error {
		if err := mayManageTokens(tx, by, principal); err != nil {
			return err
		}
		read, err := readToken(tx, id)
		if err != nil {
			return err
		}
		if read.PrincipalID != principal {
			return fault.Missing("Token")
		}
		if read.RevokedAt != nil {
			return nil
		}
		if err := tx.Exec(`UPDATE api_tokens SET revoked_at = $2 WHERE id = $1`, id, tx.Now()); err != nil {
			return fmt.Errorf("revoke API token: %w", err)
		}
		if err := authz.Raise(tx, principal); err != nil {
			return err
		}
		s.wakeAfter(tx)
		return s.noteToken(tx, by, actionTokenRevoke, principal, id)
	})
}
