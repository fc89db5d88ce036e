package signin

import (
	"fmt"
	"time"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/identity/token"
	"github.com/cairnsync/cairn/internal/storage"
)

// Why a sign-in ended, as it is stored.
const (
	endedByLogout  = "logout"
	endedByReuse   = "reuse"   // somebody showed a refresh token that was replaced
	endedByKey     = "key"     // its device took another key
	endedByCrowd   = "crowd"   // the device had too many
	endedByRestore = "restore" // nobody knows what happened since the backup
)

// signInRow is a row of sign_ins.
type signInRow struct {
	id, user, device, thumbprint string
	authTime                     time.Time
	family                       string
	token                        token.Hash
	tokenExpiresAt               time.Time
	previous                     *string // hash of the token before
	previousUntil                *time.Time
	revoked                      bool
}

// readSignIn reads the sign-in for which a condition on $1 holds.
func readSignIn(tx storage.Tx, condition, value string) (row signInRow, found bool, err error) {
	var revokedAt *time.Time
	found, err = tx.Get(
		`SELECT id, user_id, device_id, dpop_jkt, auth_time, family, token_hash, token_expires_at, previous_hash, previous_until, revoked_at
		   FROM sign_ins WHERE `+condition, []any{value},
		&row.id, &row.user, &row.device, &row.thumbprint, &row.authTime, &row.family, &row.token, &row.tokenExpiresAt,
		&row.previous, &row.previousUntil, &revokedAt)
	if err != nil {
		return signInRow{}, false, fmt.Errorf("read sign-in: %w", err)
	}
	row.revoked = revokedAt != nil
	return row, found, nil
}

func (r *signInRow) insert(tx storage.Tx) error {
	err := tx.Exec(
		`INSERT INTO sign_ins (id, user_id, device_id, dpop_jkt, auth_time, family, token_hash, token_expires_at, created_at)
		 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		r.id, r.user, r.device, r.thumbprint, r.authTime, r.family, r.token, r.tokenExpiresAt, tx.Now())
	if err != nil {
		return fmt.Errorf("add sign-in: %w", err)
	}
	return nil
}

func (r *signInRow) update(tx storage.Tx) error {
	err := tx.Exec(
		`UPDATE sign_ins SET auth_time = $2, token_hash = $3, token_expires_at = $4, previous_hash = $5, previous_until = $6 WHERE id = $1`,
		r.id, r.authTime, r.token, r.tokenExpiresAt, r.previous, r.previousUntil)
	if err != nil {
		return fmt.Errorf("change sign-in: %w", err)
	}
	return nil
}

// rotate puts a new refresh token in the place of the current one, which stays good until until, unless the
// new one is used. It answers the text of the new one.
func (r *signInRow) rotate(e *env.Env, now time.Time, ttl time.Duration, until time.Time) string {
	before := string(r.token)
	r.previous, r.previousUntil = &before, &until
	return r.replace(e, now, ttl)
}

// replace puts a new refresh token in the place of one that never arrived.
func (r *signInRow) replace(e *env.Env, now time.Time, ttl time.Duration) string {
	refresh, text := token.NewRefresh(e, r.family)
	r.token, r.tokenExpiresAt = refresh.Secret, now.Add(ttl)
	return text
}

// isPrevious reports whether secret is of the token before the current one, and may still be used.
func (r *signInRow) isPrevious(secret token.Hash, now time.Time) bool {
	return r.previous != nil && *r.previous == string(secret) && r.previousUntil != nil && !now.After(*r.previousUntil)
}

// endSignIns ends the sign-ins for which a condition on $3 holds.
func endSignIns(tx storage.Tx, why, condition, value string) error {
	err := tx.Exec(`UPDATE sign_ins SET revoked_at = $1, revoked_reason = $2 WHERE revoked_at IS NULL AND `+condition, tx.Now(), why, value)
	if err != nil {
		return fmt.Errorf("end sign-ins: %w", err)
	}
	return nil
}

// endedKept is how long a sign-in that has ended is kept: somebody who shows its tokens learns that it was revoked.
const endedKept = 90 * 24 * time.Hour

// isCrowded reports whether a device has as many sign-ins as it may, so that one more ends the oldest.
func isCrowded(tx storage.Tx, device string) (bool, error) {
	var many int64
	_, err := tx.Get(`SELECT count(*) FROM sign_ins WHERE device_id = $1 AND revoked_at IS NULL`, []any{device}, &many)
	if err != nil {
		return false, fmt.Errorf("count sign-ins of device: %w", err)
	}
	return many >= maxSignInsOfDevice, nil
}

// forgetOldSignIns keeps the sign-ins of a person few: those of the device past maxSignInsOfDevice end, and
// rows go that mean nothing to anybody any more.
func forgetOldSignIns(tx storage.Tx, newest signInRow) error {
	err := tx.Exec(
		`UPDATE sign_ins SET revoked_at = $1, revoked_reason = $2 WHERE device_id = $3 AND revoked_at IS NULL AND id NOT IN (
		     SELECT id FROM sign_ins WHERE device_id = $3 AND revoked_at IS NULL ORDER BY created_at DESC, id DESC LIMIT $4)`,
		tx.Now(), endedByCrowd, newest.device, maxSignInsOfDevice)
	if err != nil {
		return fmt.Errorf("end sign-ins of device: %w", err)
	}
	err = tx.Exec(`DELETE FROM sign_ins WHERE user_id = $1 AND (token_expires_at < $2 OR revoked_at < $2)`, newest.user, tx.Now().Add(-endedKept))
	if err != nil {
		return fmt.Errorf("forget sign-ins: %w", err)
	}
	return nil
}
