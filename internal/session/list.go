package session

import (
	"context"

	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Page limits of List and SharedWithMe (SS-SES-2, SS-SES-3).
const (
	DefaultList = 50
	MaxList     = 200
)

// List answers the caller's own sessions, then those shared with the caller directly or by an org,
// each newest activity first and cut at limit (SS-SES-2).
func (s *Service) List(ctx context.Context, by Caller, limit int, archived bool) ([]wire.ListedSession, error) {
	return storage.Read(ctx, s.db, func(tx storage.Tx) ([]wire.ListedSession, error) {
		listed := []wire.ListedSession{}
		err := tx.Query(`SELECT `+columns+` FROM sessions s WHERE s.owner_user_id = $1 AND (NOT s.archived OR $2)
			ORDER BY s.last_event_at DESC, s.id LIMIT $3`, []any{by.UserID, archived, limit}, func(row storage.Row) error {
			var sess record
			err := sess.scan(row, tx.Now())
			listed = append(listed, wire.ListedSession{Session: sess.Session, Role: wire.RoleOwner})
			return err
		})
		if err != nil {
			return nil, err
		}
		shared, err := sharedWith(tx, by.UserID, limit, archived)
		if err != nil {
			return nil, err
		}
		for _, sess := range shared {
			listed = append(listed, wire.ListedSession{Session: sess.Session, Role: sess.Role})
		}
		return listed, countPresence(tx, listed)
	})
}

// SharedWithMe answers the sessions of others that the caller reaches by a direct or org share, with
// the strongest role and the share that grants it (SS-SES-3).
func (s *Service) SharedWithMe(ctx context.Context, by Caller, archived bool) ([]wire.SharedSession, error) {
	return storage.Read(ctx, s.db, func(tx storage.Tx) ([]wire.SharedSession, error) {
		return sharedWith(tx, by.UserID, MaxList, archived)
	})
}

// roleRank orders the roles of shares called h in SQL as Role.Rank does.
const roleRank = `CASE h.role WHEN 'owner' THEN 3 WHEN 'editor' THEN 2 ELSE 1 END`

func sharedWith(tx storage.Tx, userID string, limit int, archived bool) ([]wire.SharedSession, error) {
	shared := []wire.SharedSession{}
	err := tx.Query(`SELECT `+columns+`, g.role, g.share_id FROM sessions s JOIN (
			SELECT h.session_id, h.role, h.id AS share_id,
				ROW_NUMBER() OVER (PARTITION BY h.session_id ORDER BY `+roleRank+` DESC, h.created_at, h.id) AS place
			FROM session_shares h WHERE `+matching+`) g ON g.session_id = s.id AND g.place = 1
		WHERE s.owner_user_id <> $1 AND (NOT s.archived OR $3)
		ORDER BY s.last_event_at DESC, s.id LIMIT $4`, []any{userID, tx.Now(), archived, limit}, func(row storage.Row) error {
		var sess record
		var role, shareID string
		err := sess.scan(row, tx.Now(), &role, &shareID)
		shared = append(shared, wire.SharedSession{Session: sess.Session, Role: wire.Role(role), ShareID: shareID})
		return err
	})
	return shared, err
}

// countPresence fills in how many devices have each session open.
func countPresence(tx storage.Tx, listed []wire.ListedSession) error {
	place := make(map[string]int, len(listed))
	ids := make([]string, 0, len(listed))
	for i, sess := range listed {
		place[sess.ID] = i
		ids = append(ids, sess.ID)
	}
	if len(ids) == 0 {
		return nil
	}
	return tx.Query(`SELECT p.session_id, COUNT(DISTINCT p.device_id) FROM session_presence p JOIN nodes n ON n.id = p.node_id
		WHERE p.session_id = ANY($1) AND n.alive_until > $2 GROUP BY p.session_id`, []any{ids, tx.Now()}, func(row storage.Row) error {
		var id string
		var count int
		if err := row.Scan(&id, &count); err != nil {
			return err
		}
		listed[place[id]].PresenceCount = count
		return nil
	})
}

// Detail answers a session with its members, lease and presence (SS-SES-4).
func (s *Service) Detail(ctx context.Context, by Caller, ref string) (wire.SessionDetail, error) {
	return read(ctx, s, by, ref, wire.RoleViewer, func(tx storage.Tx, sess *record) (wire.SessionDetail, error) {
		detail := wire.SessionDetail{Session: sess.Session, Role: sess.role}
		if sess.lease.Live(tx.Now()) {
			detail.Lease = &wire.Lease{SessionID: sess.ID, DeviceID: sess.lease.Holder, ExpiresAt: wire.Time{Time: sess.lease.ExpiresAt}}
		}
		present, err := Present(tx, sess.ID, sess.lease)
		if err != nil {
			return detail, err
		}
		for i := range present {
			remote := present[i].DeviceID != by.DeviceID
			present[i].Remote = &remote
		}
		detail.Presence = present
		if detail.Notify, err = notifyOf(tx, sess.ID, by.UserID); err != nil {
			return detail, err
		}
		detail.Members, err = members(tx, by, sess)
		return detail, err
	})
}

// members answers one entry per user: the owner, direct shares, members of org shares, and the
// caller, who may have come by a link.
func members(tx storage.Tx, by Caller, sess *record) ([]wire.Member, error) {
	list := []wire.Member{{UserID: sess.OwnerUserID, Role: wire.RoleOwner}}
	place := map[string]int{sess.OwnerUserID: 0}
	add := func(userID string, role wire.Role) {
		at, known := place[userID]
		if !known {
			at = len(list)
			place[userID] = at
			list = append(list, wire.Member{UserID: userID})
		}
		if role.Rank() > list[at].Role.Rank() {
			list[at].Role = role
		}
	}
	err := tx.Query(`SELECT u.user_id, u.role FROM (
			SELECT h.principal_id AS user_id, h.role, h.created_at FROM session_shares h
			 WHERE h.session_id = $1 AND h.principal_type = 'user' AND (h.expires_at IS NULL OR h.expires_at > $2)
			UNION ALL
			SELECT m.user_id, h.role, h.created_at FROM session_shares h JOIN org_members m ON m.org_id = h.principal_id
			 WHERE h.session_id = $1 AND h.principal_type = 'org' AND (h.expires_at IS NULL OR h.expires_at > $2)) u
		ORDER BY u.created_at, u.user_id`, []any{sess.ID, tx.Now()}, func(row storage.Row) error {
		var userID, role string
		if err := row.Scan(&userID, &role); err != nil {
			return err
		}
		add(userID, wire.Role(role))
		return nil
	})
	if err != nil {
		return nil, err
	}
	add(by.UserID, sess.role)
	return list, addDevices(tx, by, list, place)
}

func addDevices(tx storage.Tx, by Caller, list []wire.Member, place map[string]int) error {
	ids := make([]string, 0, len(list))
	for i := range list {
		list[i].Remote = list[i].UserID != by.UserID
		list[i].Devices = []wire.MemberDevice{}
		ids = append(ids, list[i].UserID)
	}
	return tx.Query(`SELECT user_id, id, name, platform, last_seen_at, capabilities FROM devices
		WHERE user_id = ANY($1) AND deleted_at IS NULL ORDER BY last_seen_at DESC, id`, []any{ids}, func(row storage.Row) error {
		var userID, platform, capabilities string
		var device wire.MemberDevice
		if err := row.Scan(&userID, &device.DeviceID, &device.Name, &platform, &device.LastSeenAt.Time, &capabilities); err != nil {
			return err
		}
		var err error
		if device.Recipient, err = identity.RecipientIn(capabilities); err != nil {
			return err
		}
		device.Platform = wire.Platform(platform)
		device.Remote = device.DeviceID != by.DeviceID
		member := &list[place[userID]]
		member.Devices = append(member.Devices, device)
		return nil
	})
}
