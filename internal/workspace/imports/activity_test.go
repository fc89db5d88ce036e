package imports_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/testkit/team"
)

// A main timeline that comes with a channel whose first batch is a thread is not younger than what is in it.
func TestActivityOfAMainTimelineThatComesAfterAThread(t *testing.T) {
	t.Parallel()
	team.Each(t, func(w *team.Team) {
		one := create(w, w.Owner, w.Space().ID, "slack:acme")
		answer := apply(w, w.Owner, one.ID, batch("T1", 5, 3))
		branch, err := w.Domain.Thread(w.Context(), w.Owner, answer.ThreadID)
		require.NoError(w, err)
		channel, err := w.Domain.Channel(w.Context(), w.Owner, branch.ChannelID)
		require.NoError(w, err)
		for _, want := range []time.Time{day.Add(5 * time.Minute), day.Add(time.Minute)} {
			main, err := w.Domain.Thread(w.Context(), w.Owner, channel.MainThreadID)
			require.NoError(w, err)
			require.True(w, want.Equal(main.LastActivityAt), "%v", main.LastActivityAt)
			apply(w, w.Owner, one.ID, batch("main", 0, 2))
		}
	})
}
