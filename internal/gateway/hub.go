package gateway

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/conn"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Bounds of what is delivered in one go: so long nobody can join, and so much is encoded at once.
const (
	maxBatch      = 128
	maxBatchBytes = 1 << 20
)

// loadPatience bounds how long new permissions of connected principals hold up the delivery. Whose permissions
// cannot be read by then loses its connections: fail closed.
const loadPatience = 3 * time.Second

// Begin notes where the log's following begins (eventlog.TailOptions).
func (g *Gateway) Begin(head int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.head = head
}

// Deliver brings events to their receivers, in order (eventlog.TailOptions).
func (g *Gateway) Deliver(records []*eventlog.Record) {
	for len(records) > 0 {
		n, size, most := 0, 0, min(maxBatch, g.untilSweep())
		for n < len(records) && n < most && size < maxBatchBytes {
			size += len(records[n].Payload)
			n++
		}
		g.deliver(records[:n])
		records = records[n:]
	}
}

// Lost ends every connection: events are gone that nobody can be sent any more, permission changes maybe among them
// (eventlog.TailOptions). Clients come back and are told what they missed.
func (g *Gateway) Lost(_, before int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ring.forget()
	g.moves = moves{} // what was missed may have moved the threads on
	g.head = before - 1
	g.placed.known = false           // the poll reads them anew
	for _, p := range g.principals { // whose permissions may be outdated
		p.gone = true
		g.index.move(p, p.reach, reach{})
		delete(g.principals, p.id)
	}
	for s := range g.sessions {
		s.end(code.CloseUnknownError, "The server fell behind.")
	}
}

func (g *Gateway) deliver(records []*eventlog.Record) {
	events := newEvents(records)
	fresh, err := g.prepare(events)
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	for _, ev := range events {
		g.permissionVersion = max(g.permissionVersion, ev.record.PermissionVersion)
		g.apply(ev, fresh)
		if err != nil && ev.aboutPrincipal() {
			g.missed(ev)
		} else {
			g.route(ev, now)
		}
		g.ring.add([]*event{ev})
		g.erase(ev)
		g.head = ev.record.Seq
	}
	g.flush()
	g.advance(len(events))
}

// prepare reads what the events change about permissions, and what those see whom they are about, before anybody waits. The
// latter also where nobody is connected: who joins until the delivery receives the event.
func (g *Gateway) prepare(events []*event) (map[string]*authz.Snapshot, error) {
	var changed, subjects []string
	g.mu.Lock()
	for _, ev := range events {
		if ev.aboutPrincipal() {
			subjects = append(subjects, ev.record.Resource.ID)
		}
		if p := g.principals[ev.record.AudienceID]; p != nil && p.outdated(ev) {
			changed = append(changed, p.id)
		}
	}
	g.mu.Unlock()
	if len(changed)+len(subjects) == 0 {
		return nil, nil
	}
	fresh, err := g.load(append(changed, subjects...))
	if err != nil {
		g.Log.Error("gateway: cannot read permissions", "error", err)
	}
	for _, ev := range events {
		if ev.aboutPrincipal() {
			ev.subject = fresh[ev.record.Resource.ID]
		}
	}
	return fresh, err
}

// missed ends the connections that an event may be for whose receivers cannot be found: they come back for it. The mutex
// is held.
func (g *Gateway) missed(ev *event) {
	for s := range g.sessions {
		if s.p != nil && s.from < ev.record.Seq {
			s.end(code.CloseUnknownError, "Permissions could not be read.")
		}
	}
}

// outdated reports whether ev changes the permissions of p beyond those that are known.
func (p *principal) outdated(ev *event) bool {
	return ev.kind.Name == eventlog.AccessChanged && (p.permissions == nil || p.permissions.Version < ev.record.PermissionVersion)
}

// load reads permissions, within loadPatience.
func (g *Gateway) load(ids []string) (map[string]*authz.Snapshot, error) {
	ctx, cancel := context.WithTimeout(g.ctx, loadPatience)
	defer cancel()
	return storage.Read(ctx, g.DB, func(tx storage.Tx) (map[string]*authz.Snapshot, error) {
		g.learnClock(tx)
		return authz.LoadMany(tx, ids)
	})
}

// apply takes in what an event changes (ES-8.1). The mutex is held.
func (g *Gateway) apply(ev *event, fresh map[string]*authz.Snapshot) {
	if g.places.apply(ev) {
		g.placed.epoch++
	}
	switch ev.kind.Name {
	case eventlog.AccessChanged:
		if p := g.principals[ev.record.AudienceID]; p != nil && p.outdated(ev) {
			g.renew(p, ev.record.PermissionVersion, fresh[p.id])
		}
	case eventlog.ThreadMoved:
		g.moves.add(ev.record)
		channel := ev.record.Scope.ChannelID
		for s := range g.focus[ev.record.Scope.ThreadID] {
			s.focus[ev.record.Scope.ThreadID] = channel
		}
	}
}

// renew gives p permissions that have seen version. The mutex is held.
func (g *Gateway) renew(p *principal, version int64, fresh *authz.Snapshot) {
	if p.permissions == nil {
		p.wanted = max(p.wanted, version) // who reads them now looks at this before joining
		return
	}
	if fresh == nil || fresh.Version < version { // it joined while the others' were read
		all, err := g.load([]string{p.id})
		if fresh = all[p.id]; err != nil || fresh == nil || fresh.Version < version {
			g.Log.Error("gateway: cannot read permissions", "principal", p.id, "error", err)
			p.each(func(s *session) { s.end(code.CloseUnknownError, "Permissions could not be read.") })
			g.adopt(p, &authz.Snapshot{Principal: wire.Principal{ID: p.id}, Version: version})
			return
		}
	}
	g.adopt(p, fresh)
}

