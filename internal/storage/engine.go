package storage

import (
	"context"
	"time"
)

// engine is what differs between SQLite and PostgreSQL: connections and their statements. Everything
// that decides (grouping, answering, repeating) is written once, in lane.
type engine interface {
	name() string
	lanes() int
	// dial opens the connection of a lane.
	dial(ctx context.Context, lane string) (link, error)
	// read runs fn once in a read-only snapshot.
	read(ctx context.Context, fn func(Tx) error) error
	// diagnose tells what may be done about an error of this engine.
	diagnose(err error) diagnosis
	// text translates a statement of the portable dialect.
	text(query string) statement
	// close closes every connection; the links are closed already.
	close() error
}

// link is a connection that writes, one transaction at a time. It belongs to one lane.
type link interface {
	session
	// begin starts a transaction, writes batch into the lane's row, runs the locking steps and answers
	// the clock read after them, and what was read ahead, unless it leaves that to the functions.
	begin(ctx context.Context, batch string, steps []lockStep, ahead []prefetch) (time.Time, []readAhead, error)
	// next says that the statements of another write follow. together: it keeps what Prefetch asks for, so that
	// rows of it may be inserted with those of the writes before it that do, too.
	next(together bool)
	// commit makes the transaction durable; nil means that the engine said so. sent is false when the
	// commit was certainly never asked for.
	commit(ctx context.Context) (sent bool, err error)
	// rollback ends the transaction, whatever state it is in.
	rollback(ctx context.Context) error
	// committed waits for whatever an earlier connection of the lane left running, and reports whether
	// batch was the lane's last commit.
	committed(ctx context.Context, batch string) (bool, error)
	// usable reports whether the link can begin another transaction.
	usable() bool
	// afterBatch is called when everybody was answered: the place for housekeeping.
	afterBatch()
	close()
}

// session runs statements of one transaction. Arguments have been through bindable.
type session interface {
	exec(ctx context.Context, stmt statement, args []any) error
	changed(ctx context.Context, stmt statement, args []any) (int64, error)
	// query calls each for every row until it answers an error, which it hands back unchanged.
	query(ctx context.Context, stmt statement, args []any, each func(Row) error) error
	insert(ctx context.Context, into Table, rows [][]any) error
}

// statement is a statement translated for an engine.
type statement struct {
	query  string // as written
	text   string // as the engine wants it
	writes bool
}

// lockStep locks the rows of one class.
type lockStep struct {
	query string
	ids   []string
}

// diagnosis is what may be done about an engine's error.
type diagnosis int

const (
	// final: repeating cannot help.
	final diagnosis = iota
	// repeatable: the transaction lost against another one (deadlock, serialization, busy).
	repeatable
	// blocked: a row stays locked by somebody else.
	blocked
	// lost: the connection is gone or cannot be made now.
	lost
)
