package files_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/testkit/team"
	"github.com/cairnsync/cairn/internal/workspace/files"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestUpload(t *testing.T) {
	t.Parallel()
	each(t, nil, func(w *team.Team) {
		ann, bob := w.Person("ann"), w.Person("bob")
		w.Run("WS-1 a file is announced, then complete with its digest", func(w *team.Team) {
			file := announce(w, ann, 5)
			require.Equal(w, files.UploadPending, file.UploadState)
			_, err := bytesOf(w, ann, file.ID)
			require.Equal(w, "upload_pending", fault.ExtraOf(w.Refused(code.Conflict, err)).Reason)
			done, err := w.Files.Upload(w.Context(), ann, file.ID, strings.NewReader("hello"))
			require.NoError(w, err)
			require.Equal(w, files.UploadComplete, done.UploadState)
			require.Equal(w, files.ScanSkipped, done.ScanStatus)
			require.Equal(w, "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824", done.SHA256)
			require.Equal(w, done, get(w, ann, file.ID))
			content, err := bytesOf(w, ann, file.ID)
			require.NoError(w, err)
			require.Equal(w, "hello", content)
		})
		w.Run("WS-7 what is not as announced is refused and can be repeated", func(w *team.Team) {
			file := announce(w, ann, 5)
			for _, content := range []string{"", "four", "sixsix", strings.Repeat("x", 100_000)} {
				_, err := w.Files.Upload(w.Context(), ann, file.ID, strings.NewReader(content))
				w.Invalid("/size_bytes", err)
			}
			broken := errors.New("connection reset")
			_, err := w.Files.Upload(w.Context(), ann, file.ID, io.MultiReader(strings.NewReader("he"), iotest.ErrReader(broken)))
			require.ErrorIs(w, err, broken)
			done, err := w.Files.Upload(w.Context(), ann, file.ID, iotest.OneByteReader(strings.NewReader("fiver")))
			require.NoError(w, err)
			require.EqualValues(w, 2, done.Version)
			left, err := os.ReadDir(filepath.Join(w.Dir, "uploads"))
			require.NoError(w, err)
			require.Empty(w, left, "what was broken is gone")
		})
		w.Run("a repeat of a complete upload answers it, other bytes are a conflict", func(w *team.Team) {
			file := upload(w, ann, "repeat")
			again, err := w.Files.Upload(w.Context(), ann, file.ID, strings.NewReader("repeat"))
			require.NoError(w, err)
			require.Equal(w, file, again)
			_, err = w.Files.Upload(w.Context(), ann, file.ID, strings.NewReader("tepear"))
			w.Refused(code.Conflict, err)
		})
		w.Run("uploads at once: one counts", func(w *team.Team) {
			file := announce(w, ann, 4)
			var group sync.WaitGroup
			for range 8 {
				group.Go(func() {
					_, err := w.Files.Upload(w.Context(), ann, file.ID, strings.NewReader("same"))
					if err != nil {
						w.Errorf("upload: %v", err)
					}
				})
			}
			group.Wait()
			require.EqualValues(w, 2, get(w, ann, file.ID).Version)
			names, err := filepath.Glob(filepath.Join(w.Dir, "*", get(w, ann, file.ID).SHA256+".*"))
			require.NoError(w, err)
			require.Len(w, names, 1)
		})
		w.Run("an empty file is a file", func(w *team.Team) {
			content, err := bytesOf(w, ann, upload(w, ann, "").ID)
			require.NoError(w, err)
			require.Empty(w, content)
		})
		w.Run("WS-AZ-5 a file of somebody else is not there", func(w *team.Team) {
			file := upload(w, ann, "mine")
			for _, id := range []string{file.ID, w.Env.NewID(), "x"} {
				_, err := w.Files.Get(w.Context(), bob, id)
				w.Refused(code.NotFound, err)
				_, err = w.Files.Upload(w.Context(), bob, id, strings.NewReader("mine"))
				w.Refused(code.NotFound, err)
				w.Refused(code.NotFound, w.Files.Delete(w.Context(), bob, id, nil))
				_, err = bytesOf(w, w.Owner, id)
				w.Refused(code.NotFound, err)
			}
		})
		w.Run("the form is checked", func(w *team.Team) {
			good := wire.NewFile{OriginalName: "a.txt", MimeType: "text/plain; charset=utf-8", SizeBytes: 1}
			for pointer, change := range map[string]func(*wire.NewFile){
				"/original_name": func(f *wire.NewFile) { f.OriginalName = "../a.txt" },
				"/mime_type":     func(f *wire.NewFile) { f.MimeType = "text/plain\r\nX: y" },
				"/size_bytes":    func(f *wire.NewFile) { f.SizeBytes = -1 },
				"/purpose":       func(f *wire.NewFile) { f.Purpose = "avatar" },
			} {
				bad := good
				change(&bad)
				_, err := w.Files.Create(w.Context(), ann, bad)
				w.Invalid(pointer, err)
			}
			for _, name := range []string{"", " ", ".", "..", "a/b", `a\b`, "a\nb", "a\x00b", strings.Repeat("ä", 256)} {
				bad := good
				bad.OriginalName = name
				_, err := w.Files.Create(w.Context(), ann, bad)
				w.Invalid("/original_name", err)
			}
			large := good
			large.SizeBytes = team.MaxBytes + 1
			_, err := w.Files.Create(w.Context(), ann, large)
			w.Refused(code.PayloadTooLarge, err)
			_, err = w.Files.Create(w.Context(), ann, good)
			require.NoError(w, err)
		})
		w.Run("ES-5.2 a repeated announcement answers the same file", func(w *team.Team) {
			keyed := w.Keyed(ann, "h")
			first := announce(w, keyed, 3)
			require.Equal(w, first, announce(w, keyed, 3))
		})
	})
}

