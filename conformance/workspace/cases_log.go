package workspace

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/conformance/contract"
	"github.com/cairnsync/cairn/conformance/rulebook"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func logCases() []testCase {
	return []testCase{
		{rule: "ES-2.1", name: "what is durable can be caught up, what is ephemeral cannot", run: caseKinds},
		{rule: "ES-2.2", name: "the envelope of a message, on the gateway and by REST", run: caseEnvelope},
		{rule: "ES-2.2", name: "the members of personal events", run: casePersonalEnvelope},
		{rule: "ES-2.2", name: "a long message is truncated in its event and whole by REST", profile: small, run: caseTruncated},
		{rule: "ES-2.2", name: "a deletion redacts what the log has of the message", run: caseRedacted},
		{rule: "ES-2.2", name: "settings of a channel are named by their version only", run: caseSettingsAreNoPayload},
		{rule: "ES-2.3", name: "every frame is a text frame of op and d that the document knows", run: caseFrames},
		{rule: "ES-2.3", name: "no frame is longer than sync.ws_max_frame_bytes", profile: small, run: caseFrameLength},
		{rule: "ES-3.1", name: "a reader who follows the log while many write misses nothing", run: caseNothingIsMissed},
		{rule: "ES-3.2", name: "refused and repeated writes leave no gap", run: caseNoGaps},
		{rule: "ES-3.3", name: "the audit chain and the permission version count up", run: caseCounters},
		{rule: "ES-4", name: "thread_seq has no gap and no duplicate under concurrent writers", run: caseThreadSeq},
		{rule: "ES-4", name: "a deleted message keeps its thread_seq", run: caseTombstoneSeq},
	}
}

func caseKinds(t *trial) {
	r := t.room()
	ben := r.joined(wire.LevelWrite)
	from := r.anna.head()
	watcher := r.anna.connect()
	watcher.focus(r.thread)
	typist := ben.connect()
	typist.send(wire.OpTypingStart, wire.Typing{ThreadID: r.thread})
	typing := watcher.await("typing.started")
	require.Zero(t, typing.Seq, "an ephemeral event has no seq")
	require.Zero(t, typing.PermissionVersion)
	sent := r.say(ben, "kept")
	require.Equal(t, sent.ID, watcher.await("message.created").Resource.ID)
	caught := r.anna.events(from)
	require.Contains(t, types(caught), "message.created")
	require.NotContains(t, types(caught), "typing.started")
}

func caseEnvelope(t *trial) {
	r := t.room()
	from := r.anna.head()
	watcher := r.anna.connect()
	sent := r.say(r.anna, "hello")
	live := watcher.await("message.created")
	events := only(r.anna.events(from), "message.created")
	require.Len(t, events, 1)
	require.Equal(t, events[0], live, "the same on the gateway and by REST")
	require.Positive(t, live.Seq)
	require.Equal(t, byte('7'), live.ID[14], "a UUID of version 7: %s", live.ID)
	require.Equal(t, 1, live.SchemaVersion)
	require.WithinDuration(t, sent.CreatedAt, live.OccurredAt, time.Minute)
	require.Equal(t, &wire.Actor{ID: r.anna.id, Kind: wire.KindUser}, live.Actor)
	require.Equal(t, wire.Scope{SpaceID: r.space.ID, ChannelID: r.channel.ID, ThreadID: r.thread}, live.Scope)
	require.Equal(t, wire.Resource{Kind: "message", ID: sent.ID, Version: sent.Version}, live.Resource)
	require.Equal(t, sent.ClientMsgID, live.ClientMsgID, "the echo names the client's id")
	require.Positive(t, live.PermissionVersion)
	require.Empty(t, live.Audience)
	require.Empty(t, live.TraceContext, "only in deliveries to agents")
	require.Empty(t, live.InvocationToken)
	require.False(t, live.Redelivered)
	require.Empty(t, live.SyncEpoch, "only to webhooks")
	carried := payload[wire.MessageEvent](t, live)
	require.Equal(t, sent, carried.Message)
	require.Equal(t, sent.ThreadSeq, carried.Thread.LastMessageSeq)
}

func casePersonalEnvelope(t *trial) {
	r := t.room()
	from := r.anna.head()
	r.anna.put("/settings/theme", object{"value": "dark"}).want(http.StatusOK)
	events := only(r.anna.events(from), "settings.updated")
	require.Len(t, events, 1)
	require.Equal(t, wire.AudienceSelf, events[0].Audience)
	require.Equal(t, wire.Scope{}, events[0].Scope)
	require.Empty(t, only(r.owner.events(from), "settings.updated"), "to nobody else")
}

