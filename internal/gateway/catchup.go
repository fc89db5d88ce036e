package gateway

import (
	"errors"
	"fmt"
	"time"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/conn"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

const (
	// scanned is how much of the log one reading goes through at most, in pages: who sees little is told how far it was
	// checked while the rest is read.
	scanned = 32
	// readers bounds the pages that are read at the same time.
	readers = 8
)

// catchUp sends what the connection missed, and lets it join the live events (ES-7.2). It is a goroutine of the
// gateway.
func (s *session) catchUp(after, upTo int64) {
	err := s.replay(after, upTo)
	if err == nil {
		err = s.goLive(upTo)
	}
	switch {
	case err == nil, errors.Is(err, conn.ErrClosed), s.g.ctx.Err() != nil:
	case errors.Is(err, eventlog.ErrTrimmed): // the client comes back with its cursor and is told to load a snapshot (ES-7.3)
		s.close(code.CloseUnknownError, "The log does not reach back so far any more.")
	default:
		s.g.Log.Error("gateway: cannot catch up", "error", err)
		s.close(code.CloseUnknownError, "The log could not be read.")
	}
}

// replay sends the visible events behind after up to upTo, page by page, at the client's pace.
func (s *session) replay(after, upTo int64) error {
	for after < upTo {
		if err := s.stream.Room(s.g.ctx); err != nil {
			return err
		}
		events, checked, err := s.page(after, upTo)
		if err != nil {
			return err
		}
		if err := s.sendPage(events, after, checked); err != nil {
			return err
		}
		after = checked
	}
	return nil
}

// page answers visible events, and up to where the log was checked for them.
func (s *session) page(after, upTo int64) (visible []*event, checked int64, err error) {
	g := s.g
	visible, checked, stale, ok := s.remembered(after, upTo)
	if ok {
		return visible, checked, nil
	}
	select {
	case g.reading <- struct{}{}:
		defer func() { <-g.reading }()
	case <-g.ctx.Done():
		return nil, 0, g.ctx.Err()
	}
	if len(stale) > 0 { // of a crowd that comes back one reads for all
		if visible, checked, stale, ok = s.remembered(after, upTo); !ok {
			g.learnSubjects(stale)
			visible, checked, _, ok = s.remembered(after, upTo)
		}
	}
	if ok {
		return visible, checked, nil
	}
	return s.readPage(after, upTo)
}

// remembered is a page out of memory. Where it is not known what somebody sees whom an event is about, it is no page: stale
// are the events.
func (s *session) remembered(after, upTo int64) (visible []*event, checked int64, stale []*event, ok bool) {
	g := s.g
	g.mu.Lock()
	defer g.mu.Unlock()
	events, ok := g.ring.after(after, g.Limits.CatchupPageSize)
	if !ok || len(events) == 0 || s.over {
		return nil, upTo, nil, s.over
	}
	now, bytes := g.now(), 0
	for _, ev := range events {
		if ev.record.Seq > upTo || bytes >= eventlog.PageBytes {
			break
		}
		checked = ev.record.Seq
		if !s.hears.event(ev) {
			continue
		}
		if ev.aboutPrincipal() && (ev.subject == nil || ev.subject.Version < g.permissionVersion) {
			stale = append(stale, ev)
			continue
		}
		resource := ev.resource(&g.places, g.moved)
		if ev.reaches(s.p.permissions, &resource, g.moved, now) {
			visible = append(visible, ev)
			bytes += ev.bytes
		}
	}
	return visible, checked, stale, len(stale) == 0
}

// readPage is a page out of the database. Its events may be newer than what was delivered here, and permissions are then too:
// they are read with the events, and whichever know more decide.
func (s *session) readPage(after, upTo int64) (visible []*event, checked int64, err error) {
	g := s.g
	limit := g.Limits.CatchupPageSize
	upTo = min(upTo, after+int64(limit*scanned))
	var permissions *authz.Snapshot
	read, err := storage.Read(g.ctx, g.DB, func(tx storage.Tx) (readEvents, error) {
		g.learnClock(tx)
		var err error
		if permissions, err = permissionsOf(tx, s.caller.Principal); err != nil {
			return readEvents{}, err
		}
		return readVisible(tx, permissions, after, upTo, limit)
	})
	if err != nil {
		return nil, 0, fmt.Errorf("read a page of the log: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := s.p.permissions; known.Version > permissions.Version {
		permissions = known
	}
	if !s.over && !permissions.Active() {
		s.end(code.CloseRevoked, "The account is not active.")
	}
	if s.over {
		return nil, upTo, nil
	}
	return read.visible(permissions, s.hears, &g.places, g.now()), read.checked, nil
}

// readEvents is a page of the log as the database has it.
type readEvents struct {
	events  []*event
	moved   map[string]authz.Place // where threads are that moved behind the page's beginning
	checked int64
}

// visible answers the events that somebody may receive now.
func (r *readEvents) visible(permissions *authz.Snapshot, hears hearing, p *places, now time.Time) []*event {
	moved := func(threadID string) (authz.Place, bool) { place, ok := r.moved[threadID]; return place, ok }
	visible := make([]*event, 0, len(r.events))
	for _, ev := range r.events {
		resource := ev.resource(p, moved)
		if hears.event(ev) && ev.reaches(permissions, &resource, moved, now) {
			visible = append(visible, ev)
		}
	}
	return visible
}

// readVisible reads what permissions may let through (ES-7.2.1), in one transaction with what decides about it.
func readVisible(tx storage.Tx, permissions *authz.Snapshot, after, upTo int64, limit int) (readEvents, error) {
	moved, err := readMoved(tx, after)
	if err != nil {
		return readEvents{}, err
	}
	now := tx.Now()
	filter := eventlog.Filter{
		Principal: permissions.Principal.ID, Channels: permissions.GrantedChannels(now), FullSpaces: permissions.GrantedSpaces(now),
		InstanceWide: permissions.SeesEverything(now),
	}
	filter.Spaces = append(permissions.HomeSpaces(now), filter.FullSpaces...)
	for id, place := range moved {
		if permissions.Level(place, now) != wire.LevelNone {
			filter.MovedThreads = append(filter.MovedThreads, id)
		}
	}
	records, checked, err := eventlog.Visible(tx, filter, after, upTo, limit)
	if err != nil {
		return readEvents{}, err
	}
	read := readEvents{events: newEvents(records), moved: moved, checked: checked}
	return read, readSubjects(tx, read.events)
}

// readSubjects reads what those see whom events are about.
func readSubjects(tx storage.Tx, events []*event) error {
	var ids []string
	for _, ev := range events {
		if ev.aboutPrincipal() {
			ids = append(ids, ev.record.Resource.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	subjects, err := authz.LoadMany(tx, ids)
	if err != nil {
		return err
	}
	for _, ev := range events {
		if ev.aboutPrincipal() {
			ev.subject = subjects[ev.record.Resource.ID]
		}
	}
	return nil
}

// learnSubjects reads what those see now whom remembered events are about. Where it cannot be read the events stay as they
// are.
func (g *Gateway) learnSubjects(events []*event) {
	ids := make([]string, len(events))
	for i, ev := range events {
		ids[i] = ev.record.Resource.ID
	}
	subjects, err := g.load(ids)
	if err != nil {
		return // the page comes out of the database, or fails there
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, ev := range events {
		if subject := subjects[ev.record.Resource.ID]; subject != nil && (ev.subject == nil || ev.subject.Version < subject.Version) {
			ev.subject = subject
		}
	}
}

// readMoved answers where the threads are now that moved behind a number.
func readMoved(tx storage.Tx, after int64) (map[string]authz.Place, error) {
	threads, err := eventlog.Moves(tx, after)
	if err != nil || len(threads) == 0 {
		return nil, err
	}
	return placesOf(tx, threads)
}

// placesOf answers where threads are. Those that do not exist are missing.
func placesOf(tx storage.Tx, threads []string) (map[string]authz.Place, error) {
	all := make(map[string]authz.Place, len(threads))
	err := tx.Query(
		`SELECT t.id, t.channel_id, c.space_id, c.archived_at IS NOT NULL, c.read_only, s.archived_at IS NOT NULL
		   FROM threads t JOIN channels c ON c.id = t.channel_id JOIN spaces s ON s.id = c.space_id WHERE t.id = ANY($1)`,
		[]any{threads}, func(row storage.Row) error {
			var id string
			var place authz.Place
			err := row.Scan(&id, &place.ChannelID, &place.SpaceID, &place.Archived, &place.ReadOnly, &place.SpaceArchived)
			all[id] = place
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("read places of threads: %w", err)
	}
	return all, nil
}

// goLive ends the catch-up and sends what was committed meanwhile, as far as it is still allowed (ES-7.2.4, ES-8.3.2).
func (s *session) goLive(upTo int64) error {
	g := s.g
	if !s.quiet {
		s.stream.Send(blockOf(wire.OpCatchupComplete, wire.CatchupComplete{HeadSeq: upTo}))
	}
	for {
		// What is taken is not looked at by deletions any more: it goes at once.
		if err := s.stream.Room(g.ctx); err != nil {
			return err
		}
		waiting, live := s.takeWaiting(upTo)
		if live {
			return nil
		}
		p := s.parcel()
		for _, ev := range waiting {
			p.event(ev)
		}
		if err := p.send(g.ctx); err != nil {
			return err
		}
	}
}

// takeWaiting answers some of the events that wait, or makes the connection live when none does.
func (s *session) takeWaiting(upTo int64) (events []*event, live bool) {
	g := s.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(s.out) == 0 || s.over {
		s.catching, s.out = false, nil
		s.told = max(s.told, upTo)
		return nil, true
	}
	now, n, bytes := g.now(), 0, 0
	for n < len(s.out) && n < max(1, g.Limits.OutboundQueueMax/2-2) && bytes < maxSendBytes {
		ev := s.out[n]
		resource := ev.resource(&g.places, g.moved)
		if ev.reaches(s.p.permissions, &resource, g.moved, now) {
			events = append(events, ev)
			bytes += ev.bytes
		}
		s.told = ev.record.Seq
		n++
	}
	s.out = s.out[n:]
	return events, false
}
