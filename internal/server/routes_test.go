package server_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	surface "github.com/cairnsync/cairn/internal/api/sessions"
	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/history"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// maxBody is small enough to be filled, and large enough for the longest text.
const maxBody = 1 << 20

// stage is a server with the people of all scenes.
type stage struct {
	node   *servertest.Server
	people map[string]servertest.Account
}

func newStage(t *testing.T, db *testkit.Database) *stage {
	t.Helper()
	s := &stage{node: servertest.Start(t, db, func(c *config.Config) { c.HTTP.MaxBodyBytes = maxBody }), people: map[string]servertest.Account{}}
	for _, name := range []string{"owner", "guest", "other", "foreign"} {
		s.people[name] = s.node.Account(t, name)
	}
	return s
}

// scene is one route with everything it may name, fresh, and somebody who asks.
type scene struct {
	t     *testing.T
	route surface.Route
	row   row
	owner caller
	as    caller
	parts map[string]string // of paths and bodies, by name
}

// scene makes everything that route names, and seats somebody.
func (s *stage) scene(t *testing.T, route surface.Route, r row, who seat) *scene {
	t.Helper()
	sc := &scene{t: t, route: route, row: r, owner: raw(t, at(s.node), s.people["owner"])}
	sc.parts = map[string]string{"other": s.people["other"].UserID, "user": s.people["other"].UserID}
	names := func(part string) bool { return strings.Contains(route.Path+r.body+r.query, "{"+part+"}") }
	if names("id") {
		sc.parts["id"] = sc.owner.newSession(t)
	}
	if names("target") || names("device") {
		target := raw(t, at(s.node), s.people["owner"])
		target.want(t, http.StatusOK, http.MethodGet, "/v1/devices", nil)
		sc.parts["target"], sc.parts["device"] = target.Device, target.Device
	}
	if names("cid") {
		sc.parts["cid"] = uuid.NewString()
		sc.owner.want(t, http.StatusAccepted, http.MethodPost, "/v1/sessions/"+sc.parts["id"]+"/control", map[string]string{"id": sc.parts["cid"], "kind": "pause"})
	}
	if names("share") {
		sc.parts["share"] = sc.owner.share(t, sc.parts["id"], s.people["other"], wire.RoleViewer).ID
	}
	if names("org") {
		sc.parts["org"] = sc.organisation(names("user"))
	}
	sc.as = sc.seat(s, who)
	return sc
}

func (sc *scene) organisation(withMember bool) string {
	sc.t.Helper()
	var org wire.Org
	require.NoError(sc.t, sc.owner.want(sc.t, http.StatusCreated, http.MethodPost, "/v1/orgs", map[string]string{"name": "crew"}).Into(&org))
	if withMember {
		sc.owner.want(sc.t, http.StatusCreated, http.MethodPost, "/v1/orgs/"+org.ID+"/members", map[string]string{"user_id": sc.parts["other"]})
	}
	return org.ID
}

// seat answers a caller in the given position.
func (sc *scene) seat(s *stage, who seat) caller {
	sc.t.Helper()
	guest := raw(sc.t, at(s.node), s.people["guest"])
	join := func(role wire.OrgRole) caller {
		sc.owner.want(sc.t, http.StatusCreated, http.MethodPost, "/v1/orgs/"+sc.parts["org"]+"/members", map[string]any{"user_id": s.people["guest"].UserID, "role": role})
		return guest
	}
	shared := func(role wire.Role) caller {
		sc.owner.share(sc.t, sc.parts["id"], s.people["guest"], role)
		return guest
	}
	linked := func(role wire.Role) caller {
		guest.Header = http.Header{wire.HeaderShareToken: {sc.owner.link(sc.t, sc.parts["id"], role)}}
		return guest
	}
	switch who {
	case stranger, outsider:
		return guest
	case link:
		return linked(wire.RoleViewer)
	case editorLink:
		return linked(wire.RoleEditor)
	case viewer:
		return shared(wire.RoleViewer)
	case editor:
		return shared(wire.RoleEditor)
	case coowner:
		return shared(wire.RoleOwner)
	case holder:
		sc.owner.lead(sc.t, sc.parts["id"])
		return sc.owner
	case recipient:
		return raw(sc.t, at(s.node), s.people["other"])
	case member:
		return join(wire.OrgMember)
	case admin:
		return join(wire.OrgAdmin)
	default:
		return sc.owner
	}
}

