package workspace

import (
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/identity"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// principalRoutes are the routes of one kind of principal; agents and apps have tokens too.
func (a *API) principalRoutes(kind wire.Kind, path string, manage action.Action) []Route {
	tag, all, one := path, Prefix+"/"+path, Prefix+"/"+path+"/{id}"
	of := principals{api: a, kind: kind}
	routes := []Route{
		{
			Method: get, Path: all, Action: action.PrincipalRead, Tag: tag, Summary: "Those whom the caller sees, by handle",
			Query: paged(), handler: giving(okay, of.list),
		},
		{Method: post, Path: all, Action: manage, Tag: tag, Summary: "Add one", handler: taking(created, of.add)},
		{Method: get, Path: one, Action: action.PrincipalRead, Tag: tag, Summary: "One of them", handler: giving(okay, of.get)},
		{
			Method: patch, Path: one, Action: manage, Tag: tag, Summary: "Change handle or name",
			IfMatch: Optional, handler: taking(okay, of.patch),
		},
		{Method: post, Path: one + "/disable", Action: manage, Tag: tag, Summary: "Shut one out at once", handler: taking(okay, of.disable)},
		{Method: post, Path: one + "/enable", Action: manage, Tag: tag, Summary: "Let one act again, or for the first time", handler: taking(okay, of.enable)},
	}
	if kind == wire.KindUser {
		return routes
	}
	return append(routes,
		Route{Method: get, Path: one + "/tokens", Action: manage, Tag: tag, Summary: "The API tokens, the newest first", handler: giving(okay, of.tokens)},
		Route{
			Method: post, Path: one + "/tokens", Action: manage, Tag: tag, Summary: "Make an API token; it is shown once",
			handler: taking(created, of.addToken),
		},
		Route{Method: remove, Path: one + "/tokens/{token_id}", Action: manage, Tag: tag, Summary: "Revoke an API token", handler: doing(of.revokeToken)},
	)
}

// principals handles the routes of one kind.
type principals struct {
	api  *API
	kind wire.Kind
}

func (p principals) list(c *call) (wire.Page[wire.Principal], error) {
	after, err := c.after()
	if err != nil {
		return wire.Page[wire.Principal]{}, err
	}
	list, more, err := p.api.Identity.Principals(c.Context(), c.by, p.kind, after, c.limit())
	return pageOf(c, list, more, func(one wire.Principal) string { return one.Handle }), err
}

func (p principals) add(c *call, in wire.NewPrincipal) (wire.Principal, error) {
	return p.api.Identity.AddPrincipal(c.Context(), c.by, p.kind, in)
}

func (p principals) get(c *call) (wire.Principal, error) {
	return p.api.Identity.PrincipalSeen(c.Context(), c.by, p.kind, c.id("id"))
}

func (p principals) patch(c *call, in wire.PatchPrincipal) (wire.Principal, error) {
	if _, err := p.get(c); err != nil {
		return wire.Principal{}, err
	}
	patch := identity.PrincipalPatch{Handle: in.Handle, DisplayName: in.DisplayName}
	return p.api.Identity.PatchPrincipal(c.Context(), c.by, c.id("id"), c.exact(), patch)
}

func (p principals) disable(c *call, _ Nothing) (wire.Principal, error) {
	if _, err := p.get(c); err != nil {
		return wire.Principal{}, err
	}
	return p.api.Identity.DisablePrincipal(c.Context(), c.by, c.id("id"))
}

func (p principals) enable(c *call, _ Nothing) (wire.Principal, error) {
	if _, err := p.get(c); err != nil {
		return wire.Principal{}, err
	}
	return p.api.Identity.EnablePrincipal(c.Context(), c.by, c.id("id"))
}

func (p principals) tokens(c *call) (wire.Page[wire.APIToken], error) {
	if _, err := p.get(c); err != nil {
		return wire.Page[wire.APIToken]{}, err
	}
	tokens, err := p.api.SignIn.ListTokens(c.Context(), c.by, c.id("id"))
	return wire.Page[wire.APIToken]{Items: tokens}, err
}

func (p principals) addToken(c *call, in wire.NewToken) (wire.APITokenMade, error) {
	if _, err := p.get(c); err != nil {
		return wire.APITokenMade{}, err
	}
	return p.api.SignIn.AddToken(c.Context(), c.by, c.id("id"), in)
}

func (p principals) revokeToken(c *call) error {
	if _, err := p.get(c); err != nil {
		return err
	}
	return p.api.SignIn.RevokeToken(c.Context(), c.by, c.id("id"), c.id("token_id"))
}
