package sessions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/sessions"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func openJournal(t *testing.T, path string) *sessions.Journal {
	journal, err := sessions.OpenJournal(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = journal.Close() })
	return journal
}

func TestJournal(t *testing.T) {
	t.Parallel()
	t.Run("what was emitted while the server was away is stored by the next executor, once and in order", func(t *testing.T) {
		t.Parallel()
		f := newFake()
		var away atomic.Bool
		var stored atomic.Int32
		f.before = on("POST /events", func(w http.ResponseWriter, r *http.Request) bool { return away.Load() && broken(w, r) })
		f.after = func(r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/events") && stored.Add(1) == 1 {
				panic(http.ErrAbortHandler) // the answer of the first batch is lost
			}
		}
		path := filepath.Join(t.TempDir(), "journal")
		journal := openJournal(t, path)
		first := execute(t, f.over(t), sessions.ExecutorOptions{Journal: journal})
		emit(t, first, 1, 5)
		require.NoError(t, first.Flush(t.Context()))
		require.Zero(t, journal.Waiting())
		away.Store(true)
		emit(t, first, 6, 200)
		leaving, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, first.Stop(leaving), sessions.ErrUnsent)
		require.Equal(t, 195, journal.Waiting())
		require.NoError(t, journal.Close())

		away.Store(false)
		again := openJournal(t, path)
		require.Equal(t, 195, again.Waiting())
		second := execute(t, f.over(t), sessions.ExecutorOptions{Journal: again})
		emit(t, second, 201, 202)
		require.NoError(t, second.Stop(t.Context()))
		require.Equal(t, numbered(1, 202), f.kinds())
		require.NoError(t, again.Close())
		require.NoFileExists(t, path)
	})
	t.Run("a torn record is dropped, another one that cannot be read is refused", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "journal")
		whole := `{"event":{"kind":"a","client_event_id":"1","payload":{"n":1e400}}}` + "\n" +
			`{"event":{"kind":"b","client_event_id":"2","payload":{}}}` + "\n" + `{"settled":1}` + "\n"
		require.NoError(t, os.WriteFile(path, []byte(whole+`{"event":{"kind":"c","client`), 0o600))
		journal := openJournal(t, path)
		require.Equal(t, 1, journal.Waiting())
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, whole, string(content))
		for _, wrong := range []string{"no JSON\n", `{"settled":3}` + "\n", `{"settled":-1}` + "\n"} {
			other := filepath.Join(t.TempDir(), "journal")
			require.NoError(t, os.WriteFile(other, []byte(whole+wrong), 0o600))
			_, err := sessions.OpenJournal(other)
			require.ErrorContains(t, err, "line 4")
		}
	})
	t.Run("the file does not grow with what was stored", func(t *testing.T) {
		t.Parallel()
		f := newFake()
		path := filepath.Join(t.TempDir(), "journal")
		journal := openJournal(t, path)
		executor := execute(t, f.over(t), sessions.ExecutorOptions{Journal: journal, QueueEvents: 40})
		payload := json.RawMessage(fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 64<<10)))
		largest := int64(0)
		for range 400 { // 26 MB
			require.NoError(t, executor.Emit(t.Context(), wire.IncomingEvent{Kind: "big", Payload: payload}))
			info, err := os.Stat(path)
			require.NoError(t, err)
			largest = max(largest, info.Size())
		}
		require.NoError(t, executor.Stop(t.Context()))
		require.Less(t, largest, int64(12<<20))
		require.Len(t, f.kinds(), 400)
	})
	t.Run("what waits for room when the lease is lost is kept, beyond the bounds", func(t *testing.T) {
		t.Parallel()
		f := newFake()
		journal := openJournal(t, filepath.Join(t.TempDir(), "journal"))
		f.before = on("POST /events", broken)
		executor := execute(t, f.over(t), sessions.ExecutorOptions{Journal: journal, QueueEvents: 2})
		emit(t, executor, 1, 2)
		waited := make(chan error)
		go func() { waited <- executor.Emit(t.Context(), wire.IncomingEvent{Kind: "k3"}) }()
		f.take(other)
		require.ErrorIs(t, <-waited, sessions.ErrLeaseLost)
		require.ErrorIs(t, executor.Emit(t.Context(), wire.IncomingEvent{Kind: "k4"}), sessions.ErrLeaseLost)
		<-executor.Done()
		var left []string
		for _, event := range journal.Events() {
			left = append(left, event.Kind)
		}
		require.Equal(t, numbered(1, 4), left)
	})
	t.Run("what cannot be stored any more is set aside", func(t *testing.T) {
		t.Parallel()
		f := newFake()
		path := filepath.Join(t.TempDir(), "journal")
		journal := openJournal(t, path)
		f.before = on("POST /events", broken)
		executor := execute(t, f.over(t), sessions.ExecutorOptions{Journal: journal})
		emit(t, executor, 1, 3)
		f.take(other)
		<-executor.Done()
		require.ErrorIs(t, executor.Err(), sessions.ErrUnsent)
		require.ErrorIs(t, executor.Stop(t.Context()), sessions.ErrLeaseLost, "a stop afterwards hides nothing")
		require.ErrorIs(t, executor.Err(), sessions.ErrUnsent)
		aside := filepath.Join(t.TempDir(), "unsent.jsonl")
		count, err := journal.SetAside(aside)
		require.NoError(t, err)
		require.Equal(t, 3, count)
		content, err := os.ReadFile(aside)
		require.NoError(t, err)
		require.Equal(t, 3, strings.Count(string(content), "\n"))
		require.Contains(t, string(content), `"kind":"k3"`)
		require.Zero(t, journal.Waiting())
	})
}

func TestJournalWithoutRoom(t *testing.T) {
	t.Parallel()
	f := newFake()
	journal := openJournal(t, filepath.Join(t.TempDir(), "journal"))
	executor := execute(t, f.over(t), sessions.ExecutorOptions{Journal: journal})
	emit(t, executor, 1, 2)
	require.NoError(t, executor.Flush(t.Context()))
	require.NoError(t, journal.Room())
	require.NoError(t, journal.Close()) // nothing can be written from here on, as on a full disk
	require.ErrorIs(t, journal.Room(), sessions.ErrNoJournalRoom)
	require.ErrorIs(t, executor.Emit(t.Context(), wire.IncomingEvent{Kind: "lost"}), sessions.ErrNoJournalRoom)
	for i := 3; i <= 5; i++ {
		require.NoError(t, executor.EmitLast(wire.IncomingEvent{Kind: fmt.Sprintf("e%d", i)}))
	}
	require.NoError(t, executor.Stop(t.Context()), "the last ones reach the server all the same")
	require.Subset(t, f.kinds(), []string{"e3", "e4", "e5"})
	require.NotContains(t, f.kinds(), "lost")
	require.Zero(t, journal.Waiting())
}
