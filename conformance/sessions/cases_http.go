package sessions

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func httpCases() []testCase {
	return []testCase{
		{rule: "SS-HTTP-1", name: "answers are JSON with wire times and integer milliseconds", run: caseTimes},
		{rule: "SS-HTTP-2", name: "every route refuses a missing key", run: caseMissingKey},
		{rule: "SS-HTTP-2", name: "unknown and malformed keys are refused, in headers and in a URL", run: caseMalformedKey},
		{rule: "SS-HTTP-3", name: "unknown fields and parameters are ignored", run: caseUnknownFields},
		{rule: "SS-HTTP-3", name: "numbers that are none or out of range never fail", run: caseOddNumbers},
		{rule: "SS-HTTP-4", name: "a body that is not JSON is refused with details", run: caseNotJSON},
		{rule: "SS-HTTP-4", name: "every bad field is named", run: caseBadFields},
		{rule: "SS-HTTP-4", name: "duplicate names and bad UTF-8 are refused", ours: true, run: caseStrictJSON},
		{rule: "SS-HTTP-5", name: "a body over 12 MiB is refused, one under it is not", run: caseLargeBody},
		{rule: "SS-HTTP-5", name: "an endless body is read no further than the limit", run: caseEndlessBody},
		{rule: "SS-HTTP-6", name: "the key comes first, then the form, then the rights", ours: true, run: caseOrderOfChecks},
		{rule: "SS-HTTP-7", name: "the request id comes back, or one is made", run: caseRequestID},
		{rule: "SS-HTTP-8", name: "an origin that is on no list gets no leave", ours: true, run: caseForeignOrigin},
		{rule: "SS-ERR-1", name: "errors have one shape, unknown routes and methods too", run: caseErrorShape},
	}
}

// route is a method and path of the surface; :s is a session, :x any other id.
type route struct {
	method, path string
	device       bool // x-codai-device is required
	body         object
}

func routesOf(r *room) []route {
	at := r.path
	other := newID()
	return []route{
		{"POST", "/v1/sessions", true, object{}},
		{"GET", "/v1/sessions?v=2", false, nil},
		{"GET", "/v1/sessions/shared-with-me", false, nil},
		{"GET", at("?v=2"), false, nil},
		{"PATCH", at(""), true, object{"title": "x"}},
		{"GET", at("/events"), false, nil},
		{"POST", at("/events"), true, object{"events": batch(1)}},
		{"GET", at("/controls"), false, nil},
		{"POST", at("/control"), true, object{"id": newID(), "kind": "send"}},
		{"POST", at("/control/" + other + "/applied"), true, nil},
		{"POST", at("/dispatch"), true, object{"device_id": other, "text": "x"}},
		{"POST", at("/lease"), true, nil},
		{"PUT", at("/lease"), true, nil},
		{"DELETE", at("/lease"), true, nil},
		{"GET", at("/stream"), true, nil},
		{"GET", at("/ws"), true, nil},
		{"GET", at("/shares"), false, nil},
		{"POST", at("/shares"), false, object{"principal_type": "link"}},
		{"DELETE", at("/shares/" + other), false, nil},
		{"GET", "/v1/devices", false, nil},
		{"PATCH", "/v1/devices/" + other, false, object{"push_token": nil}},
		{"DELETE", "/v1/devices/" + other, false, nil},
		{"GET", "/v1/devices/me/dispatch", true, nil},
		{"POST", "/v1/orgs", false, object{"name": "x"}},
		{"GET", "/v1/orgs", false, nil},
		{"GET", "/v1/orgs/" + other + "/members", false, nil},
		{"POST", "/v1/orgs/" + other + "/members", false, object{"user_id": other}},
		{"DELETE", "/v1/orgs/" + other + "/members/" + other, false, nil},
		{"DELETE", at(""), true, nil},
	}
}

// ask sends the route's request; a WebSocket route with the headers of an upgrade.
func (u *caller) ask(to route) *answer {
	if strings.HasSuffix(to.path, "/ws") {
		return u.refusedSocket(to.path)
	}
	if to.body == nil {
		return u.do(to.method, to.path, nil)
	}
	return u.do(to.method, to.path, to.body)
}

