package workspace

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

const (
	// maxMentions is how many principals groups mention in a message; groups may have more members: those with
	// the smallest ids among who may read are mentioned. Whom a handle names is mentioned always.
	maxMentions = 1000
	// maxAsked is how many members of groups are looked at for those who may read.
	maxAsked = 10 * maxMentions
)

const (
	handlesQuery = `SELECT id FROM principals WHERE handle = ANY($1) ORDER BY id`
	membersQuery = `SELECT DISTINCT m.principal_id FROM principal_groups g JOIN group_members m ON m.group_id = g.id
	 WHERE (lower(g.name) = ANY($1) OR g.name = ANY($2)) AND (m.expires_at IS NULL OR m.expires_at > $3) AND m.principal_id > $4
	 ORDER BY m.principal_id LIMIT $5`
)

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
	named, err := idsOf(tx, handlesQuery, lower)
	if err != nil {
		return nil, err
	}
	ids, err := readersAmong(tx, place, named)
	if err != nil {
		return nil, err
	}
	members, err := membersOf(tx, place, lower, names)
	if err != nil {
		return nil, err
	}
	ids = append(ids, members...)
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// membersOf answers the members of groups who may read the channel.
func membersOf(tx storage.Tx, place authz.Place, lower, names []string) ([]string, error) {
	var ids []string
	after := ""
	for asked := 0; asked < maxAsked && len(ids) < maxMentions; asked += maxMentions {
		members, err := idsOf(tx, membersQuery, lower, names, tx.Now(), after, maxMentions)
		if err != nil {
			return nil, err
		}
		readers, err := readersAmong(tx, place, members)
		if err != nil {
			return nil, err
		}
		ids = append(ids, readers...)
		if len(members) < maxMentions {
			break
		}
		after = members[len(members)-1]
	}
	return ids[:min(len(ids), maxMentions)], nil
}

func idsOf(tx storage.Tx, query string, args ...any) ([]string, error) {
	var ids []string
	err := tx.Query(query, args, func(row storage.Row) error {
		var id string
		err := row.Scan(&id)
		ids = append(ids, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for who is mentioned: %w", err)
	}
	return ids, nil
}

// readersAmong answers those of the principals who may read the channel, in their order.
func readersAmong(tx storage.Tx, place authz.Place, ids []string) ([]string, error) {
	among := make([]string, 0, len(ids))
	if len(ids) == 0 {
		return among, nil
	}
	readers, err := authz.ReadersOf(tx, place, ids)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if readers[id] {
			among = append(among, id)
		}
	}
	return among, nil
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
