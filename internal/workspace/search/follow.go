package search

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// maxBatch is how many messages one batch of an import has at most.
const maxBatch = 500

// change is an event that the index follows.
type change struct {
	seq      int64
	kind     string
	resource string
	payload  []byte // of thread.* only
}

// round indexes what the next events are about, and moves the cursor behind them.
func (x *Indexer) round(ctx context.Context, at position) error {
	changes, err := storage.Read(ctx, x.DB, func(tx storage.Tx) ([]change, error) { return readChanges(tx, at.cursor) })
	if err != nil || len(changes) == 0 {
		return err
	}
	upTo, seen := at.cursor, map[string]bool{}
	var messages []string
	for _, c := range changes {
		switch c.kind {
		case eventlog.MessageCreated, eventlog.MessageUpdated, eventlog.MessageDeleted:
			if !seen[c.resource] {
				seen[c.resource] = true
				messages = append(messages, c.resource)
			}
		case eventlog.ThreadMoved, eventlog.ThreadCreated, eventlog.ThreadUpdated:
			// What is read now is at least as new as the event; its transactions come before the cursor moves.
			if err := x.thread(ctx, c); err != nil {
				return err
			}
		}
		upTo = c.seq
		if len(messages) == maxMessages {
			break
		}
	}
	return x.advance(ctx, at.cursor, upTo, messages)
}

