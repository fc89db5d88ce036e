package search

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/cairnsync/cairn/internal/storage"
)

// maxDoc is above every number of the index.
const maxDoc = math.MaxInt64

// entry is a message in the index.
type entry struct {
	doc     int64 // sorts as the messages were made
	message string
	version int64
	words   []string
}

// index is what the engines do differently.
type index interface {
	// put writes an entry; known says that there is one with this number.
	put(tx storage.Tx, e *entry, known bool) error
	// drop removes an entry.
	drop(tx storage.Tx, doc int64) error
	// find answers entries below a number that have all words, the last one at least as a beginning, and one
	// of the marks if there are any; the highest first, at most limit.
	find(tx storage.Tx, words, marks []string, before int64, limit int) ([]int64, error)
}

func indexOf(db storage.DB) index {
	if storage.EngineName(db) == "postgres" {
		return gin{}
	}
	return fts5{}
}

func numbers(tx storage.Tx, query string, args ...any) ([]int64, error) {
	var all []int64
	err := tx.Query(query, args, func(row storage.Row) error {
		var n int64
		err := row.Scan(&n)
		all = append(all, n)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look into the search index: %w", err)
	}
	return all, nil
}

// fts5 is SQLite's index. Words hold no ASCII but letters and digits, which is how its tokenizer ascii parts
// them; they are cut and folded already.
type fts5 struct{}

func (fts5) put(tx storage.Tx, e *entry, known bool) error {
	doc := `INSERT INTO search_docs (doc, message_id, version) VALUES ($1, $2, $3)`
	words := `INSERT INTO message_search (rowid, words) VALUES ($1, $2)`
	if known {
		doc = `UPDATE search_docs SET version = $3 WHERE doc = $1 AND message_id = $2`
		words = `UPDATE message_search SET words = $2 WHERE rowid = $1`
	}
	err := errors.Join(tx.Exec(doc, e.doc, e.message, e.version), tx.Exec(words, e.doc, strings.Join(e.words, " ")))
	if err != nil {
		return fmt.Errorf("write words: %w", err)
	}
	return nil
}

func (fts5) drop(tx storage.Tx, doc int64) error {
	err := errors.Join(tx.Exec(`DELETE FROM message_search WHERE rowid = $1`, doc), tx.Exec(`DELETE FROM search_docs WHERE doc = $1`, doc))
	if err != nil {
		return fmt.Errorf("remove words: %w", err)
	}
	return nil
}

func (fts5) find(tx storage.Tx, words, marks []string, before int64, limit int) ([]int64, error) {
	query := `"` + strings.Join(words, `" AND "`) + `"*`
	if len(marks) > 0 {
		query += ` AND ("` + strings.Join(marks, `" OR "`) + `")`
	}
	return numbers(tx, `SELECT rowid FROM message_search WHERE message_search MATCH $1 AND rowid < $2 ORDER BY rowid DESC LIMIT $3`, query, before, limit)
}

// gin is PostgreSQL's index over tsvector, whose words are written as they are: no dictionary, no parser.
type gin struct{}

func quote(words []string, between string) string {
	return `'` + strings.Join(words, `'`+between+`'`) + `'`
}

func (gin) put(tx storage.Tx, e *entry, known bool) error {
	query := `INSERT INTO search_docs (doc, message_id, version, words) VALUES ($1, $2, $3, CAST(CAST($4 AS text) AS tsvector))`
	if known {
		query = `UPDATE search_docs SET version = $3, words = CAST(CAST($4 AS text) AS tsvector) WHERE doc = $1 AND message_id = $2`
	}
	if err := tx.Exec(query, e.doc, e.message, e.version, quote(e.words, " ")); err != nil {
		return fmt.Errorf("write words: %w", err)
	}
	return nil
}

func (gin) drop(tx storage.Tx, doc int64) error {
	if err := tx.Exec(`DELETE FROM search_docs WHERE doc = $1`, doc); err != nil {
		return fmt.Errorf("remove words: %w", err)
	}
	return nil
}

func (gin) find(tx storage.Tx, words, marks []string, before int64, limit int) ([]int64, error) {
	query := quote(words, " & ") + ":*"
	if len(marks) > 0 {
		query += " & (" + quote(marks, " | ") + ")"
	}
	return numbers(tx,
		`SELECT doc FROM search_docs WHERE words @@ CAST(CAST($1 AS text) AS tsquery) AND doc < $2 ORDER BY doc DESC LIMIT $3`, query, before, limit)
}
