package outbound

import (
	"fmt"
	"time"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// News is an event that the people of a session are told of.
type News struct {
	SessionID string
	Type      wire.PushType // PushAsk or PushTurnEnd
	Seq       int64
	// SenderDeviceID sent the event: it knows.
	SenderDeviceID string
}

// maxTold is how many devices one event wakes: those that were seen last.
const maxTold = 1000

// outboxTable is the outbox, for bulk inserts of news.
var outboxTable = storage.Table{Name: "push_outbox", Columns: []storage.Column{
	{Name: "id", Type: storage.Text},
	{Name: "session_id", Type: storage.Text},
	{Name: "type", Type: storage.Text},
	{Name: "device_id", Type: storage.Text},
	{Name: "user_id", Type: storage.Text},
	{Name: "seq", Type: storage.Bigint},
	{Name: "created_at", Type: storage.Bigint},
	{Name: "attempts", Type: storage.Bigint},
	{Name: "not_before", Type: storage.Bigint},
	{Name: "claimed", Type: storage.Boolean},
}}

// EnqueueNews writes wakes down, in the transaction of the event and under the lock of its session, for every device
// with a push token of the session's owner and of its editors, and answers whether something is to be sent. It
// takes at most seven statements, however many people there are.
func EnqueueNews(tx storage.Tx, e *env.Env, news News) (bool, error) {
	told, err := recipients(tx, news)
	if err != nil || len(told) == 0 {
		return false, err
	}
	if err := readWaiting(tx, news.SessionID, told); err != nil {
		return false, err
	}
	var wakes, outcomes [][]any
	var replaced []string
	now := tx.Now()
	for _, r := range told {
		id := e.NewID()
		wake := Wake{Type: news.Type, SessionID: news.SessionID, DeviceID: r.deviceID, UserID: r.userID, Seq: news.Seq}
		next := r.decide(news.Type, now)
		outcomes = append(outcomes, outcomeRow(id, wake, next.fate, now))
		replaced = append(replaced, next.replaces...)
		if next.state != wire.PushWaiting {
			continue
		}
		wakes = append(wakes, []any{
			id, wake.SessionID, string(wake.Type), wake.DeviceID, wake.UserID, wake.Seq, now, int64(0), next.due, false,
		})
	}
	if err := replace(tx, replaced, wakes); err != nil {
		return false, err
	}
	return len(wakes) > 0, keep(tx, news.SessionID, outcomes)
}

// recipient is a device that an event could wake.
type recipient struct {
	deviceID  string
	userID    string
	notify    wire.Notify
	attentive bool      // its person looks at the session
	pauseEnds time.Time // zero for none
	waiting   []string  // ids of the news for it that nobody sends at this moment: one, unless a process went down
}

// telling is what becomes of an event at a recipient: the fate of its wake, when it is due, and what it replaces.
type telling struct {
	fate

	due      time.Time
	replaces []string
}

// decide says what an event of a kind means for the recipient at now. The newest replaces what waits: it tells more of how things are. The
// end of a turn does so also where nobody wants it told, because it closes what the turn asked.
func (r recipient) decide(kind wire.PushType, now time.Time) telling {
	var next telling
	if kind == wire.PushTurnEnd {
		next.replaces = r.waiting
	}
	switch {
	case !r.notify.Wants(kind):
		next.fate = skipped(wire.PushNotify)
		return next
	case r.attentive:
		next.fate = skipped(wire.PushAttention)
		return next
	}
	next.fate, next.due, next.replaces = fate{state: wire.PushWaiting}, now, r.waiting
	if r.pauseEnds.After(now) {
		next.due = r.pauseEnds
	}
	return next
}

// recipients reads the devices that news could wake: those of the owner and of the users with an unexpired direct or
// org share as editor or owner. Links match nobody.
func recipients(tx storage.Tx, news News) ([]*recipient, error) {
	var told []*recipient
	err := tx.Query(`WITH people AS (
			SELECT owner_user_id AS user_id FROM sessions WHERE id = $1
			UNION
			SELECT h.principal_id FROM session_shares h WHERE h.session_id = $1 AND h.principal_type = 'user'
			   AND h.role IN ('editor', 'owner') AND (h.expires_at IS NULL OR h.expires_at > $2)
			UNION
			SELECT m.user_id FROM session_shares h JOIN org_members m ON m.org_id = h.principal_id
			 WHERE h.session_id = $1 AND h.principal_type = 'org'
			   AND h.role IN ('editor', 'owner') AND (h.expires_at IS NULL OR h.expires_at > $2))
		SELECT d.id, d.user_id, coalesce(n.notify, 'all'), d.user_id IN (
			SELECT p.user_id FROM session_presence p JOIN nodes k ON k.id = p.node_id
			 WHERE p.session_id = $1 AND p.attention AND k.alive_until > $2), w.ends_at
		  FROM people x JOIN users u ON u.id = x.user_id JOIN devices d ON d.user_id = x.user_id
		  LEFT JOIN session_notify n ON n.session_id = $1 AND n.user_id = x.user_id
		  LEFT JOIN push_pauses w ON w.session_id = $1 AND w.device_id = d.id
		 WHERE u.disabled_at IS NULL AND d.deleted_at IS NULL AND d.push_token IS NOT NULL AND d.id <> $3
		 ORDER BY d.last_seen_at DESC, d.id LIMIT $4`,
		[]any{news.SessionID, tx.Now(), news.SenderDeviceID, maxTold}, func(row storage.Row) error {
			r := &recipient{}
			var pause *time.Time
			err := row.Scan(&r.deviceID, &r.userID, &r.notify, &r.attentive, &pause)
			if pause != nil {
				r.pauseEnds = *pause
			}
			told = append(told, r)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("read who is told of news: %w", err)
	}
	return told, nil
}

// readWaiting finds the news of the session that wait for the recipients. What somebody is sending right now is not
// among them; a claim that has run out is.
func readWaiting(tx storage.Tx, sessionID string, told []*recipient) error {
	byDevice := make(map[string]*recipient, len(told))
	for _, r := range told {
		byDevice[r.deviceID] = r
	}
	err := tx.Query(`SELECT id, device_id FROM push_outbox
		WHERE session_id = $1 AND type <> 'dispatch' AND (NOT claimed OR not_before <= $2)`,
		[]any{sessionID, tx.Now()}, func(row storage.Row) error {
			var id, device string
			err := row.Scan(&id, &device)
			if r := byDevice[device]; r != nil {
				r.waiting = append(r.waiting, id)
			}
			return err
		})
	if err != nil {
		return fmt.Errorf("read news that wait: %w", err)
	}
	return nil
}

// replace takes old news out of the outbox and puts new ones in.
func replace(tx storage.Tx, replaced []string, wakes [][]any) error {
	if len(replaced) > 0 {
		if err := tx.Exec(`DELETE FROM push_outbox WHERE id = ANY($1)`, replaced); err != nil {
			return fmt.Errorf("replace news: %w", err)
		}
		if err := noteReplaced(tx, replaced...); err != nil {
			return err
		}
	}
	if err := tx.Insert(outboxTable, wakes); err != nil {
		return fmt.Errorf("enqueue news: %w", err)
	}
	return nil
}

// pause keeps the next news of the session from the device until a moment.
func pause(tx storage.Tx, w Wake, until time.Time) error {
	err := tx.Exec(`INSERT INTO push_pauses (session_id, device_id, ends_at) SELECT s.id, $2, $3 FROM sessions s WHERE s.id = $1
		ON CONFLICT (session_id, device_id) DO UPDATE SET ends_at = excluded.ends_at`, w.SessionID, w.DeviceID, until)
	if err != nil {
		return fmt.Errorf("pause news: %w", err)
	}
	return nil
}

// unpause lets the next news go, because the last ones did not arrive.
func unpause(tx storage.Tx, w Wake) error {
	err := tx.Exec(`DELETE FROM push_pauses WHERE session_id = $1 AND device_id = $2`, w.SessionID, w.DeviceID)
	if err != nil {
		return fmt.Errorf("end pause of news: %w", err)
	}
	return nil
}

// sweepPauses forgets the pauses of sessions that are over.
func sweepPauses(tx storage.Tx, sessions []string) error {
	if err := tx.Exec(`DELETE FROM push_pauses WHERE session_id = ANY($1) AND ends_at <= $2`, sessions, tx.Now()); err != nil {
		return fmt.Errorf("forget pauses of news: %w", err)
	}
	return nil
}

// yields answers whether news that could not be sent have to give way to what came meanwhile for the same device.
func yields(tx storage.Tx, p parcel) (bool, error) {
	var one int64
	found, err := tx.Get(`SELECT 1 FROM push_outbox WHERE session_id = $1 AND device_id = $2 AND type <> 'dispatch' AND id <> $3
		AND (NOT claimed OR not_before <= $4) LIMIT 1`, []any{p.SessionID, p.DeviceID, p.id, tx.Now()}, &one)
	if err != nil {
		return false, fmt.Errorf("read news that came meanwhile: %w", err)
	}
	return found, nil
}
