// Package code is the one table of error codes and close codes of cairn's surfaces.
//
// A code says what an answer means to a program: its HTTP status, whether the same request may
// succeed later, and for streams whether a client should connect again. Codes are part of the
// protocol: they are added, never renamed (SS-ERR-1).
package code

// Code is the machine-readable name of an error, as sent in `error.code`.
type Code string

// The codes of Shared Sessions (SS-ERR-1).
const (
	BadRequest        Code = "bad_request"
	InvalidAPIKey     Code = "invalid_api_key"
	NotAMember        Code = "not_a_member"
	Forbidden         Code = "forbidden"
	NotFound          Code = "not_found"
	MethodNotAllowed  Code = "method_not_allowed"
	LeaseHeld         Code = "lease_held"
	SeqConflict       Code = "seq_conflict"
	PayloadTooLarge   Code = "payload_too_large"
	RateLimitExceeded Code = "rate_limit_exceeded"
	InternalError     Code = "internal_error"
	Unavailable       Code = "unavailable"
)

// The families of `error.type` (SS-ERR-1).
const (
	TypeInvalidRequest = "invalid_request_error"
	TypeRateLimit      = "rate_limit_error"
	TypeServer         = "server_error"
)

// Info says what a code means.
type Info struct {
	// Status is the HTTP status of an answer with this code.
	Status int
	// Type is the `error.type` it is sent with.
	Type string
	// Retry is true when the same request may succeed later without any change.
	Retry bool
}

var table = map[Code]Info{
	BadRequest:        {400, TypeInvalidRequest, false},
	InvalidAPIKey:     {401, TypeInvalidRequest, false},
	NotAMember:        {403, TypeInvalidRequest, false},
	Forbidden:         {403, TypeInvalidRequest, false},
	NotFound:          {404, TypeInvalidRequest, false},
	MethodNotAllowed:  {405, TypeInvalidRequest, false},
	LeaseHeld:         {409, TypeInvalidRequest, false},
	SeqConflict:       {409, TypeInvalidRequest, false},
	PayloadTooLarge:   {413, TypeInvalidRequest, false},
	RateLimitExceeded: {429, TypeRateLimit, true},
	InternalError:     {500, TypeServer, true},
	Unavailable:       {503, TypeServer, true},
}

// Of answers what c means; an unknown code is an internal error.
func Of(c Code) Info {
	if info, ok := table[c]; ok {
		return info
	}
	if info, ok := workspaceTable[c]; ok {
		return info
	}
	return table[InternalError]
}

// All lists every code of Shared Sessions.
func All() []Code {
	all := make([]Code, 0, len(table))
	for c := range table {
		all = append(all, c)
	}
	return all
}

// Close is a WebSocket close code (RFC 6455 section 7.4) or the `code` of an SSE `closed` frame.
type Close uint16

// The close codes of a stream.
const (
	CloseNormal      Close = 1000 // the client said goodbye
	CloseGoingAway   Close = 1001 // the server stops, or the stream reached its longest life (SS-STR-4)
	CloseProtocol    Close = 1002 // the client broke RFC 6455
	CloseUnsupported Close = 1003 // a binary frame
	CloseInvalidUTF8 Close = 1007 // a text frame that is not UTF-8
	CloseTooBig      Close = 1009 // a message over the limit (SS-STR-5)
	CloseInternal    Close = 1011 // the server failed
	CloseTooSlow     Close = 1013 // the consumer fell behind and was cut (SS-STR-7)
	CloseBadRequest  Close = 4400 // the browser's spelling of 400 (SS-STR-6)
	CloseBadKey      Close = 4401 // key revoked, user disabled, device deleted (SS-ROLE-2)
	CloseNoAccess    Close = 4403 // the session is no longer yours to see (SS-ROLE-2)
	CloseNotFound    Close = 4404 // the session is gone (SS-ROLE-2)
)

// Reconnect is true when a client that was closed with c should connect again with its cursor.
func (c Close) Reconnect() bool {
	switch c {
	case CloseGoingAway, CloseInternal, CloseTooSlow:
		return true
	default:
		return false
	}
}
