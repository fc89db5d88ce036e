package server_test

import (
	"testing"
	"time"

	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/history"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
)

// workload is a busy room of three accounts.
func workload(owner, editor, viewer servertest.Account, lasting time.Duration, url func(int) string) history.Options {
	return history.Options{
		URL: url, Owner: owner.Key, Editor: editor.Key, Viewer: viewer.Key,
		EditorEmail: editor.Email, ViewerEmail: viewer.Email,
		Executors: 4, Editors: 2, Viewers: 4, For: lasting, Loss: 0.08, Pause: 20 * time.Millisecond,
	}
}

func logSize(t *testing.T, h *history.History) {
	t.Helper()
	opened, cut := 0, 0
	for _, view := range h.Views {
		opened += view.Opened
		cut += view.Cut
	}
	t.Logf("%d operations, %d events, %d controls, %d viewers over %d connections, %d of them ended by the server",
		len(h.Ops), len(h.Log), len(h.Final), len(h.Views), opened, cut)
	if len(h.Log) < 10 || len(h.Final) == 0 {
		t.Error("the history is too short to prove anything")
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	for name, forceOnly := range map[string]bool{
		"SS-LEASE-6 takeovers by force while others append": true,
		"SS-LEASE-2 polite claims, releases and takeovers":  false,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testkit.Each(t, func(t *testing.T, db *testkit.Database) {
				node := servertest.Start(t, db, nil)
				o := workload(node.Account(t, "owner"), node.Account(t, "editor"), node.Account(t, "viewer"),
					3*time.Second, func(int) string { return node.URL })
				o.ForceOnly = forceOnly
				h := history.Record(t, o, nil)
				logSize(t, h)
				h.Check(t)
			})
		})
	}
}

// Large events, tiny queues and viewers that dawdle: some are cut, and nobody misses anything.
func TestHistoryOfSlowViewers(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		node := servertest.Start(t, db, func(c *config.Config) { c.Stream.QueueFrames, c.Stream.QueueBytes = 16, 4096 })
		o := workload(node.Account(t, "owner"), node.Account(t, "editor"), node.Account(t, "viewer"),
			3*time.Second, func(int) string { return node.URL })
		o.Batch, o.Pad, o.Dawdle = 60, 8000, 700*time.Millisecond
		h := history.Record(t, o, nil)
		logSize(t, h)
		t.Run("SS-STR-7 a viewer that falls behind resumes without a gap", func(t *testing.T) { h.Check(t) })
	})
}

// Two nodes on one PostgreSQL serve one session together, without any setting.
func TestHistoryOverTwoNodes(t *testing.T) {
	t.Parallel()
	db := testkit.New(t, testkit.Postgres)
	nodes := []*servertest.Server{servertest.Start(t, db, nil), servertest.Start(t, db, nil)}
	o := workload(nodes[0].Account(t, "owner"), nodes[0].Account(t, "editor"), nodes[0].Account(t, "viewer"),
		3*time.Second, func(worker int) string { return nodes[worker%2].URL })
	h := history.Record(t, o, nil)
	logSize(t, h)
	h.Check(t)
}
