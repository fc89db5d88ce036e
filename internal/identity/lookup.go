package identity

import (
	"context"
	"fmt"

	"github.com/cairnsync/cairn/internal/storage"
)

// Credential is what a stream was opened with. DeviceID may be empty.
type Credential struct {
	KeyID, UserID, DeviceID string
}

// Alive reports whether what a stream was opened with still holds: the key is not revoked, the user
// not disabled, the device not deleted and still that user's (SS-ROLE-2). It asks the database.
func (s *Service) Alive(ctx context.Context, keyID, userID, deviceID string) (bool, error) {
	alive, err := storage.Read(ctx, s.db, func(tx storage.Tx) ([]bool, error) {
		return AliveIn(tx, []Credential{{keyID, userID, deviceID}})
	})
	return err == nil && alive[0], err
}

// AliveIn answers Alive for each of some credentials, in order, with one statement. Give it some
// hundreds at a time, not more.
func AliveIn(tx storage.Tx, credentials []Credential) ([]bool, error) {
	ofKey, ofDevice, err := owners(tx, credentials)
	if err != nil {
		return nil, fmt.Errorf("check credentials: %w", err)
	}
	alive := make([]bool, len(credentials))
	for i, c := range credentials {
		holds := ofKey[c.KeyID] == c.UserID && (c.DeviceID == "" || ofDevice[c.DeviceID] == c.UserID)
		alive[i] = c.UserID != "" && holds
	}
	return alive, nil
}

// owners answers the users of the keys and of the devices that are alive.
func owners(tx storage.Tx, credentials []Credential) (ofKey, ofDevice map[string]string, err error) {
	keys := make([]string, len(credentials))
	devices := make([]string, len(credentials))
	for i, c := range credentials {
		keys[i], devices[i] = c.KeyID, c.DeviceID
	}
	ofKey, ofDevice = make(map[string]string, len(keys)), make(map[string]string, len(devices))
	err = tx.Query(
		`SELECT true, k.id, u.id FROM api_keys k JOIN users u ON u.id = k.user_id
		  WHERE k.id = ANY($1) AND k.revoked_at IS NULL AND u.disabled_at IS NULL
		 UNION ALL
		 SELECT false, id, user_id FROM devices WHERE id = ANY($2) AND deleted_at IS NULL`,
		[]any{keys, devices}, func(row storage.Row) error {
			var isKey bool
			var id, owner string
			err := row.Scan(&isKey, &id, &owner)
			if isKey {
				ofKey[id] = owner
			} else {
				ofDevice[id] = owner
			}
			return err
		})
	return ofKey, ofDevice, err
}

// UserExists reports whether userID is a user who is not disabled.
func UserExists(tx storage.Tx, userID string) (bool, error) {
	found, err := tx.Get(`SELECT 1 FROM users WHERE id = $1 AND disabled_at IS NULL`, []any{userID}, new(int))
	if err != nil {
		return false, fmt.Errorf("look for user: %w", err)
	}
	return found, nil
}

// UserByEmail answers the user with an e-mail address, in whatever case, who is not disabled.
func UserByEmail(tx storage.Tx, email string) (id string, found bool, err error) {
	address, ok := canonicalEmail(email)
	if !ok {
		return "", false, nil
	}
	found, err = tx.Get(`SELECT id FROM users WHERE email = $1 AND disabled_at IS NULL`, []any{address}, &id)
	if err != nil {
		return "", false, fmt.Errorf("look for user by e-mail: %w", err)
	}
	return id, found, nil
}

// ClearPushToken forgets the push token of a device, if it still is token (SS-DSP-3).
func ClearPushToken(tx storage.Tx, deviceID, token string) error {
	err := tx.Exec(`UPDATE devices SET push_token = NULL WHERE id = $1 AND push_token = $2`, deviceID, token)
	if err != nil {
		return fmt.Errorf("clear push token: %w", err)
	}
	return nil
}
