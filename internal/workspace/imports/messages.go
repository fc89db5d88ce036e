package imports

import (
	"fmt"

	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func texts(names ...string) []storage.Column {
	columns := make([]storage.Column, len(names))
	for i, name := range names {
		columns[i] = storage.Column{Name: name, Type: storage.Text}
	}
	return columns
}

func numbers(names ...string) []storage.Column {
	columns := texts(names...)
	for i := range columns {
		columns[i].Type = storage.Bigint
	}
	return columns
}

var (
	messageTable = storage.Table{Name: "messages", Columns: append(
		texts("id", "thread_id", "author_id", "author_kind", "origin", "kind", "content_md", "reply_to_id", "import_id", "source_id"),
		numbers("thread_seq", "created_at", "edited_at", "version")...)}
	reactionTable = storage.Table{Name: "reactions", Columns: append(
		texts("message_id", "emoji", "principal_id"), numbers("created_at")...)}
	pinTable = storage.Table{Name: "pins", Columns: append(
		texts("thread_id", "message_id", "pinned_by"), numbers("created_at")...)}
)

// writeMessages writes messages with their reactions and pins behind what the thread has.
func (s *Service) writeMessages(a *application, fresh []*wire.ImportMessage) error {
	for _, m := range fresh {
		a.known[m.SourceID] = s.Env.NewID()
	}
	var messages, reactions, pins [][]any
	for i, m := range fresh {
		id := a.known[m.SourceID]
		by := a.authors[m.AuthorSourceID]
		var edited any
		if m.EditedAt != nil {
			edited = *m.EditedAt
		}
		messages = append(messages, []any{
			id, a.thread.ID, by.id, by.kind, wire.OriginImport, "text", m.ContentMD, optional(a.known[m.ReplyToSourceID]), a.imported.ID, m.SourceID,
			a.thread.LastMessageSeq + int64(i) + 1, m.CreatedAt, edited, int64(1),
		})
		reactions = append(reactions, a.reactions(id, m)...)
		if m.Pinned {
			pins = append(pins, []any{a.thread.ID, id, a.by.Principal, a.tx.Now()})
		}
	}
	if err := a.tx.Insert(messageTable, messages); err != nil {
		return fmt.Errorf("write messages: %w", err)
	}
	if err := a.tx.Insert(reactionTable, reactions); err != nil {
		return fmt.Errorf("write reactions: %w", err)
	}
	if err := a.tx.Insert(pinTable, pins); err != nil {
		return fmt.Errorf("write pins: %w", err)
	}
	return nil
}

// reactions lists the reactions to a message, each principal and emoji once: two authors of the source may
// be one person here.
func (a *application) reactions(messageID string, m *wire.ImportMessage) [][]any {
	var rows [][]any
	type key struct{ emoji, principal string }
	seen := map[key]bool{}
	for _, r := range m.Reactions {
		k := key{r.Emoji, a.authors[r.AuthorSourceID].id}
		if seen[k] {
			continue
		}
		seen[k] = true
		rows = append(rows, []any{messageID, k.emoji, k.principal, m.CreatedAt})
	}
	return rows
}
