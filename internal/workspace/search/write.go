package search

import (
	"fmt"
	"time"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/storage"
)

// document is a message as the index sees it: what is there now, and what the index has of it.
type document struct {
	id      string
	content string
	created time.Time
	version int64
	deleted bool
	place   authz.Place
	exists  bool
	doc     *int64 // nil when the index has none
}

// write makes the index say of messages what their rows say.
func (x *Indexer) write(tx storage.Tx, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	documents, err := documentsOf(tx, ids)
	if err != nil {
		return err
	}
	numbers, err := numbersFor(tx, documents)
	if err != nil {
		return err
	}
	for _, d := range documents {
		if err := x.writeOne(tx, d, numbers); err != nil {
			return err
		}
	}
	return nil
}

func documentsOf(tx storage.Tx, ids []string) ([]*document, error) {
	documents := make([]*document, len(ids))
	byID := make(map[string]*document, len(ids))
	for i, id := range ids {
		documents[i] = &document{id: id}
		byID[id] = documents[i]
	}
	err := tx.Query(
		`SELECT m.id, m.content_md, m.created_at, m.version, m.deleted_at IS NOT NULL, c.id, c.space_id
		   FROM messages m JOIN threads t ON t.id = m.thread_id JOIN channels c ON c.id = t.channel_id WHERE m.id = ANY($1)`,
		[]any{ids}, func(row storage.Row) error {
			var d document
			err := row.Scan(&d.id, &d.content, &d.created, &d.version, &d.deleted, &d.place.ChannelID, &d.place.SpaceID)
			d.exists = true
			*byID[d.id] = d
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("read messages to index: %w", err)
	}
	err = tx.Query(`SELECT message_id, doc FROM search_docs WHERE message_id = ANY($1)`, []any{ids}, func(row storage.Row) error {
		var id string
		var doc int64
		err := row.Scan(&id, &doc)
		if err == nil {
			byID[id].doc = &doc
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read indexed messages: %w", err)
	}
	return documents, nil
}

func (x *Indexer) writeOne(tx storage.Tx, d *document, numbers *numbering) error {
	var words []string
	if d.exists && !d.deleted {
		words = wordsOf(d.content)
	}
	if len(words) == 0 {
		if d.doc == nil {
			return nil
		}
		return x.index.drop(tx, *d.doc)
	}
	e := &entry{message: d.id, version: d.version, words: append(words, marks(d.place)...)}
	if d.doc != nil {
		e.doc = *d.doc
		return x.index.put(tx, e, true)
	}
	var err error
	if e.doc, err = numbers.take(tx, d.created); err != nil {
		return err
	}
	return x.index.put(tx, e, false)
}
