package gateway_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/gateway"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// small are limits that little is enough for.
func small(o *gateway.Options) {
	o.Limits.CatchupPageSize, o.Limits.CursorAdvanceEvery, o.Limits.CatchupMaxEvents = 10, 20, 200
}

// history writes events of which every third is for anna, and answers the numbers of those.
func (w *world) history(n *node, anna string, count int) (seqs []int64) {
	channel, hidden := w.channel(), w.channel()
	n.grant(anna, channel, wire.LevelRead)
	thread, other := w.thread(channel), w.thread(hidden)
	first := n.settled()
	events := make([]eventlog.Event, count)
	for i := range events {
		events[i] = w.message(hidden, other, "hidden")
		if i%3 == 0 {
			events[i] = w.message(channel, thread, "seen")
			seqs = append(seqs, first+int64(i)+1)
		}
	}
	n.emit(events...)
	n.settled()
	return seqs
}

// caughtUp reads a catch-up and answers the events in it; cursors must lead from one to the other.
func (c *client) caughtUp(after, every int64) (seqs []int64, head int64) {
	c.t.Helper()
	for {
		frame := c.next()
		var seq int64
		switch frame.Op {
		case wire.OpDispatch:
			seq = body[wire.Envelope](c, frame).Seq
			seqs = append(seqs, seq)
			require.Greater(c.t, seq, after, "ES-10 in order, without duplicates")
		case wire.OpCursor:
			seq = body[wire.Cursor](c, frame).Seq
			require.GreaterOrEqual(c.t, seq, after)
		case wire.OpCatchupComplete:
			head = body[wire.CatchupComplete](c, frame).HeadSeq
			require.Equal(c.t, head, after, "ES-7.1 the last cursor is where the log was checked")
			return seqs, head
		default:
			require.Fail(c.t, "not in a catch-up", "%s %s", frame.Op, frame.D)
		}
		require.LessOrEqual(c.t, seq-after, every, "ES-7.1 a cursor after so many skipped events")
		after = seq
	}
}

func TestCatchUp(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db)
		n := w.node(small)
		anna := w.person("anna")
		before := n.settled()
		want := w.history(n, anna, 150)
		head := n.settled()
		for name, from := range map[string]int64{"from memory": before, "from the middle": want[20], "nothing missed": head} {
			t.Run("ES-7.2 "+name, func(t *testing.T) {
				c := n.connect(w.device(anna), from)
				got, at := c.caughtUp(from, 20)
				require.Equal(t, head, at)
				require.Equal(t, after(append([]int64{before + 1}, want...), from), got)
				c.barrier()
			})
		}
		fresh := n
		if db.Engine == testkit.Postgres {
			fresh = w.node(small) // remembers nothing
			for name, from := range map[string]int64{"from the database": before, "half a page": want[0] + 5} {
				t.Run("ES-7.2 "+name, func(t *testing.T) {
					c := fresh.connect(w.device(anna), from)
					got, _ := c.caughtUp(from, 20)
					require.Equal(t, after(append([]int64{before + 1}, want...), from), got)
				})
			}
		}
		t.Run("ES-7.4 the same by REST", func(t *testing.T) {
			var got []int64
			at := before
			for at < head {
				page, err := n.Events(t.Context(), caller(anna), at, "", 7)
				require.NoError(t, err)
				require.LessOrEqual(t, len(page.Events), 7)
				require.Equal(t, head, page.HeadSeq)
				require.Greater(t, page.NextCursor, at)
				for _, event := range page.Events {
					got = append(got, event.Seq)
				}
				at = page.NextCursor
			}
			require.Equal(t, append([]int64{before + 1}, want...), got)
		})
	})
}

func after(all []int64, from int64) (rest []int64) {
	for _, seq := range all {
		if seq > from {
			rest = append(rest, seq)
		}
	}
	return rest
}

