package sessions

import (
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func shareCases() []testCase {
	return []testCase{
		{rule: "SS-SHR-1", name: "a share with a user, field by field", run: caseUserShare},
		{rule: "SS-SHR-1", name: "a share with an organisation", run: caseOrgShare},
		{rule: "SS-SHR-1", name: "a link shows its token once", run: caseLinkShare},
		{rule: "SS-SHR-1", name: "shares that make no sense are refused", run: caseBadShares},
		{rule: "SS-SHR-1", name: "an expiry ahead is kept, one in the past refused", run: caseShareExpiry},
		{rule: "SS-SHR-1", name: "DELETE takes the role away", run: caseDeleteShare},
		{rule: "SS-SHR-1", name: "a user may be named by e-mail", ours: true, run: caseShareByEmail},
		{rule: "SS-SHR-1", name: "the recipient may delete its own share", ours: true, run: caseLeaveShare},
	}
}

func caseUserShare(t *trial) {
	r := t.room()
	a := r.owner.post(r.path("/shares"), object{"principal_type": "user", "principal_id": t.suite.editor.userID}).
		want(201).has(shareFields...)
	var share wire.Share
	a.into(&share)
	require.Equal(t, r.session.ID, share.SessionID)
	require.Equal(t, wire.PrincipalUser, share.PrincipalType)
	require.Equal(t, t.suite.editor.userID, value(share.PrincipalID))
	require.Equal(t, wire.RoleViewer, share.Role, "the default")
	require.False(t, share.HasToken)
	require.Nil(t, share.ExpiresAt)
	require.Equal(t, r.owner.userID, share.CreatedByUserID)
	second := r.shareWith(t.viewer(), wire.RoleEditor)
	require.Equal(t, wire.RoleEditor, second.Role)
	shares := r.shares()
	require.Len(t, shares, 2)
	require.Equal(t, []string{share.ID, second.ID}, []string{shares[0].ID, shares[1].ID}, "oldest first")
}

// shares lists, and checks the fields.
func (r *room) shares() []wire.Share {
	a := r.owner.get(r.path("/shares")).want(200).has("shares")
	for _, one := range list(r.t, a.body, "shares") {
		requireFields(r.t, one, "a listed share", shareFields...)
	}
	var read struct{ Shares []wire.Share }
	a.into(&read)
	return read.Shares
}

func caseOrgShare(t *trial) {
	r := t.room()
	org := r.org(t.viewer(), wire.RoleEditor)
	share := r.shares()[0]
	require.Equal(t, wire.PrincipalOrg, share.PrincipalType)
	require.Equal(t, org, value(share.PrincipalID))
	require.Equal(t, wire.RoleEditor, r.detail(t.viewer()).Role)
	t.stranger().get(r.path("")).refused(code.NotAMember)
	foreign := t.stranger().newOrg()
	r.owner.post(r.path("/shares"), object{"principal_type": "org", "principal_id": foreign}).refused(code.Forbidden)
	require.Len(t, r.shares(), 1)
}

func caseLinkShare(t *trial) {
	r := t.room()
	a := r.owner.post(r.path("/shares"), object{"principal_type": "link", "role": "editor"}).
		want(201).has(plus(shareFields, "token")...)
	var share wire.Share
	a.into(&share)
	require.Regexp(t, linkToken, share.Token)
	require.True(t, share.HasToken)
	require.Nil(t, share.PrincipalID)
	require.True(t, r.shares()[0].HasToken, "listed without the token")
	for _, who := range []*caller{t.stranger(), t.viewer()} {
		visitor := who.with(wire.HeaderShareToken, share.Token)
		require.Equal(t, wire.RoleEditor, r.detail(visitor).Role)
		visitor.post(r.path("/control"), object{"id": newID(), "kind": "send"}).want(202)
	}
	require.Equal(t, wire.RoleOwner, r.detail(r.owner.with(wire.HeaderShareToken, share.Token)).Role, "the highest role")
	other := t.room()
	t.stranger().with(wire.HeaderShareToken, share.Token).get(other.path("")).refused(code.NotAMember)
	second := r.share(object{"principal_type": "link"})
	require.NotEqual(t, share.Token, second.Token)
	nobody := t.stranger().with(wire.HeaderShareToken, share.Token).withAuthorization("Bearer x")
	nobody.get(r.path("")).refused(code.InvalidAPIKey)
}

func caseBadShares(t *trial) {
	r := t.room()
	for _, body := range []object{
		{"principal_type": "user", "principal_id": newID()},
		{"principal_type": "user", "principal_id": r.owner.userID},
		{"principal_type": "user"},
		{"principal_type": "user", "principal_id": "no-uuid"},
		{"principal_type": "org"},
		{"principal_type": "link", "principal_id": t.suite.editor.userID},
	} {
		r.owner.post(r.path("/shares"), body).refused(code.BadRequest)
	}
	r.owner.post(r.path("/shares"), object{}).bad("principal_type")
	r.owner.post(r.path("/shares"), object{"principal_type": "world"}).bad("principal_type")
	r.owner.post(r.path("/shares"), object{"principal_type": "link", "role": "admin"}).bad("role")
	r.owner.post(r.path("/shares"), object{"principal_type": "link", "role": ""}).bad("role")
	require.Empty(t, r.shares())
	for _, id := range []string{newID(), "no-uuid"} {
		gone := r.owner.delete(r.path("/shares/" + id))
		require.Contains(t, []int{400, 404}, gone.status, "%s", gone)
	}
	r.owner.delete(r.path("/shares/" + newID())).refused(code.NotFound)
	other := t.room()
	foreign := other.share(object{"principal_type": "link"})
	r.owner.delete(r.path("/shares/" + foreign.ID)).refused(code.NotFound)
	require.Len(t, other.shares(), 1)
}

func caseShareExpiry(t *trial) {
	r := t.room()
	for _, past := range []string{"2020-01-01T00:00:00.000Z", "1970-01-01T00:00:00Z"} {
		r.owner.post(r.path("/shares"), object{"principal_type": "link", "expires_at": past}).bad("expires_at")
	}
	for _, odd := range []any{"tomorrow", 1757757852512, "2099-13-01T00:00:00Z", ""} {
		r.owner.post(r.path("/shares"), object{"principal_type": "link", "expires_at": odd}).bad("expires_at")
	}
	share := r.share(object{"principal_type": "link", "expires_at": "2099-05-06T07:08:09.123Z"})
	require.Equal(t, "2099-05-06T07:08:09.123Z", share.ExpiresAt.String())
	require.Equal(t, share.ExpiresAt, r.shares()[0].ExpiresAt)
}

func caseDeleteShare(t *trial) {
	r := t.room()
	u := t.viewer()
	direct := r.shareWith(u, wire.RoleViewer)
	link := r.share(object{"principal_type": "link"})
	visitor := t.stranger().with(wire.HeaderShareToken, link.Token)
	for _, share := range []wire.Share{direct, link} {
		a := r.owner.delete(r.path("/shares/"+share.ID)).want(200).has("deleted", "id")
		require.JSONEq(t, `{"deleted":true,"id":"`+share.ID+`"}`, string(a.body))
	}
	u.get(r.path("")).refused(code.NotAMember)
	visitor.get(r.path("")).refused(code.NotAMember)
	require.Empty(t, r.shares())
	r.owner.delete(r.path("/shares/" + direct.ID)).refused(code.NotFound)
}

// email answers the address of the editor's account, as an organisation shows it; nil when it has none.
func (t *trial) email() *string {
	owner := t.owner()
	org := owner.newOrg()
	owner.post("/v1/orgs/"+org+"/members", object{"user_id": t.suite.editor.userID}).want(201)
	return owner.orgMembers(org)[1].Email
}

func caseShareByEmail(t *trial) {
	r := t.room()
	r.owner.post(r.path("/shares"), object{"principal_type": "user", "email": newID() + "@nobody.invalid"}).refused(code.BadRequest)
	r.owner.post(r.path("/shares"), object{
		"principal_type": "user", "email": "a@b.invalid", "principal_id": t.suite.editor.userID,
	}).refused(code.BadRequest)
	address := t.email()
	if address == nil {
		t.NotSeen("the editor's account has no e-mail address")
	}
	share := r.share(object{"principal_type": "user", "email": *address})
	require.Equal(t, t.suite.editor.userID, value(share.PrincipalID))
	t.editor().get(r.path("")).want(200)
	require.NotContains(t, string(r.owner.get(r.path("/shares")).body), *address)
}

func caseLeaveShare(t *trial) {
	r := t.room()
	u, editor := t.viewer(), r.editor()
	own := r.shareWith(u, wire.RoleViewer)
	editor.delete(r.path("/shares/" + own.ID)).refused(code.NotAMember)
	u.delete(r.path("/shares/"+own.ID)).want(200).has("deleted", "id")
	u.get(r.path("")).refused(code.NotAMember)
}
