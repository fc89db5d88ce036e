package sessions

import (
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/cairnsync/cairn/client/internal/httpkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// maxErrorBody bounds how much of a refusal is read; the rest is dropped.
const maxErrorBody = 1 << 20

// maxRetryAfter bounds how long a server can make the client wait.
const maxRetryAfter = 5 * time.Minute

// APIError is an answer that is not a success (SS-ERR-1).
type APIError struct {
	Status     int             // HTTP status; 0 for an error frame of a WebSocket
	Code       code.Code       // "" when the answer was not of this protocol, for example a proxy's
	Message    string          // for people
	Type       string          // family of the code
	Details    json.RawMessage // or nil
	TraceID    string          // of the request (SS-HTTP-7), or ""
	RetryAfter time.Duration   // what the server asked to wait; 0 when it did not
}

// Error answers status, code and message.
func (e *APIError) Error() string {
	text := "server answered"
	if e.Status != 0 {
		text += " " + strconv.Itoa(e.Status)
	}
	if e.Code != "" {
		text += " " + string(e.Code)
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

var (
	holderInMessage  = regexp.MustCompile(`\(holder_device_id=([^)\s]+)\)`)
	lastSeqInMessage = regexp.MustCompile(`last_seq\D{0,8}(\d+)`)
)

// HolderDeviceID answers the device that holds the lease, from the details or the message of a
// lease_held refusal; "" when nobody does or it is not said (SS-LEASE-1, SS-LEASE-4).
func (e *APIError) HolderDeviceID() string {
	var details struct {
		Holder string `json:"holder_device_id"`
	}
	if json.Unmarshal(e.Details, &details) == nil && details.Holder != "" {
		return details.Holder
	}
	if found := holderInMessage.FindStringSubmatch(e.Message); found != nil {
		return found[1]
	}
	return ""
}

// LastSeq answers the log's last seq, from the details or the message of a seq_conflict refusal, and
// whether it is said (SS-EVT-2).
func (e *APIError) LastSeq() (int64, bool) {
	var details struct {
		LastSeq *int64 `json:"last_seq"`
	}
	if json.Unmarshal(e.Details, &details) == nil && details.LastSeq != nil {
		return *details.LastSeq, true
	}
	if found := lastSeqInMessage.FindStringSubmatch(e.Message); found != nil {
		seq, err := strconv.ParseInt(found[1], 10, 64)
		return seq, err == nil
	}
	return 0, false
}

// FieldErrors answers what a bad_request refusal says about each field (SS-HTTP-4); empty otherwise.
func (e *APIError) FieldErrors() wire.FieldErrors {
	var fields wire.FieldErrors
	if json.Unmarshal(e.Details, &fields) != nil {
		return wire.FieldErrors{}
	}
	return fields
}

// AsAPIError answers the refusal in err's chain, or nil.
func AsAPIError(err error) *APIError {
	refused, _ := errors.AsType[*APIError](err)
	return refused
}

// IsCode reports whether err is a refusal with code c.
func IsCode(err error, c code.Code) bool {
	refused := AsAPIError(err)
	return refused != nil && refused.Code == c
}

// refusal makes an APIError of an answer that is not 2xx. A body of another form is not shown: it may
// be a page of something between here and the server.
func refusal(response *http.Response, body []byte) *APIError {
	refused := &APIError{
		Status:     response.StatusCode,
		TraceID:    response.Header.Get(wire.HeaderTrace),
		RetryAfter: httpkit.ParseWait(response.Header.Get("Retry-After"), time.Now(), maxRetryAfter),
	}
	var decoded wire.Error
	if json.Unmarshal(body, &decoded) == nil && decoded.Error.Code != "" {
		refused.fill(decoded.Error)
	} else {
		refused.Message = http.StatusText(response.StatusCode)
	}
	return refused
}

func (e *APIError) fill(body wire.ErrorBody) {
	e.Code, e.Message, e.Type, e.Details = code.Code(body.Code), body.Message, body.Type, body.Details
}

// retryAfter answers what the refusal in err asks to wait; 0 for nothing.
func retryAfter(err error) time.Duration {
	if refused := AsAPIError(err); refused != nil {
		return refused.RetryAfter
	}
	return 0
}

// worthRetry reports whether the same request may succeed later: a lost answer, 408, 425, 429 or 5xx.
func worthRetry(err error) bool {
	for _, final := range []error{ErrForeignRedirect, ErrResponseTooLarge, ErrTooManyRecipients, httpkit.ErrNotSent} {
		if errors.Is(err, final) {
			return false
		}
	}
	refused := AsAPIError(err)
	if refused == nil {
		return true
	}
	switch refused.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	default:
		return refused.Status >= 500 && refused.Status != http.StatusNotImplemented
	}
}