func TestResyncRequired(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db)
		n := w.node(small)
		anna := w.person("anna")
		channel := w.channel()
		n.grant(anna, channel, wire.LevelRead)
		w.history(n, anna, 300)
		w.exec(`UPDATE instance SET min_retained_seq = 50`)
		w.exec(`DELETE FROM event_log WHERE seq < 50`)
		head := n.settled()
		epoch := n.dial().hello.SyncEpoch
		cases := []struct {
			name   string
			cursor int64
			epoch  string
			reason wire.ResyncReason
		}{
			{"epoch_changed, even where the number fits", head - 1, w.env.NewID(), wire.ResyncEpoch},
			{"retention", 5, epoch, wire.ResyncOld},
			{"too_far_behind", head - 201, epoch, wire.ResyncFar},
			{"cursor_ahead", head + 1000, epoch, wire.ResyncFuture},
			{"cursor_ahead without an epoch", head + 2000, "", wire.ResyncFuture},
		}
		for _, c := range cases {
			t.Run("ES-7.3 "+c.name, func(t *testing.T) {
				d := w.device(anna)
				conn := n.dial()
				conn.send(wire.OpIdentify, wire.Identify{
					AccessToken: d.token(n.clock.now().Add(1 << 40)), DPoP: conn.hello.DPoPNonce, DeviceID: d.id, ProtocolVersion: 1,
					Cursor: &c.cursor, SyncEpoch: c.epoch,
				})
				ready := body[wire.Ready](conn, conn.expect(wire.OpReady))
				resync := body[wire.Resync](conn, conn.expect(wire.OpResyncRequired))
				require.Equal(t, wire.Resync{Reason: c.reason, HeadSeq: ready.HeadSeq, SyncEpoch: epoch}, resync)
				n.emit(setting(anna, "live"))
				require.Equal(t, eventlog.SettingsUpdated, conn.event(eventlog.SettingsUpdated).Type, "live from head_seq")
				_, err := n.Events(t.Context(), caller(anna), c.cursor+1, c.epoch, 0)
				if c.reason != wire.ResyncFar && c.reason != wire.ResyncFuture {
					require.Equal(t, string(c.reason), fault.ExtraOf(fault.From(err)).Reason, "ES-7.4")
				}
				_, err = n.Events(t.Context(), caller(anna), 1<<40, "", 0)
				require.True(t, fault.Is(err, code.ResyncRequired))

				session := ready.GatewaySessionID
				again := n.dial()
				again.send(wire.OpResume, wire.Resume{
					GatewaySessionID: session, AccessToken: d.token(n.clock.now().Add(1 << 40)), DPoP: again.hello.DPoPNonce, Cursor: 1 << 40, SyncEpoch: epoch,
				})
				again.expect(wire.OpResumed)
				require.Equal(t, wire.ResyncFuture, body[wire.Resync](again, again.expect(wire.OpResyncRequired)).Reason)
				again.barrier()
			})
		}
	})
}

// What is committed during a catch-up comes behind it, in order; a client that does not read meanwhile is cut.
func TestEventsDuringCatchUp(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db)
		n := w.node(func(o *gateway.Options) { o.Limits.OutboundQueueMax, o.Limits.CatchupPageSize = 400, 100 })
		anna := w.person("anna")
		channel := w.channel()
		n.grant(anna, channel, wire.LevelRead)
		thread := w.thread(channel)
		start := n.settled()
		text := strings.Repeat("x", 20_000)
		fill := func(count int) {
			for range count / 50 {
				events := make([]eventlog.Event, 50)
				for i := range events {
					events[i] = w.message(channel, thread, text)
				}
				n.emit(events...)
			}
		}
		fill(1000) // more than sockets take
		reads := n.connect(w.device(anna), start)
		fill(300)
		head := n.settled()
		got, at := reads.caughtUp(start, 1)
		require.Len(t, got, int(at-start), "ES-7.2.3 no gap")
		for want := at + 1; want <= head; want++ {
			require.Equal(t, want, reads.event(eventlog.MessageCreated).Seq, "ES-7.2.4 what waited follows in order")
		}
		fill(200)
		for want := head + 1; want <= head+200; want++ {
			require.Equal(t, want, reads.event(eventlog.MessageCreated).Seq)
		}
		stuck := n.connect(w.device(anna), start)
		events := make([]eventlog.Event, 500)
		for i := range events {
			events[i] = w.message(channel, thread, text)
		}
		n.emit(events...)
		stuck.requireClosed(code.CloseSlowConsumer) // ES-7.2.5
	})
}

