package imports_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/testkit/team"
	"github.com/cairnsync/cairn/internal/workspace"
	"github.com/cairnsync/cairn/internal/workspace/imports"
	"github.com/cairnsync/cairn/internal/workspace/personal"
	"github.com/cairnsync/cairn/internal/workspace/place"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var day = time.Date(2019, 5, 6, 7, 8, 9, 123_000, time.UTC)

func create(w *team.Team, by authz.Caller, space, source string) wire.Import {
	w.Helper()
	made, _, err := w.Imports.Create(w.Context(), by, wire.NewImport{SpaceID: space, Source: source})
	require.NoError(w, err)
	return made
}

func apply(w *team.Team, by authz.Caller, id string, batch wire.ImportBatch) wire.ImportReceipt {
	w.Helper()
	receipt, err := w.Imports.Apply(w.Context(), by, id, batch)
	require.NoError(w, err)
	return receipt
}

// batch has n messages from the number first on, of a thread or the main timeline.
func batch(thread string, first, n int) wire.ImportBatch {
	b := wire.ImportBatch{
		Channel: wire.ImportChannel{SourceID: "C1", Name: "general", Topic: "everything"},
		Thread:  wire.ImportThread{SourceID: thread, Title: "About " + thread},
	}
	if thread == "main" {
		b.Thread = wire.ImportThread{SourceID: thread, Main: true}
	}
	for i := first; i < first+n; i++ {
		b.Messages = append(b.Messages, wire.ImportMessage{
			SourceID: fmt.Sprintf("%s/%d", thread, i), AuthorSourceID: fmt.Sprintf("U%d", i%2), AuthorName: fmt.Sprintf("Author %d", i%2),
			ContentMD: fmt.Sprintf("message %d @owner", i), CreatedAt: day.Add(time.Duration(i) * time.Minute),
		})
	}
	return b
}

func messages(w *team.Team, by authz.Caller, thread string) []wire.Message {
	w.Helper()
	page, err := w.Domain.Messages(w.Context(), by, thread, workspace.MessageQuery{})
	require.NoError(w, err)
	return page.Messages
}