func caseTruncated(t *trial) {
	r := t.room()
	watcher := r.anna.connect()
	text := strings.Repeat("long ", 2000)
	sent := r.say(r.anna, text)
	event := watcher.await("message.created")
	require.True(t, event.Truncated)
	require.Less(t, len(event.Payload), 4096)
	require.Equal(t, text, r.message(r.anna, sent.ID).ContentMD, "REST has all of it")
}

func caseRedacted(t *trial) {
	r := t.room()
	from := r.anna.head()
	secret := "secret-" + newID()
	sent := r.say(r.anna, secret)
	r.anna.patch("/messages/"+sent.ID, wire.EditMessage{ContentMD: secret + " again"}, ifMatch(sent.Version)).want(http.StatusOK)
	r.anna.put("/messages/"+sent.ID+"/reactions/👍", nil).want(http.StatusNoContent)
	r.anna.delete("/messages/" + sent.ID).want(http.StatusNoContent)
	answer := r.anna.get(fmt.Sprintf("/events?after=%d", from)).want(http.StatusOK)
	require.NotContains(t, string(answer.body), secret)
	require.NotContains(t, string(answer.body), "👍")
	events := only(r.anna.events(from), "message.created", "message.updated", "message.deleted", "reaction.added")
	require.Equal(t, []string{"message.created", "message.updated", "reaction.added", "message.deleted"}, types(events))
	for _, event := range events[:2] {
		require.True(t, event.Redacted, event.Type)
		message := payload[wire.MessageEvent](t, event).Message
		require.NotNil(t, message.DeletedAt, "a redacted payload is the tombstone")
		require.Empty(t, message.ContentMD)
	}
	reaction := payload[wire.ReactionEvent](t, events[2])
	require.Empty(t, reaction.Emoji)
	require.Zero(t, reaction.Count)
}

func caseSettingsAreNoPayload(t *trial) {
	r := t.room()
	from := r.anna.head()
	prompt := "prompt-" + newID()
	r.owner.put("/channels/"+r.channel.ID+"/settings", wire.PutSettings{Prompt: prompt}, ifMatch(r.channel.SettingsVersion)).want(http.StatusOK)
	events := only(r.anna.events(from), "channel.settings_changed")
	require.Len(t, events, 1)
	require.NotContains(t, string(events[0].Payload), prompt)
	require.Greater(t, payload[wire.ChannelSettingsChanged](t, events[0]).SettingsVersion, r.channel.SettingsVersion)
	require.Zero(t, events[0].Resource.Version)
}

// Every socket of the suite holds every frame against the document; here it is said that there is something to hold.
func caseFrames(t *trial) {
	r := t.room()
	s := r.anna.connect()
	r.say(r.anna, "one")
	s.await("message.created")
	s.acknowledged()
	s.send(wire.OpFocus, wire.Focus{ThreadIDs: []string{"no id"}})
	s.expect(wire.OpError)
	require.Subset(t, t.in.frames.Names(contract.FromServer), []string{
		"hello", "ready", "resumed", "cursor", "catchup.complete", "resync_required", "heartbeat_ack", "reauth_required", "error", "dispatch.message.created",
	})
	require.Subset(t, t.in.frames.Names(contract.FromClient), []string{"identify", "resume", "heartbeat", "reauth", "focus", "typing.start", "typing.stop"})
}

func caseFrameLength(t *trial) {
	r := t.room()
	topic := strings.Repeat("topic ", 160)
	for range 10 {
		in := wire.NewChannel{SpaceID: r.space.ID, Kind: wire.ChannelText, Name: "channel " + newID(), Topic: topic}
		channel := read[wire.Channel](r.owner.post("/channels", in), http.StatusCreated)
		r.grantOn(r.anna, channel.ID, wire.LevelRead)
	}
	s := r.anna.dial()
	s.ws.SetReadLimit(16384)
	s.identify(s.identity())
	require.True(t, s.ready.SnapshotByREST, "WS-4 a ready over half a frame says so")
	require.Nil(t, s.ready.Snapshot)
	r.say(r.anna, strings.Repeat("x", 19000))
	require.True(t, s.await("message.created").Truncated)
}

