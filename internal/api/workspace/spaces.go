package workspace

import (
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/workspace/place"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func (a *API) spaceRoutes() []Route {
	const tag, all, one = "spaces", Prefix + "/spaces", Prefix + "/spaces/{id}"
	return []Route{
		{
			Method: get, Path: all, Action: action.SelfRead, Tag: tag, Summary: "The spaces the caller sees",
			Query: paged(), handler: giving(okay, a.spaces),
		},
		{
			Method: post, Path: all, Action: action.SpaceCreate, Tag: tag, Summary: "Make a space, which the caller then owns",
			handler: taking(created, a.createSpace),
		},
		{Method: get, Path: one, Action: action.SpaceRead, Tag: tag, Summary: "A space", handler: giving(okay, a.space)},
		{
			Method: patch, Path: one, Action: action.SpaceManage, Tag: tag, Summary: "Rename a space",
			IfMatch: Optional, handler: taking(okay, a.patchSpace),
		},
		{
			Method: post, Path: one + "/archive", Action: action.SpaceArchive, Tag: tag, Summary: "Archive a space with its channels",
			IfMatch: Optional, handler: taking(okay, a.archiveSpace),
		},
		{
			Method: post, Path: one + "/unarchive", Action: action.SpaceArchive, Tag: tag, Summary: "Take a space out of the archive",
			IfMatch: Optional, handler: taking(okay, a.unarchiveSpace),
		},
	}
}

func (a *API) spaces(c *call) (wire.Page[wire.Space], error) {
	return listing(c, func(p place.Paging) (wire.Page[wire.Space], error) {
		return a.Workspace.Spaces(c.Context(), c.by, p)
	})
}

// listing answers a page of a list; list answers the position of the next one as its cursor.
func listing[T any](c *call, list func(place.Paging) (wire.Page[T], error)) (wire.Page[T], error) {
	after, err := c.after()
	if err != nil {
		return wire.Page[T]{}, err
	}
	page, err := list(place.Paging{After: after, Limit: c.limit()})
	page.NextCursor = cursorOf(c.route.Path, page.NextCursor)
	return page, err
}

func (a *API) createSpace(c *call, in wire.NewSpace) (wire.Space, error) {
	return a.Workspace.CreateSpace(c.Context(), c.by, in)
}

func (a *API) space(c *call) (wire.Space, error) {
	return a.Workspace.Space(c.Context(), c.by, c.id("id"))
}

func (a *API) patchSpace(c *call, in wire.PatchSpace) (wire.Space, error) {
	return a.Workspace.PatchSpace(c.Context(), c.by, c.id("id"), c.version, in)
}

func (a *API) archiveSpace(c *call, _ Nothing) (wire.Space, error) {
	return a.Workspace.ArchiveSpace(c.Context(), c.by, c.id("id"), c.version)
}

func (a *API) unarchiveSpace(c *call, _ Nothing) (wire.Space, error) {
	return a.Workspace.UnarchiveSpace(c.Context(), c.by, c.id("id"), c.version)
}
