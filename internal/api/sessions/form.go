package sessions

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// form is a JSON object being read field by field. Problems are collected, so that one answer names
// every bad field (SS-HTTP-4); err answers them. Fields nobody asks for are ignored (SS-HTTP-3).
type form struct {
	fields   map[string]jsontext.Value
	problems *problems
	top      string // the field problems are filed under, for elements of a list
	path     string // where in that field this object is
}

type problems struct{ fields map[string][]string }

// lenient reads values without looking into them: what a payload repeats or escapes is its own
// business (SS-OBJ-1).
func lenient(raw []byte) *jsontext.Decoder {
	// A bytes.Buffer is read in place.
	return jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// next reads a value and answers where it stands in raw, without a copy of it: a body may be large.
// False means that raw is not valid JSON.
func next(decoder *jsontext.Decoder, raw []byte) (jsontext.Value, bool) {
	value, err := decoder.ReadValue()
	if err != nil {
		return nil, false
	}
	end := decoder.InputOffset()
	return jsontext.Value(raw[end-int64(len(value)) : end : end]), true
}

// parseForm reads a body. An empty one is an object without fields. Invalid UTF-8, repeated names
// and trailing data are refused.
func parseForm(body []byte) (*form, error) {
	f := &form{problems: &problems{map[string][]string{}}}
	if len(bytes.TrimSpace(body)) == 0 {
		return f, nil
	}
	if !utf8.Valid(body) {
		return nil, malformed("The body is not valid UTF-8.")
	}
	var problem string
	f.fields, problem = object(body)
	if problem != "" {
		return nil, malformed("The body " + problem + ".")
	}
	return f, nil
}

func malformed(message string) error { return fault.New(code.BadRequest, "%s", message) }

// object reads the members of a JSON object, or says what is wrong with it.
func object(raw []byte) (map[string]jsontext.Value, string) {
	decoder := lenient(raw)
	if decoder.PeekKind() != '{' {
		if _, err := decoder.ReadValue(); err != nil {
			return nil, "is not valid JSON"
		}
		return nil, "must be a JSON object"
	}
	if _, err := decoder.ReadToken(); err != nil {
		return nil, "is not valid JSON"
	}
	fields := map[string]jsontext.Value{}
	for decoder.PeekKind() != '}' {
		name, err := decoder.ReadToken()
		if err != nil {
			return nil, "is not valid JSON"
		}
		key := name.String()
		value, valid := next(decoder, raw)
		if !valid {
			return nil, "is not valid JSON"
		}
		if _, repeated := fields[key]; repeated {
			return nil, fmt.Sprintf("names %q twice", key)
		}
		fields[key] = value
	}
	if _, err := decoder.ReadToken(); err != nil {
		return nil, "is not valid JSON"
	}
	if _, err := decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, "has something behind its JSON object"
	}
	return fields, ""
}

// err answers every problem found, nil for none.
func (f *form) err() error {
	if len(f.problems.fields) == 0 {
		return nil
	}
	names := make([]string, 0, len(f.problems.fields))
	for name := range f.problems.fields {
		names = append(names, name)
	}
	return fault.New(code.BadRequest, "Invalid request: check %s.", joinSorted(names)).WithDetails(wire.FieldErrors{
		FormErrors: []string{}, FieldErrors: f.problems.fields,
	})
}

func (f *form) badf(field, format string, args ...any) {
	problem := fmt.Sprintf(format, args...)
	if f.top != "" {
		field, problem = f.top, f.path+field+": "+problem
	}
	f.problems.fields[field] = append(f.problems.fields[field], problem)
}

// has reports whether the field is there, be it null.
func (f *form) has(field string) bool {
	_, there := f.fields[field]
	return there
}

// value answers a field that is there and not null.
func (f *form) value(field string) (jsontext.Value, bool) {
	value, there := f.fields[field]
	return value, there && value.Kind() != 'n'
}

// text reads an optional string of least to most code points; null is none. U+0000 and lone
// surrogates are refused (SS-OBJ-4).
func (f *form) text(field string, least, most int) *string {
	value, there := f.value(field)
	if !there {
		return nil
	}
	if value.Kind() != '"' {
		f.badf(field, "must be a string")
		return nil
	}
	unquoted, err := jsontext.AppendUnquote(nil, value)
	text := string(unquoted)
	switch length := utf8.RuneCountInString(text); {
	case err != nil:
		f.badf(field, "must not hold a lone surrogate")
	case strings.ContainsRune(text, 0):
		f.badf(field, "must not hold U+0000")
	case length < least || length > most:
		f.badf(field, "must have %d to %d characters, has %d", least, most, length)
	default:
		return &text
	}
	return nil
}

