package workspace

import (
	"encoding/json"
	"net/http"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func messageCases() []testCase {
	return []testCase{
		{rule: "ES-13.2", name: "which answers end the retries of an outbox", run: casePermanent},
		{rule: "ES-13.3", name: "editing needs If-Match and answers 412 with the current revision", run: caseEdit},
		{rule: "ES-13.3", name: "editing what was deleted is 410, before 412", run: caseEditDeleted},
		{rule: "ES-13.3", name: "deleting is idempotent", run: caseDelete},
		{rule: "ES-13.3", name: "sending into a done thread reopens it", run: caseDoneReopens},
		{rule: "ES-13.3", name: "sending into a moved thread works without a change", run: caseSendMoved},
		{rule: "ES-13.4", name: "echoes of one's own messages come while catching up", run: caseEchoes},
	}
}

func casePermanent(t *trial) {
	r := t.room()
	path := "/threads/" + r.thread + "/messages"
	r.anna.post(path, `{"client_msg_id"`).refused(code.MalformedJSON)
	r.anna.post("/threads/"+newID()+"/messages", wire.NewMessage{ClientMsgID: newID(), ContentMD: "x"}).refused(code.NotFound)
	r.anna.post(path, wire.NewMessage{ClientMsgID: newID(), ContentMD: ""}).refused(code.ValidationFailed)
	r.anna.post(path, wire.NewMessage{ClientMsgID: newID(), ContentMD: "x", ReplyToID: newID()}).refused(code.ValidationFailed)
}

func caseEdit(t *trial) {
	r := t.room()
	ben := r.joined(wire.LevelManage)
	sent := r.say(r.anna, "one")
	path := "/messages/" + sent.ID
	r.anna.patch(path, wire.EditMessage{ContentMD: "two"}).refused(code.PreconditionRequired)
	edited := read[wire.Message](r.anna.patch(path, wire.EditMessage{ContentMD: "two"}, ifMatch(sent.Version)), http.StatusOK)
	require.Equal(t, sent.Version+1, edited.Version)
	require.NotNil(t, edited.EditedAt)
	problem := r.anna.patch(path, wire.EditMessage{ContentMD: "three"}, ifMatch(sent.Version)).refused(code.VersionConflict)
	var current wire.Message
	require.NoError(t, json.Unmarshal(problem.Current, &current))
	require.Equal(t, edited.ContentMD, current.ContentMD)
	require.Equal(t, edited.Version, current.Version)
	ben.patch(path, wire.EditMessage{ContentMD: "mine"}, ifMatch(edited.Version)).refused(code.Forbidden)
	revisions := r.anna.get(path + "/revisions").want(http.StatusOK)
	require.Contains(t, string(revisions.body), `"one"`)
}

func caseEditDeleted(t *trial) {
	r := t.room()
	sent := r.say(r.anna, "one")
	r.anna.delete("/messages/" + sent.ID).want(http.StatusNoContent)
	for _, version := range []int64{sent.Version, sent.Version + 1, 99} {
		r.anna.patch("/messages/"+sent.ID, wire.EditMessage{ContentMD: "two"}, ifMatch(version)).refused(code.MessageDeleted)
	}
	revisions := r.anna.get("/messages/" + sent.ID + "/revisions")
	require.NotContains(t, string(revisions.body), `"one"`)
}

func caseDelete(t *trial) {
	r := t.room()
	s := r.anna.connect()
	sent := r.say(r.anna, "one")
	for range 3 {
		r.anna.delete("/messages/" + sent.ID).want(http.StatusNoContent)
	}
	require.Equal(t, []string{"message.created", "message.deleted"}, types(s.settled()))
	tombstone := r.message(r.anna, sent.ID)
	require.NotNil(t, tombstone.DeletedAt)
	require.Empty(t, tombstone.ContentMD)
	require.Empty(t, tombstone.Reactions)
	require.Empty(t, tombstone.MentionIDs)
	thread := read[wire.Thread](r.anna.get("/threads/"+r.thread), http.StatusOK)
	require.Zero(t, thread.MessageCount)
	require.EqualValues(t, 1, thread.LastMessageSeq)
}

func caseDoneReopens(t *trial) {
	r := t.room()
	thread := r.start(r.anna, r.channel.ID, "a thread").Thread
	done := read[wire.Thread](r.anna.post("/threads/"+thread.ID+"/done", object{}), http.StatusOK)
	require.Equal(t, wire.ThreadDone, done.State)
	s := r.anna.connect()
	r.sayIn(r.anna, thread.ID, "more")
	got := s.settled()
	require.ElementsMatch(t, []string{"thread.reopened", "message.created"}, types(got))
	require.Equal(t, wire.ThreadOpen, payload[wire.MessageEvent](t, only(got, "message.created")[0]).Thread.State)
	require.Equal(t, wire.ThreadOpen, read[wire.Thread](r.anna.get("/threads/"+thread.ID), http.StatusOK).State)
}

func caseSendMoved(t *trial) {
	r := t.room()
	other := r.newChannel(wire.ChannelText)
	r.grantOn(r.anna, other.ID, wire.LevelWrite)
	thread := r.start(r.anna, r.channel.ID, "a thread").Thread
	s := r.anna.connect()
	moved := read[wire.Thread](r.owner.post("/threads/"+thread.ID+"/move", wire.MoveThread{ChannelID: other.ID}), http.StatusOK)
	require.Equal(t, thread.ID, moved.ID)
	require.Equal(t, other.ID, moved.ChannelID)
	require.Contains(t, types(s.settled()), "thread.moved")
	require.Equal(t, other.ID, r.sayIn(r.anna, thread.ID, "after").ChannelID)
	r.anna.post("/threads/"+thread.ID+"/move", wire.MoveThread{ChannelID: r.channel.ID}).refused(code.Forbidden)
}

func caseEchoes(t *trial) {
	r := t.room()
	s := r.anna.connect()
	cursor := s.settledSeq()
	s.cut()
	sent := r.say(r.anna, "the answer was lost")
	again, _ := r.anna.resume(s.ready.GatewaySessionID, cursor)
	events, _ := again.completed()
	require.Equal(t, sent.ClientMsgID, only(events, "message.created")[0].ClientMsgID)
}
