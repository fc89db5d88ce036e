package files_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/team"
	"github.com/cairnsync/cairn/internal/workspace"
	"github.com/cairnsync/cairn/internal/workspace/files"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// slowly is another node of the team, which stops once before a statement.
func slowly(w *team.Team, words string) *team.Pausing {
	w.Helper()
	return team.PauseBefore(testkit.Open(w.TB, storage.Options{URL: w.URL, Migrate: storage.MigrateRefuse}), words)
}

// waits reports an error unless act lasts until the other node goes on; it returns when both are done.
func waits(w *team.Team, slow *team.Pausing, what string, first, act func(ctx context.Context) error) {
	w.Helper()
	var group sync.WaitGroup
	group.Go(func() {
		if err := first(w.Context()); err != nil {
			w.Errorf("first: %v", err)
		}
	})
	<-slow.Reached
	done := make(chan error, 1)
	group.Go(func() { done <- act(w.Context()) })
	select {
	case <-done:
		w.Error(what)
	case <-time.After(200 * time.Millisecond):
		defer func() { require.NoError(w, <-done) }()
	}
	close(slow.Resume)
	group.Wait()
}

// fileService is the files of a team on another node.
func fileService(w *team.Team, db storage.DB, scanner files.Scanner) *files.Service {
	options := w.Files.Options
	options.DB, options.Scanner = db, scanner
	return files.New(options)
}

// The events of a file name the channel of a thread that holds it: a move must not come into the log between
// the reading of that and the event.
func TestAMoveWaitsForFiles(t *testing.T) {
	t.Parallel()
	acts := map[string]struct {
		words string
		act   func(ctx context.Context, w *team.Team, s *files.Service, file wire.File) error
	}{
		"a verdict": {"UPDATE files SET scan_status", func(_ context.Context, w *team.Team, s *files.Service, file wire.File) error {
			work := files.NewWorker(s)
			require.NoError(w, work.Start(w.Context()))
			eventually(w, func() bool { return get(w, w.Owner, file.ID).ScanStatus == files.ScanClean }, "scanned")
			return work.Stop(context.Background())
		}},
		"a deletion": {"UPDATE files SET original_name", func(ctx context.Context, w *team.Team, s *files.Service, file wire.File) error {
			return s.Delete(ctx, w.Owner, file.ID, &file.Version)
		}},
	}
	for name, one := range acts {
		t.Run("ES-8.1 "+name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T) files.Scanner { return newClamd(t, "unix").scanner() }, func(w *team.Team) {
				file := upload(w, w.Owner, "content")
				channel := w.Text()
				secret := w.Channel(channel.SpaceID, wire.ChannelText)
				thread := w.Start(w.Owner, channel.ID, "moves").Thread.ID
				w.Say(w.Owner, thread, "look", file.ID)
				head := w.Head()
				slow := slowly(w, one.words)
				waits(w, slow, "the move did not wait", func(ctx context.Context) error {
					return one.act(ctx, w, fileService(w, slow, w.Files.Scanner), file)
				}, func(ctx context.Context) error {
					_, err := w.Domain.MoveThread(ctx, w.Owner, thread, nil, wire.MoveThread{ChannelID: secret.ID})
					return err
				})
				events := w.Since(head)
				require.Equal(w, []string{eventlog.FileUpdated, eventlog.ThreadMoved, eventlog.ThreadMovedOut}, team.Types(events))
				require.Equal(w, channel.ID, events[0].Scope.ChannelID)
			})
		})
	}
}

// An edit tells of the files of its message: what is deleted meanwhile must not come back into the log.
func TestADeletionWaitsForEdits(t *testing.T) {
	t.Parallel()
	each(t, nil, func(w *team.Team) {
		file := upload(w, w.Owner, "content")
		m := w.Say(w.Owner, w.Text().MainThreadID, "look", file.ID)
		slow := slowly(w, "UPDATE messages")
		domain := workspace.New(workspace.Options{
			DB: slow, Log: w.Log, Authz: authz.New(slow, w.Log, w.Env), Env: w.Env, MaxChars: team.MaxChars,
			MaxAttachments: team.MaxAttachments, MaxPayload: team.MaxPayload,
		})
		waits(w, slow, "the deletion did not wait for the edit", func(ctx context.Context) error {
			_, err := domain.EditMessage(ctx, w.Owner, m.ID, team.Version(1), wire.EditMessage{ContentMD: "look here"})
			return err
		}, func(ctx context.Context) error { return w.Files.Delete(ctx, w.Owner, file.ID, &file.Version) })
		w.Run("ES-2.2 nothing tells the name of the deleted file", func(w *team.Team) {
			for _, event := range w.Since(0) {
				require.NotContains(w, string(event.Payload), file.OriginalName, event.Type)
			}
		})
	})
}
