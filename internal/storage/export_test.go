package storage

import (
	"context"
	"database/sql"
	"errors"

	"github.com/pressly/goose/v3"
)

// MaxWaiting is the bound of a lane's queue.
const MaxWaiting = maxWaiting

// Waiting is how many writes wait for the first lane.
func Waiting(db DB) int { return len(db.(*database).lanes[0].queue) }

// WALPages reports the bound of the write-ahead log, in pages.
const RestartPages = restartPages

// MigrateTo brings an empty database to an older version of the schema, and runs statements on it.
func MigrateTo(ctx context.Context, url string, version int64, statements ...string) (err error) {
	target, err := parseURL(url)
	if err != nil {
		return err
	}
	db, dialect, err := target.openOld()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	provider, err := newProvider(db, dialect)
	if err != nil {
		return err
	}
	if _, err := provider.UpTo(ctx, version); err != nil {
		return err
	}
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func (t target) openOld() (*sql.DB, goose.Dialect, error) {
	if t.sqlitePath != "" {
		if err := makeFile(t.sqlitePath); err != nil {
			return nil, "", err
		}
		db, err := openFile(t.sqlitePath, "rw")
		return db, goose.DialectSQLite3, err
	}
	config, err := parsePostgres(t.postgresURL)
	if err != nil {
		return nil, "", err
	}
	return openForMigration(config), goose.DialectPostgres, nil
}
