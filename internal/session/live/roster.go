package live

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/cairnsync/cairn/internal/session"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// roster keeps this node's rows of presence: one per open stream, and the node's own, by whose term
// they count (SS-PRS-1).
type roster struct {
	hub  *Hub
	kick chan struct{}

	mu      sync.Mutex // guards all below
	open    map[*Stream]*seat
	changed map[*Stream]bool // rows to write again
	left    []departure      // rows to remove
	rebuild bool             // too many to remove were lost: all rows of the node are written anew
}

type departure struct{ connection, session string }

// seat is an open stream.
type seat struct {
	stance  Stance
	entered bool // its row is written; before, enter writes what is said here
}

func newRoster(h *Hub) *roster {
	return &roster{hub: h, kick: make(chan struct{}, 1), open: map[*Stream]*seat{}, changed: map[*Stream]bool{}}
}

// entry is what a stream finds when it enters a session.
type entry struct {
	state    session.State
	standing session.Standing
	exists   bool
}

// sit takes a seat for a stream that is about to enter.
func (r *roster) sit(s *Stream, stance Stance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[s] = &seat{stance: stance}
}

// stance answers what the stream's device said last.
func (r *roster) stance(s *Stream) Stance {
	r.mu.Lock()
	defer r.mu.Unlock()
	if taken := r.open[s]; taken != nil {
		return taken.stance
	}
	return Stance{}
}

// enter writes the stream's row if its caller may see the session. The row and the standing are of
// one transaction that locks the device, so that the device's deletion either sees the row or is
// seen.
func (r *roster) enter(s *Stream) (entry, error) {
	// The write goes on when the client leaves: its row would otherwise come after its removal.
	ctx := context.WithoutCancel(r.hub.ctx)
	keys := []storage.Key{{Lock: storage.LockDevices, ID: s.caller.DeviceID}}
	var written Stance
	found, err := storage.Write(ctx, r.hub.DB, keys, func(tx storage.Tx) (entry, error) {
		standings, state, exists, err := session.Standings(tx, s.feed.id, []session.Caller{s.caller})
		if err != nil || !exists {
			return entry{}, err
		}
		found := entry{state, standings[0], true}
		if !found.standing.Known || found.standing.Role == wire.RoleNone {
			return found, nil
		}
		written = r.stance(s)
		return found, session.Enter(tx, r.row(s, found.standing.Role, written))
	})
	if err == nil && found.standing.Role != wire.RoleNone {
		s.shown.Store(&found.standing.Role)
		r.entered(s, written)
	}
	if s.closed.Load() {
		r.leave(s) // the client left meanwhile
	}
	r.hub.Bus.Publish(signal.Wake{Topic: signal.Presence, ID: s.feed.id})
	return found, err
}

// entered notes that the stream's row is written. What its device said meanwhile is written again.
func (r *roster) entered(s *Stream, written Stance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.open[s]
	if taken == nil {
		return
	}
	taken.entered = true
	if taken.stance != written {
		r.changed[s] = true
		r.ask()
	}
}

func (r *roster) row(s *Stream, role wire.Role, stance Stance) session.Connection {
	return session.Connection{
		ID: s.id, NodeID: r.hub.nodeID, SessionID: s.feed.id, DeviceID: s.caller.DeviceID,
		UserID: s.caller.UserID, Role: role, Driving: stance.Driving, Attention: stance.Attention,
	}
}

// say notes what the stream's device says of its person; nil leaves a part as it is.
func (r *roster) say(s *Stream, driving, attention *bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.open[s]
	if taken == nil {
		return
	}
	before := taken.stance
	if driving != nil {
		taken.stance.Driving = *driving
	}
	if attention != nil {
		taken.stance.Attention = *attention
	}
	if taken.entered && taken.stance != before {
		r.changed[s] = true
		r.ask()
	}
}

// rewrite notes that the stream's row is out of date.
func (r *roster) rewrite(s *Stream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if taken := r.open[s]; taken != nil && taken.entered {
		r.changed[s] = true
		r.ask()
	}
}

// leave notes that the stream's row is to be removed; again is harmless.
func (r *roster) leave(s *Stream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, s)
	delete(r.changed, s)
	if len(r.left) < maxDepartures {
		r.left = append(r.left, departure{s.id, s.feed.id})
	} else {
		r.rebuild = true // the database has been away for long
	}
	r.ask()
}

// maxDepartures bounds the rows to remove that wait for the database.
const maxDepartures = 20_000

