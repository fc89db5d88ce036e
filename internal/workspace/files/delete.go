package files

import (
	"fmt"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Released deletes files of a deleted message that no message holds any more, in the transaction of the
// deletion, which holds storage.LockFiles of each. Files that are deleted already stay so.
func (s *Service) Released(tx storage.Tx, by authz.Caller, ids []string) error {
	byID, err := Load(tx, ids)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if file, found := byID[id]; found && file.DeletedAt == nil {
			if err := s.delete(tx, by.Actor(), by.Correlation, file); err != nil {
				return err
			}
		}
	}
	return nil
}

// delete leaves of a file what tells nothing of its content (ES-2.2), in the row and in every event; the
// worker removes the bytes after the commit when nothing else has them.
func (s *Service) delete(tx storage.Tx, actor wire.Actor, correlation string, file wire.File) error {
	now := tx.Now()
	gone := eventlog.FileTombstone(file)
	gone.DeletedAt, gone.Version = &now, file.Version+1
	messages, err := messagesOf(tx, file.ID)
	if err != nil {
		return err
	}
	err = tx.Exec(
		`UPDATE files SET original_name = '', size_bytes = 0, mime_type = $2, sha256 = NULL, thumbnails = NULL, deleted_at = $3, version = $4
		  WHERE id = $1`, gone.ID, gone.MimeType, now, gone.Version)
	if err != nil {
		return fmt.Errorf("delete file: %w", err)
	}
	if err := s.Log.Redact(tx, file.ID, now); err != nil {
		return err
	}
	if err := s.Log.RemoveFile(tx, gone, messages); err != nil {
		return err
	}
	if err := s.unuse(tx, file.SHA256); err != nil {
		return err
	}
	return s.tell(tx, actor, correlation, gone)
}

// unuse has the worker look whether a content is still used.
func (s *Service) unuse(tx storage.Tx, sha256 string) error {
	if sha256 == "" {
		return nil
	}
	if err := tx.Exec(`UPDATE file_blobs SET unused_at = $2 WHERE sha256 = $1`, sha256, tx.Now()); err != nil {
		return fmt.Errorf("mark content: %w", err)
	}
	tx.AfterCommit(s.wake)
	return nil
}

// messagesOf are the messages that have a file.
func messagesOf(tx storage.Tx, fileID string) ([]string, error) {
	var ids []string
	err := tx.Query(`SELECT message_id FROM message_files WHERE file_id = $1`, []any{fileID}, func(row storage.Row) error {
		var id string
		err := row.Scan(&id)
		ids = append(ids, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read messages of file: %w", err)
	}
	return ids, nil
}
