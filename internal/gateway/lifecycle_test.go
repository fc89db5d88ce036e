package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/gateway"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestLive(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db)
		n := w.node()
		channel, hidden := w.channel(), w.channel()
		anna := w.person("anna")
		n.grant(anna, channel, wire.LevelWrite)
		head := n.settled()
		c := n.connect(w.device(anna))
		require.Equal(t, head, c.ready.HeadSeq)
		require.NotNil(t, c.ready.Snapshot)
		thread := w.thread(channel)
		n.emit(w.message(channel, thread, "one"), w.message(hidden, w.thread(hidden), "no"), w.message(channel, thread, "two"), setting(anna, "k"), setting(w.owner, "k"))
		one := c.event(eventlog.MessageCreated)
		require.Equal(t, head+1, one.Seq)
		require.Equal(t, head+3, c.event(eventlog.MessageCreated).Seq)
		require.Equal(t, head+4, c.event(eventlog.SettingsUpdated).Seq)
		c.barrier()
	})
}

func TestHelloAndReady(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db)
		n := w.node()
		anna := w.person("anna")
		channel := w.channel()
		n.grant(anna, channel, wire.LevelWrite)
		head := n.settled()
		d := w.device(anna)
		c := n.dial()
		t.Run("ES-6.3.2 hello", func(t *testing.T) {
			require.Equal(t, int64(30_000), c.hello.HeartbeatIntervalMS)
			require.Equal(t, int64(300_000), c.hello.ResumeWindowMS)
			require.Equal(t, []int{1}, c.hello.ProtocolVersions)
			require.NotEmpty(t, c.hello.DPoPNonce)
			require.NotEmpty(t, c.hello.SyncEpoch)
			require.WithinDuration(t, time.Now(), c.hello.ServerTime, time.Minute)
			require.NotEqual(t, c.hello.DPoPNonce, n.dial().hello.DPoPNonce, "each connection has its own")
		})
		c.identify(d)
		ready := body[wire.Ready](c, c.expect(wire.OpReady))
		t.Run("ES-6.3.4 ready", func(t *testing.T) {
			require.Equal(t, anna, ready.Principal.ID)
			require.Equal(t, d.id, ready.DeviceID)
			require.Equal(t, head, ready.HeadSeq)
			require.Equal(t, c.hello.SyncEpoch, ready.SyncEpoch)
			require.Equal(t, int64(2), ready.PermissionVersion)
			require.NotEmpty(t, ready.GatewaySessionID)
		})
		t.Run("WS-4 the snapshot is the document of GET sync/snapshot", func(t *testing.T) {
			document, err := n.Snapshot(t.Context(), authz.Caller{Principal: anna, Kind: wire.KindUser})
			require.NoError(t, err)
			require.Equal(t, document, *ready.Snapshot)
			require.Contains(t, document.Access, wire.Access{Kind: wire.TargetChannel, ID: channel, Level: wire.LevelWrite})
			require.Contains(t, document.Access, wire.Access{Kind: wire.TargetSpace, ID: w.space})
			require.Equal(t, head, document.HeadSeq)
		})
		t.Run("WS-4 without a cursor it is live at once", func(t *testing.T) { c.barrier() })
	})
}

func TestLargeSnapshot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.New(t, testkit.SQLite))
	n := w.node(func(o *gateway.Options) {
		o.Limits.MaxFrameBytes = 8 << 10
		o.Document = func(_ storage.Tx, _ *authz.Snapshot, into *wire.Snapshot) error {
			for i := range 100 {
				into.Spaces = append(into.Spaces, wire.Space{ID: w.env.NewID(), Name: fmt.Sprint("space ", i)})
			}
			return nil
		}
	})
	c := n.connect(w.device(w.owner))
	require.Nil(t, c.ready.Snapshot)
	require.True(t, c.ready.SnapshotByREST, "WS-4 a ready over half a frame")
	document, err := n.Snapshot(t.Context(), authz.Caller{Principal: w.owner, Kind: wire.KindUser})
	require.NoError(t, err)
	require.Len(t, document.Spaces, 100)
}

