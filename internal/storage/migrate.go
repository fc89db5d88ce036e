package storage

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/cairnsync/cairn/internal/env"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// schemaTable records the applied migrations; it also marks a database as ours.
const schemaTable = "cairn_migrations"

// Status is how far a database's schema is.
type Status struct {
	Current int64 // 0 is an empty database
	Latest  int64 // what this program knows
	Pending []Migration
}

// Migration is one step of the schema.
type Migration struct {
	Version int64
	Name    string // its file's name
}

// Migrate brings the schema of a database up to date, forward only, under a lock: of several
// processes one migrates and the others find it done. It makes a missing SQLite file.
func Migrate(ctx context.Context, url string) error {
	target, err := parseURL(url)
	if err != nil {
		return err
	}
	return target.migrate(ctx)
}

// MigrationStatus answers how far a database is, and changes nothing. A SQLite file that does not
// exist is empty.
func MigrationStatus(ctx context.Context, url string) (Status, error) {
	target, err := parseURL(url)
	if err != nil {
		return Status{}, err
	}
	return target.status(ctx)
}

func (t target) migrate(ctx context.Context) error {
	if t.sqlitePath != "" {
		return migrateSQLite(ctx, t.sqlitePath)
	}
	return migratePostgres(ctx, t.postgresURL)
}

func (t target) status(ctx context.Context) (Status, error) {
	if t.sqlitePath != "" {
		return statusSQLite(ctx, t.sqlitePath)
	}
	return statusPostgres(ctx, t.postgresURL)
}

// applied answers the highest recorded version; tables is how many tables the database has, and ours
// whether the marker is among them.
type inspection struct {
	tables  int
	ours    bool
	current int64
}

// inspect looks at a database through database/sql; the two queries are the engine's.
func inspect(ctx context.Context, db *sql.DB, tables, marker string) (inspection, error) {
	var found inspection
	if err := db.QueryRowContext(ctx, tables).Scan(&found.tables); err != nil {
		return found, fmt.Errorf("count tables: %w", err)
	}
	if err := db.QueryRowContext(ctx, marker).Scan(&found.ours); err != nil {
		return found, fmt.Errorf("look for the schema's version: %w", err)
	}
	if !found.ours {
		return found, nil
	}
	err := db.QueryRowContext(ctx, "SELECT coalesce(max(version_id), 0) FROM "+schemaTable).Scan(&found.current)
	if err != nil {
		return found, fmt.Errorf("read the schema's version: %w", err)
	}
	return found, nil
}

// judge refuses a database that this program must not touch.
func (i inspection) judge() error {
	latest, err := latestVersion()
	if err != nil {
		return err
	}
	switch {
	case i.tables > 0 && !i.ours:
		return refuse(ForeignDatabase, nil, "the database has tables that are not cairn's; name an empty database, or cairn's own")
	case i.current > latest:
		return refuse(NewerSchema, nil, "the schema has version %d and this program knows %d; run the newer cairn that migrated it, or restore a backup", i.current, latest)
	default:
		return nil
	}
}

// prepare judges a database and migrates it when it is old and mode allows that.
func prepare(ctx context.Context, found inspection, mode MigrateMode, migrate func(context.Context) error) error {
	if err := found.judge(); err != nil {
		return err
	}
	latest, err := latestVersion()
	if err != nil || found.current == latest {
		return err
	}
	if mode == MigrateRefuse {
		return refuse(OldSchema, nil, "the schema has version %d and this program needs %d; back up, then run: cairn migrate up", found.current, latest)
	}
	return migrate(ctx)
}

// migrateAttempts bounds how often a migration that lost against another process looks again.
const migrateAttempts = 5

// runMigrations applies what is pending. When another process was faster, what it did is enough.
func runMigrations(ctx context.Context, db *sql.DB, dialect goose.Dialect, options ...goose.ProviderOption) error {
	var failure error
	for range migrateAttempts {
		provider, err := newProvider(db, dialect, options...)
		if err != nil {
			return err
		}
		if _, failure = provider.Up(ctx); failure == nil || ctx.Err() != nil {
			break
		}
		if pending, err := provider.HasPending(ctx); err == nil && !pending {
			failure = nil
			break
		}
	}
	if failure != nil {
		return fmt.Errorf("migrate database: %w", failure)
	}
	return nameInstance(ctx, db)
}

