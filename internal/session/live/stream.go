package live

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cairnsync/cairn/internal/conn"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/session"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Stream is one viewer's connection to a session.
type Stream struct {
	feed   *feed
	sink   Sink
	caller session.Caller
	id     string // of the connection, in session_presence
	closed atomic.Bool
	shown  atomic.Pointer[wire.Role] // in the stream's row of presence

	seq    int64          // everything up to here was sent; guarded by feed.mu once the stream is live
	access session.Access // guarded by feed.mu
}

// Stance is what a device says of the person before it.
type Stance struct {
	Driving   bool // the person steers (SS-PRS-1)
	Attention bool // the person looks at the session
}

// Open follows a session for a caller from a cursor: everything after it is sent to sink, then what
// happens from now on. The stance holds until Say. The caller must call Close when the connection
// ends; Open itself does not block on the database.
func (h *Hub) Open(by session.Caller, sessionID string, after int64, stance Stance, sink Sink) *Stream {
	s := &Stream{feed: h.join(sessionID), sink: sink, caller: by, id: h.Env.NewID(), seq: after}
	h.roster.sit(s, stance)
	h.done.Go(s.start)
	return s
}

// Close ends the stream's part in the session. It is safe to call once, at any time.
func (s *Stream) Close() {
	f := s.feed
	f.mu.Lock()
	s.closed.Store(true)
	isThis := func(other *Stream) bool { return other == s }
	f.live, f.joined = slices.DeleteFunc(f.live, isThis), slices.DeleteFunc(f.joined, isThis)
	f.mu.Unlock()
	f.hub.roster.leave(s)
	f.hub.leave(f)
}

// Say changes the stance; nil leaves a part of it as it is.
func (s *Stream) Say(driving, attention *bool) { s.feed.hub.roster.say(s, driving, attention) }

// start enters the stream into the session's presence, brings it level, and makes it live.
func (s *Stream) start() {
	ctx := s.feed.hub.ctx
	entry, err := s.feed.hub.roster.enter(s)
	switch {
	case s.closed.Load():
		return
	case err != nil:
		s.fail("enter the session's presence", err)
		return
	}
	if !s.feed.admitted(s, entry) {
		return
	}
	if s.seq > entry.state.LastSeq {
		s.sink.Send(resetBlock(entry.state.LastSeq)) // a restored back-up: the log is behind the cursor
		s.seq = 0
	}
	if err := s.replay(ctx); err != nil && !s.closed.Load() && !errors.Is(err, conn.ErrClosed) {
		s.fail("replay the log", err)
	}
}

// stands closes the stream unless the caller may see the session, and remembers the access.
func (s *Stream) stands(standing session.Standing, exists bool) bool {
	s.access = standing.Access
	switch {
	case !exists:
		s.refuse(code.CloseNotFound, "The session was deleted.")
	case !standing.Known:
		s.refuse(code.CloseBadKey, badKey)
	case standing.Role == wire.RoleNone:
		s.refuse(code.CloseNoAccess, "You no longer have access to this session.")
	default:
		if role := standing.Role; role != s.role() {
			s.shown.Store(&role)
			s.feed.hub.roster.rewrite(s)
		}
		return true
	}
	return false
}

// role is the caller's as presence shows it.
func (s *Stream) role() wire.Role {
	if shown := s.shown.Load(); shown != nil {
		return *shown
	}
	return wire.RoleNone
}

const badKey = "The key, user or device is no longer valid."

func (s *Stream) refuse(c code.Close, reason string) {
	s.closed.Store(true)
	s.sink.Close(c, reason)
}

func (s *Stream) fail(doing string, err error) {
	s.feed.hub.failed(doing, err)
	s.sink.Close(code.CloseInternal, "The server failed; connect again.")
}

// replay sends pages of the log until the stream is level with the feed, then what was applied of its
// controls, and joins the feed.
func (s *Stream) replay(ctx context.Context) error {
	f := s.feed
	from := s.seq
	if err := f.open(ctx); err != nil {
		return err
	}
	if err := s.level(ctx); err != nil || s.closed.Load() {
		return err
	}
	known, err := s.tellApplied(ctx, from)
	if err != nil {
		return err
	}
	if err := known.catchUp(ctx, f); err != nil {
		return err
	}
	for {
		joined, err := f.joinLive(ctx, s, &known)
		if err != nil || joined {
			return err
		}
		if err := s.level(ctx); err != nil || s.closed.Load() {
			return err
		}
	}
}

// level sends pages until the feed has nothing more, at the client's pace.
func (s *Stream) level(ctx context.Context) error {
	for {
		page, err := s.feed.pageAfter(ctx, s.seq)
		if err != nil || page == nil {
			return err
		}
		if !s.feed.admitOne(ctx, s, page) {
			return nil
		}
		s.send(page)
		if paged := s.feed.hub.PageSent; paged != nil {
			paged(page.block.Len())
		}
		if err := s.sink.Room(ctx); err != nil {
			return err
		}
	}
}

// send delivers what of a page lies behind the stream's position.
func (s *Stream) send(p *page) {
	if p.last <= s.seq {
		return
	}
	block := p.block
	if s.seq >= p.first {
		block = block.Slice(int(s.seq-p.first+1), block.Len())
	}
	s.seq = p.last
	s.sink.Send(block)
}

