package cli

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/internal/testkit"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// device makes another device of the shell's user.
func (s *shell) device(t *testing.T, url, name string) *client.Client {
	t.Helper()
	made, err := client.New(client.Config{
		BaseURL: url, Key: (&app{environ: s.environ}).getenv(envKey),
		Device: client.Device{ID: client.NewID(), Platform: wire.PlatformAgent, Name: name},
	})
	require.NoError(t, err)
	t.Cleanup(made.Close)
	_, err = made.Devices(t.Context()) // the device becomes known
	require.NoError(t, err)
	return made
}

func TestPushesAndNotify(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newShell(t, "CAIRN_DATABASE="+db.URL)
		server := s.serve(t)
		alice := s.as("alice")
		alice.done("session", "create", "--key", "work")
		require.Contains(t, alice.done("session", "show", "work"), "you are pushed  all")
		require.Contains(t, alice.done("session", "notify", "work", "asks"), "about asks only")
		require.Contains(t, alice.done("session", "show", "work"), "you are pushed  asks")
		require.Equal(t, wire.NotifyNone, decoded[wire.NotifySetting](alice, "session", "notify", "work", "none").Notify)
		alice.refused(exitUsage, []string{`say one of all, asks, none, not "some"`}, "session", "notify", "work", "some")
		alice.refused(exitUsage, []string{"cairn session notify SESSION all|asks|none"}, "session", "notify", "work")
		require.Equal(t, "none\n", alice.call("session", "pushes", "work").errs)

		agent := alice.device(t, server.url, "the agent")
		alice.done("dispatch", "work", "--device", agent.DeviceID(), "--id", "d1", "go")
		list := alice.done("session", "pushes", "work")
		for _, part := range []string{"AT", "dispatch", "d1", agent.DeviceID(), "the agent", "failed", "no_push_token"} {
			require.Contains(t, list, part)
		}
		pushes := decoded[struct{ Pushes []wire.Push }](alice, "session", "pushes", "work").Pushes
		require.Len(t, pushes, 1)
		require.Equal(t, "d1", *pushes[0].ControlID)

		watcher := agent.View("work", client.ViewOptions{Transport: client.WebSocket})
		watcher.SetAttention(true)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- watcher.Run(ctx, func(client.Frame) error { return nil }) }()
		require.Eventually(t, func() bool {
			detail := decoded[wire.SessionDetail](alice, "session", "show", "work")
			return len(detail.Presence) == 1 && detail.Presence[0].Attention
		}, patience, 10*time.Millisecond)
		require.Regexp(t, `(?m)the agent +yes +yes$`, alice.done("session", "show", "work"))
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.Equal(t, exitDone, server.wait(t).code)
	})
}

func TestDispatchWaits(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	server := s.serve(t)
	alice := s.as("alice")
	alice.done("session", "create", "--key", "work")
	agent := alice.device(t, server.url, "the agent")
	alice.refused(exitUsage, []string{"goes with --wait"}, "dispatch", "work", "--device", agent.DeviceID(), "--open", "--timeout", "1s")
	alice.refused(exitUsage, []string{"more than 0s"}, "dispatch", "work", "--device", agent.DeviceID(), "--open", "--wait", "--timeout", "0s")

	got := alice.call("dispatch", "work", "--device", agent.DeviceID(), "--id", "d1", "--wait", "--timeout", "300ms", "go")
	require.Equal(t, exitFailed, got.code)
	require.Equal(t, "the dispatch is event 1; the device is online\n", got.out, "it is not called unreachable for the push that it does not need")
	for _, part := range []string{"did not take the dispatch within 300ms", "--id d1", "cairn session pushes work"} {
		require.Contains(t, got.errs, part)
	}

	executor, err := agent.Execute(t.Context(), "work", client.ExecutorOptions{
		Heartbeat: 50 * time.Millisecond, OnControl: func(context.Context, wire.Control) error { return nil },
	})
	require.NoError(t, err)
	require.Contains(t, alice.done("dispatch", "work", "--device", agent.DeviceID(), "--id", "d1", "--wait", "go"), "the agent took it", "what was taken meanwhile")
	said := alice.done("dispatch", "work", "--device", agent.DeviceID(), "--wait", "go", "on")
	require.NotContains(t, said, "push")
	require.Contains(t, said, "the agent took it")
	answer := decoded[dispatchAnswer](alice, "dispatch", "work", "--device", agent.DeviceID(), "--wait", "more")
	require.True(t, answer.Applied)
	require.Equal(t, agent.DeviceID(), *answer.TakenBy)
	require.Equal(t, wire.PushNoPushToken, answer.Push.Reason)
	require.NoError(t, executor.Stop(t.Context()))

	got = alice.call("dispatch", "work", "--device", agent.DeviceID(), "--wait", "--timeout", "200ms", "--json", "late")
	require.Equal(t, exitFailed, got.code)
	var late dispatchAnswer
	require.NoError(t, json.Unmarshal([]byte(got.out), &late))
	require.False(t, late.Applied)
	require.Nil(t, late.TakenBy)
	for _, device := range []string{agent.DeviceID(), "the agent"} {
		alice.refused(exitFailed, []string{"Session not found", "`cairn session create --key nowhere`"}, "dispatch", "nowhere", "--device", device, "--wait", "go")
	}
	alice.refused(exitFailed, []string{"`cairn session create --key nowhere`"}, "session", "send", "nowhere", "go")
	got = alice.call("session", "send", client.NewID(), "go")
	require.Equal(t, "cairn: Session not found\n", got.errs, "an id is no key to make one with")
}
