package gateway_test

import (
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/gateway"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// A catch-up goes up to the log's head, also where this node has not delivered that far yet.
func TestCatchUpAheadOfTheTail(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db)
		one := w.node()
		anna, bert := w.person("anna"), w.person("bert")
		lost, won := w.channel(), w.channel()
		grant := one.grant(anna, lost, wire.LevelRead)
		one.grant(bert, lost, wire.LevelRead)
		start := one.settled()
		two := w.node()
		device := w.device(bert)
		two.connect(w.device(anna)) // their permissions are known here
		session := two.connect(device).ready.GatewaySessionID
		two.connect(w.device(bert))
		require.NoError(t, two.tail.Stop(t.Context()))

		one.revoke(anna, grant)
		one.grant(anna, won, wire.LevelRead)
		one.emit(w.message(lost, w.thread(lost), "not for anna"), w.message(won, w.thread(won), "for anna"))
		one.change([]string{bert}, func(tx storage.Tx) error {
			return tx.Exec(`UPDATE principals SET status = 'disabled' WHERE id = $1`, bert)
		})
		head := one.settled()
		t.Run("ES-8.1 permissions are as new as the events", func(t *testing.T) {
			c := two.connect(w.device(anna), start)
			require.Less(t, two.Head(), c.ready.HeadSeq)
			c.event(eventlog.AccessChanged)
			c.event(eventlog.AccessChanged)
			require.Contains(t, string(c.event(eventlog.MessageCreated).Payload), `"for anna"`)
			got, at := c.caughtUp(start+4, 1000)
			require.Empty(t, got)
			require.Equal(t, head, at)
		})
		t.Run("ES-8.5 who is disabled meanwhile gets nothing", func(t *testing.T) {
			c := two.resume(device, session, start)
			c.expect(wire.OpResumed)
			c.requireClosed(code.CloseRevoked)
		})
	})
}

// The log is trimmed under a catch-up that waits for its client.
func TestTrimmedUnderCatchUp(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db)
		n := w.node()
		channel := w.channel()
		thread := w.thread(channel)
		start := n.settled()
		for range 6 { // more than sockets take
			events := make([]eventlog.Event, 50)
			for i := range events {
				events[i] = w.message(channel, thread, strings.Repeat("x", 60_000))
			}
			n.emit(events...)
		}
		head := n.settled()
		fresh := w.node(small, func(o *gateway.Options) { o.Limits.CatchupMaxEvents = 1000 }) // remembers nothing
		d := w.device(w.owner)
		c := fresh.connect(d, start)
		last := c.event(eventlog.MessageCreated).Seq
		w.exec(`UPDATE instance SET min_retained_seq = $1`, head-4)
		w.exec(`DELETE FROM event_log WHERE seq < $1`, head-4)
		var cut websocket.CloseError
		for {
			frame, err := c.read()
			if err != nil {
				require.ErrorAs(t, err, &cut)
				require.EqualValues(t, code.CloseUnknownError, cut.Code)
				break
			}
			switch frame.Op {
			case wire.OpDispatch:
				seq := body[wire.Envelope](c, frame).Seq
				require.Equal(t, last+1, seq, "ES-7.3 events are missing, and nobody said so")
				last = seq
			case wire.OpCursor:
				require.Equal(t, last, body[wire.Cursor](c, frame).Seq, "ES-7.1 the cursor passes over events that were visible")
			default:
				require.Fail(t, "not in a catch-up", "%s %s", frame.Op, frame.D)
			}
		}
		again := fresh.resume(d, c.ready.GatewaySessionID, last)
		again.expect(wire.OpResumed)
		require.Equal(t, wire.ResyncOld, body[wire.Resync](again, again.expect(wire.OpResyncRequired)).Reason, "ES-7.3")
	})
}
