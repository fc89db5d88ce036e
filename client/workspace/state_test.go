package workspace_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/workspace"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestStateIsBounded(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	thread := seed(f)
	client := f.client(t)
	snapshot, err := client.Snapshot(t.Context())
	require.NoError(t, err)
	state := workspace.NewState(f.device)
	state.Start(snapshot)
	opened := time.Now()
	state.OpenThread(thread, opened)
	channel := state.Channels("")[0].ID
	state.OpenChannel(channel, opened)
	for len(state.Needs()) > 0 {
		_, err := client.Load(t.Context(), state, state.Needs()[0])
		require.NoError(t, err)
	}
	f.do(func(w *world) {
		w.heard = func(e wire.Envelope) {
			event, err := workspace.Decode(e)
			require.NoError(t, err)
			require.NoError(t, state.Apply(event))
		}
		for range workspace.MaxWindow + 10 {
			w.post(thread, w.other, "many")
		}
	})
	held := state.Messages(thread)
	require.Len(t, held, workspace.MaxWindow, "the oldest go first")
	require.Equal(t, int64(11), held[0].ThreadSeq)
	require.Empty(t, state.Needs())
	unread, _ := state.Unread(thread)
	require.Equal(t, int64(workspace.MaxWindow+10), unread, "they count all the same")

	state.Expire(opened.Add(workspace.CacheMaxAge - time.Hour))
	require.Len(t, state.OpenThreads(), 1)
	state.Expire(opened.Add(workspace.CacheMaxAge + time.Hour))
	require.Empty(t, state.OpenThreads(), "ES-13.1 what nobody opened goes")
	require.Empty(t, state.Messages(thread))
	require.Empty(t, state.Threads(channel))
	require.Len(t, state.Channels(""), 1)
}

func TestStateSkipsWhatWasApplied(t *testing.T) {
	t.Parallel()
	state := workspace.NewState("d")
	state.Start(wire.Snapshot{HeadSeq: 10, SyncEpoch: "e", Principal: wire.Principal{ID: "me", DisplayName: "new", Version: 3}})
	apply := func(seq, version int64, name string) {
		event, err := workspace.Decode(wire.Envelope{
			ID: "i", Seq: seq, Type: workspace.TypePrincipalUpdated, Resource: wire.Resource{Kind: "principal", ID: "me", Version: version},
			Payload: raw(wire.PrincipalEvent{Principal: wire.Principal{ID: "me", DisplayName: name, Version: version}}),
		})
		require.NoError(t, err)
		require.NoError(t, state.Apply(event))
	}
	apply(9, 9, "an event before the snapshot")
	require.Equal(t, "new", state.Me().DisplayName, "ES-9.2")
	apply(11, 2, "an older version")
	require.Equal(t, "new", state.Me().DisplayName, "ES-9.3")
	apply(12, 4, "newest")
	require.Equal(t, "newest", state.Me().DisplayName)
	apply(12, 5, "again")
	require.Equal(t, "newest", state.Me().DisplayName, "ES-9.2")
}

func TestCompare(t *testing.T) {
	t.Parallel()
	a := workspace.Export{Spaces: []wire.Space{{ID: "s", Name: "one"}}, Drafts: []wire.Draft{}}
	b := workspace.Export{Spaces: []wire.Space{{ID: "s", Name: "two"}, {ID: "x"}}}
	require.Empty(t, workspace.Compare(a, a))
	differences := workspace.Compare(a, b)
	require.Len(t, differences, 2)
	require.Equal(t, `/spaces/s/name: local "one", fresh "two"`, differences[0].String())
	require.Contains(t, differences[1].String(), "/spaces/x: local nothing")
}

