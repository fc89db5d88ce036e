package personal_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/testkit/team"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// TestUnreadIsTheDefinition compares the counts of the snapshot, of the list and of single states with the
// definition of WS §4, over random histories.
func TestUnreadIsTheDefinition(t *testing.T) {
	t.Parallel()
	team.Each(t, func(w *team.Team) {
		channel := w.Text()
		people := []authz.Caller{
			w.Member("ann", team.OnChannel(channel.ID), wire.LevelWrite), w.Member("bob", team.OnSpace(channel.SpaceID), wire.LevelWrite),
		}
		rapid.Check(w.TB.(*testing.T), func(r *rapid.T) {
			threads := []string{w.Start(people[0], channel.ID, "one").Thread.ID, w.Start(people[1], channel.ID, "two").Thread.ID}
			var said []wire.Message
			for range rapid.IntRange(1, 12).Draw(r, "steps") {
				who := rapid.SampledFrom(people).Draw(r, "who")
				thread := rapid.SampledFrom(threads).Draw(r, "thread")
				switch rapid.IntRange(0, 3).Draw(r, "what") {
				case 0, 1:
					said = append(said, w.Say(who, thread, rapid.SampledFrom([]string{"hi", "hi @ann", "@bob @ann"}).Draw(r, "text")))
				case 2:
					if len(said) > 0 {
						gone := rapid.SampledFrom(said).Draw(r, "gone")
						require.NoError(r, w.Domain.DeleteMessage(w.Context(), w.Owner, gone.ID))
					}
				default:
					read(w, who, thread, int64(rapid.IntRange(0, 8).Draw(r, "seq")))
				}
			}
			if rapid.Bool().Draw(r, "floor") {
				w.Exec(`UPDATE threads SET unread_floor_seq = $2 WHERE id = $1`, threads[0], rapid.IntRange(0, 4).Draw(r, "floor at"))
			}
			for _, who := range people {
				states := snapshot(w, who)
				for _, thread := range threads {
					count, mentions := unread(w, who, thread)
					require.Equal(r, count, states[thread].UnreadCount)
					require.Equal(r, mentions, states[thread].MentionCount)
					_, listed := states[thread]
					require.Equal(r, count > 0, listed, "WS-4 the snapshot holds threads with unread messages only")
					one, err := w.Personal.ReadState(w.Context(), who, thread)
					require.NoError(r, err)
					require.Equal(r, count, one.UnreadCount)
					require.Equal(r, mentions, one.MentionCount)
				}
			}
		})
	})
}
