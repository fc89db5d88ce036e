package workspace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	readyWithin = 30 * time.Second
	readyPoll   = 10 * time.Millisecond
	endWithin   = 15 * time.Second // of a server whose input ended; then it is killed
)

// server is a server as a process of its own. It ends when its input does: nothing of it outlives who started it.
type server struct {
	url  string
	cmd  *exec.Cmd
	in   io.WriteCloser
	errs bytes.Buffer
	done chan error // gets how it ended
}

// settings are of the demonstration's server: small bounds, so that what happens at them can be shown.
var settings = []string{
	"CAIRN_LOG_LEVEL=warn", "CAIRN_SYNC_OUTBOUND_QUEUE_MAX=64", "CAIRN_GATEWAY_WRITE_TIMEOUT=2s", "CAIRN_SYNC_CURSOR_ADVANCE_EVERY=1",
	"CAIRN_LIMITS_ENABLED=false",
}

// serve starts a server; again it listens where it did before.
func (s *stage) serve(ctx context.Context) error {
	listen := "127.0.0.1:0"
	if s.server != nil {
		before, err := url.Parse(s.server.url)
		if err != nil {
			return fmt.Errorf("read the server's address: %w", err)
		}
		listen = before.Host
	}
	ready := filepath.Join(s.folder, "ready")
	if err := os.Remove(ready); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove ready file: %w", err)
	}
	made := &server{done: make(chan error, 1)}
	made.cmd = exec.Command(s.program, "demo", "play", "server") //nolint:gosec,noctx // this program itself, ended by stop
	made.cmd.Env = append(append(append([]string{}, s.environ...), settings...),
		"CAIRN_DATABASE="+s.database, "CAIRN_LISTEN="+listen, "CAIRN_READY_FILE="+ready)
	made.cmd.Stderr = &made.errs
	var err error
	if made.in, err = made.cmd.StdinPipe(); err != nil {
		return fmt.Errorf("start server: %w", err)
	}
	if err := made.cmd.Start(); err != nil {
		return fmt.Errorf("start server: %w", err)
	}
	s.server = made
	go func() { made.done <- made.cmd.Wait() }()
	made.url, err = made.await(ctx, ready)
	return err
}

// await waits until the server says where it is.
func (v *server) await(ctx context.Context, ready string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	poll := time.NewTicker(readyPoll)
	defer poll.Stop()
	for {
		content, err := os.ReadFile(ready)
		if err == nil {
			return strings.TrimSpace(string(content)), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("wait for the server: %w", err)
		}
		select {
		case <-poll.C:
		case err := <-v.done:
			v.done <- err
			return "", fmt.Errorf("start the server: it ended\n  %s", strings.TrimSpace(v.errs.String()))
		case <-ctx.Done():
			return "", fmt.Errorf("wait for the server: %w", ctx.Err())
		}
	}
}

// stop ends the server in good order; again it does nothing.
func (v *server) stop() error {
	if v == nil || v.in == nil {
		return nil
	}
	_ = v.in.Close() // which tells it to
	v.in = nil
	timer := time.NewTimer(endWithin)
	defer timer.Stop()
	select {
	case err := <-v.done:
		if err != nil {
			return fmt.Errorf("server: %w\n  %s", err, strings.TrimSpace(v.errs.String()))
		}
		return nil
	case <-timer.C:
		_ = v.cmd.Process.Kill() // fails only when it has ended
		how := <-v.done
		return fmt.Errorf("server: did not end within %v: %w", endWithin, how)
	}
}

// run runs a command of this program to its end and decodes what it printed as JSON.
func (s *stage) run(ctx context.Context, input string, into any, args ...string) error {
	cmd := exec.CommandContext(ctx, s.program, append(args, "--json")...) //nolint:gosec // this program itself
	cmd.Env = append(append([]string{}, s.environ...), "CAIRN_DATABASE="+s.database, "XDG_CONFIG_HOME="+filepath.Join(s.folder, "config"),
		"AppData="+filepath.Join(s.folder, "config"), "HOME="+filepath.Join(s.folder, "config"))
	if s.server != nil {
		cmd.Env = append(cmd.Env, "CAIRN_URL="+s.server.url)
	}
	cmd.Stdin = strings.NewReader(input)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("run cairn %s: %w\n  %s", strings.Join(args[:2], " "), err, strings.TrimSpace(errs.String()))
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("read what cairn %s printed: %w", strings.Join(args[:2], " "), err)
	}
	return nil
}
