package workspace

import (
	"context"
	"fmt"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace/place"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// MaxEmoji is how many different emoji people can give a message; the next one is a conflict.
const MaxEmoji = 100

// AddReaction reacts to a message. Safe to repeat.
func (s *Service) AddReaction(ctx context.Context, by authz.Caller, messageID, emoji string) error {
	return s.react(ctx, by, messageID, emoji, s.addReaction)
}

// RemoveReaction takes the caller's reaction back. Safe to repeat.
func (s *Service) RemoveReaction(ctx context.Context, by authz.Caller, messageID, emoji string) error {
	return s.react(ctx, by, messageID, emoji, s.removeReaction)
}

// standing is what reactions a message has, seen from one emoji and principal.
type standing struct {
	kinds int64 // different emoji
	count int64 // of this one
	mine  bool
}

type reacting func(tx storage.Tx, by authz.Caller, message *PlacedMessage, emoji string, now standing) error

func (s *Service) react(ctx context.Context, by authz.Caller, id, emoji string, change reacting) error {
	if err := requireSomebody(by); err != nil {
		return err
	}
	if err := place.Emoji("emoji", emoji); err != nil {
		return err
	}
	id, err := place.PathID("Message", id)
	if err != nil {
		return err
	}
	known, err := s.fixedOf(ctx, id)
	if err != nil {
		return err
	}
	// The thread, too: behind a move the event would name the channel that the thread has left.
	return s.db.Write(ctx, messageKeys(by, known.threadID, id), func(tx storage.Tx) error {
		message, _, err := AuthorizedMessage(tx, by, action.ReactionWrite, id)
		if err != nil {
			return err
		}
		return onceDone(tx, by, func() error {
			now, err := standingOf(tx, id, emoji, by.Principal)
			if err != nil {
				return err
			}
			return change(tx, by, &message, emoji, now)
		})
	})
}

func standingOf(tx storage.Tx, id, emoji, principal string) (standing, error) {
	var now standing
	var mine int64
	_, err := tx.Get(`SELECT count(DISTINCT emoji), count(CASE WHEN emoji = $2 THEN 1 END),
			count(CASE WHEN emoji = $2 AND principal_id = $3 THEN 1 END) FROM reactions WHERE message_id = $1`,
		[]any{id, emoji, principal}, &now.kinds, &now.count, &mine)
	if err != nil {
		return now, fmt.Errorf("count reactions: %w", err)
	}
	now.mine = mine > 0
	return now, nil
}

func (s *Service) addReaction(tx storage.Tx, by authz.Caller, message *PlacedMessage, emoji string, now standing) error {
	switch {
	case message.DeletedAt != nil:
		return fault.New(code.MessageDeleted, "The message was deleted.")
	case now.mine:
		return nil
	case now.count == 0 && now.kinds >= MaxEmoji:
		return fault.New(code.Conflict, "The message has %d different reactions and can have no more.", MaxEmoji)
	}
	err := tx.Exec(`INSERT INTO reactions (message_id, emoji, principal_id, created_at) VALUES ($1, $2, $3, $4)`,
		message.ID, emoji, by.Principal, tx.Now())
	if err != nil {
		return fmt.Errorf("add reaction: %w", err)
	}
	return s.tellReaction(tx, by, eventlog.ReactionAdded, message, emoji, now.count+1)
}

func (s *Service) removeReaction(tx storage.Tx, by authz.Caller, message *PlacedMessage, emoji string, now standing) error {
	if !now.mine {
		return nil
	}
	err := tx.Exec(`DELETE FROM reactions WHERE message_id = $1 AND emoji = $2 AND principal_id = $3`, message.ID, emoji, by.Principal)
	if err != nil {
		return fmt.Errorf("remove reaction: %w", err)
	}
	return s.tellReaction(tx, by, eventlog.ReactionRemoved, message, emoji, now.count-1)
}

// tellReaction carries the absolute count and no version: a reaction changes nothing that an edit builds on
// (ES-9.3).
func (s *Service) tellReaction(tx storage.Tx, by authz.Caller, kind string, message *PlacedMessage, emoji string, count int64) error {
	payload := wire.ReactionEvent{
		MessageID: message.ID, ThreadID: message.ThreadID, Emoji: emoji, PrincipalID: by.Principal, Count: count,
	}
	return s.log.Emit(tx, event(by, kind, message.Thread.Scope(), message.ID, 0, payload))
}
