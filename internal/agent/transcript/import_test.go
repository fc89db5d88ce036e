package transcript

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

const patience = 60 * time.Second

// stage is a server with one user.
type stage struct {
	t       *testing.T
	server  *servertest.Server
	account servertest.Account
	folder  string
}

func newStage(t *testing.T, db *testkit.Database) *stage {
	t.Helper()
	server := servertest.Start(t, db, nil)
	return &stage{t, server, server.Account(t, "ada"), t.TempDir()}
}

// device is a new device of the user's.
func (s *stage) device() *client.Client {
	s.t.Helper()
	c, err := client.New(client.Config{BaseURL: s.server.URL, Key: s.account.Key, Device: client.Device{ID: uuid.NewString()}})
	require.NoError(s.t, err)
	s.t.Cleanup(c.Close)
	return c
}

func (s *stage) file(name string, content []byte) string {
	s.t.Helper()
	path := filepath.Join(s.folder, name)
	require.NoError(s.t, os.WriteFile(path, content, 0o600))
	return path
}

func (s *stage) imported(c *client.Client, path string) Report {
	s.t.Helper()
	report, err := Import(s.t.Context(), path, Options{Client: c})
	require.NoError(s.t, err)
	require.True(s.t, report.Complete)
	return report
}

// log is what the session has, and checks that it is what the file says, each event once, in order.
func (s *stage) log(c *client.Client, path, key string) []wire.Event {
	s.t.Helper()
	var stored []wire.Event
	for event, err := range c.AllEvents(s.t.Context(), key, 0) {
		require.NoError(s.t, err)
		stored = append(stored, event)
	}
	content, err := os.ReadFile(path)
	require.NoError(s.t, err)
	_, all := read(s.t, content, "")
	want := events(all)
	require.Len(s.t, stored, len(want))
	for i, event := range want {
		got := wire.IncomingEvent{
			Kind: stored[i].Kind, TS: event.TS, TurnID: stored[i].TurnID, ClientEventID: stored[i].ClientEventID, Payload: stored[i].Payload,
		}
		if event.TS != nil {
			got.TS = &stored[i].TS
		}
		if !reflect.DeepEqual(event, got) { // thousands of require.Equal are slow
			require.Equal(s.t, event, got)
		}
	}
	return stored
}

func (s *stage) requireReleased(c *client.Client, key string) {
	s.t.Helper()
	detail, err := c.GetSession(s.t.Context(), key)
	require.NoError(s.t, err)
	require.Nil(s.t, detail.Lease, "the lease is given back")
}

func TestImportingAgainAddsNothing(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStage(t, db)
		for _, name := range []string{"claude", "codex", "codex_old", "acp", "acp_wrapped"} {
			path := s.file(name+".jsonl", golden(t, name))
			first, second := s.device(), s.device()
			report := s.imported(first, path)
			require.True(t, report.New)
			require.Zero(t, report.Known)
			stored := s.log(first, path, report.SessionKey)
			require.Len(t, stored, report.Added)
			s.requireReleased(first, report.SessionKey)

			again := s.imported(first, path)
			require.Equal(t, report.Added, again.Known)
			t.Run("SS-EVT-2 another device does not know what the first one sent, and yet adds nothing: "+name, func(t *testing.T) {
				other := s.imported(second, path)
				require.Zero(t, other.Added)
				require.Equal(t, report.Added, other.Known)
				require.False(t, other.New)
				require.Equal(t, report.SessionID, other.SessionID)
			})
			require.Len(t, s.log(second, path, report.SessionKey), len(stored))
		}
	})
}

