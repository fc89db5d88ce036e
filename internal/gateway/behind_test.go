package gateway_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/eventlog"
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
