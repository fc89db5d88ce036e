package session

import (
	"context"
	"errors"
	"time"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// NewSession is what a client says of a session it opens.
type NewSession struct {
	SessionKey string // "" for a random one
	Title      *string
	E2E        bool
}

// Create opens a session, or answers the one that has the key already, as it is (SS-SES-1): the
// caller's own with that session_key, or the one whose id the key equals. It reports whether the
// session is new.
//
// Concurrent calls with one key are serialised by a lock on the user, so exactly one creates.
func (s *Service) Create(ctx context.Context, by Caller, in NewSession) (wire.Session, bool, error) {
	type outcome struct {
		session wire.Session
		created bool
	}
	keys := []storage.Key{{Lock: storage.LockUsers, ID: by.UserID}}
	out, err := storage.Write(ctx, s.db, keys, func(tx storage.Tx) (outcome, error) {
		existing, err := s.existing(tx, by, in.SessionKey)
		if err != nil {
			return outcome{}, err
		}
		if existing != nil {
			return outcome{session: existing.Session}, nil
		}
		sess := s.newRecord(by, in, tx.Now())
		if err := insertSession(tx, sess); err != nil {
			return outcome{}, err
		}
		err = s.audit(tx, by, sess, audit.SessionCreate, map[string]string{"session_key": sess.SessionKey})
		return outcome{session: sess.Session, created: true}, err
	})
	return out.session, out.created, err
}

// existing finds the session a key stands for: never a twin of one whose id it is.
//
//nolint:nilnil // no session is an answer
func (s *Service) existing(tx storage.Tx, by Caller, key string) (*record, error) {
	if key == "" {
		return nil, nil
	}
	var own string
	found, err := tx.Get(`SELECT id FROM sessions WHERE owner_user_id = $1 AND session_key = $2`, []any{by.UserID, key}, &own)
	if err != nil {
		return nil, err
	}
	if found {
		return load(tx, own)
	}
	id, isUUID := env.ParseID(key)
	if !isUUID {
		return nil, nil
	}
	sess, err := open(tx, by, id, wire.RoleViewer)
	if errors.Is(err, errStale) {
		return nil, nil
	}
	return sess, err
}

func (s *Service) newRecord(by Caller, in NewSession, now time.Time) *record {
	sess := &record{role: wire.RoleOwner, Session: wire.Session{
		ID: s.env.RandomID(), SessionKey: in.SessionKey, OwnerUserID: by.UserID, Title: in.Title,
		CreatedAt: wire.Time{Time: now}, LastEventAt: wire.Time{Time: now}, E2E: in.E2E,
	}}
	if sess.SessionKey == "" {
		sess.SessionKey = s.env.RandomID()
	}
	return sess
}

func insertSession(tx storage.Tx, sess *record) error {
	return tx.Exec(`INSERT INTO sessions (id, owner_user_id, session_key, title, e2e, archived, created_at, last_event_at,
		last_seq, lease_revision, control_revision, access_version) VALUES ($1, $2, $3, $4, $5, $6, $7, $7, 0, 0, 0, 0)`,
		sess.ID, sess.OwnerUserID, sess.SessionKey, sess.Title, sess.E2E, false, sess.CreatedAt.Time)
}

// Patch says what to change of a session; what is not set stays.
type Patch struct {
	SetTitle bool
	Title    *string
	Archived *bool
}

// Update changes a session's title or archives it (SS-SES-5).
func (s *Service) Update(ctx context.Context, by Caller, ref string, patch Patch) (wire.Session, error) {
	return write(ctx, s, by, ref, wire.RoleOwner, func(tx storage.Tx, sess *record) (wire.Session, error) {
		if patch.SetTitle {
			sess.Title = patch.Title
		}
		if patch.Archived != nil {
			sess.Archived = *patch.Archived
		}
		if err := tx.Exec(`UPDATE sessions SET title = $1, archived = $2 WHERE id = $3`, sess.Title, sess.Archived, sess.ID); err != nil {
			return wire.Session{}, err
		}
		detail := map[string]any{}
		if patch.SetTitle {
			detail["title"] = patch.Title
		}
		if patch.Archived != nil {
			detail["archived"] = *patch.Archived
		}
		return sess.Session, s.audit(tx, by, sess, audit.SessionPatch, detail)
	})
}

// Delete removes a session with its events, controls, lease and shares, and answers its id. Its
// audit outlives it (SS-SES-5). Streams of it end (SS-ROLE-2).
func (s *Service) Delete(ctx context.Context, by Caller, ref string) (string, error) {
	return write(ctx, s, by, ref, wire.RoleOwner, func(tx storage.Tx, sess *record) (string, error) {
		detail := map[string]any{"session_key": sess.SessionKey, "last_seq": sess.LastSeq}
		if err := s.audit(tx, by, sess, audit.SessionDelete, detail); err != nil {
			return "", err
		}
		if err := tx.Exec(`DELETE FROM sessions WHERE id = $1`, sess.ID); err != nil {
			return "", err
		}
		if err := tx.Exec(`INSERT INTO session_trash (session_id) VALUES ($1)`, sess.ID); err != nil {
			return "", err
		}
		sess.accessVersion++ // announces the change; viewers find the session gone
		return sess.ID, nil
	})
}

// HasTrash reports whether deleted sessions left something behind.
func HasTrash(tx storage.Tx) (bool, error) {
	return tx.Get(`SELECT session_id FROM session_trash LIMIT 1`, nil, new(string))
}

// trashStep is how many rows EmptyTrash removes at once, so that it never holds the writers up.
const trashStep = 2000

// EmptyTrash removes some of what deleted sessions left behind, and reports whether there is more.
func EmptyTrash(tx storage.Tx) (bool, error) {
	var id string
	// Another node that empties the same session is left alone: waiting for its rows would make this
	// one believe that there are none.
	found, err := tx.Get(`SELECT session_id FROM session_trash ORDER BY session_id LIMIT 1 FOR UPDATE SKIP LOCKED`, nil, &id)
	if err != nil || !found {
		return false, err
	}
	events, err := tx.Changed(`DELETE FROM session_events WHERE session_id = $1 AND seq IN (
		SELECT seq FROM session_events WHERE session_id = $1 ORDER BY seq LIMIT $2)`, id, trashStep)
	if err != nil || events > 0 {
		return true, err
	}
	controls, err := tx.Changed(`DELETE FROM session_controls WHERE session_id = $1 AND id IN (
		SELECT id FROM session_controls WHERE session_id = $1 ORDER BY id LIMIT $2)`, id, trashStep)
	if err != nil || controls > 0 {
		return true, err
	}
	return true, tx.Exec(`DELETE FROM session_trash WHERE session_id = $1`, id)
}
