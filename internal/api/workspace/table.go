package workspace

import "net/http"

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
		a.spaceRoutes(), a.channelRoutes(), a.threadRoutes(), a.messageRoutes(), a.personalRoutes(), a.fileRoutes(), a.permissionRoutes(),
	} {
		for i := range part {
			all = append(all, &part[i])
		}
	}
	return all
}
