package place

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

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

// Size answers how many items the page has at most.
func (p Paging) Size() int {
	if p.Limit <= 0 {
		return DefaultPage
	}
	return min(p.Limit, MaxPage)
}

// AfterID answers the id the page begins behind, "" for the beginning.
func (p Paging) AfterID() (string, error) {
	if p.After == "" {
		return "", nil
	}
	id, ok := env.ParseID(p.After)
	if !ok {
		return "", BadCursor()
	}
	return id, nil
}

// BadCursor refuses a cursor that no list answered.
func BadCursor() error {
	return fault.Invalid("cursor", "must be the next_cursor of an earlier page of this list")
}

// Page cuts a list that was read with one item more than the page has; cursor is where the next one begins.
func Page[T any](items []T, size int, cursor func(T) string) wire.Page[T] {
	page := wire.Page[T]{Items: items}
	if page.Items == nil {
		page.Items = []T{}
	}
	if len(items) > size {
		page.Items = items[:size]
		page.NextCursor = cursor(items[size-1])
	}
	return page
}

// PathID answers the canonical form of an id in a path; what is none names nothing (WS-AZ-5).
func PathID(what, id string) (string, error) {
	canonical, ok := env.ParseID(id)
	if !ok {
		return "", fault.Missing(what)
	}
	return canonical, nil
}

// BodyID answers the canonical form of an id in a body.
func BodyID(pointer, id string) (string, error) {
	canonical, ok := env.ParseID(id)
	if !ok {
		return "", fault.Invalid(pointer, "must be a UUID")
	}
	return canonical, nil
}

// Text refuses what is longer than most characters, or no text that a database can hold.
func Text(pointer, text string, most int) error {
	switch {
	case !utf8.ValidString(text):
		return fault.Invalid(pointer, "must be valid UTF-8")
	case strings.ContainsRune(text, 0):
		return fault.Invalid(pointer, "must not contain the character NUL")
	case len(text) > most && utf8.RuneCountInString(text) > most:
		return fault.Invalid(pointer, "must have at most %d characters", most)
	default:
		return nil
	}
}

// maxEmoji is the longest emoji, in bytes.
const maxEmoji = 64

// Emoji refuses what cannot be a reaction: nothing, more than 64 bytes, spaces and control characters.
func Emoji(pointer, emoji string) error {
	if emoji == "" || len(emoji) > maxEmoji || !utf8.ValidString(emoji) {
		return fault.Invalid(pointer, "must have 1 to %d bytes of UTF-8", maxEmoji)
	}
	if strings.ContainsFunc(emoji, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }) {
		return fault.Invalid(pointer, "must not contain spaces or control characters")
	}
	return nil
}

// maxDepth bounds how deep a value of a client may nest.
const maxDepth = 64

// JSON answers a client's value as it is stored and sent: compact. It refuses what is no strict JSON, holds
// a null (there is none on this surface), nests too deep, or has more than most bytes when it is sent.
func JSON(pointer string, value json.RawMessage, most int) (json.RawMessage, error) {
	if len(value) > 2*most {
		return nil, fault.Invalid(pointer, "must have at most %d bytes", most)
	}
	if err := oneValue(pointer, jsontext.NewDecoder(bytes.NewReader(value))); err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return nil, fault.Invalid(pointer, "must be a JSON value")
	}
	if len(encoded) > most {
		return nil, fault.Invalid(pointer, "must have at most %d bytes", most)
	}
	return encoded, nil
}

// oneValue refuses what is not exactly one value without null.
func oneValue(pointer string, decoder *jsontext.Decoder) error {
	for ended := false; ; {
		token, err := decoder.ReadToken()
		switch {
		case ended && errors.Is(err, io.EOF):
			return nil
		case err != nil || ended:
			return fault.Invalid(pointer, "must be one JSON value")
		case token.Kind() == 'n':
			return fault.Invalid(pointer, "must not hold null")
		case decoder.StackDepth() > maxDepth:
			return fault.Invalid(pointer, "must nest at most %d deep", maxDepth)
		}
		ended = decoder.StackDepth() == 0
	}
}

// AnyVersion as If-Match stands for "*": there is an object, whatever its version.
const AnyVersion int64 = -1

// RequireVersion refuses a change whose If-Match names another version than the current one. nil is no header.
func RequireVersion(ifMatch *int64, current int64, object any) error {
	if ifMatch == nil || *ifMatch == current || *ifMatch == AnyVersion && current > 0 {
		return nil
	}
	return fault.Stale(object)
}
