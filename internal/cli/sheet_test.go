package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/env"
)

const someID = "0190a000-0000-7000-8000-0000000000aa"

// listOf is a list of sessions as `session list` makes it.
func listOf(keys ...string) *sheet {
	s := &sheet{header: strings.Fields("ID KEY TITLE ROLE EVENTS ACTIVE EXECUTOR OPEN")}
	for _, key := range keys {
		s.rows = append(s.rows, []string{
			someID, key, strings.Repeat("title ", 6), "owner", "123456", "2020-01-02 03:04:05Z", "…00000000", "2",
		})
	}
	return s
}

func TestAListFitsItsTerminal(t *testing.T) {
	t.Parallel()
	a := &app{env: env.Real()}
	for _, width := range []int{80, 90, 100, 120, 160} {
		for name, keys := range map[string][]string{
			"short key": {"build"}, "long key": {strings.Repeat("key", 13)}, "no key": {"-"}, "some": {"build", "-"},
		} {
			s := listOf(keys...)
			s.fit(width, a.narrowSessions())
			require.LessOrEqual(t, s.width(), width, "%s at %d: %v", name, width, s.rows)
			require.Contains(t, s.header, "TITLE")
			for i, key := range keys {
				require.True(t, key != "-" || s.rows[i][0] == someID, "nothing else names it")
				require.True(t, key == "-" || width > 80 || s.rows[i][0] == "…000000aa", "%s at %d", name, width)
			}
		}
	}
	wide := listOf("build")
	wide.fit(0, a.narrowSessions())
	require.Equal(t, listOf("build").rows, wide.rows, "no terminal")
	wide.fit(500, a.narrowSessions())
	require.Equal(t, listOf("build").rows, wide.rows, "a wide one")

	devices := &sheet{header: strings.Fields("DEVICE PLATFORM NAME ONLINE PUSH SEEN")}
	devices.rows = [][]string{{someID, "desktop", "cairn on workstation", "yes", "yes", "2020-01-02T03:04:05.000Z"}}
	devices.fit(60, a.narrowDevices())
	require.LessOrEqual(t, devices.width(), 60)
	require.Equal(t, []string{"…000000aa", "2020-01-02"}, []string{devices.rows[0][0], devices.rows[0][5]})
	devices.fit(20, append(a.narrowDevices(), cut("NONE", 1), drop("NONE")))
	require.Equal(t, "cairn o…", devices.rows[0][2], "not to nothing")
}

func TestShortTimes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	s := &sheet{header: []string{"AT"}, rows: [][]string{{"2026-05-06T01:02:03.000Z"}, {"2026-05-05 01:02:03Z"}, {"-"}, {""}}}
	shortTimes("AT", now)(s, 1)
	require.Equal(t, "[[01:02:03Z] [2026-05-05] [-] []]", fmt.Sprint(s.rows))
}
