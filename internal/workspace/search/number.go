package search

import (
	"fmt"
	"math"
	"time"

	"github.com/cairnsync/cairn/internal/storage"
)

// numberBits leave room for the messages of one microsecond: those that were committed together have one.
const numberBits = 10

// maxKnown is how many numbers are read at most to give out others.
const maxKnown = 2000

// numbering gives out free numbers of the index, behind those of the same moment.
type numbering struct {
	// last is the highest number of each moment that has one.
	last map[int64]int64
	// complete is false where there were too many to know them: then each is asked for.
	complete bool
}

// numbersFor reads what is taken in the time of the new documents: nearly always nothing.
func numbersFor(tx storage.Tx, documents []*document) (*numbering, error) {
	n := &numbering{last: map[int64]int64{}, complete: true}
	from, to := int64(math.MaxInt64), int64(-1)
	for _, d := range documents {
		if d.doc == nil && d.exists {
			from, to = min(from, firstNumber(d.created)), max(to, firstNumber(d.created))
		}
	}
	if to < 0 {
		return n, nil
	}
	known, err := numbers(tx, `SELECT doc FROM search_docs WHERE doc >= $1 AND doc <= $2 ORDER BY doc LIMIT $3`, from, to|(1<<numberBits-1), maxKnown)
	for _, doc := range known {
		n.last[doc>>numberBits<<numberBits] = doc
	}
	n.complete = len(known) < maxKnown
	return n, err
}

func (n *numbering) take(tx storage.Tx, created time.Time) (int64, error) {
	first := firstNumber(created)
	doc := first
	if last, found := n.last[first]; found {
		doc = last + 1
	}
	if !n.complete || doc >= first+1<<numberBits {
		var err error
		if doc, err = nextNumber(tx, first); err != nil {
			return 0, err
		}
		n.complete = false // it may be a number of the next moment
	}
	n.last[first] = doc
	return doc, nil
}

// firstNumber is the first number for messages of a moment.
func firstNumber(created time.Time) int64 { return max(created.UnixMicro(), 0) << numberBits }

// nextNumber looks for a free number of a moment, further behind it the more of them there are.
func nextNumber(tx storage.Tx, first int64) (int64, error) {
	for room := int64(1) << numberBits; ; room <<= numberBits {
		end := first + room
		if end < first || room <= 0 {
			end = math.MaxInt64
		}
		var last *int64
		if _, err := tx.Get(`SELECT max(doc) FROM search_docs WHERE doc >= $1 AND doc < $2`, []any{first, end}, &last); err != nil {
			return 0, fmt.Errorf("find a number: %w", err)
		}
		switch {
		case last == nil:
			return first, nil
		case *last+1 < end:
			return *last + 1, nil
		case end == math.MaxInt64:
			return 0, fmt.Errorf("no number is free behind %d", first)
		}
	}
}
