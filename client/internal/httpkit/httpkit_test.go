package httpkit_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/internal/httpkit"
)

func TestPath(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a b": "a%20b", "a/b?c#d": "a%2Fb%3Fc%23d", ".": "%2E", "..": "%2E%2E", "...": "...", "ă%": "%C4%83%25",
	} {
		require.Equal(t, want, httpkit.Segment(text))
		path, err := httpkit.Path("/v1/sessions/", text, "/events")
		require.NoError(t, err)
		require.Equal(t, "/v1/sessions/"+want+"/events", path)
	}
	_, err := httpkit.Path("/v1/sessions/", "", "/events")
	require.ErrorIs(t, err, httpkit.ErrEmptyReference)
	require.ErrorIs(t, err, httpkit.ErrNotSent)
}

func TestParseWait(t *testing.T) {
	t.Parallel()
	const limit = 5 * time.Minute
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "\t7": 7 * time.Second, "-1": 0, "x": 0, "99999": limit, "99999999999999999999": 0,
		now.Add(time.Minute).Format(http.TimeFormat): time.Minute, now.Add(-time.Minute).Format(http.TimeFormat): 0,
		now.Add(time.Hour).Format(http.TimeFormat): limit,
	} {
		require.Equal(t, want, httpkit.ParseWait(text, now, limit), "%q", text)
	}
}

func TestParseBase(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"http://127.0.0.1:8787", "https://example.org/cairn"} {
		_, err := httpkit.ParseBase(good)
		require.NoError(t, err)
	}
	for _, bad := range []string{"", "127.0.0.1:8787", "ftp://example.org", "http://", "http://me:secret@host", "http://host?q=secret", "http://host#f", "http://%zz"} {
		_, err := httpkit.ParseBase(bad)
		require.ErrorContains(t, err, "parse base URL")
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestEncode(t *testing.T) {
	t.Parallel()
	encoded, err := httpkit.Encode(map[string]string{"a": "<&>"})
	require.NoError(t, err)
	require.Equal(t, `{"a":"<&>"}`, string(encoded))
}
