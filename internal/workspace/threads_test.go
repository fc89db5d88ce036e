package workspace_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/workspace"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestStartThread(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		ctx := w.Context()
		channel := w.text()
		writer := w.member("writer", onChannel(channel.ID), wire.LevelWrite)
		in := wire.NewThread{Title: "Plan", ClientMsgID: w.env.NewID(), ContentMD: "Let us begin, @owner."}
		w.run("a thread starts with a message", func(w *world) {
			head := w.head()
			started, replayed, err := w.StartThread(ctx, writer, channel.ID, in)
			require.NoError(w, err)
			require.False(w, replayed)
			require.Equal(w, wire.ThreadThread, started.Thread.Kind)
			require.EqualValues(w, 1, started.Message.ThreadSeq)
			require.Equal(w, []string{w.owner.Principal}, started.Message.MentionIDs)
			events := w.since(head)
			require.Len(w, events, 2)
			require.Equal(w, eventlog.ThreadCreated, events[0].Type)
			require.Equal(w, started.Thread, payloadOf[wire.ThreadEvent](w, events[0]).Thread)
			require.Equal(w, eventlog.MessageCreated, events[1].Type)
			require.Equal(w, in.ClientMsgID, events[1].ClientMsgID)
			require.Equal(w, started.Thread.Version, payloadOf[wire.MessageEvent](w, events[1]).Thread.Version)
		})
		w.run("ES-5.1 a repeat answers the same thread and message", func(w *world) {
			require.Empty(w, w.emitted(func() {
				again, replayed, err := w.StartThread(ctx, writer, channel.ID, in)
				require.NoError(w, err)
				require.True(w, replayed)
				require.Equal(w, "Plan", again.Thread.Title)
				require.Equal(w, in.ContentMD, again.Message.ContentMD)
			}))
			changed := in
			changed.Title = "Other"
			_, _, err := w.StartThread(ctx, writer, channel.ID, changed)
			w.refused(code.IdempotencyKeyReuse, err)
		})
		w.run("ES-5.1 a repeat after the thread went out of sight is 404", func(w *world) {
			hidden := w.text()
			started, _, err := w.StartThread(ctx, writer, channel.ID, in)
			require.NoError(w, err)
			_, err = w.MoveThread(ctx, w.owner, started.Thread.ID, nil, wire.MoveThread{ChannelID: hidden.ID})
			require.NoError(w, err)
			_, _, err = w.StartThread(ctx, writer, channel.ID, in)
			w.refused(code.NotFound, err)
		})
		w.run("forms and permissions", func(w *world) {
			_, _, err := w.StartThread(ctx, writer, channel.ID, wire.NewThread{ClientMsgID: w.env.NewID(), ContentMD: "x"})
			w.invalid("/title", err)
			_, _, err = w.StartThread(ctx, writer, channel.ID, wire.NewThread{Title: "t", ClientMsgID: w.env.NewID()})
			w.invalid("/content_md", err)
			in := wire.NewThread{Title: "t", ClientMsgID: w.env.NewID(), ContentMD: "x"}
			_, _, err = w.StartThread(ctx, w.person("stranger"), channel.ID, in)
			w.refused(code.NotFound, err)
			_, _, err = w.StartThread(ctx, w.member("reader", onChannel(channel.ID), wire.LevelRead), channel.ID, in)
			w.refused(code.Forbidden, err)
		})
	})
}

func TestThreadList(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		ctx := w.Context()
		channel := w.channel(w.space().ID, wire.ChannelForum)
		var ids []string
		for range 7 {
			ids = append([]string{w.start(w.owner, channel.ID, "t").Thread.ID}, ids...)
		}
		list := func(state wire.ThreadState) []string {
			var found []string
			for _, thread := range all(w, func(p workspace.Paging) (wire.Page[wire.Thread], error) {
				return w.Threads(ctx, w.owner, channel.ID, state, p)
			}) {
				found = append(found, thread.ID)
			}
			return found
		}
		require.Equal(w, ids, list(""))
		w.say(w.owner, ids[6], "up")
		require.Equal(w, append([]string{ids[6]}, ids[:6]...), list(""))
		_, err := w.CloseThread(ctx, w.owner, ids[0], nil)
		require.NoError(w, err)
		require.Equal(w, []string{ids[0]}, list(wire.ThreadDone))
		require.Len(w, list(wire.ThreadOpen), 6)
		_, err = w.Threads(ctx, w.owner, channel.ID, "closed", workspace.Paging{})
		w.invalid("state", err)
	})
}

