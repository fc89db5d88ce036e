package workspace

import (
	"strconv"
	"strings"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Limits of a page of a list: what is asked for beyond MaxPage is answered with MaxPage.
const (
	DefaultPage = 50
	MaxPage     = 100
)

// Paging is which part of a list is asked for: behind After, the NextCursor of the page before, at most
// Limit, 0 for DefaultPage.
type Paging struct {
	After string
	Limit int
}

func (p Paging) limit() int {
	if p.Limit <= 0 {
		return DefaultPage
	}
	return min(p.Limit, MaxPage)
}

func badCursor() error {
	return fault.Invalid("cursor", "must be the next_cursor of an earlier page of this list")
}

// afterID answers the id the page begins behind, "" for the beginning.
func (p Paging) afterID() (string, error) {
	if p.After == "" {
		return "", nil
	}
	id, ok := env.ParseID(p.After)
	if !ok {
		return "", badCursor()
	}
	return id, nil
}

// afterNumber answers the number the page begins behind, and otherwise none.
func (p Paging) afterNumber(none int64) (int64, error) {
	if p.After == "" {
		return none, nil
	}
	n, err := strconv.ParseInt(p.After, 10, 64)
	if err != nil {
		return 0, badCursor()
	}
	return n, nil
}

// afterPlace answers the number and id the page begins behind, and whether there are any.
func (p Paging) afterPlace() (n int64, id string, given bool, err error) {
	if p.After == "" {
		return 0, "", false, nil
	}
	number, id, _ := strings.Cut(p.After, "_")
	n, err = strconv.ParseInt(number, 10, 64)
	id, ok := env.ParseID(id)
	if err != nil || !ok {
		return 0, "", false, badCursor()
	}
	return n, id, true, nil
}

// pageOf cuts a list that was read with one item more than the page has; place is where the next one begins.
func pageOf[T any](items []T, limit int, place func(T) string) wire.Page[T] {
	page := wire.Page[T]{Items: items}
	if page.Items == nil {
		page.Items = []T{}
	}
	if len(items) > limit {
		page.Items = items[:limit]
		page.NextCursor = place(items[limit-1])
	}
	return page
}
