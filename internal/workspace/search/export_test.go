package search

import (
	"fmt"
	"time"

	"github.com/cairnsync/cairn/internal/storage"
)

// Number numbers new messages of these moments and writes them into the index.
func Number(tx storage.Tx, moments []time.Time) ([]int64, error) {
	documents := make([]*document, len(moments))
	for i, at := range moments {
		documents[i] = &document{created: at, exists: true}
	}
	numbers, err := numbersFor(tx, documents)
	if err != nil {
		return nil, err
	}
	given := make([]int64, len(moments))
	for i, at := range moments {
		if given[i], err = numbers.take(tx, at); err != nil {
			return nil, err
		}
		if err := tx.Exec(`INSERT INTO search_docs (doc, message_id, version) VALUES ($1, $2, 1)`, given[i], fmt.Sprint("m", given[i])); err != nil {
			return nil, err
		}
	}
	return given, nil
}
