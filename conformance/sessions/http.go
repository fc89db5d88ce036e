package sessions

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/conformance/rulebook"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// object is a JSON object in a request.
type object = map[string]any

// caller is one account on one device. Its methods never fail the case themselves, so that several
// goroutines may call; the checks of answer do.
type caller struct {
	t *trial
	account
	device  string // "" sends no device header
	headers http.Header
}

// as answers account on a fresh device, which the case removes when it ends.
func (t *trial) as(who account) *caller {
	u := &caller{t: t, account: who, device: newID(), headers: http.Header{}}
	t.Cleanup(func() { u.delete("/v1/devices/" + u.device) })
	return u
}

func (t *trial) owner() *caller    { return t.as(t.suite.owner) }
func (t *trial) editor() *caller   { return t.as(t.suite.editor) }
func (t *trial) viewer() *caller   { return t.as(t.suite.viewer) }
func (t *trial) stranger() *caller { return t.as(t.suite.stranger) }

// anotherDevice is the same account on another fresh device.
func (u *caller) anotherDevice() *caller { return u.t.as(u.account) }

// on is the same account on the given device.
func (u *caller) on(device string) *caller {
	return &caller{t: u.t, account: u.account, device: device, headers: u.headers.Clone()}
}

// with is the same caller sending one more header.
func (u *caller) with(name, value string) *caller {
	changed := u.on(u.device)
	changed.headers.Set(name, value)
	return changed
}

// withKey is the same device with another Authorization header; "" sends none.
func (u *caller) withAuthorization(value string) *caller {
	changed := u.with("Authorization", value)
	changed.key = ""
	return changed
}

func (u *caller) get(path string) *answer            { return u.do(http.MethodGet, path, nil) }
func (u *caller) post(path string, body any) *answer { return u.do(http.MethodPost, path, body) }
func (u *caller) put(path string) *answer            { return u.do(http.MethodPut, path, nil) }
func (u *caller) patch(path string, body any) *answer {
	return u.do(http.MethodPatch, path, body)
}
func (u *caller) delete(path string) *answer { return u.do(http.MethodDelete, path, nil) }

// do sends body (nil: none; string: as it is; io.Reader: chunked; otherwise its JSON).
func (u *caller) do(method, path string, body any) *answer {
	a := &answer{t: u.t, request: method + " " + path}
	var reader io.Reader
	switch body := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(body)
		a.request += " " + rulebook.Shorten(body)
	case io.Reader:
		reader = body
	default:
		encoded, err := json.Marshal(body)
		if err != nil {
			a.failure = err
			return a
		}
		reader = bytes.NewReader(encoded)
		a.request += " " + rulebook.Shorten(string(encoded))
	}
	u.exchange(a, method, path, reader)
	u.t.Remember(a.String())
	return a
}

func (u *caller) exchange(a *answer, method, path string, body io.Reader) {
	request, err := http.NewRequestWithContext(u.t.Context(), method, u.t.suite.base+path, body)
	if err != nil {
		a.failure = err
		return
	}
	u.dress(request.Header)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := u.t.suite.client.Do(request)
	if err != nil {
		a.failure = err
		return
	}
	defer response.Body.Close() //nolint:errcheck // the body has been read
	a.status, a.header = response.StatusCode, response.Header
	a.body, a.failure = io.ReadAll(response.Body)
	if u.key != "" && bytes.Contains(a.body, []byte(u.key)) {
		u.t.Errorf("SS-HTTP-2: the answer to %s shows the key", a.request)
	}
}

// dress sets the headers of the caller.
func (u *caller) dress(header http.Header) {
	if u.key != "" {
		header.Set("Authorization", "Bearer "+u.key)
	}
	if u.device != "" {
		header.Set(wire.HeaderDevice, u.device)
	}
	maps.Copy(header, u.headers)
}

// answer is what the target said to one request.
type answer struct {
	t       *trial
	request string
	status  int // 0 when there was no answer
	header  http.Header
	body    []byte
	failure error
}

// String shows the exchange, cut to a readable length.
func (a *answer) String() string {
	if a.failure != nil {
		return fmt.Sprintf("%s → %d, %v", a.request, a.status, a.failure)
	}
	return fmt.Sprintf("%s → %d %s", a.request, a.status, rulebook.Shorten(strings.TrimSpace(string(a.body))))
}

// want ends the case unless the answer is a success of this status.
func (a *answer) want(status int) *answer {
	require.NoError(a.t, a.failure, a.request)
	require.Equal(a.t, status, a.status, "%s", a)
	require.Contains(a.t, a.header.Get("Content-Type"), "application/json", "%s", a)
	return a
}

// into decodes the answer.
func (a *answer) into(v any) *answer {
	require.NoError(a.t, decode(a.body, v), "%s", a)
	return a
}

// has ends the case unless the answer is an object of exactly these fields.
func (a *answer) has(fields ...string) *answer {
	requireFields(a.t, a.body, a.request, fields...)
	return a
}

// refused ends the case unless the answer is an error of this code (SS-ERR-1) whose message has every part.
func (a *answer) refused(want code.Code, messageParts ...string) *answer {
	info := code.Of(want)
	require.NoError(a.t, a.failure, a.request)
	require.Equal(a.t, info.Status, a.status, "%s", a)
	require.Contains(a.t, a.header.Get("Content-Type"), "application/json", "%s", a)
	body := requireError(a.t, member(a.t, a.body, "error"), a.String())
	require.Equal(a.t, string(want), body.Code, "%s", a)
	if want != code.BadRequest {
		require.Nil(a.t, body.Details, "details are for bad_request only: %s", a)
	}
	for _, part := range messageParts {
		require.Contains(a.t, body.Message, part, "%s", a)
	}
	return a
}

// bad ends the case unless the answer is a bad_request whose details name every given field (SS-HTTP-4).
func (a *answer) bad(fields ...string) *answer {
	a.refused(code.BadRequest)
	details, ok := members(a.t, member(a.t, a.body, "error"))["details"]
	if !ok {
		require.Empty(a.t, fields, "details are missing: %s", a)
		return a
	}
	requireFields(a.t, details, a.String(), "formErrors", "fieldErrors")
	var read wire.FieldErrors
	require.NoError(a.t, decode(details, &read), "%s", a)
	require.NotNil(a.t, read.FormErrors, "%s", a)
	require.NotNil(a.t, read.FieldErrors, "%s", a)
	for _, field := range fields {
		require.NotEmpty(a.t, read.FieldErrors[field], "details must name %q: %s", field, a)
	}
	return a
}

// message answers the public message of an error.
func (a *answer) message() string {
	var read wire.Error
	require.NoError(a.t, decode(a.body, &read), "%s", a)
	return read.Error.Message
}

// statuses counts answers by status.
func statuses(answers []*answer) map[int]int {
	count := map[int]int{}
	for _, a := range answers {
		count[a.status]++
	}
	return count
}

// segment escapes a session_key for a path.
func segment(key string) string { return url.PathEscape(key) }
