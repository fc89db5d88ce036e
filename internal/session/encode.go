package session

import (
	"strconv"
	"unicode/utf8"
)

// AppendEvent writes an event as JSON. Its payload goes in as it came, byte for byte (SS-OBJ-1).
func AppendEvent(to []byte, event *Stored) []byte {
	to = append(to, `{"seq":`...)
	to = strconv.AppendInt(to, event.Seq, 10)
	to = append(to, `,"kind":`...)
	to = appendString(to, event.Kind)
	to = append(to, `,"ts":`...)
	to = strconv.AppendInt(to, event.TS, 10)
	to = append(to, `,"sender_device_id":`...)
	to = appendString(to, event.SenderDeviceID)
	to = append(to, `,"turn_id":`...)
	to = appendOptional(to, event.TurnID)
	to = append(to, `,"client_event_id":`...)
	to = appendOptional(to, event.ClientEventID)
	to = append(to, `,"payload":`...)
	to = append(to, event.Payload...)
	return append(to, '}')
}

func appendOptional(to []byte, text *string) []byte {
	if text == nil {
		return append(to, "null"...)
	}
	return appendString(to, *text)
}

// appendString writes a JSON string. Plain ASCII, nearly every id, is copied; the rest is left to
// the encoder.
func appendString(to []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return append(to, mustJSON(text)...)
		}
	}
	to = append(to, '"')
	to = append(to, text...)
	return append(to, '"')
}
