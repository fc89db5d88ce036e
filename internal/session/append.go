package session

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Batch is what an executor appends at once.
type Batch struct {
	Events          []wire.IncomingEvent
	ExpectedLastSeq *int64
	// Silent wakes nobody for what is in it: it happened before, as in an import.
	Silent bool
}

// EventsTable is the log of all sessions, for bulk appends.
var EventsTable = storage.Table{Name: "session_events", Columns: []storage.Column{
	{Name: "session_id", Type: storage.Text},
	{Name: "seq", Type: storage.Bigint},
	{Name: "kind", Type: storage.Text},
	{Name: "ts", Type: storage.Bigint},
	{Name: "sender_device_id", Type: storage.Text},
	{Name: "turn_id", Type: storage.Text},
	{Name: "client_event_id", Type: storage.Text},
	{Name: "payload", Type: storage.Text},
	{Name: "by_server", Type: storage.Boolean},
	{Name: "access_version", Type: storage.Bigint},
	{Name: "committed_at", Type: storage.Bigint},
}}

// Append stores a batch of the executor's events and answers their numbers (SS-EVT-2).
//
// The lease is checked in the same transaction that writes, so an append that races a takeover
// either commits before it or fails (SS-LEASE-6). Safe to repeat: known client_event_ids keep their seq.
func (s *Service) Append(ctx context.Context, by Caller, ref string, batch Batch) (wire.Receipt, error) {
	return write(ctx, s, by, ref, wire.RoleViewer, func(tx storage.Tx, sess *record) (wire.Receipt, error) {
		if err := sess.lease.Require(by.DeviceID, tx.Now()); err != nil {
			return wire.Receipt{}, err
		}
		if batch.ExpectedLastSeq != nil && *batch.ExpectedLastSeq != sess.LastSeq {
			return wire.Receipt{}, seqConflict(sess.LastSeq)
		}
		known, err := knownEvents(tx, sess.ID, by.DeviceID, batch.Events)
		if err != nil {
			return wire.Receipt{}, err
		}
		fresh, receipt := planAppend(sess.LastSeq, batch.Events, known)
		if len(fresh) == 0 {
			return receipt, nil
		}
		for i := range fresh {
			fresh[i].SenderDeviceID = by.DeviceID
		}
		if err := s.store(tx, sess, fresh, false); err != nil {
			return wire.Receipt{}, err
		}
		if batch.Silent {
			return receipt, nil
		}
		return receipt, s.tell(tx, sess, fresh)
	})
}

func seqConflict(lastSeq int64) error {
	return fault.New(code.SeqConflict, "The session is at last_seq=%d; nothing was written.", lastSeq).
		WithDetails(map[string]int64{"last_seq": lastSeq})
}

// knownEvents answers the seq of every client_event_id of the batch that this device already stored.
func knownEvents(tx storage.Tx, sessionID, device string, events []wire.IncomingEvent) (map[string]int64, error) {
	ids := make([]any, 0, len(events))
	for _, event := range events {
		if event.ClientEventID != nil {
			ids = append(ids, *event.ClientEventID)
		}
	}
	known := map[string]int64{}
	if len(ids) == 0 {
		return known, nil
	}
	lookup := lookupFor(len(ids))
	for len(ids) < lookup.ids {
		ids = append(ids, ids[0]) // once more changes nothing
	}
	err := tx.Query(lookup.query, append([]any{sessionID, device}, ids...), func(row storage.Row) error {
		var id string
		var seq *int64
		if err := row.Scan(&id, &seq); err != nil || seq == nil {
			return err
		}
		known[id] = *seq
		return nil
	})
	return known, err
}

// lookup is a statement that looks up some client_event_ids, each by itself. A planner that does not
// know the ids yet, as for a prepared statement, may otherwise decide to read everything that the
// device ever stored in the session, and appends would become slower with every event.
type lookup struct {
	ids   int
	query string
}

var lookups = []lookup{newLookup(1), newLookup(20), newLookup(wire.MaxBatch)}

