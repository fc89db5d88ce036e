// Package localstore keeps what a client of the Workspace surface must not lose, and its copy of what the
// server knows, in one encrypted SQLite file: tokens, position, outbox and cache.
//
// Contract. What a method has stored when it returns survives the end of the process and of the machine
// (write-ahead log, synchronous). Several processes may have one file open; tokens are refreshed by one of
// them at a time. The file is encrypted at rest with AES-256-XTS, as disks are: who has the file without the
// key reads nothing, but may see which parts changed between two copies of it. Keys are kept beside it by
// workspace.FileKeys, or wherever the caller likes.
//
// Blocking. A method waits for other processes at most as long as its context lasts, and 10 seconds for their
// transactions. A Store is safe for concurrent use and owns no goroutine.
package localstore

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"
	_ "github.com/ncruces/go-sqlite3/vfs/xts" // the encrypted files

	"github.com/cairnsync/cairn/client/workspace"
)

const (
	fileName    = "workspace.db"
	busyTimeout = 10 * time.Second
	// lockPoll is how often somebody else's refresh is looked at.
	lockPoll = 20 * time.Millisecond
	// version of the schema, in user_version.
	version = 1
)

// ErrWrongKey says that the file was encrypted with another key, or is damaged.
var ErrWrongKey = errors.New("local store cannot be read with this key")

// ErrTooNew says that a later version of the program made the file.
var ErrTooNew = errors.New("local store is of a later version")

const schema = `
CREATE TABLE kept (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE copy (kind TEXT, id TEXT, parent TEXT NOT NULL, used_at INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (kind, id)) WITHOUT ROWID;
CREATE TABLE outbox (id TEXT PRIMARY KEY, place INTEGER NOT NULL, data BLOB NOT NULL) WITHOUT ROWID;
PRAGMA user_version = 1;`

// Store is a workspace.Store in a file.
type Store struct {
	path string
	key  []byte

	mu   sync.Mutex // guards conn
	conn *sqlite3.Conn
}

var _ workspace.Store = (*Store)(nil)

// OpenIn opens the store of a folder, with keys in files beside it; all of it is made when it is not there.
func OpenIn(dir string) (*Store, workspace.FileKeys, error) {
	keys := workspace.FileKeys{Dir: dir}
	key, err := keys.DataKey()
	if err != nil {
		return nil, keys, err
	}
	store, err := Open(filepath.Join(dir, fileName), key)
	return store, keys, err
}

// Open opens a store with a key of workspace.DataKeyBytes, which is made when it is not there. With another
// key than before it fails with ErrWrongKey.
func Open(path string, key []byte) (*Store, error) {
	if len(key) != workspace.DataKeyBytes {
		return nil, fmt.Errorf("open local store: the key has %d bytes, not %d", len(key), workspace.DataKeyBytes)
	}
	s := &Store{path: path, key: append([]byte(nil), key...)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.connect(); err != nil {
		return nil, err
	}
	return s, nil
}

// connect opens the file if it is not; the lock is held.
func (s *Store) connect() error {
	if s.conn != nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return fmt.Errorf("make folder of local store: %w", err)
	}
	file, err := os.OpenFile(s.path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("open local store: %w", err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("open local store: %w", err)
	}
	absolute, err := filepath.Abs(s.path)
	if err != nil {
		return fmt.Errorf("open local store: %w", err)
	}
	// A path such as C:/folder begins with a slash in a URI.
	name := url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(filepath.ToSlash(absolute), "/"), RawQuery: "vfs=xts"}
	conn, err := sqlite3.OpenFlags(name.String(), sqlite3.OPEN_READWRITE|sqlite3.OPEN_URI)
	if err != nil {
		return fmt.Errorf("open local store: %w", err)
	}
	if err := prepare(conn, s.key); err != nil {
		return errors.Join(err, conn.Close())
	}
	s.conn = conn
	for _, suffix := range []string{"-wal", "-shm"} {
		_ = os.Chmod(s.path+suffix, 0o600) // they are encrypted, or hold no content, and the folder is closed
	}
	return nil
}

// prepare gives a connection its key and the file its schema.
func prepare(conn *sqlite3.Conn, key []byte) error {
	if err := conn.BusyTimeout(busyTimeout); err != nil {
		return fmt.Errorf("set up local store: %w", err)
	}
	if err := conn.Exec("PRAGMA hexkey = '" + hex.EncodeToString(key) + "'"); err != nil {
		return fmt.Errorf("set key of local store: %w", err)
	}
	err := conn.Exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY; PRAGMA secure_delete = ON")
	if errors.Is(err, sqlite3.NOTADB) || errors.Is(err, sqlite3.IOERR) || errors.Is(err, sqlite3.CORRUPT) {
		return fmt.Errorf("%w: %w", ErrWrongKey, err)
	}
	if err != nil {
		return fmt.Errorf("set up local store: %w", err)
	}
	return migrate(conn)
}

func migrate(conn *sqlite3.Conn) (err error) {
	tx, err := conn.BeginImmediate()
	if err != nil {
		return fmt.Errorf("set up local store: %w", err)
	}
	defer tx.End(&err)
	var at int
	if err := query(conn, "PRAGMA user_version", nil, func(row *sqlite3.Stmt) error { at = row.ColumnInt(0); return nil }); err != nil {
		return fmt.Errorf("set up local store: %w", err)
	}
	switch {
	case at > version:
		return ErrTooNew
	case at == version:
		return nil
	}
	if err := conn.Exec(schema); err != nil {
		return fmt.Errorf("set up local store: %w", err)
	}
	return nil
}

