package identity

import (
	"context"
	"fmt"
	"net/mail"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
	wsp "github.com/cairnsync/cairn/wire/workspace"
)

const (
	maxUserName = 200 // code points
	maxLabel    = 200 // code points
	maxEmail    = 254 // bytes, RFC 5321 section 4.5.3.1.3

	firstLabel = "first"
)

// User is a person, as administrators see one.
type User struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	Email      *string    `json:"email"`
	LiveKeys   int        `json:"live_keys"` // keys that are not revoked
	CreatedAt  wire.Time  `json:"created_at"`
	DisabledAt *wire.Time `json:"disabled_at"`
}

// Key is an API key, as administrators see one: never the key itself.
type Key struct {
	ID        string     `json:"id"`
	UserID    string     `json:"user_id"`
	UserName  string     `json:"user_name"`
	Label     string     `json:"label"`
	Hint      string     `json:"hint"` // last characters of the key
	CreatedAt wire.Time  `json:"created_at"`
	RevokedAt *wire.Time `json:"revoked_at"`
}

// NewUser is a new user's first key.
type NewUser = NewKey

// NewKey is a key that was just made. APIKey is shown here and never again.
type NewKey struct {
	UserID string `json:"user_id"`
	KeyID  string `json:"key_id"`
	APIKey string `json:"api_key"`
}

// AddUser adds a user with a first key. The name has 1 to 200 characters and is not the shape of an
// id; the e-mail address is kept in lower case. Both are unique: bad_request when one is taken or
// malformed. The handle on the Workspace surface is made of the name. The first user of an instance owns it
// (WS-AZ-3).
func (s *Service) AddUser(ctx context.Context, name string, email *string) (NewUser, error) {
	name = strings.TrimSpace(name)
	if err := checkUserName(name); err != nil {
		return NewUser{}, err
	}
	return storage.Write(ctx, s.db, []storage.Key{storage.ChangePermissions}, func(tx storage.Tx) (NewKey, error) {
		handle, err := freeHandle(tx, slug(name))
		if err != nil {
			return NewKey{}, err
		}
		person := wsp.Principal{
			ID: s.env.NewID(), Kind: wsp.KindUser, Handle: handle, DisplayName: name, Status: wsp.StatusActive, Version: 1,
		}
		if err := s.addPerson(tx, Operator(), person, name, email); err != nil {
			return NewKey{}, err
		}
		return s.insertKey(tx, person.ID, firstLabel)
	})
}

