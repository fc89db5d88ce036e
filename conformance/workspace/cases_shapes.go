package workspace

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func shapeCases() []testCase {
	return []testCase{
		{rule: "WS-4 shapes", name: "a message on the wire, live, by REST and as a tombstone", run: caseMessageShape},
		{rule: "WS-4 shapes", name: "spaces, channels and threads", run: casePlaces},
		{rule: "WS-4 shapes", name: "reactions and pins are idempotent", run: caseMarks},
		{rule: "WS-4 shapes", name: "the snapshot by REST is the one of ready", run: caseSameSnapshot},
		{rule: "WS-4 shapes", name: "a file is announced, uploaded, attached and read", run: caseFile},
		{rule: "WS-4 problems", name: "strict bodies", run: caseStrict},
		{rule: "WS-4 problems", name: "clear empties optional members", run: caseClear},
		{rule: "WS-4 lists", name: "pages with cursor and limit", run: casePaged},
		{rule: "WS-4 lists", name: "messages before, after and around a place", run: caseWindows},
		{rule: "WS-4 versions", name: "ETag and If-Match", run: caseETag},
		{rule: "WS-5", name: "every type of the catalogue that people cause is as the document says", run: caseCatalogue},
		{rule: "WS-5", name: "mentions name only people who may read", run: caseMentions},
	}
}

func members(t *trial, data []byte) []string {
	var found map[string]json.RawMessage
	require.NoError(t, decode(data, &found), "%s", data)
	return slices.Sorted(maps.Keys(found))
}

func caseMessageShape(t *trial) {
	r := t.room()
	first := r.say(r.owner, "first")
	in := wire.NewMessage{ClientMsgID: newID(), ContentMD: "hello @" + r.anna.handle, ReplyToID: first.ID}
	a := r.owner.post("/threads/"+r.thread+"/messages", in).want(http.StatusCreated)
	require.Equal(t, []string{
		"attachments", "author", "channel_id", "client_msg_id", "components", "content_md", "created_at", "id", "kind", "mention_ids", "origin",
		"pinned", "reactions", "reply_to_id", "thread_id", "thread_seq", "version",
	}, members(t, a.body))
	sent := read[wire.Message](a, http.StatusCreated)
	require.Equal(t, []string{r.anna.id}, sent.MentionIDs)
	require.Equal(t, wire.OriginHuman, sent.Origin)
	require.Equal(t, wire.Author{ID: r.owner.id, Kind: wire.KindUser}, sent.Author)
	require.Equal(t, sent, r.message(r.anna, sent.ID))
	r.owner.delete("/messages/" + sent.ID).want(http.StatusNoContent)
	tombstone := r.message(r.anna, sent.ID)
	require.Empty(t, tombstone.ContentMD)
	require.Empty(t, slices.Concat(tombstone.MentionIDs))
	require.NotNil(t, tombstone.Reactions)
}

func casePlaces(t *trial) {
	r := t.room()
	require.Equal(t, wire.ChannelText, r.channel.Kind)
	require.NotEmpty(t, r.channel.MainThreadID)
	main := read[wire.Thread](r.anna.get("/threads/"+r.thread), http.StatusOK)
	require.Equal(t, wire.ThreadMain, main.Kind)
	forum := r.newChannel(wire.ChannelForum)
	require.Empty(t, forum.MainThreadID, "a forum has only posts")
	post := r.start(r.owner, forum.ID, "a post")
	require.Equal(t, wire.ThreadPost, post.Thread.Kind)
	require.EqualValues(t, 1, post.Message.ThreadSeq, "a thread always starts with a message")
	require.Equal(t, wire.ThreadThread, r.start(r.anna, r.channel.ID, "beside").Thread.Kind)
	renamed := read[wire.Thread](r.owner.patch("/threads/"+post.Thread.ID, object{"title": "renamed"}), http.StatusOK)
	require.Equal(t, "renamed", renamed.Title)
	require.Equal(t, post.Thread.Version+1, renamed.Version)
	require.Equal(t, wire.LevelOwner, r.owner.levelOn(r.space.ID), "who creates a space owns it")
}

