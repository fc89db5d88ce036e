package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnsync/cairn/internal/env"
)

// postgresEngine writes on one connection per lane and reads on a pool.
type postgresEngine struct {
	config *pgx.ConnConfig
	pool   *pgxpool.Pool
	cache  *statementCache
	env    *env.Env
	count  int
}

// Limits that the server keeps for us, so that a blocked row never stops a lane for long.
const (
	lockTimeout      = 2 * time.Second
	statementTimeout = 25 * time.Second
	// idleTimeout ends a transaction whose owner was cut off.
	idleTimeout = 60 * time.Second
)

func openPostgres(ctx context.Context, url string, options Options) (engine, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, refuse(BadURL, err, "the PostgreSQL URL cannot be read")
	}
	tune(config.ConnConfig)
	if err := checkPostgres(ctx, config.ConnConfig, options.Migrate); err != nil {
		return nil, err
	}
	config.MaxConns = int32(options.Readers)
	config.MinConns = 0
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, refuse(Unreachable, err, "PostgreSQL cannot be reached at %s", address(config.ConnConfig))
	}
	e := &postgresEngine{config: config.ConnConfig, pool: pool, env: options.Env, count: options.Lanes}
	e.cache = newStatementCache(func(query string) string { return query })
	return e, nil
}

// tune sets what every connection of ours has.
func tune(config *pgx.ConnConfig) {
	config.ConnectTimeout = dialTimeout
	config.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	config.RuntimeParams["application_name"] = "cairn"
	config.RuntimeParams["lock_timeout"] = milliseconds(lockTimeout)
	config.RuntimeParams["statement_timeout"] = milliseconds(statementTimeout)
	config.RuntimeParams["idle_in_transaction_session_timeout"] = milliseconds(idleTimeout)
	config.RuntimeParams["client_min_messages"] = "warning"
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// address names a server without the user's password.
func address(config *pgx.ConnConfig) string {
	return fmt.Sprintf("%s, database %s", net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port))), config.Database)
}

func (e *postgresEngine) name() string { return "postgres" }

func (e *postgresEngine) lanes() int { return e.count }

func (e *postgresEngine) text(query string) statement { return e.cache.get(query) }

func (e *postgresEngine) dial(ctx context.Context, lane string) (link, error) {
	conn, err := pgx.ConnectConfig(ctx, e.config.Copy())
	if err != nil {
		return nil, err
	}
	return &postgresLink{postgresSession: postgresSession{conn: conn}, lane: lane}, nil
}

func (e *postgresEngine) close() error {
	e.pool.Close()
	return nil
}

// read runs fn once; its snapshot begins with its first statement.
func (e *postgresEngine) read(ctx context.Context, fn func(Tx) error) error {
	pooled, err := e.acquire(ctx)
	if err != nil {
		return fmt.Errorf("take a connection: %w", err)
	}
	defer pooled.Release() // closes a connection that is still in a transaction
	snapshot := &snapshot{postgresSession: postgresSession{conn: pooled.Conn()}, ctx: ctx}
	tx := &transaction{ctx: ctx, session: snapshot, text: e.text, readOnly: true}
	tx.clock = func() time.Time {
		now, err := snapshot.clock()
		_ = tx.remember(err) // Now has no error; the next statement answers it
		return now
	}
	if err := tx.call(fn); err != nil {
		snapshot.end()
		return err
	}
	snapshot.end()
	return nil
}

func (e *postgresEngine) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return e.pool.Acquire(ctx)
}

// diagnose goes by the SQLSTATE, and takes what never reached the server for a lost connection.
func (e *postgresEngine) diagnose(err error) diagnosis {
	if answered, ok := errors.AsType[*pgconn.PgError](err); ok {
		return diagnoseState(answered.Code)
	}
	var connecting *pgconn.ConnectError
	var network net.Error
	switch {
	case errors.As(err, &connecting), errors.As(err, &network), pgconn.SafeToRetry(err), pgconn.Timeout(err),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, errLostConnection):
		return lost
	default:
		return final
	}
}

func diagnoseState(state string) diagnosis {
	switch state {
	case "40001", "40P01": // serialization failure, deadlock
		return repeatable
	case "55P03": // lock timeout
		return blocked
	case "57P01", "57P02", "57P03", "53300", "25P03": // shutdown, crash, starting, too many connections, idle too long
		return lost
	}
	if state[:min(2, len(state))] == "08" { // connection exceptions
		return lost
	}
	return final
}

// errLostConnection marks errors after which the connection was found closed.
var errLostConnection = errors.New("the connection to PostgreSQL was lost")
