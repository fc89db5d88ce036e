package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// backlog is a log that two people are behind: one sees all of it, the other one part in a hundred.
type backlog struct {
	*site

	all, some *seat
	begin     int64
	events    int
	filters   map[*seat]eventlog.Filter
}

// scarce is how many events of the backlog there are to one that both see.
const scarce = 100

// measureCatchUp compares a gateway client that is far behind with reading the same events without a network.
func measureCatchUp(ctx context.Context, b *bench, engine string) ([]Figure, error) {
	events := 50_000
	if b.Quick {
		events = 2_000
	}
	l, err := b.fallBehind(ctx, engine, events)
	if err != nil {
		return nil, err
	}
	defer func() { _ = l.stop() }() // the figures stand
	all, err := b.catchUp(ctx, l, l.all)
	if err != nil {
		return nil, err
	}
	read, err := b.readLog(ctx, l, l.all, true)
	if err != nil {
		return nil, err
	}
	f := Figure{
		Scenario: "catch-up", Engine: engine, Unit: "events/s", Value: float64(events) / all.Seconds(),
		Load: fmt.Sprintf("one client %d events behind, all visible", events),
	}.against("reading and encoding them, without network", float64(events)/read.Seconds())
	some, err := b.catchUp(ctx, l, l.some)
	if err != nil {
		return nil, err
	}
	scanned, err := b.readLog(ctx, l, l.some, false)
	g := Figure{
		Scenario: "catch-up-rare", Engine: engine, Unit: "ms", Value: milliseconds(some),
		Load: fmt.Sprintf("one client %d events behind, 1 %% visible, from ready to live", events),
	}.against("the scan alone", milliseconds(scanned))
	return []Figure{f.goal("≥ 0.5", f.Ratio >= 0.5), g.goal("≤ 1.5", g.Ratio <= 1.5)}, err
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// fallBehind fills a log and starts a server on it.
func (b *bench) fallBehind(ctx context.Context, engine string, events int) (*backlog, error) {
	p, err := b.premises(ctx, engine)
	if err != nil {
		return nil, err
	}
	l, codes, err := p.fill(ctx, events)
	if err != nil {
		return nil, errors.Join(err, p.db.Close())
	}
	if l.site, err = b.serve(ctx, p, "sync.catchup_max_events=1000000"); err != nil {
		return nil, err
	}
	seats, err := l.seats(ctx, codes)
	if err != nil {
		return nil, errors.Join(err, l.stop())
	}
	for i, one := range []**seat{&l.all, &l.some} {
		*one = seats[i]
		seats[i].cursor = l.begin
	}
	l.filters = map[*seat]eventlog.Filter{l.all: l.filters[nil], l.some: p.filter(l.filters[nil])}
	return l, nil
}

// fill writes the events: all into a channel both see, or one that only the first does.
func (p *premises) fill(ctx context.Context, events int) (*backlog, []string, error) {
	people, err := p.people(ctx, 2)
	if err != nil {
		return nil, nil, err
	}
	both, err := p.crowd(ctx, people)
	if err != nil {
		return nil, nil, err
	}
	first, err := p.crowd(ctx, people[:1])
	if err != nil {
		return nil, nil, err
	}
	rare, err := p.channels(ctx, 1, both)
	if err != nil {
		return nil, nil, err
	}
	common, err := p.channels(ctx, 1, first)
	if err != nil {
		return nil, nil, err
	}
	const threads = 50
	inRare, err := p.threads(ctx, rare[0].ID, threads)
	if err != nil {
		return nil, nil, err
	}
	inCommon, err := p.threads(ctx, common[0].ID, threads)
	if err != nil {
		return nil, nil, err
	}
	l := &backlog{events: events}
	state, err := storage.Read(ctx, p.db, eventlog.StateOf)
	if err != nil {
		return nil, nil, err
	}
	l.begin = state.Head
	err = each(events, 64, func(i int) error {
		thread := inCommon[i%threads]
		if i%scarce == 0 {
			thread = inRare[i/scarce%threads]
		}
		_, _, err := p.domain.CreateMessage(ctx, p.owner, thread, wire.NewMessage{ClientMsgID: p.env.NewID(), ContentMD: messageText})
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	l.filters = map[*seat]eventlog.Filter{nil: {
		Principal: people[0], Channels: []string{rare[0].ID, common[0].ID}, Spaces: []string{p.space.ID}, FullSpaces: []string{}, MovedThreads: []string{},
	}}
	codes, err := p.codes(ctx, people)
	return l, codes, err
}

// filter is what the second person sees.
func (p *premises) filter(of eventlog.Filter) eventlog.Filter {
	of.Principal, of.Channels = "", of.Channels[:1]
	return of
}

// catchUp connects a seat behind its cursor and answers how long it takes from ready until it is live.
func (b *bench) catchUp(ctx context.Context, l *backlog, one *seat) (time.Duration, error) {
	v, err := l.sit(ctx, []*seat{one}, caughtUp, nil)
	if err != nil {
		return 0, err
	}
	defer v.close()
	if err := until(ctx, "the session", patience, func() bool { return v.ready.Load() > 0 }); err != nil {
		return 0, err
	}
	started := b.env.Now()
	err = until(ctx, "the catch-up", 2*patience, func() bool { return v.caughtUp.Load() > 0 })
	return b.env.Now().Sub(started), err
}

// readLog reads what a seat catches up, from the database alone, and encodes it or not.
func (b *bench) readLog(ctx context.Context, l *backlog, one *seat, encode bool) (took time.Duration, err error) {
	db, err := storage.Open(ctx, storage.Options{URL: l.database})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	started := b.env.Now()
	for after, end := l.begin, l.begin+int64(l.events); after < end; {
		checked := end
		page, err := storage.Read(ctx, db, func(tx storage.Tx) (page []*eventlog.Record, err error) {
			page, checked, err = eventlog.Visible(tx, l.filters[one], after, end, 500)
			return page, err
		})
		if err != nil {
			return 0, err
		}
		after = checked
		for _, record := range page {
			if !encode {
				break
			}
			if _, err := json.Marshal(map[string]any{"op": wire.OpDispatch, "d": record.Envelope}); err != nil {
				return 0, err
			}
		}
	}
	return b.env.Now().Sub(started), nil
}

// measureResume is how long it takes until everybody who lost the connection is live again.
func measureResume(ctx context.Context, b *bench, engine string) ([]Figure, error) {
	n, missed := 2000, 100
	if b.Quick {
		n = 100
	}
	took, cpu, err := b.resumeAll(ctx, engine, n, missed)
	f := Figure{
		Scenario: "resume", Engine: engine, Unit: "ms until the last is live", Value: milliseconds(took), CPU: cpu / float64(n*missed) * 1e6,
		Load: fmt.Sprintf("%d clients resume at once, %d events behind each", n, missed),
	}
	return []Figure{f.goal("≤ 1500 ms", took <= 1500*time.Millisecond)}, err
}

func (b *bench) resumeAll(ctx context.Context, engine string, n, missed int) (took time.Duration, cpu float64, err error) {
	p, err := b.premises(ctx, engine)
	if err != nil {
		return 0, 0, err
	}
	m, codes, err := p.prepare(ctx, plan{audience: n, channels: 1, writers: 4})
	if err != nil {
		return 0, 0, errors.Join(err, p.db.Close())
	}
	if m.site, err = b.serve(ctx, p); err != nil {
		return 0, 0, err
	}
	if err := m.open(ctx, plan{audience: n, writers: 4}, codes); err != nil {
		return 0, 0, errors.Join(err, m.stop())
	}
	defer func() { err = errors.Join(err, m.close()) }()
	m.viewers.close()
	// The gateway knows how to go on with a session that has ended, not with one that is about to.
	if err := errors.Join(m.alone(ctx), m.say(missed, messageSize)); err != nil {
		return 0, 0, err
	}
	started, before := b.env.Now(), m.cpu()
	if m.viewers, err = m.sit(ctx, m.seats, resumed, nil); err != nil {
		return 0, 0, err
	}
	err = until(ctx, "everybody to be live", patience, func() bool { return m.viewers.caughtUp.Load() >= int64(n) })
	took, cpu = b.env.Now().Sub(started), m.cpu()-before
	if got := m.viewers.events.Load(); err == nil && got != int64(n*missed) {
		err = fmt.Errorf("%d events were delivered, not %d", got, n*missed)
	}
	return took, cpu, err
}
