package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// asProgram makes this test's program behave as cairn itself.
const asProgram = "CAIRN_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

const patience = 20 * time.Second

func cairn(t *testing.T, folder string, args ...string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), program, args...)
	command.Dir = folder
	command.Env = append(os.Environ(), asProgram+"=1", "CAIRN_DATABASE=sqlite:cairn.db")
	return command
}

// serve starts a server and answers its process and address.
func serve(t *testing.T, folder string) (server *exec.Cmd, log *bytes.Buffer, address string) {
	t.Helper()
	server, log = cairn(t, folder, "serve", "--listen", "127.0.0.1:0", "--ready-file", "ready"), new(bytes.Buffer)
	server.Stderr = log
	require.NoError(t, server.Start())
	require.Eventually(t, func() bool {
		content, err := os.ReadFile(filepath.Join(folder, "ready"))
		if err != nil {
			return false
		}
		base, err := url.Parse(strings.TrimSpace(string(content)))
		require.NoError(t, err)
		address = base.Host
		return true
	}, patience, time.Millisecond)
	return server, log, address
}

func TestATerminatedServerIsDone(t *testing.T) {
	t.Parallel()
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			server, log, _ := serve(t, t.TempDir())
			require.NoError(t, server.Process.Signal(signal))
			require.NoError(t, server.Wait(), log)
			require.Contains(t, log.String(), "stopped")
		})
	}
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	server, log, address := serve(t, folder)
	out, err := cairn(t, folder, "user", "add", "alice", "--json").Output()
	require.NoError(t, err)
	var added struct {
		APIKey string `json:"api_key"`
	}
	require.NoError(t, json.Unmarshal(out, &added))

	// A request whose body never comes keeps the server from stopping in good order.
	var dialer net.Dialer
	socket, err := dialer.DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	_, err = fmt.Fprintf(socket, "POST /v1/sessions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
		"X-Codai-Device: 11111111-1111-4111-8111-111111111111\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n", added.APIKey)
	require.NoError(t, err)
	_, err = socket.Read(make([]byte, len("HTTP/1.1 100")))
	require.NoError(t, err, "the server reads the body now")

	ended := make(chan error, 1)
	require.NoError(t, server.Process.Signal(syscall.SIGTERM))
	go func() { ended <- server.Wait() }()
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(folder, "ready"))
		return os.IsNotExist(err)
	}, patience, time.Millisecond, "it began to stop")
	require.NoError(t, server.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-ended:
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, log)
		status, ok := exit.Sys().(syscall.WaitStatus)
		require.True(t, ok && status.Signaled(), "ended by the signal: %v", err)
	case <-time.After(patience):
		require.FailNow(t, "it still runs", log)
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for code, args := range map[int][]string{0: {"version"}, 1: {"key", "revoke", "none"}, 2: {"nope"}} {
		err := cairn(t, folder, args...).Run()
		if code == 0 {
			require.NoError(t, err)
			continue
		}
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, code, exit.ExitCode(), "%v", args)
	}
}