func TestThreadChanges(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		ctx := w.Context()
		channel := w.text()
		writer := w.member("writer", onChannel(channel.ID), wire.LevelWrite)
		id := w.start(writer, channel.ID, "Title").Thread.ID
		w.run("rename, with If-Match honoured", func(w *world) {
			_, err := w.PatchThread(ctx, writer, id, version(5), wire.PatchThread{Title: text("x")})
			w.refused(code.VersionConflict, err)
			require.Equal(w, []string{eventlog.ThreadUpdated}, w.emitted(func() {
				thread, err := w.PatchThread(ctx, writer, id, version(1), wire.PatchThread{Title: text("New")})
				require.NoError(w, err)
				require.Equal(w, "New", thread.Title)
			}))
			require.Empty(w, w.emitted(func() {
				_, err := w.PatchThread(ctx, writer, id, nil, wire.PatchThread{Title: text("New")})
				require.NoError(w, err)
			}))
		})
		w.run("done and reopened, safe to repeat", func(w *world) {
			require.Equal(w, []string{eventlog.ThreadClosed}, w.emitted(func() {
				for range 2 {
					thread, err := w.CloseThread(ctx, writer, id, nil)
					require.NoError(w, err)
					require.Equal(w, wire.ThreadDone, thread.State)
				}
			}))
			require.Equal(w, []string{eventlog.ThreadReopened}, w.emitted(func() {
				for range 2 {
					_, err := w.ReopenThread(ctx, writer, id, nil)
					require.NoError(w, err)
				}
			}))
		})
		w.run("ES-13.3 a message into a done thread opens it in the same transaction", func(w *world) {
			_, err := w.CloseThread(ctx, writer, id, nil)
			require.NoError(w, err)
			head := w.head()
			w.say(writer, id, "one more thing")
			events := w.since(head)
			require.Len(w, events, 2)
			require.Equal(w, eventlog.ThreadReopened, events[0].Type)
			require.Equal(w, eventlog.MessageCreated, events[1].Type)
			require.Equal(w, wire.ThreadOpen, payloadOf[wire.MessageEvent](w, events[1]).Thread.State)
			thread, err := w.Thread(ctx, writer, id)
			require.NoError(w, err)
			require.Equal(w, thread, payloadOf[wire.ThreadEvent](w, events[0]).Thread)
		})
		w.run("the main timeline has no title and is never done", func(w *world) {
			_, err := w.PatchThread(ctx, writer, channel.MainThreadID, nil, wire.PatchThread{Title: text("x")})
			w.refused(code.Conflict, err)
			_, err = w.CloseThread(ctx, writer, channel.MainThreadID, nil)
			w.refused(code.Conflict, err)
		})
		w.run("a thread may lose its title, a post not", func(w *world) {
			thread, err := w.PatchThread(ctx, writer, id, nil, wire.PatchThread{Clear: []string{"title"}})
			require.NoError(w, err)
			require.Empty(w, thread.Title)
			post := w.start(w.owner, w.channel(channel.SpaceID, wire.ChannelForum).ID, "Post").Thread
			_, err = w.PatchThread(ctx, w.owner, post.ID, nil, wire.PatchThread{Clear: []string{"title"}})
			w.refused(code.Conflict, err)
		})
		w.run("WS-AZ-5 order of refusals", func(w *world) {
			_, err := w.CloseThread(ctx, w.person("stranger"), id, version(99))
			w.refused(code.NotFound, err)
			_, err = w.CloseThread(ctx, w.member("reader", onChannel(channel.ID), wire.LevelRead), id, version(99))
			w.refused(code.Forbidden, err)
		})
		w.run("ES-5.2 a repeat answers the thread and comes before If-Match", func(w *world) {
			by := w.keyed(writer, "h")
			_, err := w.CloseThread(ctx, by, id, nil)
			require.NoError(w, err)
			require.Empty(w, w.emitted(func() {
				_, err = w.CloseThread(ctx, by, id, version(1))
				require.NoError(w, err)
			}))
			other := w.keyed(writer, "other")
			other.Key.ID = by.Key.ID
			_, err = w.CloseThread(ctx, other, id, nil)
			w.refused(code.IdempotencyKeyReuse, err)
		})
	})
}

