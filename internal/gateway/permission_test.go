package gateway_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestPermissionsFollowTheLog(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db)
		one, two := w.pair()
		anna := w.person("anna")
		channel := w.channel()
		thread := w.thread(channel)
		c, owner := two.connect(w.device(anna)), two.connect(w.device(w.owner))
		say := func(text string) { one.emit(w.message(channel, thread, text)) }

		say("before")
		owner.event(eventlog.MessageCreated)
		grant := one.grant(anna, channel, wire.LevelWrite)
		say("granted")
		changed := c.event(eventlog.AccessChanged)
		require.Equal(t, wire.AudienceSelf, changed.Audience)
		access := body[wire.AccessChanged](c, wire.Frame{D: changed.Payload})
		require.Contains(t, access.Added, wire.Access{Kind: wire.TargetChannel, ID: channel, Level: wire.LevelWrite}, "ES-8.4")
		require.Equal(t, access.PermissionVersion, changed.PermissionVersion)
		require.Contains(t, string(c.event(eventlog.MessageCreated).Payload), "granted")
		owner.event(eventlog.MessageCreated)

		one.revoke(anna, grant)
		say("revoked")
		removed := body[wire.AccessChanged](c, wire.Frame{D: c.event(eventlog.AccessChanged).Payload})
		require.Contains(t, removed.Removed, wire.Access{Kind: wire.TargetChannel, ID: channel}, "ES-8.3.1")
		owner.event(eventlog.MessageCreated)
		two.settled()
		c.barrier() // ES-8.3.2 nothing from the removed target

		ends := one.grant(anna, channel, wire.LevelRead, time.Now().Add(time.Second))
		c.event(eventlog.AccessChanged)
		say("still")
		c.event(eventlog.MessageCreated)
		owner.event(eventlog.MessageCreated)
		require.NotEmpty(t, ends)
		two.clock.pass(2 * time.Second)
		say("expired")
		owner.event(eventlog.MessageCreated)
		two.settled()
		c.barrier() // WS-AZ-2 a grant ends by time, before any sweep
	})
}

func TestSpacesAndInstance(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.New(t, testkit.SQLite))
	n := w.node()
	wide, narrow, stranger := w.person("wide"), w.person("narrow"), w.person("stranger")
	channel := w.channel()
	n.grant(wide, "", wire.LevelRead)
	n.grant(narrow, channel, wire.LevelRead)
	clients := map[string]*client{}
	for _, id := range []string{wide, narrow, stranger, w.owner} {
		clients[id] = n.connect(w.device(id))
	}
	space := eventlog.Event{
		Type: eventlog.SpaceUpdated, Scope: wire.Scope{SpaceID: w.space}, ResourceID: w.space, ResourceVersion: 2,
		Payload: wire.SpaceEvent{Space: wire.Space{ID: w.space, Version: 2}},
	}
	fresh := w.channel()
	made := eventlog.Event{
		Type: eventlog.ChannelCreated, Scope: w.scope(fresh, ""), ResourceID: fresh, ResourceVersion: 1,
		Payload: wire.ChannelEvent{Channel: wire.Channel{ID: fresh, SpaceID: w.space, Version: 1}},
	}
	n.emit(space, made, w.message(channel, w.thread(channel), "x"))
	for id, want := range map[string][]string{
		wide:     {eventlog.SpaceUpdated, eventlog.ChannelCreated, eventlog.MessageCreated},
		w.owner:  {eventlog.SpaceUpdated, eventlog.ChannelCreated, eventlog.MessageCreated},
		narrow:   {eventlog.SpaceUpdated, eventlog.MessageCreated},
		stranger: nil,
	} {
		for _, kind := range want {
			clients[id].event(kind)
		}
		clients[id].barrier()
	}
	renamed := eventlog.Event{
		Type: eventlog.PrincipalUpdated, ResourceID: narrow, ResourceVersion: 2, Payload: wire.PrincipalEvent{Principal: wire.Principal{ID: narrow}},
	}
	n.emit(renamed)
	for _, id := range []string{narrow, wide, w.owner} { // WS-AZ-7 who shares a channel
		clients[id].event(eventlog.PrincipalUpdated)
	}
	clients[stranger].barrier()
}

