package run_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/internal/agent/run"
	"github.com/cairnsync/cairn/internal/env"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// runVariable makes the test binary a process that runs an agent, until its standard input ends.
const runVariable = "CAIRN_TEST_RUN"

// role is what such a process is told.
type role struct {
	URL, Key, Device, Session, Root, Folder string
	Command                                 []string
}

// runAsProcess is the life of a process that stage.process made; in any other process it does nothing.
func runAsProcess() {
	told := os.Getenv(runVariable)
	if told == "" {
		return
	}
	if err := play(told); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func play(told string) error {
	var r role
	if err := json.Unmarshal([]byte(told), &r); err != nil {
		return err
	}
	client, err := sessions.New(sessions.Config{BaseURL: r.URL, Key: r.Key, Device: sessions.Device{ID: r.Device, Platform: wire.PlatformDesktop}})
	if err != nil {
		return err
	}
	runner, err := run.Start(context.Background(), run.Options{
		Client: client, Session: r.Session, Command: r.Command, Root: r.Root, Folder: r.Folder, Stderr: os.Stderr, Env: env.Real(),
	})
	if err != nil {
		return err
	}
	fmt.Println("started")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return runner.Stop(context.Background())
}

// process is a runner of its own that can be killed.
type process struct {
	command *exec.Cmd
	stdin   io.Closer
}

// process starts the scripted agent on the desktop, in a process that reaches the server at url.
func (s *stage) process(url string, agent ...string) *process {
	self, err := os.Executable()
	require.NoError(s.t, err)
	told, err := json.Marshal(role{
		URL: url, Key: s.key, Device: desktop, Session: s.session, Root: s.root, Folder: s.folder, Command: s.options(agent...).Command,
	})
	require.NoError(s.t, err)
	command := exec.Command(self)
	command.Env = append(os.Environ(), runVariable+"="+string(told))
	command.Stderr = s.t.Output()
	stdin, err := command.StdinPipe()
	require.NoError(s.t, err)
	stdout, err := command.StdoutPipe()
	require.NoError(s.t, err)
	require.NoError(s.t, command.Start())
	p := &process{command, stdin}
	s.t.Cleanup(p.kill)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(s.t, err, "the process did not start")
	require.Equal(s.t, "started", strings.TrimSpace(line))
	return p
}

// kill ends the process without warning (SIGKILL); its agent ends with its standard input.
func (p *process) kill() {
	_ = p.command.Process.Kill()
	_ = p.command.Wait()
	_ = p.stdin.Close()
}
