package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/testkit"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// patience bounds every wait for something that must happen.
const patience = 20 * time.Second

// serving is a `cairn serve` that runs.
type serving struct {
	ready string // its ready file
	url   string
	stop  context.CancelFunc
	ended chan outcome // what it answered, once it ended
}

// serve runs `cairn serve` on a free port until the test ends, or stop is called.
func (s *shell) serve(t *testing.T, args ...string) *serving {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	running := &serving{ready: filepath.Join(t.TempDir(), "ready"), stop: cancel, ended: make(chan outcome, 1)}
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--ready-file", running.ready}, args...)
	gone := make(chan struct{})
	go func() { defer close(gone); running.ended <- s.callWith(ctx, args...) }()
	t.Cleanup(func() { cancel(); <-gone })
	require.Eventually(t, func() bool {
		url, err := os.ReadFile(running.ready)
		running.url = strings.TrimSpace(string(url))
		return err == nil
	}, patience, time.Millisecond)
	s.environ = append(s.environ, "CAIRN_URL="+running.url)
	return running
}

// wait stops the server and answers what it said.
func (r *serving) wait(t *testing.T) outcome {
	t.Helper()
	r.stop()
	select {
	case got := <-r.ended:
		return got
	case <-time.After(patience):
		require.FailNow(t, "the server does not stop")
		return outcome{}
	}
}

// as adds a user and answers a shell of that user's.
func (s *shell) as(name string) *shell {
	added := decoded[identity.NewUser](s, "user", "add", name, "--email", name+"@example.org")
	other := newShell(s.t, s.environ...)
	other.environ = append(other.environ, "CAIRN_API_KEY="+added.APIKey, "XDG_CONFIG_HOME="+s.t.TempDir())
	return other
}

func TestServeStartsAndStops(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newShell(t, "CAIRN_DATABASE="+db.URL)
		server := s.serve(t)
		response, err := http.Get(server.url + "/v1/devices")
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusUnauthorized, response.StatusCode)
		alice := s.as("alice")
		alice.done("session", "create", "--key", "k")
		following, stopFollowing := alice.follow(t, "k")
		following.until(t, "no executor")
		t.Run("SS-STR-8 streams end, and the server with exit code 0", func(t *testing.T) {
			got := server.wait(t)
			require.Equal(t, exitDone, got.code, got.errs)
			require.Empty(t, got.out)
			require.Contains(t, got.errs, "cairn serves")
			require.NotContains(t, got.errs, "codai_")
			require.NoFileExists(t, server.ready)
			following.until(t, "connection lost")
			stopFollowing()
		})
	})
}

func TestServeRefuses(t *testing.T) {
	t.Parallel()
	for _, engine := range testkit.Engines() {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			s := newShell(t, "CAIRN_DATABASE="+testkit.EmptyURL(t, engine))
			s.refused(exitFailed, []string{"cairn migrate up"}, "serve", "--no-migrate", "--listen", "127.0.0.1:0")
			s.refused(exitUsage, []string{"listen"}, "serve", "--listen", "8787")
			server := s.serve(t)
			got := s.call("serve", "--listen", strings.TrimPrefix(server.url, "http://"), "--database", testkit.EmptyURL(t, engine))
			require.Equal(t, exitFailed, got.code)
			require.Contains(t, got.errs, "address already in use")
			require.NotContains(t, got.errs, "cannot reach")
			require.Equal(t, exitDone, server.wait(t).code)
		})
	}
}

func TestServeWritesWhatItDoes(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	server := s.serve(t, "--set", "log.format=json", "--set", "log.level=debug")
	got := server.wait(t)
	require.Equal(t, exitDone, got.code)
	var configured bool
	for line := range strings.Lines(got.errs) {
		var entry map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &entry), line)
		configured = configured || entry["key"] == "log.format" && entry["source"] == "--set"
	}
	require.True(t, configured, "the log explains itself")
	require.Contains(t, got.errs, "made sqlite:/", "where the database is, that it began")
}

func TestServeCannotWriteItsReadyFile(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	got := s.call("serve", "--listen", "127.0.0.1:0", "--ready-file", filepath.Join(t.TempDir(), "none", "ready"))
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.errs, "write ready file")
}

