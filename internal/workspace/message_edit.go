package workspace

import (
	"context"
	"fmt"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/idempotency"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace/place"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// fixed is what never changes about a message: it says what a write has to lock.
type fixed struct {
	threadID string
	fileIDs  []string
}

func (s *Service) fixedOf(ctx context.Context, id string) (fixed, error) {
	return storage.Read(ctx, s.db, func(tx storage.Tx) (fixed, error) {
		var f fixed
		var files []byte
		found, err := tx.Get(`SELECT thread_id, file_ids FROM messages WHERE id = $1`, []any{id}, &f.threadID, &files)
		if err != nil {
			return f, fmt.Errorf("read thread of message: %w", err)
		}
		if !found {
			return f, fault.Missing("Message")
		}
		return f, decodeLists(map[string]list{"file_ids": {files, &f.fileIDs}})
	})
}

// messageKeys locks a message for a change: first its thread.
func messageKeys(by authz.Caller, threadID, id string) []storage.Key {
	return []storage.Key{{Lock: storage.LockThreads, ID: threadID}, by.Lock(), {Lock: storage.LockMessages, ID: id}}
}

// EditMessage changes the wording of one's own message (ES-13.3). ifMatch is required. The wording before is
// kept; mentions are computed anew.
func (s *Service) EditMessage(ctx context.Context, by authz.Caller, id string, ifMatch *int64, in wire.EditMessage) (wire.Message, error) {
	if err := requireSomebody(by); err != nil {
		return wire.Message{}, err
	}
	if err := place.Text("/content_md", in.ContentMD, s.maxChars); err != nil {
		return wire.Message{}, err
	}
	id, err := place.PathID("Message", id)
	if err != nil {
		return wire.Message{}, err
	}
	known, err := s.fixedOf(ctx, id)
	if err != nil {
		return wire.Message{}, err
	}
	// The files, too: the event tells of them, and a file that is deleted leaves nothing behind in the log.
	keys := append(messageKeys(by, known.threadID, id), fileKeys(known.fileIDs)...)
	return storage.Write(ctx, s.db, keys, func(tx storage.Tx) (wire.Message, error) {
		message, _, err := AuthorizedMessage(tx, by, action.MessageEdit, id)
		if err != nil {
			return wire.Message{}, err
		}
		return onceMessage(tx, by, func() (wire.Message, error) {
			if err := requireEditable(tx, by, &message, ifMatch); err != nil {
				return wire.Message{}, err
			}
			return s.edit(tx, by, &message, in.ContentMD)
		})
	})
}

func onceMessage(tx storage.Tx, by authz.Caller, change func() (wire.Message, error)) (wire.Message, error) {
	id := func(m wire.Message) string { return m.ID }
	return idempotency.OnceByID(tx, by.Key, change, id, func(id string) (wire.Message, error) {
		message, _, err := MessagePlace(tx, id)
		if err != nil {
			return wire.Message{}, err
		}
		err = Complete(tx, by.Principal, &message)
		return message.Message, err
	})
}

// requireEditable keeps the order of ES-13.3: a missing version, a deleted message, another version. The
// message comes back complete, as the caller sees it.
func requireEditable(tx storage.Tx, by authz.Caller, message *PlacedMessage, ifMatch *int64) error {
	switch {
	case ifMatch == nil:
		return fault.Unconditional()
	case message.DeletedAt != nil:
		return fault.New(code.MessageDeleted, "The message was deleted.")
	}
	if err := Complete(tx, by.Principal, message); err != nil {
		return err
	}
	return place.RequireVersion(ifMatch, message.Version, message.Message)
}

func (s *Service) edit(tx storage.Tx, by authz.Caller, message *PlacedMessage, content string) (wire.Message, error) {
	if err := s.checkContent(content, len(message.FileIDs) > 0); err != nil {
		return wire.Message{}, err
	}
	if content == message.ContentMD {
		return message.Message, nil
	}
	mentions, err := mentioned(tx, message.Thread.Place, content)
	if err != nil {
		return wire.Message{}, err
	}
	if err := keepRevision(tx, message); err != nil {
		return wire.Message{}, err
	}
	now := tx.Now()
	message.ContentMD, message.MentionIDs, message.EditedAt = content, mentions, &now
	message.Version++
	err = tx.Exec(`UPDATE messages SET content_md = $2, mention_ids = $3, edited_at = $4, version = $5 WHERE id = $1`,
		message.ID, content, encodeIDs(mentions), now, message.Version)
	if err != nil {
		return wire.Message{}, fmt.Errorf("edit message: %w", err)
	}
	if err := tx.Exec(`DELETE FROM message_mentions WHERE message_id = $1`, message.ID); err != nil {
		return wire.Message{}, fmt.Errorf("forget mentions: %w", err)
	}
	if err := storeMentions(tx, &message.Message); err != nil {
		return wire.Message{}, err
	}
	told := withoutMe(message.Message)
	return message.Message, s.tellMessage(tx, by, eventlog.MessageUpdated, &message.Thread, &told)
}

func keepRevision(tx storage.Tx, message *PlacedMessage) error {
	at := message.CreatedAt
	if message.EditedAt != nil {
		at = *message.EditedAt
	}
	err := tx.Exec(`INSERT INTO message_revisions (message_id, version, content_md, at) VALUES ($1, $2, $3, $4)`,
		message.ID, message.Version, message.ContentMD, at)
	if err != nil {
		return fmt.Errorf("keep revision of message: %w", err)
	}
	return nil
}

// withoutMe is the message as events carry it: the same for everybody.
func withoutMe(m wire.Message) wire.Message {
	reactions := make([]wire.Reaction, len(m.Reactions))
	for i, r := range m.Reactions {
		reactions[i] = wire.Reaction{Emoji: r.Emoji, Count: r.Count}
	}
	m.Reactions = reactions
	return m
}
