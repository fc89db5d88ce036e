package authz

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestNextEnd(t *testing.T) {
	t.Parallel()
	begin := time.UnixMicro(1_000_000)
	now := begin
	at := func(seconds int) *time.Time { end := begin.Add(time.Duration(seconds) * time.Second); return &end }
	s := &Snapshot{}
	_, ends := s.NextEnd(now)
	require.False(t, ends)
	s.give(wire.TargetInstance, "", "", given{level: wire.LevelRead})
	s.give(wire.TargetSpace, "space", "", given{level: wire.LevelRead, ends: at(-1)})
	_, ends = s.NextEnd(now)
	require.False(t, ends, "what never ends, or has ended")
	s.give(wire.TargetChannel, "a", "space", given{level: wire.LevelRead, ends: at(9)})
	s.give(wire.TargetChannel, "a", "space", given{level: wire.LevelWrite, ends: at(5)})
	s.give(wire.TargetHost, "host", "", given{ends: at(7)})
	for _, want := range []int{5, 7, 9} {
		next, ends := s.NextEnd(now)
		require.True(t, ends)
		require.Equal(t, *at(want), next)
		now = next
	}
	_, ends = s.NextEnd(now)
	require.False(t, ends)
}
