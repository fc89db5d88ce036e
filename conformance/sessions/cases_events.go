package sessions

import (
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/conformance/rulebook"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func eventCases() []testCase {
	return []testCase{
		{rule: "SS-EVT-1", name: "pages ascend, 200 by default and 1000 at most", run: caseEventPages},
		{rule: "SS-EVT-1", name: "before and tail page backwards", ours: true, run: caseEventsBackwards},
		{rule: "SS-EVT-2", name: "an append, field by field", run: caseAppend},
		{rule: "SS-EVT-2", name: "expected_last_seq makes it conditional", run: caseExpectedSeq},
		{rule: "SS-EVT-2", name: "known client_event_ids keep their seq", run: caseDuplicates},
		{rule: "SS-EVT-2", name: "the same client_event_id of another device is another event", run: caseDuplicateOtherDevice},
		{rule: "SS-EVT-2", name: "seq is dense under concurrent appends", run: caseConcurrentAppends},
		{rule: "SS-EVT-2", name: "one batch sent many times at once is stored once", run: caseConcurrentBatch},
		{rule: "SS-EVT-2", name: "of concurrent conditional appends one wins", run: caseConcurrentExpected},
		{rule: "SS-EVT-3", name: "unknown kinds are stored; ts and payload have defaults", run: caseEventDefaults},
		{rule: "SS-EVT-4", name: "without the live lease append and applied are lease_held", run: caseNotHolder},
	}
}

func caseEventPages(t *trial) {
	r := t.room().executed()
	r.fill(1205)
	a := r.owner.get(r.path("/events")).want(200).has("last_seq", "events")
	require.JSONEq(t, `1205`, string(member(t, a.body, "last_seq")))
	requireFields(t, list(t, a.body, "events")[0], "an event", eventFields...)
	r.wantPages(map[string][2]int{
		"": {1, 200}, "?limit=1": {1, 1}, "?limit=1000": {1, 1000}, "?limit=5000": {1, 1000},
		"?after=1000": {1001, 200}, "?after=1000&limit=1000": {1001, 205}, "?after=1204": {1205, 1},
		"?after=abc&limit=3": {1, 3}, "?after=-7&limit=3": {1, 3}, "?limit=abc": {1, 200}, "?limit=-1": {1, 200},
	})
	require.Empty(t, r.events("?after=1205"))
	require.Empty(t, r.events("?after=99999"))
	a = r.owner.get(r.path("/events?after=99999")).want(200)
	require.Equal(t, "[]", string(member(t, a.body, "events")))
	require.JSONEq(t, `1205`, string(member(t, a.body, "last_seq")))
	require.Len(t, r.all(), 1205)
}

func caseEventsBackwards(t *trial) {
	r := t.room().executed()
	r.fill(300)
	r.wantPages(map[string][2]int{
		"?tail=3": {298, 3}, "?tail=1000": {1, 300}, "?tail=300": {1, 300},
		"?before=100&limit=10": {90, 10}, "?before=4": {1, 3}, "?before=301&limit=2": {299, 2}, "?before=99999&limit=1": {300, 1},
	})
	require.Empty(t, r.events("?before=1"))
}

// wantPages ends the case unless each query answers a dense page: its first seq and its length.
func (r *room) wantPages(pages map[string][2]int) {
	for query, want := range pages {
		page := r.events(query)
		require.Len(r.t, page, want[1], "events%s", query)
		requireDense(r.t, int64(want[0]), page)
	}
}

func caseAppend(t *trial) {
	r := t.room().executed()
	a := r.owner.post(r.path("/events"), object{"events": []object{
		{"kind": "user", "ts": 1757757852512, "turn_id": "t-1", "client_event_id": "c-1", "payload": object{"text": "hello"}},
		{"kind": "assistant"},
	}}).want(200).has("last_seq", "accepted", "events")
	require.JSONEq(t, `{"last_seq":2,"accepted":2,"events":[{"client_event_id":"c-1","seq":1},{"client_event_id":null,"seq":2}]}`, string(a.body))
	stored := list(t, r.owner.get(r.path("/events")).want(200).body, "events")
	require.JSONEq(t, fmt.Sprintf(`{"seq":1,"kind":"user","ts":1757757852512,"sender_device_id":%q,"turn_id":"t-1",
		"client_event_id":"c-1","payload":{"text":"hello"}}`, r.owner.device), string(stored[0]))
	requireFields(t, stored[1], "an event without options", eventFields...)
	require.JSONEq(t, `null`, string(member(t, stored[1], "turn_id")))
	require.JSONEq(t, `null`, string(member(t, stored[1], "client_event_id")))
	require.EqualValues(t, 2, r.detail(r.owner).LastSeq)
	r.append(r.owner, object{"kind": "x", "seq": 99})
	require.Len(t, r.all(), 3, "a seq of the client's is ignored")
}

func caseExpectedSeq(t *trial) {
	r := t.room().executed()
	send := func(expected int, events ...object) *answer {
		return r.owner.post(r.path("/events"), object{"events": events, "expected_last_seq": expected})
	}
	first := event("user")
	send(0, first).want(200)
	send(0, event("user")).refused(code.SeqConflict, "1")
	send(7, event("user")).refused(code.SeqConflict, "1")
	require.Len(t, r.all(), 1, "nothing is written")
	send(0, first).refused(code.SeqConflict, "1")
	var receipt wire.Receipt
	send(1, first, event("user")).want(200).into(&receipt)
	require.Equal(t, 1, receipt.Accepted)
	_, seq := r.control(r.owner, wire.ControlSend)
	send(2, event("user")).refused(code.SeqConflict, fmt.Sprint(seq))
	send(int(seq), event("user")).want(200)
	require.Len(t, r.all(), 4)
}

