package workspace_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/workspace"
	"github.com/cairnsync/cairn/internal/workspace/place"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestSpaces(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		ctx := w.Context()
		w.run("WS-AZ-7 creating a space needs manage on the instance", func(w *world) {
			_, err := w.CreateSpace(ctx, w.person("nobody"), wire.NewSpace{Name: "x"})
			w.refused(code.Forbidden, err)
		})
		w.run("who creates a space owns it, and hears of it once", func(w *world) {
			manager := w.member("manager", wire.Target{Kind: wire.TargetInstance}, wire.LevelManage)
			head := w.head()
			space, err := w.CreateSpace(ctx, manager, wire.NewSpace{Name: "Team"})
			require.NoError(w, err)
			events := w.since(head)
			require.Len(w, events, 2)
			require.Equal(w, eventlog.SpaceCreated, events[0].Type)
			require.Equal(w, wire.Scope{SpaceID: space.ID}, events[0].Scope)
			require.Equal(w, manager.Correlation, events[0].CorrelationID)
			require.Equal(w, manager.Actor(), *events[0].Actor)
			changed := payloadOf[wire.AccessChanged](w, events[1])
			require.Equal(w, []wire.Access{{Kind: wire.TargetSpace, ID: space.ID, Level: wire.LevelOwner}}, changed.Added)
			require.EqualValues(w, 1, w.number(`SELECT count(*) FROM audit WHERE action = 'space:create' AND target_id = $1`, space.ID))
		})
		w.run("what the server makes by itself nobody owns but the instance's owners", func(w *world) {
			space, err := w.CreateSpace(ctx, authz.System(), wire.NewSpace{Name: "System"})
			require.NoError(w, err)
			_, err = w.Space(ctx, w.owner, space.ID)
			require.NoError(w, err)
		})
		w.run("forms are checked", func(w *world) {
			for _, name := range []string{"", "  ", strings.Repeat("n", 101), "a\x00b", "a\xff"} {
				_, err := w.CreateSpace(ctx, w.owner, wire.NewSpace{Name: name})
				w.invalid("/name", err)
			}
		})
		w.run("ES-5.2 a repeat makes no second space", func(w *world) {
			by := w.keyed(w.owner, "h")
			first, err := w.CreateSpace(ctx, by, wire.NewSpace{Name: "Once"})
			require.NoError(w, err)
			var again wire.Space
			require.Empty(w, w.emitted(func() { again, err = w.CreateSpace(ctx, by, wire.NewSpace{Name: "Once"}) }))
			require.NoError(w, err)
			require.Equal(w, first.ID, again.ID)
			require.True(w, by.Key.Replayed)
		})
	})
}

func TestSpaceChanges(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		ctx := w.Context()
		space := w.space()
		reader := w.member("reader", onSpace(space.ID), wire.LevelRead)
		stranger := w.person("stranger")
		w.run("WS-AZ-5 what one does not see is 404, what one may not change 403", func(w *world) {
			_, err := w.PatchSpace(ctx, stranger, space.ID, nil, wire.PatchSpace{Name: text("x")})
			w.refused(code.NotFound, err)
			_, err = w.PatchSpace(ctx, reader, space.ID, nil, wire.PatchSpace{Name: text("x")})
			w.refused(code.Forbidden, err)
			_, err = w.Space(ctx, stranger, "no id")
			w.refused(code.NotFound, err)
		})
		w.run("If-Match is honoured", func(w *world) {
			_, err := w.PatchSpace(ctx, w.owner, space.ID, version(9), wire.PatchSpace{Name: text("x")})
			w.refused(code.VersionConflict, err)
			require.Equal(w, []string{eventlog.SpaceUpdated}, w.emitted(func() {
				changed, err := w.PatchSpace(ctx, w.owner, space.ID, version(1), wire.PatchSpace{Name: text("New")})
				require.NoError(w, err)
				require.Equal(w, "New", changed.Name)
				require.EqualValues(w, 2, changed.Version)
			}))
		})
		w.run("what changes nothing says nothing", func(w *world) {
			require.Empty(w, w.emitted(func() {
				same, err := w.PatchSpace(ctx, w.owner, space.ID, version(place.AnyVersion), wire.PatchSpace{Name: text("New")})
				require.NoError(w, err)
				require.EqualValues(w, 2, same.Version)
			}))
		})
		w.run("WS-AZ-2 a space is visible to whoever sees one of its channels", func(w *world) {
			channel := w.channel(space.ID, wire.ChannelText)
			guest := w.member("guest", onChannel(channel.ID), wire.LevelRead)
			page, err := w.Spaces(ctx, guest, workspace.Paging{})
			require.NoError(w, err)
			require.Len(w, page.Items, 1)
			require.Empty(w, page.NextCursor)
			w.revoke(guest)
			_, err = w.Space(ctx, guest, space.ID)
			w.refused(code.NotFound, err)
		})
	})
}

