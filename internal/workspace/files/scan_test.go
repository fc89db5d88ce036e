package files_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/testkit/team"
	"github.com/cairnsync/cairn/internal/workspace/files"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestClamd(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			fake := newClamd(t, network)
			scan := func(content string) (files.Verdict, error) {
				return fake.scanner().Scan(t.Context(), strings.NewReader(content))
			}
			for _, content := range []string{"", "fine", strings.Repeat("x", 64<<10), strings.Repeat("y", 200_001)} {
				verdict, err := scan(content)
				require.NoError(t, err)
				require.True(t, verdict.Clean)
			}
			verdict, err := scan("before " + eicar + " after")
			require.NoError(t, err)
			require.Equal(t, files.Verdict{Found: "Win.Test.EICAR_HDB-1"}, verdict)
			_, err = scan(strings.Repeat("z", 3<<20))
			require.ErrorContains(t, err, "size limit exceeded", "what was not looked at whole is not clean")
			fake.stop()
			_, err = scan("fine")
			require.Error(t, err)
		})
	}
}

func TestClamdThatHangs(t *testing.T) {
	t.Parallel()
	fake := newClamd(t, "tcp")
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	defer writer.Close()
	go func() {
		_, _ = writer.Write([]byte(strings.Repeat("x", 64<<10)))
		cancel()
		_ = writer.CloseWithError(context.Canceled)
	}()
	_, err := fake.scanner().Scan(ctx, reader)
	require.ErrorIs(t, err, context.Canceled)
}

func TestScans(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T) files.Scanner { return newClamd(t, "unix").scanner() }, func(w *team.Team) {
		channel := w.Text()
		ann := w.Member("ann", team.OnChannel(channel.ID), wire.LevelWrite)
		clean, infected := upload(w, ann, "clean"), upload(w, ann, eicar)
		loose := upload(w, ann, "loose")
		w.Run("WS-1 nobody gets what was not scanned", func(w *team.Team) {
			require.Equal(w, files.ScanPending, clean.ScanStatus)
			_, err := bytesOf(w, ann, clean.ID)
			require.Equal(w, "scan_pending", fault.ExtraOf(w.Refused(code.Conflict, err)).Reason)
		})
		w.Say(ann, channel.MainThreadID, "both", clean.ID, infected.ID)
		w.Run("WS-5 the verdict is told where messages hold the file", func(w *team.Team) {
			events := w.Emitted(func() {
				worker(w)
				eventually(w, func() bool {
					return w.Number(`SELECT count(*) FROM files WHERE scan_status = 'pending'`) == 0
				}, "scanned")
			})
			require.Equal(w, []string{eventlog.FileUpdated, eventlog.FileUpdated}, team.Types(events))
			for _, event := range events {
				require.Equal(w, channel.ID, event.Scope.ChannelID)
				require.Equal(w, wire.KindSystem, event.Actor.Kind)
				require.EqualValues(w, 3, event.Resource.Version)
			}
			require.Equal(w, files.ScanClean, get(w, ann, clean.ID).ScanStatus)
			require.Equal(w, files.ScanClean, get(w, ann, loose.ID).ScanStatus)
			_, err := bytesOf(w, ann, clean.ID)
			require.NoError(w, err)
			_, err = bytesOf(w, ann, infected.ID)
			require.Equal(w, "infected", fault.ExtraOf(w.Refused(code.Conflict, err)).Reason)
		})
		w.Run("an infected file is not attached", func(w *team.Team) {
			_, _, err := w.Domain.CreateMessage(w.Context(), ann, channel.MainThreadID, wire.NewMessage{
				ClientMsgID: w.Env.NewID(), ContentMD: "x", FileIDs: []string{infected.ID},
			})
			w.Invalid("/file_ids/0", err)
		})
	})
}

func TestScannerThatIsAway(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T) files.Scanner { return later{newClamd(t, "tcp")} }, func(w *team.Team) {
		fake := w.Files.Scanner.(later).clamd
		fake.stop()
		ann := w.Person("ann")
		file := upload(w, ann, "waits")
		stop := worker(w)
		eventually(w, func() bool { return w.Number(`SELECT scan_attempts FROM files WHERE id = $1`, file.ID) > 0 }, "tried")
		stop()
		require.Equal(w, files.ScanPending, get(w, ann, file.ID).ScanStatus)
		fake.start()
		w.Exec(`UPDATE files SET scan_after = $2 WHERE id = $1`, file.ID, time.Now().Add(-time.Hour))
		worker(w) // another process
		eventually(w, func() bool { return get(w, ann, file.ID).ScanStatus == files.ScanClean }, "scanned after all")
	})
}

// later is a clamd whose address may change.
type later struct{ *clamd }

func (l later) Scan(ctx context.Context, content io.Reader) (files.Verdict, error) {
	return l.scanner().Scan(ctx, content)
}

func TestScanIsGivenUpAndDoneAgain(t *testing.T) {
	t.Parallel()
	each(t, func(*testing.T) files.Scanner { return &hanging{began: make(chan struct{}, 100)} }, func(w *team.Team) {
		scanner := w.Files.Scanner.(*hanging)
		file := upload(w, w.Owner, "slow")
		stop := worker(w)
		<-scanner.began
		stop()
		require.Zero(w, w.Number(`SELECT scan_attempts FROM files WHERE id = $1`, file.ID), "giving up is no attempt")
		worker(w)
		<-scanner.began
	})
}

// hanging never ends a scan by itself.
type hanging struct{ began chan struct{} }

func (h *hanging) Scan(ctx context.Context, _ io.Reader) (files.Verdict, error) {
	h.began <- struct{}{}
	<-ctx.Done()
	return files.Verdict{}, ctx.Err()
}

func TestWorkersShareTheWork(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T) files.Scanner { return later{newClamd(t, "unix")} }, func(w *team.Team) {
		for range 20 {
			upload(w, w.Owner, w.Env.NewID())
		}
		for range 3 {
			worker(w)
		}
		eventually(w, func() bool { return w.Number(`SELECT count(*) FROM files WHERE scan_status = 'clean'`) == 20 }, "all scanned")
		require.Equal(w, 20, w.Files.Scanner.(later).count(), "each once")
	})
}
