package bench

import (
	"context"
	"errors"
	"fmt"
)

// meeting is a channel with an audience at the gateway, and people who write.
type meeting struct {
	*site

	desks   []*poster
	threads []string
	seats   []*seat
	viewers *viewers
	sent    int
}

// plan is what a meeting is made of.
type plan struct {
	audience int
	channels int // that each of the audience may write in; the first one is written to
	writers  int
	at       func(*target)
	settings []string
}

// meet makes the people, lets them connect and answers when they are live.
func (b *bench) meet(ctx context.Context, how plan) (*meeting, error) {
	p, err := b.premises(ctx, sqlite)
	if err != nil {
		return nil, err
	}
	m, codes, err := p.prepare(ctx, how)
	if err != nil {
		return nil, errors.Join(err, p.db.Close())
	}
	if m.site, err = b.serve(ctx, p, how.settings...); err != nil {
		return nil, err
	}
	if err := m.open(ctx, how, codes); err != nil {
		return nil, errors.Join(err, m.stop())
	}
	return m, nil
}

// prepare makes the people and channels, and a login code for each writer and then for each of the audience.
func (p *premises) prepare(ctx context.Context, how plan) (*meeting, []string, error) {
	m := &meeting{}
	people, err := p.people(ctx, how.audience)
	if err != nil {
		return nil, nil, err
	}
	crowd, err := p.crowd(ctx, people)
	if err != nil {
		return nil, nil, err
	}
	channels, err := p.channels(ctx, how.channels, crowd)
	if err != nil {
		return nil, nil, err
	}
	if m.threads, err = p.threads(ctx, channels[0].ID, max(how.writers, 1)); err != nil {
		return nil, nil, err
	}
	signing := make([]string, 0, how.writers+len(people))
	for range how.writers {
		signing = append(signing, p.owner.Principal)
	}
	codes, err := p.codes(ctx, append(signing, people...))
	return m, codes, err
}

func (m *meeting) open(ctx context.Context, how plan, codes []string) error {
	all, err := m.site.seats(ctx, codes)
	if err != nil {
		return err
	}
	m.seats = all[how.writers:]
	if m.viewers, err = m.gathered(ctx, m.seats, how.at); err != nil {
		return err
	}
	m.desks, err = m.site.desks(ctx, all[:how.writers])
	return err
}

func (m *meeting) close() error {
	for _, d := range m.desks {
		d.close()
	}
	m.viewers.close()
	return m.stop()
}

// say posts n messages, as many at a time as there are writers.
func (m *meeting) say(n, size int) error {
	err := each(min(n, len(m.desks)), len(m.desks), func(writer int) error {
		for k := writer; k < n; k += len(m.desks) {
			if err := m.desks[writer].send("/api/v1/threads/"+m.threads[writer]+"/messages", message(size)); err != nil {
				return err
			}
		}
		return nil
	})
	m.sent += n
	return err
}

// heard waits until all but so many of the messages have arrived everywhere.
func (m *meeting) heard(ctx context.Context, but int) error {
	want := int64((m.sent - but) * len(m.seats))
	return until(ctx, "deliveries", patience, func() bool { return m.viewers.events.Load() >= want })
}

