package signin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/identity/token"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// account is who a user name names.
type account struct {
	id, hash string
}

// byPassword checks a password (WS-ID-4). Unknown names, people without a password and wrong passwords take
// equally long and answer the same.
func (s *Service) byPassword(ctx context.Context, call TokenCall) (grant, error) {
	who, err := s.accountOf(ctx, call.Request.Username)
	if err != nil {
		return grant{}, err
	}
	done, err := s.failures.attempt(ctx, who.name(call.Request.Username), Network(call.Address))
	if err != nil {
		return grant{}, err
	}
	how := undecided
	defer func() { done(how) }()
	right, err := s.passwords.Check(ctx, call.Request.Password, who.hash)
	if err != nil {
		return grant{}, err
	}
	if !right {
		how = failed
		return grant{}, badCredentials()
	}
	how = succeeded
	return grant{user: who.id, use: func(tx storage.Tx) error {
		unchanged, err := tx.Get(`SELECT 1 FROM users WHERE id = $1 AND password_hash = $2`, []any{who.id, who.hash}, new(int))
		if err == nil && !unchanged {
			err = badCredentials()
		}
		return err
	}}, nil
}

// name answers under which name failures of an account are counted: of one that does not exist by what was
// typed, of which only a hash is kept, because people type passwords into the wrong field.
func (a account) name(typed string) string {
	if a.id != "" {
		return accountPrefix + a.id
	}
	hash := sha256.Sum256([]byte(strings.ToLower(strings.TrimSpace(typed))))
	return "nobody " + hex.EncodeToString(hash[:])
}

// accountOf answers the account that a user name, a handle or an e-mail address names; the zero account for
// nobody.
func (s *Service) accountOf(ctx context.Context, username string) (account, error) {
	username = strings.TrimSpace(username)
	return storage.Read(ctx, s.DB, func(tx storage.Tx) (account, error) {
		var found account
		var hash *string
		_, err := tx.Get(
			`SELECT u.id, u.password_hash FROM users u JOIN principals p ON p.id = u.id
			  WHERE u.name = $1 OR p.handle = $2 OR u.email = $2
			  ORDER BY CASE WHEN u.name = $1 THEN 0 WHEN p.handle = $2 THEN 1 ELSE 2 END LIMIT 1`,
			[]any{username, strings.ToLower(username)}, &found.id, &hash)
		if err != nil {
			return account{}, fmt.Errorf("look for account: %w", err)
		}
		found.hash = orEmpty(hash)
		return found, nil
	})
}

// byLoginCode checks a code that an administrator or an active device made. It is used up by the
// transaction that signs in.
func (s *Service) byLoginCode(ctx context.Context, call TokenCall) (grant, error) {
	done, err := s.failures.attempt(ctx, Network(call.Address))
	if err != nil {
		return grant{}, err
	}
	how := undecided
	defer func() { done(how) }()
	hash, wellFormed := token.ParseCode(call.Request.Code)
	user, found := "", false
	if wellFormed {
		err = s.DB.Read(ctx, func(tx storage.Tx) (err error) {
			found, err = tx.Get(`SELECT user_id FROM login_codes WHERE hash = $1 AND used_at IS NULL AND expires_at > $2`, []any{hash, tx.Now()}, &user)
			return err
		})
		if err != nil {
			return grant{}, fmt.Errorf("look for login code: %w", err)
		}
	}
	if !found {
		how = failed
		return grant{}, badCredentials()
	}
	how = succeeded
	return grant{user: user, use: func(tx storage.Tx) error { return useLoginCode(tx, hash) }}, nil
}

// useLoginCode uses a code up, or answers invalid_credentials when somebody else did or it is too late.
func useLoginCode(tx storage.Tx, hash token.Hash) error {
	rows, err := tx.Changed(`UPDATE login_codes SET used_at = $2 WHERE hash = $1 AND used_at IS NULL AND expires_at > $2`, hash, tx.Now())
	if err != nil {
		return fmt.Errorf("use login code: %w", err)
	}
	if rows == 0 {
		return badCredentials()
	}
	return nil
}

// unknownTime is when somebody proved who it is, according to an issuer that does not say: long ago. A sign-in
// that rests on an old session there must not count as a fresh proof (WS-ID-5).
var unknownTime = time.Unix(0, 0).UTC()

// byIssuer asks the OpenID Connect issuer who has signed in there, and whom that is here (WS-ID-4).
func (s *Service) byIssuer(ctx context.Context, call TokenCall) (grant, error) {
	if s.issuer == nil {
		return grant{}, fault.Invalid("/grant_type", "no OpenID Connect issuer is configured")
	}
	done, err := s.failures.attempt(ctx, Network(call.Address))
	if err != nil {
		return grant{}, err
	}
	how := undecided
	defer func() { done(how) }()
	r := call.Request
	there, err := s.issuer.Exchange(ctx, r.Code, r.CodeVerifier, r.RedirectURI)
	if err != nil {
		if fault.Is(err, code.InvalidCredentials) {
			how = failed
		}
		return grant{}, err
	}
	how = succeeded
	if there.AuthTime.IsZero() {
		if r.SessionID != "" {
			return grant{}, fault.New(code.Forbidden, "The issuer does not say when you signed in there. Ask it with max_age=0, or with prompt=login.")
		}
		there.AuthTime = unknownTime
	}
	user, err := s.Identity.UserOf(ctx, identity.ExternalPerson{
		Issuer: there.Issuer, Subject: there.Subject, Name: there.Name, Username: there.Username, Email: there.Email,
	}, s.provision(r.SessionID))
	if err != nil {
		return grant{}, err
	}
	return grant{user: user, authTime: there.AuthTime, use: func(storage.Tx) error { return nil }}, nil
}

// provision answers the status in which somebody unknown is added, "" for not at all. A step-up adds nobody.
func (s *Service) provision(sessionID string) wire.Status {
	switch {
	case sessionID != "":
		return ""
	case s.Auth.OIDC.Provision == "pending":
		return wire.StatusPending
	case s.Auth.OIDC.Provision == "active":
		return wire.StatusActive
	default:
		return ""
	}
}
