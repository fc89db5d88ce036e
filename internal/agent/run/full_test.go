package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/internal/testkit"
)

func TestJournalWithoutRoom(t *testing.T) {
	t.Parallel()
	s := newStage(t, testkit.New(t, testkit.SQLite))
	t.Run("when nothing can be written down any more the session is closed, and says so", func(t *testing.T) {
		runner := s.start(s.options())
		id := s.send("ask a1 Still there\nsay yes")
		ask := s.openAsk("Still there")
		require.NoError(t, runner.CloseJournal())
		answer := s.answer("approve", ask.AskID)
		require.ErrorIs(t, s.ended(runner), sessions.ErrNoJournalRoom)
		require.Equal(t, trace.TurnCancelled, s.turnEnd(id).Status)
		s.resolved(ask.AskID)
		s.applied(answer)
		_, failure := await(s.log, func(_ entry, failure trace.Failure) bool { return failure.Code == "journal_full" })
		require.Contains(t, failure.Message, "journal")
		s.dense()
	})
	t.Run("a prompt that comes then is not taken without its begin being told", func(t *testing.T) {
		runner := s.start(s.options())
		require.NoError(t, runner.CloseJournal())
		id := s.send("say hello")
		require.ErrorIs(t, s.ended(runner), sessions.ErrNoJournalRoom)
		require.Equal(t, trace.TurnCancelled, s.turnEnd(id).Status)
	})
}