// query runs a statement with arguments and hands its rows to each; nil for none.
func query(conn *sqlite3.Conn, text string, args []any, each func(*sqlite3.Stmt) error) error {
	stmt, _, err := conn.Prepare(text)
	if err != nil {
		return fmt.Errorf("prepare statement: %w", err)
	}
	defer func() { _ = stmt.Close() }()
	if err := bind(stmt, args); err != nil {
		return err
	}
	for stmt.Step() {
		if each == nil {
			continue
		}
		if err := each(stmt); err != nil {
			return err
		}
	}
	if err := stmt.Err(); err != nil {
		return fmt.Errorf("run statement: %w", err)
	}
	return nil
}

func bind(stmt *sqlite3.Stmt, args []any) error {
	for i, arg := range args {
		var err error
		switch value := arg.(type) {
		case string:
			err = stmt.BindText(i+1, value)
		case int64:
			err = stmt.BindInt64(i+1, value)
		case []byte:
			err = stmt.BindBlob(i+1, value)
		}
		if err != nil {
			return fmt.Errorf("bind argument %d: %w", i+1, err)
		}
	}
	return nil
}

// with runs a step on the connection, alone, until ctx ends.
func (s *Store) with(ctx context.Context, step func(*sqlite3.Conn) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.connect(); err != nil {
		return err
	}
	s.conn.SetInterrupt(ctx)
	defer s.conn.SetInterrupt(context.Background())
	return step(s.conn)
}

// change runs a step in a transaction.
func (s *Store) change(ctx context.Context, step func(*sqlite3.Conn) error) error {
	return s.with(ctx, func(conn *sqlite3.Conn) (err error) {
		tx, err := conn.BeginImmediate()
		if err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		defer tx.End(&err)
		return step(conn)
	})
}

const (
	putKept = "INSERT INTO kept (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
	putCopy = `INSERT INTO copy (kind, id, parent, used_at, data) VALUES (?1, ?2, ?3, ?4, ?5)
		ON CONFLICT (kind, id) DO UPDATE SET parent = excluded.parent, used_at = excluded.used_at, data = excluded.data`
	putEntry = "INSERT INTO outbox (id, place, data) VALUES (?1, ?2, ?3) ON CONFLICT (id) DO UPDATE SET place = excluded.place, data = excluded.data"
)

func keep(conn *sqlite3.Conn, name string, value any) error {
	encoded, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return query(conn, putKept, []any{name, encoded}, nil)
}

// kept reads a value and reports whether there is one.
func kept(conn *sqlite3.Conn, name string, into any) (bool, error) {
	found := false
	err := query(conn, "SELECT value FROM kept WHERE name = ?1", []any{name}, func(row *sqlite3.Stmt) error {
		found = true
		if err := json.Unmarshal(row.ColumnRawBlob(0), into); err != nil {
			return fmt.Errorf("decode %s: %w", name, err)
		}
		return nil
	})
	return found, err
}

// LoadTokens answers what was saved last, nil for nothing.
func (s *Store) LoadTokens(ctx context.Context) (*workspace.Tokens, error) {
	var tokens workspace.Tokens
	found := false
	err := s.with(ctx, func(conn *sqlite3.Conn) (err error) {
		found, err = kept(conn, "tokens", &tokens)
		return err
	})
	if err != nil || !found {
		return nil, err
	}
	return &tokens, nil
}

// SaveTokens keeps tokens durably; nil removes them.
func (s *Store) SaveTokens(ctx context.Context, tokens *workspace.Tokens) error {
	return s.change(ctx, func(conn *sqlite3.Conn) error {
		if tokens == nil {
			return query(conn, "DELETE FROM kept WHERE name = 'tokens'", nil, nil)
		}
		return keep(conn, "tokens", tokens)
	})
}

// LockTokens waits until nobody else refreshes, also in another process. The lock is the exclusive lock of
// an empty database beside the store: the system lets go of it when the process ends, however that ends.
func (s *Store) LockTokens(ctx context.Context) (func(), error) {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return nil, fmt.Errorf("make folder of local store: %w", err)
	}
	conn, err := sqlite3.OpenFlags(s.path+".lock", sqlite3.OPEN_READWRITE|sqlite3.OPEN_CREATE)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	for {
		err := conn.Exec("BEGIN EXCLUSIVE")
		if err == nil {
			return func() { _ = conn.Close() }, nil // which rolls back
		}
		if !errors.Is(err, sqlite3.BUSY) {
			return nil, errors.Join(fmt.Errorf("take lock: %w", err), conn.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), conn.Close())
		case <-time.After(lockPoll):
		}
	}
}

// Erase deletes the files. A later use makes them anew, with the same key.
func (s *Store) Erase(ctx context.Context) error {
	// What another process has open is emptied before it loses its name.
	emptied := s.change(ctx, func(conn *sqlite3.Conn) error {
		return conn.Exec("DELETE FROM kept; DELETE FROM copy; DELETE FROM outbox")
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		emptied = errors.Join(emptied, s.conn.Close())
		s.conn = nil
	}
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		if err := os.Remove(s.path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			emptied = errors.Join(emptied, fmt.Errorf("remove local store: %w", err))
		}
	}
	return emptied
}

// Close closes the file.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return nil
	}
	err := s.conn.Close()
	s.conn = nil
	if err != nil {
		return fmt.Errorf("close local store: %w", err)
	}
	return nil
}
