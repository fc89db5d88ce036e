package team_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit/team"
	"github.com/cairnsync/cairn/internal/transfer"
	"github.com/cairnsync/cairn/internal/workspace"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// target is the imports of a team, as somebody.
type target struct {
	w  *team.Team
	by authz.Caller
}

func (t target) StartImport(ctx context.Context, in wire.NewImport) (wire.Import, error) {
	made, _, err := t.w.Imports.Create(ctx, t.by, in)
	return made, err
}

func (t target) ImportBatch(ctx context.Context, id string, batch wire.ImportBatch) (wire.ImportReceipt, error) {
	return t.w.Imports.Apply(ctx, t.by, id, batch)
}

func (t target) FinishImport(ctx context.Context, id string) (wire.Import, error) {
	return t.w.Imports.Finish(ctx, t.by, id)
}

// TestExportsArrive brings the sample exports into a space, twice, and reads what came.
func TestExportsArrive(t *testing.T) {
	t.Parallel()
	samples := filepath.Join("..", "..", "transfer", "testdata")
	team.Each(t, func(w *team.Team) {
		space := w.Space()
		maria := w.Person("maria")
		for _, o := range []struct {
			format   transfer.Format
			file     string
			messages int64
			channel  string
		}{{transfer.Slack, "slack", 9, "general"}, {transfer.Mattermost, "mattermost.jsonl", 4, "Town Square"}} {
			w.Run("ES-15.8 an export of "+string(o.format), func(w *team.Team) {
				options := transfer.Options{Format: o.format, SpaceID: space.ID}
				report, err := transfer.Run(w.Context(), target{w, w.Owner}, filepath.Join(samples, o.file), options)
				require.NoError(w, err)
				require.Equal(w, "done", report.Import.State)
				require.Equal(w, o.messages, report.Added)
				require.Equal(w, o.messages, report.Import.Messages)
				again, err := transfer.Run(w.Context(), target{w, w.Owner}, filepath.Join(samples, o.file), options)
				require.NoError(w, err)
				require.Zero(w, again.Added)
				require.Equal(w, report.Added+report.Known, again.Known)
				channels, err := w.Domain.Channels(w.Context(), w.Owner, space.ID, workspace.Paging{})
				require.NoError(w, err)
				for _, channel := range channels.Items {
					if channel.Name != o.channel {
						continue
					}
					page, err := w.Domain.Messages(w.Context(), w.Owner, channel.MainThreadID, workspace.MessageQuery{})
					require.NoError(w, err)
					require.Equal(w, maria.Principal, page.Messages[0].Author.ID, "known by her e-mail address")
					require.True(w, page.Messages[0].Pinned)
					return
				}
				w.Errorf("no channel %s", o.channel)
			})
		}
	})
}

// TestImportedAuthorsHaveNames asks for principals that an import made.
func TestImportedAuthorsHaveNames(t *testing.T) {
	t.Parallel()
	team.Each(t, func(w *team.Team) {
		people := identity.New(w.DB, signal.NewLocal(), w.Env)
		space := w.Space()
		reader := w.Member("reader", team.OnSpace(space.ID), wire.LevelRead)
		stranger := w.Member("stranger", team.OnSpace(w.Space().ID), wire.LevelOwner)
		_, err := transfer.Run(w.Context(), target{w, w.Owner}, filepath.Join("..", "..", "transfer", "testdata", "slack"),
			transfer.Options{Format: transfer.Slack, SpaceID: space.ID})
		require.NoError(w, err)
		var id string
		require.NoError(w, w.DB.Read(w.Context(), func(tx storage.Tx) error {
			_, err := tx.Get(`SELECT id FROM principals WHERE source_id = 'U2'`, nil, &id)
			return err
		}))
		tom, err := people.PrincipalSeen(w.Context(), reader, wire.KindUser, id)
		require.NoError(w, err, "WS-AZ-7 who reads somebody's messages may know the name")
		require.Equal(w, "Tom Baker", tom.DisplayName)
		require.Equal(w, wire.StatusDisabled, tom.Status)
		_, err = people.PrincipalSeen(w.Context(), stranger, wire.KindUser, id)
		w.Refused(code.NotFound, err)
		w.Revoke(reader)
		_, err = people.PrincipalSeen(w.Context(), reader, wire.KindUser, id)
		w.Refused(code.NotFound, err)
	})
}
