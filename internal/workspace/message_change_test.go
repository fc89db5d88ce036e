package workspace_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/workspace"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestMessages(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		ctx := w.Context()
		thread := w.text().MainThreadID
		var messages []wire.Message
		for range 7 {
			messages = append(messages, w.say(w.owner, thread, "m"))
		}
		require.NoError(w, w.DeleteMessage(ctx, w.owner, messages[3].ID))
		list := func(q workspace.MessageQuery) (seqs []int64, more bool) {
			page, err := w.Messages(ctx, w.owner, thread, q)
			require.NoError(w, err)
			for _, m := range page.Messages {
				seqs = append(seqs, m.ThreadSeq)
			}
			return seqs, page.HasMore
		}
		for name, c := range map[string]struct {
			q    workspace.MessageQuery
			want []int64
			more bool
		}{
			"newest, tombstones among them": {workspace.MessageQuery{}, []int64{1, 2, 3, 4, 5, 6, 7}, false},
			"newest of many":                {workspace.MessageQuery{Limit: 3}, []int64{5, 6, 7}, true},
			"before":                        {workspace.MessageQuery{Before: version(4), Limit: 2}, []int64{2, 3}, true},
			"before, the last page":         {workspace.MessageQuery{Before: version(3), Limit: 2}, []int64{1, 2}, false},
			"after":                         {workspace.MessageQuery{After: version(4), Limit: 2}, []int64{5, 6}, true},
			"after, the last page":          {workspace.MessageQuery{After: version(5), Limit: 2}, []int64{6, 7}, false},
			"after the last":                {workspace.MessageQuery{After: version(7)}, nil, false},
			"around":                        {workspace.MessageQuery{Around: version(4), Limit: 4}, []int64{2, 3, 4, 5}, true},
			"around, everything":            {workspace.MessageQuery{Around: version(4), Limit: 20}, []int64{1, 2, 3, 4, 5, 6, 7}, false},
			"around one":                    {workspace.MessageQuery{Around: version(4), Limit: 1}, []int64{4}, true},
		} {
			got, more := list(c.q)
			require.Equal(w, c.want, got, name)
			require.Equal(w, c.more, more, name)
		}
		_, err := w.Messages(ctx, w.owner, thread, workspace.MessageQuery{Before: version(1), After: version(1)})
		w.invalid("before", err)
		_, err = w.Messages(ctx, w.owner, thread, workspace.MessageQuery{After: version(-1)})
		w.invalid("after", err)
		_, err = w.Messages(ctx, w.person("stranger"), thread, workspace.MessageQuery{})
		w.refused(code.NotFound, err)
	})
}

func TestEditMessage(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		ctx := w.Context()
		channel := w.text()
		writer := w.member("writer", onChannel(channel.ID), wire.LevelWrite)
		m := w.say(writer, channel.MainThreadID, "first")
		edit := func(content string) wire.EditMessage { return wire.EditMessage{ContentMD: content} }
		w.run("ES-13.3 If-Match is required and compared", func(w *world) {
			_, err := w.EditMessage(ctx, writer, m.ID, nil, edit("x"))
			w.refused(code.PreconditionRequired, err)
			_, err = w.EditMessage(ctx, writer, m.ID, version(7), edit("x"))
			refusal := w.refused(code.VersionConflict, err)
			require.Equal(w, m, fault.ExtraOf(refusal).Current)
		})
		w.run("an edit keeps the wording before it and says what it says", func(w *world) {
			require.NoError(w, w.AddReaction(ctx, writer, m.ID, "👍"))
			head := w.head()
			edited, err := w.EditMessage(ctx, writer, m.ID, version(1), edit("second @owner"))
			require.NoError(w, err)
			require.EqualValues(w, 2, edited.Version, "a reaction bumps no version (ES-9.3)")
			require.NotNil(w, edited.EditedAt)
			require.Equal(w, []string{w.owner.Principal}, edited.MentionIDs)
			require.True(w, edited.Reactions[0].Me)
			events := w.since(head)
			require.Len(w, events, 1)
			require.Equal(w, eventlog.MessageUpdated, events[0].Type)
			require.NotContains(w, string(events[0].Payload), `"me"`)
			require.Equal(w, []wire.Reaction{{Emoji: "👍", Count: 1}}, payloadOf[wire.MessageEvent](w, events[0]).Message.Reactions)
			_, err = w.EditMessage(ctx, writer, m.ID, version(2), edit("third"))
			require.NoError(w, err)
			require.Zero(w, w.number(`SELECT count(*) FROM message_mentions WHERE message_id = $1`, m.ID))
			var wordings []string
			for _, r := range all(w, func(p workspace.Paging) (wire.Page[wire.Revision], error) { return w.Revisions(ctx, w.owner, m.ID, p) }) {
				wordings = append(wordings, r.ContentMD)
			}
			require.Equal(w, []string{"first", "second @owner", "third"}, wordings)
		})
		w.run("the same wording changes nothing", func(w *world) {
			require.Empty(w, w.emitted(func() {
				same, err := w.EditMessage(ctx, writer, m.ID, version(3), edit("third"))
				require.NoError(w, err)
				require.EqualValues(w, 3, same.Version)
			}))
		})
		w.run("WS-AZ-7 manage edits nobody else's message", func(w *world) {
			_, err := w.EditMessage(ctx, w.owner, m.ID, version(3), edit("mine"))
			w.refused(code.Forbidden, err)
			_, err = w.EditMessage(ctx, w.person("stranger"), m.ID, nil, edit("x"))
			w.refused(code.NotFound, err)
			_, err = w.EditMessage(ctx, writer, w.env.NewID(), version(1), edit("x"))
			w.refused(code.NotFound, err)
		})
		w.run("forms are checked", func(w *world) {
			_, err := w.EditMessage(ctx, writer, m.ID, version(3), edit(" "))
			w.invalid("/content_md", err)
			_, err = w.EditMessage(ctx, writer, m.ID, version(3), edit(strings.Repeat("x", 20_001)))
			w.invalid("/content_md", err)
		})
		w.run("ES-5.2 a repeat comes before 428 and answers the message as it is", func(w *world) {
			by := w.keyed(writer, "h")
			_, err := w.EditMessage(ctx, by, m.ID, version(3), edit("fourth"))
			require.NoError(w, err)
			again, err := w.EditMessage(ctx, by, m.ID, nil, edit("fourth"))
			require.NoError(w, err)
			require.Equal(w, "fourth", again.ContentMD)
			require.EqualValues(w, 4, again.Version)
		})
		w.run("ES-13.3 deleted is 410, after 428 and before 412", func(w *world) {
			require.NoError(w, w.DeleteMessage(ctx, writer, m.ID))
			_, err := w.EditMessage(ctx, writer, m.ID, nil, edit("x"))
			w.refused(code.PreconditionRequired, err)
			_, err = w.EditMessage(ctx, writer, m.ID, version(1), edit("x"))
			w.refused(code.MessageDeleted, err)
		})
	})
}

