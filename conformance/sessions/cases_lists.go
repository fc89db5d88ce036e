package sessions

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/conformance/rulebook"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func listCases() []testCase {
	return []testCase{
		{rule: "SS-SES-2", name: "own sessions first, then the shared ones, newest activity first", run: caseList},
		{rule: "SS-SES-2", name: "each list is cut at limit", run: caseListLimit},
		{rule: "SS-SES-2", name: "50 by default and 200 at most", run: caseListMaximum},
		{rule: "SS-SES-2", name: "archived sessions are listed on demand", run: caseListArchived},
		{rule: "SS-SES-2", name: "a link share never appears", run: caseListNoLinks},
		{rule: "SS-SES-2", name: "presence_count counts devices", run: caseListPresence},
		{rule: "SS-SES-3", name: "direct and organisation shares, the highest role and its share", run: caseShared},
		{rule: "SS-SES-3", name: "archived sessions are listed on demand", run: caseSharedArchived},
	}
}

func (u *caller) list(query string) []wire.ListedSession {
	var read struct{ Sessions []wire.ListedSession }
	u.get("/v1/sessions?v=2" + query).want(200).has("sessions").into(&read)
	return read.Sessions
}

func (r *room) in(sessions []wire.ListedSession) *wire.ListedSession {
	i := slices.IndexFunc(sessions, func(s wire.ListedSession) bool { return s.ID == r.session.ID })
	if i < 0 {
		return nil
	}
	return &sessions[i]
}

func (u *caller) sharedWithMe(query string) []wire.SharedSession {
	var read struct{ Sessions []wire.SharedSession }
	u.get("/v1/sessions/shared-with-me" + query).want(200).has("sessions").into(&read)
	return read.Sessions
}

func (r *room) inShared(sessions []wire.SharedSession) *wire.SharedSession {
	i := slices.IndexFunc(sessions, func(s wire.SharedSession) bool { return s.ID == r.session.ID })
	if i < 0 {
		return nil
	}
	return &sessions[i]
}

func caseList(t *trial) {
	older, newer := t.room().executed(), t.room()
	u := t.editor()
	var own wire.Session
	u.post("/v1/sessions", object{}).want(201).into(&own)
	t.Cleanup(func() { u.delete("/v1/sessions/" + own.ID) })
	older.shareWith(u, wire.RoleEditor)
	newer.org(u, wire.RoleViewer)
	a := u.get("/v1/sessions?limit=200").want(200)
	for _, one := range list(t, a.body, "sessions") {
		requireFields(t, one, "a listed session", listedFields...)
	}
	sessions := u.list("&limit=200")
	firstShared := slices.IndexFunc(sessions, func(s wire.ListedSession) bool { return s.OwnerUserID != u.userID })
	require.Positive(t, firstShared)
	for i, s := range sessions {
		require.Equal(t, i < firstShared, s.OwnerUserID == u.userID, "own first, then shared")
		if i > 0 && i != firstShared {
			require.False(t, s.LastEventAt.After(sessions[i-1].LastEventAt.Time), "newest activity first")
		}
	}
	require.Equal(t, wire.RoleEditor, older.in(sessions).Role)
	require.Equal(t, wire.RoleViewer, newer.in(sessions).Role)
	t.Eventually(patience, "activity moves a session up", func() bool {
		older.append(older.owner, event("user"))
		sessions = u.list("&limit=200")
		return older.in(sessions).LastEventAt.After(newer.in(sessions).LastEventAt.Time)
	})
	place := func(r *room) int {
		return slices.IndexFunc(sessions, func(s wire.ListedSession) bool { return s.ID == r.session.ID })
	}
	require.Less(t, place(older), place(newer))
}

func caseListLimit(t *trial) {
	u := t.viewer()
	for range 3 {
		var own wire.Session
		u.post("/v1/sessions", object{}).want(201).into(&own)
		t.Cleanup(func() { u.delete("/v1/sessions/" + own.ID) })
		t.room().shareWith(u, wire.RoleViewer)
	}
	for _, limit := range []string{"1", "2"} {
		own := map[bool]int{}
		for _, s := range u.list("&limit=" + limit) {
			own[s.OwnerUserID == u.userID]++
		}
		require.Equal(t, limit, string(rune('0'+own[true])), "own sessions at limit=%s", limit)
		require.Equal(t, limit, string(rune('0'+own[false])), "shared sessions at limit=%s", limit)
	}
}

