package sessions

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func orgCases() []testCase {
	return []testCase{
		{rule: "SS-ORG-1", name: "an organisation, field by field", run: caseOrg},
		{rule: "SS-ORG-1", name: "members join, change role and leave", run: caseOrgMembers},
		{rule: "SS-ORG-1", name: "only owner and admin change members, only the owner makes owners", run: caseOrgRights},
		{rule: "SS-ORG-1", name: "unknown organisations and users are not found", run: caseOrgUnknown},
		{rule: "SS-ORG-1", name: "exactly one of user_id and email", run: caseOrgPrincipal},
	}
}

func (u *caller) orgMembers(org string) []wire.Membership {
	a := u.get("/v1/orgs/"+org+"/members").want(200).has("org_id", "members")
	for _, one := range list(u.t, a.body, "members") {
		requireFields(u.t, one, "a member of an organisation", orgMember...)
	}
	var read struct{ Members []wire.Membership }
	a.into(&read)
	return read.Members
}

// join adds who at role as u.
func (u *caller) join(org string, who account, role wire.OrgRole) *answer {
	return u.post("/v1/orgs/"+org+"/members", object{"user_id": who.userID, "role": role})
}

func caseOrg(t *trial) {
	u := t.owner()
	a := u.post("/v1/orgs", object{"name": "Conformance"}).want(201).has(plus(orgFields, "role")...)
	requireTimes(t, a.body, "createdAt")
	var org wire.Org
	a.into(&org)
	require.Equal(t, "Conformance", org.Name)
	require.Equal(t, u.userID, org.OwnerUserID)
	require.Equal(t, wire.OrgOwner, org.Role)
	a = u.get("/v1/orgs").want(200).has("orgs")
	for _, one := range list(t, a.body, "orgs") {
		requireFields(t, one, "a listed organisation", plus(orgFields, "role")...)
	}
	find := func(who *caller) *wire.Org {
		var read struct{ Orgs []wire.Org }
		who.get("/v1/orgs").want(200).into(&read)
		i := slices.IndexFunc(read.Orgs, func(o wire.Org) bool { return o.ID == org.ID })
		if i < 0 {
			return nil
		}
		return &read.Orgs[i]
	}
	require.Equal(t, org, *find(u))
	require.Nil(t, find(t.viewer()))
	u.join(org.ID, t.suite.viewer, wire.OrgAdmin).want(201)
	require.Equal(t, wire.OrgAdmin, find(t.viewer()).Role, "your own role")
}

func caseOrgMembers(t *trial) {
	u := t.owner()
	org := u.newOrg()
	a := u.post("/v1/orgs/"+org+"/members", object{"user_id": t.suite.viewer.userID}).want(201).has("org_id", "user_id", "role")
	require.JSONEq(t, `{"org_id":"`+org+`","user_id":"`+t.suite.viewer.userID+`","role":"member"}`, string(a.body))
	u.join(org, t.suite.editor, wire.OrgAdmin).want(201)
	u.join(org, t.suite.viewer, wire.OrgAdmin).want(201) // again changes the role
	for _, who := range []*caller{u, t.viewer()} {
		members := who.orgMembers(org)
		require.Len(t, members, 3)
		for i, want := range []wire.Membership{
			{UserID: u.userID, Role: wire.OrgOwner}, {UserID: t.suite.viewer.userID, Role: wire.OrgAdmin},
			{UserID: t.suite.editor.userID, Role: wire.OrgAdmin},
		} {
			require.Equal(t, want.UserID, members[i].UserID, "in order of joining")
			require.Equal(t, want.Role, members[i].Role)
		}
	}
	a = u.delete("/v1/orgs/"+org+"/members/"+t.suite.viewer.userID).want(200).has("deleted", "org_id", "user_id")
	require.JSONEq(t, `{"deleted":true,"org_id":"`+org+`","user_id":"`+t.suite.viewer.userID+`"}`, string(a.body))
	require.Len(t, u.orgMembers(org), 2)
	u.delete("/v1/orgs/" + org + "/members/" + t.suite.viewer.userID).refused(code.NotFound)
	t.viewer().get("/v1/orgs/" + org + "/members").refused(code.Forbidden)
}

func caseOrgRights(t *trial) {
	u, admin, plain, stranger := t.owner(), t.editor(), t.viewer(), t.stranger()
	org := u.newOrg()
	u.join(org, t.suite.editor, wire.OrgAdmin).want(201)
	u.join(org, t.suite.viewer, wire.OrgMember).want(201)
	plain.join(org, t.suite.stranger, wire.OrgMember).refused(code.Forbidden)
	plain.delete("/v1/orgs/" + org + "/members/" + admin.userID).refused(code.Forbidden)
	stranger.join(org, t.suite.stranger, wire.OrgMember).refused(code.Forbidden)
	stranger.get("/v1/orgs/" + org + "/members").refused(code.Forbidden)
	stranger.delete("/v1/orgs/" + org + "/members/" + plain.userID).refused(code.Forbidden)
	admin.join(org, t.suite.stranger, wire.OrgOwner).refused(code.Forbidden)
	admin.join(org, t.suite.stranger, wire.OrgAdmin).want(201)
	admin.delete("/v1/orgs/" + org + "/members/" + stranger.userID).want(200)
	u.join(org, t.suite.stranger, wire.OrgOwner).want(201)
	for _, who := range []*caller{u, admin, stranger} {
		who.delete("/v1/orgs/" + org + "/members/" + u.userID).refused(code.Forbidden)
	}
	u.join(org, t.suite.stranger, wire.OrgMember).want(201)
	require.Equal(t, wire.OrgOwner, u.orgMembers(org)[0].Role)
	require.Len(t, u.orgMembers(org), 4)
}

func caseOrgUnknown(t *trial) {
	u := t.owner()
	for _, id := range []string{newID(), "no-uuid"} {
		u.get("/v1/orgs/" + id + "/members").refused(code.NotFound)
		u.join(id, t.suite.viewer, wire.OrgMember).refused(code.NotFound)
		u.delete("/v1/orgs/" + id + "/members/" + u.userID).refused(code.NotFound)
	}
	org := u.newOrg()
	u.delete("/v1/orgs/" + org + "/members/" + newID()).refused(code.NotFound)
	missing := u.join(org, account{userID: newID()}, wire.OrgMember)
	require.Contains(t, []int{400, 404}, missing.status, "%s", missing)
	require.Len(t, u.orgMembers(org), 1)
}

func caseOrgPrincipal(t *trial) {
	u := t.owner()
	org := u.newOrg()
	path := "/v1/orgs/" + org + "/members"
	u.post(path, object{}).refused(code.BadRequest)
	u.post(path, object{"user_id": t.suite.viewer.userID, "email": "a@b.invalid"}).refused(code.BadRequest)
	u.post(path, object{"user_id": t.suite.viewer.userID, "role": "king"}).bad("role")
	u.post(path, object{"user_id": 7}).bad("user_id")
	require.Len(t, u.orgMembers(org), 1)
	address := t.email()
	if address == nil {
		t.NotSeen("the editor's account has no e-mail address")
	}
	a := u.post(path, object{"email": *address}).want(201)
	require.JSONEq(t, `"`+t.suite.editor.userID+`"`, string(member(t, a.body, "user_id")))
}