func newLookup(ids int) lookup {
	values := make([]string, ids)
	for i := range values {
		values[i] = "($" + strconv.Itoa(i+3) + ")"
	}
	return lookup{ids, `SELECT k.column1, (SELECT e.seq FROM session_events e
			WHERE e.session_id = $1 AND e.sender_device_id = $2 AND e.client_event_id = k.column1 AND NOT e.by_server)
		FROM (VALUES ` + strings.Join(values, ", ") + `) AS k`}
}

// lookupFor answers the smallest lookup that has room for a batch's ids.
func lookupFor(ids int) lookup {
	for _, l := range lookups {
		if ids <= l.ids {
			return l
		}
	}
	return lookups[len(lookups)-1]
}

// planAppend numbers the elements of a batch behind last: known ids, also from earlier in the batch,
// keep their seq and are not stored again; elements without an id are never duplicates. It changes
// known.
func planAppend(last int64, batch []wire.IncomingEvent, known map[string]int64) ([]wire.Event, wire.Receipt) {
	receipt := wire.Receipt{LastSeq: last, Events: make([]wire.ReceiptEntry, 0, len(batch))}
	fresh := make([]wire.Event, 0, len(batch))
	for _, element := range batch {
		if id := element.ClientEventID; id != nil {
			if seq, duplicate := known[*id]; duplicate {
				receipt.Events = append(receipt.Events, wire.ReceiptEntry{ClientEventID: id, Seq: seq})
				continue
			}
			known[*id] = receipt.LastSeq + 1
		}
		receipt.LastSeq++
		receipt.Accepted++
		receipt.Events = append(receipt.Events, wire.ReceiptEntry{ClientEventID: element.ClientEventID, Seq: receipt.LastSeq})
		event := wire.Event{
			Seq: receipt.LastSeq, Kind: element.Kind, TurnID: element.TurnID,
			ClientEventID: element.ClientEventID, Payload: element.Payload, TS: noTimestamp,
		}
		if element.TS != nil {
			event.TS = *element.TS
		}
		fresh = append(fresh, event)
	}
	return fresh, receipt
}

// noTimestamp marks an event that takes the server's time (SS-EVT-3). No client can send it: ts is
// limited to what a JSON number holds exactly.
const noTimestamp = -1 << 63

// store writes events that continue the session's log, and moves the session along.
func (s *Service) store(tx storage.Tx, sess *record, events []wire.Event, byServer bool) error {
	now := tx.Now()
	rows := make([][]any, 0, len(events))
	for _, event := range events {
		if event.TS == noTimestamp {
			event.TS = now.UnixMilli()
		}
		if len(event.Payload) == 0 {
			event.Payload = json.RawMessage(`{}`)
		}
		rows = append(rows, []any{
			sess.ID, event.Seq, event.Kind, event.TS, event.SenderDeviceID, event.TurnID, event.ClientEventID,
			[]byte(event.Payload), byServer, sess.accessVersion, now,
		})
		sess.events = append(sess.events, Stored{Event: event, ByServer: byServer, AccessVersion: sess.accessVersion, CommittedAt: now})
	}
	sess.LastSeq = events[len(events)-1].Seq
	sess.LastEventAt = wire.Time{Time: now}
	if err := tx.Insert(EventsTable, rows); err != nil {
		return err
	}
	return tx.Exec(`UPDATE sessions SET last_seq = $1, last_event_at = $2 WHERE id = $3`, sess.LastSeq, now, sess.ID)
}

// emit appends one event of the server's own.
func (s *Service) emit(tx storage.Tx, sess *record, event wire.Event) error {
	event.Seq = sess.LastSeq + 1
	return s.store(tx, sess, []wire.Event{event}, true)
}

func (s *Service) audit(tx storage.Tx, by Caller, sess *record, action string, detail any) error {
	return audit.Write(tx, s.env, audit.Entry{
		UserID: by.UserID, DeviceID: by.DeviceID, Action: action,
		SessionID: sess.ID, OwnerID: sess.OwnerUserID, Detail: detail,
	})
}

// mustJSON encodes a value of ours that cannot fail to encode.
func mustJSON(value any) json.RawMessage {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", value, err))
	}
	return encoded
}
