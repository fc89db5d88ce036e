package workspace

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/conformance/rulebook"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func catchupCases() []testCase {
	return []testCase{
		{rule: "ES-7.1", name: "cursor tells how far events that are not visible were checked", profile: small, run: caseCursor},
		{rule: "ES-7.1", name: "a live connection is told too", profile: small, run: caseLiveCursor},
		{rule: "ES-7.2", name: "exactly what one may see, in order, then catchup.complete", run: caseCatchUp},
		{rule: "ES-7.2", name: "pages end with a cursor", profile: small, run: casePages},
		{rule: "ES-7.2", name: "what happens meanwhile follows, nothing is mixed", run: caseMeanwhile},
		{rule: "ES-7.2", name: "no ephemeral event before catchup.complete; without a cursor at once", run: caseNoEphemeral},
		{rule: "ES-7.3", name: "epoch_changed", run: resync(func(in *wire.Identify, _ int64) { in.SyncEpoch = newID() }, wire.ResyncEpoch)},
		{rule: "ES-7.3", name: "cursor_ahead", run: resync(func(in *wire.Identify, head int64) {
			ahead := head + 1_000_000
			in.Cursor, in.SyncEpoch = &ahead, ""
		}, wire.ResyncFuture)},
		{rule: "ES-7.3", name: "too_far_behind", profile: far, run: caseTooFar},
		{rule: "ES-7.3", name: "retention", profile: forgetful, slow: true, run: caseRetention},
		{rule: "ES-7.4", name: "REST gives the same events as the gateway", run: caseSameByREST},
		{rule: "ES-7.4", name: "limit is bounded, pages go on at next_cursor", profile: small, run: caseRESTPages},
		{rule: "ES-7.4", name: "410 resync_required with each reason of a request", run: caseRESTResync},
		{rule: "ES-7.5", name: "hello, ready, resumed, snapshot, events and discovery name one epoch", run: caseEpoch},
		{rule: "ES-7.5", name: "a restore begins a new epoch and ends every sign-in", profile: restored, slow: true, run: caseRestore},
	}
}

func caseCursor(t *trial) {
	r := t.room()
	s := r.anna.connect()
	from := s.settledSeq()
	s.cut()
	for range 25 {
		r.owner.put("/settings/noise", object{"value": newID()}).want(http.StatusOK)
	}
	head := r.owner.head()
	again := r.anna.catchUp(from)
	var cursors []int64
	for {
		frame := again.next()
		if frame.Op == wire.OpCatchupComplete {
			require.GreaterOrEqual(t, body[wire.CatchupComplete](again, frame).HeadSeq, head)
			break
		}
		require.Equal(t, wire.OpCursor, frame.Op, "%s", frame.D)
		cursors = append(cursors, body[wire.Cursor](again, frame).Seq)
	}
	require.GreaterOrEqual(t, len(cursors), 2, "at least every sync.cursor_advance_every skipped events")
	require.GreaterOrEqual(t, cursors[len(cursors)-1], head)
}

func caseLiveCursor(t *trial) {
	r := t.room()
	s := r.anna.connect()
	for range 25 {
		r.owner.put("/settings/noise", object{"value": newID()}).want(http.StatusOK)
	}
	at := body[wire.Cursor](s, s.expect(wire.OpCursor)).Seq
	require.Greater(t, at, s.ready.HeadSeq)
}

func caseCatchUp(t *trial) {
	r := t.room()
	hidden := r.newChannel(wire.ChannelText)
	from := r.anna.head()
	var want []string
	for i := range 10 {
		want = append(want, r.say(r.owner, fmt.Sprint(i)).ID)
		r.sayIn(r.owner, hidden.MainThreadID, "hidden")
	}
	r.owner.put("/settings/x", object{"value": 1}).want(http.StatusOK)
	s := r.anna.catchUp(from)
	events, head := s.completed()
	var got []string
	for _, event := range events {
		require.Equal(t, "message.created", event.Type)
		got = append(got, event.Resource.ID)
	}
	require.Equal(t, want, got)
	require.GreaterOrEqual(t, head, s.ready.HeadSeq)
	live := r.say(r.owner, "live")
	require.Equal(t, live.ID, s.event("message.created").Resource.ID)
}