func TestSlowClient(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db)
		n := w.node(func(o *gateway.Options) { o.Limits.OutboundQueueMax = 50 })
		channel := w.channel()
		thread := w.thread(channel)
		d := w.device(w.owner)
		slow, fine := n.connect(d), n.connect(w.device(w.owner))
		text := strings.Repeat("x", 60_000)
		read := int64(0)
		for range 250 {
			n.emit(w.message(channel, thread, text))
			read = fine.event(eventlog.MessageCreated).Seq
		}
		require.Equal(t, n.settled(), read, "one slow client harms nobody else")
		last := slow.ready.HeadSeq
		for {
			frame, err := slow.read()
			if err != nil {
				break
			}
			if frame.Op == wire.OpDispatch {
				seq := body[wire.Envelope](slow, frame).Seq
				require.Equal(t, last+1, seq)
				last = seq
			}
		}
		again := n.resume(d, slow.ready.GatewaySessionID, last) // ES-6.4 4014: catch up from the cursor
		again.expect(wire.OpResumed)
		got, at := again.caughtUp(last, 1)
		require.Equal(t, read, at)
		require.Len(t, got, int(read-last))
	})
}

func TestCursorsWhileLive(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.New(t, testkit.SQLite))
	n := w.node(small)
	anna := w.person("anna")
	c := n.connect(w.device(anna))
	hidden := w.channel()
	thread := w.thread(hidden)
	last := n.settled()
	for range 100 {
		n.emit(w.message(hidden, thread, "hidden"))
	}
	head := n.settled()
	for last < head-20 {
		seq := body[wire.Cursor](c, c.expect(wire.OpCursor)).Seq
		require.LessOrEqual(t, seq-last, int64(20), "ES-7.1")
		last = seq
	}
	c.send(wire.OpHeartbeat, wire.Heartbeat{})
	if last < head {
		require.Equal(t, head, body[wire.Cursor](c, c.expect(wire.OpCursor)).Seq, "a heartbeat tells how far the log was checked")
	}
	c.expect(wire.OpHeartbeatAck)
}

// What a deletion took out of the log is not sent out of memory either.
func TestRememberedEventsAreRedacted(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db)
		n := w.node()
		channel := w.channel()
		thread := w.thread(channel)
		start := n.settled()
		created := w.message(channel, thread, "secret")
		n.emit(created, w.message(channel, thread, "stays"))
		deleted := created
		deleted.Type, deleted.ResourceVersion = eventlog.MessageDeleted, 2
		require.NoError(t, n.db.Write(t.Context(), nil, func(tx storage.Tx) error {
			message := created.Payload.(wire.MessageEvent).Message
			deleted.Payload = wire.MessageEvent{Message: eventlog.Tombstone(message, tx.Now())}
			if err := eventlog.Redact(tx, message.ID, tx.Now()); err != nil {
				return err
			}
			return n.log.Emit(tx, deleted)
		}))
		n.settled()
		c := n.connect(w.device(w.owner), start)
		one := c.event(eventlog.MessageCreated)
		require.True(t, one.Redacted)
		require.NotContains(t, string(one.Payload), "secret")
		page, err := n.Events(t.Context(), caller(w.owner), start, "", 1)
		require.NoError(t, err)
		require.JSONEq(t, string(page.Events[0].Payload), string(one.Payload), "as the log has it")
		require.Contains(t, string(c.event(eventlog.MessageCreated).Payload), "stays")
		c.event(eventlog.MessageDeleted)
	})
}

// A page is bounded in bytes too: what is read for one connection, or one request, is little.
func TestLargeEvents(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db)
		n := w.node()
		channel := w.channel()
		thread := w.thread(channel)
		start := n.settled()
		events := make([]eventlog.Event, 50)
		for i := range events {
			events[i] = w.message(channel, thread, strings.Repeat("x", 60_000))
		}
		n.emit(events...)
		head := n.settled()
		t.Run("ES-7.4 by REST", func(t *testing.T) {
			by := caller(w.owner)
			for at, next := start, start+1; at < head; {
				page, err := n.Events(t.Context(), by, at, "", 500)
				require.NoError(t, err)
				size := 0
				for _, event := range page.Events {
					require.Equal(t, next, event.Seq)
					size, next = size+len(event.Payload), next+1
				}
				require.Less(t, size, eventlog.PageBytes+64<<10)
				require.Equal(t, next-1, page.NextCursor)
				at = page.NextCursor
			}
		})
		for name, from := range map[string]*node{"from memory": n, "from the database": w.node()} {
			t.Run("ES-7.2 "+name, func(t *testing.T) {
				c := from.connect(w.device(w.owner), start)
				got, cursors := 0, 0
				for frame := c.next(); frame.Op != wire.OpCatchupComplete; frame = c.next() {
					switch frame.Op {
					case wire.OpDispatch:
						got++
					case wire.OpCursor:
						cursors++
					}
				}
				require.Equal(t, len(events), got)
				require.Greater(t, cursors, 2, "ES-7.1 one at the end of every page")
			})
		}
	})
}
