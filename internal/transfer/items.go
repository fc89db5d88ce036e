package transfer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxItem is the largest item or line of an export.
const maxItem = 16 << 20

var errLarge = fmt.Errorf("it has more than %d bytes", maxItem)

// lenient reads exports as they are: names may stand twice, and texts may be damaged.
var lenient = []json.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// bounded fails when more than maxItem bytes were read since the last reset.
type bounded struct {
	from io.Reader
	left int
}

func (b *bounded) Read(into []byte) (int, error) {
	if b.left <= 0 {
		return 0, errLarge
	}
	n, err := b.from.Read(into[:min(len(into), b.left)])
	b.left -= n
	return n, err //nolint:wrapcheck // io.EOF must stay itself
}

// items reads a JSON array item by item. An item of another shape goes to bad and is skipped; what is no
// JSON at all ends the reading with an error. Numbers of items begin at 1.
func items[T any](from io.Reader, item func(n int64, value *T) error, bad func(n int64, err error)) error {
	limit := &bounded{from: from, left: maxItem}
	decoder := jsontext.NewDecoder(limit, lenient...)
	token, err := decoder.ReadToken()
	if err != nil {
		return fmt.Errorf("it is no JSON: %w", err)
	}
	if token.Kind() != '[' {
		return errors.New("it is no list")
	}
	for n := int64(1); decoder.PeekKind() != ']'; n++ {
		limit.left = maxItem
		text, err := decoder.ReadValue()
		if err != nil {
			return fmt.Errorf("item %d: %w", n, err)
		}
		value := new(T)
		if err := json.Unmarshal(text, value, lenient...); err != nil {
			bad(n, err)
			continue
		}
		if err := item(n, value); err != nil {
			return err
		}
	}
	return nil
}

// lines reads a text line by line; one that is too long goes to bad and is skipped. Numbers begin at 1.
func lines(from io.Reader, line func(n int64, text []byte) error, bad func(n int64, err error)) error {
	reader := bufio.NewReaderSize(from, 64<<10)
	for n := int64(1); ; n++ {
		text, ended, err := oneLine(reader)
		text = bytes.TrimSpace(text)
		switch {
		case errors.Is(err, errLarge):
			bad(n, err)
		case err != nil:
			return fmt.Errorf("read line %d: %w", n, err)
		case len(text) > 0:
			if err := line(n, text); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
	}
}

// oneLine reads up to the end of a line, and of one that is too long nothing but its end; ended is the end
// of everything.
func oneLine(reader *bufio.Reader) (text []byte, ended bool, err error) {
	for long := false; ; {
		part, err := reader.ReadSlice('\n')
		if long = long || len(text)+len(part) > maxItem; long {
			text = nil
		} else {
			text = append(text, part...)
		}
		switch ended := errors.Is(err, io.EOF); {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil && !ended:
			return nil, false, err //nolint:wrapcheck // the caller says which line
		case long:
			return nil, ended, errLarge
		default:
			return text, ended, nil
		}
	}
}
