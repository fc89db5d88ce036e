package outbound

import (
	"cmp"
	"fmt"
	"time"

	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// parcel is a wake with what decides whether, and how, it is sent now.
type parcel struct {
	Wake

	id         string
	attempts   int64 // with the one that is about to be made
	createdAt  time.Time
	notBefore  time.Time
	lastReason wire.PushReason // of the attempt before
	token      string          // empty when the device has none
	moot       bool            // of a dispatch: the control is applied, or gone with its session

	// Of news.
	access    bool        // the person is still an editor, on a device that is still there
	notify    wire.Notify // what the person wants to be told
	attentive bool        // the person looks at the session
	pauseEnds time.Time   // of the pause after the news before; zero for none
}

// mayEdit is the condition under which user o.user_id edits session s at the moment $1: as its owner, or by a direct
// or org share. Links match nobody: they belong to no person.
const mayEdit = `(s.owner_user_id = o.user_id OR EXISTS (
	SELECT 1 FROM session_shares h WHERE h.session_id = s.id AND h.role IN ('editor', 'owner') AND (h.expires_at IS NULL OR h.expires_at > $1)
	   AND (h.principal_type = 'user' AND h.principal_id = o.user_id
	     OR h.principal_type = 'org' AND h.principal_id IN (SELECT m.org_id FROM org_members m WHERE m.user_id = o.user_id))))`

// parcelQuery reads wakes as they stand at the moment $1.
const parcelQuery = `SELECT o.id, o.type, o.session_id, o.device_id, coalesce(o.user_id, ''), coalesce(o.control_id, ''), coalesce(o.mode, ''),
       coalesce(o.seq, 0), o.attempts, o.created_at, o.not_before, coalesce(x.reason, ''),
       coalesce(d.push_token, ''), s.id IS NULL OR c.id IS NULL OR c.applied,
       coalesce(d.deleted_at IS NULL AND d.user_id = o.user_id AND u.disabled_at IS NULL AND ` + mayEdit + `, FALSE), coalesce(n.notify, 'all'),
       o.user_id IS NOT NULL AND EXISTS (SELECT 1 FROM session_presence p JOIN nodes k ON k.id = p.node_id
         WHERE p.session_id = o.session_id AND p.user_id = o.user_id AND p.attention AND k.alive_until > $1), w.ends_at
  FROM push_outbox o
  LEFT JOIN push_outcomes x ON x.id = o.id
  LEFT JOIN sessions s ON s.id = o.session_id
  LEFT JOIN devices d ON d.id = o.device_id
  LEFT JOIN users u ON u.id = o.user_id
  LEFT JOIN session_controls c ON c.session_id = o.session_id AND c.id = o.control_id
  LEFT JOIN session_notify n ON n.session_id = o.session_id AND n.user_id = o.user_id
  LEFT JOIN push_pauses w ON w.session_id = o.session_id AND w.device_id = o.device_id `

// readParcels reads the wakes that the rest of parcelQuery chooses.
func readParcels(tx storage.Tx, rest string, args ...any) ([]parcel, error) {
	var parcels []parcel
	err := tx.Query(parcelQuery+rest, append([]any{tx.Now()}, args...), func(row storage.Row) error {
		p, err := scanParcel(row)
		parcels = append(parcels, p)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read wakes: %w", err)
	}
	return parcels, nil
}

func scanParcel(row storage.Row) (parcel, error) {
	var p parcel
	var pause *time.Time
	err := row.Scan(&p.id, &p.Type, &p.SessionID, &p.DeviceID, &p.UserID, &p.ControlID, &p.Mode, &p.Seq, &p.attempts, &p.createdAt,
		&p.notBefore, &p.lastReason, &p.token, &p.moot, &p.access, &p.notify, &p.attentive, &pause)
	if pause != nil {
		p.pauseEnds = *pause
	}
	p.attempts++
	return p, err
}

// verdict is what to do with a wake that is due: send it, put it off until a moment, or end it.
type verdict struct {
	end   *fate
	until time.Time // zero: send it
}

// judge decides at now. Who loses access, turns pushes off or opens the session between the event and the push is
// not told.
func (p parcel) judge(now time.Time) verdict {
	end := func(f fate) verdict { return verdict{end: &f} }
	switch {
	case !p.news() && p.moot:
		return end(skipped(p.lastReason))
	case p.news() && !p.access:
		return end(skipped(wire.PushNoAccess))
	case p.news() && !p.notify.Wants(p.Type):
		return end(skipped(wire.PushNotify))
	case p.news() && p.attentive:
		return end(skipped(wire.PushAttention))
	case p.attempts > maxAttempts, now.Sub(p.createdAt) > maxAge:
		return end(fate{wire.PushFailed, cmp.Or(p.lastReason, wire.PushNetworkError)})
	case p.news() && p.pauseEnds.After(now):
		return verdict{until: p.pauseEnds}
	default:
		return verdict{}
	}
}