// deliver measures rounds of messages to the whole audience and answers the server's CPU seconds per million
// deliveries, deliveries per second and the size of one.
func (b *bench) deliver(ctx context.Context, how plan, rounds, frames, ahead int) (cpu, perSecond float64, size int, err error) {
	m, err := b.meet(ctx, how)
	if err != nil {
		return 0, 0, 0, err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	if err := errors.Join(m.say(1, fanoutSize), m.heard(ctx, 0)); err != nil { // everything is warm
		return 0, 0, 0, err
	}
	before, started := m.cpu(), b.env.Now()
	for range rounds {
		if err := errors.Join(m.say(frames, fanoutSize), m.heard(ctx, ahead)); err != nil {
			return 0, 0, 0, err
		}
	}
	if err := m.heard(ctx, 0); err != nil {
		return 0, 0, 0, err
	}
	deliveries := float64(rounds * frames * how.audience)
	if ended := m.viewers.ended.Load(); ended > 0 {
		err = fmt.Errorf("%d readers were cut", ended)
	}
	return (m.cpu() - before) / deliveries * 1e6, deliveries / b.env.Now().Sub(started).Seconds(), int(m.viewers.frameSize.Load()), err
}

// measureLoadedDelivery writes ahead of the audience, so that frames wait.
func measureLoadedDelivery(ctx context.Context, b *bench, engine string) ([]Figure, error) {
	const frames = 96
	rounds := b.rounds(30)
	cpu, perSecond, size, err := b.deliver(ctx, plan{audience: audience, channels: 1, writers: 16}, rounds, frames, frames)
	if err != nil {
		return nil, err
	}
	base, err := b.bareFanout(ctx, rounds, frames, 8, size)
	f := Figure{
		Scenario: "deliver-loaded", Engine: engine, Unit: "CPU-s per million", Value: cpu, CPU: cpu,
		Load: fmt.Sprintf("%d readers of a channel, frames of %d bytes, 16 writers one batch of %d ahead, messages written included (%.0f k deliveries/s)",
			audience, size, frames, perSecond/1000),
	}.against("the library's bare loop, the same size, 8 frames in one write", base)
	return []Figure{f.goal("≤ 1.7", f.Ratio <= 1.7)}, err
}

// measureSingleDelivery writes one message, waits for everybody, and writes the next.
func measureSingleDelivery(ctx context.Context, b *bench, engine string) ([]Figure, error) {
	rounds := b.rounds(400)
	cpu, perSecond, size, err := b.deliver(ctx, plan{audience: audience, channels: 1, writers: 1}, rounds, 1, 0)
	if err != nil {
		return nil, err
	}
	base, err := b.bareFanout(ctx, rounds, 1, 1, size)
	f := Figure{
		Scenario: "deliver-single", Engine: engine, Unit: "CPU-s per million", Value: cpu, CPU: cpu,
		Load: fmt.Sprintf("%d readers of a channel, frames of %d bytes, one at a time (%.0f k deliveries/s)", audience, size, perSecond/1000),
	}.against("the library's bare loop, the same size, one frame at a time", base)
	return []Figure{f.goal("≤ 1.4", f.Ratio <= 1.4)}, err
}

// measureWideDelivery is what it costs that people are in many channels.
func measureWideDelivery(ctx context.Context, b *bench, engine string) ([]Figure, error) {
	const few, many = 10, 200
	rounds := b.rounds(300)
	narrow, _, _, err := b.deliver(ctx, plan{audience: audience, channels: few, writers: 1}, rounds, 1, 0)
	if err != nil {
		return nil, err
	}
	wide, _, _, err := b.deliver(ctx, plan{audience: audience, channels: many, writers: 1}, rounds, 1, 0)
	f := Figure{
		Scenario: "deliver-wide", Engine: engine, Unit: "CPU-s per million", Value: wide, CPU: wide,
		Load: fmt.Sprintf("%d members of %d channels each, one message at a time to one channel", audience, many),
	}.against(fmt.Sprintf("members of %d channels each", few), narrow)
	return []Figure{f.goal("≤ 1.1", f.Ratio <= 1.1)}, err
}

// measureGatewayIdle is the memory of gateway sessions that wait.
func measureGatewayIdle(ctx context.Context, b *bench, engine string) ([]Figure, error) {
	n := 5000
	if b.Quick {
		n = 300
	}
	each, err := b.gatewayIdle(ctx, n)
	f := Figure{
		Scenario: "gateway-idle", Engine: engine, Unit: "KiB resident per session", Value: each / 1024,
		Load: fmt.Sprintf("%d gateway sessions of as many people in a channel, over the empty server", n),
	}
	return []Figure{f.goal("≤ 14", f.Value <= 14)}, err
}

func (b *bench) gatewayIdle(ctx context.Context, n int) (each float64, err error) {
	const first = 100 // they bring the program's own pages into memory
	how := plan{audience: first + n, channels: 1, writers: 0}
	p, err := b.premises(ctx, sqlite)
	if err != nil {
		return 0, err
	}
	_, codes, err := p.prepare(ctx, how)
	if err != nil {
		return 0, errors.Join(err, p.db.Close())
	}
	s, err := b.serve(ctx, p)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	seats, err := s.seats(ctx, codes)
	if err != nil {
		return 0, err
	}
	v, err := s.gathered(ctx, seats[:first], nil)
	if err != nil {
		return 0, err
	}
	v.close()
	if err := s.alone(ctx); err != nil {
		return 0, err
	}
	empty, err := s.resident()
	if err != nil {
		return 0, err
	}
	if v, err = s.gathered(ctx, seats[first:], nil); err != nil {
		return 0, err
	}
	defer v.close()
	full, err := s.resident()
	return (full - empty) / float64(n), err
}

// alone waits until nobody is connected to the gateway any more.
func (s *site) alone(ctx context.Context) error {
	return until(ctx, "everybody to have left", patience, func() bool { return s.metric("cairn_streams{") == 0 })
}