func caseNothingIsMissed(t *trial) {
	r := t.room()
	const writers, each = 4, 10
	threads := []string{r.thread}
	for range writers - 1 {
		threads = append(threads, r.newChannel(wire.ChannelText).MainThreadID)
	}
	page := read[wire.Events](r.owner.get(fmt.Sprintf("/events?after=%d", r.owner.head())), http.StatusOK)
	cursor, seen := page.NextCursor, map[string]bool{}
	written := make(chan []string, 1)
	go func() {
		ids := rulebook.Concurrently(writers, func(i int) []string {
			var made []string
			for range each {
				var message wire.Message
				a := r.owner.post("/threads/"+threads[i]+"/messages", wire.NewMessage{ClientMsgID: newID(), ContentMD: "x"})
				if a.failure == nil && decode(a.body, &message) == nil {
					made = append(made, message.ID)
				}
			}
			return made
		})
		written <- slices.Concat(ids...)
	}()
	var want []string
	for done := false; ; {
		if !done {
			select {
			case want = <-written:
				done = true
			default:
			}
		}
		for _, event := range only(readAfter(r.owner, &cursor), "message.created") {
			require.False(t, seen[event.Resource.ID], "twice: %s", event.Resource.ID)
			seen[event.Resource.ID] = true
		}
		if done {
			break
		}
	}
	for _, event := range only(r.owner.events(cursor), "message.created") {
		seen[event.Resource.ID] = true
	}
	require.Len(t, want, writers*each)
	for _, id := range want {
		require.True(t, seen[id], "a reader passed over %s", id)
	}
}

// readAfter reads one page and moves the cursor to what was checked.
func readAfter(p *person, cursor *int64) []wire.Envelope {
	page := read[wire.Events](p.get(fmt.Sprintf("/events?after=%d", *cursor)), http.StatusOK)
	*cursor = page.NextCursor
	return page.Events
}

func caseNoGaps(t *trial) {
	r := t.room()
	s := r.anna.connect()
	before := s.settledSeq()
	for range 5 {
		r.anna.post("/threads/"+r.thread+"/messages", object{"client_msg_id": newID()}).want(http.StatusUnprocessableEntity)
	}
	sent := r.say(r.anna, "one")
	in := wire.NewMessage{ClientMsgID: sent.ClientMsgID, ContentMD: "one"}
	for range 5 {
		r.anna.post("/threads/"+r.thread+"/messages", in).want(http.StatusOK)
	}
	r.say(r.anna, "two")
	events := only(s.settled(), "message.created")
	require.Len(t, events, 2)
	require.Greater(t, events[0].Seq, before)
	require.Equal(t, payload[wire.MessageEvent](t, events[0]).Message.ThreadSeq+1, payload[wire.MessageEvent](t, events[1]).Message.ThreadSeq)
}

// settledSeq answers where the log is for this connection.
func (s *socket) settledSeq() int64 {
	s.settled()
	return s.seq
}

func caseCounters(t *trial) {
	r := t.room()
	ben := t.member(r.owner)
	before := r.owner.snapshot().PermissionVersion
	grants := rulebook.Concurrently(4, func(int) *answer {
		return r.owner.post("/grants", wire.NewGrant{
			Subject: wire.Subject{Kind: wire.SubjectPrincipal, ID: ben.id},
			Target:  wire.Target{Kind: wire.TargetChannel, ID: r.channel.ID}, Level: wire.LevelRead,
		})
	})
	for _, a := range grants {
		a.want(http.StatusCreated)
	}
	require.GreaterOrEqual(t, r.owner.snapshot().PermissionVersion, before+4)
	page := read[wire.Page[wire.AuditEntry]](r.owner.get("/audit?limit=50"), http.StatusOK)
	for i, entry := range page.Items[1:] {
		require.Equal(t, page.Items[i].Seq-1, entry.Seq, "audit_seq has no gap, newest first")
	}
}

func caseThreadSeq(t *trial) {
	r := t.room()
	ben := r.joined(wire.LevelWrite)
	const many = 12
	sent := rulebook.Concurrently(many, func(i int) *answer {
		from := []*person{r.anna, ben, r.owner}[i%3]
		return from.post("/threads/"+r.thread+"/messages", wire.NewMessage{ClientMsgID: newID(), ContentMD: fmt.Sprint(i)})
	})
	for _, a := range sent {
		a.want(http.StatusCreated)
	}
	read := r.messages(ben, "?limit=100").Messages
	require.Len(t, read, many)
	for i, message := range read {
		require.EqualValues(t, i+1, message.ThreadSeq)
	}
	var delivered []int64
	for _, event := range only(ben.events(0), "message.created") {
		if event.Scope.ThreadID == r.thread {
			delivered = append(delivered, payload[wire.MessageEvent](t, event).Message.ThreadSeq)
		}
	}
	require.True(t, slices.IsSorted(delivered), "seq and thread_seq order a thread alike: %v", delivered)
	require.Len(t, delivered, many)
}

func caseTombstoneSeq(t *trial) {
	r := t.room()
	for i := range 3 {
		sent := r.say(r.anna, fmt.Sprint(i))
		if i == 1 {
			r.anna.delete("/messages/" + sent.ID).want(http.StatusNoContent)
		}
	}
	read := r.messages(r.anna, "").Messages
	require.Len(t, read, 3)
	require.NotNil(t, read[1].DeletedAt)
	require.EqualValues(t, 2, read[1].ThreadSeq)
	require.EqualValues(t, 3, read[2].ThreadSeq)
}
