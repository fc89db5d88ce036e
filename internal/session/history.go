package session

import (
	"context"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Audit lists what was done to a session that the caller owns, or owned before it was deleted,
// newest first, from behind the row with the id before on, "" for the newest (SS-AUD-1). Every
// session has such rows from its creation on.
func (s *Service) Audit(ctx context.Context, by Caller, sessionID, before string) ([]wire.AuditEntry, error) {
	return storage.Read(ctx, s.db, func(tx storage.Tx) ([]wire.AuditEntry, error) {
		entries, err := audit.OfSession(tx, sessionID, by.UserID, before)
		if err != nil || len(entries) > 0 || before != "" {
			return entries, err
		}
		sess, err := load(tx, sessionID)
		if err != nil {
			return nil, err
		}
		if sess == nil {
			return nil, sessionNotFound()
		}
		return nil, notAMember("")
	})
}
