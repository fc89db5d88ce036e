package sessions

import (
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func referenceCases() []testCase {
	return []testCase{
		{rule: "SS-REF-1", name: "a session goes by its id and by its key", run: caseReferences},
		{rule: "SS-REF-1", name: "your own key wins over another user's", run: caseKeyClash},
		{rule: "SS-REF-1", name: "no role is not_a_member, nothing is not_found", run: caseNoRole},
		{rule: "SS-REF-1", name: "keys with special characters are percent-encoded", run: caseOddKeys},
		{rule: "SS-REF-1", name: "keys that a path cannot hold are refused", ours: true, run: caseRefusedKeys},
	}
}

func caseReferences(t *trial) {
	r := t.room()
	viewer := r.viewer()
	for _, u := range []*caller{r.owner, viewer} {
		for _, ref := range []string{r.session.ID, r.session.SessionKey} {
			var got wire.SessionDetail
			u.get("/v1/sessions/" + segment(ref)).want(200).into(&got)
			require.Equal(t, r.session.ID, got.ID)
		}
	}
	r.owner.post("/v1/sessions/"+segment(r.session.SessionKey)+"/lease", nil).want(200)
	r.owner.post("/v1/sessions/"+segment(r.session.SessionKey)+"/events", object{"events": batch(1)}).want(200)
	require.Len(t, r.all(), 1)
}

func caseKeyClash(t *trial) {
	r := t.room()
	editor := r.editor()
	var theirs, got wire.Session
	editor.post("/v1/sessions", object{"session_key": r.session.SessionKey}).want(201).into(&theirs)
	t.Cleanup(func() { editor.delete("/v1/sessions/" + theirs.ID) })
	require.NotEqual(t, r.session.ID, theirs.ID)
	editor.get("/v1/sessions/" + segment(r.session.SessionKey)).want(200).into(&got)
	require.Equal(t, theirs.ID, got.ID)
	r.owner.get("/v1/sessions/" + segment(r.session.SessionKey)).want(200).into(&got)
	require.Equal(t, r.session.ID, got.ID)
	editor.get(r.path("")).want(200).into(&got)
	require.Equal(t, r.session.ID, got.ID)
}

func caseNoRole(t *trial) {
	r := t.room()
	stranger := t.stranger()
	stranger.get(r.path("")).refused(code.NotAMember)
	byKey := stranger.get("/v1/sessions/" + segment(r.session.SessionKey))
	require.Contains(t, []int{403, 404}, byKey.status, "%s", byKey)
	r.viewer().post(r.path("/control"), object{"id": newID(), "kind": "send"}).refused(code.NotAMember)
	for _, nothing := range []string{newID(), "no-such-key-" + newID(), "00000000-0000-0000-0000-000000000000"} {
		for _, rest := range []string{"", "/events", "/controls", "/stream", "/shares"} {
			stranger.get("/v1/sessions/" + nothing + rest).refused(code.NotFound)
		}
		stranger.refusedSocket("/v1/sessions/" + nothing + "/ws").refused(code.NotFound)
		stranger.post("/v1/sessions/"+nothing+"/lease", nil).refused(code.NotFound)
	}
}

func caseOddKeys(t *trial) {
	for _, key := range []string{
		"a/b c?d#e%f", "ключ-Ω-\U0001D11E", "..a", "a..", "%2F", "a+b&c=d;e", " ", `"quoted"\back`, "stream", "events/ws",
	} {
		key += newID()[:8]
		r := t.roomWith(object{"session_key": key})
		require.Equal(t, key, r.session.SessionKey)
		var got wire.Session
		r.owner.get("/v1/sessions/" + segment(key)).want(200).into(&got)
		require.Equal(t, r.session.ID, got.ID, "key %q", key)
		r.owner.get("/v1/sessions/" + segment(key) + "/events").want(200)
	}
}

func caseRefusedKeys(t *trial) {
	for _, key := range []string{".", "..", "shared-with-me"} {
		t.owner().post("/v1/sessions", object{"session_key": key}).bad("session_key")
	}
}
