package eventlog

import (
	"errors"
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

// maxWindow is how many events one statement of Visible looks at, and no more.
const maxWindow = 8192

// ErrTrimmed says that events behind a number were removed from the log (ES-7.3).
var ErrTrimmed = errors.New("events were removed from the log")

// PageBytes is about how many bytes of payloads a page has at most: it ends with the event that reaches them.
const PageBytes = 1 << 20

// How many events the first statement of a page asks for, which shows how large they are, and the others at least.
const (
	firstRows = 64
	leastRows = 16
)

// Visible answers the events after a number up to and including upTo that filter lets through, in order, at most limit and
// about PageBytes, and up to which number it has looked at everything. It is ErrTrimmed where some of them are not in the
// log any more.
//
// It goes in short stretches, which grow while they hold little: PostgreSQL cannot know how many events a
// filter lets through, and over a long stretch it would at times sort all of it for the sake of one page.
func Visible(tx storage.Tx, filter Filter, after, upTo int64, limit int) (records []*Record, checked int64, err error) {
	if err := complete(tx, after); err != nil {
		return nil, 0, err
	}
	window, rows, bytes := int64(limit), firstRows, 0
	for after < upTo && len(records) < limit && bytes < PageBytes {
		end := min(after+window, upTo)
		rows = min(rows, limit-len(records))
		condition, args := filter.condition(after, end, rows)
		found, size, err := queryUpTo(tx, PageBytes-bytes,
			`SELECT `+columns+` FROM event_log WHERE seq > $1 AND seq <= $2 AND (`+condition+`) ORDER BY seq LIMIT $3`, args...)
		if err != nil {
			return nil, 0, err
		}
		records, bytes = append(records, found...), bytes+size
		if len(found) == rows || bytes >= PageBytes {
			after = found[len(found)-1].Seq
		} else if after = end; int64(len(found)) < window/2 {
			window = min(2*window, maxWindow)
		}
		if bytes > 0 {
			rows = max(leastRows, (PageBytes-bytes)*len(records)/bytes)
		}
	}
	return records, after, nil
}

// complete answers ErrTrimmed unless the log has every event after a number.
func complete(tx storage.Tx, after int64) error {
	var oldest int64
	if _, err := tx.Get(`SELECT min_retained_seq FROM instance`, nil, &oldest); err != nil {
		return fmt.Errorf("read beginning of the log: %w", err)
	}
	if after < oldest-1 {
		return fmt.Errorf("read events after %d, where the first is %d: %w", after, oldest, ErrTrimmed)
	}
	return nil
}

// condition puts together only what this filter needs, because it is evaluated for every event of a backlog.
// There are few texts, so that each stays prepared. Nothing but seq is looked up in an index: a backlog is
// bounded, and further indexes would cost every write.
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
