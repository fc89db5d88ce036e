package personal

import (
	"context"
	"fmt"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/idempotency"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace/place"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// PutReadState moves the caller's read state of a thread forward, to the thread's last message at most. One
// that is further already stays as it is, without an event (ES-14).
func (s *Service) PutReadState(ctx context.Context, by authz.Caller, threadID string, ifMatch *int64, in wire.PutReadState) (wire.ReadState, error) {
	return s.writeReadState(ctx, by, threadID, in, func(old *wire.ReadState) (int64, error) {
		return max(old.LastReadSeq, in.LastReadSeq), place.RequireVersion(ifMatch, old.Version, old)
	})
}

// ResetReadState sets the caller's read state of a thread also backwards ("mark as unread"). It demands the
// version the caller knows; a state that was never written has version 0 (ES-14).
func (s *Service) ResetReadState(ctx context.Context, by authz.Caller, threadID string, ifMatch *int64, in wire.PutReadState) (wire.ReadState, error) {
	return s.writeReadState(ctx, by, threadID, in, func(old *wire.ReadState) (int64, error) {
		if ifMatch == nil {
			return 0, fault.Unconditional()
		}
		return in.LastReadSeq, place.RequireVersion(ifMatch, old.Version, old)
	})
}

// writeReadState stores what decide answers for the state as it is.
func (s *Service) writeReadState(
	ctx context.Context, by authz.Caller, threadID string, in wire.PutReadState, decide func(old *wire.ReadState) (int64, error),
) (wire.ReadState, error) {
	id, err := place.PathID("Thread", threadID)
	if err != nil {
		return wire.ReadState{}, err
	}
	if in.LastReadSeq < 0 {
		return wire.ReadState{}, fault.Invalid("/last_read_seq", "must be at least 0")
	}
	// The thread is locked so that the counts are those of the event's place in the log: a message that was written
	// meanwhile would come before the event and not be counted in it.
	locks := append([]storage.Key{{Lock: storage.LockThreads, ID: id}}, keys(by)...)
	return storage.Write(ctx, s.DB, locks, func(tx storage.Tx) (wire.ReadState, error) {
		t, err := thread(tx, by, action.PersonalWrite, id)
		if err != nil {
			return wire.ReadState{}, err
		}
		return idempotency.Once(tx, by.Key, func() (wire.ReadState, error) {
			old, err := readState(tx, by.Principal, &t)
			if err != nil {
				return old, err
			}
			seq, err := decide(&old)
			if err != nil {
				return old, err
			}
			return s.storeReadState(tx, by, &t, old, min(seq, t.LastMessageSeq))
		})
	})
}

func (s *Service) storeReadState(tx storage.Tx, by authz.Caller, t *place.Thread, old wire.ReadState, seq int64) (wire.ReadState, error) {
	if old.Version > 0 && old.LastReadSeq == seq {
		return old, nil
	}
	state := wire.ReadState{ThreadID: t.ID, LastReadSeq: seq, Version: old.Version + 1, UpdatedByDeviceID: by.Device}
	if err := count(tx, by.Principal, t, &state); err != nil {
		return state, err
	}
	err := tx.Exec(
		`INSERT INTO read_states (principal_id, thread_id, last_read_seq, updated_by_device_id, updated_at, version) VALUES ($1, $2, $3, $4, $5, $6)
		 ON CONFLICT (principal_id, thread_id) DO UPDATE
		    SET last_read_seq = excluded.last_read_seq, updated_by_device_id = excluded.updated_by_device_id,
		        updated_at = excluded.updated_at, version = excluded.version`,
		by.Principal, t.ID, seq, optional(by.Device), tx.Now(), state.Version)
	if err != nil {
		return state, fmt.Errorf("write read state: %w", err)
	}
	return state, s.tell(tx, by, eventlog.ReadStateUpdated, t.Scope(), t.ID, 0, wire.ReadStateEvent{ReadState: state})
}

// ReadState answers the caller's read state of a thread with its counts.
func (s *Service) ReadState(ctx context.Context, by authz.Caller, threadID string) (wire.ReadState, error) {
	id, err := place.PathID("Thread", threadID)
	if err != nil {
		return wire.ReadState{}, err
	}
	return storage.Read(ctx, s.DB, func(tx storage.Tx) (wire.ReadState, error) {
		t, err := thread(tx, by, action.PersonalRead, id)
		if err != nil {
			return wire.ReadState{}, err
		}
		return readState(tx, by.Principal, &t)
	})
}

// readState reads a state with its counts; one that was never written has version 0.
func readState(tx storage.Tx, principal string, t *place.Thread) (wire.ReadState, error) {
	state := wire.ReadState{ThreadID: t.ID}
	var device *string
	_, err := tx.Get(`SELECT last_read_seq, version, updated_by_device_id FROM read_states WHERE principal_id = $1 AND thread_id = $2`,
		[]any{principal, t.ID}, &state.LastReadSeq, &state.Version, &device)
	if err != nil {
		return state, fmt.Errorf("load read state: %w", err)
	}
	state.UpdatedByDeviceID = value(device)
	return state, count(tx, principal, t, &state)
}

// The numbers of messages of a thread have no gap (ES-4), so the unread ones are counted by what they are
// not: all above the read state, less one's own, less the deleted ones of others. Both are few, whatever
// the length of what was not read. What an import wrote is never above the floor (ES-15.8).
const (
	ownAbove = `(SELECT count(*) FROM messages m WHERE m.author_id = $1 AND m.thread_id = %[1]s AND m.thread_seq > %[2]s
	               AND m.thread_seq <= %[3]s AND m.origin <> 'import')`
	deletedAbove = `(SELECT count(*) FROM messages m WHERE m.thread_id = %[1]s AND m.thread_seq > %[2]s AND m.thread_seq <= %[3]s
	               AND m.deleted_at IS NOT NULL AND m.author_id <> $1)`
	mentionsAbove = `(SELECT count(*) FROM message_mentions n JOIN messages m ON m.id = n.message_id
	              WHERE n.principal_id = $1 AND n.thread_id = %[1]s AND n.thread_seq > %[2]s AND n.thread_seq <= %[3]s
	                AND m.deleted_at IS NULL AND m.author_id <> $1)`
)

var countQuery = fmt.Sprintf(`SELECT CAST($4 AS bigint) - CAST($3 AS bigint) - `+ownAbove+` - `+deletedAbove+`, `+mentionsAbove, "$2", "$3", "$4")

// count fills in the counts of a state.
func count(tx storage.Tx, principal string, t *place.Thread, state *wire.ReadState) error {
	above := max(state.LastReadSeq, t.UnreadFloorSeq)
	if above >= t.LastMessageSeq {
		state.UnreadCount, state.MentionCount = 0, 0
		return nil
	}
	_, err := tx.Get(countQuery, []any{principal, t.ID, above, t.LastMessageSeq}, &state.UnreadCount, &state.MentionCount)
	if err != nil {
		return fmt.Errorf("count unread messages: %w", err)
	}
	return nil
}
