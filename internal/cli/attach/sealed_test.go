package attach

import (
	"testing"

	"github.com/stretchr/testify/require"

	client "github.com/cairnsync/cairn/client/sessions"
)

func TestADeviceThatJoinsASealedSessionLate(t *testing.T) {
	t.Parallel()
	const hidden = `{"hide":"c2VhbGVk"}`
	for _, keyed := range []bool{true, false} {
		s := newStage(t, func(o *setup) { o.keyed, o.detail.E2E = keyed, true })
		l := &s.log
		s.begin(l.raw("turn_start", "t", hidden), l.raw("assistant", "t", hidden), l.raw("tool_call", "t", hidden))
		s.shows("work station drives · runs", "enter steers the running turn")
		s.hides("idle")
		if keyed {
			s.shows("◆ 3 sealed events: sealed before this device had its key; it reads from now on")
		} else {
			s.shows("◆ 3 sealed events: turn_start, assistant, tool_call")
		}
		s.frames(l.raw("turn_end", "t", hidden))
		s.shows("idle", "enter sends a new turn")
		s.frames(fromPhone("next", "more"))
		s.frames(l.raw("turn_start", "next", hidden))
		require.Empty(t, s.m.waits, "a prompt whose turn began does not wait")
		s.shows("runs")
		s.frames(client.LeaseFrame{})
		s.shows("interrupted")
	}
}
