package files

import (
	"encoding/json"
	"fmt"
	"strings"

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
	gone := wire.File{
		ID: file.ID, UploadedBy: file.UploadedBy, Purpose: file.Purpose, UploadState: file.UploadState, ScanStatus: file.ScanStatus,
		TranscriptStatus: file.TranscriptStatus, MimeType: "application/octet-stream", Thumbnails: []json.RawMessage{},
		CreatedAt: file.CreatedAt, DeletedAt: &now, Version: file.Version + 1,
	}
	err := tx.Exec(
		`UPDATE files SET original_name = '', size_bytes = 0, mime_type = $2, sha256 = NULL, thumbnails = NULL, deleted_at = $3, version = $4
		  WHERE id = $1`, gone.ID, gone.MimeType, now, gone.Version)
	if err != nil {
		return fmt.Errorf("delete file: %w", err)
	}
	if err := s.Log.Redact(tx, file.ID, now); err != nil {
		return err
	}
	if err := s.scrub(tx, gone); err != nil {
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

// scrub takes a deleted file out of the events of the messages that hold it: they carry its name. Those of
// messages in the same batch are not in the log yet.
func (s *Service) scrub(tx storage.Tx, gone wire.File) error {
	err := s.Log.Amend(tx, func(record *eventlog.Record) (*eventlog.Record, error) {
		if !strings.HasPrefix(record.Type, "message.") || record.Redacted {
			return record, nil
		}
		payload, changed, err := without(record.Payload, gone)
		if err != nil || !changed {
			return record, err
		}
		amended := *record
		amended.Payload = payload
		return &amended, nil
	})
	if err != nil {
		return err
	}
	type told struct {
		seq     int64
		payload []byte
	}
	var events []told
	err = tx.Query(
		`SELECT seq, type, payload FROM event_log
		  WHERE resource_id IN (SELECT message_id FROM message_files WHERE file_id = $1) AND resource_kind IN ('message', 'file') AND NOT redacted`,
		[]any{gone.ID}, func(row storage.Row) error {
			var e told
			var kind string
			err := row.Scan(&e.seq, &kind, &e.payload)
			if strings.HasPrefix(kind, "message.") {
				events = append(events, e)
			}
			return err
		})
	if err != nil {
		return fmt.Errorf("read events of messages: %w", err)
	}
	for _, event := range events {
		payload, changed, err := without(event.payload, gone)
		if err != nil {
			return fmt.Errorf("event %d: %w", event.seq, err)
		}
		if !changed {
			continue
		}
		if err := tx.Exec(`UPDATE event_log SET payload = $2 WHERE seq = $1`, event.seq, payload); err != nil {
			return fmt.Errorf("scrub event %d: %w", event.seq, err)
		}
	}
	return nil
}

func without(payload []byte, gone wire.File) (encoded []byte, changed bool, err error) {
	var event wire.MessageEvent
	if err := json.Unmarshal(payload, &event); err != nil {
		return nil, false, fmt.Errorf("decode payload: %w", err)
	}
	for i := range event.Message.Attachments {
		if event.Message.Attachments[i].ID == gone.ID {
			event.Message.Attachments[i], changed = gone, true
		}
	}
	if encoded, err = json.Marshal(event); err != nil {
		return nil, false, fmt.Errorf("encode payload: %w", err)
	}
	return encoded, changed, nil
}