// A thread that moves takes its past events with it (workspace specification, section 5).
func TestMovedThreads(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db)
		n := w.node()
		source, target, both := w.person("source"), w.person("target"), w.person("both")
		from, to := w.channel(), w.channel()
		thread := w.thread(from)
		for id, channels := range map[string][]string{source: {from}, target: {to}, both: {from, to}} {
			for _, channel := range channels {
				n.grant(id, channel, wire.LevelWrite)
			}
		}
		start := n.settled()
		live := map[string]*client{source: n.connect(w.device(source)), target: n.connect(w.device(target)), both: n.connect(w.device(both))}
		n.emit(w.message(from, thread, "old"))
		w.exec(`UPDATE threads SET channel_id = $1 WHERE id = $2`, to, thread)
		moved := eventlog.Event{
			Type: eventlog.ThreadMoved, Scope: w.scope(to, thread), ResourceID: thread, ResourceVersion: 2,
			Payload: wire.ThreadEvent{Thread: wire.Thread{ID: thread, ChannelID: to}},
		}
		out := eventlog.Event{
			Type: eventlog.ThreadMovedOut, Scope: w.scope(from, ""), ResourceID: from, Payload: wire.ThreadMovedOut{ThreadID: thread, ChannelID: from},
		}
		n.emit(moved, out, w.message(to, thread, "new"))
		head := n.settled()
		want := map[string][2][]string{
			source: {{eventlog.MessageCreated, eventlog.ThreadMovedOut}, {eventlog.ThreadMovedOut}},
			target: {{eventlog.ThreadMoved, eventlog.MessageCreated}, {eventlog.MessageCreated, eventlog.ThreadMoved, eventlog.MessageCreated}},
			both: {{eventlog.MessageCreated, eventlog.ThreadMoved, eventlog.MessageCreated},
				{eventlog.MessageCreated, eventlog.ThreadMoved, eventlog.MessageCreated}},
		}
		nodes := []*node{n}
		if db.Engine == testkit.Postgres {
			nodes = append(nodes, w.node()) // has to read
		}
		for id, kinds := range want {
			for _, kind := range kinds[0] {
				live[id].event(kind)
			}
			live[id].barrier()
			for _, n := range nodes {
				c := n.connect(w.device(id), start)
				for _, kind := range kinds[1] {
					c.event(kind)
				}
				require.Equal(t, head, body[wire.Cursor](c, c.expect(wire.OpCursor)).Seq)
				c.expect(wire.OpCatchupComplete)
			}
			page, err := n.Events(t.Context(), caller(id), start, "", 0)
			require.NoError(t, err)
			require.Len(t, page.Events, len(kinds[1]))
		}
	})
}

