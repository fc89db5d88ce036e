package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/internal/env"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Lines of events have times only: a date stands above those of another day than the one before, and than today.
func TestTailShowsDates(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := &app{env: env.Real(), out: &out}
	now := a.env.Now()
	write := a.frameWriter(&nameBook{known: map[string]string{}}, false)
	for i, at := range []time.Time{now, now.AddDate(0, 0, -3), now.AddDate(0, 0, -3), now.AddDate(0, 0, -2), now} {
		event := wire.Event{Seq: int64(i + 1), Kind: "x", TS: at.UnixMilli(), Payload: []byte(`{}`)}
		require.NoError(t, write(client.EventFrame{Event: event}))
		skipped := wire.Event{Kind: "import:x", TS: now.AddDate(-1, 0, 0).UnixMilli(), Payload: []byte(`{}`)}
		require.NoError(t, write(client.EventFrame{Event: skipped}))
	}
	day := func(days int) string { return now.Local().AddDate(0, 0, days).Format(time.DateOnly) } //nolint:gosmopolitan // as people read it
	var heads []string
	for line := range strings.Lines(out.String()) {
		heads = append(heads, strings.Fields(line)[0])
	}
	require.Equal(t, []string{"1", day(-3), "2", "3", day(-2), "4", day(0), "5"}, heads)

	out.Reset()
	a.json = true
	require.NoError(t, a.frameWriter(&nameBook{}, false)(client.EventFrame{Event: wire.Event{Seq: 1, Kind: "x", Payload: []byte(`{}`)}}))
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
}
