package eventlog

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/cairnsync/cairn/internal/service"
	"github.com/cairnsync/cairn/internal/storage"
)

// retentionBatch is how many events one transaction removes.
const retentionBatch = 1000

// Trim removes up to one batch of events older than keep (sync.event_retention) from the beginning of the
// log and answers how many it removed. min_retained_seq moves in the same transaction (ES-7.3).
func Trim(tx storage.Tx, keep time.Duration) (int64, error) {
	var from, upTo int64
	// Locked, so that the beginning never steps back when two nodes trim at once.
	if _, err := tx.Get(`SELECT min_retained_seq FROM instance FOR NO KEY UPDATE`, nil, &from); err != nil {
		return 0, fmt.Errorf("read beginning of the log: %w", err)
	}
	// Times do not order the log: the first event that is young enough keeps everything after it.
	_, err := tx.Get(
		`SELECT coalesce(min(CASE WHEN occurred_at >= $3 THEN seq END), max(seq) + 1, $1)
		   FROM (SELECT seq, occurred_at FROM event_log WHERE seq >= $1 ORDER BY seq LIMIT $2) oldest`,
		[]any{from, retentionBatch, tx.Now().Add(-keep)}, &upTo)
	if err != nil {
		return 0, fmt.Errorf("find old events: %w", err)
	}
	if upTo <= from {
		return 0, nil
	}
	steps := []struct {
		query string
		args  []any
	}{
		{`UPDATE instance SET min_retained_seq = $1`, []any{upTo}},
		{`DELETE FROM event_log WHERE seq < $1`, []any{upTo}},
		{`DELETE FROM thread_moves WHERE seq < $1`, []any{upTo}},
	}
	for _, step := range steps {
		if err := tx.Exec(step.query, step.args...); err != nil {
			return 0, fmt.Errorf("remove old events: %w", err)
		}
	}
	return upTo - from, nil
}

// RetentionOptions are what the retention needs.
type RetentionOptions struct {
	DB  storage.DB
	Log *slog.Logger
	// Keep is sync.event_retention.
	Keep time.Duration
}

// Bounds of how often the log is trimmed: a tenth of the time that events are kept, within these.
const (
	leastTrimInterval = 100 * time.Millisecond
	mostTrimInterval  = time.Minute
)

// NewRetention makes the service that removes events older than sync.event_retention.
func NewRetention(options RetentionOptions) service.Service {
	interval := min(max(options.Keep/10, leastTrimInterval), mostTrimInterval)
	return service.Every(interval, func(ctx context.Context) {
		if err := TrimAll(ctx, options.DB, options.Keep); err != nil && ctx.Err() == nil {
			options.Log.Warn("remove old events", "error", err)
		}
	})
}

// TrimAll trims batch after batch until nothing is old enough.
func TrimAll(ctx context.Context, db storage.DB, keep time.Duration) error {
	for {
		removed, err := storage.Write(ctx, db, nil, func(tx storage.Tx) (int64, error) { return Trim(tx, keep) })
		if err != nil {
			return fmt.Errorf("trim the event log: %w", err)
		}
		if removed == 0 {
			return nil
		}
	}
}
