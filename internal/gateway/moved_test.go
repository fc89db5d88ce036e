package gateway_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/gateway"
	"github.com/cairnsync/cairn/internal/testkit"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// move moves a thread to another channel.
func (n *node) move(thread, from, to string, version int64) {
	n.w.exec(`UPDATE threads SET channel_id = $1 WHERE id = $2`, to, thread)
	n.emit(eventlog.Event{
		Type: eventlog.ThreadMoved, Scope: n.w.scope(to, thread), ResourceID: thread, ResourceVersion: version,
		Payload: wire.ThreadEvent{Thread: wire.Thread{ID: thread, ChannelID: to}},
	}, eventlog.Event{
		Type: eventlog.ThreadMovedOut, Scope: n.w.scope(from, ""), ResourceID: from, Payload: wire.ThreadMovedOut{ThreadID: thread, ChannelID: from},
	})
	n.settled()
}

// A thread moves between two channels that a person sees, whose client catches up; then its new place is lost. The client
// is told so that it drops what it has of the thread.
func TestMovedThenLostWhileCatchingUp(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		for name, lose := range map[string]func(n *node, anna, grant, thread, target, secret string){
			"the channel is taken":     func(n *node, anna, grant, _, _, _ string) { n.revoke(anna, grant) },
			"the thread moves further": func(n *node, _, _, thread, target, secret string) { n.move(thread, target, secret, 3) },
		} {
			t.Run("ES-8.3 "+name, func(t *testing.T) {
				w := newWorld(t, testkit.New(t, db.Engine))
				n := w.node(func(o *gateway.Options) { o.Limits.OutboundQueueMax, o.Limits.CatchupPageSize = 400, 100 })
				anna := w.person("anna")
				open, target, secret := w.channel(), w.channel(), w.channel()
				n.grant(anna, open, wire.LevelRead)
				grant := n.grant(anna, target, wire.LevelRead)
				thread, noise := w.thread(open), w.thread(open)
				start := n.settled()
				n.emit(w.message(open, thread, "content"))
				for range 20 {
					events := make([]eventlog.Event, 50)
					for i := range events {
						events[i] = w.message(open, noise, strings.Repeat("x", 20_000))
					}
					n.emit(events...)
				}
				n.settled()
				c := n.connect(w.device(anna), start) // it does not read for now
				n.move(thread, open, target, 2)
				lose(n, anna, grant, thread, target, secret)
				n.emit(setting(anna, "last"))
				n.settled()
				require.Empty(t, c.holds(thread))
			})
		}
	})
}

// holds reads up to a change of settings and answers the channel in which a client has a thread then, which knows of it what
// it is told.
func (c *client) holds(thread string) string {
	channel := ""
	for {
		frame := c.next()
		if frame.Op != wire.OpDispatch {
			continue
		}
		switch ev := body[wire.Envelope](c, frame); {
		case ev.Type == eventlog.SettingsUpdated:
			return channel
		case ev.Scope.ThreadID == thread: // created or moved
			channel = ev.Scope.ChannelID
		case ev.Type == eventlog.ThreadMovedOut && ev.Scope.ChannelID == channel:
			channel = ""
		case ev.Type == eventlog.AccessChanged && strings.Contains(string(ev.Payload), channel):
			channel = ""
		}
	}
}