func (r *roster) ask() {
	select {
	case r.kick <- struct{}{}:
	default: // asked already
	}
}

func (r *roster) streams() []*Stream {
	r.mu.Lock()
	defer r.mu.Unlock()
	streams := make([]*Stream, 0, len(r.open))
	for s := range r.open {
		streams = append(streams, s)
	}
	return streams
}

// run writes what changed, and keeps the node alive.
func (r *roster) run() {
	beat := time.NewTicker(session.NodeBeat)
	defer beat.Stop()
	retry := time.NewTicker(time.Second)
	defer retry.Stop()
	for {
		select {
		case <-r.hub.ctx.Done():
			return
		case <-r.kick:
		case <-retry.C:
		case <-beat.C:
			r.keepAlive()
		}
		r.write()
	}
}

// keepAlive renews the node's term, and removes nodes whose term ended.
func (r *roster) keepAlive() {
	known, err := r.beat(r.hub.ctx)
	if err != nil {
		r.hub.failed("renew the node's term", err)
		return
	}
	if !known { // the node was taken for dead and its rows were removed
		for _, s := range r.streams() {
			r.rewrite(s)
		}
	}
	sessions, err := storage.Write(r.hub.ctx, r.hub.DB, nil, session.SweepNodes)
	if err != nil {
		r.hub.failed("remove dead nodes", err)
	}
	r.wake(sessions)
}

func (r *roster) beat(ctx context.Context) (bool, error) {
	return storage.Write(ctx, r.hub.DB, nil, func(tx storage.Tx) (bool, error) { return session.Beat(tx, r.hub.nodeID) })
}

func (r *roster) wake(sessions []string) {
	for _, id := range sessions {
		r.hub.Bus.Publish(signal.Wake{Topic: signal.Presence, ID: id})
	}
}

// writtenAtOnce bounds the rows of one transaction.
const writtenAtOnce = 500

// write brings the rows up to date; what fails stays for the next time.
func (r *roster) write() {
	for {
		work := r.next()
		if len(work.streams) == 0 && len(work.left) == 0 && !work.rebuild {
			return
		}
		if err := r.hub.DB.Write(r.hub.ctx, nil, func(tx storage.Tx) error { return r.apply(tx, work) }); err != nil {
			r.hub.failed("write presence", err)
			r.putBack(work)
			if _, err := r.beat(r.hub.ctx); err != nil { // a swept node has no rows until it is there again
				r.hub.failed("renew the node's term", err)
			}
			return
		}
		r.wake(work.sessions())
	}
}

// chore is rows to write and to remove in one transaction.
type chore struct {
	streams []*Stream
	rows    []session.Connection // of streams
	left    []departure
	rebuild bool
}

func (r *roster) apply(tx storage.Tx, work chore) error {
	if work.rebuild {
		if err := session.LeaveAll(tx, r.hub.nodeID); err != nil {
			return err
		}
	}
	for _, row := range work.rows {
		if err := session.Enter(tx, row); err != nil {
			return err
		}
	}
	gone := make([]string, len(work.left))
	for i, d := range work.left {
		gone[i] = d.connection
	}
	return session.Leave(tx, gone)
}

// sessions answers whose presence changed, each once.
func (c chore) sessions() []string {
	ids := make([]string, 0, len(c.rows)+len(c.left))
	for _, row := range c.rows {
		ids = append(ids, row.SessionID)
	}
	for _, d := range c.left {
		ids = append(ids, d.session)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// putBack takes work that failed into account again.
func (r *roster) putBack(work chore) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range work.streams {
		if _, open := r.open[s]; open {
			r.changed[s] = true
		}
	}
	r.left = append(r.left, work.left...)
	r.rebuild = r.rebuild || work.rebuild
}

// next takes some of what is to be written. After a rebuild every open stream is.
func (r *roster) next() chore {
	r.mu.Lock()
	defer r.mu.Unlock()
	work := chore{rebuild: r.rebuild}
	if r.rebuild {
		r.rebuild, r.left = false, nil
		for s, taken := range r.open {
			if taken.entered {
				r.changed[s] = true
			}
		}
	}
	for s := range r.changed {
		if len(work.streams) == writtenAtOnce {
			break
		}
		delete(r.changed, s)
		work.streams = append(work.streams, s)
		work.rows = append(work.rows, r.row(s, s.role(), r.open[s].stance))
	}
	n := min(len(r.left), writtenAtOnce)
	work.left = r.left[:n:n]
	r.left = r.left[n:]
	return work
}