func TestDeleteMessage(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		ctx := w.Context()
		channel := w.text()
		writer := w.member("writer", onChannel(channel.ID), wire.LevelWrite)
		other := w.member("other", onChannel(channel.ID), wire.LevelWrite)
		start := w.head()
		m := w.say(writer, channel.MainThreadID, "secret @owner")
		_, err := w.EditMessage(ctx, writer, m.ID, version(1), wire.EditMessage{ContentMD: "more secret @owner"})
		require.NoError(w, err)
		require.NoError(w, w.AddReaction(ctx, other, m.ID, "🤫"))
		require.NoError(w, w.Pin(ctx, w.owner, m.ThreadID, m.ID))
		last := w.say(writer, channel.MainThreadID, "stays")
		w.run("WS-AZ-1 others' messages need manage", func(w *world) {
			w.refused(code.Forbidden, w.DeleteMessage(ctx, other, m.ID))
			w.refused(code.NotFound, w.DeleteMessage(ctx, w.person("stranger"), m.ID))
			w.refused(code.NotFound, w.DeleteMessage(ctx, writer, w.env.NewID()))
		})
		w.run("ES-4 what is deleted leaves a tombstone with its number", func(w *world) {
			head := w.head()
			require.NoError(w, w.DeleteMessage(ctx, w.owner, m.ID))
			got, err := w.Message(ctx, other, m.ID)
			require.NoError(w, err)
			require.EqualValues(w, 1, got.ThreadSeq)
			require.EqualValues(w, 3, got.Version)
			require.NotNil(w, got.DeletedAt)
			require.Empty(w, got.ContentMD+strings.Join(got.MentionIDs, ""))
			require.Empty(w, got.Reactions)
			require.False(w, got.Pinned)
			events := w.since(head)
			require.Len(w, events, 1)
			require.Equal(w, eventlog.MessageDeleted, events[0].Type)
			require.False(w, events[0].Redacted)
			e := payloadOf[wire.MessageEvent](w, events[0])
			require.Equal(w, got, e.Message)
			require.EqualValues(w, 1, e.Thread.MessageCount)
			require.EqualValues(w, 2, e.Thread.LastMessageSeq)
			require.EqualValues(w, 1, w.number(`SELECT count(*) FROM audit WHERE action = 'message:delete' AND target_id = $1`, m.ID))
		})
		w.run("ES-2.2 the content is gone from every event and row", func(w *world) {
			redacted := 0
			for _, record := range w.since(start) {
				require.NotContains(w, string(record.Payload), "secret")
				require.NotContains(w, string(record.Payload), "🤫")
				if record.Redacted {
					redacted++
				}
			}
			require.Equal(w, 4, redacted)
			for _, table := range []string{"message_revisions", "message_mentions", "reactions", "pins"} {
				require.Zero(w, w.number(`SELECT count(*) FROM `+table+` WHERE message_id = $1`, m.ID), table)
			}
			require.Zero(w, w.number(`SELECT count(*) FROM messages WHERE content_md LIKE '%secret%'`))
			page, err := w.Revisions(ctx, writer, m.ID, workspace.Paging{})
			require.NoError(w, err)
			require.Empty(w, page.Items)
		})
		w.run("ES-13.3 deleting again is no error and says nothing", func(w *world) {
			require.Empty(w, w.emitted(func() { require.NoError(w, w.DeleteMessage(ctx, writer, m.ID)) }))
		})
		w.run("numbers go on behind it; one's own needs no audit", func(w *world) {
			require.NoError(w, w.DeleteMessage(ctx, writer, last.ID))
			require.EqualValues(w, 3, w.say(writer, channel.MainThreadID, "next").ThreadSeq)
			require.EqualValues(w, 1, w.number(`SELECT count(*) FROM audit WHERE action = 'message:delete'`))
		})
		w.run("what is deleted takes no reaction and no pin", func(w *world) {
			w.refused(code.MessageDeleted, w.AddReaction(ctx, writer, m.ID, "👍"))
			require.NoError(w, w.RemoveReaction(ctx, writer, m.ID, "👍"))
			w.refused(code.MessageDeleted, w.Pin(ctx, w.owner, m.ThreadID, m.ID))
			require.NoError(w, w.Unpin(ctx, w.owner, m.ThreadID, m.ID))
		})
	})
}
