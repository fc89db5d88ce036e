package gateway_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/gateway"
	"github.com/cairnsync/cairn/internal/testkit"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// The naive rule: a principal receives an event if it may when it is its turn in the log; what it missed while it was
// away, if it may when it comes back. Each client must have received exactly that, in order, without gap or duplicate.
//
// Between two points at which everything has settled, a node may know a permission change before its turn (package
// comment): there an event must come if it was allowed from its turn on, and may come if it was allowed at any time.

// modelEvent is an event with whom it is for.
type modelEvent struct {
	seq             int64
	audience        string
	channel, thread string
	left            string // of thread.moved_out: the thread, which went to where
	to              string
}

// model is the naive state.
type model struct {
	grants  map[string]map[string]string // principal → channel → grant
	threads map[string]string            // thread → channel
	events  []modelEvent
	states  []map[string]map[string]bool // what each principal sees, after each event
}

func (m *model) sees() map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for principal, grants := range m.grants {
		all[principal] = map[string]bool{}
		for channel := range grants {
			all[principal][channel] = true
		}
	}
	return all
}

// allowed decides about one receiver; threads is where they are by now, for what was missed.
func (e *modelEvent) allowed(principal string, sees map[string]bool, threads map[string]string) bool {
	if e.audience != "" {
		return e.audience == principal
	}
	channel := e.channel
	if now, moved := threads[e.thread]; moved && e.thread != "" {
		channel = now
	}
	if e.left == "" {
		return sees[channel]
	}
	to := e.to
	if threads != nil {
		to = threads[e.left]
	}
	return sees[channel] && (to == channel || !sees[to]) // who sees the target gets thread.moved
}

// follower is a device that keeps what it was sent.
type follower struct {
	device  device
	person  string
	session string
	cursor  int64

	c    *client
	mu   sync.Mutex
	got  []int64
	acks int
	done chan struct{}
}

func (f *follower) read() {
	defer close(f.done)
	for {
		frame, err := f.c.read()
		if err != nil {
			return
		}
		f.mu.Lock()
		switch frame.Op {
		case wire.OpDispatch:
			f.got = append(f.got, body[wire.Envelope](f.c, frame).Seq)
			f.cursor = f.got[len(f.got)-1]
		case wire.OpCursor:
			f.cursor = body[wire.Cursor](f.c, frame).Seq
		case wire.OpHeartbeatAck:
			f.acks++
		}
		f.mu.Unlock()
	}
}

func (f *follower) start(c *client) {
	f.c, f.done = c, make(chan struct{})
	go f.read()
}

func (f *follower) leave(t *testing.T) {
	require.NoError(t, f.c.ws.CloseNow())
	<-f.done
	f.c = nil
}

// settle waits until the follower has got everything that was sent to it, and answers what is new.
func (f *follower) settle() []int64 {
	f.mu.Lock()
	want := f.acks + 1
	f.mu.Unlock()
	f.c.send(wire.OpHeartbeat, wire.Heartbeat{})
	require.Eventually(f.c.t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.acks >= want
	}, soon, time.Millisecond)
	f.mu.Lock()
	defer f.mu.Unlock()
	got := f.got
	f.got = nil
	return got
}

type play struct {
	*testing.T

	w         *world
	nodes     []*node
	random    *rand.Rand
	m         model
	people    []string
	channels  []string
	threads   []string
	followers []*follower
	settled   int // events of the model
}

func TestEveryoneReceivesWhatTheNaiveRuleAllows(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			testkit.Each(t, func(t *testing.T, db *testkit.Database) { newPlay(t, db, seed).run(120) })
		})
	}
}

func newPlay(t *testing.T, db *testkit.Database, seed uint64) *play {
	w := newWorld(t, db)
	limits := func(o *gateway.Options) { o.Limits.CatchupPageSize, o.Limits.CursorAdvanceEvery = 7, 5 }
	one, two := w.pair(limits)
	p := &play{T: t, w: w, nodes: []*node{one, two}, random: rand.New(rand.NewPCG(seed, 1))}
	p.m = model{grants: map[string]map[string]string{}, threads: map[string]string{}}
	for range 4 {
		p.channels = append(p.channels, w.channel())
	}
	for i := range 6 {
		thread := w.thread(p.channels[i%4])
		p.threads, p.m.threads[thread] = append(p.threads, thread), p.channels[i%4]
	}
	for i := range 3 {
		person := w.person(fmt.Sprint("person ", i))
		p.people, p.m.grants[person] = append(p.people, person), map[string]string{}
		for range 2 {
			f := &follower{device: w.device(person), person: person}
			c := p.node().connect(f.device)
			f.session = c.ready.GatewaySessionID
			f.start(c)
			p.followers = append(p.followers, f)
		}
	}
	return p
}