func caseTimes(t *trial) {
	r := t.room().executed()
	r.append(r.owner, event("user"))
	detail := r.owner.get(r.path("")).want(200)
	requireTimes(t, detail.body, "created_at", "last_event_at", "lease_expires_at")
	requireTimes(t, member(t, detail.body, "lease"), "expires_at")
	for _, one := range list(t, r.owner.get(r.path("/events")).want(200).body, "events") {
		require.Regexp(t, wholeSeconds, string(member(t, one, "ts")))
	}
	device := list(t, r.owner.get("/v1/devices").want(200).body, "devices")[0]
	requireTimes(t, device, "lastSeenAt", "createdAt")
	share := r.owner.post(r.path("/shares"), object{
		"principal_type": "link", "expires_at": "2099-01-02T03:04:05Z",
	}).want(201)
	requireTimes(t, share.body, "created_at", "expires_at")
	require.JSONEq(t, `"2099-01-02T03:04:05.000Z"`, string(member(t, share.body, "expires_at")))
}

func caseMissingKey(t *trial) {
	r := t.room()
	nobody := r.owner.withAuthorization("")
	nobody.headers.Del("Authorization")
	for _, to := range routesOf(r) {
		nobody.ask(to).refused(code.InvalidAPIKey)
	}
	r.owner.get(r.path("")).want(200)
}

func caseMalformedKey(t *trial) {
	r := t.room()
	for _, header := range []string{
		"Bearer", "Bearer ", "Bearer codai_" + newID(), "Bearer " + r.owner.key + "x", "Bearer x" + r.owner.key,
		"Basic " + r.owner.key, r.owner.key, "Bearer " + r.owner.key + " " + r.owner.key, "Bearer \xff\xfe",
		"Bearer " + strings.Repeat("a", 5000),
	} {
		r.owner.withAuthorization(header).get(r.path("")).refused(code.InvalidAPIKey)
	}
	nobody := r.owner.withAuthorization("")
	nobody.headers.Del("Authorization")
	for _, parameter := range []string{"key", "api_key", "access_token", "token"} {
		nobody.get(r.path("?v=2&" + parameter + "=" + newID())).refused(code.InvalidAPIKey)
	}
}

func caseUnknownFields(t *trial) {
	r := t.roomWith(object{"title": "x", "colour": "blue", "nested": object{"a": []int{1}}})
	strange := func(body object) object { body["unknown_field"] = object{"deep": true}; return body }
	r.owner.post(r.path("/lease"), strange(object{})).want(200)
	r.owner.post(r.path("/events"), strange(object{"events": []object{strange(event("user"))}})).want(200)
	r.owner.post(r.path("/control"), strange(object{"id": newID(), "kind": "send"})).want(202)
	r.owner.patch(r.path(""), strange(object{"title": "y"})).want(200)
	r.owner.post(r.path("/shares"), strange(object{"principal_type": "link"})).want(201)
	r.owner.patch("/v1/devices/"+r.owner.device, strange(object{"capabilities": []string{}})).want(200)
	r.dispatch(r.owner, r.owner.device, object{"unknown_field": 1}).want(202)
	for _, path := range []string{"?x=1", "/events?x=1&y", "/controls?x=1", "/shares?x=1"} {
		r.owner.get(r.path(path)).want(200)
	}
}

func caseOddNumbers(t *trial) {
	r := t.room().executed()
	r.fill(3)
	for _, odd := range []string{"", "abc", "-1", "0", "1.5", "1e9", "99999999999999999999999", "0x10", "%00", " 2", "+3"} {
		odd = strings.ReplaceAll(odd, " ", "%20")
		r.owner.get(r.path("/events?limit=" + odd)).want(200)
		r.owner.get(r.path("/events?after=" + odd)).want(200)
		r.owner.get("/v1/sessions?v=2&limit=" + odd).want(200)
		r.owner.get("/v1/devices/me/dispatch?limit=" + odd).want(200)
	}
	for _, odd := range []string{"", "abc", "-1"} {
		require.Len(t, r.events("?after="+odd), 3, "after=%s is the default 0", odd)
		require.Len(t, r.events("?limit="+odd), 3, "limit=%s is the default", odd)
	}
	require.Len(t, r.events("?limit=99999999"), 3, "a limit over the maximum is the maximum")
}

