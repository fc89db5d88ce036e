package workspace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

const (
	// maxDepth bounds how deep a body may be nested.
	maxDepth = 64
	// maxProblems bounds how many problems one refusal names.
	maxProblems = 50
)

// problems are what is wrong with one request. Past maxProblems more are not named.
type (
	problems     []fieldProblem
	fieldProblem = wire.FieldProblem
)

func (p *problems) addf(pointer, format string, args ...any) {
	if len(*p) < maxProblems {
		*p = append(*p, fieldProblem{Pointer: pointer, Message: fmt.Sprintf(format, args...)})
	}
}

// err answers validation_failed that names every problem, nil for none.
func (p *problems) err() error {
	if len(*p) == 0 {
		return nil
	}
	places := make([]string, 0, len(*p))
	for _, one := range *p {
		places = append(places, fmt.Sprintf("%s: %s", placeOf(one.Pointer), one.Message))
	}
	return fault.New(code.ValidationFailed, "%s.", strings.Join(places, "; ")).WithDetails(fault.Extra{Errors: *p})
}

func placeOf(pointer string) string {
	if pointer == "" {
		return "body"
	}
	return pointer
}

// decode reads a body into a new value of type t, strictly: a repeated name, invalid UTF-8, a null, an
// unknown member, a wrong type or a value that the schema does not allow is validation_failed, and all of
// them are named; what is no JSON at all is malformed_json. An empty body is an empty object where the
// schema needs no member.
func (s *schemas) decode(t reflect.Type, body []byte) (any, error) {
	into := reflect.New(t)
	if len(bytes.TrimSpace(body)) == 0 {
		if s.optional(t) {
			return into.Elem().Interface(), nil
		}
		return nil, fault.New(code.MalformedJSON, "The body is empty; it must be a JSON object.")
	}
	found, err := inspect(body)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		if found, err = s.check(t, body); err != nil {
			return nil, err
		}
	}
	if err := found.err(); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, into.Interface(), json.RejectUnknownMembers(true)); err != nil {
		return nil, undecodable(err)
	}
	return into.Elem().Interface(), nil
}

// undecodable names the place of what the typed decoding refuses though the schema allows it, such as a
// number that no int64 holds.
func undecodable(err error) error {
	var found problems
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		found.addf(string(semantic.JSONPointer), "is not a value of this member")
	} else if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		found.addf(string(syntactic.JSONPointer), "is not valid text")
	} else {
		found.addf("", "cannot be read")
	}
	return found.err()
}

// inspect reads a body once for what no member may hold: repeated names, invalid UTF-8, null, U+0000, nesting
// without end, and anything behind the value.
func inspect(body []byte) (problems, error) {
	// A bytes.Buffer is read in place.
	decoder := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	in := inspection{decoder: decoder, body: body}
	if err := in.value(); err != nil {
		if errors.Is(err, errTooDeep) {
			return in.found, nil
		}
		return nil, fault.New(code.MalformedJSON, "The body is not valid JSON.").WithCause(err)
	}
	if _, err := decoder.ReadToken(); !errors.Is(err, io.EOF) {
		in.found.addf("", "must be one JSON value with nothing behind it")
	}
	return in.found, nil
}

var errTooDeep = errors.New("nested too deep")

type inspection struct {
	decoder *jsontext.Decoder
	body    []byte
	found   problems
}

// value reads one value with everything in it.
func (in *inspection) value() error {
	names := []map[string]struct{}{} // of each open object; nil for an array
	for {
		start := in.decoder.InputOffset()
		token, err := in.decoder.ReadToken()
		if err != nil {
			return fmt.Errorf("read token: %w", err)
		}
		switch token.Kind() {
		case '{':
			names = append(names, map[string]struct{}{})
		case '[':
			names = append(names, nil)
		case '}', ']':
			names = names[:len(names)-1]
		case '"':
			in.text(token.String(), start, names)
		case 'n':
			in.found.addf(in.pointer(), "must not be null; leave it out")
		default:
		}
		if len(names) > maxDepth {
			in.found.addf(in.pointer(), "is nested deeper than %d levels", maxDepth)
			return errTooDeep
		}
		if len(names) == 0 {
			return nil
		}
	}
}

// text checks a string; within an object every second one is a name.
func (in *inspection) text(text string, start int64, names []map[string]struct{}) {
	if !utf8.Valid(in.body[start:in.decoder.InputOffset()]) {
		in.found.addf(in.pointer(), "must be valid UTF-8")
	}
	if strings.ContainsRune(text, 0) {
		in.found.addf(in.pointer(), "must not contain U+0000")
	}
	if len(names) == 0 {
		return
	}
	kind, count := in.decoder.StackIndex(in.decoder.StackDepth())
	open := names[len(names)-1]
	if kind != '{' || count%2 == 0 {
		return
	}
	if _, repeated := open[text]; repeated {
		in.found.addf(in.pointer(), "must be given once only")
	}
	open[text] = struct{}{}
}

func (in *inspection) pointer() string {
	return strings.ToValidUTF8(string(in.decoder.StackPointer()), "�")
}