// fill puts the parts of the scene into a path or body.
func (sc *scene) fill(form string) string {
	parts := []string{"{fresh}", uuid.NewString()}
	for name, value := range sc.parts {
		parts = append(parts, "{"+name+"}", value)
	}
	return strings.NewReplacer(parts...).Replace(form)
}

func (sc *scene) path() string {
	path := sc.fill(sc.route.Path)
	if sc.row.query != "" {
		path += "?" + sc.fill(sc.row.query)
	}
	return path
}

// streams reports whether the route answers a stream.
func (sc *scene) streams() bool {
	return strings.HasSuffix(sc.route.Path, "/stream") || strings.HasSuffix(sc.route.Path, "/ws")
}

// ask sends the route's request with a body, as somebody, to a path. An open stream counts as 200.
func (sc *scene) ask(c caller, path, body string) history.Answer {
	sc.t.Helper()
	if sc.streams() {
		return sc.askStream(c, path)
	}
	var content any
	if sc.route.Body {
		content = []byte(body)
	}
	answer := c.do(sc.t, sc.route.Method, path, content)
	require.Contains(sc.t, answer.Header.Get("Content-Type"), "application/json")
	return answer
}

func (sc *scene) askStream(c caller, path string) history.Answer {
	sc.t.Helper()
	transport := history.SSE
	if strings.Contains(path, "/ws") {
		transport = history.WebSocket
	}
	stream, refusal, err := c.OpenPath(sc.t.Context(), transport, path)
	require.NoError(sc.t, err)
	if stream != nil {
		stream.Close()
		return history.Answer{Status: http.StatusOK}
	}
	return refusal
}

// fine asks as the route is meant to be asked.
func (sc *scene) fine() history.Answer { return sc.ask(sc.as, sc.path(), sc.fill(sc.row.body)) }

// refused demands an error of a code, in its form (SS-ERR-1).
func (sc *scene) refused(answer history.Answer, want code.Code) wire.ErrorBody {
	sc.t.Helper()
	info := code.Of(want)
	require.Equal(sc.t, info.Status, answer.Status, "%s", answer)
	body := answer.Error()
	require.Equal(sc.t, string(want), body.Code, "%s", answer)
	require.Equal(sc.t, info.Type, body.Type, "%s", answer)
	require.NotEmpty(sc.t, body.Message)
	require.Equal(sc.t, want == code.BadRequest, body.Details != nil, "details are bad_request's: %s", answer)
	return body
}

// bad demands bad_request that names a field, or says something of the whole when field is empty.
func (sc *scene) bad(answer history.Answer, field string) {
	sc.t.Helper()
	var details wire.FieldErrors
	require.NoError(sc.t, json.Unmarshal(sc.refused(answer, code.BadRequest).Details, &details))
	require.NotNil(sc.t, details.FormErrors)
	require.NotNil(sc.t, details.FieldErrors)
	if field == "" {
		require.NotEmpty(sc.t, details.FormErrors, "%s", answer)
		return
	}
	require.Contains(sc.t, slices.Collect(maps.Keys(details.FieldErrors)), field, "%s", answer)
}

func name(route surface.Route) string { return route.Method + " " + route.Path }

// Every route of the surface has a row, and every row a route.
func TestEveryRouteHasARow(t *testing.T) {
	t.Parallel()
	var routes []string
	for _, route := range surface.Routes() {
		routes = append(routes, name(route))
	}
	require.ElementsMatch(t, routes, slices.Collect(maps.Keys(rows())))
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStage(t, db)
		for _, route := range surface.Routes() {
			r := rows()[name(route)]
			t.Run(name(route), func(t *testing.T) {
				for _, check := range []func(*testing.T, *stage, surface.Route, row){
					checkKey, checkDevice, checkSuccess, checkRoles, checkUnknown, checkBody, checkLimits, checkSize, checkNumbers,
				} {
					check(t, s, route, r)
				}
			})
		}
	})
}
