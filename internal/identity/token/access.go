// Package token makes and reads the tokens of the Workspace surface: access tokens (JWT, RFC 9068) signed
// with keys that rotate, and the secrets of refresh tokens, API tokens and login codes (WS-ID-1, WS-ID-6).
//
// Contract. An access token is good by itself: Keys verifies it without a database. Secrets are kept as
// hashes; a parser of this package accepts exactly one spelling of each secret (login codes: any case, with
// or without dashes), so that a hash is of one text. Nothing here says whether what a token was made for
// still holds.
//
// Blocking and concurrency. Values are immutable and may be shared; no function blocks.
package token

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"

	"github.com/cairnsync/cairn/internal/env"
)

// maxAccess is the longest access token that is looked at, in bytes.
const maxAccess = 4_096

// accessType is the `typ` of an access token (RFC 9068 section 2.1).
const accessType = "at+jwt"

// Access is what an access token says.
type Access struct {
	Principal  string    // sub
	SignIn     string    // sid
	Device     string    // did
	AuthTime   time.Time // when the person last proved who it is; whole seconds
	Thumbprint string    // cnf.jkt: the key that must sign the proof beside the token
	IssuedAt   time.Time
	ExpiresAt  time.Time
	ID         string // jti
}

// accessClaims is Access as JSON.
type accessClaims struct {
	Issuer   string       `json:"iss"`
	Audience string       `json:"aud"`
	Subject  string       `json:"sub"`
	SignIn   string       `json:"sid"`
	Device   string       `json:"did"`
	AuthTime int64        `json:"auth_time"`
	Confirm  confirmation `json:"cnf"`
	IssuedAt int64        `json:"iat"`
	Expires  int64        `json:"exp"`
	ID       string       `json:"jti"`
}

// confirmation names the key a token is bound to (RFC 9449 section 6.1).
type confirmation struct {
	Thumbprint string `json:"jkt"`
}

// What may be wrong with an access token.
var (
	// ErrExpired says that the token was good.
	ErrExpired = errors.New("the access token has expired")
	// ErrUnknownKey says that nobody here knows the key that signed it; reading the keys again may help.
	ErrUnknownKey = errors.New("the key of the access token is not known")
	errMalformed  = errors.New("the access token is malformed")
	errForeign    = errors.New("the access token was issued elsewhere")
)

// Sign makes an access token for an instance.
func (k Key) Sign(instance string, access Access) (string, error) {
	payload, err := json.Marshal(accessClaims{
		Issuer: instance, Audience: instance, Subject: access.Principal, SignIn: access.SignIn, Device: access.Device,
		AuthTime: access.AuthTime.Unix(), Confirm: confirmation{access.Thumbprint},
		IssuedAt: access.IssuedAt.Unix(), Expires: access.ExpiresAt.Unix(), ID: access.ID,
	})
	if err != nil {
		return "", fmt.Errorf("encode access token: %w", err)
	}
	return k.sign(accessType, payload)
}

// Verify answers what an access token of an instance says. It is ErrExpired for one that was good, and
// ErrUnknownKey when none of the keys signed it. life is the longest life of an access token
// (auth.access_token_ttl): it bounds how long a replaced key counts.
func (k Keys) Verify(raw, instance string, now time.Time, life time.Duration) (Access, error) {
	if len(raw) > maxAccess {
		return Access{}, errMalformed
	}
	signed, err := jose.ParseSignedCompact(raw, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil || len(signed.Signatures) != 1 {
		return Access{}, errMalformed
	}
	header := signed.Signatures[0].Protected
	if kind, _ := header.ExtraHeaders[jose.HeaderType].(string); kind != accessType {
		return Access{}, errMalformed
	}
	key, found := k.find(header.KeyID)
	if !found {
		return Access{}, ErrUnknownKey
	}
	payload, err := signed.Verify(key.public())
	if err != nil {
		return Access{}, errMalformed
	}
	access, err := readAccess(payload, instance)
	switch {
	case err != nil:
		return Access{}, err
	case !key.mayHaveSigned(access, life):
		return Access{}, ErrUnknownKey
	case !access.ExpiresAt.After(now):
		return Access{}, ErrExpired
	default:
		return access, nil
	}
}

func readAccess(payload []byte, instance string) (Access, error) {
	var said accessClaims
	if err := json.Unmarshal(payload, &said); err != nil {
		return Access{}, errMalformed
	}
	if said.Issuer != instance || said.Audience != instance {
		return Access{}, errForeign
	}
	for _, id := range []string{said.Subject, said.SignIn, said.Device} {
		if canonical, isID := env.ParseID(id); !isID || canonical != id {
			return Access{}, errMalformed
		}
	}
	if said.Confirm.Thumbprint == "" || said.ID == "" {
		return Access{}, errMalformed
	}
	return Access{
		Principal: said.Subject, SignIn: said.SignIn, Device: said.Device, AuthTime: time.Unix(said.AuthTime, 0).UTC(),
		Thumbprint: said.Confirm.Thumbprint, IssuedAt: time.Unix(said.IssuedAt, 0).UTC(), ExpiresAt: time.Unix(said.Expires, 0).UTC(),
		ID: said.ID,
	}, nil
}
