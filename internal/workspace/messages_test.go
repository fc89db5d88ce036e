package workspace_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/workspace"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestCreateMessage(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		ctx := w.Context()
		channel := w.text()
		thread := channel.MainThreadID
		writer := w.member("writer", onChannel(channel.ID), wire.LevelWrite)
		w.run("ES-4 numbers follow each other, and the event carries message and thread", func(w *world) {
			w.say(writer, thread, "one")
			head := w.head()
			in := w.message("two")
			m, _, err := w.CreateMessage(ctx, writer, thread, in)
			require.NoError(w, err)
			require.EqualValues(w, 2, m.ThreadSeq)
			require.Equal(w, wire.OriginHuman, m.Origin)
			require.Equal(w, wire.Author{ID: writer.Principal, Kind: wire.KindUser}, m.Author)
			events := w.since(head)
			require.Len(w, events, 1)
			require.Equal(w, in.ClientMsgID, events[0].ClientMsgID, "the echo")
			require.Equal(w, writer.Correlation, events[0].CorrelationID)
			require.Equal(w, wire.Scope{SpaceID: channel.SpaceID, ChannelID: channel.ID, ThreadID: thread}, events[0].Scope)
			require.Equal(w, wire.Resource{Kind: "message", ID: m.ID, Version: 1}, events[0].Resource)
			e := payloadOf[wire.MessageEvent](w, events[0])
			require.Equal(w, m, e.Message)
			now, err := w.Thread(ctx, writer, thread)
			require.NoError(w, err)
			require.Equal(w, wire.ThreadSummary{
				ID: thread, Version: now.Version, State: wire.ThreadOpen, LastMessageSeq: 2, MessageCount: 2, LastActivityAt: now.LastActivityAt,
			}, e.Thread)
			got, err := w.Message(ctx, writer, m.ID)
			require.NoError(w, err)
			require.Equal(w, m, got)
		})
		w.run("who writes by an agent has the origin agent", func(w *world) {
			agent := w.principal(wire.KindAgent, "agent")
			w.grant(agent, onChannel(channel.ID), wire.LevelWrite)
			require.Equal(w, wire.OriginAgent, w.say(agent, thread, "hi").Origin)
		})
		w.run("a reply is to a message of the same thread", func(w *world) {
			other := w.start(writer, channel.ID, "other").Message
			in := w.message("re")
			in.ReplyToID = other.ID
			_, _, err := w.CreateMessage(ctx, writer, thread, in)
			w.invalid("/reply_to_id", err)
			reply, _, err := w.CreateMessage(ctx, writer, other.ThreadID, in)
			require.NoError(w, err)
			require.Equal(w, other.ID, reply.ReplyToID)
		})
		w.run("WS-AZ-5 404 before 403", func(w *world) {
			_, _, err := w.CreateMessage(ctx, w.person("stranger"), thread, w.message("x"))
			w.refused(code.NotFound, err)
			_, _, err = w.CreateMessage(ctx, writer, w.env.NewID(), w.message("x"))
			w.refused(code.NotFound, err)
			_, _, err = w.CreateMessage(ctx, w.member("reader", onChannel(channel.ID), wire.LevelRead), thread, w.message("x"))
			w.refused(code.Forbidden, err)
			_, _, err = w.CreateMessage(ctx, authz.System(), thread, w.message("x"))
			w.refused(code.NotImplementedForKind, err)
		})
		w.run("forms are checked", func(w *world) {
			for pointer, in := range map[string]wire.NewMessage{
				"/client_msg_id": {ClientMsgID: "x", ContentMD: "x"},
				"/reply_to_id":   {ClientMsgID: w.env.NewID(), ContentMD: "x", ReplyToID: "x"},
				"/file_ids":      {ClientMsgID: w.env.NewID(), FileIDs: make([]string, 4)},
				"/file_ids/0":    {ClientMsgID: w.env.NewID(), FileIDs: []string{"x"}},
				"/content_md":    {ClientMsgID: w.env.NewID(), ContentMD: strings.Repeat("ä", 20_001)},
			} {
				_, _, err := w.CreateMessage(ctx, writer, thread, in)
				w.invalid(pointer, err)
			}
			_, _, err := w.CreateMessage(ctx, writer, thread, w.message(" \n"))
			w.invalid("/content_md", err)
			_, _, err = w.CreateMessage(ctx, writer, thread, w.message("a\x00b"))
			w.invalid("/content_md", err)
		})
		w.run("ES-5.1 the id is a UUID of version 7, whatever its time", func(w *world) {
			in := w.message("old")
			in.ClientMsgID = w.env.RandomID()
			_, _, err := w.CreateMessage(ctx, writer, thread, in)
			w.invalid("/client_msg_id", err)
			in.ClientMsgID = "00000000-0001-7000-8000-0000000000AB"
			m, _, err := w.CreateMessage(ctx, writer, thread, in)
			require.NoError(w, err)
			require.Equal(w, strings.ToLower(in.ClientMsgID), m.ClientMsgID)
		})
	})
}