func TestReauth(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.New(t, testkit.SQLite))
	n := w.node(func(o *gateway.Options) { o.Limits.HeartbeatInterval = time.Hour })
	anna := w.person("anna")
	connect := func(d device) (*client, time.Time) {
		c := n.dial()
		until := n.clock.now().Add(10 * time.Minute)
		c.send(wire.OpIdentify, wire.Identify{AccessToken: d.token(until), DPoP: c.hello.DPoPNonce, DeviceID: d.id, ProtocolVersion: 1})
		c.expect(wire.OpReady)
		c.barrier()
		return c, until
	}
	one, two := w.device(anna), w.device(anna)
	renewing, until := connect(one)
	idle, _ := connect(two)
	n.clock.pass(9*time.Minute + 10*time.Second)
	asked := body[wire.ReauthRequired](renewing, renewing.expect(wire.OpReauthRequired))
	idle.expect(wire.OpReauthRequired)
	require.WithinDuration(t, until, asked.ExpiresAt, time.Second, "ES-6.3.6")
	require.NotEqual(t, renewing.hello.DPoPNonce, asked.DPoPNonce, "a fresh nonce")
	for name, reauth := range map[string]wire.Reauth{
		"a bad token":         {AccessToken: "x", DPoP: asked.DPoPNonce},
		"an old nonce":        {AccessToken: one.token(until.Add(time.Hour)), DPoP: renewing.hello.DPoPNonce},
		"another sign-in":     {AccessToken: device{anna, one.id, "other"}.token(until.Add(time.Hour)), DPoP: asked.DPoPNonce},
		"another person":      {AccessToken: device{w.owner, one.id, one.signIn}.token(until.Add(time.Hour)), DPoP: asked.DPoPNonce},
		"of another device":   {AccessToken: two.token(until.Add(time.Hour)), DPoP: asked.DPoPNonce},
		"one that is expired": {AccessToken: one.token(time.Now()), DPoP: asked.DPoPNonce},
	} {
		reauth.Ref = name
		renewing.send(wire.OpReauth, reauth)
		failed := body[wire.OpFailed](renewing, renewing.expect(wire.OpError))
		require.Equal(t, name, failed.Ref, "WS-4 a bad reauth is an error")
	}
	renewing.send(wire.OpReauth, wire.Reauth{AccessToken: one.token(until.Add(time.Hour)), DPoP: asked.DPoPNonce})
	renewing.barrier()
	n.clock.pass(time.Minute)
	idle.requireClosed(code.CloseTokenExpired) // ES-6.4 4011
	renewing.barrier()
	n.clock.pass(time.Hour - time.Minute)
	renewing.expect(wire.OpReauthRequired)
	n.clock.pass(2 * time.Minute)
	renewing.requireClosed(code.CloseTokenExpired)
}

func TestAgentsConnect(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.New(t, testkit.SQLite))
	n := w.node()
	agent := w.person("agent")
	w.exec(`UPDATE principals SET kind = 'agent' WHERE id = $1`, agent)
	w.exec(`INSERT INTO api_tokens (id, principal_id, name, hash, hint, created_at) VALUES ($1, $2, 'x', 'x', 'x', 1)`, "token-"+agent, agent)
	channel := w.channel()
	n.grant(agent, channel, wire.LevelTrigger)
	connect := func(consumer string) *client {
		c := n.dial()
		c.send(wire.OpIdentify, wire.Identify{APIToken: agent, ProtocolVersion: 1, Consumer: consumer})
		ready := body[wire.Ready](c, c.expect(wire.OpReady))
		require.Empty(t, ready.DeviceID)
		return c
	}
	first, other := connect(""), connect("other")
	n.emit(w.message(channel, w.thread(channel), "x"))
	first.event(eventlog.MessageCreated)
	other.event(eventlog.MessageCreated)
	first.send(wire.OpTypingStart, wire.Typing{ThreadID: w.env.NewID()})
	first.failed(wire.OpTypingStart, code.NotImplementedForKind)
	connect("default")
	first.requireClosed(code.CloseConsumerReplaced) // ES-15.1
	other.barrier()
}