func casePages(t *trial) {
	r := t.room()
	from := r.anna.head()
	for i := range 12 {
		r.say(r.anna, fmt.Sprint(i))
	}
	s := r.anna.catchUp(from)
	since := 0
	for {
		frame := s.next()
		if frame.Op == wire.OpCatchupComplete {
			require.Zero(t, since, "the last page ends with a cursor too")
			return
		}
		if since++; frame.Op == wire.OpCursor {
			since = 0
		}
		require.LessOrEqual(t, since, 5, "a cursor after every sync.catchup_page_size")
	}
}

func caseMeanwhile(t *trial) {
	r := t.room()
	from := r.anna.head()
	for i := range 30 {
		r.say(r.owner, fmt.Sprint(i))
	}
	s := r.anna.dial()
	s.seq = from
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		rulebook.Concurrently(3, func(int) *answer {
			return r.owner.post("/threads/"+r.thread+"/messages", wire.NewMessage{ClientMsgID: newID(), ContentMD: "meanwhile"})
		})
	}()
	s.identify(s.identity(from))
	events, _ := s.completed()
	<-sent
	events = only(append(events, s.settled()...), "message.created")
	require.Len(t, events, 33)
	for i, event := range events {
		require.EqualValues(t, i+1, payload[wire.MessageEvent](t, event).Message.ThreadSeq)
	}
}

func caseNoEphemeral(t *trial) {
	r := t.room()
	ben := r.joined(wire.LevelWrite)
	s := r.anna.connect()
	s.focus(r.thread)
	from := s.settledSeq()
	ben.connect().send(wire.OpTypingStart, wire.Typing{ThreadID: r.thread})
	s.await("typing.started") // live without catchup.complete: there was no cursor
	s.cut()
	for i := range 10 {
		r.say(r.owner, fmt.Sprint(i))
	}
	again := r.anna.dial()
	again.seq = from
	again.send(wire.OpResume, again.resumption(s.ready.GatewaySessionID, from))
	typist := ben.another().connect()
	typist.send(wire.OpTypingStart, wire.Typing{ThreadID: r.thread})
	again.expect(wire.OpResumed)
	events, _ := again.completed()
	require.NotContains(t, types(events), "typing.started")
}

// resync makes a case: an identify with a cursor that cannot be caught up from.
func resync(change func(in *wire.Identify, head int64), want wire.ResyncReason) func(*trial) {
	return func(t *trial) {
		r := t.room()
		s := r.anna.dial()
		head := r.anna.head()
		in := s.identity(head)
		change(&in, head)
		requireResync(r, s, in, want)
	}
}

// requireResync also checks that the connection stays and is live from head_seq.
func requireResync(r *room, s *socket, in wire.Identify, want wire.ResyncReason) {
	s.seq = 0
	s.send(wire.OpIdentify, in)
	s.ready = body[wire.Ready](s, s.expect(wire.OpReady))
	told := body[wire.Resync](s, s.expect(wire.OpResyncRequired))
	require.Equal(r.t, want, told.Reason)
	require.Equal(r.t, s.hello.SyncEpoch, told.SyncEpoch)
	require.GreaterOrEqual(r.t, told.HeadSeq, s.ready.HeadSeq)
	sent := r.say(r.owner, "live")
	event := s.await("message.created")
	require.Equal(r.t, sent.ID, event.Resource.ID, "the connection stays open and is live")
	require.Greater(r.t, event.Seq, told.HeadSeq)
}

func caseTooFar(t *trial) {
	r := t.room()
	from := r.anna.head()
	for range 12 {
		r.owner.put("/settings/noise", object{"value": newID()}).want(http.StatusOK)
	}
	s := r.anna.dial()
	requireResync(r, s, s.identity(from), wire.ResyncFar)
	require.Equal(t, string(wire.ResyncFar), r.anna.get(fmt.Sprintf("/events?after=%d", from)).refused(code.ResyncRequired).Reason)
}

