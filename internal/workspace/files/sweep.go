package files

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// content is a row of contents.
type content struct{ sha256, name string }

// removeUnused removes contents that no file has any more: the row first, then the bytes.
func (s *Service) removeUnused(ctx context.Context) error {
	for ctx.Err() == nil {
		marked, err := storage.Read(ctx, s.DB, func(tx storage.Tx) ([]content, error) {
			return contents(tx, `SELECT sha256, name FROM file_blobs WHERE unused_at IS NOT NULL ORDER BY unused_at LIMIT $1`, step)
		})
		if err != nil || len(marked) == 0 {
			return err
		}
		for _, c := range marked {
			if err := s.removeContent(ctx, c.sha256); err != nil {
				return err
			}
		}
	}
	return nil
}

func contents(tx storage.Tx, query string, args ...any) ([]content, error) {
	var all []content
	err := tx.Query(query, args, func(row storage.Row) error {
		var c content
		err := row.Scan(&c.sha256, &c.name)
		all = append(all, c)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read contents: %w", err)
	}
	return all, nil
}

// removeContent decides under the content's lock, which whoever completes an upload of it holds too.
func (s *Service) removeContent(ctx context.Context, sha256 string) error {
	keys := []storage.Key{{Lock: storage.LockBlobs, ID: sha256}}
	return s.DB.Write(ctx, keys, func(tx storage.Tx) error {
		used, err := tx.Get(`SELECT 1 FROM files WHERE sha256 = $1 AND deleted_at IS NULL LIMIT 1`, []any{sha256}, new(int64))
		if err != nil {
			return fmt.Errorf("ask who uses a content: %w", err)
		}
		if used {
			if err := tx.Exec(`UPDATE file_blobs SET unused_at = NULL WHERE sha256 = $1`, sha256); err != nil {
				return fmt.Errorf("keep content: %w", err)
			}
			return nil
		}
		var name string
		found, err := tx.Get(`DELETE FROM file_blobs WHERE sha256 = $1 AND unused_at IS NOT NULL RETURNING name`, []any{sha256}, &name)
		if err != nil {
			return fmt.Errorf("remove content: %w", err)
		}
		if found {
			s.forget(tx, name)
		}
		return nil
	})
}

// Sweep deletes uploads that were abandoned and files that were never used, and removes what a crash left
// in the folder.
func (s *Service) Sweep(ctx context.Context) error {
	return errors.Join(s.abandon(ctx), s.sweepFolder(ctx))
}

// abandonedQuery finds files that no message holds: announced too long ago and not complete, or complete,
// used by no message for long, and in no draft of who uploaded it.
const abandonedQuery = `SELECT ` + columns + ` FROM files f
	WHERE f.deleted_at IS NULL AND f.created_at < $1 AND f.id > $3
	  AND (f.upload_state = 'pending' OR f.created_at < $2
	       AND NOT EXISTS (SELECT 1 FROM drafts d WHERE d.principal_id = f.uploaded_by AND d.file_ids LIKE '%' || f.id || '%'))
	  AND NOT EXISTS (SELECT 1 FROM message_files h WHERE h.file_id = f.id)
	ORDER BY f.id LIMIT $4`

func (s *Service) abandon(ctx context.Context) error {
	for after := ""; ctx.Err() == nil; {
		found, err := storage.Read(ctx, s.DB, func(tx storage.Tx) ([]wire.File, error) {
			now := tx.Now()
			return read(tx, abandonedQuery, now.Add(-AbandonedAfter), now.Add(-UnusedAfter), after, step)
		})
		if err != nil || len(found) == 0 {
			return err
		}
		for _, file := range found {
			if err := s.abandonOne(ctx, file.ID, file.Version); err != nil {
				return err
			}
		}
		after = found[len(found)-1].ID
	}
	return nil
}

// abandonOne deletes a file that is still as it was found: a message that takes it meanwhile holds its lock.
func (s *Service) abandonOne(ctx context.Context, id string, version int64) error {
	return s.DB.Write(ctx, lockFile(id), func(tx storage.Tx) error {
		file, found, err := fileOf(tx, id)
		if err != nil || !found || file.DeletedAt != nil || file.Version != version {
			return err
		}
		held, err := tx.Get(`SELECT 1 FROM message_files WHERE file_id = $1 LIMIT 1`, []any{id}, new(int64))
		if err != nil {
			return fmt.Errorf("ask who holds a file: %w", err)
		}
		if held {
			return nil
		}
		return s.delete(tx, wire.Actor{Kind: wire.KindSystem}, "", file)
	})
}

// sweepFolder removes old names that no row knows.
func (s *Service) sweepFolder(ctx context.Context) error {
	return s.store.strays(func(names []string) error {
		known, err := storage.Read(ctx, s.DB, func(tx storage.Tx) ([]content, error) {
			return contents(tx, `SELECT sha256, name FROM file_blobs WHERE name = ANY($1)`, names)
		})
		if err != nil {
			return err
		}
		kept := make(map[string]bool, len(known))
		for _, c := range known {
			kept[c.name] = true
		}
		for _, name := range names {
			if kept[name] {
				continue
			}
			if err := s.store.remove(name); err != nil {
				return err
			}
			s.Logger.Info("removed what was left in the folder of files", "name", shortened(name))
		}
		return nil
	})
}

func shortened(name string) string {
	const shown = 20
	return strings.TrimSpace(name[:min(len(name), shown)])
}
