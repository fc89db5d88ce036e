package sessions

import (
	"context"
	"time"
)

// Bounds of a single heartbeat.
const (
	heartbeatTimeout  = 5 * time.Second
	heartbeatRetryMax = 2 * time.Second
)

// term is what the device knows about its lease, by its own monotonic clock (SS-CON-3).
type term struct {
	until  time.Time // the last moment at which it may execute
	beatAt time.Time // when the next heartbeat is due
	failed int       // heartbeats in a row that got no answer
}

// duty is what a term asks for.
type duty int

const (
	rest duty = iota // until when
	beat             // now
	over             // the term has ended
)

// keptSince is the term after a claim or heartbeat that was sent at the moment sent and granted: the server began to
// count later than that, so it promises at least as much. A thirtieth is kept back for stopping in time.
func keptSince(sent time.Time, o ExecutorOptions) term {
	return term{until: sent.Add(o.Term - o.Term/30), beatAt: sent.Add(o.Heartbeat)}
}

// missed is the term after a heartbeat that got no answer or was put off: the next one follows
// soon, or after what the server asked to wait.
func (t term) missed(now time.Time, asked time.Duration) term {
	wait := max(asked, min(heartbeatRetryMax, minBackoff<<min(t.failed, 4)))
	return term{until: t.until, beatAt: now.Add(wait), failed: t.failed + 1}
}

// due is the term with a heartbeat asked for at now.
func (t term) due(now time.Time) term {
	if now.Before(t.beatAt) {
		t.beatAt = now
	}
	return t
}

// ask answers what to do at now, and for rest until when.
func (t term) ask(now time.Time) (duty, time.Time) {
	switch {
	case !now.Before(t.until):
		return over, now
	case !now.Before(t.beatAt):
		return beat, now
	case t.beatAt.Before(t.until):
		return rest, t.beatAt
	default:
		return rest, t.until
	}
}

// keepLease sends heartbeats until the run ends, and ends it when the lease is lost.
func (e *Executor) keepLease(claimed time.Time) {
	held := keptSince(claimed, e.options)
	var last error
	for e.run.Err() == nil {
		switch what, until := held.ask(time.Now()); what {
		case over:
			e.lose(LossUnreachable, last)
		case beat:
			held, last = e.heartbeat(held)
		case rest:
			held = e.restUntil(held, until)
		}
	}
}

func (e *Executor) restUntil(held term, until time.Time) term {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-e.run.Done():
	case <-timer.C:
	case <-e.beat:
		return held.due(time.Now())
	}
	return held
}

// heartbeat asks once, never past the end of the term.
func (e *Executor) heartbeat(held term) (term, error) {
	sent := time.Now()
	ctx, cancel := context.WithTimeout(e.run, min(heartbeatTimeout, held.until.Sub(sent)))
	defer cancel()
	_, err := e.client.HeartbeatLease(ctx, e.session)
	if err == nil {
		return keptSince(sent, e.options), nil
	}
	e.refused("keep lease", err)
	return held.missed(time.Now(), retryAfter(err)), err
}