func TestArchive(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		ctx := w.Context()
		channel := w.text()
		space := channel.SpaceID
		writer := w.member("writer", onSpace(space), wire.LevelWrite)
		reader := w.member("reader", onSpace(space), wire.LevelRead)
		message := w.say(writer, channel.MainThreadID, "before")
		w.run("ES-8.2 an archive tells whoever had more than read", func(w *world) {
			head := w.head()
			archived, err := w.ArchiveChannel(ctx, w.owner, channel.ID, version(1))
			require.NoError(w, err)
			require.NotNil(w, archived.ArchivedAt)
			told := map[string]bool{}
			for _, record := range w.since(head)[1:] {
				require.Equal(w, eventlog.AccessChanged, record.Type)
				told[record.AudienceID] = true
			}
			require.Equal(w, eventlog.ChannelArchived, w.since(head)[0].Type)
			require.True(w, told[writer.Principal])
			require.False(w, told[reader.Principal])
		})
		w.run("WS-AZ-2 an archived channel is read only", func(w *world) {
			_, _, err := w.CreateMessage(ctx, writer, channel.MainThreadID, w.message("x"))
			w.refused(code.Forbidden, err)
			_, err = w.PatchChannel(ctx, w.owner, channel.ID, nil, wire.PatchChannel{Name: text("x")})
			w.refused(code.Forbidden, err)
			_, _, err = w.StartThread(ctx, w.owner, channel.ID, wire.NewThread{Title: "t", ClientMsgID: w.env.NewID(), ContentMD: "x"})
			w.refused(code.Forbidden, err)
			got, err := w.Message(ctx, writer, message.ID)
			require.NoError(w, err)
			require.Equal(w, "before", got.ContentMD)
		})
		w.run("WS-AZ-2 deleting and settings for reading stay with their levels", func(w *world) {
			require.NoError(w, w.DeleteMessage(ctx, writer, message.ID))
			_, err := w.ChannelSettings(ctx, w.owner, channel.ID)
			require.NoError(w, err)
			_, err = w.PutChannelSettings(ctx, w.owner, channel.ID, nil, wire.PutSettings{Prompt: "x"})
			w.refused(code.Forbidden, err)
		})
		w.run("it is safe to repeat, and taken back", func(w *world) {
			require.Empty(w, w.emitted(func() {
				_, err := w.ArchiveChannel(ctx, w.owner, channel.ID, nil)
				require.NoError(w, err)
			}))
			_, err := w.UnarchiveChannel(ctx, reader, channel.ID, nil)
			w.refused(code.Forbidden, err)
			_, err = w.UnarchiveChannel(ctx, w.owner, channel.ID, version(7))
			w.refused(code.VersionConflict, err)
			open, err := w.UnarchiveChannel(ctx, w.owner, channel.ID, version(2))
			require.NoError(w, err)
			require.Nil(w, open.ArchivedAt)
			w.say(writer, channel.MainThreadID, "after")
		})
		w.run("a space archives its channels with it", func(w *world) {
			kinds := w.emitted(func() {
				_, err := w.ArchiveSpace(ctx, w.owner, space, nil)
				require.NoError(w, err)
			})
			require.Equal(w, eventlog.SpaceArchived, kinds[0])
			require.Contains(w, kinds[1:], eventlog.AccessChanged)
			_, _, err := w.CreateMessage(ctx, writer, channel.MainThreadID, w.message("x"))
			w.refused(code.Forbidden, err)
			_, err = w.CreateChannel(ctx, w.owner, wire.NewChannel{SpaceID: space, Kind: wire.ChannelText, Name: "x"})
			w.refused(code.Forbidden, err)
			_, err = w.UnarchiveSpace(ctx, w.owner, space, nil)
			require.NoError(w, err)
			w.say(writer, channel.MainThreadID, "again")
		})
		w.run("ES-5.2 a repeated archive changes nothing, though it was taken back meanwhile", func(w *world) {
			by := w.keyed(w.owner, "h")
			_, err := w.ArchiveSpace(ctx, by, space, nil)
			require.NoError(w, err)
			_, err = w.UnarchiveSpace(ctx, w.owner, space, nil)
			require.NoError(w, err)
			_, err = w.ArchiveSpace(ctx, by, space, nil)
			require.NoError(w, err)
			now, err := w.Space(ctx, w.owner, space)
			require.NoError(w, err)
			require.Nil(w, now.ArchivedAt)
		})
	})
}