func TestATranscriptThatHasGrownIsContinued(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStage(t, db)
		whole := slices.Collect(strings.Lines(string(golden(t, "claude"))))
		path := s.file("x.jsonl", []byte(strings.Join(whole[:10], "")+whole[10][:20])) // the last line is being written
		report, err := Import(t.Context(), path, Options{Client: s.device()})
		require.NoError(t, err)
		require.Equal(t, []Problem{{11, "it is no JSON: unexpected end of JSON input"}}, report.Problems)

		// Somebody steers the session in between: its echo stands in the log.
		text := "hello"
		c := s.device()
		_, err = c.SendControl(t.Context(), report.SessionKey, wire.IncomingControl{Kind: wire.ControlSend, Text: &text})
		require.NoError(t, err)

		s.file("x.jsonl", golden(t, "claude"))
		grown := s.imported(c, path)
		require.Equal(t, report.Added-1, grown.Known, "all but the end of the first import")
		var ids []string
		for event, err := range c.AllEvents(t.Context(), report.SessionKey, 0) {
			require.NoError(t, err)
			ids = append(ids, *event.ClientEventID)
		}
		require.Len(t, ids, report.Added+grown.Added+1)
		slices.Sort(ids)
		require.Len(t, slices.Compact(slices.Clone(ids)), len(ids), "nothing is there twice")
		require.Zero(t, s.imported(s.device(), path).Added)
	})
}

// bigTranscript writes a transcript of about size bytes, and answers how many events it makes.
func bigTranscript(t testing.TB, path string, size int) (count int) {
	t.Helper()
	file, err := os.Create(path)
	require.NoError(t, err)
	written := 0
	for i := 0; written < size; i++ {
		rest, events := `"message":{"role":"user","content":"do it"}`, 2
		switch i % 10 {
		case 0:
			if i == 0 {
				events = 1
			}
		default:
			rest, events = fmt.Sprintf(`"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t-%d","content":%q}]}`, i, strings.Repeat("output ", 80)), 1
		}
		n, err := fmt.Fprintln(file, claudeLine(fmt.Sprintf("00000000-0000-4000-8000-%012d", i), rest))
		require.NoError(t, err)
		written, count = written+n, count+events
	}
	require.NoError(t, file.Close())
	return count + 1 // the end of the last turn
}

func TestAKilledImportGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStage(t, db)
		path := filepath.Join(s.folder, "big.jsonl")
		count := bigTranscript(t, path, 3<<20)
		c := s.device()
		self, err := os.Executable()
		require.NoError(t, err)
		for _, after := range []int64{1, 800, 2000} {
			command := exec.Command(self)
			command.Env = append(os.Environ(), importVariable+"="+strings.Join([]string{s.server.URL, s.account.Key, c.DeviceID(), path}, "\n"))
			require.NoError(t, command.Start())
			var last int64
			require.Eventually(t, func() bool {
				detail, err := c.GetSession(t.Context(), "import:claude:s")
				if err == nil {
					last = detail.LastSeq
				}
				return last >= after
			}, patience, 10*time.Millisecond)
			require.NoError(t, command.Process.Kill())
			require.Error(t, command.Wait())
			require.Less(t, last, int64(count), "it was killed in the middle")
		}
		report := s.imported(c, path)
		require.Equal(t, count, report.Added+report.Known)
		require.NotZero(t, report.Known)
		require.Len(t, s.log(c, path, report.SessionKey), count)
		require.Zero(t, s.imported(s.device(), path).Added)
	})
}

func TestALargeTranscriptIsReadInLittleMemory(t *testing.T) {
	t.Parallel()
	const size, most = 24 << 20, 64 << 20
	path := filepath.Join(t.TempDir(), "large.jsonl")
	count := bigTranscript(t, path, size)
	self, err := os.Executable()
	require.NoError(t, err)
	command := exec.Command(self)
	command.Env = append(os.Environ(), importVariable+"="+path)
	out, err := command.Output()
	require.NoError(t, err)
	var events, memory int
	_, err = fmt.Sscan(string(out), &events, &memory)
	require.NoError(t, err)
	require.Equal(t, count, events)
	require.Less(t, memory, most, "bytes of memory")
}

func TestAnInterruptedImportGivesTheLeaseBack(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStage(t, db)
		path := filepath.Join(s.folder, "big.jsonl")
		count := bigTranscript(t, path, 2<<20)
		c := s.device()
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		report, err := Import(ctx, path, Options{Client: c, Progress: func(p Progress) {
			if p.Events > count/2 {
				interrupt()
			}
		}})
		require.ErrorIs(t, err, context.Canceled)
		require.False(t, report.Complete)
		s.requireReleased(c, report.SessionKey)
		detail, err := c.GetSession(t.Context(), report.SessionKey)
		require.NoError(t, err)
		require.Equal(t, int64(report.Added), detail.LastSeq, "what was read is stored")
		rest := s.imported(s.device(), path)
		require.Equal(t, report.Added, rest.Known)
		s.log(c, path, report.SessionKey)
	})
}

