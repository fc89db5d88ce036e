package workspace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/wire/code"
)

// schemaPrefix is where the schemas are in the document.
const schemaPrefix = "#/components/schemas/"

// schemas are the schemas of everything on the wire, made of the types of wire/workspace and their tags.
// They are complete before the first request and never changed after it.
type schemas struct {
	registry huma.Registry
}

func newSchemas() *schemas {
	return &schemas{registry: huma.NewMapRegistry(schemaPrefix, huma.DefaultSchemaNamer)}
}

// of answers the schema of a type, as a reference where it has a name.
func (s *schemas) of(t reflect.Type) *huma.Schema { return s.registry.Schema(t, true, "") }

// clean takes null out of every schema with a name.
func (s *schemas) clean() {
	seen := map[*huma.Schema]bool{}
	for _, named := range s.registry.Map() {
		withoutNull(named, seen)
	}
}

// withoutNull takes back what huma makes of pointers and slices: there is no null on this surface.
func withoutNull(s *huma.Schema, seen map[*huma.Schema]bool) {
	if s == nil || seen[s] {
		return
	}
	seen[s] = true
	s.Nullable = false
	withoutNull(s.Items, seen)
	for _, property := range s.Properties {
		withoutNull(property, seen)
	}
	if additional, ok := s.AdditionalProperties.(*huma.Schema); ok {
		withoutNull(additional, seen)
	}
}

// resolved is the schema itself.
func (s *schemas) resolved(t reflect.Type) *huma.Schema {
	schema := s.registry.Schema(t, true, "")
	for schema.Ref != "" {
		schema = s.registry.SchemaFromRef(schema.Ref)
	}
	return schema
}

// optional reports whether an empty object is a value of the type.
func (s *schemas) optional(t reflect.Type) bool { return len(s.resolved(t).Required) == 0 }

// check holds a body, which is valid JSON, against the schema of a type.
func (s *schemas) check(t reflect.Type, body []byte) (problems, error) {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(body))
	if err := decoder.Decode(&value); err != nil {
		// A number without bounds is the only thing left that is JSON and cannot be held.
		return nil, fault.New(code.ValidationFailed, "The body holds a number that is out of range.").WithCause(err)
	}
	path, result := huma.NewPathBuffer([]byte("body"), len("body")), &huma.ValidateResult{}
	huma.Validate(s.registry, s.resolved(t), path, huma.ModeWriteToServer, value, result)
	return problemsOf(result), nil
}

func problemsOf(result *huma.ValidateResult) problems {
	var found problems
	for _, err := range result.Errors {
		detail, ok := err.(*huma.ErrorDetail) //nolint:errorlint // huma collects this type, unwrapped
		if !ok {
			found.addf("", "%s", err)
			continue
		}
		pointer, message := pointerOf(detail.Location), detail.Message
		var member string
		if n, _ := fmt.Sscanf(message, validation.MsgExpectedRequiredProperty, &member); n == 1 {
			pointer, message = pointer+"/"+member, "is required"
		}
		if message == validation.MsgUnexpectedProperty {
			message = "is not known here"
		}
		found.addf(pointer, "%s", message)
	}
	slices.SortFunc(found, func(a, b fieldProblem) int {
		return strings.Compare(a.Pointer+a.Message, b.Pointer+b.Message)
	})
	return slices.Compact(found)
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// pointerOf makes the JSON Pointer of huma's "body.agents[0].agent_id".
func pointerOf(location string) string {
	location = pointerEscapes.Replace(strings.TrimPrefix(location, "body"))
	location = strings.ReplaceAll(location, "[", ".")
	return strings.ReplaceAll(strings.ReplaceAll(location, "]", ""), ".", "/")
}