func caseMarks(t *trial) {
	r := t.room()
	r.grant(r.anna, wire.LevelManage)
	sent := r.say(r.anna, "x")
	s := r.anna.connect()
	emoji := "/messages/" + sent.ID + "/reactions/" + url.PathEscape("a/b")
	pin := "/threads/" + r.thread + "/pins/" + sent.ID
	for range 2 {
		r.anna.put(emoji, nil).want(http.StatusNoContent)
		r.anna.put(pin, nil).want(http.StatusNoContent)
	}
	marked := r.message(r.anna, sent.ID)
	require.True(t, marked.Pinned)
	require.Equal(t, []wire.Reaction{{Emoji: "a/b", Count: 1, Me: true}}, marked.Reactions)
	for range 2 {
		r.anna.delete(emoji).want(http.StatusNoContent)
		r.anna.delete(pin).want(http.StatusNoContent)
	}
	require.Equal(t, []string{"reaction.added", "pin.added", "reaction.removed", "pin.removed"}, types(s.settled()))
}

func caseSameSnapshot(t *trial) {
	r := t.room()
	r.say(r.owner, "x")
	r.anna.put("/drafts/"+r.thread, wire.PutDraft{ContentMD: "d"}).want(http.StatusOK)
	s := r.anna.connect()
	byREST := r.anna.snapshot()
	require.NotNil(t, s.ready.Snapshot)
	byREST.HeadSeq, byREST.PermissionVersion = s.ready.HeadSeq, s.ready.PermissionVersion // others write meanwhile
	require.Equal(t, *s.ready.Snapshot, byREST)
}

func caseFile(t *trial) {
	r := t.room()
	content := "the bytes of a file"
	made := read[wire.File](r.anna.post("/files", wire.NewFile{OriginalName: "a.txt", MimeType: "text/plain", SizeBytes: int64(len(content))}), http.StatusCreated)
	require.Equal(t, "pending", made.UploadState)
	up := r.anna.do(http.MethodPut, "/files/"+made.ID+"/content", content, header{"Content-Type", "application/octet-stream"})
	require.NoError(t, up.failure)
	require.Less(t, up.status, 300, "%s", up)
	in := wire.NewMessage{ClientMsgID: newID(), ContentMD: "see", FileIDs: []string{made.ID}}
	sent := read[wire.Message](r.anna.post("/threads/"+r.thread+"/messages", in), http.StatusCreated)
	require.Len(t, sent.Attachments, 1)
	t.Eventually(patience, "the file may be read", func() bool {
		a := r.owner.get("/files/" + made.ID + "/content")
		return a.status == http.StatusOK && string(a.body) == content
	})
	t.member(r.owner).get("/files/" + made.ID).refused(code.NotFound)
	foreign := wire.NewMessage{ClientMsgID: newID(), ContentMD: "see", FileIDs: []string{newID()}}
	r.anna.post("/threads/"+r.thread+"/messages", foreign).refused(code.ValidationFailed)
}

func caseStrict(t *trial) {
	r := t.room()
	for _, text := range []string{
		`{"name":"a","name":"b"}`, `{"name":"a","colour":1}`, `{"name":null}`, `{"name":7}`, `{}`, `{"name":""}`, `[]`, "{\"name\":\"\xff\"}",
	} {
		problem := r.owner.post("/spaces", text).refused(code.ValidationFailed)
		require.NotEmpty(t, problem.Errors, text)
	}
	r.owner.post("/spaces", `{"name":"a"} {"name":"b"}`).refused(code.ValidationFailed)
	for _, text := range []string{`{`, `name`, `{"name":"a",}`} {
		r.owner.post("/spaces", text).refused(code.MalformedJSON)
	}
	r.owner.post("/channels", object{"space_id": newID(), "kind": "text", "name": "x"}).refused(code.ValidationFailed)
	r.owner.get("/channels/no-id").refused(code.NotFound)
}

func caseClear(t *trial) {
	r := t.room()
	path := "/channels/" + r.channel.ID
	require.Equal(t, "x", read[wire.Channel](r.owner.patch(path, object{"topic": "x"}), http.StatusOK).Topic)
	require.Empty(t, read[wire.Channel](r.owner.patch(path, object{"clear": []string{"topic"}}), http.StatusOK).Topic)
	r.owner.patch(path, object{"clear": []string{"name"}}).refused(code.ValidationFailed)
	r.owner.patch(path, object{"topic": nil}).refused(code.ValidationFailed)
}

