package workspace

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/cairnsync/cairn/internal/workspace/place"
)

// maxCursor is the longest cursor that is looked at, in bytes.
const maxCursor = 1024

// A list cursor is opaque to clients: the route it belongs to and where the next page begins. It gives
// nothing that the list does not, so it is checked, not signed.

// cursorOf writes the cursor of a list of a route; an empty position is the last page.
func cursorOf(route, position string) string {
	if position == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString([]byte(route + "\x00" + position))
}

// positionOf reads a cursor of the route; an empty one is the beginning.
func positionOf(route, cursor string) (string, error) {
	if cursor == "" {
		return "", nil
	}
	if len(cursor) > maxCursor {
		return "", place.BadCursor()
	}
	decoded, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil {
		return "", place.BadCursor()
	}
	of, position, found := strings.Cut(string(decoded), "\x00")
	if !found || of != route || position == "" || !utf8.ValidString(position) || strings.ContainsRune(position, 0) {
		return "", place.BadCursor()
	}
	return position, nil
}
