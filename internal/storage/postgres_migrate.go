package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

const (
	postgresTables = `SELECT count(*) FROM pg_catalog.pg_tables WHERE schemaname = current_schema()`
	postgresMarker = `SELECT to_regclass('` + schemaTable + `') IS NOT NULL`
)

// checkPostgres refuses a database that cannot be used, and migrates an old one when mode allows it.
func checkPostgres(ctx context.Context, config *pgx.ConnConfig, mode MigrateMode) error {
	db := openForMigration(config)
	defer db.Close()
	found, err := inspectPostgres(ctx, db, config)
	if err != nil {
		return err
	}
	if err := prepare(ctx, found, mode, func(ctx context.Context) error { return upPostgres(ctx, db) }); err != nil {
		return err
	}
	return sweepLanes(ctx, db)
}

// inspectPostgres also refuses what only a connection can tell.
func inspectPostgres(ctx context.Context, db *sql.DB, config *pgx.ConnConfig) (inspection, error) {
	var encoding, readOnly string
	err := db.QueryRowContext(ctx, `SELECT current_setting('server_encoding'), current_setting('transaction_read_only')`).Scan(&encoding, &readOnly)
	if err != nil {
		return inspection{}, refuse(Unreachable, err, "PostgreSQL cannot be used at %s: start it, or check host, port, user, password and database of the URL", address(config))
	}
	if encoding != "UTF8" {
		return inspection{}, refuse(ForeignDatabase, nil, "the database has the encoding %s; make one with ENCODING 'UTF8'", encoding)
	}
	if readOnly != "off" {
		return inspection{}, refuse(ReadOnly, nil, "the database is read-only, as a standby is; name the primary")
	}
	return inspect(ctx, db, postgresTables, postgresMarker)
}

func migratePostgres(ctx context.Context, url string) error {
	config, err := parsePostgres(url)
	if err != nil {
		return err
	}
	return checkPostgres(ctx, config, MigrateUp)
}

func statusPostgres(ctx context.Context, url string) (Status, error) {
	config, err := parsePostgres(url)
	if err != nil {
		return Status{}, err
	}
	db := openForMigration(config)
	defer db.Close()
	found, err := inspectPostgres(ctx, db, config)
	if err != nil {
		return Status{}, err
	}
	return found.report()
}

func parsePostgres(url string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, refuse(BadURL, err, "the PostgreSQL URL cannot be read")
	}
	tune(config)
	return config, nil
}

// openForMigration connects without the time-outs of the lanes: a migration may take its time.
func openForMigration(config *pgx.ConnConfig) *sql.DB {
	copied := config.Copy()
	delete(copied.RuntimeParams, "lock_timeout")
	delete(copied.RuntimeParams, "statement_timeout")
	delete(copied.RuntimeParams, "idle_in_transaction_session_timeout")
	return stdlib.OpenDB(*copied)
}

// upPostgres migrates under an advisory lock.
func upPostgres(ctx context.Context, db *sql.DB) error {
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, uint64(migrateTimeout.Seconds())))
	if err != nil {
		return errors.Join(errors.New("make migration lock"), err)
	}
	return runMigrations(ctx, db, goose.DialectPostgres, goose.WithSessionLocker(locker))
}

// sweepLanes removes the rows of writers that are long gone. One that only slept writes its row anew.
func sweepLanes(ctx context.Context, db *sql.DB) error {
	const month = "30 * 24 * 3600 * 1000000::bigint"
	if _, err := db.ExecContext(ctx, "DELETE FROM lanes WHERE used_at < "+clockMicros+" - "+month); err != nil {
		return fmt.Errorf("remove rows of former lanes: %w", err)
	}
	return nil
}