// require is text that must be there.
func (f *form) require(field string, least, most int) string {
	if _, there := f.value(field); !there {
		f.badf(field, "is required")
		return ""
	}
	if text := f.text(field, least, most); text != nil {
		return *text
	}
	return ""
}

// id reads an optional UUID.
func (f *form) id(field string) *string {
	text := f.text(field, 0, math.MaxInt)
	if text == nil {
		return nil
	}
	id, valid := env.ParseID(*text)
	if !valid {
		f.badf(field, "must be a UUID")
		return nil
	}
	return &id
}

// flag reads an optional boolean.
func (f *form) flag(field string) *bool {
	value, there := f.value(field)
	if !there {
		return nil
	}
	if kind := value.Kind(); kind != 't' && kind != 'f' {
		f.badf(field, "must be true or false")
		return nil
	}
	flag := value.Kind() == 't'
	return &flag
}

// largestInteger is the largest whole number that every JSON reader holds exactly (RFC 8259 section 6).
const largestInteger = 1<<53 - 1

// integer reads an optional whole number between least and the largest exact one.
func (f *form) integer(field string, least int64) *int64 {
	value, there := f.value(field)
	if !there {
		return nil
	}
	number, whole := wholeNumber(value)
	if !whole || number < least || number > largestInteger {
		f.badf(field, "must be a whole number from %d to %d", least, int64(largestInteger))
		return nil
	}
	return &number
}

func wholeNumber(value jsontext.Value) (int64, bool) {
	if value.Kind() != '0' {
		return 0, false
	}
	if number, err := strconv.ParseInt(string(value), 10, 64); err == nil {
		return number, true
	}
	float, err := strconv.ParseFloat(string(value), 64)
	if err != nil || float != math.Trunc(float) || math.Abs(float) > largestInteger {
		return 0, false
	}
	return int64(float), true
}

// moment reads an optional RFC 3339 time.
func (f *form) moment(field string) *time.Time {
	text := f.text(field, 0, math.MaxInt)
	if text == nil {
		return nil
	}
	at, err := time.Parse(time.RFC3339Nano, *text)
	if err != nil || at.Year() < 1970 || at.Year() > 9999 {
		f.badf(field, "must be an ISO-8601 time such as 2026-09-13T10:00:00.000Z")
		return nil
	}
	at = at.UTC().Truncate(time.Microsecond)
	return &at
}

// choice reads an optional string out of a set.
func choice[T ~string](f *form, field string, allowed ...T) *T {
	text := f.text(field, 0, math.MaxInt)
	if text == nil {
		return nil
	}
	names := make([]string, len(allowed))
	for i, value := range allowed {
		if *text == string(value) {
			return &value
		}
		names[i] = string(value)
	}
	f.badf(field, "must be one of %s", strings.Join(names, ", "))
	return nil
}

// list reads a list of least to most elements; false when the field is missing or wrong.
func (f *form) list(field string, least, most int) ([]jsontext.Value, bool) {
	value, there := f.value(field)
	if !there || value.Kind() != '[' {
		f.badf(field, "must be a list of %d to %d elements", least, most)
		return nil, false
	}
	decoder := lenient(value)
	elements := []jsontext.Value{}
	if _, err := decoder.ReadToken(); err != nil {
		f.badf(field, "is not valid JSON")
		return nil, false
	}
	for decoder.PeekKind() != ']' {
		element, valid := next(decoder, value)
		if !valid {
			f.badf(field, "is not valid JSON")
			return nil, false
		}
		if len(elements) <= most {
			elements = append(elements, element)
		}
	}
	if n := len(elements); n < least || n > most {
		f.badf(field, "must be a list of %d to %d elements", least, most)
		return nil, false
	}
	return elements, true
}

// element opens an object inside a list.
func (f *form) element(field string, index int, raw jsontext.Value) *form {
	inner := &form{problems: f.problems, top: field, path: fmt.Sprintf("[%d].", index)}
	if f.top != "" {
		inner.top, inner.path = f.top, f.path+field+inner.path
	}
	var problem string
	inner.fields, problem = object(raw)
	if problem != "" {
		f.badf(field, "[%d] %s", index, problem)
	}
	return inner
}
