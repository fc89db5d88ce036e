package transcript

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// maxPayload is the largest payload that is sent, in bytes: an event must fit into a request of 12 MiB (SS-HTTP-5).
const maxPayload = 11 << 20

// shrink cuts the longest texts of a payload until it fits, and marks it as truncated. What still does not fit loses
// its lists and objects.
func shrink(payload json.RawMessage) json.RawMessage {
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.UseNumber()
	var fields map[string]any
	if decoder.Decode(&fields) == nil {
		fields["truncated"] = true
		for longest := maxPayload / 2; longest >= 1<<10; longest /= 4 {
			if cut := encode(clipped(fields, longest)); len(cut) <= maxPayload {
				return cut
			}
		}
	}
	return encode(shallow(fields))
}

// clipped answers value with no text longer than longest bytes.
func clipped(value any, longest int) any {
	switch value := value.(type) {
	case string:
		return clipText(value, longest)
	case []any:
		for i := range value {
			value[i] = clipped(value[i], longest)
		}
		return value
	case map[string]any:
		for name := range value {
			value[name] = clipped(value[name], longest)
		}
		return value
	default:
		return value
	}
}

// cutMark ends a text that was cut.
const cutMark = "… [cut]"

func clipText(text string, longest int) string {
	if len(text) <= longest {
		return text
	}
	end := longest - len(cutMark)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + cutMark
}

// shallow keeps the short fields of a payload, with lists and objects empty.
func shallow(fields map[string]any) map[string]any {
	kept := map[string]any{"truncated": true}
	for name, value := range fields {
		if len(name) > 64 || len(kept) > 64 {
			continue
		}
		switch value := value.(type) {
		case []any:
			kept[name] = []any{}
		case map[string]any:
			kept[name] = map[string]any{}
		case json.Number:
			if len(value) <= 1<<10 {
				kept[name] = value
			}
		default:
			kept[name] = clipped(value, 1<<10)
		}
	}
	return kept
}
