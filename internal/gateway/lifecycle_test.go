package gateway_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/testkit"
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
