package authz

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Load reads the snapshot of a principal, in one statement; found is false when there is none. Every write
// asks for it. Grants and memberships that have ended are left out.
func Load(tx storage.Tx, principalID string) (s *Snapshot, found bool, err error) {
	all, err := load(tx, loadOne, principalID, tx.Now())
	if err != nil {
		return nil, false, err
	}
	s, found = all[principalID]
	return s, found, nil
}

// LoadCaller reads the snapshot of who asks, for a decision of the same transaction. It refuses one that does not exist,
// and a person whose sign-in has ended or whose device was revoked: what other nodes still believe about a token when that
// was answered makes no difference to what is written after it (ES-8.5).
func LoadCaller(tx storage.Tx, by Caller) (*Snapshot, error) {
	all := map[string]*Snapshot{}
	err := tx.Query(loadCaller, []any{by.Principal, tx.Now(), by.SignIn}, func(row storage.Row) error { return scan(row, all) })
	if err != nil {
		return nil, fmt.Errorf("load permissions of the caller: %w", err)
	}
	s := all[by.Principal]
	switch {
	case s == nil || s.Principal.ID == "":
		return nil, fault.New(code.InvalidToken, "The account does not exist.")
	case s.Principal.Status == signedOut:
		return nil, fault.New(code.InvalidToken, "This sign-in has ended.")
	default:
		return s, nil
	}
}

// signedOut stands in for the status of a caller whose sign-in has ended.
const signedOut wire.Status = "signed out"

// LoadMany reads the snapshots of several principals, in one statement. Who does not exist is not in the answer.
func LoadMany(tx storage.Tx, principalIDs []string) (map[string]*Snapshot, error) {
	return load(tx, loadMany, principalIDs, tx.Now())
}

// asTold reads snapshots as they were told to their principals: what has ended counts until the sweep has
// ended it (Service.end). Ask them about the moment untold.
func asTold(tx storage.Tx, principalIDs []string) (map[string]*Snapshot, error) {
	return load(tx, loadMany, principalIDs, untold)
}

// untold is a moment at which nothing has ended.
var untold = time.UnixMicro(0).UTC()

// loadOne answers one row of the principal, with an empty target kind, and one for each level it was given:
// by a grant, by a group, and as the operator of a space. The space of a channel is a lookup of its own, so
// that no planner ever thinks of joining all channels.
const loadOne = `
SELECT p.id, p.kind, p.handle, p.display_name, p.status, p.version,
       (SELECT value FROM sequence_counters WHERE name = 'permission_version'), '', '', '', NULL, NULL
  FROM principals p WHERE p.id = $1
UNION ALL
SELECT g.subject_id, '', '', '', '', 0, 0, g.target_kind, g.target_id,
       CASE WHEN g.target_kind = 'channel' THEN coalesce((SELECT c.space_id FROM channels c WHERE c.id = g.target_id), '') ELSE '' END, g.level, g.expires_at
  FROM grants g
 WHERE g.subject_id = $1 AND g.subject_kind = 'principal' AND g.revoked_at IS NULL AND (g.expires_at IS NULL OR g.expires_at > $2)
UNION ALL
SELECT m.principal_id, '', '', '', '', 0, 0, g.target_kind, g.target_id,
       CASE WHEN g.target_kind = 'channel' THEN coalesce((SELECT c.space_id FROM channels c WHERE c.id = g.target_id), '') ELSE '' END, g.level,
       CASE WHEN m.expires_at IS NULL OR g.expires_at < m.expires_at THEN g.expires_at ELSE m.expires_at END
  FROM group_members m JOIN grants g ON g.subject_id = m.group_id AND g.subject_kind = 'group'
 WHERE m.principal_id = $1 AND (m.expires_at IS NULL OR m.expires_at > $2)
   AND g.revoked_at IS NULL AND (g.expires_at IS NULL OR g.expires_at > $2)
UNION ALL
SELECT operator_agent_id, '', '', '', '', 0, 0, 'space', id, '', 'trigger', NULL FROM spaces WHERE operator_agent_id = $1`

// loadCaller is loadOne with a status that says whether the caller's sign-in, if it is one of a person, still holds.
var loadCaller = strings.Replace(loadOne, "p.status", `CASE WHEN $3 = '' OR EXISTS (
           SELECT 1 FROM sign_ins i JOIN devices d ON d.id = i.device_id
            WHERE i.id = $3 AND i.revoked_at IS NULL AND d.deleted_at IS NULL AND d.state <> 'revoked') THEN p.status ELSE '`+string(signedOut)+`' END`, 1)

var loadMany = strings.ReplaceAll(loadOne, "= $1", "= ANY($1)")

func load(tx storage.Tx, query string, who any, after time.Time) (map[string]*Snapshot, error) {
	all := map[string]*Snapshot{}
	err := tx.Query(query, []any{who, after}, func(row storage.Row) error { return scan(row, all) })
	if err != nil {
		return nil, fmt.Errorf("load permissions: %w", err)
	}
	maps.DeleteFunc(all, func(_ string, s *Snapshot) bool { return s.Principal.ID == "" }) // granted, but nobody
	return all, nil
}

// scan takes a row in. The row of a principal may come after those of its grants.
func scan(row storage.Row, all map[string]*Snapshot) error {
	var p wire.Principal
	var version int64
	var kind, target, space string
	var level *string
	var ends *time.Time
	err := row.Scan(&p.ID, &p.Kind, &p.Handle, &p.DisplayName, &p.Status, &p.Version, &version, &kind, &target, &space, &level, &ends)
	if err != nil {
		return err
	}
	s := all[p.ID]
	if s == nil {
		s = &Snapshot{}
		all[p.ID] = s
	}
	if kind == "" {
		s.Principal, s.Version = p, version
		return nil
	}
	g := given{ends: ends}
	if level != nil {
		g.level = wire.Level(*level)
	}
	s.give(wire.TargetKind(kind), target, space, g)
	return nil
}

func (s *Snapshot) give(kind wire.TargetKind, target, space string, g given) {
	switch kind {
	case wire.TargetInstance:
		s.instance = append(s.instance, g)
	case wire.TargetSpace:
		add(&s.spaces, target, g)
	case wire.TargetChannel:
		if len(s.channels[target]) == 0 {
			add(&s.homes, space, target)
		}
		add(&s.channels, target, g)
	case wire.TargetHost:
		add(&s.hosts, target, g)
	}
}

func add[T any](to *map[string][]T, key string, value T) {
	if *to == nil {
		*to = make(map[string][]T)
	}
	(*to)[key] = append((*to)[key], value)
}
