package transcript

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// maxPayload is the largest payload that is sent, in bytes: an event must fit into a request of 12 MiB (SS-HTTP-5).
const maxPayload = 11 << 20

// Bounds of what a payload that is too large keeps.
const (
	maxShort  = 1 << 10 // bytes of a field
	maxFields = 64
)

// truncatedField ends a payload that was cut.
const truncatedField = `"truncated":true}`

// shrink cuts the longest texts of a payload, which is a valid JSON object, until it fits the limit, and marks it as truncated.
// What still does not fit loses its lists and objects. It works on the text itself: a payload of millions of small
// values costs no more memory than one of few large ones.
func shrink(payload json.RawMessage, limit int) json.RawMessage {
	for longest := limit / 2; longest >= maxShort; longest /= 4 {
		cut := clipped(payload, longest, limit)
		if len(cut)+len(truncatedField) > limit {
			continue
		}
		cut = cut[:len(cut)-1]
		if len(bytes.TrimSpace(cut)) > 1 {
			cut = append(cut, ',')
		}
		return append(cut, truncatedField...)
	}
	return shallow(payload)
}

// clipped answers a JSON text with no string longer than longest bytes, as far as that keeps it under limit.
func clipped(text []byte, longest, limit int) []byte {
	out := make([]byte, 0, min(len(text), limit)+len(truncatedField)+1)
	for len(text) > 0 {
		start := bytes.IndexByte(text, '"')
		if start < 0 {
			out = append(out, text...)
			break
		}
		end := start + 1
		for text[end] != '"' {
			if text[end] == '\\' {
				end++
			}
			end++
		}
		out = append(out, text[:start+1]...)
		inside := text[start+1 : end]
		if len(inside) > longest {
			out = append(append(out, firstEscaped(inside, longest-len(cutMark))...), cutMark...)
		} else {
			out = append(out, inside...)
		}
		out = append(out, '"')
		text = text[end+1:]
		if len(out) > limit {
			return append(out, text...) // too large already, whatever follows
		}
	}
	return out
}

// cutMark ends a text that was cut.
const cutMark = "… [cut]"

// firstEscaped is the beginning of the inside of a JSON string: at most limit bytes, of whole characters and escapes. The
// two halves of a surrogate pair stay together.
func firstEscaped(inside []byte, limit int) []byte {
	end := 0
	for end < len(inside) {
		size := characterSize(inside[end:])
		if end+size > limit {
			break
		}
		end += size
	}
	return inside[:end]
}

// characterSize is how long the character or escape is that text, the inside of a JSON string, begins with.
func characterSize(text []byte) int {
	switch {
	case text[0] != '\\':
		_, size := utf8.DecodeRune(text)
		return size
	case text[1] != 'u':
		return len(`\n`)
	case (text[2]|0x20) == 'd' && strings.IndexByte("89aAbB", text[3]) >= 0:
		return min(len(`\ud83d\ude00`), len(text))
	default:
		return len(`\u0000`)
	}
}

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
func shallow(payload json.RawMessage) json.RawMessage {
	decoder := json.NewDecoder(bytes.NewReader(payload))
	out := []byte{'{'}
	if _, err := decoder.Token(); err != nil {
		return json.RawMessage("{" + truncatedField)
	}
	for range maxFields {
		name, err := decoder.Token()
		field, isName := name.(string)
		var value json.RawMessage
		if err != nil || !isName || decoder.Decode(&value) != nil {
			break
		}
		if len(field) > maxShort {
			continue
		}
		out = append(append(append(out, encode(field)...), ':'), short(value)...)
		out = append(out, ',')
	}
	return append(out, truncatedField...)
}

// short is a value if it is short, the beginning of it if it is a text, and else an empty one of its kind.
func short(value json.RawMessage) []byte {
	switch {
	case value[0] == '{':
		return []byte("{}")
	case value[0] == '[':
		return []byte("[]")
	case len(value) <= maxShort:
		return value
	case value[0] == '"':
		return clipped(value, maxShort, len(value))
	default:
		return []byte("0")
	}
}
