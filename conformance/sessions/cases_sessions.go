package sessions

import (
	"net/http"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/conformance/rulebook"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func sessionCases() []testCase {
	return []testCase{
		{rule: "SS-SES-1", name: "a new session, field by field", run: caseCreate},
		{rule: "SS-SES-1", name: "the same key again leaves the session as it is", run: caseCreateAgain},
		{rule: "SS-SES-1", name: "a key that is the id of a session is that session", run: caseKeyIsID},
		{rule: "SS-SES-1", name: "twenty concurrent posts create one session", run: caseConcurrentCreate},
		{rule: "SS-SES-4", name: "the detail, field by field", run: caseDetail},
		{rule: "SS-SES-4", name: "members are owner, direct, organisation, and you by a link", run: caseMembers},
		{rule: "SS-SES-4", name: "lease and presence are the live ones", run: caseDetailLive},
		{rule: "SS-SES-5", name: "PATCH changes title and archived, and needs one of them", run: casePatch},
		{rule: "SS-SES-5", name: "DELETE cascades", run: caseDelete},
	}
}

func caseCreate(t *trial) {
	u := t.owner()
	a := u.post("/v1/sessions", object{}).want(201).has(sessionFields...)
	var made wire.Session
	a.into(&made)
	t.Cleanup(func() { u.delete("/v1/sessions/" + made.ID) })
	require.Regexp(t, serverUUID, made.ID)
	require.Regexp(t, serverUUID, made.SessionKey, "session_key defaults to a random UUID")
	require.Nil(t, made.Title)
	require.Zero(t, made.LastSeq)
	require.Nil(t, made.ExecutorDeviceID)
	require.Nil(t, made.LeaseExpiresAt)
	require.False(t, made.E2E)
	require.False(t, made.Archived)
	require.Equal(t, t.suite.owner.userID, made.OwnerUserID)
	r := t.roomWith(object{"title": "Book the dentist", "e2e": true, "session_key": "phone " + newID()})
	require.Equal(t, "Book the dentist", *r.session.Title)
	require.True(t, r.session.E2E)
	require.NotEqual(t, made.ID, r.session.ID)
}

func caseCreateAgain(t *trial) {
	r := t.roomWith(object{"title": "first", "session_key": "again " + newID()})
	r.executed().fill(2)
	var again wire.Session
	r.owner.anotherDevice().post("/v1/sessions", object{"session_key": r.session.SessionKey, "title": "second", "e2e": true}).
		want(200).has(sessionFields...).into(&again)
	require.Equal(t, r.session.ID, again.ID)
	require.Equal(t, "first", *again.Title)
	require.False(t, again.E2E)
	require.EqualValues(t, 2, again.LastSeq)
	require.Equal(t, r.owner.device, value(again.ExecutorDeviceID))
	r.owner.patch(r.path(""), object{"archived": true}).want(200)
	r.owner.post("/v1/sessions", object{"session_key": r.session.SessionKey}).want(200).into(&again)
	require.True(t, again.Archived)
	editor := t.editor()
	var theirs wire.Session
	editor.post("/v1/sessions", object{"session_key": r.session.SessionKey}).want(201).into(&theirs)
	t.Cleanup(func() { editor.delete("/v1/sessions/" + theirs.ID) })
	require.NotEqual(t, r.session.ID, theirs.ID, "keys are per user")
}

func caseKeyIsID(t *trial) {
	r := t.room()
	var same wire.Session
	r.owner.post("/v1/sessions", object{"session_key": r.session.ID}).want(200).into(&same)
	require.Equal(t, r.session, same)
	r.viewer().post("/v1/sessions", object{"session_key": r.session.ID}).want(200).into(&same)
	require.Equal(t, r.session.ID, same.ID)
	t.stranger().post("/v1/sessions", object{"session_key": r.session.ID}).refused(code.NotAMember)
}

func caseConcurrentCreate(t *trial) {
	u := t.owner()
	key := "race " + newID()
	answers := rulebook.Concurrently(20, func(int) *answer { return u.post("/v1/sessions", object{"session_key": key}) })
	require.Equal(t, map[int]int{201: 1, 200: 19}, statuses(answers))
	made := map[string]bool{}
	for _, a := range answers {
		var session wire.Session
		a.into(&session)
		made[session.ID] = true
	}
	require.Len(t, made, 1)
	for id := range made {
		u.delete("/v1/sessions/" + id).want(200)
	}
}

func caseDetail(t *trial) {
	r := t.room()
	r.viewer()
	a := r.owner.get(r.path("")).want(200).has(detailFields...)
	require.JSONEq(t, `"owner"`, string(member(t, a.body, "role")))
	require.JSONEq(t, `null`, string(member(t, a.body, "lease")))
	require.Empty(t, list(t, a.body, "presence"))
	for _, one := range list(t, a.body, "members") {
		requireFields(t, one, "a member", memberFields...)
		for _, device := range list(t, one, "devices") {
			requireFields(t, device, "a member's device", memberDevice...)
			requireTimes(t, device, "last_seen_at")
		}
	}
	r.claim(r.owner)
	a = r.owner.get(r.path("")).want(200)
	requireFields(t, member(t, a.body, "lease"), "the lease", leaseFields...)
}

// memberOf finds a user in the detail.
func memberOf(detail wire.SessionDetail, userID string) *wire.Member {
	i := slices.IndexFunc(detail.Members, func(m wire.Member) bool { return m.UserID == userID })
	if i < 0 {
		return nil
	}
	return &detail.Members[i]
}