func caseListMaximum(t *trial) {
	u := t.stranger() // whose lists no other case reads
	t.Cleanup(func() {
		for _, s := range append(u.list("&limit=200"), u.list("&limit=200")...) {
			if s.OwnerUserID == u.userID {
				u.delete("/v1/sessions/" + s.ID)
			}
		}
	})
	rulebook.Concurrently(8, func(int) *answer {
		for range 26 {
			u.post("/v1/sessions", object{})
		}
		return nil
	})
	for query, most := range map[string]int{"": 50, "&limit=abc": 50, "&limit=200": 200, "&limit=201": 200, "&limit=99999": 200} {
		own := 0
		for _, s := range u.list(query) {
			if s.OwnerUserID == u.userID {
				own++
			}
		}
		require.Equal(t, most, own, "own sessions of %q", query)
	}
}

func caseListArchived(t *trial) {
	r := t.room()
	viewer := r.viewer()
	require.NotNil(t, r.in(r.owner.list("&limit=200")))
	r.owner.patch(r.path(""), object{"archived": true}).want(200)
	for _, u := range []*caller{r.owner, viewer} {
		require.Nil(t, r.in(u.list("&limit=200")))
		require.NotNil(t, r.in(u.list("&limit=200&archived=1")))
		require.Nil(t, r.in(u.list("&limit=200&archived=0")))
	}
}

func caseListNoLinks(t *trial) {
	r := t.room()
	visitor := r.link(t.stranger(), wire.RoleEditor)
	visitor.get(r.path("")).want(200)
	require.Nil(t, r.in(visitor.list("&limit=200")))
	require.Nil(t, r.inShared(visitor.sharedWithMe("")))
}

func caseListPresence(t *trial) {
	r := t.room()
	require.Zero(t, r.in(r.owner.list("&limit=200")).PresenceCount)
	openSSE(r.owner, r, "").live()
	openSSE(r.owner, r, "").live()
	second := openWebSocket(r.viewer(), r, "").live()
	counts := func(want int) func() bool {
		return func() bool { return r.in(r.owner.list("&limit=200")).PresenceCount == want }
	}
	t.Eventually(patience, "presence_count is 2: two devices, three connections", counts(2))
	second.close()
	t.Eventually(patience, "presence_count is 1 again", counts(1))
}

func caseShared(t *trial) {
	direct, byOrg, both := t.room(), t.room(), t.room()
	u := t.viewer()
	first := direct.shareWith(u, wire.RoleEditor)
	byOrg.org(u, wire.RoleViewer)
	low := both.shareWith(u, wire.RoleViewer)
	both.org(u, wire.RoleEditor)
	a := u.on("").get("/v1/sessions/shared-with-me").want(200)
	for _, one := range list(t, a.body, "sessions") {
		requireFields(t, one, "a shared session", sharedFields...)
	}
	shared := u.sharedWithMe("")
	require.Equal(t, wire.RoleEditor, direct.inShared(shared).Role)
	require.Equal(t, first.ID, direct.inShared(shared).ShareID)
	require.Equal(t, wire.RoleViewer, byOrg.inShared(shared).Role)
	require.Equal(t, wire.RoleEditor, both.inShared(shared).Role, "the highest role")
	require.NotEqual(t, low.ID, both.inShared(shared).ShareID, "the share that grants it")
	for i, s := range shared {
		require.NotEqual(t, u.userID, s.OwnerUserID, "never your own")
		require.False(t, i > 0 && s.LastEventAt.After(shared[i-1].LastEventAt.Time), "newest activity first")
	}
	require.LessOrEqual(t, len(shared), 200)
	require.Nil(t, direct.inShared(direct.owner.sharedWithMe("")))
}

func caseSharedArchived(t *trial) {
	r := t.room()
	u := r.viewer()
	r.owner.patch(r.path(""), object{"archived": true}).want(200)
	require.Nil(t, r.inShared(u.sharedWithMe("")))
	require.NotNil(t, r.inShared(u.sharedWithMe("?archived=1")))
}
