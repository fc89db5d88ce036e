package house_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// layer is a floor of the house. Its packages import floors below it, and each other only when it is open.
type layer struct {
	name     string
	open     bool
	packages []string // each with everything under it
}

// layers from the ground up.
var layers = []layer{
	{"wire", true, []string{"wire"}},
	{"ground", true, []string{"internal/env", "internal/filelock", "internal/service", "internal/fault", "internal/config", "internal/signal"}},
	{"kernel", true, []string{"internal/storage", "internal/conn"}},
	{"principals", true, []string{"internal/identity", "internal/audit", "internal/outbound", "internal/eventlog", "internal/authz", "internal/idempotency"}},
	{"domains", false, []string{"internal/session", "internal/workspace", "internal/run"}},
	{"gateway", false, []string{"internal/gateway"}},
	{"api", false, []string{"internal/api"}},
	{"server", false, []string{"internal/server"}},
	{"client", true, []string{"client"}},
	{"agents", true, []string{"internal/agent", "internal/transfer"}},
	{"conformance", true, []string{"conformance"}},
	{"cli", false, []string{"internal/cli"}},
	{"commands", false, []string{"cmd"}},
	{"tests", true, []string{"internal/testkit", "internal/house"}},
}

// only are packages that see nothing of the module but what is named.
var only = map[string][]string{
	"wire":              {"wire"},
	"client":            {"client", "wire"},
	"conformance":       {"conformance", "client", "wire"},
	"internal/agent":    {"internal/agent", "internal/env", "internal/filelock", "client", "wire"},
	"internal/transfer": {"internal/transfer", "internal/env", "internal/filelock", "client", "wire"},
	"cmd":               {"internal/cli"},
}

// outside lists imports from outside the module that only some packages may have.
var outside = []struct {
	imports []string
	allowed []string
	why     string
}{
	{
		[]string{"github.com/jackc/pgx", "github.com/ncruces/go-sqlite3", "database/sql", "github.com/pressly/goose"},
		// A client keeps its outbox and copy in an encrypted file of its own (ES-13.1); the server's engines are no matter of it.
		[]string{"internal/storage", "internal/signal", "internal/testkit", "client/workspace/localstore"},
		"only storage knows which engine runs",
	},
	{
		[]string{"net/http", "github.com/gobwas/ws", "github.com/coder/websocket"},
		[]string{
			"internal/api", "internal/conn", "internal/gateway", "internal/outbound", "internal/server", "internal/cli", "internal/testkit",
			"client", "internal/agent", "conformance", "web", "internal/identity/oidc",
		},
		"domains never see HTTP or sockets",
	},
}

func under(name, root string) bool { return name == root || strings.HasPrefix(name, root+"/") }

func underAny(name string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool { return under(name, root) })
}

// floor answers the layer of a package and its room there, -1 for a package nobody placed.
func floor(name string) (int, string) {
	for i, l := range layers {
		for _, room := range l.packages {
			if under(name, room) {
				return i, room
			}
		}
	}
	return -1, ""
}

// forbidden says why from must not import to, or "".
func forbidden(from, to string) string {
	fromFloor, fromRoom := floor(from)
	toFloor, toRoom := floor(to)
	if allowed, ok := only[fromRoom]; ok && !underAny(to, allowed) {
		return fmt.Sprintf("%s imports %v and nothing else of the module", fromRoom, allowed)
	}
	switch {
	case toFloor < 0:
		return "nobody placed it"
	case toRoom == fromRoom, toFloor < fromFloor:
		return ""
	case toFloor > fromFloor:
		return fmt.Sprintf("%s is above %s", layers[toFloor].name, layers[fromFloor].name)
	case !layers[fromFloor].open:
		return fmt.Sprintf("the packages of %s do not know each other", layers[fromFloor].name)
	default:
		return ""
	}
}

func TestArrowsPointDown(t *testing.T) {
	t.Parallel()
	for _, u := range packages(t) {
		where, _ := floor(u.name())
		require.GreaterOrEqual(t, where, 0, "%s is in no layer: place it in the table of this test", u.name())
		for _, imported := range u.Imports {
			if inside, ok := strings.CutPrefix(imported, module+"/"); ok {
				require.Empty(t, forbidden(u.name(), inside), "%s imports %s", u.name(), inside)
			}
		}
	}
}

func TestOutsideStaysWhereItBelongs(t *testing.T) {
	t.Parallel()
	for _, u := range packages(t) {
		for _, imported := range u.Imports {
			for _, rule := range outside {
				if underAny(imported, rule.imports) {
					require.True(t, underAny(u.name(), rule.allowed), "%s imports %s: %s", u.name(), imported, rule.why)
				}
			}
		}
	}
}

// The rules themselves, so that a table that allows everything is noticed.
func TestArrows(t *testing.T) {
	t.Parallel()
	for _, arrow := range []struct {
		from, to string
		fine     bool
	}{
		{"cmd/cairn", "internal/cli", true},
		{"cmd/cairn", "internal/server", false},
		{"internal/cli", "internal/server", true},
		{"internal/server", "internal/cli", false},
		{"internal/api/sessions", "internal/session", true},
		{"internal/session", "internal/api/sessions", false},
		{"internal/session", "internal/workspace", false},
		{"internal/session", "internal/session/lease", true},
		{"internal/session", "internal/storage", true},
		{"internal/storage", "internal/storage/migrations", true},
		{"internal/storage", "internal/session", false},
		{"internal/env", "internal/storage", false},
		{"client/sessions", "wire/sessions", true},
		{"client/sessions", "internal/env", false},
		{"wire/sessions", "internal/env", false},
		{"internal/agent/run", "client/sessions", true},
		{"internal/agent/run", "internal/storage", false},
		{"conformance/sessions", "internal/testkit", false},
		{"internal/session", "internal/testkit", false},
		{"internal/testkit", "internal/storage", true},
		{"internal/cli", "internal/unknown", false},
	} {
		require.Equal(t, arrow.fine, forbidden(arrow.from, arrow.to) == "", "%s imports %s", arrow.from, arrow.to)
	}
}
