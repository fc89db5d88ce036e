package cli

import (
	"bytes"
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/internal/env"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// An executor that follows the session is named wherever it appears.
func TestWhatAnExecutorChanges(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	server := s.serve(t)
	alice := s.as("alice")
	alice.done("session", "create", "--key", "work")
	agent, err := client.New(client.Config{
		BaseURL: server.url, Key: (&app{environ: alice.environ}).getenv(envKey),
		Device: client.Device{ID: client.NewID(), Platform: wire.PlatformAgent, Name: "the agent"},
	})
	require.NoError(t, err)
	t.Cleanup(agent.Close)
	following, stop := alice.follow(t, "work")
	following.until(t, "is here")
	executor, err := agent.Execute(t.Context(), "work", client.ExecutorOptions{
		Heartbeat: 50 * time.Millisecond, OnControl: func(context.Context, wire.Control) error { return nil },
	})
	require.NoError(t, err)
	following.until(t, "executor is the agent")
	require.Equal(t, "send is event 1\n", alice.done("session", "send", "work", "hello"))
	applied := following.until(t, "applied")
	require.Contains(t, applied[len(applied)-1], "send, event 1")
	require.Eventually(t, func() bool {
		said := alice.done("dispatch", "work", "--device", agent.DeviceID(), "--open")
		return strings.Contains(said, "the device has the session open")
	}, patience, time.Millisecond)
	following.until(t, "open here → the agent")
	show := alice.done("session", "show", "work")
	require.Contains(t, show, "the agent, "+agent.DeviceID()+" until ")
	require.Contains(t, show, "(you)")
	require.NoError(t, executor.Stop(t.Context()))
	for _, line := range following.until(t, "no executor") {
		require.NotContains(t, line, "executor is the agent", "heartbeats say nothing new")
	}
	stop()
}

func TestTheURLIsWithoutItsVersion(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	server := s.serve(t)
	alice := s.as("alice")
	alice.environ = append(alice.environ, "CAIRN_URL="+server.url+"/v1")
	alice.refused(exitFailed, []string{"CAIRN_URL says where the server is, without /v1"}, "session", "list")
	alice.refused(exitFailed, []string{`{"error":{"message":"`, `"code":"not_found"}}`}, "session", "list", "--json")
}

func TestUnknownVariablesAreAWarning(t *testing.T) {
	t.Parallel()
	s := newShell(t, "CAIRN_PORT=tcp://10.0.0.1:8787", "CAIRN_LISTN=x", "CAIRN_LOG_LEVEL=")
	got := s.serve(t).wait(t)
	require.Equal(t, exitDone, got.code, got.errs)
	require.Regexp(t, `level=WARN .*CAIRN_PORT `, got.errs)
	require.Contains(t, got.errs, "did you mean CAIRN_LISTEN?")
	require.NotContains(t, s.done("user", "add", "x"), "CAIRN_LISTN", "commands say nothing about them")
}

func TestSharesAddUp(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.serve(t)
	alice, bob := s.as("alice"), s.as("bob")
	id := decoded[wire.Session](alice, "session", "create").ID
	higher := decoded[wire.Share](alice, "session", "share", id, "--email", "bob@example.org", "--role", "editor")
	got := alice.call("session", "share", id, "--email", "bob@example.org", "--role", "viewer")
	require.Equal(t, exitDone, got.code, got.errs)
	require.Contains(t, got.errs, "still editor through share "+higher.ID+": `cairn session unshare "+id+" "+higher.ID+"` lowers it")
	alice.done("session", "unshare", id, higher.ID)
	bob.refused(exitFailed, []string{"Ask the session's owner for a higher one"}, "session", "send", id, "hi")

	got = alice.call("session", "share", id, "--email", "nobody@example.org")
	require.Equal(t, "cairn: --email nobody@example.org: no such user\n", got.errs)
	got = alice.call("session", "share", id, "--user", client.NewID())
	require.NotContains(t, got.errs, "principal_id")

	link := decoded[wire.Share](alice, "session", "share", id, "--link", "--expires", "500ms")
	require.Eventually(t, func() bool { return strings.Contains(alice.done("session", "shares", id), "ended 20") }, patience, 50*time.Millisecond)
	carol := s.as("carol")
	carol.environ = append(carol.environ, "CAIRN_SHARE_TOKEN="+link.Token)
	carol.refused(exitFailed, []string{"CAIRN_SHARE_TOKEN does not open it"}, "session", "show", id)
	said := alice.done("session", "share", id, "--link")
	require.Contains(t, said, "export CAIRN_SHARE_TOKEN=")
	require.Contains(t, said, "\ncairn attach "+id+"\n")
	require.Contains(t, said, "cairn session tail -f "+id)
}

// A full disk is not blamed on the network.
func TestOutputThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.serve(t)
	alice := s.as("alice")
	alice.done("session", "create", "--key", "work")
	alice.done("session", "send", "work", "hi")
	for _, args := range [][]string{{"session", "list"}, {"session", "list", "--json"}, {"session", "tail", "work"}, {"session", "show", "work"}} {
		var errs bytes.Buffer
		a := &app{env: env.Real(), out: fullDisk{}, errs: &errs, environ: alice.environ}
		require.Equal(t, exitFailed, run(t.Context(), a, args))
		require.Contains(t, errs.String(), "no space left on device")
		require.NotContains(t, errs.String(), "cannot reach", args)
	}
}

// Nor is a folder for unsent events that cannot be made.
func TestStateThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	s := newShell(t, "XDG_STATE_HOME="+os.DevNull)
	s.serve(t)
	got := s.as("alice").call("run", "--session", "work", "--", "agent")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.errs, os.DevNull)
	require.NotContains(t, got.errs, "cannot reach")
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}
}
