package personal_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/testkit/team"
	"github.com/cairnsync/cairn/internal/workspace/personal"
	"github.com/cairnsync/cairn/internal/workspace/place"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func read(w *team.Team, by authz.Caller, thread string, seq int64) wire.ReadState {
	w.Helper()
	state, err := w.Personal.PutReadState(w.Context(), by, thread, nil, wire.PutReadState{LastReadSeq: seq})
	require.NoError(w, err)
	return state
}

func payload[T any](w *team.Team, record *eventlog.Record) T {
	w.Helper()
	var value T
	require.NoError(w, json.Unmarshal(record.Payload, &value))
	return value
}

func TestReadStates(t *testing.T) {
	t.Parallel()
	team.Each(t, func(w *team.Team) {
		channel := w.Text()
		ann := w.Member("ann", team.OnChannel(channel.ID), wire.LevelWrite)
		bob := w.Member("bob", team.OnChannel(channel.ID), wire.LevelWrite)
		main := channel.MainThreadID
		for range 3 {
			w.Say(bob, main, "hello @ann")
		}
		w.Say(ann, main, "mine")
		gone := w.Say(bob, main, "gone @ann")
		require.NoError(w, w.Domain.DeleteMessage(w.Context(), bob, gone.ID))

		w.Run("WS-4 unread is what is above the state, not deleted, not one's own", func(w *team.Team) {
			state, err := w.Personal.ReadState(w.Context(), ann, main)
			require.NoError(w, err)
			require.Equal(w, wire.ReadState{ThreadID: main, UnreadCount: 3, MentionCount: 3}, state)
			state, err = w.Personal.ReadState(w.Context(), bob, main)
			require.NoError(w, err)
			require.EqualValues(w, 1, state.UnreadCount)
			require.Zero(w, state.MentionCount)
		})
		w.Run("ES-14 a read state moves forward, with its event", func(w *team.Team) {
			var state wire.ReadState
			events := w.Emitted(func() { state = read(w, ann, main, 2) })
			require.Equal(w, wire.ReadState{
				ThreadID: main, LastReadSeq: 2, UnreadCount: 1, MentionCount: 1, Version: 1, UpdatedByDeviceID: ann.Device,
			}, state)
			require.Equal(w, []string{eventlog.ReadStateUpdated}, team.Types(events))
			require.Equal(w, ann.Principal, events[0].AudienceID)
			require.Equal(w, wire.Resource{Kind: "thread", ID: main}, events[0].Resource)
			require.Equal(w, state, payload[wire.ReadStateEvent](w, events[0]).ReadState)
		})
		w.Run("ES-14 it never moves back by itself, and says nothing when it stays", func(w *team.Team) {
			require.Empty(w, w.Emitted(func() {
				state := read(w, ann, main, 1)
				require.EqualValues(w, 2, state.LastReadSeq)
				require.EqualValues(w, 1, state.Version)
			}))
		})
		w.Run("WS-4 it is clamped to the thread's last message", func(w *team.Team) {
			state := read(w, ann, main, 1000)
			require.EqualValues(w, 5, state.LastReadSeq)
			require.Zero(w, state.UnreadCount)
			require.EqualValues(w, 2, state.Version)
		})
		w.Run("ES-14 mark as unread needs the version", func(w *team.Team) {
			reset := func(version *int64, seq int64) (wire.ReadState, error) {
				return w.Personal.ResetReadState(w.Context(), ann, main, version, wire.PutReadState{LastReadSeq: seq})
			}
			_, err := reset(nil, 0)
			w.Refused(code.PreconditionRequired, err)
			_, err = reset(team.Version(1), 0)
			w.Refused(code.VersionConflict, err)
			state, err := reset(team.Version(2), 1)
			require.NoError(w, err)
			require.EqualValues(w, 1, state.LastReadSeq)
			require.EqualValues(w, 2, state.UnreadCount)
			require.EqualValues(w, 3, state.Version)
		})
		w.Run("ES-5.2 a repeat answers the same and writes nothing", func(w *team.Team) {
			keyed := w.Keyed(ann, "h")
			first := read(w, keyed, main, 3)
			require.Empty(w, w.Emitted(func() { require.Equal(w, first, read(w, keyed, main, 3)) }))
			require.True(w, keyed.Key.Replayed)
		})
		w.Run("WS-AZ-5 a thread one does not see is not there", func(w *team.Team) {
			eve := w.Person("eve")
			for _, id := range []string{main, w.Env.NewID(), "x"} {
				_, err := w.Personal.PutReadState(w.Context(), eve, id, nil, wire.PutReadState{})
				w.Refused(code.NotFound, err)
			}
			_, err := w.Personal.PutReadState(w.Context(), w.Owner, w.Env.NewID(), nil, wire.PutReadState{})
			w.Refused(code.NotFound, err)
		})
		w.Run("ES-14 only people have personal data", func(w *team.Team) {
			agent := w.Principal(wire.KindAgent, "robot")
			w.Grant(agent, team.OnChannel(channel.ID), wire.LevelTrigger)
			_, err := w.Personal.PutReadState(w.Context(), agent, main, nil, wire.PutReadState{})
			w.Refused(code.NotImplementedForKind, err)
			_, err = w.Personal.ReadStates(w.Context(), agent, place.Paging{})
			w.Refused(code.NotImplementedForKind, err)
		})
		w.Run("ES-14 lists name what may be read; rows come back with access", func(w *team.Team) {
			list := func() []wire.ReadState {
				page, err := w.Personal.ReadStates(w.Context(), ann, place.Paging{})
				require.NoError(w, err)
				return page.Items
			}
			require.Len(w, list(), 1)
			w.Revoke(ann)
			require.Empty(w, list())
			w.Grant(ann, team.OnSpace(channel.SpaceID), wire.LevelRead)
			again := list()
			require.Len(w, again, 1)
			require.EqualValues(w, 3, again[0].LastReadSeq)
		})
	})
}

