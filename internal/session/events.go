package session

import (
	"context"
	"errors"
	"slices"

	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Page limits of Events (SS-EVT-1).
const (
	DefaultPage = 200
	MaxPage     = 1000
)

// Window says which events to read: those after a seq, before one, or the newest.
type Window struct {
	After  int64
	Before int64 // > 0 pages backwards
	Tail   int64 // > 0 asks for the newest
	Limit  int
}

// EventPage answers Events, always in ascending order.
type EventPage struct {
	LastSeq int64
	Events  []Stored
}

// Events reads a page of a session's log (SS-EVT-1).
func (s *Service) Events(ctx context.Context, by Caller, ref string, window Window) (EventPage, error) {
	return read(ctx, s, by, ref, wire.RoleViewer, func(tx storage.Tx, sess *record) (EventPage, error) {
		page := EventPage{LastSeq: sess.LastSeq}
		var err error
		switch {
		case window.Tail > 0:
			page.Events, err = readBefore(tx, sess.ID, sess.LastSeq+1, int(min(window.Tail, MaxPage)))
		case window.Before > 0:
			page.Events, err = readBefore(tx, sess.ID, window.Before, window.Limit)
		default:
			page.Events, err = readAfter(tx, sess.ID, window.After, window.Limit, answerBytes)
		}
		return page, err
	})
}

const eventColumns = `seq, kind, ts, sender_device_id, turn_id, client_event_id, payload, by_server, access_version, committed_at`

// How many bytes of payload one reading of the log answers, and at most one event more.
const (
	answerBytes = 16 << 20 // of a request; it may then hold fewer events than asked for
	pageBytes   = 4 << 20  // of a replay
)

// errEnough ends a reading of the log at its bytes.
var errEnough = errors.New("page is full")

// ReadLog reads at most limit events after a seq, ascending; fewer when they are large, at least one
// if there is any.
func ReadLog(tx storage.Tx, sessionID string, after int64, limit int) ([]Stored, error) {
	return readAfter(tx, sessionID, after, limit, pageBytes)
}

func readAfter(tx storage.Tx, sessionID string, after int64, limit, most int) ([]Stored, error) {
	return scanEvents(tx, most, `SELECT `+eventColumns+` FROM session_events
		WHERE session_id = $1 AND seq > $2 ORDER BY seq LIMIT $3`, sessionID, after, limit)
}

func readBefore(tx storage.Tx, sessionID string, before int64, limit int) ([]Stored, error) {
	events, err := scanEvents(tx, answerBytes, `SELECT `+eventColumns+` FROM session_events
		WHERE session_id = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3`, sessionID, before, limit)
	slices.Reverse(events)
	return events, err
}

func scanEvents(tx storage.Tx, most int, query string, args ...any) ([]Stored, error) {
	events, size := []Stored{}, 0
	err := tx.Query(query, args, func(row storage.Row) error {
		if size > most {
			return errEnough
		}
		var event Stored
		var payload []byte
		if err := row.Scan(&event.Seq, &event.Kind, &event.TS, &event.SenderDeviceID, &event.TurnID,
			&event.ClientEventID, &payload, &event.ByServer, &event.AccessVersion, &event.CommittedAt); err != nil {
			return err
		}
		event.Payload = payload
		size += len(payload)
		events = append(events, event)
		return nil
	})
	return events, enough(err)
}

// enough takes the end of a reading at its bytes for the success it is.
func enough(err error) error {
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}
