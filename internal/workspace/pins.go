package workspace

import (
	"context"
	"fmt"
	"strconv"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace/place"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Pin pins a message in its thread. Safe to repeat.
func (s *Service) Pin(ctx context.Context, by authz.Caller, threadID, messageID string) error {
	return s.pin(ctx, by, threadID, messageID, func(tx storage.Tx, message *PlacedMessage) error {
		if message.DeletedAt != nil {
			return fault.New(code.MessageDeleted, "The message was deleted.")
		}
		if message.Pinned {
			return nil
		}
		err := tx.Exec(`INSERT INTO pins (thread_id, message_id, pinned_by, created_at) VALUES ($1, $2, $3, $4)`,
			message.ThreadID, message.ID, by.Principal, tx.Now())
		if err != nil {
			return fmt.Errorf("pin message: %w", err)
		}
		return s.tellPin(tx, by, eventlog.PinAdded, message, true)
	})
}

// Unpin takes a Pin back. Safe to repeat.
func (s *Service) Unpin(ctx context.Context, by authz.Caller, threadID, messageID string) error {
	return s.pin(ctx, by, threadID, messageID, func(tx storage.Tx, message *PlacedMessage) error {
		if !message.Pinned {
			return nil
		}
		if err := tx.Exec(`DELETE FROM pins WHERE thread_id = $1 AND message_id = $2`, message.ThreadID, message.ID); err != nil {
			return fmt.Errorf("unpin message: %w", err)
		}
		return s.tellPin(tx, by, eventlog.PinRemoved, message, false)
	})
}

func (s *Service) pin(
	ctx context.Context, by authz.Caller, threadID, id string, change func(tx storage.Tx, message *PlacedMessage) error,
) error {
	threadID, err := place.PathID("Thread", threadID)
	if err != nil {
		return err
	}
	if id, err = place.PathID("Message", id); err != nil {
		return err
	}
	return s.db.Write(ctx, messageKeys(by, threadID, id), func(tx storage.Tx) error {
		message, _, err := AuthorizedMessage(tx, by, action.PinWrite, id)
		if err != nil {
			return err
		}
		if message.ThreadID != threadID {
			return fault.Missing("Message")
		}
		var one int64
		message.Pinned, err = tx.Get(`SELECT 1 FROM pins WHERE thread_id = $1 AND message_id = $2`, []any{threadID, id}, &one)
		if err != nil {
			return fmt.Errorf("read pin: %w", err)
		}
		return onceDone(tx, by, func() error { return change(tx, &message) })
	})
}

func (s *Service) tellPin(tx storage.Tx, by authz.Caller, kind string, message *PlacedMessage, pinned bool) error {
	payload := wire.PinEvent{MessageID: message.ID, ThreadID: message.ThreadID, Pinned: pinned}
	return s.log.Emit(tx, event(by, kind, message.Thread.Scope(), message.ID, 0, payload))
}

// Pins lists the pinned messages of a thread, by thread_seq.
func (s *Service) Pins(ctx context.Context, by authz.Caller, threadID string, paging Paging) (wire.Page[wire.Message], error) {
	none := wire.Page[wire.Message]{}
	after, err := afterNumber(paging, 0)
	if err != nil {
		return none, err
	}
	if threadID, err = place.PathID("Thread", threadID); err != nil {
		return none, err
	}
	return storage.Read(ctx, s.db, func(tx storage.Tx) (wire.Page[wire.Message], error) {
		thread, _, err := AuthorizedThread(tx, by, action.MessageRead, threadID)
		if err != nil {
			return none, err
		}
		messages, err := pinnedBehind(tx, by.Principal, &thread, after, paging.Size())
		return place.Page(messages, paging.Size(), func(m wire.Message) string { return strconv.FormatInt(m.ThreadSeq, 10) }), err
	})
}

// pinnedBehind answers one message more than the limit when there are more.
func pinnedBehind(tx storage.Tx, viewer string, thread *PlacedThread, after int64, limit int) ([]wire.Message, error) {
	const pinned = `m.thread_seq > $2 AND m.id IN (SELECT p.message_id FROM pins p WHERE p.thread_id = $1) ORDER BY m.thread_seq`
	found, _, err := messagesOf(tx, thread, pinned, after, limit+1)
	if err != nil {
		return nil, err
	}
	return completed(tx, viewer, found)
}
