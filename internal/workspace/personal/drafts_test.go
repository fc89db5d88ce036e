package personal_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit/team"
	"github.com/cairnsync/cairn/internal/workspace/personal"
	"github.com/cairnsync/cairn/internal/workspace/place"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func draft(w *team.Team, by authz.Caller, thread string, in wire.PutDraft) wire.Draft {
	w.Helper()
	d, err := w.Personal.PutDraft(w.Context(), by, thread, nil, in)
	require.NoError(w, err)
	return d
}

func drafts(w *team.Team, by authz.Caller) map[string]int64 {
	w.Helper()
	return team.Personally(w, by, personal.DraftVersions)
}

func TestDrafts(t *testing.T) {
	t.Parallel()
	team.Each(t, func(w *team.Team) {
		channel := w.Text()
		ann := w.Member("ann", team.OnChannel(channel.ID), wire.LevelWrite)
		phone := ann
		phone.Device = w.Env.NewID()
		main := channel.MainThreadID

		w.Run("ES-14 the last write wins, and each one has its event", func(w *team.Team) {
			events := w.Emitted(func() {
				require.EqualValues(w, 1, draft(w, ann, main, wire.PutDraft{ContentMD: "one"}).Version)
				require.EqualValues(w, 2, draft(w, phone, main, wire.PutDraft{ContentMD: "two", BaseVersion: team.Version(1)}).Version)
			})
			require.Equal(w, []string{eventlog.DraftUpdated, eventlog.DraftUpdated}, team.Types(events))
			told := payload[wire.DraftEvent](w, events[1]).Draft
			require.Equal(w, "two", told.ContentMD)
			require.Equal(w, phone.Device, told.UpdatedByDeviceID)
			require.EqualValues(w, 2, events[1].Resource.Version)
		})
		w.Run("ES-14 a base version that is old overwrites and says so", func(w *team.Team) {
			var d wire.Draft
			events := w.Emitted(func() { d = draft(w, ann, main, wire.PutDraft{ContentMD: "three", BaseVersion: team.Version(1)}) })
			require.True(w, d.OverwroteNewer)
			require.EqualValues(w, 3, d.Version)
			require.False(w, payload[wire.DraftEvent](w, events[0]).Draft.OverwroteNewer, "only the answer says it")
		})
		w.Run("ES-14 file ids are looked at in form and number only", func(w *team.Team) {
			d := draft(w, ann, main, wire.PutDraft{FileIDs: []string{strings.ToUpper(w.Env.NewID())}})
			require.EqualValues(w, 4, d.Version)
			_, err := w.Personal.PutDraft(w.Context(), ann, main, nil, wire.PutDraft{FileIDs: []string{"x"}})
			w.Invalid("/file_ids/0", err)
			_, err = w.Personal.PutDraft(w.Context(), ann, main, nil, wire.PutDraft{FileIDs: make([]string, team.MaxAttachments+1)})
			w.Invalid("/file_ids", err)
		})
		w.Run("ES-14 an empty draft is deleted and answered", func(w *team.Team) {
			var d wire.Draft
			events := w.Emitted(func() { d = draft(w, ann, main, wire.PutDraft{ContentMD: " \n\t"}) })
			require.Equal(w, []string{eventlog.DraftDeleted}, team.Types(events))
			require.EqualValues(w, 5, d.Version)
			require.Empty(w, d.ContentMD)
			require.Equal(w, wire.DraftDeleted{ThreadID: main, Version: 5, UpdatedByDeviceID: ann.Device}, payload[wire.DraftDeleted](w, events[0]))
			_, err := w.Personal.Draft(w.Context(), ann, main)
			w.Refused(code.NotFound, err)
			require.Empty(w, drafts(w, ann))
			require.Empty(w, w.Emitted(func() { draft(w, ann, main, wire.PutDraft{}) }), "there is none any more")
		})
		w.Run("ES-14 versions go on after a deletion; deleting is idempotent", func(w *team.Team) {
			require.EqualValues(w, 6, draft(w, ann, main, wire.PutDraft{ContentMD: "again"}).Version)
			require.Equal(w, map[string]int64{main: 6}, drafts(w, ann))
			events := w.Emitted(func() {
				require.NoError(w, w.Personal.DeleteDraft(w.Context(), ann, main, nil))
				require.NoError(w, w.Personal.DeleteDraft(w.Context(), ann, main, nil))
			})
			require.Equal(w, []string{eventlog.DraftDeleted}, team.Types(events))
		})
		w.Run("ES-14 sending with clear_draft deletes it in the same transaction", func(w *team.Team) {
			draft(w, ann, main, wire.PutDraft{ContentMD: "to send"})
			events := w.Emitted(func() {
				_, _, err := w.Domain.CreateMessage(w.Context(), ann, main, wire.NewMessage{ClientMsgID: w.Env.NewID(), ContentMD: "sent", ClearDraft: true})
				require.NoError(w, err)
			})
			require.ElementsMatch(w, []string{eventlog.MessageCreated, eventlog.DraftDeleted}, team.Types(events))
			require.Empty(w, drafts(w, ann))
		})
		w.Run("ES-2.2 a draft that is too long for an event is named in it", func(w *team.Team) {
			long := strings.Repeat("<", team.MaxChars)
			events := w.Emitted(func() { draft(w, ann, main, wire.PutDraft{ContentMD: long}) })
			require.True(w, events[0].Truncated)
			require.Empty(w, payload[wire.DraftEvent](w, events[0]).Draft.ContentMD)
			d, err := w.Personal.Draft(w.Context(), ann, main)
			require.NoError(w, err)
			require.Equal(w, long, d.ContentMD)
			_, err = w.Personal.PutDraft(w.Context(), ann, main, nil, wire.PutDraft{ContentMD: long + "x"})
			w.Invalid("/content_md", err)
			_, err = w.Personal.PutDraft(w.Context(), ann, main, nil, wire.PutDraft{ContentMD: "a\x00b"})
			w.Invalid("/content_md", err)
		})
		w.Run("ES-14 drafts of threads out of sight are not listed and come back", func(w *team.Team) {
			list := func() int {
				page, err := w.Personal.Drafts(w.Context(), ann, place.Paging{})
				require.NoError(w, err)
				return len(page.Items)
			}
			require.Equal(w, 1, list())
			w.Revoke(ann)
			require.Zero(w, list())
			require.Empty(w, drafts(w, ann))
			_, err := w.Personal.Draft(w.Context(), ann, main)
			w.Refused(code.NotFound, err)
			w.Grant(ann, team.OnChannel(channel.ID), wire.LevelRead)
			require.Equal(w, 1, list())
		})
		w.Run("ES-5.2 a repeat answers the draft as it is and writes nothing", func(w *team.Team) {
			keyed := w.Keyed(ann, "h")
			first := draft(w, keyed, main, wire.PutDraft{ContentMD: "once"})
			require.Empty(w, w.Emitted(func() { require.Equal(w, first, draft(w, keyed, main, wire.PutDraft{ContentMD: "once"})) }))
		})
	})
}

func TestDraftsAreBounded(t *testing.T) {
	t.Parallel()
	team.Each(t, func(w *team.Team) {
		channel := w.Text()
		ann := w.Member("ann", team.OnChannel(channel.ID), wire.LevelWrite)
		require.NoError(w, w.DB.Write(w.Context(), nil, func(tx storage.Tx) error {
			for range personal.MaxDrafts {
				err := tx.Exec(`INSERT INTO drafts (principal_id, thread_id, content_md, deleted, updated_at, version) VALUES ($1, $2, 'x', FALSE, 1, 1)`,
					ann.Principal, w.Env.NewID())
				if err != nil {
					return err
				}
			}
			return nil
		}))
		_, err := w.Personal.PutDraft(w.Context(), ann, channel.MainThreadID, nil, wire.PutDraft{ContentMD: "one more"})
		w.Refused(code.Conflict, err)
	})
}