// stale reports whether the stream's access must be computed anew before something committed under
// version, at the moment committed, may be sent at now.
func (s *Stream) stale(version int64, committed, now time.Time) bool {
	until := s.access.Until
	return s.access.Version < version || (until != nil && (!committed.Before(*until) || !now.Before(*until)))
}

// admit checks every stream whose access may have changed, and ends those that lost it.
func (f *feed) admit(ctx context.Context, streams []*Stream, events []session.Stored) {
	version, committed := f.state.AccessVersion, time.Time{}
	if n := len(events); n > 0 {
		version = max(version, events[n-1].AccessVersion)
		committed = events[n-1].CommittedAt
	}
	now := f.hub.now()
	var stale []*Stream
	for _, stream := range streams {
		if !stream.closed.Load() && stream.stale(version, committed, now) {
			stale = append(stale, stream)
		}
	}
	if len(stale) > 0 {
		f.recheck(ctx, stale)
	}
}

// admitted lets a stream follow that has just entered, if its caller may.
func (f *feed) admitted(s *Stream, e entry) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !s.stands(e.standing, e.exists) || s.closed.Load() {
		return false
	}
	f.joined = append(f.joined, s)
	f.setDue()
	return true
}

// admitOne checks one stream that replays, before it is sent a page: by what the page was committed
// under, and by what the feed knows now.
func (f *feed) admitOne(ctx context.Context, s *Stream, p *page) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.stale(max(p.accessVersion, f.state.AccessVersion), p.committedAt, f.hub.now()) {
		f.recheck(ctx, []*Stream{s})
	}
	return !s.closed.Load()
}

// recheck computes the access of streams anew and ends those that have none. When that cannot be
// found out they are ended too and come back: nobody receives what they may not see. The caller
// holds mu.
func (f *feed) recheck(ctx context.Context, streams []*Stream) {
	callers := make([]session.Caller, len(streams))
	for i, stream := range streams {
		callers[i] = stream.caller
	}
	type answer struct {
		standings []session.Standing
		exists    bool
	}
	found, err := storage.Read(ctx, f.hub.DB, func(tx storage.Tx) (answer, error) {
		standings, _, exists, err := session.Standings(tx, f.id, callers)
		return answer{standings, exists}, err
	})
	for i, stream := range streams {
		switch {
		case err != nil:
			stream.refuse(code.CloseInternal, "The server failed; connect again.")
		case !found.exists:
			stream.stands(session.Standing{}, false)
		case stream.stands(found.standings[i], true):
		}
	}
	if err != nil {
		f.hub.failed("check access to a session", err)
	}
	isClosed := func(s *Stream) bool { return s.closed.Load() }
	f.live, f.joined = slices.DeleteFunc(f.live, isClosed), slices.DeleteFunc(f.joined, isClosed)
}

// joinLive makes a stream live if it is level with the feed (SS-STR-2): it sends what was applied since
// the stream was told, then the lease, then presence. False means that the log has gone on.
func (f *feed) joinLive(ctx context.Context, s *Stream, known *told) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone {
		s.refuse(code.CloseNotFound, "The session was deleted.")
		return true, nil
	}
	if s.seq < f.state.LastSeq {
		return false, nil
	}
	since, complete := f.applied.since(known.revision)
	if !complete { // more were applied meanwhile than the feed remembers
		var err error
		if since, err = f.appliedSince(ctx, known.revision); err != nil {
			return false, err
		}
	}
	f.admit(ctx, []*Stream{s}, nil)
	if s.closed.Load() {
		return true, nil
	}
	sendBlock(s.sink, appliedBlock(slices.DeleteFunc(known.waiting, func(c session.Applied) bool { return c.Seq > s.seq })))
	sendBlock(s.sink, appliedBlock(since))
	s.sink.SendLatest(latestLease, leaseBlock(f.state.Lease, f.leaseOn))
	sendBlock(s.sink, f.present.block())
	f.live = append(f.live, s)
	f.setDue()
	return true, nil
}

func sendBlock(sink Sink, block *conn.Block) {
	if block != nil {
		sink.Send(block)
	}
}

// checkCallers ends the streams whose key was revoked, user disabled or device deleted (SS-ROLE-2).
func (h *Hub) checkCallers() {
	streams := h.roster.streams()
	credentials := make([]identity.Credential, len(streams))
	for i, stream := range streams {
		credentials[i] = stream.caller.Credential()
	}
	at := 0
	for chunk := range slices.Chunk(credentials, 1000) {
		alive, err := storage.Read(h.ctx, h.DB, func(tx storage.Tx) ([]bool, error) { return identity.AliveIn(tx, chunk) })
		if err != nil {
			h.failed("check the callers of streams", err)
			return
		}
		for i, ok := range alive {
			if !ok {
				streams[at+i].end()
			}
		}
		at += len(chunk)
	}
}

// end closes a stream whose caller is no longer valid. It takes no lock: a feed may be busy, and its
// other streams are to be ended too. The feed lets go of the stream when its connection has ended.
func (s *Stream) end() {
	if !s.closed.Load() {
		s.refuse(code.CloseBadKey, badKey)
	}
}