// An API token receives what it is for, and nothing else that its principal may read.
func TestScopesBindDeliveries(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db)
		n := w.node()
		agent := w.person("agent")
		w.exec(`UPDATE principals SET kind = 'agent' WHERE id = $1`, agent)
		w.exec(`INSERT INTO api_tokens (id, principal_id, name, hash, hint, created_at) VALUES ($1, $2, 'x', 'x', 'x', 1)`, "token-"+agent, agent)
		channel := w.channel()
		thread := w.thread(channel)
		n.grant(agent, channel, wire.LevelTrigger)
		start := n.settled()
		events := []eventlog.Event{
			w.message(channel, thread, "x"), setting(agent, "k"), renamed(agent, "agent2"),
			{Type: eventlog.ThreadUpdated, Scope: w.scope(channel, thread), ResourceID: thread, ResourceVersion: 2, Payload: wire.ThreadEvent{Thread: wire.Thread{ID: thread}}},
		}
		connect := func(n *node, consumer, scopes string, cursor *int64) *client {
			c := n.dial()
			in := wire.Identify{APIToken: agent + "/" + scopes, ProtocolVersion: 1, Consumer: consumer, Cursor: cursor}
			if cursor != nil {
				in.SyncEpoch = c.hello.SyncEpoch
			}
			c.send(wire.OpIdentify, in)
			c.ready = body[wire.Ready](c, c.expect(wire.OpReady))
			return c
		}
		for name, scope := range map[string]string{
			eventlog.MessageCreated: "message.read", eventlog.SettingsUpdated: "audience.receive",
			eventlog.PrincipalUpdated: "principal.read", eventlog.ThreadUpdated: "thread.read",
		} {
			scopes := "gateway.connect," + scope
			live := connect(n, name, scopes, nil)
			t.Run("live "+scope, func(t *testing.T) {
				require.Nil(t, live.ready.Snapshot, "which takes self.read")
				n.emit(events...)
				live.event(name)
				live.barrier()
			})
			head := n.settled()
			after := head - int64(len(events))
			for from, node := range map[string]*node{"memory": n, "the database": w.node()} {
				t.Run("from "+from+" "+scope, func(t *testing.T) {
					c := connect(node, name, scopes, &after)
					c.event(name)
					got, _ := c.caughtUp(after+1, 100)
					require.Empty(t, got)
				})
			}
			t.Run("by REST "+scope, func(t *testing.T) {
				by := caller(agent)
				by.Scopes = []string{scope}
				page, err := n.Events(t.Context(), by, after, "", 0)
				require.NoError(t, err)
				require.Len(t, page.Events, 1)
				require.Equal(t, name, page.Events[0].Type)
			})
		}
		require.Less(t, start, n.settled())
	})
}

func TestStop(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db)
		n, other := w.node(), (*node)(nil)
		if db.Engine == testkit.Postgres {
			other = w.node()
		}
		d := w.device(w.owner)
		c, stranger := n.connect(d), n.dial()
		channel := w.channel()
		thread := w.thread(channel)
		const many = 300
		for range many {
			n.emit(w.message(channel, thread, strings.Repeat("x", 1000)))
		}
		head := n.settled()
		n.stop()
		for range many {
			c.event(eventlog.MessageCreated)
		}
		c.requireClosed(code.CloseServerRestart) // ES-6.4 4013, behind what was sent
		stranger.requireClosed(code.CloseServerRestart)
		if other != nil { // ES-6.3.7 the gateway session survives its node
			again := other.resume(d, c.ready.GatewaySessionID, head)
			require.Equal(t, c.ready.GatewaySessionID, body[wire.Resumed](again, again.expect(wire.OpResumed)).GatewaySessionID)
		}
	})
}
