package session

import (
	"context"
	"time"

	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// A node's presence rows count while the node is alive: it renews its term every NodeBeat, and what
// a crashed node left behind disappears with its term (SS-PRS-1: within 45 s).
const (
	NodeTTL  = 30 * time.Second
	NodeBeat = 10 * time.Second
)

// Connection is one open stream of a device on a session.
type Connection struct {
	ID        string
	NodeID    string
	SessionID string
	DeviceID  string
	UserID    string
	Role      wire.Role
	Driving   bool
	Attention bool
}

// Present lists the devices that have a session open, one entry per device, first come first
// (SS-PRS-1). The executor is the device that holds the lease live now.
func Present(tx storage.Tx, sessionID string, lease Lease) ([]wire.Presence, error) {
	present := []wire.Presence{}
	place := map[string]int{}
	err := tx.Query(`SELECT p.device_id, p.user_id, p.role, p.driving, p.attention, p.seen_at, n.alive_until
		FROM session_presence p JOIN nodes n ON n.id = p.node_id
		WHERE p.session_id = $1 AND n.alive_until > $2 ORDER BY p.seen_at, p.connection_id`,
		[]any{sessionID, tx.Now()}, func(row storage.Row) error {
			var one wire.Presence
			var role string
			var seen, alive time.Time
			if err := row.Scan(&one.DeviceID, &one.UserID, &role, &one.Driving, &one.Attention, &seen, &alive); err != nil {
				return err
			}
			one.Role = wire.Role(role)
			one.LastSeen = max(seen.UnixMilli(), alive.Add(-NodeTTL).UnixMilli())
			one.Executor = lease.HeldBy(one.DeviceID, tx.Now())
			if at, known := place[one.DeviceID]; known {
				present[at] = merge(present[at], one)
				return nil
			}
			place[one.DeviceID] = len(present)
			present = append(present, one)
			return nil
		})
	return present, err
}

// merge joins two connections of one device: driving and attention if any has it, the highest role, seen last.
func merge(a, b wire.Presence) wire.Presence {
	a.Driving = a.Driving || b.Driving
	a.Attention = a.Attention || b.Attention
	a.LastSeen = max(a.LastSeen, b.LastSeen)
	if b.Role.Rank() > a.Role.Rank() {
		a.Role = b.Role
	}
	return a
}

// Enter writes that a connection is open, or that it changed. Whoever calls it has seen in the same
// transaction, under the device's lock, that the device is alive (Standings).
func Enter(tx storage.Tx, c Connection) error {
	return tx.Exec(`INSERT INTO session_presence (connection_id, node_id, session_id, device_id, user_id, role, driving, attention, seen_at)
		SELECT $1, $2, s.id, $4, $5, $6, $7, $8, $9 FROM sessions s WHERE s.id = $3
		ON CONFLICT (connection_id) DO UPDATE
		   SET role = excluded.role, driving = excluded.driving, attention = excluded.attention, seen_at = excluded.seen_at`,
		c.ID, c.NodeID, c.SessionID, c.DeviceID, c.UserID, c.Role, c.Driving, c.Attention, tx.Now())
}

// Leave writes that connections are closed.
func Leave(tx storage.Tx, connections []string) error {
	return tx.Exec(`DELETE FROM session_presence WHERE connection_id = ANY($1)`, connections)
}

// LeaveAll writes that a node has no connection open.
func LeaveAll(tx storage.Tx, nodeID string) error {
	return tx.Exec(`DELETE FROM session_presence WHERE node_id = $1`, nodeID)
}

// Beat says that a node is alive for another term. A node that was taken for dead and swept begins
// anew: it then has to enter its connections again, which the answer false says.
func Beat(tx storage.Tx, nodeID string) (bool, error) {
	changed, err := tx.Changed(`UPDATE nodes SET alive_until = $1 WHERE id = $2`, tx.Now().Add(NodeTTL), nodeID)
	if err != nil || changed > 0 {
		return true, err
	}
	return false, tx.Exec(`INSERT INTO nodes (id, started_at, alive_until) VALUES ($1, $2, $3)
		ON CONFLICT (id) DO UPDATE SET alive_until = excluded.alive_until`, nodeID, tx.Now(), tx.Now().Add(NodeTTL))
}

// SweepNodes removes nodes whose term ended, with their presence, and answers the sessions they had
// open.
func SweepNodes(tx storage.Tx) ([]string, error) {
	var sessions []string
	err := tx.Query(`SELECT DISTINCT p.session_id FROM session_presence p JOIN nodes n ON n.id = p.node_id WHERE n.alive_until <= $1`,
		[]any{tx.Now()}, func(row storage.Row) error {
			var id string
			err := row.Scan(&id)
			sessions = append(sessions, id)
			return err
		})
	if err != nil {
		return nil, err
	}
	return sessions, tx.Exec(`DELETE FROM nodes WHERE alive_until <= $1`, tx.Now())
}

// EndNode removes a node that stops, with its presence.
func EndNode(ctx context.Context, db storage.DB, nodeID string) error {
	return db.Write(ctx, nil, func(tx storage.Tx) error {
		return tx.Exec(`DELETE FROM nodes WHERE id = $1`, nodeID)
	})
}

// LiveNodes answers how many nodes serve the database now, by what they said of themselves.
func LiveNodes(tx storage.Tx) (int64, error) {
	var live int64
	_, err := tx.Get(`SELECT COUNT(*) FROM nodes WHERE alive_until > $1`, []any{tx.Now()}, &live)
	return live, err
}
