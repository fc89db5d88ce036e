package server_test

import (
	"fmt"
	"maps"
	"strings"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

// seat is who asks, seen from the session (or organisation) of a scene.
type seat string

const (
	stranger   seat = "stranger"
	link       seat = "viewer by link"
	viewer     seat = "viewer"
	editorLink seat = "editor by link"
	editor     seat = "editor"
	coowner    seat = "owner by share"
	owner      seat = "owner"
	holder     seat = "lease holder"
	recipient  seat = "recipient of the share"

	outsider seat = "outsider of the organisation"
	member   seat = "member of the organisation"
	admin    seat = "admin of the organisation"
)

// verdicts are what each seat is answered: a status, and for a refusal its code.
type verdicts map[seat]string

const (
	noMember  = "403 not_a_member"
	forbidden = "403 forbidden"
	held      = "409 lease_held"
)

// from answers fine for every seat that stands at least as high as least, and a refusal for the others.
func from(least wire.Role, fine string) verdicts {
	ranks := map[seat]wire.Role{
		stranger: wire.RoleNone, link: wire.RoleViewer, viewer: wire.RoleViewer, editorLink: wire.RoleEditor, editor: wire.RoleEditor,
		coowner: wire.RoleOwner, owner: wire.RoleOwner,
	}
	v := verdicts{}
	for who, role := range ranks {
		v[who] = noMember
		if role.Rank() >= least.Rank() {
			v[who] = fine
		}
	}
	return v
}

// but is v with other answers for some.
func (v verdicts) but(other verdicts) verdicts {
	maps.Copy(v, other)
	return v
}

// row is what a test must know of a route. Paths and bodies name the parts of a scene in braces.
type row struct {
	fine  int    // status of a success
	body  string // a body that succeeds
	as    seat   // who succeeds; owner when empty
	roles verdicts
	// missing lists the parts of the path for which an unknown id is not_found; others are not ids.
	missing []string
	limits  []limit
	wrong   []string // more bodies that are refused, each as field=body
	query   string   // a query that is needed
}

// limit is a field with bodies at its edges and one past them.
type limit struct {
	field string
	at    []string
	past  []string
}

// text is a limit in code points; the %s of form takes the JSON string.
func text(field, form string, least, most int) limit {
	quoted := func(n int) string { return fmt.Sprintf(form, `"`+strings.Repeat("𝄞", n)+`"`) }
	l := limit{field: field, at: []string{quoted(least), quoted(most)}, past: []string{quoted(most + 1)}}
	if least > 0 {
		l.past = append(l.past, quoted(least-1))
	}
	return l
}

// count is a limit on the length of a list.
func count(field, form, element string, least, most int) limit {
	list := func(n int) string {
		return fmt.Sprintf(form, "["+strings.TrimSuffix(strings.Repeat(element+",", n), ",")+"]")
	}
	l := limit{field: field, at: []string{list(least), list(most)}, past: []string{list(most + 1)}}
	if least > 0 {
		l.past = append(l.past, list(least-1))
	}
	return l
}

func nested(levels int) string {
	return strings.Repeat(`{"a":`, levels-1) + "{}" + strings.Repeat("}", levels-1)
}

const (
	oneEvent   = `{"events":[{"kind":"x","payload":{}}]}`
	oneControl = `{"id":"{fresh}","kind":"pause"}`
	inEvent    = `{"events":[{"kind":"x",%s}]}`
)

// rows is one row for each route of the surface.
func rows() map[string]row {
	const one = "/v1/sessions/{id}"
	id := []string{"id"}
	return map[string]row{
		"POST /v1/sessions": {fine: 201, body: `{}`, limits: []limit{
			text("session_key", `{"session_key":%s}`, 1, wire.MaxSessionKey), text("title", `{"title":%s}`, 0, wire.MaxTitle),
		}, wrong: []string{
			`session_key={"session_key":1}`, `session_key={"session_key":"."}`, `session_key={"session_key":".."}`,
			`session_key={"session_key":"shared-with-me"}`, `title={"title":[]}`, `e2e={"e2e":"yes"}`, `title={"title":"a\u0000b"}`,
			`session_key={"session_key":"\ud800"}`,
		}},
		"GET /v1/sessions":                {fine: 200},
		"GET /v1/sessions/shared-with-me": {fine: 200},
		"GET " + one:                      {fine: 200, roles: from(wire.RoleViewer, "200"), missing: id},
		"PATCH " + one: {fine: 200, body: `{"archived":false}`, roles: from(wire.RoleOwner, "200"), missing: id, limits: []limit{
			text("title", `{"title":%s}`, 0, wire.MaxTitle),
		}, wrong: []string{`title={}`, `archived={"archived":null}`, `archived={"archived":1}`, `title={"title":5}`}},
		"DELETE " + one: {fine: 200, roles: from(wire.RoleOwner, "200"), missing: id},

		"GET " + one + "/events":  {fine: 200, roles: from(wire.RoleViewer, "200"), missing: id},
		"POST " + one + "/events": eventsRow(),
		"GET " + one + "/stream":  {fine: 200, roles: from(wire.RoleViewer, "200"), missing: id},
		"GET " + one + "/ws":      {fine: 200, roles: from(wire.RoleViewer, "200"), missing: id},

		"GET " + one + "/controls": {fine: 200, roles: from(wire.RoleViewer, "200"), missing: id},
		"POST " + one + "/control": {fine: 202, body: oneControl, roles: from(wire.RoleEditor, "202"), missing: id, limits: []limit{
			text("id", `{"kind":"pause","id":%s}`, 1, wire.MaxID),
			text("text", `{"id":"{fresh}","kind":"steer","text":%s}`, 0, wire.MaxText),
			text("turn_id", `{"id":"{fresh}","kind":"cancel","turn_id":%s}`, 0, wire.MaxID),
			text("ask_id", `{"id":"{fresh}","kind":"answer","ask_id":%s}`, 0, wire.MaxID),
		}, wrong: []string{`id={"kind":"pause"}`, `kind={"id":"x"}`, `kind={"id":"x","kind":"stop"}`, `id={"id":7,"kind":"pause"}`}},
		"POST " + one + "/control/{cid}/applied": {fine: 200, as: holder, missing: []string{"id", "cid"}, roles: from(wire.RoleViewer, held).but(verdicts{holder: "200"})},
		"POST " + one + "/dispatch":              dispatchRow(),

		"GET " + one + "/pushes": {fine: 200, roles: from(wire.RoleEditor, "200"), missing: id},
		"PUT " + one + "/notify": {fine: 200, body: `{"notify":"asks"}`, roles: from(wire.RoleViewer, "200"), missing: id,
			wrong: []string{`notify={}`, `notify={"notify":null}`, `notify={"notify":"some"}`, `notify={"notify":["all"]}`, `notify={"notify":""}`}},

		"POST " + one + "/lease": {fine: 200, body: `{}`, roles: from(wire.RoleOwner, "200").but(verdicts{coowner: forbidden, holder: "200"}), missing: id,
			wrong: []string{`device_id={"device_id":"x"}`, `force={"force":"yes"}`}},
		"PUT " + one + "/lease":    {fine: 200, as: holder, roles: from(wire.RoleOwner, held).but(verdicts{holder: "200"}), missing: id},
		"DELETE " + one + "/lease": {fine: 200, roles: from(wire.RoleOwner, "200").but(verdicts{holder: "200"}), missing: id},

		"GET " + one + "/shares":            {fine: 200, roles: from(wire.RoleOwner, "200"), missing: id},
		"POST " + one + "/shares":           sharesRow(),
		"DELETE " + one + "/shares/{share}": {fine: 200, roles: from(wire.RoleOwner, "200").but(verdicts{recipient: "200"}), missing: []string{"id", "share"}},

		"GET /v1/devices":             {fine: 200},
		"GET /v1/devices/me/dispatch": {fine: 200},
		"PATCH /v1/devices/{device}":  deviceRow(),
		"DELETE /v1/devices/{device}": {fine: 200, missing: []string{"device"}},

		"POST /v1/orgs": {fine: 201, body: `{"name":"crew"}`, limits: []limit{text("name", `{"name":%s}`, 1, wire.MaxOrgName)},
			wrong: []string{`name={}`, `name={"name":null}`, `name={"name":{}}`}},
		"GET /v1/orgs": {fine: 200},
		"GET /v1/orgs/{org}/members": {fine: 200, missing: []string{"org"},
			roles: verdicts{outsider: forbidden, member: "200", admin: "200", owner: "200"}},
		"POST /v1/orgs/{org}/members": {fine: 201, body: `{"user_id":"{other}"}`, missing: []string{"org"},
			roles: verdicts{outsider: forbidden, member: forbidden, admin: "201", owner: "201"},
			wrong: []string{`user_id={}`, `user_id={"user_id":"{other}","email":"a@example.test"}`, `role={"user_id":"{other}","role":"boss"}`}},
		"DELETE /v1/orgs/{org}/members/{user}": {fine: 200, missing: []string{"org", "user"},
			roles: verdicts{outsider: forbidden, member: forbidden, admin: "200", owner: "200"}},

		"GET /v1/audit": {fine: 200, query: "session_id={id}", roles: verdicts{stranger: noMember, viewer: noMember, editor: noMember, owner: "200"}},
	}
}

func eventsRow() row {
	return row{fine: 200, body: oneEvent, as: holder, missing: []string{"id"}, roles: from(wire.RoleViewer, held).but(verdicts{holder: "200"}), limits: []limit{
		text("events", `{"events":[{"kind":%s}]}`, 1, wire.MaxKind),
		text("events", fmt.Sprintf(inEvent, `"turn_id":%s`), 0, wire.MaxID),
		text("events", fmt.Sprintf(inEvent, `"client_event_id":%s`), 0, wire.MaxID),
		count("events", `{"events":%s}`, `{"kind":"x"}`, 1, wire.MaxBatch),
		{"events", []string{fmt.Sprintf(inEvent, `"payload":`+nested(wire.MaxDepth))}, []string{fmt.Sprintf(inEvent, `"payload":`+nested(wire.MaxDepth+1))}},
		{"events", []string{fmt.Sprintf(inEvent, `"ts":9007199254740991`)}, []string{fmt.Sprintf(inEvent, `"ts":9007199254740992`)}},
	}, wrong: []string{
		`events={}`, `events={"events":{}}`, `events={"events":[1]}`, `events={"events":[{}]}`, `events={"events":[{"kind":"x","payload":[]}]}`,
		`events={"events":[{"kind":"x","ts":"now"}]}`, `expected_last_seq={"events":[{"kind":"x"}],"expected_last_seq":-1}`,
		`events={"events":[{"kind":"a\u0000"}]}`, `expected_last_seq={"events":[{"kind":"x"}],"expected_last_seq":"0"}`,
	}}
}

func dispatchRow() row {
	return row{
		fine: 202, body: `{"device_id":"{target}","text":"go"}`, missing: []string{"id"}, roles: from(wire.RoleEditor, "202"), limits: []limit{
			text("text", `{"device_id":"{target}","text":%s}`, 1, wire.MaxText),
			text("control_id", `{"device_id":"{target}","text":"go","control_id":%s}`, 1, wire.MaxID),
			text("turn_id", `{"device_id":"{target}","text":"go","turn_id":%s}`, 0, wire.MaxID),
		}, wrong: []string{
			`device_id={"text":"go"}`, `device_id={"device_id":"x","text":"go"}`, `text={"device_id":"{target}"}`,
			`mode={"device_id":"{target}","text":"go","mode":"later"}`,
		},
	}
}

func sharesRow() row {
	return row{
		fine: 201, body: `{"principal_type":"user","principal_id":"{other}"}`, missing: []string{"id"}, roles: from(wire.RoleOwner, "201"),
		wrong: []string{
			`principal_type={}`, `principal_type={"principal_type":"world"}`, `principal_id={"principal_type":"user"}`,
			`principal_id={"principal_type":"link","principal_id":"x"}`, `principal_id={"principal_type":"user","principal_id":"nobody"}`,
			`role={"principal_type":"link","role":"boss"}`, `expires_at={"principal_type":"link","expires_at":"2020-01-01T00:00:00.000Z"}`,
			`expires_at={"principal_type":"link","expires_at":"tomorrow"}`, `principal_id={"principal_type":"org"}`,
			`email={"principal_type":"user","email":"nobody@example.test"}`,
		},
	}
}

func deviceRow() row {
	token := func(n int) string { return `{"push_token":"` + strings.Repeat("t", n) + `"}` }
	return row{fine: 200, body: `{"capabilities":["screen"]}`, missing: []string{"device"}, limits: []limit{
		text("capabilities", `{"capabilities":[%s]}`, 1, wire.MaxCapability),
		count("capabilities", `{"capabilities":%s}`, `"c"`, 0, wire.MaxCapabilities),
		{"push_token", []string{token(wire.MinPushToken), token(wire.MaxPushToken)}, []string{token(wire.MinPushToken - 1), token(wire.MaxPushToken + 1)}},
	}, wrong: []string{`push_token={}`, `push_token={"push_token":"not ascii ß"}`, `capabilities={"capabilities":"screen"}`, `capabilities={"capabilities":[1]}`}}
}
