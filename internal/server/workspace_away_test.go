package server_test

import (
	"errors"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/netproxy"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	"github.com/cairnsync/cairn/wire/code"
	wirews "github.com/cairnsync/cairn/wire/workspace"
)

// through answers the address of a database by way of a proxy.
func through(t *testing.T, proxy *netproxy.Proxy, database string) string {
	t.Helper()
	address, err := url.Parse(database)
	require.NoError(t, err)
	way, err := url.Parse(proxy.URL())
	require.NoError(t, err)
	address.Host = way.Host
	return address.String()
}

// hostOf answers where a database listens, as a proxy wants it.
func hostOf(t *testing.T, database string) string {
	t.Helper()
	address, err := url.Parse(database)
	require.NoError(t, err)
	return "http://" + address.Host
}

// The database goes away in the middle of the traffic, by a crash and behind a network that swallows everything, and
// comes back. Clients get errors and recover.
func TestWorkspaceDatabaseAway(t *testing.T) {
	t.Parallel()
	cluster, err := testkit.StartPostgres("", testkit.ServerOptions{Fsync: true, MaxConnections: 80})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	direct := cluster.URL("")
	require.NoError(t, storage.Migrate(t.Context(), direct))
	proxy := netproxy.New(t, hostOf(t, direct))
	db := &testkit.Database{Engine: testkit.Postgres, URL: through(t, proxy, direct)}
	near := &testkit.Database{Engine: testkit.Postgres, URL: direct}
	quiet := func(c *config.Config) { c.Limits.Enabled, c.File.Dir = false, t.TempDir() }
	nodes := []*servertest.Server{servertest.Start(t, db, quiet), servertest.Start(t, near, quiet)}
	c := newCompany(t, nodes[0])
	watcher := nodes[0].Person(t, "watcher")
	c.owner.Grant(t, watcher.ID, wirews.TargetSpace, c.space, wirews.LevelRead)
	other := watcher.Another(t, nodes[0])
	stays := &follower{p: other, s: connect(t, other), next: map[string]int64{}}
	for i, p := range c.peers {
		p.proxy.Point(nodes[i%2].URL)
		p.proxy.Reset()
	}
	c.run()
	t.Run("ES-6.4 4000 to who identifies while the database is down", func(t *testing.T) {
		require.NoError(t, cluster.Kill9())
		s := dial(t, watcher)
		s.identify()
		s.closed(code.CloseUnknownError)
		answer := watcher.Do(t, http.MethodGet, "/api/v1/spaces", nil)
		require.GreaterOrEqual(t, answer.Status, http.StatusInternalServerError, "%s", answer.Body)
		require.NoError(t, cluster.Restart())
	})
	t.Run("ES-6.4 a connection that swallows everything is got over", func(t *testing.T) {
		require.Eventually(t, func() bool { return reachable(t, watcher) }, patience, 50*time.Millisecond)
		proxy.Set(netproxy.Swallow)
		require.Eventually(t, func() bool {
			return watcher.Do(t, http.MethodGet, "/api/v1/spaces", nil).Status >= http.StatusInternalServerError
		}, patience, 50*time.Millisecond, "who asks is not left waiting")
		proxy.Reset()
		proxy.Set(netproxy.Good)
		require.Eventually(t, func() bool { return reachable(t, watcher) }, patience, 50*time.Millisecond)
		connect(t, watcher).acknowledged()
	})
	t.Run("ES-1 nothing acknowledged is lost, and everybody recovers", func(*testing.T) { c.agreed() })
	t.Run("ES-9 a connection stays, or is closed with 4000 and goes on, without a gap", func(t *testing.T) {
		stays.until(t, c.owner.Say(t, c.threads[0], "the last").ID)
	})
}

// follower is a device that does with its connection what the protocol says.
type follower struct {
	p    *servertest.Person
	s    *socket
	at   int64            // its cursor
	next map[string]int64 // thread_seq of the next message, by thread
}

// until reads up to a message, and demands that none is missing.
func (f *follower) until(t *testing.T, id string) {
	t.Helper()
	f.at = max(f.at, f.s.ready.HeadSeq)
	for {
		frame, ok := f.s.take()
		if !ok {
			f.goOn(t)
			continue
		}
		if frame.Op != wirews.OpDispatch {
			continue
		}
		event := bodyOf[wirews.Envelope](f.s, frame)
		f.at = max(f.at, event.Seq)
		if event.Type != workspace.TypeMessageCreated {
			continue
		}
		message := messageOf(t, event)
		if next, known := f.next[message.ThreadID]; known {
			require.Equal(t, next, message.ThreadSeq, "a gap, or a message twice")
		}
		f.next[message.ThreadID] = message.ThreadSeq + 1
		if message.ID == id {
			return
		}
	}
}

// goOn connects again, after a close that a client gets over by itself.
func (f *follower) goOn(t *testing.T) {
	t.Helper()
	closing, is := errors.AsType[websocket.CloseError](f.s.ended())
	require.True(t, is, "the connection did not end with a code: %v", f.s.ended())
	if code.Close(closing.Code) == code.CloseSessionInvalid {
		f.s = connect(t, f.p, f.at)
		return
	}
	require.Contains(t, []code.Close{code.CloseUnknownError, code.CloseSlowConsumer}, code.Close(closing.Code), closing.Reason)
	f.s = f.s.resume(f.p, f.at)
}

// reachable reports whether a person gets an answer that is no error of the server.
func reachable(t *testing.T, p *servertest.Person) bool {
	t.Helper()
	return p.Do(t, http.MethodGet, "/api/v1/me", nil).Status < http.StatusInternalServerError &&
		servertest.Read[wirews.Snapshot](t, p.Do(t, http.MethodGet, "/api/v1/sync/snapshot", nil), http.StatusOK).HeadSeq >= 0
}