func readChanges(tx storage.Tx, after int64) ([]change, error) {
	var all []change
	err := tx.Query(
		`SELECT seq, type, resource_id, CASE WHEN resource_kind = 'thread' THEN payload ELSE '' END FROM event_log WHERE seq > $1 ORDER BY seq LIMIT $2`,
		[]any{after, maxEvents}, func(row storage.Row) error {
			var c change
			err := row.Scan(&c.seq, &c.kind, &c.resource, &c.payload)
			all = append(all, c)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("read events to index: %w", err)
	}
	return all, nil
}

// advance indexes messages and moves the cursor, both or neither.
func (x *Indexer) advance(ctx context.Context, from, upTo int64, messages []string) error {
	return x.DB.Write(ctx, nil, func(tx storage.Tx) error {
		at, err := hold(tx)
		if err != nil {
			return err
		}
		if at != from {
			return errOvertaken
		}
		if err := tx.Exec(`UPDATE event_consumer_cursors SET last_seq = $2 WHERE consumer = $1`, consumer, upTo); err != nil {
			return fmt.Errorf("move cursor of the search index: %w", err)
		}
		return x.write(tx, messages)
	})
}

// hold locks the cursor, which whoever writes into the index does, and answers where it is. It does not wait:
// while another node holds it, that one goes on, and the writes that share this transaction must not wait.
func hold(tx storage.Tx) (int64, error) {
	var at int64
	free, err := tx.Get(`SELECT last_seq FROM event_consumer_cursors WHERE consumer = $1 FOR NO KEY UPDATE SKIP LOCKED`, []any{consumer}, &at)
	if err != nil {
		return 0, fmt.Errorf("lock the search index: %w", err)
	}
	if !free {
		return 0, errOvertaken
	}
	return at, nil
}

// thread indexes messages that no events of their own tell of: all of a thread that moved, and those of the
// batch that an import wrote into one (ES-15.8).
func (x *Indexer) thread(ctx context.Context, c change) error {
	var event wire.ThreadEvent
	if err := json.Unmarshal(c.payload, &event); err != nil {
		return fmt.Errorf("decode event %d: %w", c.seq, err)
	}
	last := event.Thread.LastMessageSeq
	if c.kind == eventlog.ThreadMoved {
		return x.spans(ctx, c.resource, 0, last, true)
	}
	return x.spans(ctx, c.resource, max(0, last-maxBatch), last, false)
}

// spans indexes the messages of a thread between two numbers; unless all, only imported ones that are not in
// the index yet.
func (x *Indexer) spans(ctx context.Context, threadID string, from, upTo int64, all bool) error {
	for ; from < upTo; from += maxMessages {
		ids, err := storage.Read(ctx, x.DB, func(tx storage.Tx) ([]string, error) {
			return idsOf(tx,
				`SELECT m.id FROM messages m WHERE m.thread_id = $1 AND m.thread_seq > $2 AND m.thread_seq <= $3 AND m.deleted_at IS NULL
				    AND ($4 OR m.origin = 'import' AND NOT EXISTS (SELECT 1 FROM search_docs d WHERE d.message_id = m.id))
				  ORDER BY m.thread_seq`, threadID, from, min(from+maxMessages, upTo), all)
		})
		if err != nil {
			return err
		}
		if err := x.writeAlone(ctx, ids); err != nil {
			return err
		}
	}
	return nil
}

// writeAlone indexes messages in a transaction that leaves the cursor where it is.
func (x *Indexer) writeAlone(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	return x.DB.Write(ctx, nil, func(tx storage.Tx) error {
		if _, err := hold(tx); err != nil {
			return err
		}
		return x.write(tx, ids)
	})
}

func idsOf(tx storage.Tx, query string, args ...any) ([]string, error) {
	var ids []string
	err := tx.Query(query, args, func(row storage.Row) error {
		var id string
		err := row.Scan(&id)
		ids = append(ids, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read messages to index: %w", err)
	}
	return ids, nil
}

// rebuild looks at every message once: the log does not tell everything that happened. It begins where the
// log ends now, so that what happens meanwhile is followed after it.
func (x *Indexer) rebuild(ctx context.Context, at position) error {
	if !at.known || at.cursor > at.Head || at.cursor < at.MinRetained-1 || !at.begun {
		if err := x.DB.Write(ctx, nil, begin); err != nil {
			return err
		}
	}
	x.Logger.Info("build the search index")
	for after := ""; ; {
		ids, err := storage.Read(ctx, x.DB, func(tx storage.Tx) ([]string, error) {
			return idsOf(tx, `SELECT id FROM messages WHERE id > $1 AND deleted_at IS NULL ORDER BY id LIMIT $2`, after, maxMessages)
		})
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			break
		}
		if err := x.writeAlone(ctx, ids); err != nil {
			return err
		}
		after = ids[len(ids)-1]
	}
	if err := x.removeGone(ctx); err != nil {
		return err
	}
	return x.DB.Write(ctx, nil, func(tx storage.Tx) error {
		if err := tx.Exec(`UPDATE search_state SET complete = TRUE WHERE sync_epoch = $1`, at.SyncEpoch); err != nil {
			return fmt.Errorf("complete the search index: %w", err)
		}
		return nil
	})
}

// begin puts the cursor to the end of the log and forgets what was complete.
func begin(tx storage.Tx) error {
	state, err := eventlog.StateOf(tx)
	if err != nil {
		return err
	}
	steps := []struct {
		query string
		args  []any
	}{
		{`INSERT INTO event_consumer_cursors (consumer, last_seq) VALUES ($1, $2) ON CONFLICT (consumer) DO UPDATE SET last_seq = excluded.last_seq`,
			[]any{consumer, state.Head}},
		{`DELETE FROM search_state`, nil},
		{`INSERT INTO search_state (sync_epoch, complete) VALUES ($1, FALSE)`, []any{state.SyncEpoch}},
	}
	for _, step := range steps {
		if err := tx.Exec(step.query, step.args...); err != nil {
			return fmt.Errorf("begin the search index: %w", err)
		}
	}
	return nil
}

// removeGone removes what the index has of messages that are gone.
func (x *Indexer) removeGone(ctx context.Context) error {
	for {
		ids, err := storage.Read(ctx, x.DB, func(tx storage.Tx) ([]string, error) {
			return idsOf(tx,
				`SELECT d.message_id FROM search_docs d LEFT JOIN messages m ON m.id = d.message_id WHERE m.id IS NULL OR m.deleted_at IS NOT NULL LIMIT $1`,
				maxMessages)
		})
		if err != nil || len(ids) == 0 {
			return err
		}
		if err := x.writeAlone(ctx, ids); err != nil {
			return err
		}
	}
}