func TestMoveThread(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		ctx := w.Context()
		source := w.text()
		forum := w.channel(source.SpaceID, wire.ChannelForum)
		private := w.text()
		manager := w.member("manager", onSpace(source.SpaceID), wire.LevelManage)
		writer := w.member("writer", onSpace(source.SpaceID), wire.LevelWrite)
		started := w.start(writer, source.ID, "Topic")
		id := started.Thread.ID
		w.run("a thread becomes a post in a forum, with an event for each side", func(w *world) {
			head := w.head()
			moved, err := w.MoveThread(ctx, manager, id, version(1), wire.MoveThread{ChannelID: forum.ID})
			require.NoError(w, err)
			require.Equal(w, wire.ThreadPost, moved.Kind)
			require.Equal(w, forum.ID, moved.ChannelID)
			events := w.since(head)
			require.Len(w, events, 2)
			require.Equal(w, eventlog.ThreadMoved, events[0].Type)
			require.Equal(w, wire.Scope{SpaceID: forum.SpaceID, ChannelID: forum.ID, ThreadID: id}, events[0].Scope)
			require.Equal(w, moved.Version, events[0].Resource.Version)
			require.Equal(w, eventlog.ThreadMovedOut, events[1].Type)
			require.Equal(w, wire.Scope{SpaceID: source.SpaceID, ChannelID: source.ID}, events[1].Scope)
			require.Equal(w, wire.Resource{Kind: "channel", ID: source.ID}, events[1].Resource)
			require.EqualValues(w, 1, w.number(`SELECT count(*) FROM audit WHERE action = 'thread:move' AND target_id = $1`, id))
		})
		w.run("ES-13.3 its id stays and sending works without a change", func(w *world) {
			require.EqualValues(w, 2, w.say(writer, id, "still here").ThreadSeq)
			got, err := w.Message(ctx, writer, started.Message.ID)
			require.NoError(w, err)
			require.Equal(w, forum.ID, got.ChannelID)
		})
		w.run("a post becomes a thread in a text channel; where it is already it stays", func(w *world) {
			moved, err := w.MoveThread(ctx, manager, id, nil, wire.MoveThread{ChannelID: source.ID})
			require.NoError(w, err)
			require.Equal(w, wire.ThreadThread, moved.Kind)
			require.Empty(w, w.emitted(func() {
				_, err := w.MoveThread(ctx, manager, id, nil, wire.MoveThread{ChannelID: source.ID})
				require.NoError(w, err)
			}))
		})
		w.run("the main timeline does not move, a post needs a title", func(w *world) {
			_, err := w.MoveThread(ctx, manager, source.MainThreadID, nil, wire.MoveThread{ChannelID: forum.ID})
			w.refused(code.Conflict, err)
			untitled := w.start(writer, source.ID, "x").Thread.ID
			_, err = w.PatchThread(ctx, writer, untitled, nil, wire.PatchThread{Clear: []string{"title"}})
			require.NoError(w, err)
			_, err = w.MoveThread(ctx, manager, untitled, nil, wire.MoveThread{ChannelID: forum.ID})
			w.refused(code.Conflict, err)
		})
		w.run("WS-AZ-5 a target one does not see answers like none", func(w *world) {
			_, err := w.MoveThread(ctx, manager, id, nil, wire.MoveThread{ChannelID: private.ID})
			w.invalid("/channel_id", err)
			_, other := w.MoveThread(ctx, manager, id, nil, wire.MoveThread{ChannelID: w.env.NewID()})
			require.Equal(w, err.Error(), other.Error())
			_, err = w.MoveThread(ctx, w.person("stranger"), id, nil, wire.MoveThread{ChannelID: forum.ID})
			w.refused(code.NotFound, err)
		})
		w.run("it needs manage on both channels", func(w *world) {
			_, err := w.MoveThread(ctx, writer, id, nil, wire.MoveThread{ChannelID: forum.ID})
			w.refused(code.Forbidden, err)
			w.grant(manager, onChannel(private.ID), wire.LevelWrite)
			_, err = w.MoveThread(ctx, manager, id, nil, wire.MoveThread{ChannelID: private.ID})
			w.refused(code.Forbidden, err)
			w.grant(manager, onChannel(private.ID), wire.LevelManage)
			_, err = w.MoveThread(ctx, manager, id, nil, wire.MoveThread{ChannelID: private.ID})
			require.NoError(w, err)
			_, err = w.Thread(ctx, writer, id)
			w.refused(code.NotFound, err)
		})
	})
}
