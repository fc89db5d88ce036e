package gateway_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/gateway"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// nodes starts one node, or two where there can be several.
func (w *world) pair(change ...options) (one, two *node) {
	one = w.node(change...)
	two = one
	if w.db.Engine == testkit.Postgres {
		two = w.node(change...)
	}
	return one, two
}

func TestResume(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db)
		one, two := w.pair()
		anna := w.person("anna")
		channel := w.channel()
		thread := w.thread(channel)
		one.grant(anna, channel, wire.LevelWrite)
		d := w.device(anna)
		c := one.connect(d)
		c.send(wire.OpFocus, wire.Focus{ThreadIDs: []string{thread}})
		c.barrier()
		require.NoError(t, c.ws.CloseNow())
		one.emit(w.message(channel, thread, "missed"), setting(w.owner, "x"), w.message(channel, thread, "missed too"))
		head := two.settled()

		again := two.resume(d, c.ready.GatewaySessionID, c.ready.HeadSeq)
		resumed := body[wire.Resumed](again, again.expect(wire.OpResumed))
		require.Equal(t, wire.Resumed{
			GatewaySessionID: c.ready.GatewaySessionID, HeadSeq: head, SyncEpoch: c.hello.SyncEpoch, PermissionVersion: c.ready.PermissionVersion,
		}, resumed, "WS-4 resumed")
		require.Equal(t, c.ready.HeadSeq+1, again.event(eventlog.MessageCreated).Seq)
		require.Equal(t, head, again.event(eventlog.MessageCreated).Seq)
		require.Equal(t, head, body[wire.Cursor](again, again.expect(wire.OpCursor)).Seq)
		require.Equal(t, head, body[wire.CatchupComplete](again, again.expect(wire.OpCatchupComplete)).HeadSeq)
		again.barrier()

		typist := one.connect(w.device(w.owner))
		typist.send(wire.OpTypingStart, wire.Typing{ThreadID: thread})
		require.Equal(t, thread, again.event(eventlog.TypingStarted).Resource.ID, "ES-6.3.7 the focus is restored")

		t.Run("4006 of another person", func(t *testing.T) {
			two.resume(w.device(w.owner), c.ready.GatewaySessionID, 0).requireClosed(code.CloseSessionInvalid)
		})
		t.Run("4006 of another device", func(t *testing.T) {
			two.resume(w.device(anna), c.ready.GatewaySessionID, 0).requireClosed(code.CloseSessionInvalid)
		})
		t.Run("4006 an identify has begun another one", func(t *testing.T) {
			one.connect(d)
			two.resume(d, c.ready.GatewaySessionID, 0).requireClosed(code.CloseSessionInvalid)
		})
		t.Run("4006 too late", func(t *testing.T) {
			last := one.connect(d)
			w.exec(`UPDATE gateway_sessions SET seen_at = 1 WHERE id = $1`, last.ready.GatewaySessionID)
			two.resume(d, last.ready.GatewaySessionID, 0).requireClosed(code.CloseSessionInvalid)
		})
	})
}

// The window begins with the end of the connection.
func TestResumeWindowBegins(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.New(t, testkit.SQLite))
	n := w.node()
	c := n.connect(w.device(w.owner))
	seen := func() (at time.Time) {
		_ = w.db.DB.Read(t.Context(), func(tx storage.Tx) error {
			_, err := tx.Get(`SELECT seen_at FROM gateway_sessions WHERE id = $1`, []any{c.ready.GatewaySessionID}, &at)
			return err
		})
		return at
	}
	require.True(t, seen().After(time.Now().Add(20*time.Second)), "connected until the next heartbeat")
	require.NoError(t, c.ws.CloseNow())
	require.Eventually(t, func() bool { return seen().Before(time.Now().Add(time.Second)) }, soon, time.Millisecond)
}

func TestOneConnectionPerDevice(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db)
		one, two := w.pair()
		d := w.device(w.owner)
		other := one.connect(w.device(w.owner))
		t.Run("ES-6.4 4017 identify", func(t *testing.T) {
			old := one.connect(d)
			fresh := two.connect(d)
			old.requireClosed(code.CloseDeviceReplaced)
			fresh.barrier()
		})
		t.Run("ES-6.4 4017 resume", func(t *testing.T) {
			old := one.connect(d)
			fresh := two.resume(d, old.ready.GatewaySessionID, old.ready.HeadSeq)
			fresh.expect(wire.OpResumed)
			old.requireClosed(code.CloseDeviceReplaced)
			fresh.expect(wire.OpCatchupComplete)
			fresh.barrier()
		})
		other.barrier()
	})
}

// deaf is a bus that loses the wake-ups about gateway sessions.
type deaf struct{ signal.Bus }

func (d deaf) Publish(wakes ...signal.Wake) {
	for _, wake := range wakes {
		if wake.Topic != signal.Gateway {
			d.Bus.Publish(wake)
		}
	}
}

func TestReplacedWithoutWakeUp(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db)
		one, two := w.pair(func(o *gateway.Options) { o.Bus = deaf{o.Bus} })
		d := w.device(w.owner)
		old := one.connect(d)
		two.connect(d).barrier()
		old.send(wire.OpHeartbeat, wire.Heartbeat{}) // WS-4 looked at on each heartbeat
		old.requireClosed(code.CloseDeviceReplaced)
	})
}

