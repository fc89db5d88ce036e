package sessions

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/conformance/rulebook"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// The exact fields of the objects (specification, section 2). Those that end in ? are extensions of cairn, which a server
// may have or not.
var (
	sessionFields = []string{
		"id", "session_key", "owner_user_id", "title", "created_at", "last_event_at", "last_seq",
		"executor_device_id", "lease_expires_at", "e2e", "archived",
	}
	listedFields   = append(slices.Clone(sessionFields), "role", "presence_count")
	sharedFields   = append(slices.Clone(sessionFields), "role", "share_id")
	detailFields   = append(slices.Clone(sessionFields), "role", "members", "lease", "presence", "notify?")
	memberFields   = []string{"user_id", "role", "remote", "devices"}
	memberDevice   = []string{"device_id", "name", "platform", "last_seen_at", "remote", "recipient?"}
	deviceFields   = []string{"id", "name", "platform", "capabilities", "has_push_token", "lastSeenAt", "createdAt"}
	eventFields    = []string{"seq", "kind", "ts", "sender_device_id", "turn_id", "client_event_id", "payload"}
	leaseFields    = []string{"session_id", "device_id", "expires_at"}
	presenceFields = []string{"device_id", "user_id", "role", "executor", "driving", "last_seen", "attention?"}
	controlFields  = []string{
		"id", "kind", "text", "turn_id", "ask_id", "from_device_id", "target_device_id", "seq", "applied", "created_at",
	}
	shareFields = []string{
		"id", "session_id", "principal_type", "principal_id", "role", "has_token", "expires_at",
		"created_by_user_id", "created_at",
	}
	orgFields    = []string{"id", "name", "ownerUserId", "createdAt"}
	orgMember    = []string{"user_id", "email", "role", "created_at"}
	wireTime     = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)
	serverUUID   = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	linkToken    = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)
	wholeSeconds = regexp.MustCompile(`^-?\d+$`)
)

// plus answers fields and more, without touching fields.
func plus(fields []string, more ...string) []string { return append(slices.Clone(fields), more...) }

func decode(data []byte, v any) error { return json.Unmarshal(data, v) }

// members answers the members of a JSON object; the case ends when data is not one.
func members(t *trial, data []byte) map[string]json.RawMessage {
	var read map[string]json.RawMessage
	require.NoError(t, decode(data, &read), "want an object: %s", rulebook.Shorten(string(data)))
	require.NotNil(t, read, "want an object: %s", rulebook.Shorten(string(data)))
	return read
}

// member answers what stands under path; the case ends when it is not there.
func member(t *trial, data []byte, path ...string) json.RawMessage {
	for _, name := range path {
		value, ok := members(t, data)[name]
		require.True(t, ok, "field %q is missing: %s", name, rulebook.Shorten(string(data)))
		data = value
	}
	return data
}

// list answers the elements of the array under path.
func list(t *trial, data []byte, path ...string) []json.RawMessage {
	var read []json.RawMessage
	found := member(t, data, path...)
	require.NoError(t, decode(found, &read), "want an array: %s", rulebook.Shorten(string(found)))
	require.NotNil(t, read, "want an array, not null: %s", rulebook.Shorten(string(data)))
	return read
}

// requireFields ends the case unless data is an object of exactly these fields; one that ends in ? may be missing.
func requireFields(t *trial, data []byte, where string, fields ...string) {
	found := members(t, data)
	got := make([]string, 0, len(found))
	for name := range found {
		got = append(got, name)
	}
	slices.Sort(got)
	want := make([]string, 0, len(fields))
	for _, field := range fields {
		name, optional := strings.CutSuffix(field, "?")
		if _, there := found[name]; there || !optional {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	require.Equal(t, want, got, "fields of %s: %s", where, rulebook.Shorten(string(data)))
}

// requireError checks the inside of an error object and answers it.
func requireError(t *trial, data []byte, where string) wire.ErrorBody {
	found := members(t, data)
	delete(found, "details")
	require.Len(t, found, 3, "an error has message, type and code: %s", where)
	var body wire.ErrorBody
	require.NoError(t, decode(data, &body), where)
	require.NotEmpty(t, strings.TrimSpace(body.Message), where)
	info := code.Of(code.Code(body.Code))
	require.Contains(t, code.All(), code.Code(body.Code), where)
	require.Equal(t, info.Type, body.Type, where)
	return body
}

// requireTimes ends the case unless every value is a wire time.
func requireTimes(t *trial, data []byte, fields ...string) {
	for _, field := range fields {
		var text string
		require.NoError(t, decode(member(t, data, field), &text), field)
		require.Regexp(t, wireTime, text, "%s is ISO-8601 UTC with milliseconds and Z", field)
	}
}

// compact removes the white space around JSON values and leaves strings and numbers as they are.
func compact(t *trial, data []byte) string {
	var into bytes.Buffer
	require.NoError(t, json.Compact(&into, data), rulebook.Shorten(string(data)))
	return into.String()
}

// requireDense ends the case unless events are from, from+1, … without gap or duplicate.
func requireDense(t *trial, from int64, events []wire.Event) {
	for i, event := range events {
		require.Equal(t, from+int64(i), event.Seq, "seq of the event at place %d", i)
	}
}

func value[T any](v *T) any {
	if v == nil {
		return nil
	}
	return *v
}

// soon answers a moment ahead as a wire time, on the clock the target showed in its Date header.
func soon(a *answer, ahead time.Duration) string {
	now, err := time.Parse(time.RFC1123, a.header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return wire.Time{Time: now.Add(ahead)}.String()
}

func milliseconds(stamp int64) time.Time { return time.UnixMilli(stamp) }
