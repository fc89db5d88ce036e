package workspace

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace/place"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Threads lists the threads of a channel, those with the latest activity first; an empty state is every state.
// A thread that becomes active meanwhile is on a page that was read before.
func (s *Service) Threads(
	ctx context.Context, by authz.Caller, channelID string, state wire.ThreadState, paging Paging,
) (wire.Page[wire.Thread], error) {
	none := wire.Page[wire.Thread]{}
	if state != "" && state != wire.ThreadOpen && state != wire.ThreadDone {
		return none, fault.Invalid("state", "must be open or done")
	}
	at, afterID, err := afterPair(paging, math.MaxInt64)
	if err != nil {
		return none, err
	}
	if channelID, err = place.PathID("Channel", channelID); err != nil {
		return none, err
	}
	return storage.Read(ctx, s.db, func(tx storage.Tx) (wire.Page[wire.Thread], error) {
		if _, _, err := AuthorizedChannel(tx, by, action.ThreadRead, channelID); err != nil {
			return none, err
		}
		threads, err := threadsBehind(tx, channelID, state, at, afterID, paging.Size()+1)
		return place.Page(threads, paging.Size(), func(t wire.Thread) string {
			return strconv.FormatInt(t.LastActivityAt.UnixMicro(), 10) + "_" + t.ID
		}), err
	})
}

func threadsBehind(tx storage.Tx, channelID string, state wire.ThreadState, at int64, id string, limit int) ([]wire.Thread, error) {
	var threads []wire.Thread
	err := tx.Query(`SELECT `+threadColumns+threadTables+`
		WHERE t.channel_id = $1 AND ($2 = '' OR t.state = $2)
		  AND (t.last_activity_at < $3 OR t.last_activity_at = $3 AND t.id < $4)
		ORDER BY t.last_activity_at DESC, t.id DESC LIMIT $5`, []any{channelID, state, at, id, limit}, func(row storage.Row) error {
		var thread PlacedThread
		err := scanThread(row, &thread)
		threads = append(threads, thread.Thread)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read threads of channel: %w", err)
	}
	return threads, nil
}

// Thread answers a thread the caller sees.
func (s *Service) Thread(ctx context.Context, by authz.Caller, id string) (wire.Thread, error) {
	id, err := place.PathID("Thread", id)
	if err != nil {
		return wire.Thread{}, err
	}
	return storage.Read(ctx, s.db, func(tx storage.Tx) (wire.Thread, error) {
		thread, _, err := AuthorizedThread(tx, by, action.ThreadRead, id)
		return thread.Thread, err
	})
}

// addThread writes a thread with thread.created. clientMsgID is of the message it starts with, if any.
func (s *Service) addThread(tx storage.Tx, by authz.Caller, spaceID string, thread wire.Thread, clientMsgID string) error {
	err := tx.Exec(`INSERT INTO threads (id, channel_id, kind, title, state, last_message_seq, message_count, last_activity_at,
			unread_floor_seq, created_by, created_at, version)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		thread.ID, thread.ChannelID, thread.Kind, optional(thread.Title), thread.State, thread.LastMessageSeq, thread.MessageCount,
		thread.LastActivityAt, thread.UnreadFloorSeq, optional(by.Principal), thread.CreatedAt, thread.Version)
	if err != nil {
		return fmt.Errorf("insert thread: %w", err)
	}
	scope := wire.Scope{SpaceID: spaceID, ChannelID: thread.ChannelID, ThreadID: thread.ID}
	created := event(by, eventlog.ThreadCreated, scope, thread.ID, thread.Version, wire.ThreadEvent{Thread: thread})
	created.ClientMsgID = clientMsgID
	return s.log.Emit(tx, created)
}

// tellThread emits an event of a thread as it is now.
func (s *Service) tellThread(tx storage.Tx, by authz.Caller, kind string, thread *PlacedThread) error {
	return s.log.Emit(tx, event(by, kind, thread.Scope(), thread.ID, thread.Version, wire.ThreadEvent{Thread: thread.Thread}))
}
