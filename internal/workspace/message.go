package workspace

import (
	"encoding/json"
	"fmt"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// PlacedMessage is a message with its thread. Attachments, reactions and whether it is pinned are filled in
// by Complete.
type PlacedMessage struct {
	wire.Message

	Thread PlacedThread
	// FileIDs are its attachments, in order.
	FileIDs []string
}

// resource is the message in permissions.
func (m *PlacedMessage) resource() authz.Resource {
	return authz.Resource{What: "Message", Place: m.Thread.Place, Owner: m.Author.ID}
}

const messageColumns = `m.id, m.thread_id, m.thread_seq, m.author_id, m.author_kind, m.client_msg_id, m.origin, m.kind, m.content_md,
	m.reply_to_id, m.file_ids, m.mention_ids, m.components, m.trigger_state, m.trigger_state_reason, m.created_at, m.edited_at,
	m.deleted_at, m.version`

// scanMessage reads messageColumns; its channel is of its thread.
func scanMessage(row storage.Row, m *PlacedMessage) error {
	var clientMsgID, replyTo, trigger, reason *string
	var files, mentions, components []byte
	err := row.Scan(&m.ID, &m.ThreadID, &m.ThreadSeq, &m.Author.ID, &m.Author.Kind, &clientMsgID, &m.Origin, &m.Kind, &m.ContentMD,
		&replyTo, &files, &mentions, &components, &trigger, &reason, &m.CreatedAt, &m.EditedAt, &m.DeletedAt, &m.Version)
	if err != nil {
		return err
	}
	m.ClientMsgID, m.ReplyToID, m.TriggerState, m.TriggerStateReason = valueOf(clientMsgID), valueOf(replyTo), valueOf(trigger), valueOf(reason)
	m.Attachments, m.Reactions = []wire.File{}, []wire.Reaction{}
	m.MentionIDs, m.Components = []string{}, []json.RawMessage{}
	return decodeLists(map[string]list{"file_ids": {files, &m.FileIDs}, "mention_ids": {mentions, &m.MentionIDs}, "components": {components, &m.Components}})
}

// list is a stored JSON list; NULL is the empty one.
type list struct {
	stored []byte
	into   any
}

func decodeLists(lists map[string]list) error {
	for name, l := range lists {
		if l.stored == nil {
			continue
		}
		if err := json.Unmarshal(l.stored, l.into); err != nil {
			return fmt.Errorf("decode %s: %w", name, err)
		}
	}
	return nil
}

// encodeIDs is what a list of ids is stored as.
func encodeIDs(ids []string) any {
	if len(ids) == 0 {
		return nil
	}
	encoded, err := json.Marshal(ids)
	if err != nil {
		panic(fmt.Sprintf("encode ids: %v", err)) // strings always encode
	}
	return encoded
}

// MessagePlace reads a message with its thread; found is false when there is none.
func MessagePlace(tx storage.Tx, id string) (message PlacedMessage, found bool, err error) {
	all, err := MessagesByID(tx, []string{id})
	if err != nil || len(all) == 0 {
		return PlacedMessage{}, false, err
	}
	return all[0], true, nil
}

// MessagesByID reads messages with their threads, in no particular order; ids without one are left out.
func MessagesByID(tx storage.Tx, ids []string) ([]PlacedMessage, error) {
	var threads []string
	var messages []PlacedMessage
	err := tx.Query(`SELECT `+messageColumns+` FROM messages m WHERE m.id = ANY($1)`, []any{ids}, func(row storage.Row) error {
		var m PlacedMessage
		err := scanMessage(row, &m)
		messages, threads = append(messages, m), append(threads, m.ThreadID)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read messages: %w", err)
	}
	places, err := threadsByID(tx, threads)
	if err != nil {
		return nil, err
	}
	for i := range messages {
		messages[i].Thread = places[messages[i].ThreadID]
		messages[i].ChannelID = messages[i].Thread.ChannelID
	}
	return messages, nil
}

func threadsByID(tx storage.Tx, ids []string) (map[string]PlacedThread, error) {
	threads := make(map[string]PlacedThread, len(ids))
	if len(ids) == 0 {
		return threads, nil
	}
	err := tx.Query(`SELECT `+threadColumns+threadTables+` WHERE t.id = ANY($1)`, []any{ids}, func(row storage.Row) error {
		var thread PlacedThread
		err := scanThread(row, &thread)
		threads[thread.ID] = thread
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read threads: %w", err)
	}
	return threads, nil
}

// AuthorizedMessage reads a message that the caller may do something to; what it does not see is not_found.
func AuthorizedMessage(tx storage.Tx, by authz.Caller, a action.Action, id string) (PlacedMessage, *authz.Snapshot, error) {
	message, found, err := MessagePlace(tx, id)
	if err != nil {
		return message, nil, err
	}
	if !found {
		return message, nil, fault.Missing("Message")
	}
	snapshot, err := authz.Check(tx, by, a, message.resource())
	return message, snapshot, err
}

// Complete fills in the attachments, reactions and pins of messages. Me is set on the reactions of viewer;
// for events viewer is empty.
func Complete(tx storage.Tx, viewer string, messages ...*PlacedMessage) error {
	byID := make(map[string]*PlacedMessage, len(messages))
	ids := make([]string, 0, len(messages))
	for _, m := range messages {
		if m.DeletedAt == nil {
			byID[m.ID] = m
			ids = append(ids, m.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	if err := addReactions(tx, viewer, ids, byID); err != nil {
		return err
	}
	err := tx.Query(`SELECT message_id FROM pins WHERE message_id = ANY($1)`, []any{ids}, func(row storage.Row) error {
		var id string
		err := row.Scan(&id)
		if err == nil {
			byID[id].Pinned = true
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("read pins: %w", err)
	}
	return addAttachments(tx, byID)
}

// addReactions counts them, the emoji that was used first in front.
func addReactions(tx storage.Tx, viewer string, ids []string, byID map[string]*PlacedMessage) error {
	err := tx.Query(`SELECT message_id, emoji, count(*), max(CASE WHEN principal_id = $2 THEN 1 ELSE 0 END) FROM reactions
		WHERE message_id = ANY($1) GROUP BY message_id, emoji ORDER BY message_id, min(created_at), emoji`, []any{ids, viewer},
		func(row storage.Row) error {
			var id string
			var r wire.Reaction
			var me int64
			if err := row.Scan(&id, &r.Emoji, &r.Count, &me); err != nil {
				return err
			}
			r.Me = me > 0
			byID[id].Reactions = append(byID[id].Reactions, r)
			return nil
		})
	if err != nil {
		return fmt.Errorf("count reactions: %w", err)
	}
	return nil
}

func addAttachments(tx storage.Tx, messages map[string]*PlacedMessage) error {
	var ids []string
	for _, m := range messages {
		ids = append(ids, m.FileIDs...)
	}
	files, err := filesByID(tx, ids)
	if err != nil {
		return err
	}
	for _, m := range messages {
		m.Attachments = attachments(m.FileIDs, files)
	}
	return nil
}

func attachments(ids []string, files map[string]wire.File) []wire.File {
	all := make([]wire.File, 0, len(ids))
	for _, id := range ids {
		if file, ok := files[id]; ok {
			all = append(all, file)
		}
	}
	return all
}
