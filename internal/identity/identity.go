// Package identity knows who asks: users, the keys they own, and the devices they use.
//
// Contract. A key is stored as a hash only and never appears in an error or a log (SS-HTTP-2). What
// Authenticate and Touch answer rests on the database; a cached answer is trusted for at most
// trusted.Trust (keys) and touchInterval (devices) of the process's clock, and is dropped at once by a
// wake-up of signal.Identity. Alive is never cached. A registration of a device is durable before
// Touch answers.
//
// Order. Changes of a user, a key or a device wake signal.Identity after their commit, and
// signal.Session for each session whose viewers or lease they touch.
//
// Blocking and concurrency. A Service is safe for concurrent use. Every method may wait for the
// database, never for another user's request: look-ups of unknown keys share a few lanes of their
// own, so that a flood of them cannot keep known keys waiting. Functions that take a storage.Tx run
// inside the caller's transaction.
package identity

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/singleflight"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/identity/lru"
	"github.com/cairnsync/cairn/internal/identity/trusted"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
)

// Principal is an authenticated user, with the key that proved it.
type Principal struct {
	UserID string
	KeyID  string
}

// Service answers who asks. Make it with New.
type Service struct {
	db          storage.DB
	bus         signal.Bus
	env         *env.Env
	log         *eventlog.Log
	permissions *authz.Service

	keys *trusted.Answers[keyHash, Principal]

	// generation grows with every wake-up of Identity; what was noted about a device under an older one is
	// not trusted.
	generation atomic.Uint64
	flights    singleflight.Group // registrations of devices

	mu       sync.Mutex                     // guards what follows
	devices  *lru.Cache[string, deviceSeen] // by device id
	unlisten func()
}

// Option changes what New makes.
type Option func(*Service)

// WithLog hands the server's event log over, so that its readers are woken by what this service writes.
// Without it the service writes to the same log, and readers find out by polling.
func WithLog(log *eventlog.Log) Option { return func(s *Service) { s.log = log } }

// maxPayload bounds events where no log was handed over; those of this package are far smaller.
const maxPayload = 64 << 10

// New makes the service. Between New and Start nothing is cached.
func New(db storage.DB, bus signal.Bus, e *env.Env, options ...Option) *Service {
	s := &Service{
		db: db, bus: bus, env: e,
		log:     eventlog.New(eventlog.Options{MaxPayload: maxPayload, NewID: e.NewID}),
		keys:    trusted.New[keyHash, Principal](e),
		devices: lru.New[string, deviceSeen](maxCachedDevices),
	}
	for _, option := range options {
		option(s)
	}
	s.permissions = authz.New(db, s.log, e)
	return s
}

// Start begins to listen for wake-ups and, with them, to cache.
func (s *Service) Start(ctx context.Context) error {
	if err := s.nameMigrated(ctx); err != nil {
		return err
	}
	unlisten := s.bus.Subscribe(func(wake signal.Wake) {
		if wake.Topic == signal.Identity || wake.Topic == "" {
			s.generation.Add(1)
			s.keys.Forget()
		}
	})
	s.keys.Listening(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlisten = unlisten
	return nil
}

// Stop ends the listening and the caching.
func (s *Service) Stop(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unlisten != nil {
		s.keys.Listening(false)
		s.unlisten()
		s.unlisten = nil
	}
	return nil
}

// caching reports whether wake-ups arrive. The caller holds mu.
func (s *Service) caching() bool { return s.unlisten != nil }

// wakeAfter wakes Identity and the named sessions once tx is committed.
func (s *Service) wakeAfter(tx storage.Tx, sessions ...string) {
	wakes := []signal.Wake{{Topic: signal.Identity}}
	for _, id := range sessions {
		wakes = append(wakes,
			signal.Wake{Topic: signal.Session, ID: id}, signal.Wake{Topic: signal.Presence, ID: id})
	}
	tx.AfterCommit(func() { s.bus.Publish(wakes...) })
}

func refuse(format string, args ...any) error { return fault.New(code.BadRequest, format, args...) }

func missing(what string) error { return fault.New(code.NotFound, "%s not found.", what) }