func insertUser(tx storage.Tx, id, name string, email *string) error {
	taken, err := tx.Get(`SELECT 1 FROM users WHERE name = $1 OR email = $2`, []any{name, email}, new(int))
	if err != nil {
		return fmt.Errorf("look for user: %w", err)
	}
	if taken {
		return refuse("A user with this name or e-mail address exists.")
	}
	rows, err := tx.Changed(
		`INSERT INTO users (id, name, email, created_at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
		id, name, email, tx.Now())
	if err != nil {
		return fmt.Errorf("add user: %w", err)
	}
	if rows == 0 { // somebody else took it between the look and the insert
		return refuse("A user with this name or e-mail address exists.")
	}
	return nil
}

// AddKey makes another key for a user, named by id or by name. The label has at most 200 characters.
func (s *Service) AddKey(ctx context.Context, userRef, label string) (NewKey, error) {
	if !printable(label) || utf8.RuneCountInString(label) > maxLabel {
		return NewKey{}, refuse("A label has at most %d printable characters.", maxLabel)
	}
	userID, err := s.resolveUser(ctx, userRef)
	if err != nil {
		return NewKey{}, err
	}
	return storage.Write(ctx, s.db, userKeys(userID), func(tx storage.Tx) (NewKey, error) {
		exists, err := UserExists(tx, userID)
		if err != nil {
			return NewKey{}, err
		}
		if !exists {
			return NewKey{}, refuse("The user is disabled.")
		}
		return s.insertKey(tx, userID, label)
	})
}

func (s *Service) insertKey(tx storage.Tx, userID, label string) (NewKey, error) {
	key, hash, hint := newKey(s.env)
	id := s.env.NewID()
	err := tx.Exec(
		`INSERT INTO api_keys (id, user_id, hash, hint, label, created_at) VALUES ($1, $2, $3, $4, $5, $6)`,
		id, userID, hash, hint, label, tx.Now())
	if err != nil {
		return NewKey{}, fmt.Errorf("add key: %w", err)
	}
	return NewKey{UserID: userID, KeyID: id, APIKey: key}, nil
}

// ListUsers answers every user, in the order in which they were added.
func (s *Service) ListUsers(ctx context.Context) ([]User, error) {
	return storage.Read(ctx, s.db, func(tx storage.Tx) ([]User, error) {
		users := []User{}
		err := tx.Query(
			`SELECT id, name, email, created_at, disabled_at,
			        (SELECT count(*) FROM api_keys k WHERE k.user_id = users.id AND k.revoked_at IS NULL)
			   FROM users ORDER BY created_at, id`, nil,
			func(row storage.Row) error {
				var user User
				var created time.Time
				var disabled *time.Time
				err := row.Scan(&user.ID, &user.Name, &user.Email, &created, &disabled, &user.LiveKeys)
				user.CreatedAt, user.DisabledAt = wire.Time{Time: created}, optionalTime(disabled)
				users = append(users, user)
				return err
			})
		if err != nil {
			return nil, fmt.Errorf("list users: %w", err)
		}
		return users, nil
	})
}

// ListKeys answers the keys of a user, named by id or by name, or of everybody when userRef is
// empty, in the order in which they were added.
func (s *Service) ListKeys(ctx context.Context, userRef string) ([]Key, error) {
	userID := ""
	if userRef != "" {
		var err error
		if userID, err = s.resolveUser(ctx, userRef); err != nil {
			return nil, err
		}
	}
	return storage.Read(ctx, s.db, func(tx storage.Tx) ([]Key, error) {
		keys := []Key{}
		err := tx.Query(
			`SELECT k.id, u.id, u.name, k.label, k.hint, k.created_at, k.revoked_at
			   FROM api_keys k JOIN users u ON u.id = k.user_id
			  WHERE $1 = '' OR u.id = $1 ORDER BY k.created_at, k.id`, []any{userID},
			func(row storage.Row) error {
				var key Key
				var created time.Time
				var revoked *time.Time
				err := row.Scan(&key.ID, &key.UserID, &key.UserName, &key.Label, &key.Hint, &created, &revoked)
				key.CreatedAt, key.RevokedAt = wire.Time{Time: created}, optionalTime(revoked)
				keys = append(keys, key)
				return err
			})
		if err != nil {
			return nil, fmt.Errorf("list keys: %w", err)
		}
		return keys, nil
	})
}

// RevokeKey revokes a key; again is no error. Its streams end within a second (SS-ROLE-2).
func (s *Service) RevokeKey(ctx context.Context, keyID string) error {
	return s.db.Write(ctx, nil, func(tx storage.Tx) error {
		rows, err := tx.Changed(
			`UPDATE api_keys SET revoked_at = COALESCE(revoked_at, $2) WHERE id = $1`, keyID, tx.Now())
		if err != nil {
			return fmt.Errorf("revoke key: %w", err)
		}
		if rows == 0 {
			return missing("Key")
		}
		s.wakeAfter(tx)
		return nil
	})
}

// DisableUser shuts a user out, named by id or by name, on both surfaces: no key and no sign-in of that user
// is good any more, and the sessions that user has open count as ones whose access changed. The last owner of
// the instance stays (last_owner). Again is no error.
func (s *Service) DisableUser(ctx context.Context, userRef string) error {
	userID, err := s.resolveUser(ctx, userRef)
	if err != nil {
		return err
	}
	_, err = s.disablePerson(ctx, Operator(), userID)
	return err
}

// EnableUser lets a disabled user, named by id or by name, in again; keys that were not revoked count again.
func (s *Service) EnableUser(ctx context.Context, userRef string) error {
	userID, err := s.resolveUser(ctx, userRef)
	if err != nil {
		return err
	}
	_, err = s.EnablePrincipal(ctx, Operator(), userID)
	return err
}

// ResolvePerson answers the id of the user that ref names, by id, by name or by handle, disabled ones too.
func (s *Service) ResolvePerson(ctx context.Context, ref string) (string, error) {
	id, err := s.resolveUser(ctx, ref)
	if !fault.Is(err, code.NotFound) {
		return id, err
	}
	return storage.Read(ctx, s.db, func(tx storage.Tx) (string, error) {
		found, err := tx.Get(`SELECT id FROM principals WHERE handle = $1 AND kind = 'user' AND source IS NULL`, []any{strings.TrimPrefix(ref, "@")}, &id)
		if err != nil {
			return "", fmt.Errorf("look for user: %w", err)
		}
		if !found {
			return "", missing("User")
		}
		return id, nil
	})
}

// resolveUser answers the id of the user that ref names, by id or by name, disabled ones too.
func (s *Service) resolveUser(ctx context.Context, ref string) (string, error) {
	column := "name"
	if id, ok := env.ParseID(ref); ok {
		column, ref = "id", id
	}
	return storage.Read(ctx, s.db, func(tx storage.Tx) (string, error) {
		var id string
		found, err := tx.Get(`SELECT id FROM users WHERE `+column+` = $1`, []any{ref}, &id)
		if err != nil {
			return "", fmt.Errorf("look for user: %w", err)
		}
		if !found {
			return "", missing("User")
		}
		return id, nil
	})
}

func checkUserName(name string) error {
	length := utf8.RuneCountInString(name)
	if length < 1 || length > maxUserName || !printable(name) {
		return refuse("A user's name has 1 to %d printable characters.", maxUserName)
	}
	if _, isID := env.ParseID(name); isID {
		return refuse("A user's name must not have the shape of an id.")
	}
	return nil
}

func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// canonicalEmail answers the form in which an address is kept and compared, and whether text looks
// like an address at all.
func canonicalEmail(text string) (string, bool) {
	text = strings.ToLower(strings.TrimSpace(text))
	parsed, err := mail.ParseAddress(text)
	return text, err == nil && parsed.Address == text && len(text) <= maxEmail
}

func userKeys(id string) []storage.Key { return []storage.Key{{Lock: storage.LockUsers, ID: id}} }

func optionalTime(at *time.Time) *wire.Time {
	if at == nil {
		return nil
	}
	return &wire.Time{Time: *at}
}