func TestTyping(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db)
		one, two := w.pair()
		anna, berta, reader := w.person("anna"), w.person("berta"), w.person("reader")
		channel, other := w.channel(), w.channel()
		thread := w.thread(channel)
		one.grant(anna, channel, wire.LevelWrite)
		lost := one.grant(berta, channel, wire.LevelRead)
		one.grant(reader, channel, wire.LevelRead)
		one.grant(reader, other, wire.LevelRead)
		two.settled()
		a1, a2, b, r := one.connect(w.device(anna)), two.connect(w.device(anna)), two.connect(w.device(berta)), one.connect(w.device(reader))
		for _, c := range []*client{a1, a2, b} {
			c.send(wire.OpFocus, wire.Focus{ThreadIDs: []string{thread}, Ref: "f"})
			c.barrier()
		}
		r.send(wire.OpFocus, wire.Focus{ThreadIDs: []string{w.thread(other)}, BackgroundThreadIDs: []string{thread}})
		r.barrier()
		t.Run("ES-12.1 who has the thread in focus hears of it", func(t *testing.T) {
			a1.send(wire.OpTypingStart, wire.Typing{ThreadID: thread})
			event := b.event(eventlog.TypingStarted)
			require.Zero(t, event.Seq, "ES-2.1 ephemeral")
			require.Equal(t, w.scope(channel, thread), event.Scope)
			said := body[wire.TypingStarted](b, wire.Frame{D: event.Payload})
			require.Equal(t, anna, said.PrincipalID)
			require.WithinDuration(t, time.Now().Add(8*time.Second), said.ExpiresAt, 4*time.Second)
		})
		t.Run("ES-12.1 not the typing person, nor who only has it in the background", func(t *testing.T) {
			a1.barrier()
			a2.barrier()
			r.barrier()
		})
		t.Run("ES-12.1 too often", func(t *testing.T) {
			a1.send(wire.OpTypingStart, wire.Typing{ThreadID: thread, Ref: "x"})
			failed := a1.failed(wire.OpTypingStart, code.RateLimited)
			require.Equal(t, "x", failed.Ref)
			require.Positive(t, failed.RetryAfter)
			a1.send(wire.OpTypingStop, wire.Typing{ThreadID: thread})
			a1.send(wire.OpTypingStart, wire.Typing{ThreadID: thread})
			b.event(eventlog.TypingStarted)
		})
		t.Run("WS-4 typing needs write", func(t *testing.T) {
			r.send(wire.OpTypingStart, wire.Typing{ThreadID: thread})
			r.failed(wire.OpTypingStart, code.Forbidden)
			a1.send(wire.OpTypingStop, wire.Typing{ThreadID: thread})
			for _, hidden := range []string{w.thread(other), w.env.NewID()} { // WS-AZ-5
				a1.send(wire.OpTypingStart, wire.Typing{ThreadID: hidden})
				a1.failed(wire.OpTypingStart, code.NotFound)
			}
		})
		t.Run("ES-8.3.2 the focus ends with the access", func(t *testing.T) {
			one.revoke(berta, lost)
			b.event(eventlog.AccessChanged)
			again := one.grant(berta, channel, wire.LevelRead)
			b.event(eventlog.AccessChanged)
			require.NotEmpty(t, again)
			a1.send(wire.OpTypingStart, wire.Typing{ThreadID: thread})
			a1.barrier()
			b.barrier()
		})
		t.Run("ES-6.2 focus on what is not seen leaves the focus before", func(t *testing.T) {
			second := w.thread(channel)
			b.send(wire.OpFocus, wire.Focus{ThreadIDs: []string{second}})
			b.send(wire.OpFocus, wire.Focus{ThreadIDs: []string{w.thread(other)}})
			b.failed(wire.OpFocus, code.NotFound)
			a1.send(wire.OpTypingStop, wire.Typing{ThreadID: thread})
			a1.send(wire.OpTypingStart, wire.Typing{ThreadID: second})
			b.event(eventlog.TypingStarted)
		})
	})
}

// Many who get the same permission at once cost one reading.
func TestManyPermissionChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.New(t, testkit.SQLite))
	n := w.node()
	channel := w.channel()
	var people []string
	var clients []*client
	for i := range 20 {
		people = append(people, w.person(w.env.NewID()))
		clients = append(clients, n.connect(w.device(people[i])))
	}
	n.change(people, func(tx storage.Tx) error {
		for _, id := range people {
			if err := tx.Exec(`INSERT INTO grants (id, subject_kind, subject_id, target_kind, target_id, level, created_at)
				VALUES ($1, 'principal', $1, 'channel', $2, 'read', 1)`, id, channel); err != nil {
				return err
			}
		}
		return nil
	})
	n.emit(w.message(channel, w.thread(channel), "all"))
	for _, c := range clients {
		c.event(eventlog.AccessChanged)
		c.event(eventlog.MessageCreated)
	}
}
