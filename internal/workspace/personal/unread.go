package personal

import (
	"context"
	"fmt"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace/place"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// statesQuery reads threads with the state of $1 and its counts. above is where unread messages begin.
var statesQuery = fmt.Sprintf(
	`SELECT s.id, s.last_read_seq, s.version, s.updated_by_device_id,
	        CASE WHEN s.last_message_seq <= s.above THEN 0 ELSE s.last_message_seq - s.above - `+ownAbove+` - `+deletedAbove+` END,
	        CASE WHEN s.last_message_seq <= s.above THEN 0 ELSE `+mentionsAbove+` END
	   FROM (SELECT t.id, t.last_message_seq, coalesce(r.last_read_seq, 0) AS last_read_seq, coalesce(r.version, 0) AS version,
	                r.updated_by_device_id,
	                CASE WHEN coalesce(r.last_read_seq, 0) > t.unread_floor_seq THEN r.last_read_seq ELSE t.unread_floor_seq END AS above
	           FROM threads t JOIN channels c ON c.id = t.channel_id
	           LEFT JOIN read_states r ON r.principal_id = $1 AND r.thread_id = t.id
	          WHERE `, "s.id", "s.above", "s.last_message_seq")

var (
	unreadQuery = statesQuery + place.Visible("c", 2) + `
	            AND t.last_message_seq > t.unread_floor_seq AND t.last_message_seq > coalesce(r.last_read_seq, 0)) s ORDER BY s.id`
	listStatesQuery = statesQuery + place.Visible("c", 2) + `
	            AND t.id > $5 AND (r.thread_id IS NOT NULL OR t.last_message_seq > t.unread_floor_seq) ORDER BY t.id LIMIT $6) s ORDER BY s.id`
)

// Unread answers the read states of all threads with unread messages that a person may read, in one
// statement: what a snapshot holds of them.
func Unread(tx storage.Tx, s *authz.Snapshot) ([]wire.ReadState, error) {
	states, err := readStates(tx, unreadQuery, append([]any{s.Principal.ID}, place.VisibleArgs(tx, s)...))
	if err != nil {
		return nil, err
	}
	unread := states[:0]
	for _, state := range states { // a thread whose messages above the state are all deleted or one's own has none
		if state.UnreadCount > 0 {
			unread = append(unread, state)
		}
	}
	return unread, nil
}

// ReadStates lists the caller's read states: of every readable thread that has one, or has messages that
// were never read.
func (s *Service) ReadStates(ctx context.Context, by authz.Caller, p place.Paging) (wire.Page[wire.ReadState], error) {
	after, err := p.AfterID()
	if err != nil {
		return wire.Page[wire.ReadState]{}, err
	}
	return storage.Read(ctx, s.DB, func(tx storage.Tx) (wire.Page[wire.ReadState], error) {
		snapshot, err := person(tx, by, action.SelfRead)
		if err != nil {
			return wire.Page[wire.ReadState]{}, err
		}
		args := append([]any{by.Principal}, place.VisibleArgs(tx, snapshot)...)
		states, err := readStates(tx, listStatesQuery, append(args, after, p.Size()+1))
		return place.Page(states, p.Size(), func(r wire.ReadState) string { return r.ThreadID }), err
	})
}

func readStates(tx storage.Tx, query string, args []any) ([]wire.ReadState, error) {
	states := []wire.ReadState{}
	err := tx.Query(query, args, func(row storage.Row) error {
		var r wire.ReadState
		var device *string
		err := row.Scan(&r.ThreadID, &r.LastReadSeq, &r.Version, &device, &r.UnreadCount, &r.MentionCount)
		r.UpdatedByDeviceID = value(device)
		states = append(states, r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("load read states: %w", err)
	}
	return states, nil
}
