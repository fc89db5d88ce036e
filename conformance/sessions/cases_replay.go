package sessions

import (
	"fmt"
	"slices"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/conformance/rulebook"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func replayCases() []testCase {
	return slices.Concat(
		bothWays(testCase{rule: "SS-STR-2", name: "after chooses where the replay begins"}, caseAfter),
		bothWays(testCase{rule: "SS-STR-2", name: "events, then the lease, then presence, then live frames"}, caseReplayOrder),
		bothWays(testCase{rule: "SS-STR-2", name: "a replay of more than 1000 meets the live stream without a gap", ours: true}, caseLongReplay),
		bothWays(testCase{rule: "SS-STR-2", name: "reconnecting while others write: no gap, no duplicate"}, caseReconnects),
		bothWays(testCase{rule: "SS-STR-2", name: "many viewers see the same order"}, caseManyViewers),
		bothWays(testCase{rule: "SS-STR-2", name: "controls of the replayed range that are applied by now are said"}, caseReplayedApplied),
		bothWays(testCase{rule: "SS-STR-2", name: "a cursor ahead of the log is reset", ours: true}, caseReset),
	)
}

func caseAfter(t *trial, o opener) {
	r := t.room().executed()
	r.fill(6)
	for query, first := range map[string]int64{"": 1, "?after=0": 1, "?after=4": 5, "?after=abc": 1, "?after=": 1, "?after=-3": 1, "?after=5": 6} {
		stream := o.open(r.owner, r, query)
		requireDense(t, first, stream.events(int(7-first)))
		stream.live()
		stream.close()
	}
	stream := o.open(r.owner, r, "?after=6").live()
	require.False(t, slices.ContainsFunc(stream.past, func(f frame) bool { return f.name == wire.FrameEvent }))
	r.fill(1)
	require.EqualValues(t, 7, stream.events(1)[0].Seq)
}

func caseReplayOrder(t *trial, o opener) {
	r := t.room().executed()
	other := openSSE(r.viewer(), r, "").live()
	r.fill(5)
	stream := o.open(r.owner, r, "")
	present := stream.next(wire.FramePresence)
	require.True(t, *presenceOf(t, present).Online)
	var order []string
	for _, f := range stream.past {
		if len(order) == 0 || order[len(order)-1] != f.name {
			order = append(order, f.name)
		}
	}
	order = slices.DeleteFunc(order, func(name string) bool { return name == "comment" })
	require.Equal(t, []string{wire.FrameEvent, wire.FrameLease, wire.FramePresence}, order)
	require.Equal(t, r.owner.device, value(leaseOf(t, stream.past[slices.IndexFunc(stream.past, func(f frame) bool {
		return f.name == wire.FrameLease
	})]).Holder))
	r.fill(1)
	require.EqualValues(t, 6, stream.events(1)[0].Seq)
	other.close()
}

func caseLongReplay(t *trial, o opener) {
	r := t.room().executed()
	const stored, during = 2500, 500
	r.fill(stored)
	var writer sync.WaitGroup
	writer.Go(func() {
		for range during / 20 {
			r.owner.post(r.path("/events"), object{"events": batch(20)})
		}
	})
	stream := o.open(r.viewer(), r, "")
	read := stream.events(stored + during)
	writer.Wait()
	requireDense(t, 1, read)
	require.Len(t, r.all(), stored+during)
	late := o.open(r.owner, r, fmt.Sprintf("?after=%d", stored-1100))
	requireDense(t, stored-1100+1, late.events(1100+during))
}

func caseReconnects(t *trial, o opener) {
	r := t.room().executed()
	viewer := r.viewer()
	const total = 300
	var writer sync.WaitGroup
	defer writer.Wait()
	writer.Go(func() {
		for range total / 3 {
			r.owner.post(r.path("/events"), object{"events": batch(3)})
		}
	})
	var seen []wire.Event
	for round := 0; len(seen) < total; round++ {
		stream := o.open(viewer, r, fmt.Sprintf("?after=%d", len(seen)))
		seen = append(seen, stream.events(min(1+round*7%23, total-len(seen)))...)
		requireDense(t, 1, seen)
		stream.close()
	}
	writer.Wait()
	for i, stored := range r.all() {
		require.Equal(t, value(stored.ClientEventID), value(seen[i].ClientEventID), "event %d", i+1)
	}
}

func caseManyViewers(t *trial, o opener) {
	r := t.room().executed()
	viewer, editor := r.viewer(), r.editor()
	var feeds []*feed
	for i := range 8 {
		feeds = append(feeds, o.open([]*caller{viewer, editor, r.owner}[i%3], r, "").live())
	}
	rulebook.Concurrently(6, func(i int) *answer {
		if i%2 == 0 {
			return editor.post(r.path("/control"), object{"id": newID(), "kind": "steer", "text": "x"})
		}
		return r.owner.post(r.path("/events"), object{"events": batch(10)})
	})
	stored := r.all()
	require.Len(t, stored, 33)
	for _, f := range feeds {
		got := f.events(33)
		requireDense(t, 1, got)
		for i := range got {
			require.Equal(t, stored[i].ClientEventID, got[i].ClientEventID)
		}
	}
}

func caseReplayedApplied(t *trial, o opener) {
	r := t.room().executed()
	early, earlySeq := r.control(r.owner, wire.ControlSend)
	late, lateSeq := r.control(r.owner, wire.ControlSend)
	pending, _ := r.control(r.owner, wire.ControlSend)
	for _, id := range []string{early, late} {
		r.applied(r.owner, id).want(200)
	}
	stream := o.open(r.viewer(), r, "")
	said := map[string]bool{}
	for range 2 {
		got := stream.next(wire.FrameControl)
		var control wire.Control
		require.NoError(t, decode(got.data, &control))
		require.True(t, control.Applied)
		require.Equal(t, map[string]int64{early: earlySeq, late: lateSeq}[control.ID], control.Seq)
		said[control.ID] = true
	}
	require.Equal(t, map[string]bool{early: true, late: true}, said)
	require.Len(t, slices.DeleteFunc(slices.Clone(stream.past), func(f frame) bool { return f.name != wire.FrameEvent }), 3, "after the replay")
	part := o.open(r.viewer(), r, fmt.Sprintf("?after=%d", earlySeq))
	part.next(wire.FrameControl, controlFrame(late, true))
	r.applied(r.owner, pending).want(200)
	part.next(wire.FrameControl, controlFrame(pending, true))
	for _, f := range part.past {
		require.False(t, f.name == wire.FrameControl && controlFrame(early, true)(f), "outside the replayed range")
	}
}

func caseReset(t *trial, o opener) {
	r := t.room().executed()
	r.fill(3)
	stream := o.open(r.owner, r, "?after=99")
	got := stream.next(wire.FrameReset)
	requireFields(t, got.data, "reset frame", o.frameFields("last_seq")...)
	require.JSONEq(t, `3`, string(member(t, got.data, "last_seq")))
	require.Len(t, slices.DeleteFunc(slices.Clone(stream.past), func(f frame) bool { return f.name == "comment" }), 1, "before anything else")
	again := o.open(r.owner, r, "?after=0")
	requireDense(t, 1, again.events(3))
	require.False(t, slices.ContainsFunc(again.past, func(f frame) bool { return f.name == wire.FrameReset }))
}
