package storage

import (
	"context"
	"errors"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// sqliteLink is the one writing connection of the process.
type sqliteLink struct {
	*sqliteConn
	engine *sqliteEngine
	pages  int // of the log after the last commit
	// restartAt is the length at which the writer next tries to start the log anew.
	restartAt int
}

func newSQLiteLink(e *sqliteEngine, conn *sqliteConn) *sqliteLink {
	l := &sqliteLink{sqliteConn: conn, engine: e, restartAt: restartPages}
	conn.conn.WALHook(func(_ *sqlite3.Conn, _ string, pages int) error {
		l.pages = pages
		return nil
	})
	return l
}

// begin takes the file's write lock; rows need no locks of their own.
func (l *sqliteLink) begin(ctx context.Context, _ string, _ []lockStep, _ []prefetch) (time.Time, []readAhead, error) {
	l.interruptWith(ctx)
	if err := l.run("BEGIN IMMEDIATE"); err != nil {
		return time.Time{}, nil, err
	}
	return l.engine.now(), nil, nil
}

// next does nothing: statements run when they are given.
func (l *sqliteLink) next(bool) {}

// commit answers nil only when the transaction has ended by it: an error of the disk ends a
// transaction by itself, and then COMMIT has nothing to commit.
func (l *sqliteLink) commit(context.Context) (bool, error) {
	if l.conn.GetAutocommit() {
		return false, errors.New("the engine ended the transaction before its commit")
	}
	return false, l.run("COMMIT")
}

func (l *sqliteLink) rollback(context.Context) error {
	l.sqliteConn.rollback()
	if l.broken {
		return errors.New("the connection cannot be rolled back")
	}
	return nil
}

// committed is never asked: in this process no answer of a commit is lost.
func (l *sqliteLink) committed(context.Context, string) (bool, error) { return false, nil }

func (l *sqliteLink) afterBatch() {
	l.engine.keeper.wrote(l.pages)
	if l.pages >= l.restartAt {
		l.restartLog()
	}
}

// restartLog empties the log from the writer's side: only while nobody writes does the checkpointer
// reach the end of it. It waits for readers of the old log briefly, and tries again later otherwise.
func (l *sqliteLink) restartLog() {
	l.interruptWith(context.Background())
	_ = l.conn.BusyTimeout(restartPatience)
	_, _, err := l.conn.WALCheckpoint("main", sqlite3.CHECKPOINT_RESTART)
	_ = l.conn.BusyTimeout(busyTimeout)
	if err == nil {
		l.pages, l.restartAt = 0, restartPages
		return
	}
	l.restartAt = l.pages + checkpointPages // a long snapshot must not cost every batch this wait
	if !errors.Is(err, sqlite3.BUSY) {
		l.engine.log.Error("restart the write-ahead log", "error", err)
	}
}
