package eventlog

import (
	"fmt"
	"time"

	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// amendment is handed to the last step between the events of a transaction: it is applied to those before it.
type amendment func(record *Record) (*Record, error)

// Redact takes the content out of every event about a message or file: those in the log, and those that this
// transaction has emitted so far, also for other functions of its batch, and not written yet.
func (l *Log) Redact(tx storage.Tx, resourceID string, deletedAt time.Time) error {
	if err := Redact(tx, resourceID, deletedAt); err != nil {
		return err
	}
	return l.Amend(tx, func(record *Record) (*Record, error) {
		if record.Resource.ID != resourceID || record.Redacted || TypeOf(record.Type).Redact == nil {
			return record, nil
		}
		return Redacted(record, deletedAt)
	})
}

// RemoveFile leaves of a deleted file what gone says in every event of the messages that hold it, in the log and in this
// transaction as Redact does: their attachments carry its name.
func (l *Log) RemoveFile(tx storage.Tx, gone wire.File, messageIDs []string) error {
	if err := removeFile(tx, gone, messageIDs); err != nil {
		return err
	}
	return l.Amend(tx, func(record *Record) (*Record, error) {
		without, _, err := WithoutFile(record, gone)
		return without, err
	})
}

// Amend applies change to the events that this transaction has emitted so far, also for other functions of its
// batch: they are not in the log yet, where somebody who takes content out of it could find them. change
// answers the record itself or another in its place; it does not change it, and must not fail for events that are well-formed.
func (l *Log) Amend(tx storage.Tx, change func(record *Record) (*Record, error)) error {
	if err := tx.Finally(l.last, amendment(change)); err != nil {
		return fmt.Errorf("amend events of this transaction: %w", err)
	}
	return nil
}

// settle answers copies of the events among the items of the last step, as they were amended meanwhile:
// a rerun must not see what this run made of them.
func settle(items []any) ([]*Record, error) {
	records := make([]*Record, 0, len(items))
	for _, item := range items {
		switch item := item.(type) {
		case *Record:
			copied := *item
			records = append(records, &copied)
		case amendment:
			for i := range records {
				var err error
				if records[i], err = item(records[i]); err != nil {
					return nil, err
				}
			}
		}
	}
	return records, nil
}
