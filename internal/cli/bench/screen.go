package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	wire "github.com/cairnsync/cairn/wire/workspace"
)

// measurePermission is what a change of one person's permissions costs while others are connected.
func measurePermission(ctx context.Context, b *bench, engine string) ([]Figure, error) {
	alone, _, err := b.changePermissions(ctx, 1)
	if err != nil {
		return nil, err
	}
	crowded, strangers, err := b.changePermissions(ctx, audience)
	f := Figure{
		Scenario: "permission", Engine: engine, Unit: "CPU-ms per change", Value: crowded,
		Load: fmt.Sprintf("a person among %d connected ones gets and loses a channel (events to others: %d)", audience, strangers),
	}.against("the same with nobody else connected", alone)
	return []Figure{f.goal("≤ 1.2, none to others", f.Ratio <= 1.2 && strangers == 0)}, err
}

// changePermissions gives one of n people a channel and takes it back, again and again. It answers the server's CPU
// milliseconds per change, and how many events others received.
func (b *bench) changePermissions(ctx context.Context, n int) (each float64, strangers int64, err error) {
	p, err := b.premises(ctx, sqlite)
	if err != nil {
		return 0, 0, err
	}
	people, err := p.people(ctx, n)
	if err != nil {
		return 0, 0, errors.Join(err, p.db.Close())
	}
	crowd, err := p.crowd(ctx, people)
	if err != nil {
		return 0, 0, errors.Join(err, p.db.Close())
	}
	_, err = p.channels(ctx, 1, crowd)
	if err != nil {
		return 0, 0, errors.Join(err, p.db.Close())
	}
	private, err := p.channels(ctx, 1, "")
	if err != nil {
		return 0, 0, errors.Join(err, p.db.Close())
	}
	codes, err := p.codes(ctx, append([]string{p.owner.Principal}, people...))
	if err != nil {
		return 0, 0, errors.Join(err, p.db.Close())
	}
	s, err := b.serve(ctx, p)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	seats, err := s.seats(ctx, codes)
	if err != nil {
		return 0, 0, err
	}
	v, err := s.gathered(ctx, seats[1:], nil)
	if err != nil {
		return 0, 0, err
	}
	defer v.close()
	desks, err := s.desks(ctx, seats[:1])
	if err != nil {
		return 0, 0, err
	}
	defer desks[0].close()
	rounds := b.rounds(200)
	before := s.cpu()
	if err := changeAccess(desks[0], people[0], private[0].ID, rounds); err != nil {
		return 0, 0, err
	}
	// The person sees each change, and the channel with its thread when it is given.
	err = until(ctx, "the changes", patience, func() bool { return v.all[0].events.Load() >= int64(2*rounds) })
	return (s.cpu() - before) / float64(2*rounds) * 1000, v.events.Load() - v.all[0].events.Load(), err
}

func changeAccess(desk *poster, person, channel string, rounds int) error {
	for range rounds {
		body, err := json.Marshal(wire.NewGrant{
			Subject: wire.Subject{Kind: wire.SubjectPrincipal, ID: person}, Target: wire.Target{Kind: wire.TargetChannel, ID: channel}, Level: wire.LevelWrite,
		})
		if err != nil {
			return err
		}
		answer, err := desk.ask("/api/v1/grants", body)
		if err != nil {
			return err
		}
		var grant wire.Grant
		if err := json.Unmarshal(answer, &grant); err != nil {
			return fmt.Errorf("read grant: %w", err)
		}
		if err := desk.send("/api/v1/grants/"+grant.ID+"/revoke", []byte("{}")); err != nil {
			return err
		}
	}
	return nil
}

const (
	teams        = 10 // of as many people each
	teamChannels = 5
	screens      = 500
	paceRate     = 200 // messages per second
)

// measureScreen is the time from a message's transaction to the screens of its channel.
func measureScreen(ctx context.Context, b *bench, engine string) ([]Figure, error) {
	p99, err := b.screens(ctx)
	f := Figure{
		Scenario: "screen", Engine: engine, Unit: "ms (p99)", Value: milliseconds(p99),
		Load: fmt.Sprintf("%d messages/s over %d channels, %d connected, %d of them in each channel, from the transaction to the screen",
			paceRate, teams*teamChannels, screens, screens/teams),
	}
	return []Figure{f.goal("≤ 25 ms", p99 <= 25*time.Millisecond)}, err
}

func (b *bench) screens(ctx context.Context) (p99 time.Duration, err error) {
	p, err := b.premises(ctx, sqlite)
	if err != nil {
		return 0, err
	}
	threads, codes, err := p.teams(ctx)
	if err != nil {
		return 0, errors.Join(err, p.db.Close())
	}
	s, err := b.serve(ctx, p)
	if err != nil {
		return 0, err
	}
	seats, err := s.seats(ctx, codes)
	if err != nil {
		return 0, errors.Join(err, s.stop())
	}
	v, err := s.gathered(ctx, seats[len(threads):], func(at *target) { at.timed = b.env })
	if err != nil {
		return 0, errors.Join(err, s.stop())
	}
	desks, err := s.desks(ctx, seats[:len(threads)])
	if err != nil {
		return 0, errors.Join(err, s.stop())
	}
	sent, failed := b.pacedMessages(ctx, desks, threads)
	err = errors.Join(err, failed, until(ctx, "deliveries", patience, func() bool { return v.events.Load() >= int64(sent*screens/teams) }))
	v.close()
	return v.percentile99(), errors.Join(err, s.stop())
}

// teams makes teams with channels of their own, and answers a thread of every channel, and codes: for a writer in each
// channel, and for every person.
func (p *premises) teams(ctx context.Context) (threads, codes []string, err error) {
	var everybody []string
	for range teams {
		people, err := p.people(ctx, screens/teams)
		if err != nil {
			return nil, nil, err
		}
		crowd, err := p.crowd(ctx, people)
		if err != nil {
			return nil, nil, err
		}
		channels, err := p.channels(ctx, teamChannels, crowd)
		if err != nil {
			return nil, nil, err
		}
		for _, channel := range channels {
			threads = append(threads, channel.MainThreadID)
		}
		everybody = append(everybody, people...)
	}
	codes, err = p.codes(ctx, slices.Concat(slices.Repeat([]string{p.owner.Principal}, len(threads)), everybody))
	return threads, codes, err
}

// pacedMessages writes at an even pace, each message by the next writer, and answers how many were written.
func (b *bench) pacedMessages(ctx context.Context, desks []*poster, threads []string) (int, error) {
	ticker := time.NewTicker(time.Second / paceRate)
	defer ticker.Stop()
	var (
		writing  sync.WaitGroup
		turns    = make([]chan struct{}, len(desks))
		failures = make([]error, len(desks))
	)
	for i := range desks {
		turns[i] = make(chan struct{}, paceRate)
		writing.Go(func() {
			for range turns[i] {
				failures[i] = errors.Join(failures[i], desks[i].send("/api/v1/threads/"+threads[i]+"/messages", message(messageSize)))
			}
		})
	}
	n := int(b.span().Seconds() * paceRate)
	for i := range n {
		select {
		case <-ticker.C:
			turns[i%len(turns)] <- struct{}{}
		case <-ctx.Done():
			n = i
		}
	}
	for _, turn := range turns {
		close(turn)
	}
	writing.Wait()
	return n, errors.Join(append(failures, ctx.Err())...)
}
