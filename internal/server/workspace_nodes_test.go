package server_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	"github.com/cairnsync/cairn/wire/code"
	wirews "github.com/cairnsync/cairn/wire/workspace"
)

// fleet is the nodes of one database, with a channel that everybody writes to and one that is granted.
type fleet struct {
	t       *testing.T
	nodes   []*servertest.Server
	owner   *servertest.Person
	space   wirews.Space
	channel wirews.Channel
	secret  wirews.Channel
}

func newFleet(t *testing.T, db *testkit.Database, nodes int, change func(*config.Config)) *fleet {
	t.Helper()
	f := &fleet{t: t}
	files := t.TempDir()
	for range nodes {
		f.nodes = append(f.nodes, servertest.Start(t, db, func(c *config.Config) {
			c.Limits.Enabled, c.File.Dir = false, files
			if db.Engine == testkit.Postgres {
				c.Cluster.Mode = "multi"
			}
			if change != nil {
				change(c)
			}
		}))
	}
	f.owner = f.nodes[0].Person(t, "owner")
	f.space = f.owner.Space(t, "space")
	f.channel = f.owner.Channel(t, f.space.ID, "open")
	f.secret = f.owner.Channel(t, f.space.ID, "secret")
	return f
}

// at answers a person on a node.
func (f *fleet) at(node int, p *servertest.Person) *servertest.Person {
	return p.At(f.t, f.nodes[node%len(f.nodes)].URL)
}

// guest adds a person who writes in the open channel.
func (f *fleet) guest(name string) *servertest.Person {
	f.t.Helper()
	p := f.nodes[0].Person(f.t, name)
	f.owner.Grant(f.t, p.ID, wirews.TargetChannel, f.channel.ID, wirews.LevelWrite)
	return p
}

func (f *fleet) thread() string { return f.channel.MainThreadID }

func threadPath(thread string) string { return "/api/v1/threads/" + thread + "/messages" }

func TestWorkspaceNodes(t *testing.T) {
	t.Parallel()
	f := newFleet(t, testkit.New(t, testkit.Postgres), 3, nil)
	t.Run("ES-10 what is written on every node reaches every node in one order, without a gap", f.oneOrder)
	t.Run("ES-6.1 4017 across nodes", func(t *testing.T) {
		guest := f.guest("replaced")
		old := connect(t, f.at(0, guest))
		for node := 1; node <= 3; node++ {
			fresh := connect(t, f.at(node, guest))
			old.closed(code.CloseDeviceReplaced)
			fresh.acknowledged()
			old = fresh
		}
		resumed := old.resume(f.at(1, guest), old.ready.HeadSeq)
		resumed.expect(wirews.OpResumed)
		old.closed(code.CloseDeviceReplaced)
	})
	t.Run("ES-6.3.7 resume on another node brings focus and what was missed", f.resumesElsewhere)
	t.Run("ES-8.5 revocation on one node closes sockets of another with 4012", f.revokesElsewhere)
	t.Run("ES-8.3 an access removal crosses nodes while events are buffered", f.removesWhileBuffered)
	t.Run("ES-12.1 typing crosses nodes", func(t *testing.T) {
		guest := f.guest("reader")
		reads := connect(t, f.at(1, guest))
		reads.send(wirews.OpFocus, wirews.Focus{ThreadIDs: []string{f.thread()}})
		reads.acknowledged()
		types := connect(t, f.at(2, f.owner))
		types.send(wirews.OpTypingStart, wirews.Typing{ThreadID: f.thread()})
		event := reads.await(workspace.TypeTypingStarted)
		require.Zero(t, event.Seq)
		require.Equal(t, f.owner.ID, event.Actor.ID)
	})
}

func (f *fleet) oneOrder(t *testing.T) {
	const writers, each = 6, 12
	var sockets []*socket
	for node := range f.nodes {
		sockets = append(sockets, connect(t, f.at(node, f.guest(fmt.Sprintf("order-%d", node)))))
	}
	var writing sync.WaitGroup
	for number := range writers {
		writing.Go(func() {
			by := f.at(number, f.owner)
			for i := range each {
				by.Say(t, f.thread(), fmt.Sprintf("%d of %d", i, number))
			}
		})
	}
	orders := make([][]int64, len(sockets))
	for i, s := range sockets {
		last := int64(0)
		for range writers * each {
			event := s.await(workspace.TypeMessageCreated)
			message := messageOf(t, event)
			if last != 0 {
				require.Equal(t, last+1, message.ThreadSeq, "ES-4 dense and in the order of the log")
			}
			last = message.ThreadSeq
			orders[i] = append(orders[i], event.Seq)
		}
		require.Equal(t, orders[0], orders[i])
	}
	writing.Wait()
}

func (f *fleet) resumesElsewhere(t *testing.T) {
	guest := f.guest("traveller")
	s := connect(t, f.at(0, guest))
	s.send(wirews.OpFocus, wirews.Focus{ThreadIDs: []string{f.thread()}})
	s.acknowledged()
	at := s.ready.HeadSeq
	s.cut()
	said := []string{f.at(1, f.owner).Say(t, f.thread(), "one").ID, f.at(2, f.owner).Say(t, f.thread(), "two").ID}
	again := s.resume(f.at(2, guest), at)
	resumed := bodyOf[wirews.Resumed](again, again.expect(wirews.OpResumed))
	require.Equal(t, s.ready.GatewaySessionID, resumed.GatewaySessionID)
	for _, id := range said {
		require.Equal(t, id, messageOf(t, again.await(workspace.TypeMessageCreated)).ID)
	}
	again.expect(wirews.OpCatchupComplete)
	types := connect(t, f.at(1, f.owner))
	types.send(wirews.OpTypingStart, wirews.Typing{ThreadID: f.thread()})
	again.await(workspace.TypeTypingStarted) // the focus is there
}

