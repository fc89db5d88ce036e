package workspace

import (
	"context"
	"fmt"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/idempotency"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace/place"
)

// DeleteMessage leaves a tombstone: one's own message, or with manage anybody's (ES-13.3). Its content goes
// from its row, its revisions, mentions, reactions, pins and earlier events, and its attachments go when no
// other message holds them. Safe to repeat.
func (s *Service) DeleteMessage(ctx context.Context, by authz.Caller, id string) error {
	id, err := place.PathID("Message", id)
	if err != nil {
		return err
	}
	known, err := s.fixedOf(ctx, id)
	if err != nil {
		return err
	}
	keys := append(messageKeys(by, known.threadID, id), fileKeys(known.fileIDs)...)
	return s.db.Write(ctx, keys, func(tx storage.Tx) error {
		message, _, err := AuthorizedMessage(tx, by, action.MessageDelete, id)
		if err != nil {
			return err
		}
		return onceDone(tx, by, func() error {
			if message.DeletedAt != nil {
				return nil
			}
			return s.bury(tx, by, &message)
		})
	})
}

// onceDone is idempotency.Once for a change without an answer.
func onceDone(tx storage.Tx, by authz.Caller, change func() error) error {
	_, err := idempotency.Once(tx, by.Key, func() (struct{}, error) { return struct{}{}, change() })
	return err
}

func (s *Service) bury(tx storage.Tx, by authz.Caller, message *PlacedMessage) error {
	now := tx.Now()
	files := message.FileIDs
	message.Message = eventlog.Tombstone(message.Message, now)
	message.Version++
	message.FileIDs = nil
	if err := forget(tx, message); err != nil {
		return err
	}
	message.Thread.MessageCount--
	message.Thread.Version++
	if err := moveThreadOn(tx, &message.Thread); err != nil {
		return err
	}
	if err := s.log.Redact(tx, message.ID, now); err != nil {
		return err
	}
	if message.Author.ID != by.Principal {
		detail := map[string]string{"thread_id": message.ThreadID, "author_id": message.Author.ID}
		if err := s.audit(tx, by, auditMessageDelete, "message", message.ID, detail); err != nil {
			return err
		}
	}
	if err := s.tellMessage(tx, by, eventlog.MessageDeleted, &message.Thread, &message.Message); err != nil {
		return err
	}
	return s.detach(tx, by, message.ID, files)
}

// forget takes the content from every row about a message. What an earlier request was is kept as a hash, so
// that a repeat of it finds the tombstone.
func forget(tx storage.Tx, message *PlacedMessage) error {
	err := tx.Exec(`UPDATE messages SET content_md = '', file_ids = NULL, mention_ids = NULL, components = NULL, deleted_at = $2, version = $3
		WHERE id = $1`, message.ID, message.DeletedAt, message.Version)
	if err != nil {
		return fmt.Errorf("empty message: %w", err)
	}
	for _, table := range []string{"message_revisions", "message_mentions", "reactions", "pins"} {
		if err := tx.Exec(`DELETE FROM `+table+` WHERE message_id = $1`, message.ID); err != nil {
			return fmt.Errorf("delete %s of message: %w", table, err)
		}
	}
	return nil
}
