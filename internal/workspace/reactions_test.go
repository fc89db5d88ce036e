package workspace_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/workspace"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestReactions(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		ctx := w.Context()
		channel := w.text()
		writer := w.member("writer", onChannel(channel.ID), wire.LevelWrite)
		m := w.say(writer, channel.MainThreadID, "hello")
		w.run("ES-9.3 events carry absolute counts and no version", func(w *world) {
			head := w.head()
			require.NoError(w, w.AddReaction(ctx, writer, m.ID, "👍"))
			require.NoError(w, w.AddReaction(ctx, w.owner, m.ID, "👍"))
			require.NoError(w, w.AddReaction(ctx, w.owner, m.ID, "👍"), "idempotent")
			require.NoError(w, w.RemoveReaction(ctx, writer, m.ID, "👍"))
			require.NoError(w, w.RemoveReaction(ctx, writer, m.ID, "👍"), "idempotent")
			var told []wire.ReactionEvent
			for _, record := range w.since(head) {
				require.Equal(w, wire.Resource{Kind: "message", ID: m.ID}, record.Resource)
				told = append(told, payloadOf[wire.ReactionEvent](w, record))
			}
			thread := channel.MainThreadID
			require.Equal(w, []wire.ReactionEvent{
				{MessageID: m.ID, ThreadID: thread, Emoji: "👍", PrincipalID: writer.Principal, Count: 1},
				{MessageID: m.ID, ThreadID: thread, Emoji: "👍", PrincipalID: w.owner.Principal, Count: 2},
				{MessageID: m.ID, ThreadID: thread, Emoji: "👍", PrincipalID: writer.Principal, Count: 1},
			}, told)
			got, err := w.Message(ctx, w.owner, m.ID)
			require.NoError(w, err)
			require.EqualValues(w, 1, got.Version)
			require.Equal(w, []wire.Reaction{{Emoji: "👍", Count: 1, Me: true}}, got.Reactions)
			got, err = w.Message(ctx, writer, m.ID)
			require.NoError(w, err)
			require.Equal(w, []wire.Reaction{{Emoji: "👍", Count: 1}}, got.Reactions)
		})
		w.run("an emoji has 1 to 64 bytes and nothing invisible", func(w *world) {
			for _, emoji := range []string{"", strings.Repeat("x", 65), "a\nb", "a b", "\x00", "\xff"} {
				w.invalid("emoji", w.AddReaction(ctx, writer, m.ID, emoji))
			}
			require.NoError(w, w.AddReaction(ctx, writer, m.ID, "👩‍👩‍👧‍👦"))
		})
		w.run("a message has a bounded number of different emoji", func(w *world) {
			for i := range workspace.MaxEmoji - 2 {
				w.exec(`INSERT INTO reactions (message_id, emoji, principal_id, created_at) VALUES ($1, $2, 'p', 1)`, m.ID, fmt.Sprintf("e%d", i))
			}
			w.refused(code.Conflict, w.AddReaction(ctx, writer, m.ID, "one more"[:3]))
			require.NoError(w, w.AddReaction(ctx, writer, m.ID, "e1"), "one that is there")
		})
		w.run("WS-AZ-1 it needs write", func(w *world) {
			w.refused(code.Forbidden, w.AddReaction(ctx, w.member("reader", onChannel(channel.ID), wire.LevelRead), m.ID, "👍"))
			w.refused(code.NotFound, w.AddReaction(ctx, w.person("stranger"), m.ID, "👍"))
		})
	})
}

func TestPins(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		ctx := w.Context()
		channel := w.text()
		thread := channel.MainThreadID
		writer := w.member("writer", onChannel(channel.ID), wire.LevelWrite)
		first, second := w.say(writer, thread, "a"), w.say(writer, thread, "b")
		w.run("WS-AZ-1 it needs manage", func(w *world) {
			w.refused(code.Forbidden, w.Pin(ctx, writer, thread, first.ID))
			w.refused(code.NotFound, w.Pin(ctx, w.person("stranger"), thread, first.ID))
			other := w.start(writer, channel.ID, "t").Thread.ID
			w.refused(code.NotFound, w.Pin(ctx, w.owner, other, first.ID))
		})
		w.run("idempotent, each change one event", func(w *world) {
			require.Equal(w, []string{eventlog.PinAdded, eventlog.PinAdded, eventlog.PinRemoved}, w.emitted(func() {
				require.NoError(w, w.Pin(ctx, w.owner, thread, second.ID))
				require.NoError(w, w.Pin(ctx, w.owner, thread, second.ID))
				require.NoError(w, w.Pin(ctx, w.owner, thread, first.ID))
				require.NoError(w, w.Unpin(ctx, w.owner, thread, second.ID))
				require.NoError(w, w.Unpin(ctx, w.owner, thread, second.ID))
			}))
			got, err := w.Message(ctx, writer, first.ID)
			require.NoError(w, err)
			require.True(w, got.Pinned)
			require.EqualValues(w, 1, got.Version)
		})
		w.run("pins are listed in the order of the thread", func(w *world) {
			require.NoError(w, w.Pin(ctx, w.owner, thread, second.ID))
			var ids []string
			for _, m := range all(w, func(p workspace.Paging) (wire.Page[wire.Message], error) { return w.Pins(ctx, writer, thread, p) }) {
				require.True(w, m.Pinned)
				ids = append(ids, m.ID)
			}
			require.Equal(w, []string{first.ID, second.ID}, ids)
		})
	})
}