func caseNotJSON(t *trial) {
	r := t.room()
	for _, body := range []string{
		`{`, `nonsense`, `{"title":}`, `{"title":"x"`, `{"title":"x"} trailing`, `{"title":"x"}{"title":"y"}`,
		`[]`, `"text"`, `7`, `null`, `{'title':'x'}`, `{"title":"x",}`, "{\"title\":\"a\tb\nc\"}",
	} {
		r.owner.patch(r.path(""), body).bad()
		requireDetails(t, r.owner.post("/v1/sessions", body))
		requireDetails(t, r.owner.post(r.path("/control"), body))
	}
	require.Nil(t, r.detail(r.owner).Title)
}

// requireDetails ends the case unless a is a bad_request with details.
func requireDetails(t *trial, a *answer) {
	a.bad()
	member(t, a.body, "error", "details", "formErrors")
	member(t, a.body, "error", "details", "fieldErrors")
}

func caseBadFields(t *trial) {
	r := t.room().executed()
	r.owner.post("/v1/sessions", object{"session_key": 7, "title": false, "e2e": "yes"}).bad("session_key", "title", "e2e")
	r.owner.patch(r.path(""), object{"title": 7, "archived": "no"}).bad("title", "archived")
	r.owner.post(r.path("/events"), object{"events": "x", "expected_last_seq": "1"}).bad("events", "expected_last_seq")
	r.owner.post(r.path("/events"), object{}).bad("events")
	r.owner.post(r.path("/events"), object{"events": batch(1), "expected_last_seq": 1.5}).bad("expected_last_seq")
	r.owner.post(r.path("/control"), object{"text": 7}).bad("id", "kind", "text")
	r.owner.post(r.path("/control"), object{"id": newID(), "kind": "send", "turn_id": 1, "ask_id": true}).bad("turn_id", "ask_id")
	r.owner.post(r.path("/dispatch"), object{"device_id": "x", "mode": "fly", "text": 7}).bad("device_id", "mode", "text")
	r.owner.post(r.path("/lease"), object{"device_id": "x", "force": "yes"}).bad("device_id", "force")
	r.owner.post(r.path("/shares"), object{"principal_type": "world", "role": "king"}).bad("principal_type", "role")
	r.owner.post(r.path("/shares"), object{"principal_type": "link", "expires_at": "tomorrow"}).bad("expires_at")
	r.owner.patch("/v1/devices/"+r.owner.device, object{"push_token": 7, "capabilities": "x"}).bad("push_token", "capabilities")
	r.owner.post("/v1/orgs", object{"name": 7}).bad("name")
	r.owner.post("/v1/orgs", object{}).bad("name")
	for _, broken := range []any{"text", 7, nil, []any{}, object{}, object{"kind": 7}, object{"kind": "a", "ts": "now"}, object{"kind": "a", "ts": 1.5}} {
		r.owner.post(r.path("/events"), object{"events": []any{event("fine"), broken}}).bad()
	}
	require.Empty(t, r.events(""), "nothing of a refused batch is stored")
}

func caseStrictJSON(t *trial) {
	r := t.room().executed()
	for _, body := range []string{`{"title":"a","title":"b"}`, "{\"title\":\"\xff\"}", "\xef\xbb\xbf{\"title\":\"a\"}"} {
		requireDetails(t, r.owner.patch(r.path(""), body))
	}
	for _, body := range []string{
		`{"events":[{"kind":"a","kind":"b"}]}`, `{"events":[],"events":[{"kind":"a"}]}`, "{\"events\":[{\"kind\":\"\xc0\x80\"}]}",
	} {
		requireDetails(t, r.owner.post(r.path("/events"), body))
	}
}

func caseLargeBody(t *trial) {
	r := t.room().executed()
	r.append(r.owner, object{"kind": "big", "payload": object{"text": strings.Repeat("a", 11<<20)}})
	r.owner.post(r.path("/events"), object{"events": []object{
		{"kind": "big", "payload": object{"text": strings.Repeat("a", 12<<20)}},
	}}).refused(code.PayloadTooLarge)
	r.owner.patch(r.path(""), `{"title":"`+strings.Repeat("a", 13<<20)+`"}`).refused(code.PayloadTooLarge)
	require.EqualValues(t, 1, r.detail(r.owner).LastSeq)
}

// endless is a body that never ends, up to a bound far over any limit; it counts what was taken.
type endless struct{ taken atomic.Int64 }

const endlessBound = 256 << 20

