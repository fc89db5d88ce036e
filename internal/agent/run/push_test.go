package run_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/fakefcm"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// TestPush goes the whole way: from what an agent does to what the push service is told.
func TestPush(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		fake, err := fakefcm.Start()
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, fake.Close()) })
		credentials := filepath.Join(t.TempDir(), "credentials.json")
		require.NoError(t, os.WriteFile(credentials, fake.Credentials(), 0o600))
		s := stageWith(t, db, func(c *config.Config) {
			c.Push = config.Push{Pause: 100 * time.Millisecond, FCM: config.FCM{Project: fakefcm.ProjectID, CredentialsFile: credentials, Endpoint: fake.URL()}}
		})
		for _, device := range []string{mobile, desktop} {
			token := "token-of-" + device
			_, err := s.client(s.url, device, wire.PlatformIOS).PatchDevice(t.Context(), device, sessions.DevicePatch{PushToken: &token})
			require.NoError(t, err)
		}
		s.serve(1, nil)

		t.Run("SS-DSP-3 a dispatch is pushed and executed, and what the agent asks is pushed to the phone", func(t *testing.T) {
			text := "ask a1 Look at your phone"
			receipt, err := s.phone.Dispatch(t.Context(), s.session, wire.Dispatch{DeviceID: desktop, Text: &text})
			require.NoError(t, err)
			require.True(t, receipt.Pushed)
			ask, _ := await[trace.Ask](s.log, nil)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			messages, err := fake.Wait(ctx, 2)
			require.NoError(t, err)
			require.Equal(t, "dispatch", messages[0].Data["type"])
			require.Equal(t, "token-of-"+mobile, messages[1].Token)
			require.Equal(t, map[string]string{"type": "ask", "session_id": s.session, "seq": strconv.FormatInt(ask.Seq, 10)}, messages[1].Data)
			s.answer(wire.ControlApprove, ask.payload.(trace.Ask).AskID)
			s.turnEnd(receipt.ControlID)
			pushes, err := s.phone.Pushes(t.Context(), s.session)
			require.NoError(t, err)
			require.NotEmpty(t, pushes)
		})
	})
}