func (u *caller) among(devices []wire.MemberDevice) *wire.MemberDevice {
	i := slices.IndexFunc(devices, func(d wire.MemberDevice) bool { return d.DeviceID == u.device })
	if i < 0 {
		return nil
	}
	return &devices[i]
}

func caseMembers(t *trial) {
	r := t.room()
	editor, viewer := r.editor(), t.viewer()
	editor.get(r.path("")).want(200) // its device becomes known
	org := r.org(viewer, wire.RoleViewer)
	visitor := r.link(t.stranger(), wire.RoleViewer)
	detail := r.detail(r.owner)
	require.Len(t, detail.Members, 3, "one entry per user, and no link visitor")
	for user, role := range map[string]wire.Role{
		r.owner.userID: wire.RoleOwner, editor.userID: wire.RoleEditor, viewer.userID: wire.RoleViewer,
	} {
		found := memberOf(detail, user)
		require.NotNil(t, found, "user %s", user)
		require.Equal(t, role, found.Role)
		require.Equal(t, user != r.owner.userID, found.Remote)
	}
	own := r.owner.among(memberOf(detail, r.owner.userID).Devices)
	require.NotNil(t, own)
	require.False(t, own.Remote)
	other := editor.among(memberOf(detail, editor.userID).Devices)
	require.NotNil(t, other)
	require.True(t, other.Remote)
	seen := r.detail(visitor)
	require.Len(t, seen.Members, 4, "a visitor by link sees itself")
	require.Equal(t, wire.RoleViewer, memberOf(seen, visitor.userID).Role)
	require.False(t, memberOf(seen, visitor.userID).Remote)
	r.owner.delete("/v1/orgs/" + org + "/members/" + viewer.userID).want(200)
	require.Nil(t, memberOf(r.detail(r.owner), viewer.userID))
}

func caseDetailLive(t *trial) {
	r := t.room()
	require.Nil(t, r.detail(r.owner).Lease)
	lease := r.claim(r.owner)
	detail := r.detail(r.viewer())
	require.Equal(t, lease, *detail.Lease)
	require.Equal(t, r.owner.device, value(detail.ExecutorDeviceID))
	require.Equal(t, lease.ExpiresAt, value(detail.LeaseExpiresAt))
	openSSE(r.owner, r, "").live()
	t.Eventually(patience, "the owner is present", func() bool { return len(r.detail(r.owner).Presence) == 1 })
	a := r.owner.get(r.path("")).want(200)
	requireFields(t, list(t, a.body, "presence")[0], "presence in the detail", plus(presenceFields, "remote")...)
	present := r.detail(r.owner).Presence[0]
	require.Equal(t, r.owner.device, present.DeviceID)
	require.Equal(t, r.owner.userID, present.UserID)
	require.Equal(t, wire.RoleOwner, present.Role)
	require.True(t, present.Executor)
	require.False(t, *present.Remote)
	require.True(t, *r.detail(r.owner.anotherDevice()).Presence[0].Remote)
}

func casePatch(t *trial) {
	r := t.roomWith(object{"title": "one"})
	var got wire.Session
	r.owner.patch(r.path(""), object{"title": "two"}).want(200).has(sessionFields...).into(&got)
	require.Equal(t, "two", *got.Title)
	r.owner.patch(r.path(""), object{"archived": true}).want(200).into(&got)
	require.True(t, got.Archived)
	require.Equal(t, "two", *got.Title)
	r.owner.patch(r.path(""), object{"title": nil, "archived": false}).want(200).into(&got)
	require.Nil(t, got.Title)
	require.False(t, got.Archived)
	r.owner.patch(r.path(""), object{}).bad()
	r.owner.patch(r.path(""), object{"e2e": true, "session_key": "x"}).bad()
	r.owner.patch(r.path(""), object{"archived": nil}).bad("archived")
	require.Equal(t, got, r.detail(r.owner).Session)
}

func caseDelete(t *trial) {
	r := t.room().executed()
	viewer := r.viewer()
	r.fill(3)
	id, _ := r.control(r.owner, wire.ControlSend)
	r.dispatch(r.owner, r.owner.device, nil).want(202)
	var gone struct {
		Deleted bool
		ID      string
	}
	r.owner.delete(r.path("")).want(200).has("deleted", "id").into(&gone)
	require.True(t, gone.Deleted)
	require.Equal(t, r.session.ID, gone.ID)
	for _, path := range []string{"", "/events", "/controls", "/shares", "/stream"} {
		r.owner.get(r.path(path)).refused(code.NotFound)
	}
	viewer.get(r.path("")).refused(code.NotFound)
	r.applied(r.owner, id).refused(code.NotFound)
	r.owner.put(r.path("/lease")).refused(code.NotFound)
	r.owner.delete(r.path("")).refused(code.NotFound)
	require.Empty(t, r.owner.inbox("").Sessions)
	var again wire.Session
	r.owner.post("/v1/sessions", object{"session_key": r.session.SessionKey}).want(http.StatusCreated).into(&again)
	t.Cleanup(func() { r.owner.delete("/v1/sessions/" + again.ID) })
	require.NotEqual(t, r.session.ID, again.ID)
	require.Zero(t, again.LastSeq)
	viewer.get("/v1/sessions/" + again.ID).refused(code.NotAMember)
}