// pipe is the output of a command that still runs.
type pipe struct {
	lines chan string
}

// follow runs `session tail -f` until stop is called, which waits for exit code 0.
func (s *shell) follow(t *testing.T, session string, args ...string) (output *pipe, stop func()) {
	t.Helper()
	reader, writer := io.Pipe()
	output = &pipe{lines: make(chan string, 1000)}
	ctx, cancel := context.WithCancel(t.Context())
	var (
		code int
		errs bytes.Buffer
		all  sync.WaitGroup
	)
	all.Go(func() {
		a := &app{env: env.Real(), out: writer, errs: &errs, environ: s.environ}
		code = run(ctx, a, append([]string{"session", "tail", session, "-f"}, args...))
		_ = writer.Close()
	})
	all.Go(func() {
		defer close(output.lines)
		for scanner := bufio.NewScanner(reader); scanner.Scan(); {
			output.lines <- scanner.Text()
		}
	})
	stop = func() {
		cancel()
		all.Wait()
		require.Equal(t, exitDone, code, errs.String())
	}
	t.Cleanup(func() { cancel(); all.Wait() })
	return output, stop
}

// until answers the lines up to the first that contains text.
func (p *pipe) until(t *testing.T, text string) []string {
	t.Helper()
	var seen []string
	for deadline := time.After(patience); ; {
		select {
		case line, open := <-p.lines:
			require.True(t, open, "ended before %q: %v", text, seen)
			seen = append(seen, line)
			if strings.Contains(line, text) {
				return seen
			}
		case <-deadline:
			require.FailNow(t, "not printed", "%q in %v", text, seen)
		}
	}
}

func TestSessionFromCreateToDelete(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newShell(t, "CAIRN_DATABASE="+db.URL)
		server := s.serve(t)
		alice := s.as("alice")
		created := decoded[wire.Session](alice, "session", "create", "--key", "work", "--title", "Fix it")
		require.Contains(t, alice.done("session", "create", "--key", "work"), "found session "+created.ID+"; work names it too")
		require.Len(t, decoded[struct{ Sessions []wire.ListedSession }](alice, "session", "list").Sessions, 1)
		require.Contains(t, alice.done("session", "list"), "Fix it")
		steerEverything(t, alice, created)
		require.Equal(t, exitDone, server.wait(t).code)
	})
}

func steerEverything(t *testing.T, alice *shell, created wire.Session) {
	t.Helper()
	following, stop := alice.follow(t, "work")
	for i, args := range [][]string{
		{"send", "work", "hello", "world"}, {"answer", "work", "a1", "blue", "--id", "c1"},
		{"approve", "work", "a2", "--id", "c2"}, {"deny", "work", "a3", "no", "--id", "c3"},
		{"cancel", "work"}, {"steer", "work", "left"}, {"inject", "work", "note"}, {"pause", "work"}, {"resume", "work"},
	} {
		receipt := decoded[controlAnswer](alice, append([]string{"session"}, args...)...)
		require.EqualValues(t, i+1, receipt.Seq)
		following.until(t, "control  "+args[0])
	}
	stop()
	require.Contains(t, alice.done("session", "send", "work", "--id", "x", "once"), "is event 10; no executor now: it waits for one")
	require.Contains(t, alice.done("session", "send", "work", "--id", "x", "twice"), "x was sent before, as event 10; what it said first stands")
	require.Equal(t, 3, strings.Count(alice.done("session", "tail", "work", "-n", "3"), "\n"))
	require.Equal(t, 4, strings.Count(alice.done("session", "tail", "work", "--after", "6", "--json"), "\n"))

	device := decoded[struct{ Devices []wire.Device }](alice, "device", "list").Devices[0].ID
	require.Equal(t, wire.ModeOpen, decoded[wire.DispatchReceipt](alice, "dispatch", "work", "--device", device, "--open").Mode)
	require.Contains(t, alice.done("dispatch", "work", "--device", device, "do", "it"), "the device is online")
	require.Contains(t, alice.done("session", "show", "work"), device)
	alice.done("session", "archive", "work")
	require.Empty(t, decoded[struct{ Sessions []wire.ListedSession }](alice, "session", "list").Sessions)
	alice.done("session", "archive", "work", "--undo")
	deleteIt(t, alice)
	alice.refused(exitFailed, []string{"not found"}, "session", "show", created.ID)
	alice.done("device", "rm", device)
}