func TestImport(t *testing.T) {
	t.Parallel()
	team.Each(t, func(w *team.Team) {
		space := w.Space()
		reader := w.Member("reader", team.OnSpace(space.ID), wire.LevelRead)
		one := create(w, w.Owner, space.ID, "slack:acme")
		var thread string
		w.Run("WS-5 an import is unique by source and space", func(w *team.Team) {
			again, created, err := w.Imports.Create(w.Context(), w.Owner, wire.NewImport{SpaceID: space.ID, Source: "slack:acme"})
			require.NoError(w, err)
			require.False(w, created)
			require.Equal(w, one, again)
			require.NotEqual(w, one.ID, create(w, w.Owner, space.ID, "slack:other").ID)
			require.NotEqual(w, one.ID, create(w, w.Owner, w.Space().ID, "slack:acme").ID)
		})
		w.Run("ES-15.8 a batch is thread.created or thread.updated and one import.progress", func(w *team.Team) {
			var receipt wire.ImportReceipt
			events := w.Emitted(func() { receipt = apply(w, w.Owner, one.ID, batch("T1", 0, 3)) })
			require.Equal(w, []string{
				eventlog.ChannelCreated, eventlog.ThreadCreated, eventlog.ThreadCreated, eventlog.ImportProgress,
			}, team.Types(events), "the main timeline comes with the channel")
			require.EqualValues(w, 3, receipt.Added)
			thread = receipt.ThreadID
			events = w.Emitted(func() { receipt = apply(w, w.Owner, one.ID, batch("T1", 2, 3)) })
			require.Equal(w, []string{eventlog.ThreadUpdated, eventlog.ImportProgress}, team.Types(events))
			require.EqualValues(w, 2, receipt.Added)
			require.EqualValues(w, 1, receipt.Known)
			require.Equal(w, thread, receipt.ThreadID)
			require.EqualValues(w, 5, receipt.Import.Messages)
			require.EqualValues(w, 1, receipt.Import.Threads)
			var told wire.ThreadEvent
			require.NoError(w, json.Unmarshal(events[0].Payload, &told))
			now, err := w.Domain.Thread(w.Context(), reader, thread)
			require.NoError(w, err)
			require.Equal(w, now, told.Thread, "what the event says is what a reading answers")
			require.Equal(w, receipt.Import.Version, events[1].Resource.Version)
		})
		w.Run("ES-15.8 what is known is skipped, without an event", func(w *team.Team) {
			events := w.Emitted(func() {
				receipt := apply(w, w.Owner, one.ID, batch("T1", 0, 5))
				require.Zero(w, receipt.Added)
				require.EqualValues(w, 5, receipt.Known)
			})
			require.Empty(w, events)
		})
		w.Run("WS-5 original times, placeholder authors, origin import", func(w *team.Team) {
			all := messages(w, reader, thread)
			require.Len(w, all, 5)
			for i, m := range all {
				require.EqualValues(w, i+1, m.ThreadSeq)
				require.True(w, day.Add(time.Duration(i)*time.Minute).Equal(m.CreatedAt))
				require.Equal(w, wire.OriginImport, m.Origin)
				require.Empty(w, m.MentionIDs)
				require.Equal(w, all[i%2].Author, m.Author)
			}
			require.EqualValues(w, 2, w.Number(`SELECT count(*) FROM principals WHERE source = 'slack:acme' AND status = 'disabled'`))
			require.Zero(w, w.Number(`SELECT count(*) FROM message_mentions`))
		})
		w.Run("ES-15.8 imported content counts as unread for nobody", func(w *team.Team) {
			states := team.Personally(w, reader, personal.Unread)
			require.Empty(w, states)
			w.Say(w.Owner, thread, "live")
			state, err := w.Personal.ReadState(w.Context(), reader, thread)
			require.NoError(w, err)
			require.EqualValues(w, 1, state.UnreadCount)
			apply(w, w.Owner, one.ID, batch("T1", 5, 1))
			state, err = w.Personal.ReadState(w.Context(), reader, thread)
			require.NoError(w, err)
			require.Zero(w, state.UnreadCount, "the floor goes to the end of the batch")
		})
		w.Run("ES-15.8 the main timeline of a channel that the import made", func(w *team.Team) {
			receipt := apply(w, w.Owner, one.ID, batch("main", 0, 2))
			channel, err := w.Domain.Channels(w.Context(), reader, space.ID, workspace.Paging{})
			require.NoError(w, err)
			require.Len(w, channel.Items, 1)
			require.Equal(w, channel.Items[0].MainThreadID, receipt.ThreadID)
			require.Len(w, messages(w, reader, receipt.ThreadID), 2)
		})
		w.Run("ES-15.8 reactions, pins, replies and edits come along", func(w *team.Team) {
			b := batch("T2", 0, 2)
			edited := day.Add(time.Hour)
			b.Messages[0].EditedAt = &edited
			b.Messages[0].Pinned = true
			b.Messages[0].Reactions = []wire.ImportReaction{
				{Emoji: "👍", AuthorSourceID: "U0"}, {Emoji: "👍", AuthorSourceID: "U7", AuthorName: "Seven"}, {Emoji: "👍", AuthorSourceID: "U7"},
			}
			b.Messages[1].ReplyToSourceID = b.Messages[0].SourceID
			all := messages(w, reader, apply(w, w.Owner, one.ID, b).ThreadID)
			require.True(w, edited.Equal(*all[0].EditedAt))
			require.True(w, all[0].Pinned)
			require.Equal(w, []wire.Reaction{{Emoji: "👍", Count: 2}}, all[0].Reactions)
			require.Equal(w, all[0].ID, all[1].ReplyToID)
		})
		w.Run("an import that is done says so, and opens again", func(w *team.Team) {
			events := w.Emitted(func() {
				done, err := w.Imports.Finish(w.Context(), w.Owner, one.ID)
				require.NoError(w, err)
				require.Equal(w, imports.Done, done.State)
				again, err := w.Imports.Finish(w.Context(), w.Owner, one.ID)
				require.NoError(w, err)
				require.Equal(w, done, again)
			})
			require.Equal(w, []string{eventlog.ImportProgress}, team.Types(events))
			_, err := w.Imports.Apply(w.Context(), w.Owner, one.ID, batch("T1", 0, 1))
			w.Refused(code.Conflict, err)
			require.Equal(w, imports.Running, create(w, w.Owner, space.ID, "slack:acme").State)
			apply(w, w.Owner, one.ID, batch("T1", 0, 1))
		})
	})
}

