// Package crash runs a cairn server as a process of its own, so that tests can kill it without
// warning and start it again on the same database.
//
// The process is the test binary itself: TestMain calls Serve first. A Process also ends with the
// test, and with the test binary however that ends. A Process is used by one goroutine; its URL by any.
package crash

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/server"
)

// serveVariable makes a test binary a server with the settings it holds, one key=value on each line.
const serveVariable = "CAIRN_TEST_SERVE"

// Serve is the life of a process that Start made, which it ends; in any other process it does nothing.
func Serve() {
	settings := os.Getenv(serveVariable)
	if settings == "" {
		return
	}
	if err := serve(strings.Split(settings, "\n")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve runs until the pipe of its parent ends.
func serve(settings []string) error {
	ctx := context.Background()
	loaded, _, err := config.Load(config.Sources{Set: settings})
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	node, err := server.New(ctx, server.Options{Config: loaded, Log: log, Env: env.Real()})
	if err != nil {
		return err
	}
	if err := node.Start(ctx); err != nil {
		return err
	}
	fmt.Println(node.URL())
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return fmt.Errorf("wait for the parent: %w", err)
	}
	return node.Stop(ctx)
}

// Process is a server that can be killed. Its URL stays the last one while it is down.
type Process struct {
	t        testing.TB
	settings []string
	url      atomic.Pointer[string]
	command  *exec.Cmd
	stdin    io.Closer
	log      *lockedBuffer
}

// Start runs a server on a migrated database; settings are more of its configuration, as key=value.
func Start(t testing.TB, database string, settings ...string) *Process {
	t.Helper()
	settings = append([]string{"listen=127.0.0.1:0", "database=" + database}, settings...)
	p := &Process{t: t, settings: settings, log: &lockedBuffer{}}
	t.Cleanup(func() {
		if p.command != nil {
			p.Kill()
		}
		if t.Failed() {
			t.Logf("log of the server process:\n%s", p.log)
		}
	})
	p.Restart()
	return p
}

// URL is the base URL of the running server, or of the last one.
func (p *Process) URL() string { return *p.url.Load() }

// PID is the process id of the running server.
func (p *Process) PID() int { return p.command.Process.Pid }

// Kill kills the server without warning (SIGKILL) and waits until it is gone.
func (p *Process) Kill() {
	p.t.Helper()
	require.NoError(p.t, p.command.Process.Kill())
	_ = p.command.Wait() // it ended as asked
	_ = p.stdin.Close()
	p.command = nil
}

// Restart starts the server again and waits until it serves.
func (p *Process) Restart() {
	p.t.Helper()
	self, err := os.Executable()
	require.NoError(p.t, err)
	command := exec.Command(self)
	command.Env = append(os.Environ(), serveVariable+"="+strings.Join(p.settings, "\n"))
	command.Stderr = p.log
	p.stdin, err = command.StdinPipe()
	require.NoError(p.t, err)
	stdout, err := command.StdoutPipe()
	require.NoError(p.t, err)
	require.NoError(p.t, command.Start())
	p.command = command
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(p.t, err, "the server did not start: %s", p.log)
	url := strings.TrimSpace(line)
	p.url.Store(&url)
}

// lockedBuffer is what several processes, one after the other, wrote.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (b *lockedBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