func TestRepeatedMessage(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		ctx := w.Context()
		channel := w.text()
		thread := channel.MainThreadID
		writer := w.member("writer", onChannel(channel.ID), wire.LevelWrite)
		in := w.message("once")
		first, _, err := w.CreateMessage(ctx, writer, thread, in)
		require.NoError(w, err)
		repeat := func(w *world) wire.Message {
			var again wire.Message
			require.Empty(w, w.emitted(func() {
				var replayed bool
				again, replayed, err = w.CreateMessage(ctx, writer, thread, in)
				require.NoError(w, err)
				require.True(w, replayed)
			}))
			return again
		}
		w.run("ES-5.1 a repeat answers the original, without events", func(w *world) {
			require.Equal(w, first, repeat(w))
		})
		w.run("ES-5.1 what decides is thread, content, reply and files", func(w *world) {
			started := w.start(writer, channel.ID, "t")
			changes := map[string]func(*wire.NewMessage, *string){
				"thread":  func(_ *wire.NewMessage, thread *string) { *thread = started.Thread.ID },
				"content": func(m *wire.NewMessage, _ *string) { m.ContentMD = "other" },
				"reply":   func(m *wire.NewMessage, _ *string) { m.ReplyToID = first.ID },
				"files":   func(m *wire.NewMessage, _ *string) { m.FileIDs = []string{w.file(writer)} },
			}
			for name, change := range changes {
				other, where := in, thread
				change(&other, &where)
				_, _, err := w.CreateMessage(ctx, writer, where, other)
				require.Error(w, err, name)
				w.refused(code.IdempotencyKeyReuse, err)
			}
			cleared := in
			cleared.ClearDraft = true
			_, replayed, err := w.CreateMessage(ctx, writer, thread, cleared)
			require.NoError(w, err)
			require.True(w, replayed)
		})
		w.run("another author may use the same id", func(w *world) {
			_, replayed, err := w.CreateMessage(ctx, w.owner, thread, in)
			require.NoError(w, err)
			require.False(w, replayed)
		})
		w.run("the original is as it is now", func(w *world) {
			_, err := w.EditMessage(ctx, writer, first.ID, version(1), wire.EditMessage{ContentMD: "edited"})
			require.NoError(w, err)
			require.NoError(w, w.AddReaction(ctx, writer, first.ID, "👍"))
			again := repeat(w)
			require.Equal(w, "edited", again.ContentMD)
			require.Equal(w, []wire.Reaction{{Emoji: "👍", Count: 1, Me: true}}, again.Reactions)
		})
		w.run("ES-5.1 after a deletion it is the tombstone", func(w *world) {
			require.NoError(w, w.DeleteMessage(ctx, writer, first.ID))
			again := repeat(w)
			require.NotNil(w, again.DeletedAt)
			require.Empty(w, again.ContentMD)
		})
		w.run("ES-5.1 after a removal of access it is 404", func(w *world) {
			w.revoke(writer)
			_, _, err := w.CreateMessage(ctx, writer, thread, in)
			w.refused(code.NotFound, err)
		})
	})
}

