package signal

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/cairnsync/cairn/internal/env"
)

// sqlitePollInterval is how often, at least, the file is asked whether another process wrote to it: well
// within the second in which a key revoked by a command ends its streams (SS-ROLE-2).
const sqlitePollInterval = 250 * time.Millisecond

// SQLite is a Bus for processes that share one SQLite file. Wake-ups of this process are delivered
// in line; a write of any other process becomes one Wake{}: anything may have changed.
type SQLite struct {
	fanout
	version func(context.Context) (int64, error)
	env     *env.Env
	log     *slog.Logger
	work    worker
}

// NewSQLite makes a bus that watches version, a number that changes when another process commits
// and only then (PRAGMA data_version as the writing connection sees it).
func NewSQLite(version func(context.Context) (int64, error), e *env.Env, log *slog.Logger) *SQLite {
	return &SQLite{version: version, env: e, log: log}
}

// Publish calls every subscriber before it returns. Other processes see the commit by themselves.
func (s *SQLite) Publish(wakes ...Wake) { s.deliver(wakes...) }

// PublishAway has nothing to do: other processes see the commit by themselves.
func (s *SQLite) PublishAway(...Wake) {}

// Start reads the first version, so that no later write goes unnoticed, and begins to watch.
func (s *SQLite) Start(ctx context.Context) error {
	seen, err := s.version(ctx)
	if err != nil {
		return fmt.Errorf("read data version: %w", err)
	}
	s.work.start(func(ctx context.Context) { s.watch(ctx, seen) })
	return nil
}

// Stop ends the watching.
func (s *SQLite) Stop(ctx context.Context) error { return s.work.stop(ctx) }

func (s *SQLite) watch(ctx context.Context, seen int64) {
	failing := false
	for pause(ctx, s.env.Jitter(sqlitePollInterval)) { // processes of one file do not poll in step
		version, err := s.version(ctx)
		if ctx.Err() != nil {
			return
		}
		if (err != nil) != failing {
			failing = err != nil
			s.log.Warn("watching the database file", "failing", failing, "error", err)
		}
		if err != nil || version == seen {
			continue
		}
		seen = version
		s.deliver(Wake{})
	}
}
