package workspace

import (
	"strconv"
	"strings"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/workspace/place"
)

// Paging is which part of a list is asked for.
type Paging = place.Paging

// afterNumber answers the number a page begins behind, and otherwise none.
func afterNumber(p Paging, none int64) (int64, error) {
	if p.After == "" {
		return none, nil
	}
	n, err := strconv.ParseInt(p.After, 10, 64)
	if err != nil {
		return 0, place.BadCursor()
	}
	return n, nil
}

// afterPair answers the number and id a page begins behind, and otherwise none.
func afterPair(p Paging, none int64) (n int64, id string, err error) {
	if p.After == "" {
		return none, "", nil
	}
	number, id, _ := strings.Cut(p.After, "_")
	n, err = strconv.ParseInt(number, 10, 64)
	id, ok := env.ParseID(id)
	if err != nil || !ok {
		return 0, "", place.BadCursor()
	}
	return n, id, nil
}
