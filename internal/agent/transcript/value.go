package transcript

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cairnsync/cairn/internal/agent/translate"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// wellFormed answers why a line is no record, or "".
func wellFormed(line []byte) string {
	switch {
	case !utf8.Valid(line):
		return "it is not UTF-8"
	case !json.Valid(line):
		var record json.RawMessage
		if err := json.Unmarshal(line, &record); err != nil {
			return "it is no JSON: " + err.Error()
		}
		return "it is no JSON"
	case bytes.TrimLeft(line, " \t\r\n")[0] != '{':
		return "it is no JSON object"
	default:
		return ""
	}
}

// moment reads a time: RFC 3339, or a number of seconds, milliseconds, microseconds or nanoseconds since the Unix
// epoch, told apart by its size. It answers milliseconds.
func moment(stamp json.RawMessage) (int64, bool) {
	var text string
	if json.Unmarshal(stamp, &text) == nil {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err == nil {
			return at.UnixMilli(), true
		}
		stamp = json.RawMessage(text)
	}
	number, err := strconv.ParseFloat(string(stamp), 64)
	if err != nil || math.IsNaN(number) || number <= 0 || number > 1e19 {
		return 0, false
	}
	switch {
	case number < 1e11: // seconds, up to the year 5138
		number *= 1e3
	case number < 1e14:
	case number < 1e17:
		number /= 1e3
	default:
		number /= 1e6
	}
	return int64(number), true
}

// opaque is the payload of a record that is kept: the record byte for byte, or as text when it is nested too deep
// for a payload.
func opaque(raw []byte) json.RawMessage {
	raw = bytes.TrimSpace(raw)
	if translate.Depth(raw) >= wire.MaxDepth {
		return encode(struct {
			Text string `json:"record_text"`
		}{string(raw)})
	}
	kept := make([]byte, 0, len(raw)+len(`{"record":}`))
	kept = append(kept, `{"record":`...)
	kept = append(kept, raw...)
	return append(kept, '}')
}

// encode writes what always encodes, with <, > and & as they are.
func encode(value any) json.RawMessage {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err) // strings, numbers and JSON that was decoded
	}
	return bytes.TrimRight(buffer.Bytes(), "\n")
}

// stringOf answers a JSON string, or "" for anything else.
func stringOf(raw json.RawMessage) string {
	var value string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &value) != nil {
		return ""
	}
	return value
}

// isObject reports whether raw, which is valid JSON, is an object.
func isObject(raw json.RawMessage) bool {
	return strings.HasPrefix(strings.TrimSpace(string(raw[:min(len(raw), 64)])), "{")
}
