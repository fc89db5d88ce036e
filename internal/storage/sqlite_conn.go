package storage

import (
	"container/list"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/ext/fts5"
)

// sqliteConn is a connection with its prepared statements. It belongs to one goroutine at a time.
type sqliteConn struct {
	conn   *sqlite3.Conn
	cached map[string]*list.Element // by statement text
	order  *list.List               // of *preparedStatement, the least recently used last
	broken bool
}

type preparedStatement struct {
	text string
	stmt *sqlite3.Stmt
}

// maxPrepared bounds the prepared statements of a connection; the least recently used one goes.
const maxPrepared = 256

// openConn opens a connection to a file that exists.
func openConn(ctx context.Context, path string, reader bool) (c *sqliteConn, err error) {
	err = untilFree(ctx, func() error {
		c, err = connect(path, reader)
		return err
	})
	return c, err
}

func connect(path string, reader bool) (*sqliteConn, error) {
	guardOpened(path)
	conn, err := sqlite3.OpenFlags(path, sqlite3.OPEN_READWRITE)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	c := &sqliteConn{conn: conn, cached: make(map[string]*list.Element), order: list.New()}
	if err := c.configure(reader); err != nil {
		c.close()
		return nil, fmt.Errorf("set up connection to %s: %w", path, err)
	}
	guardOpened(path) // a process that was the last to leave may have taken the files along meanwhile
	return c, nil
}

func (c *sqliteConn) configure(reader bool) error {
	if err := fts5.Register(c.conn); err != nil { // what the search index is made of
		return err
	}
	if err := c.conn.BusyTimeout(busyTimeout); err != nil {
		return err
	}
	pragmas := "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY;" +
		"PRAGMA journal_size_limit = 33554432;"
	if reader {
		// The writer needs the pages it changes; readers have the system's cache behind their own.
		pragmas += "PRAGMA cache_size = -1000; PRAGMA query_only = ON;"
	} else {
		pragmas += "PRAGMA cache_size = -16000;"
	}
	if err := c.conn.Exec(pragmas); err != nil {
		return err
	}
	// The checkpointer does it, beside the writer.
	return c.conn.WALAutoCheckpoint(0)
}

func (c *sqliteConn) close() {
	c.conn.SetInterrupt(context.Background()) // closing may checkpoint
	for element := c.order.Front(); element != nil; element = element.Next() {
		_ = element.Value.(*preparedStatement).stmt.Close()
	}
	c.order.Init()
	clear(c.cached)
	_ = c.conn.Close()
	c.broken = true
}

// interruptWith lets ctx end what the connection does.
func (c *sqliteConn) interruptWith(ctx context.Context) { c.conn.SetInterrupt(ctx) }

func (c *sqliteConn) run(text string) error { return c.conn.Exec(text) }

// rollback ends a transaction, if the engine has not done it itself.
func (c *sqliteConn) rollback() {
	c.conn.SetInterrupt(context.Background())
	if c.broken || c.conn.GetAutocommit() {
		return
	}
	if err := c.conn.Exec("ROLLBACK"); err != nil {
		c.broken = true
	}
}

func (c *sqliteConn) usable() bool { return !c.broken && c.conn.GetAutocommit() }

// prepared answers a reset statement, from the cache when it is there.
func (c *sqliteConn) prepared(text string) (*sqlite3.Stmt, error) {
	if element, ok := c.cached[text]; ok {
		c.order.MoveToFront(element)
		return element.Value.(*preparedStatement).stmt, nil
	}
	stmt, tail, err := c.conn.PrepareFlags(text, sqlite3.PREPARE_PERSISTENT)
	if err != nil {
		return nil, err
	}
	if stmt == nil || len(significantWords(tail)) > 0 {
		return nil, errors.Join(errors.New("a query must be one statement"), stmt.Close())
	}
	if c.order.Len() >= maxPrepared {
		oldest := c.order.Remove(c.order.Back()).(*preparedStatement)
		delete(c.cached, oldest.text)
		if err := oldest.stmt.Close(); err != nil {
			return nil, err
		}
	}
	c.cached[text] = c.order.PushFront(&preparedStatement{text, stmt})
	return stmt, nil
}

// start prepares a statement and binds its arguments.
func (c *sqliteConn) start(text string, args []any) (*sqlite3.Stmt, error) {
	stmt, err := c.prepared(text)
	if err != nil {
		return nil, err
	}
	return stmt, bindAll(stmt, args)
}

