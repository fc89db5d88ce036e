package workspace

import (
	"net/http"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/conformance/rulebook"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func writeCases() []testCase {
	return []testCase{
		{rule: "ES-5.1", name: "a repeat answers with the original, without new events", run: caseRepeat},
		{rule: "ES-5.1", name: "the same id with another request is refused", run: caseReuse},
		{rule: "ES-5.1", name: "of requests at the same time one makes the message", run: caseRepeatsAtOnce},
		{rule: "ES-5.1", name: "the id is a UUID of version 7, however old", run: caseMessageID},
		{rule: "ES-5.1", name: "the id is the author's own", run: caseOwnIDs},
		{rule: "ES-5.1", name: "a repeat after the deletion is the tombstone, after a removal 404", run: caseLateRepeats},
		{rule: "ES-5.2", name: "a repeat with Idempotency-Key gets the stored answer", run: caseKey},
		{rule: "ES-5.2", name: "the same key with another request is refused", run: caseKeyReuse},
		{rule: "ES-5.2", name: "of requests at the same time one works", run: caseKeysAtOnce},
		{rule: "ES-5.2", name: "the caller is authorised again before a replay", run: caseKeyAuthorised},
	}
}

func caseRepeat(t *trial) {
	r := t.room()
	s := r.anna.connect()
	in := wire.NewMessage{ClientMsgID: newID(), ContentMD: "once"}
	first := r.anna.post("/threads/"+r.thread+"/messages", in)
	made := read[wire.Message](first, http.StatusCreated)
	require.False(t, first.replayed())
	again := r.anna.post("/threads/"+r.thread+"/messages", in)
	require.Equal(t, made, read[wire.Message](again, http.StatusOK))
	require.True(t, again.replayed())
	require.Len(t, only(s.settled(), "message.created"), 1)
	require.Len(t, r.messages(r.anna, "").Messages, 1)
}

func caseReuse(t *trial) {
	r := t.room()
	in := wire.NewMessage{ClientMsgID: newID(), ContentMD: "once"}
	r.anna.post("/threads/"+r.thread+"/messages", in).want(http.StatusCreated)
	other := in
	other.ContentMD = "twice"
	r.anna.post("/threads/"+r.thread+"/messages", other).refused(code.IdempotencyKeyReuse)
	thread := r.start(r.anna, r.channel.ID, "another").Thread
	r.anna.post("/threads/"+thread.ID+"/messages", in).refused(code.IdempotencyKeyReuse)
}

func caseRepeatsAtOnce(t *trial) {
	r := t.room()
	in := wire.NewMessage{ClientMsgID: newID(), ContentMD: "once"}
	answers := rulebook.Concurrently(6, func(int) *answer { return r.anna.post("/threads/"+r.thread+"/messages", in) })
	made := 0
	ids := map[string]bool{}
	for _, a := range answers {
		require.NoError(t, a.failure)
		if a.status == http.StatusCreated {
			made++
		} else {
			require.True(t, a.want(http.StatusOK).replayed())
		}
		var message wire.Message
		a.into(&message)
		ids[message.ID] = true
	}
	require.Equal(t, 1, made)
	require.Len(t, ids, 1)
	read := r.messages(r.anna, "").Messages
	require.Len(t, read, 1)
	require.EqualValues(t, 1, read[0].ThreadSeq, "the others took no number")
}

func caseMessageID(t *trial) {
	r := t.room()
	for _, id := range []string{"", "x", "6f1e8a52-3f0b-4f7e-9a55-0a3c7a1d9e77"} {
		r.anna.post("/threads/"+r.thread+"/messages", object{"client_msg_id": id, "content_md": "x"}).refused(code.ValidationFailed)
	}
	old := "01700000-0000-7000-8000-" + newID()[24:]
	r.anna.post("/threads/"+r.thread+"/messages", wire.NewMessage{ClientMsgID: old, ContentMD: "days old"}).want(http.StatusCreated)
}

func caseOwnIDs(t *trial) {
	r := t.room()
	ben := r.joined(wire.LevelWrite)
	in := wire.NewMessage{ClientMsgID: newID(), ContentMD: "same"}
	one := read[wire.Message](r.anna.post("/threads/"+r.thread+"/messages", in), http.StatusCreated)
	two := read[wire.Message](ben.post("/threads/"+r.thread+"/messages", in), http.StatusCreated)
	require.NotEqual(t, one.ID, two.ID)
}

func caseLateRepeats(t *trial) {
	r := t.room()
	in := wire.NewMessage{ClientMsgID: newID(), ContentMD: "gone"}
	sent := read[wire.Message](r.anna.post("/threads/"+r.thread+"/messages", in), http.StatusCreated)
	r.anna.delete("/messages/" + sent.ID).want(http.StatusNoContent)
	again := r.anna.post("/threads/"+r.thread+"/messages", in)
	tombstone := read[wire.Message](again, http.StatusOK)
	require.True(t, again.replayed())
	require.NotNil(t, tombstone.DeletedAt)
	require.Empty(t, tombstone.ContentMD)
	r.revoke(r.annas())
	r.anna.post("/threads/"+r.thread+"/messages", in).refused(code.NotFound)
}

func caseKey(t *trial) {
	owner := t.owner()
	key := once(newID())
	in := wire.NewSpace{Name: "once " + newID()}
	first := owner.post("/spaces", in, key)
	made := read[wire.Space](first, http.StatusCreated)
	require.False(t, first.replayed())
	again := owner.post("/spaces", in, key)
	require.Equal(t, made, read[wire.Space](again, http.StatusCreated), "the stored answer, its status too")
	require.True(t, again.replayed())
}

func caseKeyReuse(t *trial) {
	owner := t.owner()
	key := once(newID())
	owner.post("/spaces", wire.NewSpace{Name: "one " + newID()}, key).want(http.StatusCreated)
	owner.post("/spaces", wire.NewSpace{Name: "two " + newID()}, key).refused(code.IdempotencyKeyReuse)
	owner.post("/spaces", wire.NewSpace{Name: "x"}, once("no uuid")).refused(code.ValidationFailed)
}

func caseKeysAtOnce(t *trial) {
	r := t.room()
	key, in := once(newID()), wire.NewChannel{SpaceID: r.space.ID, Kind: wire.ChannelText, Name: "once " + newID()}
	answers := rulebook.Concurrently(5, func(int) *answer { return r.owner.post("/channels", in, key) })
	ids := map[string]bool{}
	for _, a := range answers {
		require.NoError(t, a.failure)
		if a.status == http.StatusConflict {
			a.refused(code.RequestInProgress)
			continue
		}
		ids[read[wire.Channel](a, http.StatusCreated).ID] = true
	}
	require.Len(t, ids, 1)
	page := read[wire.Page[wire.Channel]](r.owner.get("/channels?space_id="+r.space.ID), http.StatusOK)
	require.Len(t, page.Items, 2, "the room's and this one")
}

func caseKeyAuthorised(t *trial) {
	r := t.room()
	started := r.start(r.anna, r.channel.ID, "a thread")
	key := once(newID())
	r.anna.post("/threads/"+started.Thread.ID+"/done", object{}, key).want(http.StatusOK)
	r.revoke(r.annas())
	r.anna.post("/threads/"+started.Thread.ID+"/done", object{}, key).refused(code.NotFound)
}