// A row that is gone says nothing about another connection: the client comes back.
func TestRowGone(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db)
		n := w.node()
		d := w.device(w.owner)
		c := n.connect(d)
		w.exec(`DELETE FROM gateway_sessions WHERE id = $1`, c.ready.GatewaySessionID)
		c.send(wire.OpHeartbeat, wire.Heartbeat{})
		c.requireClosed(code.CloseUnknownError)
		n.connect(d).barrier()
	})
}

func TestRevocation(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db)
		one, two := w.pair()
		anna := w.person("anna")
		stays := two.connect(w.device(w.owner))
		wake := func() { one.bus.Publish(signal.Wake{Topic: signal.Identity}) }
		t.Run("ES-8.5 4012 a sign-in", func(t *testing.T) {
			d := w.device(anna)
			c := two.connect(d)
			w.exec(`UPDATE sign_ins SET revoked_at = 1 WHERE id = $1`, d.signIn)
			wake()
			c.requireClosed(code.CloseRevoked)
		})
		t.Run("ES-8.5 4012 a device", func(t *testing.T) {
			d := w.device(anna)
			c := two.connect(d)
			w.exec(`UPDATE devices SET state = 'revoked' WHERE id = $1`, d.id)
			wake()
			c.requireClosed(code.CloseRevoked)
		})
		t.Run("ES-8.5 4012 a person, by the log", func(t *testing.T) {
			one.grant(anna, w.channel(), wire.LevelRead)
			c := two.connect(w.device(anna))
			one.change([]string{anna}, func(tx storage.Tx) error {
				return tx.Exec(`UPDATE principals SET status = 'disabled' WHERE id = $1`, anna)
			})
			c.requireClosed(code.CloseRevoked)
		})
		stays.barrier()
	})
}

func TestRevocationWithoutWakeUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.New(t, testkit.SQLite))
	n := w.node()
	d := w.device(w.owner)
	c := n.connect(d)
	w.exec(`UPDATE sign_ins SET revoked_at = 1 WHERE id = $1`, d.signIn)
	c.requireClosed(code.CloseRevoked)
}

// What is remembered does not outlive its retention.
func TestResumeBehindRetention(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db)
		n := w.node()
		d := w.device(w.owner)
		c := n.connect(d)
		for range 10 {
			n.emit(setting(w.owner, "k"))
		}
		head := n.settled()
		w.exec(`UPDATE instance SET min_retained_seq = $1`, head)
		w.exec(`DELETE FROM event_log WHERE seq < $1`, head)
		again := n.resume(d, c.ready.GatewaySessionID, c.ready.HeadSeq)
		again.expect(wire.OpResumed)
		require.Equal(t, wire.ResyncOld, body[wire.Resync](again, again.expect(wire.OpResyncRequired)).Reason, "ES-7.3")
		w.exec(`UPDATE instance SET sync_epoch = $1`, w.env.NewID())
		again = n.resume(d, c.ready.GatewaySessionID, head)
		again.expect(wire.OpResumed)
		require.Equal(t, wire.ResyncEpoch, body[wire.Resync](again, again.expect(wire.OpResyncRequired)).Reason, "ES-7.5")
	})
}

// A node that was away for longer than events are kept cannot say what its clients missed.
func TestLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.New(t, testkit.SQLite))
	n := w.node()
	anna := w.person("anna")
	channel := w.channel()
	d := w.device(anna)
	c := n.connect(d)
	n.grant(anna, channel, wire.LevelRead)
	c.event(eventlog.AccessChanged)
	head := n.settled()
	w.exec(`UPDATE grants SET revoked_at = 1 WHERE subject_id = $1`, anna) // in an event nobody has any more
	n.Lost(head, head+1)
	c.requireClosed(code.CloseUnknownError)
	again := n.resume(d, c.ready.GatewaySessionID, head)
	again.expect(wire.OpResumed)
	again.expect(wire.OpCatchupComplete)
	n.emit(w.message(channel, w.thread(channel), "hidden"), setting(anna, "k"))
	again.event(eventlog.SettingsUpdated)
}

// A thread that moved, and moved back in an event nobody has any more.
func TestLostMove(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.New(t, testkit.SQLite))
	n := w.node()
	anna := w.person("anna")
	open, secret := w.channel(), w.channel()
	thread := w.thread(open)
	n.grant(anna, open, wire.LevelRead)
	n.emit(eventlog.Event{
		Type: eventlog.ThreadMoved, Scope: w.scope(secret, thread), ResourceID: thread, ResourceVersion: 2,
		Payload: wire.ThreadEvent{Thread: wire.Thread{ID: thread, ChannelID: secret, Version: 2}},
	})
	head := n.settled()
	n.Lost(head, head+1)
	c := n.connect(w.device(anna))
	n.emit(w.message(open, thread, "back"))
	c.event(eventlog.MessageCreated)
}

func TestTracesAreForAgents(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.New(t, testkit.SQLite))
	n := w.node()
	start := n.settled()
	live := n.connect(w.device(w.owner))
	event := setting(w.owner, "k")
	event.TraceContext, event.CorrelationID = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", w.env.NewID()
	n.emit(event)
	for _, c := range []*client{live, n.connect(w.device(w.owner), start)} {
		got := c.event(eventlog.SettingsUpdated)
		require.Empty(t, got.TraceContext, "ES-2.2")
		require.Equal(t, event.CorrelationID, got.CorrelationID)
	}
	page, err := n.Events(t.Context(), caller(w.owner), start, "", 0)
	require.NoError(t, err)
	require.Empty(t, page.Events[0].TraceContext)
}
