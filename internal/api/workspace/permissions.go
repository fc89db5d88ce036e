package workspace

import (
	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/fault"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func (a *API) permissionRoutes() []Route {
	const tag, grants, groups, group = "permissions", Prefix + "/grants", Prefix + "/groups", Prefix + "/groups/{id}"
	subjects := []string{wire.SubjectPrincipal, wire.SubjectGroup}
	targets := []string{string(wire.TargetInstance), string(wire.TargetSpace), string(wire.TargetChannel), string(wire.TargetHost)}
	return []Route{
		{
			Method: get, Path: grants, Action: action.GrantRead, Tag: tag, Summary: "Grants in force, the oldest first",
			Query: paged(
				Param{Name: "subject_kind", Doc: "with subject_id: of this subject only", Kind: Choice, Values: subjects},
				Param{Name: "subject_id", Doc: "with subject_kind", Kind: ID},
				Param{Name: "target_kind", Doc: "on this target only", Kind: Choice, Values: targets},
				Param{Name: "target_id", Doc: "with target_kind, unless that is instance", Kind: ID},
			), handler: giving(okay, a.grants),
		},
		{Method: post, Path: grants, Action: action.GrantManage, Tag: tag, Summary: "Grant a level", handler: taking(created, a.createGrant)},
		{Method: post, Path: grants + "/{id}/revoke", Action: action.GrantManage, Tag: tag, Summary: "End a grant", handler: taking(okay, a.revokeGrant)},
		{Method: get, Path: groups, Action: action.GroupRead, Tag: tag, Summary: "The groups", Query: paged(), handler: giving(okay, a.groups)},
		{Method: post, Path: groups, Action: action.GroupManage, Tag: tag, Summary: "Make a group", handler: taking(created, a.createGroup)},
		{Method: get, Path: group, Action: action.GroupRead, Tag: tag, Summary: "A group", handler: giving(okay, a.group)},
		{
			Method: patch, Path: group, Action: action.GroupManage, Tag: tag, Summary: "Rename a group",
			IfMatch: Optional, handler: taking(okay, a.renameGroup),
		},
		{Method: remove, Path: group, Action: action.GroupManage, Tag: tag, Summary: "Delete a group with its grants", handler: doing(a.deleteGroup)},
		{
			Method: put, Path: group + "/members/{principal_id}", Action: action.GroupManage, Tag: tag, Summary: "Put somebody into a group",
			handler: taking(okay, a.putMember),
		},
		{
			Method: remove, Path: group + "/members/{principal_id}", Action: action.GroupManage, Tag: tag, Summary: "Take somebody out of a group",
			handler: doing(a.removeMember),
		},
	}
}

func (a *API) grants(c *call) (wire.Page[wire.Grant], error) {
	none := wire.Page[wire.Grant]{}
	filter, err := grantFilter(c.params)
	if err != nil {
		return none, err
	}
	if filter.After, err = c.after(); err != nil {
		return none, err
	}
	filter.Limit = c.limit()
	grants, more, err := a.Authz.ListGrants(c.Context(), c.by, filter)
	return pageOf(c, grants, more, func(g wire.Grant) string { return g.ID }), err
}

func grantFilter(p *params) (filter authz.GrantFilter, err error) {
	subject := wire.Subject{Kind: p.texts["subject_kind"], ID: p.texts["subject_id"]}
	if subject != (wire.Subject{}) {
		if subject.Kind == "" || subject.ID == "" {
			return filter, fault.Invalid("subject_id", "goes together with subject_kind")
		}
		filter.Subject = &subject
	}
	target := wire.Target{Kind: wire.TargetKind(p.texts["target_kind"]), ID: p.texts["target_id"]}
	if target != (wire.Target{}) {
		if target.Kind == "" || (target.Kind == wire.TargetInstance) != (target.ID == "") {
			return filter, fault.Invalid("target_id", "goes together with target_kind, and the instance has none")
		}
		filter.Target = &target
	}
	return filter, nil
}

// pageOf makes a page of a list that says whether there is more behind it.
func pageOf[T any](c *call, items []T, more bool, id func(T) string) wire.Page[T] {
	page := wire.Page[T]{Items: items}
	if more && len(items) > 0 {
		page.NextCursor = cursorOf(c.route.Path, id(items[len(items)-1]))
	}
	return page
}

func (a *API) createGrant(c *call, in wire.NewGrant) (wire.Grant, error) {
	return a.Authz.CreateGrant(c.Context(), c.by, in)
}

func (a *API) revokeGrant(c *call, _ Nothing) (wire.Grant, error) {
	return a.Authz.RevokeGrant(c.Context(), c.by, c.id("id"))
}

func (a *API) groups(c *call) (wire.Page[wire.Group], error) {
	after, err := c.after()
	if err != nil {
		return wire.Page[wire.Group]{}, err
	}
	groups, more, err := a.Authz.ListGroups(c.Context(), c.by, after, c.limit())
	return pageOf(c, groups, more, func(g wire.Group) string { return g.ID }), err
}

func (a *API) createGroup(c *call, in wire.NewGroup) (wire.Group, error) {
	return a.Authz.CreateGroup(c.Context(), c.by, in)
}

func (a *API) group(c *call) (wire.Group, error) { return a.Authz.Group(c.Context(), c.by, c.id("id")) }

func (a *API) renameGroup(c *call, in wire.NewGroup) (wire.Group, error) {
	return a.Authz.RenameGroup(c.Context(), c.by, c.id("id"), c.exact(), in.Name)
}

func (a *API) deleteGroup(c *call) error { return a.Authz.DeleteGroup(c.Context(), c.by, c.id("id")) }

func (a *API) putMember(c *call, in wire.PutMember) (wire.Group, error) {
	return a.Authz.PutMember(c.Context(), c.by, c.id("id"), c.id("principal_id"), in)
}

func (a *API) removeMember(c *call) error {
	return a.Authz.RemoveMember(c.Context(), c.by, c.id("id"), c.id("principal_id"))
}