func TestReadStatePages(t *testing.T) {
	t.Parallel()
	team.Each(t, func(w *team.Team) {
		channel := w.Text()
		ann := w.Member("ann", team.OnSpace(channel.SpaceID), wire.LevelWrite)
		var want []string
		for range 5 {
			want = append(want, w.Start(w.Owner, channel.ID, "t").Thread.ID)
		}
		var got []string
		for paging := (place.Paging{Limit: 2}); ; {
			page, err := w.Personal.ReadStates(w.Context(), ann, paging)
			require.NoError(w, err)
			for _, state := range page.Items {
				got = append(got, state.ThreadID)
			}
			if paging.After = page.NextCursor; paging.After == "" {
				break
			}
		}
		require.Equal(w, want, got)
		_, err := w.Personal.ReadStates(w.Context(), ann, place.Paging{After: "nothing"})
		w.Invalid("cursor", err)
	})
}

// unread is the definition, counted message by message.
func unread(w *team.Team, by authz.Caller, thread string) (n, mentions int64) {
	w.Helper()
	return w.Number(`SELECT count(*) FROM messages m JOIN threads t ON t.id = m.thread_id
			LEFT JOIN read_states r ON r.thread_id = t.id AND r.principal_id = $1
		WHERE t.id = $2 AND m.thread_seq > coalesce(r.last_read_seq, 0) AND m.thread_seq > t.unread_floor_seq
		  AND m.deleted_at IS NULL AND m.author_id <> $1`, by.Principal, thread),
		w.Number(`SELECT count(*) FROM messages m JOIN threads t ON t.id = m.thread_id
			JOIN message_mentions n ON n.message_id = m.id AND n.principal_id = $1
			LEFT JOIN read_states r ON r.thread_id = t.id AND r.principal_id = $1
		WHERE t.id = $2 AND m.thread_seq > coalesce(r.last_read_seq, 0) AND m.thread_seq > t.unread_floor_seq
		  AND m.deleted_at IS NULL AND m.author_id <> $1`, by.Principal, thread)
}

func snapshot(w *team.Team, by authz.Caller) map[string]wire.ReadState {
	w.Helper()
	states := team.Personally(w, by, personal.Unread)
	byThread := map[string]wire.ReadState{}
	for _, state := range states {
		byThread[state.ThreadID] = state
	}
	return byThread
}

// People write and delete while others read: each read_state.updated says what was unread at its place in the log.
func TestCountsAreOfTheirPlaceInTheLog(t *testing.T) {
	t.Parallel()
	team.Each(t, func(w *team.Team) {
		channel := w.Text()
		var readers []authz.Caller
		for i := range 6 {
			readers = append(readers, w.Member(fmt.Sprint("reader", i), team.OnChannel(channel.ID), wire.LevelWrite))
		}
		bob := w.Member("bob", team.OnChannel(channel.ID), wire.LevelWrite)
		main := channel.MainThreadID
		events := w.Emitted(func() {
			var work sync.WaitGroup
			for range 4 {
				work.Go(func() {
					for i := range 40 {
						said := w.Say(bob, main, "hello @reader0")
						if i%5 == 4 {
							require.NoError(w, w.Domain.DeleteMessage(w.Context(), bob, said.ID))
						}
					}
				})
			}
			for _, reader := range readers {
				work.Go(func() {
					for i := range int64(60) {
						read(w, reader, main, i)
					}
				})
			}
			work.Wait()
		})
		unread, states := map[int64]bool{}, 0 // by thread_seq
		for _, record := range events {
			switch record.Type {
			case eventlog.MessageCreated:
				unread[payload[wire.MessageEvent](w, record).Message.ThreadSeq] = true
			case eventlog.MessageDeleted:
				delete(unread, payload[wire.MessageEvent](w, record).Message.ThreadSeq)
			case eventlog.ReadStateUpdated:
				state, want := payload[wire.ReadStateEvent](w, record).ReadState, int64(0)
				for seq := range unread {
					if seq > state.LastReadSeq {
						want++
					}
				}
				require.Equal(w, want, state.UnreadCount, "ES-14 at %d", record.Seq)
				if record.AudienceID == readers[0].Principal {
					require.Equal(w, want, state.MentionCount, "ES-14 at %d", record.Seq)
				}
				states++
			}
		}
		require.Greater(w, states, 100)
	})
}
