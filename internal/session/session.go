// Package session is the domain of Shared Sessions: sessions, their event logs, controls, the lease
// of the executor, presence, shares, organisations and dispatch.
//
// Contract. Every operation authorises, decides purely, writes, and says what happened, in one
// transaction that locks its session; so an append that races a forced takeover either commits
// before it or fails (SS-LEASE-6). Operations are safe to repeat as the protocol says. Refusals are
// fault.Errors; any other error is a storage failure and nothing was done.
//
// Order. The events of a session carry dense numbers in commit order. Effects (wake-ups, the live
// feed) follow the commit.
//
// Blocking and concurrency. A Service is safe for concurrent use; operations block on the database
// only. The service owns no goroutine. Input is expected to be validated (lengths, forms) by the
// surface; what depends on the database is checked here.
package session

import (
	"context"
	"slices"
	"time"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Caller is who asks: a user, on a device where the route has one, perhaps with a link token.
type Caller struct {
	UserID   string
	KeyID    string
	DeviceID string // "" when the request names none
	LinkHash string // hex SHA-256 of the link token presented, "" for none
}

// Feed is told of every commit of this process, in no particular order between sessions; what it
// misses it reads from the log.
type Feed interface {
	Committed(commit Commit)
}

// Commit is what a transaction changed in one session.
type Commit struct {
	State  State
	Events []Stored
}

// State is the part of a session that viewers follow: positions and revisions, never content.
type State struct {
	SessionID       string
	LastSeq         int64
	Lease           Lease
	LeaseRevision   int64
	ControlRevision int64
	AccessVersion   int64
}

// Stored is an event as the log holds it.
type Stored struct {
	wire.Event

	ByServer      bool      // not an executor's
	AccessVersion int64     // the session's, at the event's commit (SS-ROLE-2)
	CommittedAt   time.Time // the database's clock
}

// Service is the domain's operations.
type Service struct {
	db   storage.DB
	bus  signal.Bus
	env  *env.Env
	feed Feed
	refs *refCache

	inboxes *waiters
}

// New answers a Service. The feed may be nil. It subscribes to the bus for good.
func New(db storage.DB, bus signal.Bus, e *env.Env, feed Feed) *Service {
	return &Service{db: db, bus: bus, env: e, feed: feed, refs: newRefCache(), inboxes: newWaiters(bus)}
}

// record is a session as a transaction read it, with what the caller may do.
type record struct {
	wire.Session
	lease           Lease
	leaseRevision   int64
	controlRevision int64
	accessVersion   int64
	role            wire.Role
	events          []Stored // written by this transaction
}

// columns are the columns scan reads, of a sessions row called s.
const columns = `s.id, s.owner_user_id, s.session_key, s.title, s.e2e, s.archived, s.created_at,
	s.last_event_at, s.last_seq, s.lease_device_id, s.lease_expires_at, s.lease_revision,
	s.control_revision, s.access_version`

// scan reads columns, and extra ones behind them.
func (r *record) scan(row storage.Row, now time.Time, extra ...any) error {
	var holder *string
	var expires *time.Time
	dest := append([]any{
		&r.ID, &r.OwnerUserID, &r.SessionKey, &r.Title, &r.E2E, &r.Archived, &r.CreatedAt.Time,
		&r.LastEventAt.Time, &r.LastSeq, &holder, &expires, &r.leaseRevision,
		&r.controlRevision, &r.accessVersion,
	}, extra...)
	if err := row.Scan(dest...); err != nil {
		return err
	}
	if holder != nil && expires != nil {
		r.lease = Lease{Holder: *holder, ExpiresAt: *expires}
	}
	r.mirror(now)
	return nil
}

// mirror shows the lease on the session while it is live (SS-LEASE-5).
func (r *record) mirror(now time.Time) {
	r.ExecutorDeviceID, r.LeaseExpiresAt = nil, nil
	if r.lease.Live(now) {
		holder := r.lease.Holder
		r.ExecutorDeviceID, r.LeaseExpiresAt = &holder, &wire.Time{Time: r.lease.ExpiresAt}
	}
}

func (r *record) state() State {
	return State{
		SessionID: r.ID, LastSeq: r.LastSeq, Lease: r.lease, LeaseRevision: r.leaseRevision,
		ControlRevision: r.controlRevision, AccessVersion: r.accessVersion,
	}
}

// load reads a session by its id; nil when there is none.
func load(tx storage.Tx, id string) (*record, error) {
	var found *record
	err := tx.Query(`SELECT `+columns+` FROM sessions s WHERE s.id = $1`, []any{id}, func(row storage.Row) error {
		found = &record{}
		return found.scan(row, tx.Now())
	})
	return found, err
}

// open reads a session and the caller's role on it, and refuses less than need.
func open(tx storage.Tx, by Caller, id string, need wire.Role) (*record, error) {
	sess, err := load(tx, id)
	if err != nil {
		return nil, err
	}
	if sess == nil {
		return nil, errStale
	}
	access, err := accessOf(tx, by, sess)
	if err != nil {
		return nil, err
	}
	sess.role = access.Role
	if sess.role.Rank() < need.Rank() {
		return nil, notAMember(sess.role)
	}
	return sess, nil
}

// read runs fn on a snapshot with the session that ref names, if the caller has the role need.
func read[T any](ctx context.Context, s *Service, by Caller, ref string, need wire.Role,
	fn func(tx storage.Tx, sess *record) (T, error),
) (T, error) {
	return withRef(ctx, s, by, ref, func(id string) (T, error) {
		return storage.Read(ctx, s.db, func(tx storage.Tx) (T, error) {
			return opened(tx, by, id, need, fn)
		})
	})
}

// write runs fn in a transaction that has locked the session that ref names, if the caller has the
// role need, and tells viewers of what changed once it is committed. More keys name what else must not
// change meanwhile.
func write[T any](ctx context.Context, s *Service, by Caller, ref string, need wire.Role,
	fn func(tx storage.Tx, sess *record) (T, error), more ...storage.Key,
) (T, error) {
	return withRef(ctx, s, by, ref, func(id string) (T, error) {
		keys := append(slices.Clone(more), storage.Key{Lock: storage.LockSessions, ID: id})
		return storage.Write(ctx, s.db, keys, func(tx storage.Tx) (T, error) {
			return opened(tx, by, id, need, func(tx storage.Tx, sess *record) (T, error) {
				before := sess.state()
				out, err := fn(tx, sess)
				if err == nil && sess.state() != before {
					s.announce(tx, sess)
				}
				return out, err
			})
		})
	})
}

func opened[T any](tx storage.Tx, by Caller, id string, need wire.Role,
	fn func(tx storage.Tx, sess *record) (T, error),
) (T, error) {
	sess, err := open(tx, by, id, need)
	if err != nil {
		var zero T
		return zero, err
	}
	return fn(tx, sess)
}

// announce wakes the viewers of sess, here and on other nodes, after the commit.
func (s *Service) announce(tx storage.Tx, sess *record) {
	commit := Commit{State: sess.state(), Events: sess.events}
	tx.AfterCommit(func() {
		if s.feed != nil {
			s.feed.Committed(commit)
		}
		s.bus.PublishAway(signal.Wake{Topic: signal.Session, ID: commit.State.SessionID})
	})
}

func lockDevice(id string) storage.Key { return storage.Key{Lock: storage.LockDevices, ID: id} }

func notAMember(role wire.Role) error {
	if role == wire.RoleNone {
		return fault.New(code.NotAMember, "You are not a member of this session.")
	}
	return fault.New(code.NotAMember, "Your role on this session (%s) does not allow this.", role)
}

func sessionNotFound() error { return fault.New(code.NotFound, "Session not found.") }