// What is loaded meets events that came since it was asked for: both orders end in the same (ES-9.3).
func TestStateAppliesEventsOverWhatIsLoaded(t *testing.T) {
	t.Parallel()
	snapshot := func(head, version int64, readOnly bool, level wire.Level) wire.Snapshot {
		return wire.Snapshot{
			HeadSeq: head, Principal: wire.Principal{ID: "me"}, Spaces: []wire.Space{{ID: "s", Version: 1}},
			Channels: []wire.Channel{{ID: "c", SpaceID: "s", ReadOnly: readOnly, Version: version}},
			Access:   []wire.Access{{Kind: wire.TargetSpace, ID: "s", Level: level}, {Kind: wire.TargetChannel, ID: "c", Level: level}},
		}
	}
	started := func() *workspace.State {
		state := workspace.NewState("d")
		state.Start(snapshot(1, 1, false, wire.LevelWrite))
		return state
	}
	apply := func(t *testing.T, state *workspace.State, seq int64, kind string, of wire.Resource, payload any) {
		t.Helper()
		event, err := workspace.Decode(wire.Envelope{ID: "i", Seq: seq, Type: kind, Resource: of, Payload: raw(payload)})
		require.NoError(t, err)
		require.NoError(t, state.Apply(event))
	}
	lock := func(t *testing.T, state *workspace.State, seq, version int64, readOnly bool) {
		t.Helper()
		apply(t, state, seq, workspace.TypeChannelUpdated, wire.Resource{Kind: "channel", ID: "c", Version: version},
			wire.ChannelEvent{Channel: wire.Channel{ID: "c", SpaceID: "s", ReadOnly: readOnly, Version: version}})
	}
	level := func(state *workspace.State) wire.Level { return state.Level(wire.TargetChannel, "c") }
	t.Run("a sidebar of a space that the snapshot has no more", func(t *testing.T) {
		t.Parallel()
		state := started()
		load := state.Begin(workspace.Need{Kind: workspace.NeedSnapshot})
		apply(t, state, 2, workspace.TypeSidebarUpdated, wire.Resource{Kind: "space", ID: "s"},
			wire.SidebarEvent{Sidebar: wire.Sidebar{SpaceID: "s", Version: 1}})
		require.True(t, load.Snapshot(wire.Snapshot{HeadSeq: 3, Principal: wire.Principal{ID: "me"}}))
		_, there := state.Sidebar("s")
		require.False(t, there)
		state.Took(wire.Sidebar{SpaceID: "s", Version: 2})
		_, there = state.Sidebar("s")
		require.False(t, there, "nor by the answer to a write of before")
	})
	t.Run("a channel was locked after the snapshot", func(t *testing.T) {
		t.Parallel()
		state := started()
		load := state.Begin(workspace.Need{Kind: workspace.NeedSnapshot})
		lock(t, state, 2, 2, true)
		require.True(t, load.Snapshot(snapshot(1, 1, false, wire.LevelWrite)))
		require.Equal(t, wire.LevelRead, level(state))
	})
	t.Run("a channel was unlocked after the snapshot", func(t *testing.T) {
		t.Parallel()
		state := workspace.NewState("d")
		state.Start(snapshot(1, 1, true, wire.LevelRead))
		load := state.Begin(workspace.Need{Kind: workspace.NeedSnapshot})
		lock(t, state, 2, 2, false)
		require.True(t, load.Snapshot(snapshot(1, 1, true, wire.LevelRead)))
		require.Contains(t, state.Needs(), workspace.Need{Kind: workspace.NeedSnapshot}, "only the server knows what the lock hid")
	})
	t.Run("a channel was locked after its level changed", func(t *testing.T) {
		t.Parallel()
		state := started()
		load := state.Begin(workspace.Need{Kind: workspace.NeedPersonal})
		apply(t, state, 2, workspace.TypeAccessChanged, wire.Resource{Kind: "principal", ID: "me"}, wire.AccessChanged{
			PermissionVersion: 2, Changed: []wire.Access{{Kind: wire.TargetChannel, ID: "c", Level: wire.LevelWrite}},
		})
		lock(t, state, 3, 2, true)
		require.True(t, load.Personal(workspace.Personal{}))
		require.Equal(t, wire.LevelRead, level(state))
	})
}
