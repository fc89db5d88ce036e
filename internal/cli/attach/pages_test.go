package attach

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
)

// archive is a server's log in memory; it answers what a model wants to read.
type archive struct {
	t       require.TestingT
	entries []entry
	log     log
	m       *model
	reads   int
	most    int // events ever held
}

func newArchive(t require.TestingT, m *model, count int) *archive {
	a := &archive{t: t, m: m}
	for i := range count {
		a.entries = append(a.entries, a.log.add("", trace.User{Text: fmt.Sprintf("event %d", i+1)}))
	}
	return a
}

func (a *archive) page(q client.EventsQuery) []entry {
	limit := q.Limit
	if limit == 0 {
		limit = 200
	}
	count := int64(len(a.entries))
	switch {
	case q.Tail > 0:
		return a.entries[max(0, count-int64(q.Tail)):]
	case q.Before > 0:
		return a.entries[max(0, q.Before-1-int64(limit)):max(0, q.Before-1)]
	default:
		return a.entries[q.After:min(count, q.After+int64(limit))]
	}
}

// serve answers reads until the model wants no more.
func (a *archive) serve(effects []effect) {
	for len(effects) > 0 {
		e := effects[0]
		effects = effects[1:]
		if read, is := e.(readEffect); is {
			a.reads++
			effects = append(effects, a.m.handle(pageMsg{gen: read.gen, want: read.want, query: read.query, entries: a.page(read.query), last: int64(len(a.entries))})...)
		}
		a.check()
	}
}

// check proves that the window has no hole, stays bounded, and that the screen fits.
func (a *archive) check() {
	a.most = max(a.most, len(a.m.win.entries))
	require.LessOrEqual(a.t, len(a.m.win.entries), maxEvents+slack)
	for i, e := range a.m.win.entries {
		require.Equal(a.t, a.m.win.first()+int64(i), e.event.Seq)
	}
	fits(a.t, a.m)
}

// stream tells of new events.
func (a *archive) stream(count int) {
	for range count {
		e := a.log.add("", trace.User{Text: fmt.Sprintf("event %d", a.log.last+1)})
		a.entries = append(a.entries, e)
		a.serve(a.m.handle(streamMsg{a.m.gen, []any{e}}))
	}
}

func (a *archive) press(keys ...string) {
	for _, key := range keys {
		a.serve(a.m.handle(keyOf(key)))
	}
}

func openArchive(t *testing.T, count int) (*stage, *archive) {
	t.Helper()
	s := newStage(t, nil)
	a := newArchive(t, s.m, count)
	s.m.conn = online
	a.serve([]effect{s.m.tail(readTail)})
	return s, a
}

func TestALongLogOpensAtItsEnd(t *testing.T) {
	t.Parallel()
	s, a := openArchive(t, 100_000)
	require.Equal(t, 1+maxBackward, a.reads, "the tail, and no more than the bound to look for what is open")
	s.shows("event 100000")
	for range 20 {
		a.press("home")
	}
	require.Less(t, s.m.win.first(), int64(90_000))
	require.True(t, s.m.behind())
	s.shows("older events")
	a.stream(3)
	s.hides("event 100003")
	a.press("end")
	s.shows("event 100003")
	require.False(t, s.m.behind())
	a.stream(1)
	s.shows("event 100004")
}

func TestScrollingStaysWhereItIs(t *testing.T) {
	t.Parallel()
	s, a := openArchive(t, 3000)
	a.press("pgup")
	before := s.screen()
	a.stream(50)
	require.Equal(t, before, s.screen(), "new events do not move what is read")
	a.press("pgdown", "pgdown", "pgdown", "pgdown", "pgdown")
	s.shows("event 3050")
	require.True(t, s.m.win.follow)
	a.stream(1)
	s.shows("event 3051")
}

func TestScrollingThroughEverything(t *testing.T) {
	t.Parallel()
	s, a := openArchive(t, 12_000)
	top := func() string { return s.m.win.look(s.m.bodyRoom, s.m.bodyHeight)[0].text(false, 80) }
	seen := 12_000 - s.m.bodyHeight + 1
	for range 3000 {
		a.press("pgup")
		var number int
		_, err := fmt.Sscanf(top(), "› event %d", &number)
		require.NoError(t, err)
		require.LessOrEqual(t, number, seen)
		require.GreaterOrEqual(t, number, seen-s.m.bodyHeight, "no event is passed over")
		if seen = number; number == 1 {
			break
		}
	}
	require.Equal(t, 1, seen)
	for range 3000 {
		a.press("pgdown")
		var number int
		_, err := fmt.Sscanf(top(), "› event %d", &number)
		require.NoError(t, err)
		require.LessOrEqual(t, number, seen+s.m.bodyHeight)
		if seen = number; !s.m.behind() && s.m.win.follow {
			break
		}
	}
	s.shows("event 12000")
	require.GreaterOrEqual(t, a.most, maxEvents)
}

