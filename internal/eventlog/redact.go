package eventlog

import (
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

// Redact takes the content out of every event about a message or file in the log, in the transaction that
// deletes it. It must run after the deletion's own rows were read: payloads of message types become
// tombstones with deletedAt.
func Redact(tx storage.Tx, resourceID string, deletedAt time.Time) error {
	type found struct {
		seq     int64
		kind    string
		payload []byte
	}
	var events []found
	err := tx.Query(
		`SELECT seq, type, payload FROM event_log
		  WHERE resource_id = $1 AND resource_kind IN ('message', 'file') AND NOT redacted ORDER BY seq`,
		[]any{resourceID}, func(row storage.Row) error {
			var f found
			err := row.Scan(&f.seq, &f.kind, &f.payload)
			events = append(events, f)
			return err
		})
	if err != nil {
		return fmt.Errorf("read events to redact: %w", err)
	}
	for _, event := range events {
		t := TypeOf(event.kind)
		if t == nil || t.Redact == nil {
			return fmt.Errorf("redact event %d: type %s has no redaction", event.seq, event.kind)
		}
		payload, err := t.Redact(event.payload)
		if err != nil {
			return fmt.Errorf("redact event %d: %w", event.seq, err)
		}
		if payload, err = stampDeleted(payload, deletedAt); err != nil {
			return fmt.Errorf("redact event %d: %w", event.seq, err)
		}
		err = tx.Exec(`UPDATE event_log SET payload = $2, redacted = TRUE, truncated = FALSE WHERE seq = $1`, event.seq, payload)
		if err != nil {
			return fmt.Errorf("redact event %d: %w", event.seq, err)
		}
	}
	return nil
}

// stampDeleted puts the time of the deletion into a redacted message.
func stampDeleted(payload []byte, at time.Time) ([]byte, error) {
	var event wire.MessageEvent
	if err := json.Unmarshal(payload, &event); err != nil || event.Message.ID == "" || event.Message.DeletedAt == nil {
		return payload, nil //nolint:nilerr // another shape: nothing to stamp
	}
	if event.Message.DeletedAt.IsZero() {
		event.Message.DeletedAt = &at
	}
	return encode(event)
}

func redactMessage(payload []byte) ([]byte, error) {
	return rewrite(payload, func(e *wire.MessageEvent) { e.Message = Tombstone(e.Message, time.Time{}) })
}

func redactReaction(payload []byte) ([]byte, error) {
	return rewrite(payload, func(e *wire.ReactionEvent) { e.Emoji, e.Count = "", 0 })
}

// redactFile keeps what ES-2.2 lists and nothing else.
func redactFile(payload []byte) ([]byte, error) {
	return rewrite(payload, func(e *wire.FileEvent) {
		f := e.File
		e.File = wire.File{
			ID: f.ID, UploadedBy: f.UploadedBy, Purpose: f.Purpose, UploadState: f.UploadState, ScanStatus: f.ScanStatus,
			TranscriptStatus: f.TranscriptStatus, MimeType: "application/octet-stream", Thumbnails: []json.RawMessage{},
			CreatedAt: f.CreatedAt, Version: f.Version,
		}
	})
}

func unchanged(payload []byte) ([]byte, error) { return payload, nil }

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
