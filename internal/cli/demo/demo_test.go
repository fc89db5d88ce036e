package demo_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	ossignal "os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/cairnsync/cairn/internal/cli"
	"github.com/cairnsync/cairn/internal/cli/demo"
	"github.com/cairnsync/cairn/internal/cli/render"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
)

// speed plays the run in about two seconds beside what the network takes.
const speed = 12

// TestMain lets this program be what the demonstration starts: cairn.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		ctx, stop := ossignal.NotifyContext(context.Background(), os.Interrupt)
		code := cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
		stop()
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

// environ would break every part if it reached one.
func environ(t *testing.T) []string {
	t.Helper()
	return append(os.Environ(), "CAIRN_LISTEN=nonsense", "CAIRN_API_KEY=nonsense")
}

func TestDemonstrationOnGivenDatabases(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		var out bytes.Buffer
		require.NoError(t, demo.Run(t.Context(), demo.Options{
			Database: db.URL, Speed: speed, Out: &out, Environ: environ(t), Env: testkit.Env(),
		}), out.String())
		requireShown(t, out.String(), map[string]string{testkit.SQLite: "SQLite", testkit.Postgres: "PostgreSQL"}[db.Engine])

		users, err := identity.New(db.DB, signal.NewLocal(), testkit.Env()).ListUsers(t.Context())
		require.NoError(t, err)
		require.Len(t, users, 3)
		for i, user := range users {
			require.Zero(t, user.LiveKeys, "nobody can come back with a key of the demonstration")
			require.Equal(t, i > 0, user.DisabledAt != nil, "the first one owns the instance and stays")
		}
	})
}

// requireShown checks the whole story and the table.
func requireShown(t *testing.T, text, engine string) {
	t.Helper()
	for _, pattern := range []string{
		`━━ Ana's laptop takes the lease and begins`,
		`━━ Carla's browser joins late, by a link, and gets everything from event 1`,
		`» control  pause  from Bogdan's desktop`,
		`‖ run      paused\n`,
		`‖ run      running\n`,
		`⇄ lease    taken over from Ana's laptop by Ana's workstation`,
		`━━ Ana's laptop has lost the lease and stops`,
		`━━ Ana's workstation takes the lease by force and goes on after event \d+`,
		`! answer   ask-migrate → once  by Bogdan's desktop`,
		`» control  steer: Never touch invoices`,
		`▶ turn     Thank you\. Now write the release note`,
		`(?m)^Ana's phone +SSE +263 +0 +0 +[2-9] +[0-9a-f]{16}$`,
		`(?m)^Bogdan's desktop +WebSocket +263 +0 +0 +\d+ +[0-9a-f]{16}$`,
		`(?m)^Carla's browser +WebSocket +263 +0 +0 +\d+ +[0-9a-f]{16}$`,
		`(?m)^server +` + engine + ` +263 +- +- +- +[0-9a-f]{16}$`,
		`(?m)^Controls   5 sent by Bogdan's desktop, 5 applied: pause, resume, approve, steer, send$`,
		`(?m)^Recording  249 of 249 lines stand in the log exactly once$`,
		`✔ Every log is the server's: no gap, no duplicate\.`,
	} {
		require.Regexp(t, pattern, text)
	}
	require.Equal(t, 2, strings.Count(text, "Ana's phone loses its connection"))
	digests := regexp.MustCompile(`[0-9a-f]{16}\n`).FindAllString(text, -1)
	require.Len(t, digests, 4)
	for _, digest := range digests {
		require.Equal(t, digests[0], digest)
	}
	require.NotContains(t, text, "codai_", "no key is shown")
	require.NotContains(t, text, "\x1b", "plain lines")
}

func TestDemonstrationOnATerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, demo.Run(t.Context(), demo.Options{
		Speed: speed, Out: &out, Environ: environ(t), Env: testkit.Env(), Render: render.Renderer{Color: true},
		Size: func() (width, height int) { return 100, 30 },
	}), out.String())
	screen, after, left := strings.Cut(out.String(), "\x1b[?1049l")
	require.True(t, left, "the terminal is given back")
	require.Contains(t, screen, "offline")
	require.Contains(t, screen, "(took the lease by force)")
	require.Regexp(t, `(?m)^server +SQLite +263 `, after, "on a file of its own")
	require.Contains(t, after, "Every log is the server's")
}

