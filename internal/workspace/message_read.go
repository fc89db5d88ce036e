package workspace

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace/place"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Message answers a message the caller sees; of a deleted one its tombstone.
func (s *Service) Message(ctx context.Context, by authz.Caller, id string) (wire.Message, error) {
	id, err := place.PathID("Message", id)
	if err != nil {
		return wire.Message{}, err
	}
	return storage.Read(ctx, s.db, func(tx storage.Tx) (wire.Message, error) {
		message, _, err := AuthorizedMessage(tx, by, action.MessageRead, id)
		if err != nil {
			return wire.Message{}, err
		}
		err = Complete(tx, by.Principal, &message)
		return message.Message, err
	})
}

// MessageQuery is which messages of a thread are asked for, by thread_seq: those before one, after one, or
// around one, which is among them; without any the newest. Limit is place.DefaultPage when 0, and at most place.MaxPage.
type MessageQuery struct {
	Before, After, Around *int64
	Limit                 int
}

// Messages answers messages of a thread, ascending by thread_seq, tombstones among them. HasMore tells of the
// direction that was asked for, around one of both.
func (s *Service) Messages(ctx context.Context, by authz.Caller, threadID string, q MessageQuery) (wire.Messages, error) {
	if err := q.check(); err != nil {
		return wire.Messages{}, err
	}
	threadID, err := place.PathID("Thread", threadID)
	if err != nil {
		return wire.Messages{}, err
	}
	return storage.Read(ctx, s.db, func(tx storage.Tx) (wire.Messages, error) {
		thread, _, err := AuthorizedThread(tx, by, action.MessageRead, threadID)
		if err != nil {
			return wire.Messages{}, err
		}
		found, more, err := q.run(tx, &thread)
		if err != nil {
			return wire.Messages{}, err
		}
		messages, err := completed(tx, by.Principal, found)
		return wire.Messages{Messages: messages, HasMore: more}, err
	})
}

// completed answers messages as the viewer sees them.
func completed(tx storage.Tx, viewer string, found []PlacedMessage) ([]wire.Message, error) {
	all := make([]*PlacedMessage, len(found))
	for i := range found {
		all[i] = &found[i]
	}
	if err := Complete(tx, viewer, all...); err != nil {
		return nil, err
	}
	messages := make([]wire.Message, len(found))
	for i := range found {
		messages[i] = found[i].Message
	}
	return messages, nil
}

func (q MessageQuery) check() error {
	given := 0
	for name, seq := range map[string]*int64{"before": q.Before, "after": q.After, "around": q.Around} {
		if seq == nil {
			continue
		}
		given++
		if *seq < 0 {
			return fault.Invalid(name, "must not be negative")
		}
	}
	if given > 1 {
		return fault.Invalid("before", "excludes after and around")
	}
	return nil
}

func (q MessageQuery) run(tx storage.Tx, thread *PlacedThread) ([]PlacedMessage, bool, error) {
	limit := Paging{Limit: q.Limit}.Size()
	switch {
	case q.After != nil:
		return messagesAfter(tx, thread, *q.After, limit)
	case q.Around != nil:
		return messagesAround(tx, thread, *q.Around, limit)
	case q.Before != nil:
		return messagesBefore(tx, thread, *q.Before, limit)
	default:
		return messagesBefore(tx, thread, math.MaxInt64, limit)
	}
}

func messagesAround(tx storage.Tx, thread *PlacedThread, seq int64, limit int) ([]PlacedMessage, bool, error) {
	older, moreBefore, err := messagesBefore(tx, thread, seq, limit/2)
	if err != nil {
		return nil, false, err
	}
	newer, moreAfter, err := messagesAfter(tx, thread, seq-1, limit-limit/2)
	return append(older, newer...), moreBefore || moreAfter, err
}

func messagesBefore(tx storage.Tx, thread *PlacedThread, seq int64, limit int) ([]PlacedMessage, bool, error) {
	found, more, err := messagesOf(tx, thread, `m.thread_seq < $2 ORDER BY m.thread_seq DESC`, seq, limit)
	slices.Reverse(found)
	return found, more, err
}

func messagesAfter(tx storage.Tx, thread *PlacedThread, seq int64, limit int) ([]PlacedMessage, bool, error) {
	return messagesOf(tx, thread, `m.thread_seq > $2 ORDER BY m.thread_seq`, seq, limit)
}

// messagesOf reads one message more than the limit, to know whether there are more.
func messagesOf(tx storage.Tx, thread *PlacedThread, part string, seq int64, limit int) ([]PlacedMessage, bool, error) {
	var found []PlacedMessage
	err := tx.Query(`SELECT `+messageColumns+` FROM messages m WHERE m.thread_id = $1 AND `+part+` LIMIT $3`,
		[]any{thread.ID, seq, limit + 1}, func(row storage.Row) error {
			m := PlacedMessage{Thread: *thread}
			err := scanMessage(row, &m)
			m.ChannelID = thread.ChannelID
			found = append(found, m)
			return err
		})
	if err != nil {
		return nil, false, fmt.Errorf("read messages of thread: %w", err)
	}
	if len(found) > limit {
		return found[:limit], true, nil
	}
	return found, false, nil
}

// Revisions lists the wordings of a message, the oldest first and the current one last. A deleted message has
// none.
func (s *Service) Revisions(ctx context.Context, by authz.Caller, id string, paging Paging) (wire.Page[wire.Revision], error) {
	none := wire.Page[wire.Revision]{Items: []wire.Revision{}}
	after, err := afterNumber(paging, 0)
	if err != nil {
		return none, err
	}
	if id, err = place.PathID("Message", id); err != nil {
		return none, err
	}
	return storage.Read(ctx, s.db, func(tx storage.Tx) (wire.Page[wire.Revision], error) {
		if _, _, err := AuthorizedMessage(tx, by, action.MessageRead, id); err != nil {
			return none, err
		}
		revisions, err := revisionsBehind(tx, id, after, paging.Size()+1)
		return place.Page(revisions, paging.Size(), func(r wire.Revision) string { return strconv.FormatInt(r.Version, 10) }), err
	})
}

func revisionsBehind(tx storage.Tx, id string, after int64, limit int) ([]wire.Revision, error) {
	var revisions []wire.Revision
	err := tx.Query(`SELECT version, content_md, at FROM message_revisions WHERE message_id = $1 AND version > $2
		UNION ALL SELECT version, content_md, coalesce(edited_at, created_at) FROM messages WHERE id = $1 AND version > $2 AND deleted_at IS NULL
		ORDER BY version LIMIT $3`, []any{id, after, limit}, func(row storage.Row) error {
		var r wire.Revision
		err := row.Scan(&r.Version, &r.ContentMD, &r.At)
		revisions = append(revisions, r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read revisions of message: %w", err)
	}
	return revisions, nil
}
