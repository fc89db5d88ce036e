package workspace

import (
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/cairnsync/cairn/internal/env"
)

const headerTraceparent = "Traceparent"

// traced answers the id that a request's events, answer and log lines carry, and its W3C traceparent if it
// was recorded (ES-2.2). The id is the trace id of the traceparent, in the form of a UUID, or a new one.
func traced(r *http.Request, e *env.Env) (correlation, traceparent string) {
	parent := r.Header.Get(headerTraceparent)
	traceID, recorded, valid := parseTraceparent(parent)
	if !valid {
		return e.RandomID(), ""
	}
	correlation = traceID[:8] + "-" + traceID[8:12] + "-" + traceID[12:16] + "-" + traceID[16:20] + "-" + traceID[20:]
	if recorded {
		traceparent = parent
	}
	return correlation, traceparent
}

// parseTraceparent reads version 00 of the header, and of later ones what version 00 has (Trace Context,
// section 3.2).
func parseTraceparent(text string) (traceID string, recorded, valid bool) {
	const length = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if len(text) < length || len(text) > length && (text[:2] == "00" || text[length] != '-') {
		return "", false, false
	}
	fields := strings.Split(text[:length], "-")
	if len(fields) != 4 || len(fields[0]) != 2 || len(fields[1]) != 32 || len(fields[2]) != 16 || len(fields[3]) != 2 {
		return "", false, false
	}
	for _, field := range fields {
		if _, err := hex.DecodeString(field); err != nil || strings.ToLower(field) != field {
			return "", false, false
		}
	}
	if fields[0] == "ff" || strings.Trim(fields[1], "0") == "" || strings.Trim(fields[2], "0") == "" {
		return "", false, false
	}
	flags, _ := hex.DecodeString(fields[3]) // was decoded above
	return fields[1], flags[0]&1 == 1, true
}