func TestAttachments(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		var released []string
		w := newWorld(t, db.DB, func(o *workspace.Options) {
			o.Hooks.Released = func(_ storage.Tx, _ authz.Caller, ids []string) error {
				released = append(released, ids...) // one write at a time in this test
				return nil
			}
		})
		ctx := w.Context()
		thread := w.text().MainThreadID
		w.run("files are the caller's own, complete and not infected", func(w *world) {
			for _, change := range []string{
				`UPDATE files SET uploaded_by = 'x' WHERE id = $1`, `UPDATE files SET upload_state = 'pending' WHERE id = $1`,
				`UPDATE files SET scan_status = 'infected' WHERE id = $1`, `UPDATE files SET deleted_at = 1 WHERE id = $1`,
				`DELETE FROM files WHERE id = $1`,
			} {
				in := w.message("")
				in.FileIDs = []string{w.file(w.owner), w.file(w.owner)}
				w.exec(change, in.FileIDs[1])
				_, _, err := w.CreateMessage(ctx, w.owner, thread, in)
				w.invalid("/file_ids/1", err)
			}
			in := w.message("twice")
			id := w.file(w.owner)
			in.FileIDs = []string{id, id}
			_, _, err := w.CreateMessage(ctx, w.owner, thread, in)
			w.invalid("/file_ids/1", err)
		})
		w.run("a message of files needs no text; the files keep their order", func(w *world) {
			in := w.message("")
			in.FileIDs = []string{w.file(w.owner), w.file(w.owner)}
			m, _, err := w.CreateMessage(ctx, w.owner, thread, in)
			require.NoError(w, err)
			require.Len(w, m.Attachments, 2)
			require.Equal(w, in.FileIDs[0], m.Attachments[0].ID)
			got, err := w.Message(ctx, w.owner, m.ID)
			require.NoError(w, err)
			require.Equal(w, m.Attachments, got.Attachments)
			_, err = w.EditMessage(ctx, w.owner, m.ID, version(1), wire.EditMessage{ContentMD: ""})
			require.NoError(w, err)
		})
		w.run("a deletion releases what no other message holds", func(w *world) {
			shared, single := w.file(w.owner), w.file(w.owner)
			in := w.message("both")
			in.FileIDs = []string{shared, single}
			first, _, err := w.CreateMessage(ctx, w.owner, thread, in)
			require.NoError(w, err)
			in = w.message("one")
			in.FileIDs = []string{shared}
			second, _, err := w.CreateMessage(ctx, w.owner, thread, in)
			require.NoError(w, err)
			require.NoError(w, w.DeleteMessage(ctx, w.owner, first.ID))
			require.Equal(w, []string{single}, released)
			require.NoError(w, w.DeleteMessage(ctx, w.owner, second.ID))
			require.Equal(w, []string{single, shared}, released)
		})
	})
}

func TestClearDraft(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		var cleared []wire.Scope
		w := newWorld(t, db.DB, func(o *workspace.Options) {
			o.Hooks.ClearDraft = func(_ storage.Tx, _ authz.Caller, scope wire.Scope) error {
				cleared = append(cleared, scope)
				return nil
			}
		})
		channel := w.text()
		in := w.message("sent")
		in.ClearDraft = true
		_, _, err := w.CreateMessage(w.Context(), w.owner, channel.MainThreadID, in)
		require.NoError(w, err)
		_, replayed, err := w.CreateMessage(w.Context(), w.owner, channel.MainThreadID, in)
		require.NoError(w, err)
		require.True(w, replayed)
		require.Equal(w, []wire.Scope{{SpaceID: channel.SpaceID, ChannelID: channel.ID, ThreadID: channel.MainThreadID}}, cleared, "ES-14, once")
	})
}

func TestTruncatedEvents(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		ctx := w.Context()
		thread := w.text().MainThreadID
		w.run("ES-2.2 a long message is reduced in its event and whole in REST", func(w *world) {
			head := w.head()
			long := strings.Repeat("😀", 20_000)
			m := w.say(w.owner, thread, long)
			require.Equal(w, long, m.ContentMD)
			record := w.since(head)[0]
			require.True(w, record.Truncated)
			require.LessOrEqual(w, len(record.Payload), maxPayload)
			e := payloadOf[wire.MessageEvent](w, record)
			require.True(w, strings.HasPrefix(long, e.Message.ContentMD))
			require.NotEmpty(w, e.Message.ContentMD)
			got, err := w.Message(ctx, w.owner, m.ID)
			require.NoError(w, err)
			require.Equal(w, long, got.ContentMD)
		})
		w.run("what fits is whole, also when it could have been too long", func(w *world) {
			head := w.head()
			long := strings.Repeat("a", 20_000)
			w.say(w.owner, thread, long)
			require.False(w, w.since(head)[0].Truncated)
			require.Equal(w, long, payloadOf[wire.MessageEvent](w, w.since(head)[0]).Message.ContentMD)
		})
	})
}

func TestFailingHookUndoesTheMessage(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db.DB, func(o *workspace.Options) {
			o.Hooks.ClearDraft = func(storage.Tx, authz.Caller, wire.Scope) error { return errors.New("no room") }
		})
		thread := w.text().MainThreadID
		require.Empty(w, w.emitted(func() {
			in := w.message("x")
			in.ClearDraft = true
			_, _, err := w.CreateMessage(w.Context(), w.owner, thread, in)
			require.ErrorContains(w, err, "no room")
		}))
		now, err := w.Thread(w.Context(), w.owner, thread)
		require.NoError(w, err)
		require.Zero(w, now.LastMessageSeq)
	})
}