func TestWhoMayRead(t *testing.T) {
	t.Parallel()
	each(t, nil, func(w *team.Team) {
		open, closed := w.Text(), w.Text()
		ann := w.Member("ann", team.OnChannel(open.ID), wire.LevelWrite)
		w.Grant(ann, team.OnChannel(closed.ID), wire.LevelWrite)
		bob := w.Member("bob", team.OnChannel(open.ID), wire.LevelRead)
		file := upload(w, ann, "shared")
		w.Run("WS-1 who may read one message that holds it may read it", func(w *team.Team) {
			w.Say(ann, closed.MainThreadID, "here", file.ID)
			_, err := bytesOf(w, bob, file.ID)
			w.Refused(code.NotFound, err)
			message := w.Say(ann, open.MainThreadID, "and here", file.ID)
			content, err := bytesOf(w, bob, file.ID)
			require.NoError(w, err)
			require.Equal(w, "shared", content)
			w.Refused(code.Forbidden, w.Files.Delete(w.Context(), bob, file.ID, nil))
			require.NoError(w, w.Domain.DeleteMessage(w.Context(), ann, message.ID))
			_, err = bytesOf(w, bob, file.ID)
			w.Refused(code.NotFound, err)
		})
		w.Run("WS-AZ-2 a revocation ends it", func(w *team.Team) {
			w.Say(ann, open.MainThreadID, "again", file.ID)
			require.NotEmpty(w, get(w, bob, file.ID))
			w.Revoke(bob)
			_, err := w.Files.Get(w.Context(), bob, file.ID)
			w.Refused(code.NotFound, err)
		})
	})
}

func TestDeletion(t *testing.T) {
	t.Parallel()
	each(t, nil, func(w *team.Team) {
		channel, other := w.Text(), w.Text()
		ann := w.Member("ann", team.OnChannel(channel.ID), wire.LevelWrite)
		w.Grant(ann, team.OnChannel(other.ID), wire.LevelWrite)
		worker(w)
		w.Run("ES-2.2 a deleted file leaves nothing of its content in any event", func(w *team.Team) {
			file := upload(w, ann, "secret bytes")
			begin := w.Head()
			w.Say(ann, channel.MainThreadID, "one", file.ID)
			w.Say(ann, other.MainThreadID, "two", file.ID)
			w.Refused(code.VersionConflict, w.Files.Delete(w.Context(), ann, file.ID, team.Version(1)))
			events := w.Emitted(func() {
				require.NoError(w, w.Files.Delete(w.Context(), ann, file.ID, team.Version(2)))
				require.NoError(w, w.Files.Delete(w.Context(), ann, file.ID, nil), "again is no error")
			})
			require.Equal(w, []string{eventlog.FileUpdated, eventlog.FileUpdated}, team.Types(events), "one for each channel")
			require.NotEqual(w, events[0].Scope.ChannelID, events[1].Scope.ChannelID)
			for _, record := range w.Since(begin) {
				require.NotContains(w, string(record.Payload), "report.pdf", record.Type)
				require.NotContains(w, string(record.Payload), file.SHA256, record.Type)
			}
			gone := get(w, ann, file.ID)
			require.NotNil(w, gone.DeletedAt)
			require.Empty(w, gone.OriginalName)
			require.Empty(w, gone.SHA256)
			require.EqualValues(w, 3, gone.Version)
			_, err := bytesOf(w, ann, file.ID)
			w.Refused(code.NotFound, err)
		})
		w.Run("the bytes go when nothing else has them", func(w *team.Team) {
			first, second := upload(w, ann, "twice"), upload(w, ann, "twice")
			require.Equal(w, first.SHA256, second.SHA256)
			pattern := filepath.Join(w.Dir, "*", first.SHA256+".*")
			names := func() int {
				found, err := filepath.Glob(pattern)
				require.NoError(w, err)
				return len(found)
			}
			require.Equal(w, 1, names())
			require.NoError(w, w.Files.Delete(w.Context(), ann, first.ID, nil))
			eventually(w, func() bool { return w.Number(`SELECT count(*) FROM file_blobs WHERE unused_at IS NOT NULL`) == 0 }, "looked at")
			content, err := bytesOf(w, ann, second.ID)
			require.NoError(w, err)
			require.Equal(w, "twice", content)
			require.NoError(w, w.Files.Delete(w.Context(), ann, second.ID, nil))
			eventually(w, func() bool { return names() == 0 }, "removed")
			content, err = bytesOf(w, ann, upload(w, ann, "twice").ID)
			require.NoError(w, err, "it can come again")
			require.Equal(w, "twice", content)
		})
		w.Run("who reads while it is deleted gets all of it, or hears that it is gone", func(w *team.Team) {
			for i := range 8 {
				text := fmt.Sprintf("read while deleted %d", i)
				file := upload(w, ann, text)
				ended := make(chan error, 1)
				reads := make(chan struct{}, 1)
				go func() {
					for {
						if err := readsAll(w, ann, file.ID, text); err != nil {
							ended <- err
							return
						}
						select {
						case reads <- struct{}{}:
						default:
						}
					}
				}()
				select {
				case <-reads:
				case err := <-ended:
					require.NoError(w, err)
				}
				require.NoError(w, w.Files.Delete(w.Context(), ann, file.ID, nil))
				w.Refused(code.NotFound, <-ended)
			}
		})
		w.Run("WS-5 a deleted message takes along what nothing else uses", func(w *team.Team) {
			shared, single := upload(w, ann, "shared"), upload(w, ann, "single")
			w.Say(ann, channel.MainThreadID, "stays", shared.ID)
			message := w.Say(ann, channel.MainThreadID, "goes", shared.ID, single.ID)
			require.NoError(w, w.Domain.DeleteMessage(w.Context(), ann, message.ID))
			require.Nil(w, get(w, ann, shared.ID).DeletedAt)
			require.NotNil(w, get(w, ann, single.ID).DeletedAt)
			eventually(w, func() bool {
				found, err := filepath.Glob(filepath.Join(w.Dir, "*", single.SHA256+".*"))
				return err == nil && len(found) == 0
			}, "its bytes are gone")
		})
	})
}