func TestImportAuthors(t *testing.T) {
	t.Parallel()
	team.Each(t, func(w *team.Team) {
		space := w.Space()
		other := w.Space()
		ann := w.Person("ann")
		one := create(w, w.Owner, space.ID, "src")
		b := batch("T1", 0, 2)
		b.Messages[0].AuthorEmail = "ANN@example.org"
		b.Messages[1].AuthorEmail = "nobody@example.org"
		first := messages(w, w.Owner, apply(w, w.Owner, one.ID, b).ThreadID)
		require.Equal(w, wire.Author{ID: ann.Principal, Kind: wire.KindUser}, first[0].Author, "joined by e-mail")
		require.NotEqual(w, ann.Principal, first[1].Author.ID)
		require.EqualValues(w, 1, w.Number(`SELECT count(*) FROM principals WHERE source IS NOT NULL`))
		again := batch("T1", 2, 2)
		again.Messages[0].AuthorEmail = "other@example.org"
		apply(w, w.Owner, one.ID, again)
		more := messages(w, w.Owner, apply(w, w.Owner, one.ID, batch("T1", 0, 1)).ThreadID)
		require.Equal(w, first[0].Author, more[2].Author, "who is known of the import stays who it is")
		require.Equal(w, first[1].Author, more[3].Author)

		manager := w.Member("manager", team.OnSpace(other.ID), wire.LevelManage)
		two := create(w, manager, other.ID, "src")
		w.Run("WS-AZ-7 who imports does not find whom it does not see", func(w *team.Team) {
			hidden := messages(w, manager, apply(w, manager, two.ID, b).ThreadID)
			require.NotEqual(w, ann.Principal, hidden[0].Author.ID, "neither by the address, nor because another import knows the author")
			require.NotEqual(w, first[1].Author, hidden[1].Author)
		})
		w.Run("WS-AZ-7 whom it sees it finds", func(w *team.Team) {
			w.Grant(ann, team.OnSpace(other.ID), wire.LevelRead)
			b := batch("T2", 0, 1)
			b.Messages[0].AuthorSourceID, b.Messages[0].AuthorEmail = "U9", "ann@example.org"
			seen := messages(w, manager, apply(w, manager, two.ID, b).ThreadID)
			require.Equal(w, ann.Principal, seen[0].Author.ID)
		})
	})
}

func TestImportRefusals(t *testing.T) {
	t.Parallel()
	team.Each(t, func(w *team.Team) {
		space := w.Space()
		one := create(w, w.Owner, space.ID, "src")
		receipt := apply(w, w.Owner, one.ID, batch("T1", 0, 1))
		w.Run("WS-AZ-1 an import needs manage on the space", func(w *team.Team) {
			writer := w.Member("writer", team.OnSpace(space.ID), wire.LevelTrigger)
			stranger := w.Person("stranger")
			_, _, err := w.Imports.Create(w.Context(), writer, wire.NewImport{SpaceID: space.ID, Source: "x"})
			w.Refused(code.Forbidden, err)
			_, err = w.Imports.Apply(w.Context(), writer, one.ID, batch("T1", 1, 1))
			w.Refused(code.Forbidden, err)
			_, _, err = w.Imports.Create(w.Context(), stranger, wire.NewImport{SpaceID: space.ID, Source: "x"})
			w.Invalid("/space_id", err)
			for _, id := range []string{one.ID, w.Env.NewID(), "x"} {
				_, err = w.Imports.Apply(w.Context(), stranger, id, batch("T1", 1, 1))
				w.Refused(code.NotFound, err)
				_, err = w.Imports.Get(w.Context(), stranger, id)
				w.Refused(code.NotFound, err)
			}
			page, err := w.Imports.List(w.Context(), stranger, place.Paging{})
			require.NoError(w, err)
			require.Empty(w, page.Items)
			manager := w.Member("manager", team.OnSpace(space.ID), wire.LevelManage)
			page, err = w.Imports.List(w.Context(), manager, place.Paging{})
			require.NoError(w, err)
			require.Len(w, page.Items, 1)
		})
		w.Run("the form is checked", func(w *team.Team) {
			for pointer, change := range map[string]func(*wire.ImportBatch){
				"/messages":                    func(b *wire.ImportBatch) { *b = batch("T1", 0, imports.MaxMessages+1) },
				"/messages/1/source_id":        func(b *wire.ImportBatch) { b.Messages[1].SourceID = b.Messages[0].SourceID },
				"/messages/0/created_at":       func(b *wire.ImportBatch) { b.Messages[0].CreatedAt = time.Time{} },
				"/messages/0/content_md":       func(b *wire.ImportBatch) { b.Messages[0].ContentMD = "a\x00" },
				"/messages/0/author_source_id": func(b *wire.ImportBatch) { b.Messages[0].AuthorSourceID = " " },
				"/messages/0/reactions/1/emoji": func(b *wire.ImportBatch) {
					b.Messages[0].Reactions = []wire.ImportReaction{{Emoji: "👍", AuthorSourceID: "U"}, {Emoji: "a b", AuthorSourceID: "U"}}
				},
				"/messages/0/reactions/0/emoji":            func(b *wire.ImportBatch) { b.Messages[0].Reactions = []wire.ImportReaction{{AuthorSourceID: "U"}} },
				"/messages/0/reactions/0/author_source_id": func(b *wire.ImportBatch) { b.Messages[0].Reactions = []wire.ImportReaction{{Emoji: "x"}} },
				"/thread/title":                            func(b *wire.ImportBatch) { b.Thread.Title = "" },
				"/thread/main":                             func(b *wire.ImportBatch) { b.Thread.Main, b.Channel.Kind = true, wire.ChannelForum },
				"/channel/kind":                            func(b *wire.ImportBatch) { b.Channel.Kind = wire.ChannelForum },
				"/channel/name":                            func(b *wire.ImportBatch) { b.Channel.Name = "" },
			} {
				b := batch("T1", 0, 2)
				change(&b)
				_, err := w.Imports.Apply(w.Context(), w.Owner, one.ID, b)
				w.Invalid(pointer, err)
			}
		})
		w.Run("ES-15.8 what an earlier batch put into another thread is known and stays there", func(w *team.Team) {
			b := batch("T9", 0, 1)
			b.Messages[0].SourceID = "T1/0"
			require.Empty(w, w.Emitted(func() {
				known := apply(w, w.Owner, one.ID, b)
				require.EqualValues(w, 1, known.Known)
				require.Equal(w, receipt.ThreadID, known.ThreadID)
			}))
			b.Messages = append(b.Messages, batch("T9", 1, 1).Messages...)
			moved := apply(w, w.Owner, one.ID, b)
			require.EqualValues(w, 1, moved.Added)
			require.NotEqual(w, receipt.ThreadID, moved.ThreadID)
		})
		w.Run("WS-5 it writes only into threads it made, where they are", func(w *team.Team) {
			other := w.Channel(space.ID, wire.ChannelText)
			_, err := w.Domain.MoveThread(w.Context(), w.Owner, receipt.ThreadID, nil, wire.MoveThread{ChannelID: other.ID})
			require.NoError(w, err)
			_, err = w.Imports.Apply(w.Context(), w.Owner, one.ID, batch("T1", 1, 1))
			w.Refused(code.Conflict, err)
		})
		w.Run("an archived channel and space take nothing", func(w *team.Team) {
			w.Exec(`UPDATE channels SET archived_at = 1 WHERE import_id = $1`, one.ID)
			_, err := w.Imports.Apply(w.Context(), w.Owner, one.ID, batch("T5", 0, 1))
			w.Refused(code.Conflict, err)
			w.Exec(`UPDATE spaces SET archived_at = 1 WHERE id = $1`, space.ID)
			b := batch("T5", 0, 1)
			b.Channel.SourceID = "C2"
			_, err = w.Imports.Apply(w.Context(), w.Owner, one.ID, b)
			w.Refused(code.Forbidden, err)
		})
	})
}

