package storage

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/filelock"
)

// sqliteEngine has one writer, a pool of readers, and a checkpointer.
type sqliteEngine struct {
	path    string
	env     *env.Env
	log     *slog.Logger
	cache   *statementCache
	lock    *os.File // held by a server, else nil
	keeper  *checkpointer
	readers *readerPool

	mu   sync.Mutex
	last time.Time // the latest time handed out; guarded by mu
}

// busyTimeout bounds waiting for another process that writes.
const busyTimeout = 5 * time.Second

func openSQLite(ctx context.Context, path string, options Options) (_ engine, err error) {
	if err := checkFolder(path); err != nil {
		return nil, err
	}
	if err := mustExist(path, options.Migrate); err != nil {
		return nil, err
	}
	e := &sqliteEngine{path: path, env: options.Env, log: options.Log, cache: newStatementCache(toSQLite)}
	defer func() {
		if err != nil {
			filelock.Release(e.lock)
		}
	}()
	if options.Server {
		if e.lock, err = claimFile(path); err != nil {
			return nil, err
		}
	}
	if options.Restored {
		if err := mustStandAlone(path); err != nil {
			return nil, err
		}
	}
	if err := checkSQLite(ctx, path, options.Migrate); err != nil {
		return nil, err
	}
	if e.keeper, err = newCheckpointer(ctx, path, options.Log); err != nil {
		return nil, err
	}
	e.readers = newReaderPool(options.Readers)
	return e, nil
}

// claimFile keeps other servers away from the file for as long as this process lives.
func claimFile(path string) (*os.File, error) {
	file, err := filelock.Take(path + ".lock")
	if errors.Is(err, filelock.ErrHeld) {
		return nil, refuse(InUse, nil, "another cairn server serves %s; stop it first, or use PostgreSQL for several servers", path)
	}
	if err != nil {
		return nil, refuse(ReadOnly, err, "the lock file %s.lock cannot be written; make its folder writable", path)
	}
	return file, nil
}

func checkFolder(path string) error {
	folder := filepath.Dir(path)
	info, err := os.Stat(folder)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return refuse(MissingFolder, nil, "the folder %s does not exist; make it first", folder)
	case err != nil:
		return refuse(MissingFolder, err, "the folder %s cannot be read", folder)
	case !info.IsDir():
		return refuse(MissingFolder, nil, "%s is not a folder", folder)
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return refuse(ForeignDatabase, nil, "%s is not a file", path)
	}
	return nil
}

// mustStandAlone refuses a file that is not all there is of its database.
func mustStandAlone(path string) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // SQLite keeps the log beside the file itself
	}
	info, err := os.Stat(path + "-wal")
	switch {
	case errors.Is(err, os.ErrNotExist), err == nil && info.Size() == 0:
		return nil
	case err != nil:
		return refuse(ReadOnly, err, "%s-wal cannot be read", path)
	}
	return refuse(LeftLog, nil, "%s-wal holds commits: of the backup, if it came with it, or of the server that was killed before the restore, "+
		"which would damage the backup", path)
}

func (e *sqliteEngine) name() string { return "sqlite" }

func (e *sqliteEngine) lanes() int { return 1 }

func (e *sqliteEngine) text(query string) statement { return e.cache.get(query) }

// now is the process's clock, which never steps back here.
func (e *sqliteEngine) now() time.Time {
	now := e.env.Now().UTC().Truncate(time.Microsecond)
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Before(e.last) {
		return e.last
	}
	e.last = now
	return now
}

func (e *sqliteEngine) dial(ctx context.Context, _ string) (link, error) {
	conn, err := openConn(ctx, e.path, false)
	if err != nil {
		return nil, err
	}
	return newSQLiteLink(e, conn), nil
}

// read runs fn once on a reader of its own; its snapshot begins with its first statement.
func (e *sqliteEngine) read(ctx context.Context, fn func(Tx) error) error {
	conn, err := e.readers.take(ctx)
	if err != nil {
		return err
	}
	defer func() { e.readers.give(conn) }()
	if conn == nil {
		if conn, err = openConn(ctx, e.path, true); err != nil {
			return err
		}
	}
	err = e.readOn(ctx, conn, fn)
	if !conn.usable() {
		conn.close()
		conn = nil
	}
	return err
}

func (e *sqliteEngine) readOn(ctx context.Context, conn *sqliteConn, fn func(Tx) error) error {
	defer conn.rollback() // also when fn ends its goroutine
	conn.interruptWith(ctx)
	if err := conn.run("BEGIN"); err != nil {
		return err
	}
	now := e.now()
	tx := &transaction{ctx: ctx, session: conn, text: e.text, clock: func() time.Time { return now }, readOnly: true}
	return tx.call(fn)
}

func (e *sqliteEngine) close() error {
	e.readers.close()
	err := e.keeper.close() // the last connection: it empties the log
	filelock.Release(e.lock)
	return err
}

// diagnose: a file that stays busy is as good as unreachable; everything else cannot be helped by
// repeating.
func (e *sqliteEngine) diagnose(err error) diagnosis {
	if errors.Is(err, sqlite3.BUSY) || errors.Is(err, sqlite3.LOCKED) {
		return lost
	}
	return final
}
