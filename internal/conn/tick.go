package conn

import (
	"time"

	"github.com/gobwas/ws"

	"github.com/cairnsync/cairn/wire/code"
)

// due is what a stream's clocks ask for.
type due uint8

const (
	dueNothing due = iota
	duePing
	dueAge   // it has lived its longest life
	dueCut   // its socket takes nothing
	dueLost  // no pong came
	dueClose // the client did not finish the close handshake
)

// at brings the clocks to now and answers what is due. waiting: something waits for the socket;
// moved: the socket took something since the last call.
func (c *clocks) at(now time.Time, l Limits, ph phase, waiting bool) due {
	if c.wrote {
		c.quiet = now
	}
	if c.wrote || !waiting {
		c.progress = now
	}
	c.wrote = false
	switch {
	case ph == phaseClosing || ph == phaseDraining:
		if !now.Before(c.closeBy) {
			return dueClose
		}
		return dueNothing
	case ph == phaseEnded:
		return dueNothing
	case now.Sub(c.progress) >= l.WriteTimeout:
		return dueCut
	case !c.pinged.IsZero() && now.Sub(c.pinged) >= l.PongWithin:
		return dueLost
	case now.Sub(c.opened) >= l.MaxAge:
		return dueAge
	case !waiting && now.Sub(c.quiet) >= l.PingEvery:
		return duePing
	default:
		return dueNothing
	}
}

// tick does what is due at now.
func (s *Stream) tick(now time.Time) {
	s.mu.Lock()
	defer s.unlock()
	switch s.clocks.at(now, s.keeper.limits, s.phase, s.writing) {
	case duePing:
		s.ping(now)
	case dueAge:
		s.shut(code.CloseGoingAway, "The stream has reached its age.")
	case dueCut:
		s.keeper.observe.cut(s.kind)
		s.stuck()
	case dueLost, dueClose:
		s.abandon(s.lost())
	case dueNothing:
	}
}

// stuck ends a stream whose socket takes nothing. The mutex is held.
func (s *Stream) stuck() {
	slow := s.keeper.limits.Codes.Slow
	if !s.keeper.limits.TellStuck {
		s.abandon(slow)
		return
	}
	s.queue.drop()
	s.shut(slow, "The connection took nothing for too long.")
}

// ping breaks a silence (SS-STR-4). The mutex is held and nothing waits.
func (s *Stream) ping(now time.Time) {
	if s.kind == SSE {
		s.put(entry{data: comment(s.format, now)})
		return
	}
	if s.clocks.pinged.IsZero() {
		s.clocks.pinged = now
	}
	s.put(entry{data: controlFrame(ws.OpPing, nil)})
}