// deleteIt deletes a session at a terminal, and without one.
func deleteIt(t *testing.T, alice *shell) {
	t.Helper()
	alice.refused(exitUsage, []string{"--yes"}, "session", "delete", "work")
	alice.interactive, alice.stdin = true, "no\n"
	alice.refused(exitFailed, []string{`"Fix it", with 12 events`, "nothing is deleted"}, "session", "delete", "work")
	alice.stdin = "yes"
	got := alice.call("session", "delete", "work")
	require.Equal(t, exitDone, got.code, got.errs)
	require.Contains(t, got.out, "is deleted")
	alice.done("session", "create", "--key", "work")
	require.True(t, decoded[client.Deleted](alice, "session", "delete", "work", "--yes").Deleted)
}

func TestSharing(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newShell(t, "CAIRN_DATABASE="+db.URL)
		server := s.serve(t)
		alice, bob := s.as("alice"), s.as("bob")
		id := decoded[wire.Session](alice, "session", "create").ID
		bob.refused(exitFailed, []string{"Ask the session's owner"}, "session", "show", id)

		byMail := decoded[wire.Share](alice, "session", "share", id, "--email", "bob@example.org", "--role", "editor", "--expires", "1h")
		require.NotNil(t, byMail.ExpiresAt)
		require.Equal(t, wire.RoleEditor, decoded[wire.SessionDetail](bob, "session", "show", id).Role)
		require.Contains(t, bob.done("session", "list", "--shared"), byMail.ID)
		require.Contains(t, alice.done("session", "shares", id), byMail.ID)
		alice.done("session", "unshare", id, byMail.ID)
		bob.refused(exitFailed, nil, "session", "send", id, "hi")

		org := decoded[wire.Org](alice, "org", "create", "acme")
		alice.done("org", "add", org.ID, "--email", "bob@example.org", "--role", "admin")
		require.Contains(t, bob.done("org", "list"), "acme")
		require.Contains(t, bob.done("org", "members", org.ID), "bob@example.org")
		require.Contains(t, alice.done("session", "share", id, "--org", org.ID), "as viewer")
		bob.done("session", "tail", id, "--json")
		alice.done("org", "remove", org.ID, *byMail.PrincipalID)
		bob.refused(exitFailed, nil, "session", "show", id)

		link := decoded[wire.Share](alice, "session", "share", id, "--link")
		bob.environ = append(bob.environ, "CAIRN_SHARE_TOKEN="+link.Token)
		bob.done("session", "show", id)
		require.Equal(t, exitDone, server.wait(t).code)
	})
}

// A stream that the server ends again and again loses and doubles nothing.
func TestTailSurvivesReconnects(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	server := s.serve(t, "--set", "stream.max_age=100ms")
	alice := s.as("alice")
	alice.done("session", "create", "--key", "work")
	following, stop := alice.follow(t, "work")
	connected, err := (&app{env: env.Real(), environ: alice.environ}).connect()
	require.NoError(t, err)
	t.Cleanup(connected.Close)
	_, err = connected.ClaimLease(t.Context(), "work", client.Claim{})
	require.NoError(t, err)
	appended, printed, lost := int64(0), []string{}, 0
	for lost < 3 {
		receipt, err := connected.AppendEvents(t.Context(), "work", client.Append{
			Events: []wire.IncomingEvent{trace.Must("t1", trace.User{Text: "a"}), trace.Must("t1", trace.User{Text: "b"})},
		})
		require.NoError(t, err)
		appended = receipt.LastSeq
		for _, line := range following.until(t, fmt.Sprintf("%5d ", appended)) {
			if strings.Contains(line, "connection lost") {
				lost++
			}
			if strings.Contains(line, "› user") {
				printed = append(printed, strings.Fields(line)[0])
			}
		}
	}
	stop()
	for seq := range appended {
		require.Equal(t, strconv.FormatInt(seq+1, 10), printed[seq])
	}
	require.Len(t, printed, int(appended))
	require.Equal(t, exitDone, server.wait(t).code)
}
