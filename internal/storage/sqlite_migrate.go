package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"
	"github.com/ncruces/go-sqlite3/ext/fts5"
	"github.com/pressly/goose/v3"

	"github.com/cairnsync/cairn/internal/env"
)

const (
	sqliteTables = `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite@_%' ESCAPE '@'`
	sqliteMarker = `SELECT count(*) > 0 FROM sqlite_schema WHERE type = 'table' AND name = '` + schemaTable + `'`
)

// mustExist refuses a missing file when it may not be made: a name that was misspelt is no new database.
func mustExist(path string, mode MigrateMode) error {
	if _, err := os.Stat(path); mode == MigrateRefuse && errors.Is(err, os.ErrNotExist) {
		return refuse(MissingFile, nil, "there is no database %s; check its name, or make one with: cairn migrate up", path)
	}
	return nil
}

// checkSQLite refuses a file that cannot be used, makes a missing one, and migrates an old one when
// mode allows it.
func checkSQLite(ctx context.Context, path string, mode MigrateMode) error {
	if err := makeFile(path); err != nil {
		return err
	}
	db, err := openFile(path, "rw")
	if err != nil {
		return err
	}
	defer db.Close()
	found, err := inspectSQLite(ctx, db, path)
	if err != nil {
		return err
	}
	if err := prepare(ctx, found, mode, func(ctx context.Context) error { return upSQLite(ctx, db, path) }); err != nil {
		return err
	}
	return checkWritable(ctx, db, path)
}

// makeFile makes a missing file, for the eyes of its owner only; guardLog gives its companions the same rights.
func makeFile(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return refuse(ReadOnly, err, "%s cannot be made; check the rights of its folder, and that the disk is not read-only or full", path)
	}
	return file.Close()
}

func migrateSQLite(ctx context.Context, path string) error {
	if err := checkFolder(path); err != nil {
		return err
	}
	return checkSQLite(ctx, path, MigrateUp)
}

func statusSQLite(ctx context.Context, path string) (Status, error) {
	if err := checkFolder(path); err != nil {
		return Status{}, err
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return inspection{}.report()
	}
	db, err := openFile(path, "rw")
	if err != nil {
		return Status{}, err
	}
	defer db.Close()
	found, err := inspectSQLite(ctx, db, path)
	if err != nil {
		return Status{}, err
	}
	return found.report()
}

func inspectSQLite(ctx context.Context, db *sql.DB, path string) (inspection, error) {
	found, err := inspect(ctx, db, sqliteTables, sqliteMarker)
	switch {
	case errors.Is(err, sqlite3.NOTADB), errors.Is(err, sqlite3.CORRUPT):
		return found, refuse(ForeignDatabase, err, "%s is not a SQLite database, or a damaged one; name another file, or restore a backup", path)
	case errors.Is(err, sqlite3.CANTOPEN), errors.Is(err, sqlite3.READONLY), errors.Is(err, sqlite3.PERM):
		return found, refuse(ReadOnly, err, "%s cannot be opened for writing; check the rights of the file and its folder, and that the disk is not read-only", path)
	case err != nil:
		return found, refuse(Unreachable, err, "%s cannot be read", path)
	}
	return found, nil
}

// checkWritable takes and gives back the write lock: SQLite opens a read-only file without a word.
func checkWritable(ctx context.Context, db *sql.DB, path string) error {
	_, err := db.ExecContext(ctx, "BEGIN IMMEDIATE; UPDATE lanes SET batch = batch WHERE id = ''; ROLLBACK")
	switch {
	case errors.Is(err, sqlite3.BUSY):
		return nil // somebody can write
	case err != nil:
		return refuse(ReadOnly, err, "%s cannot be written; check the rights of the file and its folder, and that the disk is not read-only or full", path)
	}
	return nil
}

// openFile opens through database/sql, for migrations; every transaction excludes other processes.
func openFile(path, mode string) (*sql.DB, error) {
	guardOpened(path)
	query := url.Values{"mode": {mode}, "_txlock": {"exclusive"}, "_pragma": {"busy_timeout(30000)", "foreign_keys(0)"}}
	name := url.URL{Scheme: "file", OmitHost: true, Path: slashed(path), RawQuery: query.Encode()}
	db, err := driver.Open(name.String(), fts5.Register)
	if err != nil {
		return nil, refuse(ReadOnly, err, "%s cannot be opened; check the rights of the file and its folder", path)
	}
	db.SetMaxOpenConns(2)
	return db, nil
}

// slashed is a path as a URI wants it, also with a drive letter.
func slashed(path string) string {
	path = filepath.ToSlash(path)
	if filepath.VolumeName(path) != "" {
		return "/" + path
	}
	return path
}

func upSQLite(ctx context.Context, db *sql.DB, path string) error {
	if err := runMigrations(ctx, db, goose.DialectSQLite3); err != nil {
		return err
	}
	guardLog(path)
	return useLog(ctx, db)
}

// useLog switches to a write-ahead log.
func useLog(ctx context.Context, db *sql.DB) error {
	err := untilFree(ctx, func() error {
		_, err := db.ExecContext(ctx, "PRAGMA journal_mode = WAL")
		return err
	})
	if err != nil {
		return fmt.Errorf("switch to a write-ahead log: %w", err)
	}
	return nil
}

// untilFree repeats what names the journal mode: unlike other statements that one does not wait while another process has
// the file, as the last one to leave has.
func untilFree(ctx context.Context, do func() error) error {
	deadline, wait := time.After(busyTimeout), newBackoff(env.Real())
	for {
		err := do()
		if err == nil || !errors.Is(err, sqlite3.BUSY) || !wait.pause(ctx, deadline) {
			return err
		}
	}
}