func (f *fleet) revokesElsewhere(t *testing.T) {
	cases := map[string]func(p *servertest.Person){
		"a sign-in": func(p *servertest.Person) {
			require.Equal(t, http.StatusNoContent, p.Do(t, http.MethodPost, "/api/v1/auth/logout", struct{}{}).Status)
		},
		"a device": func(p *servertest.Person) {
			other := p.Another(t, f.nodes[0])
			require.Equal(t, http.StatusNoContent, other.Do(t, http.MethodDelete, "/api/v1/devices/"+p.DeviceID, nil).Status)
		},
		"a person": func(p *servertest.Person) {
			answer := f.owner.Do(t, http.MethodPost, "/api/v1/users/"+p.ID+"/disable", struct{}{})
			require.Equal(t, http.StatusOK, answer.Status, "%s", answer.Body)
		},
	}
	for name, revoke := range cases {
		t.Run("ES-8.5 4012 of "+name, func(t *testing.T) {
			p := f.guest("revoked " + name)
			there := f.at(1, p)
			s, third := connect(t, there), f.at(2, p)
			there.Say(t, f.thread(), "before")
			third.Say(t, f.thread(), "before")
			revoke(p)
			in := wirews.NewMessage{ClientMsgID: servertest.NewID(), ContentMD: "after"}
			for _, late := range []*servertest.Person{there, third} {
				answer := late.Do(t, http.MethodPost, threadPath(f.thread()), in)
				require.Equal(t, http.StatusUnauthorized, answer.Status, "WS-ID-1 without effect at once, on every node: %s", answer.Body)
			}
			s.closed(code.CloseRevoked)
			again := dial(t, third)
			again.identify()
			again.closed(code.CloseRevoked)
		})
	}
}

func (f *fleet) removesWhileBuffered(t *testing.T) {
	guest := f.guest("removed")
	grant := f.owner.Grant(t, guest.ID, wirews.TargetChannel, f.secret.ID, wirews.LevelRead)
	head := connect(t, f.at(1, guest)).ready.HeadSeq
	author, elsewhere := f.at(0, f.owner), f.at(2, f.owner)
	for i := range 40 {
		author.Say(t, f.thread(), fmt.Sprint("open ", i))
		author.Say(t, f.secret.MainThreadID, fmt.Sprint("secret ", i))
	}
	s := dial(t, f.at(1, guest))
	s.pause()
	s.identify(head)
	var during sync.WaitGroup
	during.Go(func() { elsewhere.Say(t, f.secret.MainThreadID, "secret, live") })
	during.Go(func() { author.Revoke(t, grant.ID) })
	during.Wait()
	elsewhere.Say(t, f.secret.MainThreadID, "secret, too late")
	last := author.Say(t, f.thread(), "the last")
	s.proceed()
	s.awaitReady()
	removed, open := false, 0
	for {
		event := bodyOf[wirews.Envelope](s, s.expectOneOf(wirews.OpDispatch))
		switch {
		case event.Type == workspace.TypeAccessChanged:
			removed = true
		case event.Scope.ChannelID == f.secret.ID:
			require.False(t, removed, "ES-8.3.2 nothing of the channel after the removal")
			require.NotContains(t, string(event.Payload), "too late")
		case event.Type == workspace.TypeMessageCreated:
			open++
			if messageOf(t, event).ID == last.ID {
				require.True(t, removed)
				require.Equal(t, 41, open, "no gap in what stays")
				return
			}
		}
	}
}

// expectOneOf passes over everything but ops of a name.
func (s *socket) expectOneOf(op string) wirews.Frame {
	s.t.Helper()
	for {
		if frame := s.next(); frame.Op == op {
			return frame
		}
	}
}

// Every wake-up between processes is lost: the polls and the heartbeats heal that.
func TestWorkspaceWithoutWakeUps(t *testing.T) {
	t.Parallel()
	db := testkit.New(t, testkit.Postgres)
	muteNotifications(t, db.URL)
	f := newFleet(t, db, 2, nil)
	guest := f.guest("guest")
	t.Run("ES-3.2 events arrive by the poll", func(t *testing.T) {
		s := connect(t, f.at(1, guest))
		said := f.owner.Say(t, f.thread(), "hello")
		require.Equal(t, said.ID, messageOf(t, s.await(workspace.TypeMessageCreated)).ID)
	})
	t.Run("WS-4 4017 across nodes by the heartbeat", func(t *testing.T) {
		old := connect(t, f.at(1, guest))
		connect(t, f.at(0, guest)).acknowledged()
		old.send(wirews.OpHeartbeat, wirews.Heartbeat{})
		old.closed(code.CloseDeviceReplaced)
	})
	t.Run("ES-8.5 4012 across nodes by the look at credentials", func(t *testing.T) {
		s := connect(t, f.at(1, guest))
		require.Equal(t, http.StatusNoContent, guest.Do(t, http.MethodPost, "/api/v1/auth/logout", struct{}{}).Status)
		s.closed(code.CloseRevoked)
	})
}

// muteNotifications makes pg_notify do nothing for whoever connects from now on.
func muteNotifications(t *testing.T, url string) {
	t.Helper()
	admin, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer admin.Close(t.Context()) //nolint:errcheck // it has done its work
	for _, statement := range []string{
		`CREATE SCHEMA mute`,
		`CREATE FUNCTION mute.pg_notify(text, text) RETURNS void LANGUAGE sql AS ''`,
		`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = mute, pg_catalog, public', current_database()); END $$`,
	} {
		_, err := admin.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
}
