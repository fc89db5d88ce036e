package run_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/internal/agent/run"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/netproxy"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// TestNetworkAtEachPhase makes the network bad before the start, at rest, with a question open and at the stop; TestNetworkLoss
// does so while the agent speaks.
func TestNetworkAtEachPhase(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]netproxy.Mode{"refused": netproxy.Refuse, "silent": netproxy.Swallow, "one way": netproxy.OneWay} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testkit.Each(t, func(t *testing.T, db *testkit.Database) {
				s := newStage(t, db)
				way := netproxy.New(t, s.url)
				heal := func() { way.Set(netproxy.Good); way.Reset() }

				way.Set(mode)
				starting, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				_, err := run.Start(starting, s.through(way))
				require.Error(t, err, "before the start")
				heal()
				runner := s.start(s.through(way))

				way.Set(mode)
				id := s.send("say at rest\nask a1 Which way")
				require.Empty(t, every[trace.TurnStart](s.log))
				heal()
				ask := s.openAsk("Which way")

				way.Set(mode)
				answer := s.answer(wire.ControlApprove, ask.AskID)
				heal()
				require.Equal(t, answer, s.resolved(ask.AskID).ControlID)
				require.Equal(t, trace.TurnCompleted, s.turnEnd(id).Status)
				s.applied(answer)

				last := s.send("say begun\nhang")
				s.said("begun")
				way.Set(mode)
				stopping, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				require.Error(t, runner.Stop(stopping), "what was said could not be stored")
				require.NotEmpty(t, runner.LastWords())
				heal()
				s.start(s.through(way))
				s.turnEnd(last)
				require.Equal(t, trace.TurnCompleted, s.turnEnd(s.send("say and on")).Status)
				s.dense()
				starts := map[string]int{}
				for _, start := range every[trace.TurnStart](s.log) {
					starts[start.ControlID]++
					require.Equal(t, 1, starts[start.ControlID])
				}
			})
		})
	}
}