// adopt replaces the permissions of p (ES-8.3). The mutex is held.
func (g *Gateway) adopt(p *principal, fresh *authz.Snapshot) {
	now := g.now()
	reach := reachOf(fresh, now)
	g.index.move(p, p.reach, reach)
	p.permissions, p.reach = fresh, reach
	p.renewUntil(now)
	if !fresh.Active() {
		p.each(func(s *session) { s.end(code.CloseRevoked, "The account is not active.") })
		return
	}
	p.each(func(s *session) { g.endFocus(s, now) })
}

func (p *principal) each(do func(*session)) {
	for _, s := range p.sessions {
		do(s)
	}
}

// keptOut is how large a connection's list may stay when nothing is in it.
const keptOut = 16

// flush sends what the events brought, to each connection in one piece. The mutex is held.
func (g *Gateway) flush() {
	var shared joiner
	for i, s := range g.touched {
		g.touched[i] = nil
		if len(s.out) == 0 {
			continue // it was ended by a later event of the same delivery, and what it was given went with it
		}
		s.stream.SendMany(shared.join(s.out))
		s.told = s.out[len(s.out)-1].record.Seq
		clear(s.out)
		if s.out = s.out[:0]; cap(s.out) > keptOut {
			s.out = nil
		}
	}
	g.touched = g.touched[:0]
}

// joiner makes blocks of events that were encoded together. Connections that get the same events share them. The
// answer of join is valid until the next.
type joiner struct {
	block    *conn.Block
	from, to int
	made     *conn.Block
	blocks   []*conn.Block
}

func (j *joiner) join(events []*event) []*conn.Block {
	clear(j.blocks)
	j.blocks = j.blocks[:0]
	for i := 0; i < len(events); {
		first := events[i]
		end := i + 1
		for end < len(events) && events[end].block == first.block && events[end].at == events[end-1].at+1 {
			end++
		}
		j.blocks = append(j.blocks, j.slice(first.block, first.at, first.at+end-i))
		i = end
	}
	return j.blocks
}

func (j *joiner) slice(block *conn.Block, from, to int) *conn.Block {
	if block != j.block || from != j.from || to != j.to {
		j.block, j.from, j.to, j.made = block, from, to, block.Slice(from, to)
	}
	return j.made
}

// advance tells connections that see nothing how far they were checked, at the latest after
// sync.cursor_advance_every events (ES-7.1). The mutex is held.
func (g *Gateway) advance(events int) {
	g.unswept += events
	step := g.sweepEvery()
	if g.unswept < step {
		return
	}
	g.unswept = 0
	block := cursorBlock(g.head)
	for s := range g.sessions {
		if s.p != nil && !s.catching && g.head-s.told >= int64(max(1, g.Limits.CursorAdvanceEvery-step)) {
			g.tell(s, block)
		}
	}
}

// sweepEvery is after how many events advance looks at every connection.
func (g *Gateway) sweepEvery() int { return max(1, g.Limits.CursorAdvanceEvery/4) }

// untilSweep is how many events advance may still be told of without looking.
func (g *Gateway) untilSweep() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sweepEvery() - g.unswept
}

// tell sends the cursor of the whole log. The mutex is held.
func (g *Gateway) tell(s *session, block *conn.Block) {
	if s.told < g.head && s.from < g.head {
		s.told = g.head
		s.stream.Send(block)
	}
}

func cursorBlock(seq int64) *conn.Block { return blockOf(wire.OpCursor, wire.Cursor{Seq: seq}) }

// moved answers where a thread is that moved lately. The mutex is held.
func (g *Gateway) moved(threadID string) (authz.Place, bool) {
	scope, ok := g.moves.of[threadID]
	return g.places.of(scope.ChannelID, scope.SpaceID), ok
}

// moves remembers the newest moves of threads: at least those of the events that are remembered.
type moves struct {
	of    map[string]wire.Scope
	order []string
}

func (m *moves) add(record *eventlog.Record) {
	if m.of == nil {
		m.of = map[string]wire.Scope{}
	}
	id := record.Scope.ThreadID
	m.of[id] = record.Scope
	m.order = append(m.order, id)
	if len(m.order) > maxRemembered {
		if oldest := m.order[0]; !m.again(oldest) {
			delete(m.of, oldest)
		}
		m.order = m.order[1:]
	}
}

// again reports whether the oldest thread has moved again since.
func (m *moves) again(oldest string) bool {
	return slices.Contains(m.order[1:], oldest)
}

// learnClock notes how far the database's clock is ahead, by which grants end.
func (g *Gateway) learnClock(tx storage.Tx) { g.skew.Store(int64(tx.Now().Sub(g.Env.Now()))) }

// now is about the database's clock.
func (g *Gateway) now() time.Time { return g.Env.Now().Add(time.Duration(g.skew.Load())) }

// readPlaces reads channels and spaces when they are not known.
func (g *Gateway) readPlaces(ctx context.Context) error {
	g.mu.Lock()
	known := g.placed.known
	g.placed.known = true // what passes from now on is newer or the same
	g.mu.Unlock()
	if known {
		return nil
	}
	read, err := storage.Read(ctx, g.DB, func(tx storage.Tx) (places, error) {
		g.learnClock(tx)
		return readPlaces(tx)
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.placed.known = false
		return fmt.Errorf("read places: %w", err)
	}
	g.places.merge(read)
	g.placed.epoch++
	return nil
}