func caseDuplicates(t *trial) {
	r := t.room().executed()
	events := batch(5)
	r.append(r.owner, events...)
	again := r.append(r.owner, events...)
	require.Zero(t, again.Accepted)
	require.EqualValues(t, 5, again.LastSeq)
	for i, entry := range again.Events {
		require.EqualValues(t, i+1, entry.Seq)
		require.Equal(t, events[i]["client_event_id"], value(entry.ClientEventID))
	}
	fresh, without := event("new"), object{"kind": "no id"}
	mixed := r.append(r.owner, events[4], fresh, without, fresh, events[0], without)
	require.Equal(t, 3, mixed.Accepted)
	var seqs []int64
	for _, entry := range mixed.Events {
		seqs = append(seqs, entry.Seq)
	}
	require.Equal(t, []int64{5, 6, 7, 6, 1, 8}, seqs)
	require.EqualValues(t, 8, mixed.LastSeq)
	require.Len(t, r.all(), 8)
	changed := object{"kind": "changed", "client_event_id": events[0]["client_event_id"]}
	require.Zero(t, r.append(r.owner, changed).Accepted)
	require.Equal(t, "assistant", r.events("?limit=1")[0].Kind, "the first one stays")
}

func caseDuplicateOtherDevice(t *trial) {
	r := t.room().executed()
	same := event("user")
	r.append(r.owner, same)
	second := r.owner.anotherDevice()
	second.post(r.path("/lease"), object{"force": true}).want(200)
	receipt := r.append(second, same)
	require.Equal(t, 1, receipt.Accepted)
	require.EqualValues(t, 3, receipt.Events[0].Seq, "after the event and lease_transferred")
}

func caseConcurrentAppends(t *trial) {
	r := t.room().executed()
	editor := r.editor()
	answers := rulebook.Concurrently(16, func(i int) *answer {
		if i%4 == 3 {
			return editor.post(r.path("/control"), object{"id": newID(), "kind": "steer", "text": "x"})
		}
		return r.owner.post(r.path("/events"), object{"events": batch(i + 1)})
	})
	total := 0
	for i, a := range answers {
		if i%4 == 3 {
			a.want(202)
			total++
			continue
		}
		var receipt wire.Receipt
		a.want(200).into(&receipt)
		require.Len(t, receipt.Events, i+1)
		for place, entry := range receipt.Events {
			require.Equal(t, receipt.Events[0].Seq+int64(place), entry.Seq, "one batch is base+1 … base+n")
		}
		total += i + 1
	}
	require.Len(t, r.all(), total)
}

func caseConcurrentBatch(t *trial) {
	r := t.room().executed()
	events := batch(20)
	answers := rulebook.Concurrently(10, func(int) *answer { return r.owner.post(r.path("/events"), object{"events": events}) })
	accepted := 0
	for _, a := range answers {
		var receipt wire.Receipt
		a.want(200).into(&receipt)
		accepted += receipt.Accepted
		for i, entry := range receipt.Events {
			require.EqualValues(t, i+1, entry.Seq)
		}
	}
	require.Equal(t, 20, accepted)
	require.Len(t, r.all(), 20)
}

func caseConcurrentExpected(t *trial) {
	r := t.room().executed()
	answers := rulebook.Concurrently(10, func(int) *answer {
		return r.owner.post(r.path("/events"), object{"events": batch(3), "expected_last_seq": 0})
	})
	require.Equal(t, map[int]int{200: 1, 409: 9}, statuses(answers))
	for _, a := range answers {
		if a.status == 409 {
			a.refused(code.SeqConflict, "3")
		}
	}
	require.Len(t, r.all(), 3)
}

func caseEventDefaults(t *trial) {
	r := t.room().executed()
	kinds := []string{"never heard of", "control", "lease_transferred", "Ω", " ", strings.Repeat("k", 64)}
	for _, kind := range kinds {
		r.append(r.owner, object{"kind": kind})
	}
	for i, stored := range r.all() {
		require.Equal(t, kinds[i], stored.Kind)
		require.Equal(t, `{}`, string(stored.Payload))
		require.WithinDuration(t, r.session.CreatedAt.Time, time.UnixMilli(stored.TS), time.Minute, "ts defaults to server time")
	}
	r.append(r.owner, object{"kind": "old", "ts": 0}, object{"kind": "ahead", "ts": 9007199254740991})
	stored := r.events("?after=6")
	require.EqualValues(t, 0, stored[0].TS)
	require.EqualValues(t, 9007199254740991, stored[1].TS)
}

const (
	heldElsewhere = "Another device holds a live executor lease. (holder_device_id="
	heldByNobody  = "No live lease held by this device."
)

func caseNotHolder(t *trial) {
	r := t.room()
	id, _ := r.control(r.owner, wire.ControlSend)
	second, viewer := r.owner.anotherDevice(), r.viewer()
	refusedBoth := func(u *caller, message string) {
		for _, a := range []*answer{u.post(r.path("/events"), object{"events": batch(1)}), r.applied(u, id)} {
			a.refused(code.LeaseHeld)
			require.Equal(t, message, a.message(), "%s", a)
		}
	}
	refusedBoth(r.owner, heldByNobody)
	refusedBoth(viewer, heldByNobody)
	r.claim(r.owner)
	refusedBoth(second, heldElsewhere+r.owner.device+")")
	refusedBoth(viewer, heldElsewhere+r.owner.device+")")
	t.stranger().post(r.path("/events"), object{"events": batch(1)}).refused(code.NotAMember)
	r.owner.delete(r.path("/lease")).want(200)
	refusedBoth(r.owner, heldByNobody)
	require.Len(t, r.all(), 1)
}
