package live

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/cairnsync/cairn/internal/session"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// history makes the commits of one session in order.
func history(t *rapid.T) []session.Commit {
	var state session.State
	state.SessionID = "s"
	var commits []session.Commit
	for range rapid.IntRange(1, 15).Draw(t, "commits") {
		n := rapid.IntRange(0, 3).Draw(t, "events")
		events := make([]session.Stored, 0, n)
		for range n {
			state.LastSeq++
			events = append(events, session.Stored{Event: wire.Event{Seq: state.LastSeq}})
		}
		switch rapid.IntRange(0, 3).Draw(t, "what") {
		case 0:
			state.LeaseRevision++
			state.Lease = session.Lease{Holder: "d", ExpiresAt: time.Unix(state.LeaseRevision, 0)}
		case 1:
			state.ControlRevision++
		case 2:
			state.AccessVersion++
		default:
		}
		if len(commits) > 0 && state == commits[len(commits)-1].State {
			continue
		}
		commits = append(commits, session.Commit{State: state, Events: events})
	}
	return commits
}

func TestFollow(t *testing.T) {
	t.Parallel()
	t.Run("SS-STR-2 commits in any order, again, or with some missing never make a gap", rapid.MakeCheck(func(t *rapid.T) {
		commits := history(t)
		start := commits[0]
		from := start.State
		from.LastSeq -= int64(len(start.Events))
		var got []session.Commit
		missing := false
		for i, commit := range commits {
			switch rapid.IntRange(0, 5).Draw(t, "fate") {
			case 0:
				missing = missing || (i > 0 && len(commit.Events) > 0) || i == 0
			case 1:
				got = append(got, commit, commit)
			default:
				got = append(got, commit)
			}
		}
		got = rapid.Permutation(got).Draw(t, "order")
		events, state, complete := follow(session.State{SessionID: "s", LastSeq: from.LastSeq}, got)
		last := from.LastSeq
		for _, event := range events {
			if event.Seq != last+1 {
				t.Fatalf("%d follows %d", event.Seq, last)
			}
			last = event.Seq
		}
		if complete && state.LastSeq != last {
			t.Fatalf("state is at %d, events at %d", state.LastSeq, last)
		}
		if !missing && !complete {
			t.Fatal("all commits are there and something is missing")
		}
	}))
}

func TestNewest(t *testing.T) {
	t.Parallel()
	t.Run("SS-LEASE-5 an older lease never replaces a newer one", func(t *testing.T) {
		t.Parallel()
		newer := session.State{LeaseRevision: 3, Lease: session.Lease{Holder: "b"}, LastSeq: 2}
		older := session.State{LeaseRevision: 2, Lease: session.Lease{Holder: "a"}, LastSeq: 5, AccessVersion: 1}
		for _, joined := range []session.State{newest(newer, older), newest(older, newer)} {
			require.Equal(t, session.State{LeaseRevision: 3, Lease: session.Lease{Holder: "b"}, LastSeq: 5, AccessVersion: 1}, joined)
		}
	})
}

func TestAnnounced(t *testing.T) {
	t.Parallel()
	t.Run("SS-PRS-1 comings, goings and changes are told, once", func(t *testing.T) {
		t.Parallel()
		var told announced
		a, b := wire.Presence{DeviceID: "a", LastSeen: 1}, wire.Presence{DeviceID: "b", LastSeen: 1}
		devices, frames := told.change([]wire.Presence{a, b})
		require.Equal(t, []string{"a", "b"}, devices)
		require.Len(t, frames, 2)
		a.LastSeen = 9
		devices, _ = told.change([]wire.Presence{a, b})
		require.Empty(t, devices, "when a device was seen is no change")
		a.Driving = true
		devices, frames = told.change([]wire.Presence{a})
		require.Equal(t, []string{"a", "b"}, devices)
		require.Contains(t, string(frames[0].Object), `"online":true`)
		require.Contains(t, string(frames[1].Object), `"online":false`)
		require.Equal(t, 1, told.block().Len())
	})
	t.Run("SS-PRS-1 in a crowd those who execute or drive are always announced", func(t *testing.T) {
		t.Parallel()
		present := []wire.Presence{{DeviceID: "1"}, {DeviceID: "2"}, {DeviceID: "3"}, {DeviceID: "4", Executor: true}, {DeviceID: "5", Driving: true}}
		picked := announce(present, 2)
		require.Len(t, picked, 4)
		require.Len(t, announce(present, 5), 5)
	})
}
