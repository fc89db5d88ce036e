package sessions

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/cairnsync/cairn/internal/session"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func joinSorted(names []string) string {
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// payload reads an event's payload: a JSON object of at most MaxDepth levels, kept as its bytes are
// (SS-OBJ-1). None, or null, is {}.
func (f *form) payload(field string) []byte {
	value, there := f.value(field)
	if !there {
		return nil
	}
	if value.Kind() != '{' {
		f.badf(field, "must be a JSON object")
		return nil
	}
	if depth(value) > wire.MaxDepth {
		f.badf(field, "must not be nested deeper than %d levels", wire.MaxDepth)
		return nil
	}
	return value
}

// depth answers how deep a valid JSON value is nested.
func depth(value jsontext.Value) int {
	deepest, level, inString, escaped := 0, 0, false, false
	for _, c := range value {
		switch {
		case escaped:
			escaped = false
		case inString && c == '\\':
			escaped = true
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			level++
			deepest = max(deepest, level)
		case c == '}' || c == ']':
			level--
		default:
		}
	}
	return deepest
}

// batch reads the body of an append.
func (f *form) batch() session.Batch {
	elements, _ := f.list("events", 1, wire.MaxBatch)
	events := make([]wire.IncomingEvent, 0, len(elements))
	for i, element := range elements {
		inner := f.element("events", i, element)
		events = append(events, wire.IncomingEvent{
			Kind:          inner.require("kind", 1, wire.MaxKind),
			TS:            inner.integer("ts", -largestInteger),
			TurnID:        inner.text("turn_id", 0, wire.MaxID),
			ClientEventID: inner.text("client_event_id", 0, wire.MaxID),
			Payload:       inner.payload("payload"),
		})
	}
	silent := f.flag("silent")
	return session.Batch{Events: events, ExpectedLastSeq: f.integer("expected_last_seq", 0), Silent: silent != nil && *silent}
}

// control reads a control.
func (f *form) control() wire.IncomingControl {
	control := wire.IncomingControl{
		ID:     f.require("id", 1, wire.MaxID),
		Text:   f.text("text", 0, wire.MaxText),
		TurnID: f.text("turn_id", 0, wire.MaxID),
		AskID:  f.text("ask_id", 0, wire.MaxID),
	}
	f.require("kind", 0, wire.MaxText)
	if kind := choice(f, "kind", wire.ControlKinds()...); kind != nil {
		control.Kind = *kind
	}
	return control
}