func (e *endless) Read(p []byte) (int, error) {
	if e.taken.Load() == 0 {
		e.taken.Add(1)
		p[0] = '{'
		return 1, nil
	}
	if e.taken.Load() > endlessBound {
		return 0, io.EOF
	}
	for i := range p {
		p[i] = ' '
	}
	e.taken.Add(int64(len(p)))
	return len(p), nil
}

func caseEndlessBody(t *trial) {
	r := t.room().executed()
	body := &endless{}
	a := r.owner.post(r.path("/events"), body)
	if a.status != 0 { // a server may also hang up before the answer can be read
		a.refused(code.PayloadTooLarge)
	}
	require.Less(t, body.taken.Load(), int64(64<<20), "bytes the server took of an endless body")
	r.owner.get(r.path("")).want(200)
}

func caseOrderOfChecks(t *trial) {
	r := t.room()
	viewer, stranger := r.viewer(), t.stranger()
	viewer.post(r.path("/control"), `{"id":`).bad()
	viewer.post(r.path("/control"), object{"id": 7, "kind": "send"}).bad("id")
	stranger.patch(r.path(""), object{"title": 7}).bad("title")
	viewer.post(r.path("/control"), object{"id": newID(), "kind": "send"}).refused(code.NotAMember)
	body := &endless{}
	a := r.owner.withAuthorization("Bearer codai_"+newID()).post(r.path("/events"), body)
	if a.status != 0 {
		a.refused(code.InvalidAPIKey)
	}
	require.Less(t, body.taken.Load(), int64(32<<20), "bytes taken of a request without a good key")
	r.owner.withAuthorization("Bearer codai_"+newID()).patch(r.path(""), `{`).refused(code.InvalidAPIKey)
}

func caseRequestID(t *trial) {
	r := t.room()
	id := newID()
	with := r.owner.with(wire.HeaderRequestID, id)
	require.Equal(t, id, with.get(r.path("")).want(200).header.Get(wire.HeaderTrace))
	require.Equal(t, id, with.get(r.path("/nothing-here")).header.Get(wire.HeaderTrace))
	require.Equal(t, id, with.withAuthorization("").get(r.path("")).refused(code.InvalidAPIKey).header.Get(wire.HeaderTrace))
	stream := with.requestSSE(t.Context(), r.path("/stream"), t.suite.client)
	defer stream.Body.Close() //nolint:errcheck // only the headers count
	require.Equal(t, id, stream.Header.Get(wire.HeaderTrace))
	first := r.owner.get(r.path("")).header.Get(wire.HeaderTrace)
	second := r.owner.get(r.path("")).header.Get(wire.HeaderTrace)
	require.NotEmpty(t, first)
	require.NotEqual(t, first, second)
}

func caseForeignOrigin(t *trial) {
	r := t.room()
	foreign := r.owner.with("Origin", "https://elsewhere.invalid")
	require.Empty(t, foreign.get(r.path("")).want(200).has(detailFields...).header.Get("Access-Control-Allow-Origin"))
	preflight := foreign.with("Access-Control-Request-Method", "POST").withAuthorization("")
	preflight.headers.Del("Authorization")
	require.Empty(t, preflight.do(http.MethodOptions, r.path("/events"), nil).header.Get("Access-Control-Allow-Origin"))
}

func caseErrorShape(t *trial) {
	r := t.room()
	r.owner.get("/v1/nothing-here").refused(code.NotFound)
	r.owner.get(r.path("/nothing-here")).refused(code.NotFound)
	r.owner.get("/v1/sessions/" + newID()).refused(code.NotFound)
	r.owner.withAuthorization("Bearer x").get("/v1/devices").refused(code.InvalidAPIKey)
	t.stranger().get(r.path("")).refused(code.NotAMember)
	r.owner.put(r.path("/lease")).refused(code.LeaseHeld)
	r.claim(r.owner)
	r.owner.post(r.path("/events"), object{"events": batch(1), "expected_last_seq": 9}).refused(code.SeqConflict)
	r.owner.post(r.path("/events"), `{`).refused(code.BadRequest)
	t.editor().on(r.owner.device).get("/v1/devices").refused(code.Forbidden)
	wrong := r.owner.put(r.path("/events"))
	require.Contains(t, []int{404, 405}, wrong.status, "%s", wrong)
	requireError(t, member(t, wrong.body, "error"), wrong.String())
}
