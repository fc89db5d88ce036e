package run_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/internal/agent/run"
	"github.com/cairnsync/cairn/internal/testkit"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// reader makes a device that can read sealed payloads, and answers its secret.
func (s *stage) reader(device string) string {
	identity, err := sessions.NewIdentity()
	require.NoError(s.t, err)
	_, err = s.client(s.url, device, wire.PlatformIOS).PublishRecipient(s.t.Context(), identity.Recipient)
	require.NoError(s.t, err)
	return identity.Secret
}

func TestSealed(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStage(t, db)
		created, err := s.phone.CreateSession(t.Context(), sessions.NewSession{SessionKey: "secret", E2E: true})
		require.NoError(t, err)
		s.session = created.ID
		s.log = follow(t, s.phone, created.ID, s.reader(mobile))
		blind := follow(t, s.phone, created.ID, "")
		o := s.options()
		o.Identity = s.reader(desktop)
		o.Recipients = func(ctx context.Context) ([]string, error) { return o.Client.MemberRecipients(ctx, created.ID) }
		runner := s.start(o)

		t.Run("SS-E2E-2 what the agent says is sealed for the members' devices; SS-E2E-1 kinds and controls stay in clear", func(t *testing.T) {
			id := s.send("say a secret")
			require.Equal(t, trace.TurnCompleted, s.turnEnd(id).Status)
			s.said("a secret")
			for _, event := range blind.until("the end", func(all []entry) bool { return len(all) > 0 && all[len(all)-1].Kind == trace.KindTurnEnd }) {
				if event.Kind != wire.KindControl {
					require.True(t, sessions.IsSealed(event.Event.Payload), "%s", event.Kind)
				}
			}
		})
		t.Run("a device added later reads from then on", func(t *testing.T) {
			late := follow(t, s.phone, created.ID, s.reader(laptop))
			id := s.send("say for both")
			_, end := await(late, func(event entry, _ trace.TurnEnd) bool { return *event.TurnID == id })
			require.Equal(t, trace.TurnCompleted, end.Status)
			for _, piece := range every[trace.Assistant](late) {
				require.NotContains(t, piece.Text, "a secret")
			}
		})
		t.Run("the next executor opens what the last one sealed: its context and its open turn", func(t *testing.T) {
			id := s.send("ask a1 In secret")
			s.openAsk("In secret")
			s.stop(runner)
			s.turnEnd(id)
			again := o
			again.Command, again.Folder = s.options().Command, filepath.Join(t.TempDir(), "again")
			s.start(again)
			echo := s.send("echo")
			s.turnEnd(echo)
			require.Contains(t, s.whole(echo), "for both")
		})
		t.Run("SS-E2E-2 more than 64 recipients are a clear error", func(t *testing.T) {
			for i := range wire.MaxRecipients {
				s.reader(fmt.Sprintf("44444444-4444-4444-8444-%012d", i))
			}
			over := o
			over.Folder, over.Force = filepath.Join(t.TempDir(), "over"), true
			over.Client = s.client(s.url, "55555555-5555-4555-8555-555555555555", wire.PlatformCLI)
			_, err := run.Start(t.Context(), over)
			require.ErrorIs(t, err, sessions.ErrTooManyRecipients)
			detail, err := s.phone.GetSession(t.Context(), created.ID)
			require.NoError(t, err)
			require.Equal(t, desktop, detail.Lease.DeviceID, "nobody lost the lease for it")
		})
	})
}