func casePaged(t *trial) {
	r := t.room()
	for range 4 {
		r.newChannel(wire.ChannelText)
	}
	path := "/channels?space_id=" + r.space.ID
	all := read[wire.Page[wire.Channel]](r.owner.get(path+"&limit=5000"), http.StatusOK)
	require.Len(t, all.Items, 5)
	require.Empty(t, all.NextCursor)
	var got []wire.Channel
	for cursor := ""; ; {
		page := read[wire.Page[wire.Channel]](r.owner.get(path+"&limit=2&cursor="+url.QueryEscape(cursor)), http.StatusOK)
		require.LessOrEqual(t, len(page.Items), 2)
		got = append(got, page.Items...)
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	require.Equal(t, all.Items, got)
	r.owner.get(path + "&cursor=nonsense").refused(code.ValidationFailed)
	r.owner.get(path + "&limit=none").refused(code.ValidationFailed)
}

func caseWindows(t *trial) {
	r := t.room()
	for i := range 7 {
		r.say(r.anna, fmt.Sprint(i+1))
	}
	seqs := func(query string) (seqs []int64, more bool) {
		page := r.messages(r.anna, query)
		for _, message := range page.Messages {
			seqs = append(seqs, message.ThreadSeq)
		}
		return seqs, page.HasMore
	}
	for query, want := range map[string]struct {
		seqs []int64
		more bool
	}{
		"":                  {[]int64{1, 2, 3, 4, 5, 6, 7}, false},
		"?limit=3":          {[]int64{5, 6, 7}, true},
		"?before=5&limit=2": {[]int64{3, 4}, true},
		"?before=3&limit=5": {[]int64{1, 2}, false},
		"?after=5&limit=5":  {[]int64{6, 7}, false},
		"?after=2&limit=2":  {[]int64{3, 4}, true},
	} {
		got, more := seqs(query)
		require.Equal(t, want.seqs, got, query)
		require.Equal(t, want.more, more, query)
	}
	around, _ := seqs("?around=4&limit=3")
	require.Equal(t, []int64{3, 4, 5}, around)
}

func caseETag(t *trial) {
	r := t.room()
	path := "/channels/" + r.channel.ID
	a := r.owner.get(path).want(http.StatusOK)
	require.Equal(t, fmt.Sprintf("%q", fmt.Sprint(r.channel.Version)), a.header.Get("ETag"))
	changed := read[wire.Channel](r.owner.patch(path, object{"topic": "a"}, ifMatch(r.channel.Version)), http.StatusOK)
	require.Equal(t, r.channel.Version+1, changed.Version)
	problem := r.owner.patch(path, object{"topic": "b"}, ifMatch(r.channel.Version)).refused(code.VersionConflict)
	var current wire.Channel
	require.NoError(t, decode(problem.Current, &current))
	require.Equal(t, changed, current)
	r.owner.patch(path, object{"topic": "b"}, header{"If-Match", "nonsense"}).refused(code.ValidationFailed)
}

// caseCatalogue causes what is not caused elsewhere; each frame is held against the document by its socket.
func caseCatalogue(t *trial) {
	r := t.room()
	s := r.owner.connect()
	space := read[wire.Space](r.owner.post("/spaces", wire.NewSpace{Name: "catalogue " + newID()}), http.StatusCreated)
	r.owner.patch("/spaces/"+space.ID, object{"name": "renamed"}).want(http.StatusOK)
	r.owner.post("/spaces/"+space.ID+"/archive", object{}).want(http.StatusOK)
	r.owner.post("/spaces/"+space.ID+"/unarchive", object{}).want(http.StatusOK)
	r.owner.patch("/users/"+r.anna.id, object{"display_name": "Renamed"}).want(http.StatusOK)
	thread := r.start(r.owner, r.channel.ID, "t").Thread
	r.owner.post("/threads/"+thread.ID+"/done", object{}).want(http.StatusOK)
	r.owner.post("/threads/"+thread.ID+"/reopen", object{}).want(http.StatusOK)
	r.owner.patch("/threads/"+thread.ID, object{"title": "u"}).want(http.StatusOK)
	seen := map[string]bool{}
	for _, event := range s.settled() {
		seen[event.Type] = true
	}
	for _, want := range []string{
		"space.created", "space.updated", "space.archived", "space.unarchived", "principal.updated", "thread.created",
		"thread.closed", "thread.reopened", "thread.updated", "access.changed",
	} {
		require.True(t, seen[want], "%s of %v", want, slices.Sorted(maps.Keys(seen)))
	}
}

func caseMentions(t *trial) {
	r := t.room()
	stranger := t.member(r.owner)
	group := read[wire.Group](r.owner.post("/groups", wire.NewGroup{Name: "g" + newID()[24:]}), http.StatusCreated)
	for _, p := range []*person{r.anna, stranger} {
		r.owner.put("/groups/"+group.ID+"/members/"+p.id, wire.PutMember{}).want(http.StatusOK)
	}
	require.Equal(t, []string{r.anna.id}, r.say(r.owner, "@"+stranger.handle+" and @"+r.anna.handle).MentionIDs)
	require.Equal(t, []string{r.anna.id}, r.say(r.owner, "all of @"+group.Name).MentionIDs)
}
