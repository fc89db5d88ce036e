package eventlog

import (
	"fmt"
	"strings"

	"github.com/cairnsync/cairn/internal/storage"
)

// Filter is what a principal may possibly see (ES-7.2). It narrows the reading; whether an event is
// delivered is decided for each by its receive action.
type Filter struct {
	Principal    string
	Channels     []string // visible ones; those of FullSpaces need not be named
	Spaces       []string // with at least one visible channel, or a grant
	FullSpaces   []string // with a grant on the space
	InstanceWide bool     // owner, or a grant on the instance
	MovedThreads []string // threads that moved, after the cursor, to where the principal may see them
}

// Visible answers the events after a number up to and including upTo that filter lets through, in order,
// at most limit. Fewer than limit means that everything up to upTo was looked at.
func Visible(tx storage.Tx, filter Filter, after, upTo int64, limit int) ([]*Record, error) {
	condition, args := filter.condition(after, upTo, limit)
	return query(tx, `SELECT `+columns+` FROM event_log WHERE seq > $1 AND seq <= $2 AND (`+condition+`) ORDER BY seq LIMIT $3`, args...)
}

// condition puts together only what this filter needs, because it is evaluated for every event of a backlog.
// There are few texts, so that each stays prepared. Nothing but seq is looked up in an index: the backlog is
// bounded, and no other order of reading is as fast for those who see much.
func (f Filter) condition(args ...any) (string, []any) {
	parameter := func(value any) string {
		args = append(args, value)
		return fmt.Sprintf("$%d", len(args))
	}
	var shared strings.Builder
	if !f.InstanceWide {
		shared.WriteString(" AND (channel_id = ANY(" + parameter(f.Channels) + ")")
		if len(f.FullSpaces) > 0 {
			shared.WriteString(" OR space_id = ANY(" + parameter(f.FullSpaces) + ")")
		}
		if len(f.MovedThreads) > 0 {
			shared.WriteString(" OR thread_id = ANY(" + parameter(f.MovedThreads) + ")")
		}
		shared.WriteString(" OR channel_id IS NULL AND (space_id IS NULL OR space_id = ANY(" + parameter(f.Spaces) + ")))")
	}
	return "audience_principal_id IS NULL" + shared.String() + " OR audience_principal_id = " + parameter(f.Principal), args
}

// Moves answers the threads that moved in events after a number. Events before a move name the channel the
// thread was in; what counts is the current one.
func Moves(tx storage.Tx, after int64) ([]string, error) {
	var threads []string
	err := tx.Query(`SELECT DISTINCT thread_id FROM thread_moves WHERE seq > $1`, []any{after}, func(row storage.Row) error {
		var id string
		err := row.Scan(&id)
		threads = append(threads, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read moved threads: %w", err)
	}
	return threads, nil
}
