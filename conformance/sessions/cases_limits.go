package sessions

import (
	"maps"
	"strings"

	"github.com/stretchr/testify/require"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

func limitCases() []testCase {
	return []testCase{
		{rule: "SS-OBJ-2", name: "session_key 1–256 and title ≤ 500 code points", run: caseLimitSession},
		{rule: "SS-OBJ-2", name: "kind 1–64, turn_id and client_event_id ≤ 128", run: caseLimitEvent},
		{rule: "SS-OBJ-2", name: "1–200 events per batch", run: caseLimitBatch},
		{rule: "SS-OBJ-2", name: "control id 1–128, ask_id ≤ 128, text ≤ 100 000", run: caseLimitControl},
		{rule: "SS-OBJ-2", name: "text of a dispatch 1–100 000, its ids ≤ 128", run: caseLimitDispatch},
		{rule: "SS-OBJ-2", name: "org name 1–200", run: caseLimitOrg},
		{rule: "SS-OBJ-2", name: "capabilities ≤ 64 of 1–64, push token 8–4096", run: caseLimitDevice},
		{rule: "SS-OBJ-3", name: "last_event_at moves on every stored event", run: caseLastEventAt},
	}
}

func caseLimitSession(t *trial) {
	u := t.owner()
	unique := newID()
	for _, length := range []int{1, 255, 256} {
		key := unique[:1] + runes(length-1)
		if length == 1 {
			key = runes(1)
		}
		a := u.post("/v1/sessions", object{"session_key": key, "title": runes(500)})
		require.Contains(t, []int{200, 201}, a.status, "%s", a)
		var made wire.Session
		a.into(&made)
		t.Cleanup(func() { u.delete("/v1/sessions/" + made.ID) })
		require.Equal(t, key, made.SessionKey)
		require.Equal(t, runes(500), *made.Title)
	}
	u.post("/v1/sessions", object{"session_key": runes(257)}).bad("session_key")
	u.post("/v1/sessions", object{"session_key": ""}).bad("session_key")
	u.post("/v1/sessions", object{"title": runes(501)}).bad("title")
	r := t.room()
	r.owner.patch(r.path(""), object{"title": runes(500)}).want(200)
	r.owner.patch(r.path(""), object{"title": runes(501)}).bad("title")
	r.owner.patch(r.path(""), object{"title": ""}).want(200)
}

func caseLimitEvent(t *trial) {
	r := t.room().executed()
	send := func(e object) *answer { return r.owner.post(r.path("/events"), object{"events": []object{e}}) }
	send(object{"kind": runes(64), "turn_id": runes(128), "client_event_id": runes(128)}).want(200)
	send(object{"kind": "k", "turn_id": "", "client_event_id": "x"}).want(200)
	stored := r.events("")
	require.Len(t, stored, 2)
	require.Equal(t, runes(64), stored[0].Kind)
	require.Equal(t, runes(128), *stored[0].TurnID)
	require.Equal(t, runes(128), *stored[0].ClientEventID)
	send(object{"kind": runes(65)}).bad()
	send(object{"kind": ""}).bad()
	send(object{"turn_id": "no kind"}).bad()
	send(object{"kind": "k", "turn_id": runes(129)}).bad()
	send(object{"kind": "k", "client_event_id": runes(129)}).bad()
	require.Len(t, r.events(""), 2)
}

func caseLimitBatch(t *trial) {
	r := t.room().executed()
	r.owner.post(r.path("/events"), object{"events": []object{}}).bad("events")
	r.owner.post(r.path("/events"), object{"events": batch(201)}).bad("events")
	require.Empty(t, r.events(""))
	require.Equal(t, 1, r.append(r.owner, batch(1)...).Accepted)
	require.Equal(t, 200, r.append(r.owner, batch(200)...).Accepted)
	require.Len(t, r.all(), 201)
}

func caseLimitControl(t *trial) {
	r := t.room()
	send := func(more object) *answer {
		body := object{"id": newID(), "kind": "answer"}
		maps.Copy(body, more)
		return r.owner.post(r.path("/control"), body)
	}
	send(object{"id": runes(128), "text": runes(100_000), "turn_id": runes(128), "ask_id": runes(128)}).want(202)
	send(object{"id": "x"}).want(202)
	send(object{"text": ""}).want(202)
	stored := r.controls("")
	require.Len(t, stored, 3)
	require.Equal(t, runes(128), stored[0].ID)
	require.Equal(t, runes(100_000), *stored[0].Text)
	send(object{"id": ""}).bad("id")
	send(object{"id": runes(129)}).bad("id")
	send(object{"text": runes(100_001)}).bad("text")
	send(object{"turn_id": runes(129)}).bad("turn_id")
	send(object{"ask_id": runes(129)}).bad("ask_id")
	require.Len(t, r.controls(""), 3)
}

func caseLimitDispatch(t *trial) {
	r := t.room()
	send := func(more object) *answer { return r.dispatch(r.owner, r.owner.device, more) }
	send(object{"text": runes(100_000), "control_id": runes(128), "turn_id": runes(128)}).want(202)
	send(object{"text": "x"}).want(202)
	send(object{"text": ""}).bad("text")
	send(object{"text": runes(100_001)}).bad("text")
	send(object{"control_id": runes(129)}).bad("control_id")
	send(object{"control_id": ""}).bad("control_id")
	send(object{"turn_id": runes(129)}).bad("turn_id")
	require.Len(t, r.controls(""), 2)
}

func caseLimitOrg(t *trial) {
	u := t.owner()
	var made wire.Org
	u.post("/v1/orgs", object{"name": runes(200)}).want(201).into(&made)
	require.Equal(t, runes(200), made.Name)
	u.post("/v1/orgs", object{"name": runes(201)}).bad("name")
	u.post("/v1/orgs", object{"name": ""}).bad("name")
}

func caseLimitDevice(t *trial) {
	u := t.owner()
	u.get("/v1/sessions").want(200)
	path := "/v1/devices/" + u.device
	many := make([]string, 65)
	for i := range many {
		many[i] = runes(64)
	}
	var device wire.Device
	u.patch(path, object{"capabilities": many[:64]}).want(200).into(&device)
	require.Equal(t, many[:64], device.Capabilities)
	u.patch(path, object{"capabilities": []string{}}).want(200).into(&device)
	require.Empty(t, device.Capabilities)
	u.patch(path, object{"capabilities": many}).bad("capabilities")
	u.patch(path, object{"capabilities": []string{runes(65)}}).bad("capabilities")
	u.patch(path, object{"capabilities": []string{""}}).bad("capabilities")
	for _, length := range []int{8, 4096} {
		u.patch(path, object{"push_token": strings.Repeat("t", length)}).want(200)
	}
	for _, length := range []int{0, 7, 4097} {
		u.patch(path, object{"push_token": strings.Repeat("t", length)}).bad("push_token")
	}
	require.True(t, u.self().HasPushToken)
}

func caseLastEventAt(t *trial) {
	r := t.room()
	require.Equal(t, r.session.CreatedAt, r.session.LastEventAt, "an empty session has its created_at there")
	require.Equal(t, r.session.LastEventAt, r.detail(r.owner).LastEventAt)
	moves := func(what string, act func()) {
		before := r.detail(r.owner).LastEventAt.Time
		t.Eventually(patience, what+" moves last_event_at", func() bool {
			act()
			return r.detail(r.owner).LastEventAt.After(before)
		})
	}
	r.claim(r.owner)
	require.Equal(t, r.session.CreatedAt, r.detail(r.owner).LastEventAt, "a lease is not an event")
	moves("an append", func() { r.append(r.owner, event("user")) })
	moves("a control", func() { r.control(r.owner, wire.ControlSend) })
	known := event("user")
	r.append(r.owner, known)
	before := r.detail(r.owner).LastEventAt
	r.append(r.owner, known)
	require.Equal(t, before, r.detail(r.owner).LastEventAt, "a known event is not stored again")
}
