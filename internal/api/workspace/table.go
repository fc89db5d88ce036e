package workspace

import (
	"net/http"

	"github.com/cairnsync/cairn/internal/authz/action"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

const (
	get    = http.MethodGet
	post   = http.MethodPost
	put    = http.MethodPut
	patch  = http.MethodPatch
	remove = http.MethodDelete

	created = http.StatusCreated
	okay    = http.StatusOK

	typeYAML = "application/yaml"
)

// table is every route of the surface.
func (a *API) table() []*Route {
	var all []*Route
	for _, part := range [][]Route{
		a.metaRoutes(), a.spaceRoutes(), a.channelRoutes(), a.threadRoutes(), a.messageRoutes(), a.personalRoutes(),
		a.fileRoutes(), a.importRoutes(), a.syncRoutes(), a.permissionRoutes(), a.identityRoutes(),
		a.principalRoutes(wire.KindUser, "users", action.UserManage), a.principalRoutes(wire.KindAgent, "agents", action.AgentManage),
		a.principalRoutes(wire.KindApp, "apps", action.AgentManage),
	} {
		for i := range part {
			all = append(all, &part[i])
		}
	}
	return all
}
