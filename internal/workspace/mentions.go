package workspace

import (
	"fmt"
	"strings"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// maxMentions is how many principals a message mentions; a group may have more members: those with the
// smallest ids are mentioned.
const maxMentions = 1000

const namedQuery = `SELECT id FROM principals WHERE handle = ANY($1)
	UNION SELECT m.principal_id FROM principal_groups g JOIN group_members m ON m.group_id = g.id
	       WHERE (lower(g.name) = ANY($1) OR g.name = ANY($2)) AND (m.expires_at IS NULL OR m.expires_at > $3)
	ORDER BY 1 LIMIT $4`

// mentioned answers the principals a text mentions: by handle or by group, outside of code, and only those
// who may read the channel at this moment.
func mentioned(tx storage.Tx, place authz.Place, content string) ([]string, error) {
	names := mentionsIn(content)
	if len(names) == 0 {
		return []string{}, nil
	}
	lower := make([]string, len(names))
	for i, name := range names {
		lower[i] = strings.ToLower(name)
	}
	var named []string
	err := tx.Query(namedQuery, []any{lower, names, tx.Now(), maxMentions}, func(row storage.Row) error {
		var id string
		err := row.Scan(&id)
		named = append(named, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for who is mentioned: %w", err)
	}
	if len(named) == 0 {
		return []string{}, nil
	}
	readers, err := authz.ReadersOf(tx, place, named)
	if err != nil {
		return nil, err
	}
	ids := make([]string, 0, len(readers))
	for _, id := range named {
		if readers[id] {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

var mentionTable = storage.Table{Name: "message_mentions", Columns: []storage.Column{
	{Name: "principal_id", Type: storage.Text},
	{Name: "thread_id", Type: storage.Text},
	{Name: "thread_seq", Type: storage.Bigint},
	{Name: "message_id", Type: storage.Text},
}}

func storeMentions(tx storage.Tx, m *wire.Message) error {
	rows := make([][]any, len(m.MentionIDs))
	for i, id := range m.MentionIDs {
		rows[i] = []any{id, m.ThreadID, m.ThreadSeq, m.ID}
	}
	if err := tx.Insert(mentionTable, rows); err != nil {
		return fmt.Errorf("store mentions: %w", err)
	}
	return nil
}
