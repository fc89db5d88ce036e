package eventlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Tombstone answers what is left of a message that was deleted: no content, empty lists (ES-2.2).
func Tombstone(m wire.Message, deletedAt time.Time) wire.Message {
	m.ContentMD, m.Pinned = "", false
	m.Attachments, m.MentionIDs = []wire.File{}, []string{}
	m.Components, m.Reactions = []json.RawMessage{}, []wire.Reaction{}
	if m.DeletedAt == nil {
		m.DeletedAt = &deletedAt
	}
	return m
}

// FileTombstone answers what is left of a file that was deleted: what ES-2.2 lists, with the members that a file always
// has, and nothing else.
func FileTombstone(f wire.File) wire.File {
	return wire.File{
		ID: f.ID, UploadedBy: f.UploadedBy, Purpose: f.Purpose, UploadState: f.UploadState, ScanStatus: f.ScanStatus,
		TranscriptStatus: f.TranscriptStatus, MimeType: "application/octet-stream", Thumbnails: []json.RawMessage{},
		CreatedAt: f.CreatedAt, Version: f.Version,
	}
}

// Redact takes the content out of every event about a message or file in the log, in the transaction that
// deletes it (ES-2.2). Payloads of message types become tombstones with deletedAt. It touches the log only:
// the event that tells of the deletion is emitted as a tombstone already.
func Redact(tx storage.Tx, resourceID string, deletedAt time.Time) error {
	found, err := contentOf(tx, []string{resourceID})
	if err != nil {
		return err
	}
	for _, record := range found {
		redacted, err := Redacted(record, deletedAt)
		if err != nil {
			return err
		}
		err = tx.Exec(`UPDATE event_log SET payload = $2, redacted = TRUE, truncated = FALSE WHERE seq = $1`, record.Seq, []byte(redacted.Payload))
		if err != nil {
			return fmt.Errorf("redact event %d: %w", record.Seq, err)
		}
	}
	return nil
}

// contentOf reads what the log tells of messages and files, as far as it is not redacted.
func contentOf(tx storage.Tx, resourceIDs []string) ([]*Record, error) {
	var found []*Record
	err := tx.Query(
		`SELECT seq, type, payload FROM event_log
		  WHERE resource_id = ANY($1) AND resource_kind IN ('message', 'file') AND NOT redacted ORDER BY seq`,
		[]any{resourceIDs}, func(row storage.Row) error {
			var r Record
			err := row.Scan(&r.Seq, &r.Type, (*[]byte)(&r.Payload))
			found = append(found, &r)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("read events with content: %w", err)
	}
	return found, nil
}

func removeFile(tx storage.Tx, gone wire.File, messageIDs []string) error {
	if len(messageIDs) == 0 {
		return nil
	}
	found, err := contentOf(tx, messageIDs)
	if err != nil {
		return err
	}
	for _, record := range found {
		without, changed, err := WithoutFile(record, gone)
		if err != nil {
			return err
		}
		if !changed {
			continue
		}
		if err := tx.Exec(`UPDATE event_log SET payload = $2 WHERE seq = $1`, record.Seq, []byte(without.Payload)); err != nil {
			return fmt.Errorf("take file out of event %d: %w", record.Seq, err)
		}
	}
	return nil
}

// Redacted answers a record as Redact leaves it in the log, for those who hold it in memory. It changes nothing.
func Redacted(record *Record, deletedAt time.Time) (*Record, error) {
	t := TypeOf(record.Type)
	if t == nil || t.Redact == nil {
		return nil, fmt.Errorf("redact event %d: type %s has no redaction", record.Seq, record.Type)
	}
	payload, err := t.Redact(record.Payload, deletedAt)
	if err != nil {
		return nil, fmt.Errorf("redact event %d: %w", record.Seq, err)
	}
	redacted := *record
	redacted.Payload, redacted.Redacted, redacted.Truncated = payload, true, false
	return &redacted, nil
}

// WithoutFile answers an event of a message with what is left of a deleted file in place of what its attachments told of
// it, as the log has it then, and whether there was anything. It changes nothing.
func WithoutFile(record *Record, gone wire.File) (without *Record, changed bool, err error) {
	t := TypeOf(record.Type)
	if t == nil || t.Payload != of[wire.MessageEvent]() || record.Redacted || !bytes.Contains(record.Payload, []byte(gone.ID)) {
		return record, false, nil
	}
	payload, err := rewrite(record.Payload, func(e *wire.MessageEvent) {
		for i := range e.Message.Attachments {
			if file := &e.Message.Attachments[i]; file.ID == gone.ID && file.DeletedAt == nil {
				*file, changed = gone, true
			}
		}
	})
	if err != nil {
		return nil, false, fmt.Errorf("take file out of event %d: %w", record.Seq, err)
	}
	if !changed {
		return record, false, nil
	}
	amended := *record
	amended.Payload = payload
	return &amended, true, nil
}

func redactMessage(payload []byte, deletedAt time.Time) ([]byte, error) {
	return rewrite(payload, func(e *wire.MessageEvent) { e.Message = Tombstone(e.Message, deletedAt) })
}

func redactReaction(payload []byte, _ time.Time) ([]byte, error) {
	return rewrite(payload, func(e *wire.ReactionEvent) { e.Emoji, e.Count = "", 0 })
}

func redactFile(payload []byte, _ time.Time) ([]byte, error) {
	return rewrite(payload, func(e *wire.FileEvent) { e.File = FileTombstone(e.File) })
}

func unchanged(payload []byte, _ time.Time) ([]byte, error) { return payload, nil }

func rewrite[T any](payload []byte, change func(*T)) ([]byte, error) {
	var event T
	if err := json.Unmarshal(payload, &event); err != nil {
		return nil, fmt.Errorf("decode payload: %w", err)
	}
	change(&event)
	return encode(event)
}

func encode(payload any) ([]byte, error) {
	encoded, err := json.Marshal(payload)
	if err != nil {
		return nil, fmt.Errorf("encode payload: %w", err)
	}
	return encoded, nil
}
