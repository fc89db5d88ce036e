package signin

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/identity/dpop"
	"github.com/cairnsync/cairn/internal/identity/token"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// apiToken is what the database says about an API token.
type apiToken struct {
	id, principal string
	kind          wire.Kind
	status        wire.Status
	thumbprint    string // "" when it is not bound
	scopes        []string
	expiresAt     time.Time // zero: never
	revoked       bool
}

// byAPIToken answers which agent or app shows a token.
func (s *Service) byAPIToken(ctx context.Context, raw, proof string, want dpop.Want) (Caller, error) {
	hash, wellFormed := token.ParseAPI(raw)
	if !wellFormed {
		return Caller{}, unknownAPIToken()
	}
	known, found, err := s.tokens.Ask(ctx, hash, func(ctx context.Context) (apiToken, bool, error) { return s.readAPIToken(ctx, hash) })
	switch {
	case err != nil:
		return Caller{}, err
	case !found:
		return Caller{}, unknownAPIToken()
	case known.revoked, known.status != wire.StatusActive:
		return Caller{}, revoked("This API token was revoked.")
	case !known.expiresAt.IsZero() && !known.expiresAt.After(s.Env.Now()):
		return Caller{}, expired()
	}
	if known.thumbprint != "" {
		if err := s.proveBound(raw, proof, known.thumbprint, want); err != nil {
			return Caller{}, err
		}
	}
	return Caller{
		Caller:  authz.Caller{Principal: known.principal, Kind: known.kind, StepUpMaxAge: s.Auth.StepUpMaxAge},
		TokenID: known.id, ExpiresAt: known.expiresAt, Scopes: known.scopes, Thumbprint: known.thumbprint,
	}, nil
}

func unknownAPIToken() error { return fault.New(code.InvalidToken, "This API token is no good.") }

// proveBound checks the proof beside an API token that is bound to a key.
func (s *Service) proveBound(raw, proof, thumbprint string, want dpop.Want) error {
	want.AccessToken = raw
	verified, err := s.verifyProof(proof, want)
	if err != nil {
		return err
	}
	if verified.Thumbprint != thumbprint {
		return fault.New(code.InvalidDPoPProof, "The DPoP proof is no good: the token is bound to another key.")
	}
	return s.proofs.Spend(verified, dpop.AtRequest)
}

func (s *Service) readAPIToken(ctx context.Context, hash token.Hash) (apiToken, bool, error) {
	var read apiToken
	var found bool
	err := s.DB.Read(ctx, func(tx storage.Tx) (err error) {
		var thumbprint, scopes *string
		var expiresAt, revokedAt *time.Time
		found, err = tx.Get(
			`SELECT t.id, p.id, p.kind, p.status, t.dpop_jkt, t.scopes, t.expires_at, t.revoked_at
			   FROM api_tokens t JOIN principals p ON p.id = t.principal_id WHERE t.hash = $1`,
			[]any{hash}, &read.id, &read.principal, &read.kind, &read.status, &thumbprint, &scopes, &expiresAt, &revokedAt)
		if err != nil {
			return err
		}
		read.thumbprint, read.expiresAt, read.revoked = orEmpty(thumbprint), orZero(expiresAt), revokedAt != nil
		read.scopes, err = scopesOf(scopes)
		return err
	})
	if err != nil {
		return apiToken{}, false, fmt.Errorf("look up API token: %w", err)
	}
	return read, found, nil
}

// scopesOf reads stored scopes; nil is everything.
func scopesOf(stored *string) ([]string, error) {
	if stored == nil {
		return nil, nil
	}
	scopes := []string{}
	if err := json.Unmarshal([]byte(*stored), &scopes); err != nil {
		return nil, fmt.Errorf("read scopes: %w", err)
	}
	return scopes, nil
}