func pick[T any](p *play, from []T) T { return from[p.random.IntN(len(from))] }

func (p *play) node() *node { return pick(p, p.nodes) }

func (p *play) run(steps int) {
	for range steps {
		switch p.random.IntN(12) {
		case 0, 1:
			p.permit()
		case 2:
			p.move()
		case 3:
			p.settle()
			f := pick(p, p.followers)
			if f.c == nil {
				p.comeBack(f)
			} else {
				f.leave(p.T)
			}
		case 4, 5:
			p.settle()
		default:
			p.speak()
		}
	}
	p.settle()
	for _, f := range p.followers {
		if f.c == nil {
			p.comeBack(f)
		}
		f.leave(p.T)
	}
}

// note adds events that were written, in order.
func (p *play) note(events ...modelEvent) {
	for _, event := range events {
		event.seq = int64(len(p.m.events)) + 1
		p.m.events = append(p.m.events, event)
		p.m.states = append(p.m.states, p.m.sees())
	}
}

// permit gives or takes a permission.
func (p *play) permit() {
	person, channel := pick(p, p.people), pick(p, p.channels)
	if grant, has := p.m.grants[person][channel]; has {
		delete(p.m.grants[person], channel)
		p.node().revoke(person, grant)
	} else {
		p.m.grants[person][channel] = p.node().grant(person, channel, wire.LevelRead)
	}
	p.note(modelEvent{audience: person})
}

func (p *play) speak() {
	thread := pick(p, p.threads)
	channel := p.m.threads[thread]
	p.node().emit(p.w.message(channel, thread, "x"), setting(p.people[0], "k"))
	p.note(modelEvent{channel: channel, thread: thread}, modelEvent{audience: p.people[0]})
}

func (p *play) move() {
	thread, to := pick(p, p.threads), pick(p, p.channels)
	from := p.m.threads[thread]
	if from == to {
		return
	}
	p.w.exec(`UPDATE threads SET channel_id = $1 WHERE id = $2`, to, thread)
	p.m.threads[thread] = to
	p.node().emit(
		eventlog.Event{Type: eventlog.ThreadMoved, Scope: p.w.scope(to, thread), ResourceID: thread, ResourceVersion: 2,
			Payload: wire.ThreadEvent{Thread: wire.Thread{ID: thread, ChannelID: to}}},
		eventlog.Event{Type: eventlog.ThreadMovedOut, Scope: p.w.scope(from, ""), ResourceID: from,
			Payload: wire.ThreadMovedOut{ThreadID: thread, ChannelID: from}})
	p.note(modelEvent{channel: to, thread: thread}, modelEvent{channel: from, left: thread, to: to})
}

// settle waits for everybody and compares.
func (p *play) settle() {
	for _, n := range p.nodes {
		n.settled()
	}
	for _, f := range p.followers {
		if f.c != nil {
			p.compare(f, f.settle())
		}
	}
	p.settled = len(p.m.events)
}

// compare checks what a follower that was connected got since everything settled last.
func (p *play) compare(f *follower, got []int64) {
	p.ordered(got)
	for i := p.settled; i < len(p.m.events); i++ {
		event := p.m.events[i]
		must, may := true, false
		for _, state := range p.m.states[i:] {
			allowed := event.allowed(f.person, state[f.person], nil)
			must, may = must && allowed, may || allowed
		}
		has := slices.Contains(got, event.seq)
		require.False(p, has && !may, "event %d must not come", event.seq)
		require.False(p, !has && must, "event %d must come", event.seq)
	}
}

func (p *play) ordered(got []int64) {
	require.True(p, slices.IsSorted(got), "%v", got)
	require.Len(p, slices.Compact(slices.Clone(got)), len(got), "duplicates in %v", got)
}

// comeBack lets a follower resume, or identify with its cursor, somewhere, and compares what it missed.
func (p *play) comeBack(f *follower) {
	for _, n := range p.nodes {
		n.settled()
	}
	n, cursor := p.node(), f.cursor
	if p.random.IntN(2) == 0 {
		c := n.resume(f.device, f.session, f.cursor)
		c.expect(wire.OpResumed)
		f.start(c)
	} else {
		c := n.connect(f.device, f.cursor)
		f.session = c.ready.GatewaySessionID
		f.start(c)
	}
	got := f.settle()
	require.Eventually(p, func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.cursor >= int64(len(p.m.events)) }, soon, time.Millisecond)
	got = append(got, f.settle()...)
	p.ordered(got)
	var want []int64
	state := p.m.sees()
	for _, event := range p.m.events {
		if event.seq > cursor && event.allowed(f.person, state[f.person], p.m.threads) {
			want = append(want, event.seq)
		}
	}
	require.Equal(p, want, got)
}
