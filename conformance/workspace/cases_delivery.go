package workspace

import (
	"net/http"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func deliveryCases() []testCase {
	return []testCase{
		{rule: "ES-9.1", name: "what a connection may have lost comes again", run: caseAgain},
		{rule: "ES-9.2", name: "a connection delivers strictly in the order of seq", run: caseOrder},
		{rule: "ES-9.3", name: "resource.version is there exactly where the object has a new one", run: caseVersionsReported},
		{rule: "ES-9.3", name: "reactions and pins do not raise the version of a message", run: caseReactionVersion},
		{rule: "ES-9.4", name: "an ephemeral event is delivered at most once", run: caseEphemeralOnce},
		{rule: "ES-10", name: "every receiver, through every node, sees one order", run: caseOneOrder},
		{rule: "ES-12.1", name: "typing goes to who has the thread in focus, and not to oneself", profile: small, run: caseTyping},
		{rule: "ES-12.1", name: "too often is rate_limited, and typing.stop resets that", run: caseTypingThrottle},
		{rule: "ES-12.1", name: "typing needs write", run: caseTypingLevel},
		{rule: "ES-12.1", name: "a background thread gets no typing", run: caseTypingBackground},
	}
}

func caseAgain(t *trial) {
	r := t.room()
	s := r.anna.connect()
	cursor := s.settledSeq()
	sent := r.say(r.owner, "twice")
	first := s.await("message.created")
	s.cut()
	again, _ := r.anna.resume(s.ready.GatewaySessionID, cursor)
	events, _ := again.completed()
	require.Equal(t, first, only(events, "message.created")[0], "the same event: %s", sent.ID)
}

func caseOrder(t *trial) {
	r := t.room()
	s := r.anna.connect()
	var want []string
	for range 5 {
		sent := r.say(r.anna, "x")
		r.anna.put("/messages/"+sent.ID+"/reactions/👍", nil).want(http.StatusNoContent)
		r.anna.put("/read-states/"+r.thread, wire.PutReadState{LastReadSeq: sent.ThreadSeq}).want(http.StatusOK)
		want = append(want, "message.created", "reaction.added", "read_state.updated")
	}
	require.Equal(t, want, types(s.settled())) // that seq only rises is checked on every socket
}

// versionless are the types that report no version of their resource (ES-9.3, and personal ones of the same kind).
var versionless = map[string]bool{
	"reaction.added": true, "reaction.removed": true, "pin.added": true, "pin.removed": true, "read_state.updated": true,
	"sidebar.updated": true, "channel.settings_changed": true, "thread.moved_out": true,
	"access.changed": true, "access.expiring": true, "device.updated": true,
}

func caseVersionsReported(t *trial) {
	r := t.room()
	r.grant(r.anna, wire.LevelManage)
	s := r.anna.connect()
	sent := r.say(r.anna, "x")
	r.anna.put("/messages/"+sent.ID+"/reactions/👍", nil).want(http.StatusNoContent)
	r.anna.delete("/messages/" + sent.ID + "/reactions/👍").want(http.StatusNoContent)
	r.anna.put("/threads/"+r.thread+"/pins/"+sent.ID, nil).want(http.StatusNoContent)
	r.anna.delete("/threads/" + r.thread + "/pins/" + sent.ID).want(http.StatusNoContent)
	r.anna.patch("/messages/"+sent.ID, wire.EditMessage{ContentMD: "y"}, ifMatch(sent.Version)).want(http.StatusOK)
	r.anna.put("/read-states/"+r.thread, wire.PutReadState{LastReadSeq: 1}).want(http.StatusOK)
	r.anna.put("/spaces/"+r.space.ID+"/sidebar", object{"state": object{"a": 1}}).want(http.StatusOK)
	r.anna.put("/drafts/"+r.thread, wire.PutDraft{ContentMD: "d"}).want(http.StatusOK)
	r.anna.delete("/drafts/" + r.thread).want(http.StatusNoContent)
	r.anna.put("/notification-prefs/channel/"+r.channel.ID, wire.PutNotificationPref{Level: "none"}).want(http.StatusOK)
	r.owner.put("/channels/"+r.channel.ID+"/settings", wire.PutSettings{Prompt: "p"}, ifMatch(r.channel.SettingsVersion)).want(http.StatusOK)
	r.owner.patch("/channels/"+r.channel.ID, object{"topic": "t"}, ifMatch(r.channel.Version)).want(http.StatusOK)
	started := r.start(r.anna, r.channel.ID, "t")
	r.anna.post("/threads/"+started.Thread.ID+"/done", object{}).want(http.StatusOK)
	r.anna.post("/threads/"+started.Thread.ID+"/reopen", object{}).want(http.StatusOK)
	r.anna.delete("/messages/" + sent.ID).want(http.StatusNoContent)
	events := s.settled()
	seen := map[string]bool{}
	for _, event := range events {
		seen[event.Type] = true
		if versionless[event.Type] {
			require.Zero(t, event.Resource.Version, event.Type)
		} else {
			require.Positive(t, event.Resource.Version, event.Type)
		}
	}
	require.GreaterOrEqual(t, len(seen), 16, "%v", seen)
}

func caseReactionVersion(t *trial) {
	r := t.room()
	ben := r.joined(wire.LevelWrite)
	s := r.anna.connect()
	sent := r.say(r.anna, "x")
	ben.put("/messages/"+sent.ID+"/reactions/👍", nil).want(http.StatusNoContent)
	r.anna.put("/messages/"+sent.ID+"/reactions/👍", nil).want(http.StatusNoContent)
	r.anna.put("/messages/"+sent.ID+"/reactions/👍", nil).want(http.StatusNoContent)
	events := only(s.settled(), "reaction.added")
	require.Len(t, events, 2, "idempotent: the repeat changes nothing")
	require.EqualValues(t, 1, payload[wire.ReactionEvent](t, events[0]).Count)
	require.EqualValues(t, 2, payload[wire.ReactionEvent](t, events[1]).Count, "absolute")
	message := r.message(r.anna, sent.ID)
	require.Equal(t, sent.Version, message.Version)
	require.Equal(t, []wire.Reaction{{Emoji: "👍", Count: 2, Me: true}}, message.Reactions)
	r.anna.patch("/messages/"+sent.ID, wire.EditMessage{ContentMD: "y"}, ifMatch(sent.Version)).want(http.StatusOK)
}

func caseEphemeralOnce(t *trial) {
	r := t.room()
	ben := r.joined(wire.LevelWrite)
	s := r.anna.connect()
	s.focus(r.thread)
	typist := ben.connect()
	typist.send(wire.OpTypingStart, wire.Typing{ThreadID: r.thread})
	s.await("typing.started")
	require.NotContains(t, types(s.settled()), "typing.started")
	s.cut()
	again, _ := r.anna.resume(s.ready.GatewaySessionID, s.seq)
	events, _ := again.completed()
	require.NotContains(t, types(append(events, again.settled()...)), "typing.started")
}

func caseOneOrder(t *trial) {
	r := t.room()
	ben := r.joined(wire.LevelRead)
	sockets := []*socket{r.anna.connect(), r.anna.another().connect(), ben.connect()}
	thread := r.start(r.owner, r.channel.ID, "busy").Thread
	done := make(chan struct{})
	for _, p := range []*person{r.anna, r.owner} {
		go func() {
			for range 8 {
				p.post("/threads/"+thread.ID+"/messages", wire.NewMessage{ClientMsgID: newID(), ContentMD: "x"})
			}
			done <- struct{}{}
		}()
	}
	<-done
	<-done
	var orders [][]string
	for _, s := range sockets {
		var ids []string
		for _, event := range only(s.settled(), "message.created") {
			ids = append(ids, event.ID)
		}
		orders = append(orders, ids)
	}
	require.Len(t, orders[0], 17)
	require.Equal(t, orders[0], orders[1])
	require.Equal(t, orders[0], orders[2])
}

func caseTyping(t *trial) {
	r := t.room()
	ben := r.joined(wire.LevelWrite)
	focused, elsewhere, own := r.anna.connect(), r.anna.another().connect(), ben.another().connect()
	focused.focus(r.thread)
	own.focus(r.thread)
	typist := ben.connect()
	typist.focus(r.thread)
	typist.send(wire.OpTypingStart, wire.Typing{ThreadID: r.thread})
	event := focused.await("typing.started")
	typing := payload[wire.TypingStarted](t, event)
	require.Equal(t, ben.id, typing.PrincipalID)
	require.Equal(t, r.thread, typing.ThreadID)
	require.WithinDuration(t, time.Now().Add(2*time.Second), typing.ExpiresAt, 15*time.Second, "sync.typing_ttl")
	require.WithinDuration(t, event.OccurredAt.Add(2*time.Second), typing.ExpiresAt, 100*time.Millisecond)
	for _, s := range []*socket{elsewhere, own, typist} {
		require.NotContains(t, types(s.settled()), "typing.started")
	}
}

func caseTypingThrottle(t *trial) {
	r := t.room()
	s := r.anna.connect()
	s.send(wire.OpTypingStart, wire.Typing{ThreadID: r.thread})
	s.send(wire.OpTypingStart, wire.Typing{ThreadID: r.thread, Ref: "again"})
	failed := s.refused(wire.OpTypingStart, code.RateLimited)
	require.Equal(t, "again", failed.Ref)
	require.Positive(t, failed.RetryAfter)
	s.send(wire.OpTypingStop, wire.Typing{ThreadID: r.thread})
	s.send(wire.OpTypingStart, wire.Typing{ThreadID: r.thread})
	require.Empty(t, s.acknowledged())
}

func caseTypingLevel(t *trial) {
	r := t.room()
	ben := r.joined(wire.LevelRead)
	s := ben.connect()
	s.send(wire.OpTypingStart, wire.Typing{ThreadID: r.thread})
	s.refused(wire.OpTypingStart, code.Forbidden)
}

func caseTypingBackground(t *trial) {
	r := t.room()
	ben := r.joined(wire.LevelWrite)
	s, typist := r.anna.connect(), ben.connect()
	s.send(wire.OpFocus, wire.Focus{ThreadIDs: []string{}, BackgroundThreadIDs: []string{r.thread}})
	s.acknowledged()
	typist.send(wire.OpTypingStart, wire.Typing{ThreadID: r.thread})
	typist.acknowledged()
	require.NotContains(t, types(s.settled()), "typing.started")
}