func caseRetention(t *trial) {
	r := t.room()
	from := r.anna.head()
	r.say(r.owner, "soon forgotten")
	t.Eventually(patience, "the log forgets", func() bool {
		return r.anna.get(fmt.Sprintf("/events?after=%d", from)).status == http.StatusGone
	})
	problem := r.anna.get(fmt.Sprintf("/events?after=%d", from)).refused(code.ResyncRequired)
	require.Equal(t, string(wire.ResyncOld), problem.Reason)
	s := r.anna.dial()
	requireResync(r, s, s.identity(from), wire.ResyncOld)
	require.Len(t, r.messages(r.anna, "").Messages, 2, "the messages stay")
}

func caseSameByREST(t *trial) {
	r := t.room()
	from := r.anna.head()
	sent := r.say(r.anna, "one")
	r.anna.put("/messages/"+sent.ID+"/reactions/👍", nil).want(http.StatusNoContent)
	r.start(r.anna, r.channel.ID, "two")
	r.anna.put("/settings/k", object{"value": object{"a": []int{1, 2}}}).want(http.StatusOK)
	r.anna.delete("/messages/" + sent.ID).want(http.StatusNoContent)
	events, _ := r.anna.catchUp(from).completed()
	require.Equal(t, r.anna.events(from), events)
	require.NotEmpty(t, events)
}

func caseRESTPages(t *trial) {
	r := t.room()
	from := r.anna.head()
	for i := range 12 {
		r.say(r.anna, fmt.Sprint(i))
	}
	page := read[wire.Events](r.anna.get(fmt.Sprintf("/events?after=%d&limit=400", from)), http.StatusOK)
	require.LessOrEqual(t, len(page.Events), 5, "limit is at most sync.catchup_page_size")
	require.Len(t, only(r.anna.events(from), "message.created"), 12)
	three := read[wire.Events](r.anna.get(fmt.Sprintf("/events?after=%d&limit=3", from)), http.StatusOK)
	require.LessOrEqual(t, len(three.Events), 3)
}

func caseRESTResync(t *trial) {
	r := t.room()
	head := r.anna.head()
	problem := r.anna.get(fmt.Sprintf("/events?after=%d&epoch=%s", head, newID())).refused(code.ResyncRequired)
	require.Equal(t, string(wire.ResyncEpoch), problem.Reason)
	problem = r.anna.get(fmt.Sprintf("/events?after=%d", head+1_000_000)).refused(code.ResyncRequired)
	require.Equal(t, string(wire.ResyncFuture), problem.Reason)
	r.anna.get("/events").refused(code.ValidationFailed)
}

func caseEpoch(t *trial) {
	r := t.room()
	s := r.anna.connect()
	epochs := []string{s.hello.SyncEpoch, s.ready.SyncEpoch, r.anna.snapshot().SyncEpoch}
	again, resumed := r.anna.resume(s.ready.GatewaySessionID, s.ready.HeadSeq)
	again.completed()
	page := read[wire.Events](r.anna.get(fmt.Sprintf("/events?after=%d&epoch=%s", s.ready.HeadSeq, s.hello.SyncEpoch)), http.StatusOK)
	discovery := read[wire.Discovery](r.anna.exchange(http.MethodGet, api, nil, nil), http.StatusOK)
	epochs = append(epochs, resumed.SyncEpoch, page.SyncEpoch, discovery.SyncEpoch)
	require.Len(t, slices.Compact(epochs), 1, "%v", epochs)
}

func caseRestore(t *trial) {
	r := t.room()
	sent := r.say(r.anna, "before")
	s := r.anna.connect()
	cursor := s.ready.HeadSeq
	require.NoError(t, t.in.operated().Restore(t.Context()))
	s.closed(code.CloseServerRestart)
	again := r.anna.dial()
	require.NotEqual(t, s.hello.SyncEpoch, again.hello.SyncEpoch)
	again.send(wire.OpResume, again.resumption(s.ready.GatewaySessionID, cursor))
	again.closed(code.CloseAuthentication) // WS §8: sign in again, and keep what there is
	r.anna.refresh().refused(code.InvalidCredentials)
	r.anna.enter(nil).want(http.StatusOK)
	r.owner.enter(nil).want(http.StatusOK)
	back := r.anna.dial()
	in := back.identity(cursor)
	in.SyncEpoch = s.hello.SyncEpoch
	requireResync(r, back, in, wire.ResyncEpoch)
	require.Equal(t, sent.ContentMD, r.message(r.anna, sent.ID).ContentMD)
}
