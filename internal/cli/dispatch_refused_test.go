package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	client "github.com/cairnsync/cairn/client/sessions"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// A dispatch that was taken only to be turned down is no success of whoever waits for it.
func TestDispatchThatIsRefused(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	_, err := m.phone.CreateSession(t.Context(), client.NewSession{SessionKey: "build"})
	require.NoError(t, err)
	agent := m.background("agent", "--root", t.TempDir(), "--command", "exit 3")
	defer agent.end()
	device := ""
	require.Eventually(t, func() bool {
		devices, err := m.phone.Devices(t.Context())
		for _, one := range devices {
			if one.Platform == wire.PlatformCLI {
				device = one.ID
			}
		}
		return err == nil && device != ""
	}, patience, 20*time.Millisecond)
	got := m.call("dispatch", "build", "--device", device, "--wait", "do something")
	require.Equal(t, exitFailed, got.code, got.out)
	require.Contains(t, got.errs, "did not work on it: the agent could not be started")
	require.NotContains(t, got.out, "took it")
}