// finished resets a statement. SQLite repeats the error of the last step there, and may have ended
// the whole transaction, which the caller sees by usable.
func finished(stmt *sqlite3.Stmt) error {
	return errors.Join(stmt.Reset(), stmt.ClearBindings())
}

func (c *sqliteConn) exec(_ context.Context, stmt statement, args []any) error {
	_, err := c.changedBy(stmt.text, args)
	return err
}

func (c *sqliteConn) changed(_ context.Context, stmt statement, args []any) (int64, error) {
	return c.changedBy(stmt.text, args)
}

func (c *sqliteConn) changedBy(text string, args []any) (int64, error) {
	stmt, err := c.start(text, args)
	if err != nil {
		return 0, err
	}
	for stmt.Step() {
	}
	if err := finished(stmt); err != nil {
		return 0, err
	}
	return c.conn.Changes(), nil
}

func (c *sqliteConn) query(_ context.Context, s statement, args []any, each func(Row) error) (err error) {
	stmt, err := c.start(s.text, args)
	if err != nil {
		return err
	}
	defer func() {
		if ending := finished(stmt); err == nil {
			err = ending
		}
	}()
	for stmt.Step() {
		if err := each(sqliteRow{stmt}); err != nil {
			return err
		}
	}
	return nil
}

// insert runs one prepared statement per row: in this process that is as fast as it gets.
func (c *sqliteConn) insert(_ context.Context, into Table, rows [][]any) error {
	text := toSQLite(insertOne(into))
	for _, row := range rows {
		if _, err := c.changedBy(text, row); err != nil {
			return err
		}
	}
	return nil
}

func bindAll(stmt *sqlite3.Stmt, args []any) error {
	if count := stmt.BindCount(); count != len(args) {
		return fmt.Errorf("bind arguments: %d given, %d wanted", len(args), count)
	}
	for i, arg := range args {
		if err := bindSQLite(stmt, i+1, arg); err != nil {
			return fmt.Errorf("bind argument $%d: %w", i+1, err)
		}
	}
	return nil
}

func bindSQLite(stmt *sqlite3.Stmt, at int, arg any) error {
	switch value := arg.(type) {
	case nil:
		return stmt.BindNull(at)
	case string:
		return stmt.BindText(at, value)
	case int64:
		return stmt.BindInt64(at, value)
	case bool:
		return stmt.BindBool(at, value)
	case float64:
		return stmt.BindFloat(at, value)
	default: // []string, []int64
		encoded, err := json.Marshal(value)
		if err != nil {
			return err
		}
		return stmt.BindText(at, string(encoded))
	}
}

// sqliteRow is the current row of a statement.
type sqliteRow struct{ stmt *sqlite3.Stmt }

func (r sqliteRow) Scan(dest ...any) error {
	if count := r.stmt.ColumnCount(); len(dest) != count {
		return fmt.Errorf("scan row: %d columns into %d destinations", count, len(dest))
	}
	for i := range dest {
		if err := scanColumn(sqliteColumn{r.stmt, i}, dest[i]); err != nil {
			return fmt.Errorf("scan column %s: %w", r.stmt.ColumnName(i), err)
		}
	}
	return nil
}

type sqliteColumn struct {
	stmt *sqlite3.Stmt
	at   int
}

func (c sqliteColumn) null() bool { return c.stmt.ColumnType(c.at) == sqlite3.NULL }

func (c sqliteColumn) text() (string, error) {
	if kind := c.stmt.ColumnType(c.at); kind != sqlite3.TEXT && kind != sqlite3.BLOB {
		return "", fmt.Errorf("column holds %s, not text", kind)
	}
	return c.stmt.ColumnText(c.at), nil
}

func (c sqliteColumn) integer() (int64, error) {
	if kind := c.stmt.ColumnType(c.at); kind != sqlite3.INTEGER {
		return 0, fmt.Errorf("column holds %s, not an integer", kind)
	}
	return c.stmt.ColumnInt64(c.at), nil
}

func (c sqliteColumn) boolean() (bool, error) {
	value, err := c.integer()
	return value != 0, err
}

func (c sqliteColumn) float() (float64, error) {
	switch c.stmt.ColumnType(c.at) {
	case sqlite3.FLOAT, sqlite3.INTEGER:
		return c.stmt.ColumnFloat(c.at), nil
	default:
		return 0, errors.New("column holds no number")
	}
}
