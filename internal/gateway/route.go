package gateway

import (
	"time"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/wire/code"
)

// route finds the receivers of an event and asks for each. The mutex is held.
func (g *Gateway) route(ev *event, now time.Time) {
	r := routing{g: g, ev: ev, resource: ev.resource(&g.places, g.moved), now: now, micros: now.UnixMicro()}
	channel, space := r.resource.ChannelID, r.resource.SpaceID
	switch {
	case ev.kind.Personal:
		r.ask(g.principals[ev.record.AudienceID])
	case channel != "":
		r.askEach(g.index.channels[channel], r.resource.Place)
		r.askEach(g.index.spaces[space], g.places.of("", space))
		r.askEach(g.index.wide, authz.Place{})
		r.ask(g.principals[ev.owner])
	case space != "":
		r.askEach(g.index.spaces[space], r.resource.Place)
		r.askEach(g.index.homes[space], r.resource.Place)
		r.askEach(g.index.wide, authz.Place{})
	default:
		for _, p := range g.principals {
			r.ask(p)
		}
	}
}

// routing is one event on its way to its receivers.
type routing struct {
	g        *Gateway
	ev       *event
	resource authz.Resource
	now      time.Time
	micros   int64
}

// ask gives the event to the connections of p, if p may receive it.
func (r *routing) ask(p *principal) {
	if p == nil || p.mark == r.ev.record.Seq || p.permissions == nil {
		return
	}
	p.mark = r.ev.record.Seq
	switch {
	case r.ev.reaches(p.permissions, &r.resource, r.g.moved, r.now):
		r.give(p)
	case r.ev.kind.Name == eventlog.ThreadMovedOut && r.ev.concerns(p.permissions, &r.resource, r.now):
		// It gets thread.moved. Where that waits, it is decided again when it is sent, and so must be this one.
		for _, s := range p.sessions {
			if s.catching {
				r.g.take(s, r.ev)
			}
		}
	}
}

// askEach asks everybody in a list. Where reading is all that is needed, whoever reads the place of the list may: a level
// on a place is one on everything in it (WS-AZ-2). That decision is remembered in the list until anything changes that
// it rests on.
func (r *routing) askEach(l *list, place authz.Place) {
	if l == nil {
		return
	}
	read := authz.Resource{Place: place}
	for i := range l.entries {
		e := &l.entries[i]
		p := e.p
		if p.mark == r.ev.record.Seq || p.permissions == nil {
			continue
		}
		if !r.ev.read {
			r.ask(p)
			continue
		}
		if p.until != 0 && p.until <= r.micros {
			p.renewUntil(r.now)
		}
		if e.epoch != p.epoch || e.places != r.g.placed.epoch {
			e.epoch, e.places = p.epoch, r.g.placed.epoch
			_, e.reads = p.permissions.May(action.ChannelRead, &read, r.now)
		}
		if e.reads {
			p.mark = r.ev.record.Seq
			r.give(p)
		} else {
			r.ask(p)
		}
	}
}

func (r *routing) give(p *principal) {
	for _, s := range p.sessions {
		r.g.take(s, r.ev)
	}
}

// renewUntil makes decisions that rest on a permission that has ended be made anew.
func (p *principal) renewUntil(now time.Time) {
	p.epoch++
	p.until = 0
	if next, ends := p.permissions.NextEnd(now); ends {
		p.until = next.UnixMicro()
	}
}

// take gives an event to a connection: to what it is sent now, or while it catches up to what it is sent later
// (ES-7.2.3). The mutex is held.
func (g *Gateway) take(s *session, ev *event) {
	switch {
	case s.over || ev.record.Seq <= s.from || !s.hears.event(ev):
	case !s.catching:
		if len(s.out) == 0 {
			g.touched = append(g.touched, s)
		}
		s.out = append(s.out, ev)
	case len(s.out) >= g.Limits.OutboundQueueMax: // ES-7.2.5
		s.out = nil
		s.end(code.CloseSlowConsumer, "Too much happened during the catch-up.")
	default:
		s.out = append(s.out, ev)
	}
}
