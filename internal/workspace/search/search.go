// Package search finds messages by their words, in what the caller may read (workspace specification,
// section 4).
//
// Contract. A query's words must all stand in a message, the last one at least as a beginning; upper and lower
// case and accents make no difference. Answers come newest first and hold only messages that exist and that
// the caller may read at that moment, whatever the index says: each is looked up in the rows that are true.
// The index follows the event log off the path of writes, some tenths of a second behind; a deletion and an
// edit take their words out of it, and a thread that moved counts to its current channel.
//
// Order. The Indexer reads the log in order and moves its cursor in the transaction that changes the index;
// reading an event twice changes nothing. When its cursor is no place in the log (removed events, another
// timeline) it walks all messages once instead.
//
// The index is the one each engine brings, FTS5 and GIN: see docs/adr/0015-search.md.
//
// Blocking and concurrency. A Service is safe for concurrent use; operations wait for the database only. An
// Indexer is one goroutine between Start and Stop; of several nodes the one that moves the cursor first
// counts, the others look again.
package search

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace/place"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

const (
	// MaxQuery is the longest query, in characters.
	MaxQuery = 200
	// MaxWords is how many different words a query has at most.
	MaxWords = 16
	// candidates is how many entries of the index one step looks at. Almost all of them are answers: the rest
	// moved or went a moment ago.
	candidates = 200
	// maxSteps bounds the steps of one request.
	maxSteps = 20
)

// Options are what a Service needs.
type Options struct {
	DB storage.DB
	// Load answers messages by their ids as the caller sees them, in any order; ids that name nothing any
	// more are missing in the answer.
	Load func(tx storage.Tx, by authz.Caller, ids []string) ([]wire.Message, error)
}

// Service answers queries. Make it with New.
type Service struct {
	Options

	index index
}

// New makes the service.
func New(o Options) *Service { return &Service{o, indexOf(o.DB)} }

// Search answers messages with all words of query that the caller may read, newest first.
func (s *Service) Search(ctx context.Context, by authz.Caller, query string, p place.Paging) (wire.Page[wire.Message], error) {
	none := wire.Page[wire.Message]{}
	if err := place.Text("q", query, MaxQuery); err != nil {
		return none, err
	}
	words := wordsOf(query)
	if len(words) == 0 {
		return none, fault.Invalid("q", "must hold a word")
	}
	if len(words) > MaxWords {
		return none, fault.Invalid("q", "must have at most %d words", MaxWords)
	}
	before, err := cursor(p.After)
	if err != nil {
		return none, err
	}
	return storage.Read(ctx, s.DB, func(tx storage.Tx) (wire.Page[wire.Message], error) {
		snapshot, err := authz.Check(tx, by, action.SearchRead, authz.Resource{What: "Search"})
		if err != nil {
			return none, err
		}
		hits, err := s.hits(tx, snapshot, words, before, p.Size()+1)
		if err != nil {
			return none, err
		}
		return s.page(tx, by, hits, p.Size())
	})
}

// cursor reads where the page begins: below a number of the index.
func cursor(after string) (int64, error) {
	if after == "" {
		return maxDoc, nil
	}
	doc, err := strconv.ParseInt(after, 10, 64)
	if err != nil || doc < 0 {
		return 0, place.BadCursor()
	}
	return doc, nil
}

// hit is a message that is an answer.
type hit struct {
	doc int64
	id  string
}

// hits answers up to most messages below a number of the index.
func (s *Service) hits(tx storage.Tx, snapshot *authz.Snapshot, words []string, before int64, most int) ([]hit, error) {
	where, anything := marksOf(tx, snapshot)
	if !anything {
		return nil, nil
	}
	var all []hit
	for range maxSteps {
		docs, err := s.index.find(tx, words, where, before, candidates)
		if err != nil || len(docs) == 0 {
			return all, err
		}
		found, err := readable(tx, snapshot, docs)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
		if len(all) >= most {
			return all[:most], nil
		}
		if len(docs) < candidates {
			return all, nil
		}
		before = docs[len(docs)-1]
	}
	return all, nil
}

// marksOf answers the places a snapshot sees as the index marks them, none for everything.
func marksOf(tx storage.Tx, snapshot *authz.Snapshot) (marks []string, anything bool) {
	now := tx.Now()
	if snapshot.SeesEverything(now) {
		return nil, true
	}
	for _, id := range snapshot.GrantedSpaces(now) {
		marks = append(marks, mark(id))
	}
	for _, id := range snapshot.GrantedChannels(now) {
		marks = append(marks, mark(id))
	}
	slices.Sort(marks)
	return marks, len(marks) > 0
}

// readable keeps what exists and may be read, newest first.
func readable(tx storage.Tx, snapshot *authz.Snapshot, docs []int64) ([]hit, error) {
	var found []hit
	now := tx.Now()
	err := tx.Query(
		`SELECT d.doc, m.id, m.author_id, c.id, c.space_id, c.archived_at IS NOT NULL, c.read_only, s.archived_at IS NOT NULL
		   FROM search_docs d JOIN messages m ON m.id = d.message_id JOIN threads t ON t.id = m.thread_id
		   JOIN channels c ON c.id = t.channel_id JOIN spaces s ON s.id = c.space_id
		  WHERE d.doc = ANY($1) AND m.deleted_at IS NULL ORDER BY d.doc DESC`,
		[]any{docs}, func(row storage.Row) error {
			var h hit
			resource := authz.Resource{What: "Message"}
			err := row.Scan(&h.doc, &h.id, &resource.Owner, &resource.ChannelID, &resource.SpaceID, &resource.Archived, &resource.ReadOnly,
				&resource.SpaceArchived)
			if err != nil {
				return err
			}
			if _, may := snapshot.May(action.MessageRead, &resource, now); may {
				found = append(found, h)
			}
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("read found messages: %w", err)
	}
	return found, nil
}

// page loads what was found, in its order.
func (s *Service) page(tx storage.Tx, by authz.Caller, hits []hit, size int) (wire.Page[wire.Message], error) {
	page := wire.Page[wire.Message]{Items: []wire.Message{}}
	if len(hits) > size {
		hits = hits[:size]
		page.NextCursor = strconv.FormatInt(hits[size-1].doc, 10)
	}
	if len(hits) == 0 {
		return page, nil
	}
	ids := make([]string, len(hits))
	for i, h := range hits {
		ids[i] = h.id
	}
	loaded, err := s.Load(tx, by, ids)
	if err != nil {
		return page, err
	}
	byID := make(map[string]wire.Message, len(loaded))
	for _, message := range loaded {
		byID[message.ID] = message
	}
	for _, id := range ids {
		if message, found := byID[id]; found {
			page.Items = append(page.Items, message)
		}
	}
	return page, nil
}