func TestSweep(t *testing.T) {
	t.Parallel()
	each(t, nil, func(w *team.Team) {
		channel := w.Text()
		ann := w.Member("ann", team.OnChannel(channel.ID), wire.LevelWrite)
		old := func(file wire.File, age time.Duration) wire.File {
			w.Exec(`UPDATE files SET created_at = $2 WHERE id = $1`, file.ID, time.Now().Add(-age))
			return file
		}
		abandoned := old(announce(w, ann, 3), files.AbandonedAfter+time.Minute)
		young := announce(w, ann, 3)
		unused := old(upload(w, ann, "unused"), files.UnusedAfter+time.Minute)
		drafted := old(upload(w, ann, "drafted"), files.UnusedAfter+time.Minute)
		held := old(upload(w, ann, "held"), files.UnusedAfter+time.Minute)
		w.Say(ann, channel.MainThreadID, "with", held.ID)
		_, err := w.Personal.PutDraft(w.Context(), ann, channel.MainThreadID, nil, wire.PutDraft{FileIDs: []string{drafted.ID}})
		require.NoError(w, err)
		stray := filepath.Join(w.Dir, "uploads", w.Env.RandomID())
		foreign := filepath.Join(w.Dir, "uploads", "not-ours.txt")
		fresh := filepath.Join(w.Dir, "uploads", w.Env.RandomID())
		for _, name := range []string{stray, foreign, fresh} {
			require.NoError(w, os.WriteFile(name, []byte("x"), 0o600))
		}
		yesterday := time.Now().Add(-25 * time.Hour)
		names, err := filepath.Glob(filepath.Join(w.Dir, "??", "*"))
		require.NoError(w, err)
		for _, name := range append(names, stray, foreign) {
			require.NoError(w, os.Chtimes(name, yesterday, yesterday))
		}
		require.NoError(w, w.Files.Sweep(w.Context()))
		gone := func(file wire.File) bool { return get(w, ann, file.ID).DeletedAt != nil }
		require.True(w, gone(abandoned))
		require.True(w, gone(unused))
		require.False(w, gone(young))
		require.False(w, gone(drafted))
		require.False(w, gone(held))
		require.NoFileExists(w, stray)
		require.FileExists(w, foreign)
		require.FileExists(w, fresh)
		content, err := bytesOf(w, ann, held.ID)
		require.NoError(w, err, "an old content with a row stays")
		require.Equal(w, "held", content)
	})
}

func TestUploadsWithoutAFolder(t *testing.T) {
	t.Parallel()
	each(t, nil, func(w *team.Team) {
		require.NoError(w, os.RemoveAll(w.Dir))
		require.NoError(w, w.Files.Sweep(w.Context()), "there is nothing to sweep")
		require.NoError(w, os.WriteFile(w.Dir, nil, 0o600))
		ann := w.Person("ann")
		file := announce(w, ann, 1)
		_, err := w.Files.Upload(w.Context(), ann, file.ID, strings.NewReader("x"))
		require.Error(w, err, "the folder is no folder")
		require.NoError(w, os.Remove(w.Dir))
		_, err = w.Files.Upload(w.Context(), ann, file.ID, strings.NewReader("x"))
		require.NoError(w, err)
	})
}