// launched is a demonstration as a process, with a folder for its temporary files.
type launched struct {
	*exec.Cmd

	folder string
	out    *bufio.Reader
	errs   bytes.Buffer
}

// launch starts a demonstration and returns when the agent works.
func launch(t *testing.T) *launched {
	t.Helper()
	l := &launched{Cmd: exec.Command(os.Args[0], "demo"), folder: t.TempDir()}
	l.Env = append(environ(t), "TMPDIR="+l.folder, "TMP="+l.folder)
	l.Stderr = &l.errs
	out, err := l.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, l.Start())
	l.out = bufio.NewReader(out)
	for text := ""; !strings.Contains(text, "step     2"); {
		text, err = l.out.ReadString('\n')
		require.NoError(t, err)
	}
	require.NotEmpty(t, l.files(t), "the database is there")
	return l
}

func (l *launched) files(t require.TestingT) []string {
	files, err := filepath.Glob(filepath.Join(l.folder, "cairn-demo-*"))
	require.NoError(t, err)
	return files
}

func (l *launched) drain() { _, _ = io.Copy(io.Discard, l.out) }

func TestInterruptedDemonstrationLeavesNothing(t *testing.T) {
	t.Parallel()
	l := launch(t)
	require.NoError(t, l.Process.Signal(os.Interrupt))
	l.drain()
	require.Error(t, l.Wait())
	require.Equal(t, 1, l.ProcessState.ExitCode())
	require.Equal(t, "cairn: interrupted\n", l.errs.String())
	require.Empty(t, l.files(t))
}

// Nobody is left to end the parts and to remove the files: they do it themselves.
func TestKilledDemonstrationLeavesNothing(t *testing.T) {
	t.Parallel()
	l := launch(t)
	require.NoError(t, l.Process.Kill())
	l.drain()
	require.Error(t, l.Wait())
	require.EventuallyWithT(t, func(c *assert.CollectT) { require.Empty(c, l.files(c)) }, 30*time.Second, 20*time.Millisecond)
}

func TestCancelledDemonstrationEndsItsServer(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out := &trigger{at: "follows over SSE", do: interrupt}
	database := "sqlite:" + filepath.Join(t.TempDir(), "cairn.db")
	err := demo.Run(ctx, demo.Options{Database: database, Speed: speed, Out: out, Environ: environ(t), Env: testkit.Env()})
	require.ErrorIs(t, err, context.Canceled)
	require.NotContains(t, out.text.String(), "Every log")
	// A server keeps others from serving its file, so this one has ended.
	testkit.Open(t, storage.Options{URL: database, Env: testkit.Env(), Migrate: storage.MigrateRefuse, Server: true})
}

// trigger does something when a text is written.
type trigger struct {
	at   string
	do   func()
	text bytes.Buffer
}

func (w *trigger) Write(text []byte) (int, error) {
	if strings.Contains(string(text), w.at) {
		w.do()
	}
	return w.text.Write(text)
}

func TestOutputThatCannotBeWrittenEndsIt(t *testing.T) {
	t.Parallel()
	err := demo.Run(t.Context(), demo.Options{Speed: speed, Out: broken{}, Environ: environ(t), Env: testkit.Env()})
	require.ErrorIs(t, err, errBroken)
}

var errBroken = errors.New("pipe is broken")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestDatabaseThatCannotBeServedIsExplained(t *testing.T) {
	t.Parallel()
	err := demo.Run(t.Context(), demo.Options{
		Database: "postgres://u:hunter2@127.0.0.1:1/none", Speed: speed, Out: &bytes.Buffer{}, Environ: environ(t), Env: testkit.Env(),
	})
	require.ErrorContains(t, err, "start the server")
	require.ErrorContains(t, err, "127.0.0.1")
	require.NotContains(t, err.Error(), "hunter2")
}

func TestSpeedHasBounds(t *testing.T) {
	t.Parallel()
	for _, speed := range []float64{0, -1, 0.05, 101} {
		require.ErrorContains(t, demo.Run(t.Context(), demo.Options{Speed: speed, Env: testkit.Env()}), "--speed")
	}
}