func TestFollowingALongTime(t *testing.T) {
	t.Parallel()
	s, a := openArchive(t, 100)
	for range 30 {
		var items []any
		for range 500 {
			e := a.log.add("", trace.User{Text: fmt.Sprintf("event %d", a.log.last+1)})
			a.entries, items = append(a.entries, e), append(items, e)
		}
		a.serve(s.m.handle(streamMsg{0, items}))
	}
	s.shows("event 15100")
	require.Less(t, a.most, maxEvents+slack+1)
}

func TestPagingProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := newStage(t, nil)
		a := newArchive(rt, s.m, rapid.IntRange(0, 3000).Draw(rt, "events"))
		s.m.conn = online
		a.serve([]effect{s.m.tail(readTail)})
		for range rapid.IntRange(1, 15).Draw(rt, "steps") {
			switch rapid.IntRange(0, 3).Draw(rt, "step") {
			case 0:
				a.stream(rapid.IntRange(1, 5).Draw(rt, "count"))
			default:
				a.press(rapid.SampledFrom([]string{"pgup", "pgdown", "home", "end", "shift+up", "shift+down"}).Draw(rt, "key"))
			}
		}
		a.press("end")
		require.False(rt, s.m.behind())
		require.Equal(rt, a.log.last, s.m.live.last)
	})
}

func TestWhatIsOpenIsFoundFarBack(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	a := newArchive(t, s.m, 10)
	a.entries = append(a.entries, a.log.add("t", trace.TurnStart{Text: "go"}), a.log.add("t", permission("old")), a.log.add("t", permission("done")))
	for range 2500 {
		a.entries = append(a.entries, a.log.add("t", trace.Assistant{Text: "x "}))
	}
	a.entries = append(a.entries, a.log.add("t", trace.AskResolved{AskID: "done", Outcome: trace.AskText}))
	a.serve([]effect{s.m.tail(readTail)})
	require.Len(t, s.m.live.asks, 1)
	require.True(t, s.m.live.turn.open)
	s.shows("Run old")
	require.Equal(t, 4, a.reads)
}

func TestAReset(t *testing.T) {
	t.Parallel()
	s, a := openArchive(t, 700)
	a.press("pgup")
	id := only[sendEffect](t, s.enter("/send x")).control.ID
	require.NotEmpty(t, id)
	s.m.handle(sentMsg{id: id})
	effects := s.frames(client.ResetFrame{LastSeq: 2}, a.log.add("", trace.User{Text: "of the old log"}))
	require.Equal(t, id, only[sendEffect](t, effects).control.ID, "SS-CON-2 what may be lost is sent again, with its id")
	read := only[readEffect](t, effects)
	s.hides("event 700", "of the old log")
	s.shows("restored")
	a.entries = a.entries[:2]
	follow := only[followEffect](t, s.m.handle(pageMsg{gen: read.gen, want: read.want, query: read.query, entries: a.page(read.query), last: 2}))
	require.Equal(t, followEffect{read.gen, 2}, follow)
	s.shows("event 1", "event 2")
	s.m.handle(streamMsg{read.gen - 1, []any{(&log{last: 2}).add("", trace.User{Text: "late and old"})}})
	s.hides("late and old")
	require.Empty(t, s.m.handle(pageMsg{gen: read.gen - 1, want: readOlder}))
}

func TestReadsThatFail(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	want := s.m.tail(readTail)
	timer := only[timerEffect](t, s.m.handle(pageMsg{want: want.want, query: want.query, err: errors.New("no route")}))
	s.shows("cannot read the log: no route")
	require.Equal(t, want, only[readEffect](t, s.m.handle(timer.msg)))
	s.m.handle(pageMsg{want: readTail, query: want.query, err: &client.APIError{Status: 403, Code: "not_a_member", Message: "no"}})
	s.shows("you may not see this session any more")
	require.Empty(t, all[readEffect](s.m.handle(timer.msg)))
}

func TestReconnecting(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.tell("", trace.User{Text: "first"})
	s.frames(client.ConnectionFrame{State: client.Lost, Err: errors.New("reset by peer")})
	s.shows("offline, trying again", "first")
	known := s.m.win.entries[0]
	require.Len(t, all[detailEffect](s.frames(client.ConnectionFrame{State: client.Connected})), 1)
	s.frames(known)
	s.tell("", trace.User{Text: "second"})
	s.shows("● live", "second")
	require.Len(t, s.m.win.entries, 2)

	for _, line := range []string{"/pause", "/resume", "/send not yet"} {
		s.m.handle(sentMsg{id: only[sendEffect](t, s.enter(line)).control.ID})
	}
	s.enter("/send never arrived")
	asked := only[pendingEffect](t, s.frames(client.ConnectionFrame{State: client.Lost}, client.ConnectionFrame{State: client.Connected}))
	require.Equal(t, []string{"id-1", "id-2", "id-3"}, asked.ids)
	s.m.handle(pendingMsg{asked: asked.ids, waits: map[string]bool{"id-3": true}})
	require.Len(t, s.m.outbox, 2, "what was applied while nobody told is not listed")
	s.shows("not yet", "never arrived")
}
