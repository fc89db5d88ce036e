package outbound_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/outbound"
	"github.com/cairnsync/cairn/internal/testkit/fakefcm"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

const deviceToken = "device-token-0123456789"

func startFake(t *testing.T) *fakefcm.Server {
	t.Helper()
	fake, err := fakefcm.Start()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, fake.Close()) })
	return fake
}

func newFCM(t *testing.T, fake *fakefcm.Server, endpoint string) *outbound.FCM {
	t.Helper()
	fcm, err := outbound.NewFCM(outbound.Config{
		ProjectID: fakefcm.ProjectID, Credentials: fake.Credentials(), Endpoint: endpoint,
	})
	require.NoError(t, err)
	t.Cleanup(fcm.Close)
	return fcm
}

func TestPushSendsDataOnlyWithHighPriority(t *testing.T) {
	t.Parallel()
	fake := startFake(t)
	fcm := newFCM(t, fake, fake.URL())
	data := map[string]string{"type": "dispatch", "session_id": "s", "control_id": "c"}

	t.Run("SS-DSP-3 data-only, high priority", func(t *testing.T) {
		require.Equal(t, outbound.Result{Pushed: true}, fcm.Push(t.Context(), deviceToken, data))
		messages := fake.Messages()
		require.Len(t, messages, 1)
		got := messages[0]
		require.Equal(t, deviceToken, got.Token)
		require.Equal(t, data, got.Data)
		require.Equal(t, "HIGH", got.Android.Priority)
		require.Equal(t, map[string]string{"apns-priority": "5", "apns-push-type": "background"}, got.APNS.Headers)
		require.JSONEq(t, `{"content-available":1}`, string(got.APNS.Payload["aps"]))
		require.Empty(t, got.Notification)
	})
	t.Run("an access token that was withdrawn is fetched anew", func(t *testing.T) {
		fake.ForgetAccess()
		require.Equal(t, wire.PushAuthFailed, fcm.Push(t.Context(), deviceToken, data).Reason)
		require.True(t, fcm.Push(t.Context(), deviceToken, data).Pushed)
	})
}

func TestPushReasons(t *testing.T) {
	t.Parallel()
	for answer, want := range map[fakefcm.Answer]wire.PushReason{
		fakefcm.Unregistered: wire.PushUnregistered,
		fakefcm.AuthFailed:   wire.PushAuthFailed,
		fakefcm.TokenRefused: wire.PushAuthFailed,
		fakefcm.Broken:       "http_500",
	} {
		t.Run("SS-DSP-3 "+string(want), func(t *testing.T) {
			t.Parallel()
			fake := startFake(t)
			fake.Answer(answer)
			require.Equal(t, outbound.Result{Reason: want}, newFCM(t, fake, fake.URL()).Push(t.Context(), deviceToken, nil))
		})
	}
}

func TestPushIsBoundedInTime(t *testing.T) {
	t.Parallel()
	t.Run("SS-DSP-3 a time-out is network_error", func(t *testing.T) {
		t.Parallel()
		fake := startFake(t)
		fake.Answer(fakefcm.Hang)
		fcm := newFCM(t, fake, fake.URL())
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer cancel() // the same way out as the five seconds
			_, _ = fake.Wait(ctx, 1)
		}()
		require.Equal(t, wire.PushNetworkError, fcm.Push(ctx, deviceToken, nil).Reason)
	})
	t.Run("SS-DSP-3 five seconds at most", func(t *testing.T) {
		t.Parallel()
		fake := startFake(t)
		fake.Answer(fakefcm.Hang)
		begun := time.Now()
		require.Equal(t, wire.PushNetworkError, newFCM(t, fake, fake.URL()).Push(t.Context(), deviceToken, nil).Reason)
		require.Less(t, time.Since(begun), 9*time.Second)
	})
	t.Run("SS-DSP-3 nobody listens", func(t *testing.T) {
		t.Parallel()
		fake := startFake(t)
		require.Equal(t, wire.PushNetworkError, newFCM(t, fake, closedURL(t)).Push(t.Context(), deviceToken, nil).Reason)
	})
	t.Run("SS-DSP-3 nobody listens at the token endpoint", func(t *testing.T) {
		t.Parallel()
		fake := startFake(t)
		credentials := strings.ReplaceAll(string(fake.Credentials()), fake.URL(), closedURL(t))
		fcm, err := outbound.NewFCM(outbound.Config{
			ProjectID: fakefcm.ProjectID, Credentials: []byte(credentials), Endpoint: fake.URL(),
		})
		require.NoError(t, err)
		require.Equal(t, wire.PushNetworkError, fcm.Push(t.Context(), deviceToken, nil).Reason)
		require.Empty(t, fake.Messages())
	})
}

// closedURL is an address where nobody listens.
func closedURL(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return "http://" + listener.Addr().String()
}

func TestOnlyThePushServiceItselfUnregisters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		status int
		body   string
		want   wire.PushReason
	}{
		{"its error code", 404, `{"error":{"status":"NOT_FOUND","details":[{"errorCode":"UNREGISTERED"}]}}`, wire.PushUnregistered},
		{"its error code with another status", 400, `{"error":{"details":[{},{"errorCode":"UNREGISTERED"}]}}`, wire.PushUnregistered},
		{"its 404 without details", 404, `{"error":{"status":"NOT_FOUND"}}`, wire.PushUnregistered},
		{"a 404 of somebody else", 404, `<html>nothing here</html>`, "http_404"},
		{"forbidden", 403, `{"error":{"status":"PERMISSION_DENIED"}}`, wire.PushAuthFailed},
		{"a redirect is not followed", 302, ``, "http_302"},
	} {
		t.Run("SS-DSP-3 "+c.name, func(t *testing.T) {
			t.Parallel()
			fake := startFake(t)
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", fake.URL())
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}))
			t.Cleanup(service.Close)
			require.Equal(t, c.want, newFCM(t, fake, service.URL).Push(t.Context(), deviceToken, nil).Reason)
			require.Empty(t, fake.Messages())
		})
	}
}

func TestNewFCMRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	fake := startFake(t)
	good := outbound.Config{ProjectID: "p", Credentials: fake.Credentials()}
	_, err := outbound.NewFCM(good)
	require.NoError(t, err)

	secret := "-----BEGIN PRIVATE KEY----- secret"
	user, err := json.Marshal(map[string]string{"type": "authorized_user", "private_key": secret})
	require.NoError(t, err)
	for name, change := range map[string]func(*outbound.Config){
		"no project":         func(c *outbound.Config) { c.ProjectID = "" },
		"no JSON":            func(c *outbound.Config) { c.Credentials = []byte(secret) },
		"another kind":       func(c *outbound.Config) { c.Credentials = user },
		"endpoint no URL":    func(c *outbound.Config) { c.Endpoint = "fcm.example" },
		"endpoint no scheme": func(c *outbound.Config) { c.Endpoint = "ftp://fcm.example" },
	} {
		bad := good
		change(&bad)
		_, err := outbound.NewFCM(bad)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "secret", name)
	}
}
