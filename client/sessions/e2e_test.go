package sessions_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/sessions"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func identities(t *testing.T, n int) (made []sessions.Identity, recipients []string) {
	t.Helper()
	for range n {
		identity, err := sessions.NewIdentity()
		require.NoError(t, err)
		made = append(made, identity)
		recipients = append(recipients, identity.Recipient)
	}
	return made, recipients
}

func TestSeal(t *testing.T) {
	t.Parallel()
	payload := json.RawMessage(`{"big":12345678901234567890,"neg":-0,"e":1e400,"s":"\ud800\u0000<","a":1,"a":2}`)
	t.Run("SS-E2E-1 every recipient opens it, bit for bit, nobody else does", func(t *testing.T) {
		t.Parallel()
		made, recipients := identities(t, 3)
		box, err := sessions.Seal(payload, recipients[:2])
		require.NoError(t, err)
		var form map[string]string
		require.NoError(t, json.Unmarshal(box, &form))
		require.Len(t, form, 1)
		require.True(t, sessions.IsSealed(box))
		require.False(t, sessions.IsSealed(payload))
		for _, identity := range made[:2] {
			plain, err := sessions.Open(box, identity.Secret)
			require.NoError(t, err)
			require.Equal(t, string(payload), string(plain))
		}
		_, err = sessions.Open(box, made[2].Secret)
		require.Error(t, err)
	})
	t.Run("SS-E2E-2 64 recipients, and not one more", func(t *testing.T) {
		t.Parallel()
		made, recipients := identities(t, 65)
		box, err := sessions.Seal(payload, append(recipients[:64:64], recipients[0]))
		require.NoError(t, err, "a repeated one counts once")
		_, err = sessions.Open(box, made[63].Secret)
		require.NoError(t, err)
		_, err = sessions.Seal(payload, recipients)
		require.ErrorIs(t, err, sessions.ErrTooManyRecipients)
		_, err = sessions.Seal(payload, nil)
		require.Error(t, err)
	})
	t.Run("SS-E2E-2 a recipient fits into a capability", func(t *testing.T) {
		t.Parallel()
		made, _ := identities(t, 1)
		require.Len(t, made[0].Recipient, 62)
		require.LessOrEqual(t, len(made[0].Recipient), wire.MaxCapability)
		devices := []wire.Device{
			{Capabilities: []string{"screen", made[0].Recipient}}, {Capabilities: []string{made[0].Recipient, "age1" + strings.Repeat("q", 58)}},
		}
		require.Equal(t, []string{made[0].Recipient}, sessions.Recipients(devices))
	})
	t.Run("what is not sealed or was tampered with is an error, and no error shows the secret", func(t *testing.T) {
		t.Parallel()
		made, recipients := identities(t, 1)
		box, err := sessions.Seal(payload, recipients)
		require.NoError(t, err)
		for _, spoiled := range []string{`{}`, `[]`, `{"hide":1}`, `{"hide":"%"}`, `{"hide":""}`, string(box[:len(box)-10]) + `AAAAAAAA"}`} {
			_, err := sessions.Open(json.RawMessage(spoiled), made[0].Secret)
			require.Error(t, err)
		}
		_, err = sessions.Open(json.RawMessage(`{}`), made[0].Secret)
		require.ErrorIs(t, err, sessions.ErrNotSealed)
		_, err = sessions.Open(box, made[0].Secret+"x")
		require.Error(t, err)
		require.NotContains(t, err.Error(), made[0].Secret)
		_, err = sessions.Seal(json.RawMessage(`{`), recipients)
		require.Error(t, err)
	})
}

func TestSealedSession(t *testing.T) {
	t.Parallel()
	t.Run("SS-E2E-1 an executor seals, a viewer opens, kinds and controls stay in clear", func(t *testing.T) {
		t.Parallel()
		made, recipients := identities(t, 2)
		f := newFake()
		client := f.over(t)
		executor := execute(t, client, sessions.ExecutorOptions{Recipients: sessions.FixedRecipients(recipients[:1]...)})
		require.NoError(t, executor.Emit(t.Context(), wire.IncomingEvent{Kind: "assistant", Payload: json.RawMessage(`{"text":"whisper"}`)}))
		require.NoError(t, executor.Stop(t.Context()))
		f.control(wire.Control{ID: "c", Kind: wire.ControlSteer, Text: new("plain")})
		require.Equal(t, "assistant", f.events[0].Kind)
		require.NotContains(t, string(f.events[0].Payload), "whisper")

		read := func(secret string) []sessions.Frame {
			return watch(t, client.View(sessionID, sessions.ViewOptions{Identity: secret}), 2)[1:]
		}
		opened := read(made[0].Secret)
		require.JSONEq(t, `{"text":"whisper"}`, string(opened[0].(sessions.EventFrame).Payload))
		require.True(t, opened[0].(sessions.EventFrame).Sealed)
		control, is := sessions.ControlOf(opened[1].(sessions.EventFrame).Event)
		require.True(t, is)
		require.Equal(t, "plain", *control.Text)
		require.False(t, opened[1].(sessions.EventFrame).Sealed)

		foreign := read(made[1].Secret)[0].(sessions.EventFrame)
		require.Error(t, foreign.OpenErr)
		require.True(t, sessions.IsSealed(foreign.Payload))
		require.NoError(t, read("")[0].(sessions.EventFrame).OpenErr)
	})
	t.Run("too many recipients and a bad identity fail before any request", func(t *testing.T) {
		t.Parallel()
		_, recipients := identities(t, 65)
		f := newFake()
		client := f.over(t)
		_, err := client.Execute(t.Context(), sessionID, sessions.ExecutorOptions{Recipients: sessions.FixedRecipients(recipients...)})
		require.ErrorIs(t, err, sessions.ErrTooManyRecipients)
		require.Error(t, client.View(sessionID, sessions.ViewOptions{Identity: "x"}).Run(context.Background(), nil))
		require.Empty(t, f.requested(""))
	})
	t.Run("SS-E2E-2 a published recipient takes an older one's place", func(t *testing.T) {
		t.Parallel()
		_, recipients := identities(t, 2)
		var patched sessions.DevicePatch
		client := answering(t, sessions.Config{}, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				reply(w, 200, map[string]any{"devices": []wire.Device{
					{ID: other, Capabilities: []string{"no"}}, {ID: mine, Capabilities: []string{"screen", recipients[0], "terminal"}},
				}})
				return
			}
			var body struct{ Capabilities []string }
			_ = json.NewDecoder(r.Body).Decode(&body)
			patched.Capabilities = &body.Capabilities
			reply(w, 200, wire.Device{ID: mine, Capabilities: body.Capabilities})
		})
		_, err := client.PublishRecipient(t.Context(), recipients[1])
		require.NoError(t, err)
		require.Equal(t, []string{"screen", "terminal", recipients[1]}, *patched.Capabilities)
		_, err = client.PublishRecipient(t.Context(), "age1nonsense")
		require.Error(t, err)
	})
}