// nameInstance gives a new database its identity: the id it keeps, and its first sync epoch (ES-7.5).
func nameInstance(ctx context.Context, db *sql.DB) error {
	e := env.Real()
	_, err := db.ExecContext(ctx, `INSERT INTO instance (id, name, sync_epoch, created_at) VALUES ($1, 'cairn', $2, $3) ON CONFLICT DO NOTHING`,
		e.NewID(), e.NewID(), e.Now().UnixMicro())
	if err != nil {
		return fmt.Errorf("name the instance: %w", err)
	}
	return nil
}

func newProvider(db *sql.DB, dialect goose.Dialect, options ...goose.ProviderOption) (*goose.Provider, error) {
	files, err := migrationsOf(dialect)
	if err != nil {
		return nil, err
	}
	options = append(options, goose.WithTableName(schemaTable), goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	provider, err := goose.NewProvider(dialect, db, files, options...)
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	return provider, nil
}

// oneEngine is the migrations of an engine: a file for another one (00005_search.postgres.sql) is not there.
type oneEngine struct {
	fs.FS

	other string
}

// ReadDir is what goose lists the migrations with.
func (e oneEngine) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(e.FS, name)
	return slices.DeleteFunc(entries, func(entry fs.DirEntry) bool { return strings.HasSuffix(entry.Name(), e.other) }), err
}

const (
	onlySQLite   = ".sqlite.sql"
	onlyPostgres = ".postgres.sql"
)

func migrationsOf(dialect goose.Dialect) (fs.FS, error) {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	if dialect == goose.DialectSQLite3 {
		return oneEngine{files, onlyPostgres}, nil
	}
	return oneEngine{files, onlySQLite}, nil
}

// known lists the migrations of this program in order; one that is written for each engine counts once.
func known() ([]Migration, error) {
	entries, err := fs.ReadDir(migrationFiles, "migrations")
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	var migrations []Migration
	for _, entry := range entries {
		version, err := goose.NumericComponent(entry.Name())
		if err != nil {
			return nil, fmt.Errorf("read migration %s: %w", entry.Name(), err)
		}
		if strings.HasSuffix(entry.Name(), onlyPostgres) {
			continue // its twin stands beside it
		}
		name := strings.Replace(entry.Name(), onlySQLite, ".sql", 1)
		migrations = append(migrations, Migration{Version: version, Name: name})
	}
	if len(migrations) == 0 {
		return nil, errors.New("read migrations: there are none")
	}
	return migrations, nil
}

func latestVersion() (int64, error) {
	migrations, err := known()
	if err != nil {
		return 0, err
	}
	return migrations[len(migrations)-1].Version, nil
}

// report turns an inspection into a Status.
func (i inspection) report() (Status, error) {
	migrations, err := known()
	if err != nil {
		return Status{}, err
	}
	status := Status{Current: i.current, Latest: migrations[len(migrations)-1].Version}
	for _, migration := range migrations {
		if migration.Version > i.current {
			status.Pending = append(status.Pending, migration)
		}
	}
	return status, i.judge()
}

// migrateTimeout bounds waiting for another process that migrates.
const migrateTimeout = 60 * time.Second

// WriteMigrations writes every migration of both engines in order: what identifies the schema of this program.
func WriteMigrations(to io.Writer) error {
	entries, err := fs.ReadDir(migrationFiles, "migrations")
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	for _, entry := range entries {
		content, err := migrationFiles.ReadFile("migrations/" + entry.Name())
		if err != nil {
			return fmt.Errorf("read migration %s: %w", entry.Name(), err)
		}
		if _, err := to.Write(content); err != nil {
			return fmt.Errorf("write migration %s: %w", entry.Name(), err)
		}
	}
	return nil
}
