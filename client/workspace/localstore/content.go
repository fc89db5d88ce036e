package localstore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/cairnsync/cairn/client/workspace"
)

// LoadCopy answers the position and every record.
func (s *Store) LoadCopy(ctx context.Context) (workspace.Position, []workspace.Record, error) {
	var at workspace.Position
	var records []workspace.Record
	err := s.with(ctx, func(conn *sqlite3.Conn) error {
		if _, err := kept(conn, "position", &at); err != nil {
			return err
		}
		return query(conn, "SELECT kind, id, parent, used_at, data FROM copy", nil, func(row *sqlite3.Stmt) error {
			record := workspace.Record{
				Kind: row.ColumnText(0), ID: row.ColumnText(1), Parent: row.ColumnText(2), Data: row.ColumnBlob(4, nil),
			}
			if used := row.ColumnInt64(3); used != 0 {
				record.UsedAt = time.UnixMilli(used).UTC()
			}
			records = append(records, record)
			return nil
		})
	})
	return at, records, err
}

// Commit stores a position and the records that changed until there, both or neither.
func (s *Store) Commit(ctx context.Context, at workspace.Position, changed []workspace.Record) error {
	return s.change(ctx, func(conn *sqlite3.Conn) error {
		for _, record := range changed {
			if err := put(conn, record); err != nil {
				return err
			}
		}
		return keep(conn, "position", at)
	})
}

func put(conn *sqlite3.Conn, record workspace.Record) error {
	if record.Data == nil {
		return query(conn, "DELETE FROM copy WHERE kind = ?1 AND id = ?2", []any{record.Kind, record.ID}, nil)
	}
	used := int64(0)
	if !record.UsedAt.IsZero() {
		used = record.UsedAt.UnixMilli()
	}
	return query(conn, putCopy, []any{record.Kind, record.ID, record.Parent, used, record.Data}, nil)
}

// Discard removes position and records, and leaves outbox and tokens.
func (s *Store) Discard(ctx context.Context) error {
	return s.change(ctx, func(conn *sqlite3.Conn) error {
		return conn.Exec("DELETE FROM copy; DELETE FROM kept WHERE name = 'position'")
	})
}

// LoadEntries answers the outbox in its order.
func (s *Store) LoadEntries(ctx context.Context) ([]workspace.Entry, error) {
	var entries []workspace.Entry
	err := s.with(ctx, func(conn *sqlite3.Conn) error {
		return query(conn, "SELECT data FROM outbox ORDER BY place", nil, func(row *sqlite3.Stmt) error {
			var entry workspace.Entry
			if err := json.Unmarshal(row.ColumnRawBlob(0), &entry); err != nil {
				return fmt.Errorf("decode outbox: %w", err)
			}
			entries = append(entries, entry)
			return nil
		})
	})
	return entries, err
}

// PutEntries stores entries and removes others, all or nothing.
func (s *Store) PutEntries(ctx context.Context, putting []workspace.Entry, remove []string) error {
	return s.change(ctx, func(conn *sqlite3.Conn) error {
		for _, entry := range putting {
			encoded, err := json.Marshal(entry)
			if err != nil {
				return fmt.Errorf("encode outbox: %w", err)
			}
			if err := query(conn, putEntry, []any{entry.ID, entry.Place, encoded}, nil); err != nil {
				return err
			}
		}
		for _, id := range remove {
			if err := query(conn, "DELETE FROM outbox WHERE id = ?1", []any{id}, nil); err != nil {
				return err
			}
		}
		return nil
	})
}
