package eventlog

import (
	"fmt"
	"time"

	"github.com/cairnsync/cairn/internal/storage"
)

// redaction is handed to the last step between the events of a transaction: those before it about the
// resource lose their content.
type redaction struct {
	resourceID string
	deletedAt  time.Time
}

// Redact takes the content out of every event about a message or file: those in the log, and those that this
// transaction has emitted so far, also for other functions of its batch, and not written yet.
func (l *Log) Redact(tx storage.Tx, resourceID string, deletedAt time.Time) error {
	if err := Redact(tx, resourceID, deletedAt); err != nil {
		return err
	}
	if err := tx.Finally(l.last, redaction{resourceID, deletedAt}); err != nil {
		return fmt.Errorf("redact events of this transaction: %w", err)
	}
	return nil
}

// settle answers copies of the events among the items of the last step, without what was redacted meanwhile:
// a rerun must not see what this run made of them.
func settle(items []any) ([]*Record, error) {
	records := make([]*Record, 0, len(items))
	for _, item := range items {
		switch item := item.(type) {
		case *Record:
			copied := *item
			records = append(records, &copied)
		case redaction:
			if err := item.apply(records); err != nil {
				return nil, err
			}
		}
	}
	return records, nil
}

func (r redaction) apply(records []*Record) error {
	for i, record := range records {
		if record.Resource.ID != r.resourceID || record.Redacted || TypeOf(record.Type).Redact == nil {
			continue
		}
		redacted, err := Redacted(record, r.deletedAt)
		if err != nil {
			return err
		}
		records[i] = redacted
	}
	return nil
}
