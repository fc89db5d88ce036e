package server_test

import (
	"testing"
	"time"

	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/crash"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
)

// Nodes are killed in the middle of writes and deliveries; clients of the SDK go on with the other node, or with the
// same one when it is back.
func TestWorkspaceKill(t *testing.T) {
	t.Parallel()
	for _, engine := range testkit.Engines() {
		t.Run("ES-1 nothing acknowledged is lost by kill -9, nothing is doubled, copies stay right, "+engine, func(t *testing.T) {
			t.Parallel()
			db := testkit.New(t, engine)
			desk := servertest.Start(t, db, nil)
			c := newCompany(t, desk)
			desk.Stop(t)
			settings := []string{"limits.enabled=false", "file.dir=" + t.TempDir()}
			nodes := []*crash.Process{crash.Start(t, db.URL, settings...)}
			if engine == testkit.Postgres {
				nodes = append(nodes, crash.Start(t, db.URL, settings...))
			}
			for i, p := range c.peers {
				c.at = append(c.at, nodes[i%len(nodes)].URL())
				p.proxy.Point(c.at[i])
				p.proxy.Reset()
			}
			c.run()
			killed := 0
			every(t.Context(), 6*time.Second, 3, func() {
				c.kill(nodes, killed)
				killed++
			})
			c.agreed()
		})
	}
}

// kill kills one node and leads its peers to the other, or to the same one when it is back.
func (c *company) kill(nodes []*crash.Process, turn int) {
	i := turn % len(nodes)
	was := nodes[i].URL()
	nodes[i].Kill()
	if len(nodes) == 1 {
		nodes[i].Restart()
	}
	for j, p := range c.peers {
		if c.at[j] == was {
			c.at[j] = nodes[(i+1)%len(nodes)].URL()
			p.proxy.Point(c.at[j])
		}
	}
	if len(nodes) > 1 {
		nodes[i].Restart()
	}
}
