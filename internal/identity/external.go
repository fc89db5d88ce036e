package identity

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wsp "github.com/cairnsync/cairn/wire/workspace"
)

const actionExternalLink = "external_identity:link"

// ExternalPerson is a person as an OpenID Connect issuer knows it. Issuer and subject identify; the rest
// may be empty and names somebody new.
type ExternalPerson struct {
	Issuer, Subject       string
	Name, Username, Email string // Email is one that the issuer has verified
}

// UserOf answers the user that belongs to an external identity (WS-ID-4). Somebody unknown is added with the
// status provision; forbidden when provision is empty.
func (s *Service) UserOf(ctx context.Context, there ExternalPerson, provision wsp.Status) (string, error) {
	user, err := storage.Read(ctx, s.db, func(tx storage.Tx) (string, error) { return linked(tx, there) })
	if err != nil || user != "" {
		return user, err
	}
	if provision == "" {
		return "", fault.New(code.Forbidden, "Nobody here belongs to this identity. Ask an owner of the instance.")
	}
	user, err = storage.Write(ctx, s.db, []storage.Key{storage.ChangePermissions}, func(tx storage.Tx) (string, error) {
		known, err := linked(tx, there)
		if err != nil || known != "" {
			return known, err
		}
		return s.provision(tx, there, provision)
	})
	if fault.Is(err, code.LastOwner) {
		err = fault.New(code.Forbidden, "Nobody owns this instance yet. Its first person has to be an active one.").WithCause(err)
	}
	return user, err
}

// linked answers the user with an external identity, "" for none.
func linked(tx storage.Tx, there ExternalPerson) (string, error) {
	var user string
	_, err := tx.Get(`SELECT user_id FROM external_identities WHERE issuer = $1 AND subject = $2`, []any{there.Issuer, there.Subject}, &user)
	if err != nil {
		return "", fmt.Errorf("look for external identity: %w", err)
	}
	return user, nil
}

// provision adds a person whom only the issuer knew.
func (s *Service) provision(tx storage.Tx, there ExternalPerson, status wsp.Status) (string, error) {
	display := firstOf(shown(there.Name), shown(there.Username), "Somebody")
	handle, err := freeHandle(tx, slug(firstOf(there.Username, there.Name, "user")))
	if err != nil {
		return "", err
	}
	name, err := freeName(tx, firstOf(shown(there.Username), display))
	if err != nil {
		return "", err
	}
	email, err := freeEmail(tx, there.Email)
	if err != nil {
		return "", err
	}
	person := wsp.Principal{ID: s.env.NewID(), Kind: wsp.KindUser, Handle: handle, DisplayName: display, Status: status, Version: 1}
	if err := s.addPerson(tx, Operator(), person, name, email); err != nil {
		return "", err
	}
	return person.ID, s.link(tx, person.ID, there)
}

func (s *Service) link(tx storage.Tx, user string, there ExternalPerson) error {
	rows, err := tx.Changed(`INSERT INTO external_identities (issuer, subject, user_id, created_at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
		there.Issuer, there.Subject, user, tx.Now())
	if err != nil {
		return fmt.Errorf("link external identity: %w", err)
	}
	if rows == 0 {
		return fault.New(code.Conflict, "This identity belongs to somebody already.")
	}
	return audit.Write(tx, s.env, audit.Entry{
		UserID: audit.System, Action: actionExternalLink, TargetKind: "user", TargetID: user,
		Detail: map[string]string{"issuer": there.Issuer, "subject": there.Subject},
	})
}

// LinkExternal says that a user, named by id or by name, is somebody at an OpenID Connect issuer.
func (s *Service) LinkExternal(ctx context.Context, userRef, issuer, subject string) error {
	if issuer == "" || subject == "" {
		return refuse("An external identity has an issuer and a subject.")
	}
	user, err := s.resolveUser(ctx, userRef)
	if err != nil {
		return err
	}
	return s.db.Write(ctx, userKeys(user), func(tx storage.Tx) error {
		return s.link(tx, user, ExternalPerson{Issuer: issuer, Subject: subject})
	})
}

// shown answers what of a name of the issuer's can be shown: printable, and not too long.
func shown(name string) string {
	name = strings.TrimSpace(strings.Map(func(r rune) rune {
		if !printable(string(r)) {
			return -1
		}
		return r
	}, name))
	if runes := []rune(name); len(runes) > maxDisplayName {
		name = string(runes[:maxDisplayName])
	}
	return name
}

func firstOf(names ...string) string {
	for _, name := range names {
		if name != "" {
			return name
		}
	}
	return ""
}

// maxNameNumber bounds the search for a name that is free.
const maxNameNumber = 10_000

// freeName answers base, or base with the first free number behind it.
func freeName(tx storage.Tx, base string) (string, error) {
	if checkUserName(base) != nil {
		base = "user"
	}
	stem := []rune(base)
	stem = stem[:min(len(stem), maxUserName-len(" 10000"))]
	for n := 1; n <= maxNameNumber; n++ {
		name := base
		if n > 1 {
			name = fmt.Sprintf("%s %d", string(stem), n)
		}
		taken, err := tx.Get(`SELECT 1 FROM users WHERE name = $1`, []any{name}, new(int))
		if err != nil {
			return "", fmt.Errorf("look for user: %w", err)
		}
		if !taken {
			return name, nil
		}
	}
	return "", errors.New("look for a free name: too many people have this one")
}

// freeEmail answers an address that nobody has yet, nil otherwise: it decides nothing about who somebody is.
func freeEmail(tx storage.Tx, email string) (*string, error) {
	address, ok := canonicalEmail(email)
	if !ok {
		return nil, nil
	}
	taken, err := tx.Get(`SELECT 1 FROM users WHERE email = $1`, []any{address}, new(int))
	if err != nil || taken {
		return nil, err
	}
	return &address, nil
}