// TestImportsAtOnce repeats the same batches from several sides while people write into the same threads.
func TestImportsAtOnce(t *testing.T) {
	t.Parallel()
	team.Each(t, func(w *team.Team) {
		space := w.Space()
		one := create(w, w.Owner, space.ID, "src")
		thread := apply(w, w.Owner, one.ID, batch("T1", 0, 1)).ThreadID
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				for at := 0; at < 40; at += 8 {
					if _, err := w.Imports.Apply(ctx, w.Owner, one.ID, batch("T1", at, 10)); err != nil {
						w.Errorf("apply: %v", err)
					}
				}
			})
		}
		group.Go(func() {
			for range 20 {
				_, _, err := w.Domain.CreateMessage(ctx, w.Owner, thread, wire.NewMessage{ClientMsgID: w.Env.NewID(), ContentMD: "live"})
				if err != nil {
					w.Errorf("say: %v", err)
				}
			}
		})
		group.Wait()
		require.EqualValues(w, 62, w.Number(`SELECT count(*) FROM messages WHERE thread_id = $1`, thread), "42 imported, 20 live")
		require.EqualValues(w, 62, w.Number(`SELECT max(thread_seq) FROM messages WHERE thread_id = $1`, thread), "ES-4 without a gap")
		require.EqualValues(w, 62, w.Number(`SELECT message_count FROM threads WHERE id = $1`, thread))
	})
}

// TestSourcesAtOnce brings the same authors into two spaces from two sides: each import makes its own.
func TestSourcesAtOnce(t *testing.T) {
	t.Parallel()
	team.Each(t, func(w *team.Team) {
		var group sync.WaitGroup
		for range 2 {
			one := create(w, w.Owner, w.Space().ID, "src")
			group.Go(func() {
				for at := range 20 {
					b := batch("T1", at, 1)
					b.Messages[0].AuthorSourceID = fmt.Sprint("author ", at)
					if _, err := w.Imports.Apply(w.Context(), w.Owner, one.ID, b); err != nil {
						w.Errorf("apply: %v", err)
					}
				}
			})
		}
		group.Wait()
		require.EqualValues(w, 40, w.Number(`SELECT count(*) FROM principals WHERE source = 'src'`))
	})
}
