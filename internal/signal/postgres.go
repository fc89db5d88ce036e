package signal

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnsync/cairn/internal/env"
)

const (
	channel = "cairn_wake"

	listenerName = "cairn listen"
	notifierName = "cairn notify"

	firstBackoff = 50 * time.Millisecond
	maxBackoff   = 5 * time.Second

	// connectTimeout bounds one attempt to connect, and one exchange on an open connection.
	connectTimeout = 5 * time.Second
	// silence is how long the listener hears nothing before it asks whether the server still lives.
	silence = 10 * time.Second
)

// Postgres is a Bus for processes that share one PostgreSQL database. Wake-ups of this process are
// delivered in line; other processes hear of them by NOTIFY, coalesced: what is published while one
// flush runs travels together in the next. Its two connections are its own. Whenever the listening
// connection was lost, Wake{} is delivered once it listens again.
type Postgres struct {
	fanout
	url  string
	node string // marks what this process sent itself
	env  *env.Env
	log  *slog.Logger
	work worker

	mu      sync.Mutex // guards pending
	pending pending
	waiting chan struct{} // holds one token when pending is not empty
}

// NewPostgres makes a bus over the database at url (a postgres:// URL).
func NewPostgres(url string, e *env.Env, log *slog.Logger) *Postgres {
	return &Postgres{url: url, node: e.RandomID(), env: e, log: log, waiting: make(chan struct{}, 1)}
}

// Publish calls every subscriber before it returns and hands the wakes to the next flush. While the
// database cannot be reached they collect; past maxPending ids of a topic collapse into the topic.
func (p *Postgres) Publish(wakes ...Wake) {
	p.collect(wakes)
	p.deliver(wakes...)
}

// PublishAway coalesces wakes for the other processes only.
func (p *Postgres) PublishAway(wakes ...Wake) { p.collect(wakes) }

func (p *Postgres) collect(wakes []Wake) {
	if len(wakes) == 0 {
		return
	}
	p.mu.Lock()
	for _, wake := range wakes {
		p.pending.add(wake)
	}
	p.mu.Unlock()
	select {
	case p.waiting <- struct{}{}:
	default: // somebody woke the flush already
	}
}

// Start listens before it returns, so that no later wake-up is missed.
func (p *Postgres) Start(ctx context.Context) error {
	listener, err := p.listen(ctx)
	if err != nil {
		return fmt.Errorf("listen for wake-ups: %w", err)
	}
	p.work.start(
		func(ctx context.Context) { p.receive(ctx, listener) },
		p.send,
	)
	return nil
}

// Stop sends what is pending, in one attempt, and ends both connections.
func (p *Postgres) Stop(ctx context.Context) error { return p.work.stop(ctx) }

// receive delivers what other processes publish until ctx ends.
func (p *Postgres) receive(ctx context.Context, conn *pgx.Conn) {
	for {
		err := p.hear(ctx, conn)
		discard(conn)
		if ctx.Err() != nil {
			return
		}
		p.log.Warn("lost the connection that listens for wake-ups", "error", err)
		if conn = p.retry(ctx, p.listen); conn == nil {
			return
		}
		p.log.Info("listening for wake-ups again")
		p.deliver(Wake{})
	}
}

// hear delivers notifications until the connection or ctx ends.
func (p *Postgres) hear(ctx context.Context, conn *pgx.Conn) error {
	for {
		waiting, cancel := context.WithTimeout(ctx, silence)
		notification, err := conn.WaitForNotification(waiting)
		quiet := waiting.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err == nil:
			p.take(notification.Payload)
		case quiet && !conn.IsClosed():
			if err := p.ping(ctx, conn); err != nil {
				return err
			}
		default:
			return fmt.Errorf("wait for notification: %w", err)
		}
	}
}

func (p *Postgres) take(payload string) {
	if node, wakes := decodePayload(payload); node != p.node {
		p.deliver(wakes...)
	}
}

func (p *Postgres) ping(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := conn.Ping(ctx); err != nil {
		return fmt.Errorf("ask whether the server lives: %w", err)
	}
	return nil
}

// send flushes what is pending, again and again, until ctx ends; then once more.
func (p *Postgres) send(ctx context.Context) {
	var conn *pgx.Conn
	defer func() { discard(conn) }()
	for {
		select {
		case <-ctx.Done():
			p.farewell(conn)
			return
		case <-p.waiting:
		}
		for conn == nil || conn.IsClosed() {
			if conn = p.retry(ctx, p.notifier); conn == nil {
				return
			}
		}
		// A stop does not interrupt it: the connection would be lost, and the last wake-ups with it.
		if err := p.flush(context.WithoutCancel(ctx), conn); err != nil {
			p.log.Warn("lost the connection that sends wake-ups", "error", err)
			discard(conn)
		}
	}
}

// farewell tells the others what this process did last. It is one attempt: a lost wake-up costs a
// poll, a stop that hangs costs more.
func (p *Postgres) farewell(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if conn == nil || conn.IsClosed() {
		return
	}
	if err := p.flush(ctx, conn); err != nil {
		p.log.Warn("last wake-ups were not sent", "error", err)
	}
}

// flush sends everything pending in one statement. What could not be sent is pending again.
func (p *Postgres) flush(ctx context.Context, conn *pgx.Conn) error {
	p.mu.Lock()
	wakes := p.pending.drain()
	p.mu.Unlock()
	if len(wakes) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	_, err := conn.Exec(ctx, "SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload",
		channel, encodePayloads(p.node, wakes))
	if err != nil {
		p.collect(wakes)
		return fmt.Errorf("notify: %w", err)
	}
	return nil
}

// retry connects until it succeeds, with growing, jittered pauses; nil when ctx ended first.
func (p *Postgres) retry(ctx context.Context, connect func(context.Context) (*pgx.Conn, error)) *pgx.Conn {
	for backoff := firstBackoff; ; backoff = min(2*backoff, maxBackoff) {
		conn, err := connect(ctx)
		if err == nil {
			return conn
		}
		if ctx.Err() == nil {
			p.log.Warn("connect for wake-ups", "error", err)
		}
		if !pause(ctx, p.env.Jitter(backoff)) {
			return nil
		}
	}
}

func (p *Postgres) listen(ctx context.Context) (*pgx.Conn, error) {
	conn, err := p.connect(ctx, listenerName, nil)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		discard(conn)
		return nil, fmt.Errorf("listen: %w", err)
	}
	return conn, nil
}

// notifier connects without waiting for the disk at commit: a wake-up may be lost, and the data it
// speaks of is durable already.
func (p *Postgres) notifier(ctx context.Context) (*pgx.Conn, error) {
	return p.connect(ctx, notifierName, map[string]string{"synchronous_commit": "off"})
}

func (p *Postgres) connect(ctx context.Context, name string, settings map[string]string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(p.url)
	if err != nil {
		return nil, fmt.Errorf("read database url: %w", err)
	}
	maps.DeleteFunc(config.RuntimeParams, func(setting, _ string) bool {
		return strings.HasPrefix(setting, "pool_") // for pools; a single connection does not know them
	})
	config.RuntimeParams["application_name"] = name
	maps.Copy(config.RuntimeParams, settings)
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect to database: %w", err)
	}
	return conn, nil
}

// discard closes a connection that is not needed any more; what it still had to say does not matter.
func discard(conn *pgx.Conn) {
	if conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // the connection is given up either way
	select {
	case <-conn.PgConn().CleanupDone(): // also of a close that began earlier, by itself
	case <-ctx.Done():
	}
}
