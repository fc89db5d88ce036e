package conformity_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/conformance/workspace"
	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/identity/signin"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
)

// Our own server passes the suite of the Workspace surface, on one node of each engine and on two nodes of one
// PostgreSQL. The report, a line for every rule, is in the test's output. It does not run beside the other suite.
//
//nolint:paralleltest,tparallel // see above
func TestWorkspaceConformance(t *testing.T) {
	for _, variant := range []operator{
		{name: "sqlite", engine: testkit.SQLite, nodes: 1}, {name: "postgres", engine: testkit.Postgres, nodes: 1},
		{name: "two nodes", engine: testkit.Postgres, nodes: 2},
	} {
		t.Run(variant.name, func(t *testing.T) {
			t.Parallel()
			variant.t = t
			report := workspace.Run(t, workspace.Target{Operator: variant})
			_, err := fmt.Fprintf(t.Output(), "%s\n%s", variant.name, report)
			require.NoError(t, err)
		})
	}
}

// operator starts instances of one kind.
type operator struct {
	t      *testing.T
	name   string
	engine string
	nodes  int
}

// Start starts an instance on a fresh database.
func (o operator) Start(ctx context.Context, settings map[string]string) (workspace.Operated, error) {
	in := &instance{t: o.t, url: testkit.NewURL(o.t, o.engine), files: o.t.TempDir(), settings: settings}
	for range o.nodes {
		in.nodes = append(in.nodes, in.start("127.0.0.1:0"))
	}
	owner, err := in.nodes[0].Identity().AddUser(ctx, "owner", nil)
	in.owner = owner.UserID
	return in, err
}

// instance is one or several nodes on a database.
type instance struct {
	t        *testing.T
	url      string
	files    string // folder of all nodes
	settings map[string]string
	owner    string

	mu    sync.Mutex // guards nodes
	nodes []*servertest.Server
}

func (in *instance) loaded() (config.Config, []config.Value) {
	set := make([]string, 0, len(in.settings))
	for key, value := range in.settings {
		set = append(set, key+"="+value)
	}
	loaded, values, err := config.Load(config.Sources{Set: set})
	require.NoError(in.t, err)
	return loaded, values
}

func (in *instance) start(listen string) *servertest.Server {
	return servertest.Start(in.t, &testkit.Database{URL: in.url}, func(c *config.Config) {
		*c, _ = in.loaded()
		c.Listen, c.Database, c.File.Dir = listen, in.url, in.files
		c.Storage.Readers = 2 // many instances share one PostgreSQL
	})
}

// running answers the nodes.
func (in *instance) running() []*servertest.Server {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.nodes)
}

// Nodes answers the addresses of the nodes.
func (in *instance) Nodes() []string {
	nodes := in.running()
	urls := make([]string, len(nodes))
	for i, node := range nodes {
		urls[i] = node.URL
	}
	return urls
}

// Owner answers the first person.
func (in *instance) Owner() string { return in.owner }

// LoginCode makes a login code.
func (in *instance) LoginCode(ctx context.Context, userID string) (string, error) {
	made, err := in.running()[0].Server.SignIn().MakeLoginCode(ctx, userID)
	return made.Code, err
}

// Restart stops the nodes and starts them again where they were.
func (in *instance) Restart(context.Context) error { return in.between(func() error { return nil }) }

// Restore is what `cairn restore finalize` does.
func (in *instance) Restore(ctx context.Context) error {
	return in.between(func() error {
		db := testkit.Open(in.t, storage.Options{URL: in.url, Migrate: storage.MigrateRefuse})
		return db.Write(ctx, []storage.Key{storage.ChangePermissions}, func(tx storage.Tx) error {
			if _, err := signin.EndAllSignIns(tx, env.Real()); err != nil {
				return err
			}
			_, err := eventlog.NewTimeline(tx, env.Real().NewID())
			return err
		})
	})
}

// between does something while no node runs.
func (in *instance) between(do func() error) error {
	nodes := in.running()
	for _, node := range nodes {
		node.Stop(in.t)
	}
	if err := do(); err != nil {
		return err
	}
	for i, node := range nodes {
		nodes[i] = in.start(strings.TrimPrefix(node.URL, "http://"))
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.nodes = nodes
	return nil
}

// RotateKeys is `cairn keys rotate`.
func (in *instance) RotateKeys(ctx context.Context) error {
	_, err := in.running()[0].Server.SignIn().RotateKeys(ctx, identity.Operator())
	return err
}

// Configuration is `cairn config`.
func (in *instance) Configuration(context.Context) (map[string]string, error) {
	_, values := in.loaded()
	shown := make(map[string]string, len(values))
	for _, value := range values {
		shown[value.Key] = value.Value
	}
	return shown, nil
}

// Stop ends the nodes.
func (in *instance) Stop(context.Context) error {
	for _, node := range in.running() {
		node.Stop(in.t)
	}
	return nil
}