func TestALeaseThatIsTakenEndsTheImport(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStage(t, db)
		path := filepath.Join(s.folder, "big.jsonl")
		bigTranscript(t, path, 2<<20)
		c, other := s.device(), s.device()
		taken := false
		report, err := Import(t.Context(), path, Options{Client: c, Progress: func(p Progress) {
			if p.Events > 1000 && !taken {
				_, err := other.ClaimLease(t.Context(), "import:claude:s", client.Claim{Force: true})
				taken = err == nil
			}
		}})
		require.True(t, taken)
		require.ErrorIs(t, err, ErrTaken)
		require.ErrorContains(t, err, other.DeviceID())
		require.False(t, report.Complete)

		_, err = Import(t.Context(), path, Options{Client: c})
		require.ErrorIs(t, err, ErrHeld)
		_, err = other.ReleaseLease(t.Context(), "import:claude:s")
		require.NoError(t, err)
		s.imported(c, path)
		require.Zero(t, s.imported(other, path).Added)
	})
}

func TestTitlesOfSessions(t *testing.T) {
	t.Parallel()
	s := newStage(t, testkit.New(t, testkit.SQLite))
	c := s.device()
	title := func(key string) string {
		detail, err := c.GetSession(t.Context(), key)
		require.NoError(t, err)
		return *detail.Title
	}
	asked := claudeLine("1", said("asked"))
	path := s.file("a.jsonl", lines(asked))
	report := s.imported(c, path)
	require.Equal(t, "asked", title(report.SessionKey))
	s.file("a.jsonl", lines(asked, `{"type":"custom-title","customTitle":"Mine","sessionId":"s"}`))
	require.Equal(t, "Mine", s.imported(c, path).Title)
	require.Equal(t, "Mine", title(report.SessionKey))

	renamed := "by a person"
	_, err := c.PatchSession(t.Context(), report.SessionKey, client.SessionPatch{Title: &renamed})
	require.NoError(t, err)
	s.imported(c, path)
	require.Equal(t, renamed, title(report.SessionKey), "a name that a person gave stays")
	_, err = Import(t.Context(), path, Options{Client: c, Title: "of the option"})
	require.NoError(t, err)
	require.Equal(t, "of the option", title(report.SessionKey))
}

func TestWhatIsNotImported(t *testing.T) {
	t.Parallel()
	s := newStage(t, testkit.New(t, testkit.SQLite))
	c := s.device()
	_, err := Import(t.Context(), filepath.Join(s.folder, "none"), Options{Client: c})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Import(t.Context(), s.folder, Options{Client: c})
	require.ErrorContains(t, err, "is no file")
	_, err = Import(t.Context(), s.file("x.txt", []byte("hello")), Options{Client: c})
	require.ErrorIs(t, err, ErrUnknownFormat)

	sealed := s.file("sealed.jsonl", lines(claudeLine("1", said("x"))))
	_, err = c.CreateSession(t.Context(), client.NewSession{SessionKey: "import:claude:s", E2E: true})
	require.NoError(t, err)
	_, err = Import(t.Context(), sealed, Options{Client: c})
	require.ErrorIs(t, err, ErrSealed)

	report, err := Import(t.Context(), sealed, Options{DryRun: true})
	require.NoError(t, err)
	require.Equal(t, 2, report.Added)
	require.Empty(t, report.SessionID)
}

func TestALargeEventIsTakenByTheServer(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStage(t, db)
		c := s.device()
		path := s.file("large.jsonl", lines(
			claudeLine("1", said("x")), fmt.Sprintf(`{"type":"x","sessionId":"s","text":%q}`, strings.Repeat("<", 13<<20)), claudeLine("2", said("y")),
		))
		report := s.imported(c, path)
		require.Equal(t, 1, report.Cut)
		page, err := c.Events(t.Context(), report.SessionKey, client.EventsQuery{After: 2, Limit: 1})
		require.NoError(t, err)
		require.Equal(t, trace.KindTurnEnd, page.Events[0].Kind)
	})
}
