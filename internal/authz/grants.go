package authz

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// The actions of the audit log.
const (
	auditGrantCreate = "grant:create"
	auditGrantRevoke = "grant:revoke"
)

// CreateGrant gives a subject a level on a target, or the capability of a host. The caller owns the target.
// A subject or target that does not exist, or that the caller does not see, is validation_failed (WS-AZ-5).
func (s *Service) CreateGrant(ctx context.Context, by Caller, in wire.NewGrant) (wire.Grant, error) {
	if err := checkGrant(&in); err != nil {
		return wire.Grant{}, err
	}
	return ChangeOnce(ctx, s, by, func(tx storage.Tx) ([]string, error) {
		if err := s.mayGrant(tx, by, in.Target, fault.Invalid("/target/id", "there is no such %s", in.Target.Kind)); err != nil {
			return nil, err
		}
		return subjectPrincipals(tx, in.Subject)
	}, func(tx storage.Tx) (wire.Grant, error) {
		if err := requireSubject(tx, by, in.Subject); err != nil {
			return wire.Grant{}, err
		}
		if in.ExpiresAt != nil && !in.ExpiresAt.After(tx.Now()) {
			return wire.Grant{}, fault.Invalid("/expires_at", "it must be in the future")
		}
		grant := wire.Grant{
			ID: s.env.NewID(), Subject: in.Subject, Target: in.Target, Level: in.Level, Capabilities: in.Capabilities,
			CreatedAt: tx.Now(), ExpiresAt: in.ExpiresAt,
		}
		if err := insertGrant(tx, by.AuditID(), grant); err != nil {
			return wire.Grant{}, err
		}
		return grant, s.audit(tx, by, auditGrantCreate, "grant", grant.ID, grantDetail(grant))
	})
}

// checkGrant checks the form of a grant and makes its ids and its time canonical.
func checkGrant(in *wire.NewGrant) error {
	switch in.Target.Kind {
	case wire.TargetInstance:
		if in.Target.ID != "" {
			return fault.Invalid("/target/id", "the instance has none")
		}
	case wire.TargetSpace, wire.TargetChannel, wire.TargetHost:
		if !canonical(&in.Target.ID) {
			return fault.Invalid("/target/id", "it must be a UUID")
		}
	default:
		return fault.Invalid("/target/kind", "it must be instance, space, channel or host")
	}
	if in.Subject.Kind != wire.SubjectPrincipal && in.Subject.Kind != wire.SubjectGroup {
		return fault.Invalid("/subject/kind", "it must be principal or group")
	}
	if !canonical(&in.Subject.ID) {
		return fault.Invalid("/subject/id", "it must be a UUID")
	}
	in.ExpiresAt = micros(in.ExpiresAt)
	if in.Target.Kind == wire.TargetHost {
		if in.Level != wire.LevelNone {
			return fault.Invalid("/level", "a host has capabilities instead")
		}
		if !slices.Equal(in.Capabilities, []string{capTerminal}) {
			return fault.Invalid("/capabilities", "it must be [%q]", capTerminal)
		}
		return nil
	}
	if in.Capabilities != nil {
		return fault.Invalid("/capabilities", "only hosts have them")
	}
	if in.Level.Rank() == 0 {
		return fault.Invalid("/level", "it must be read, write, trigger, manage or owner")
	}
	return nil
}

func canonical(id *string) bool {
	parsed, ok := env.ParseID(*id)
	*id = parsed
	return ok
}

// micros is a time as the database keeps it.
func micros(at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	cut := at.UTC().Truncate(time.Microsecond)
	return &cut
}

// mayGrant demands that the caller owns the target; unseen is what it is told of a target that it does not see.
func (s *Service) mayGrant(tx storage.Tx, by Caller, target wire.Target, unseen error) error {
	resource, found, err := targetResource(tx, target)
	if err != nil {
		return err
	}
	if !found {
		return unseen
	}
	_, err = Check(tx, by, action.GrantManage, resource)
	if fault.Is(err, code.NotFound) {
		return unseen
	}
	return err
}

// targetResource answers the target of a grant as the resource of an action.
func targetResource(tx storage.Tx, target wire.Target) (r Resource, found bool, err error) {
	switch target.Kind {
	case wire.TargetSpace:
		r.What = "Space"
		r.Place, found, err = SpacePlace(tx, target.ID)
	case wire.TargetChannel:
		r.What = "Channel"
		r.Place, found, err = ChannelPlace(tx, target.ID)
	case wire.TargetInstance:
		r.What, found = "Instance", true
	case wire.TargetHost: // hosts are of another part of the surface; none is known
	}
	return r, found, err
}

// requireSubject demands that the subject exists and that the caller sees it.
func requireSubject(tx storage.Tx, by Caller, subject wire.Subject) error {
	unseen := fault.Invalid("/subject/id", "there is no such %s", subject.Kind)
	if subject.Kind == wire.SubjectGroup {
		_, found, err := readGroup(tx, subject.ID)
		if err == nil && !found {
			err = unseen
		}
		return err
	}
	seen, err := SeesPrincipal(tx, by, subject.ID)
	if err == nil && !seen {
		err = unseen
	}
	return err
}

// RevokeGrant ends a grant; one that has ended stays as it is. The caller owns its target.
func (s *Service) RevokeGrant(ctx context.Context, by Caller, id string) (wire.Grant, error) {
	missing := fault.Missing("Grant")
	if !canonical(&id) {
		return wire.Grant{}, missing
	}
	var grant wire.Grant
	revoked, err := ChangeOnce(ctx, s, by, func(tx storage.Tx) ([]string, error) {
		var found bool
		var err error
		if grant, found, err = readGrant(tx, id); err != nil {
			return nil, err
		}
		if !found {
			return nil, missing
		}
		if err := s.mayGrant(tx, by, grant.Target, missing); err != nil {
			return nil, err
		}
		if grant.RevokedAt != nil {
			return nil, ErrUnchanged
		}
		return subjectPrincipals(tx, grant.Subject)
	}, func(tx storage.Tx) (wire.Grant, error) {
		if grant, _, err := readGrant(tx, id); err != nil || grant.RevokedAt != nil { // its time was over, which has just been noted
			return grant, err
		}
		now := tx.Now()
		grant.RevokedAt = &now
		if err := tx.Exec(`UPDATE grants SET revoked_at = $2 WHERE id = $1`, id, now); err != nil {
			return wire.Grant{}, fmt.Errorf("revoke grant: %w", err)
		}
		return grant, s.audit(tx, by, auditGrantRevoke, "grant", id, grantDetail(grant))
	})
	if err == nil && revoked.ID == "" { // it was revoked before
		return grant, nil
	}
	return revoked, err
}

// GrantFilter chooses grants. The zero value is all of them.
type GrantFilter struct {
	Target  *wire.Target
	Subject *wire.Subject
	After   string // the id of the last grant of the page before
	Limit   int    // at most MaxPage; 0 is MaxPage
}

// MaxPage is the longest list that is answered at once.
const MaxPage = 100

// ListGrants answers grants in force, oldest first, and whether there are more. Who asks owns the target, or
// the instance, or asks for its own.
func (s *Service) ListGrants(ctx context.Context, by Caller, filter GrantFilter) (grants []wire.Grant, more bool, err error) {
	filter.Limit = pageLimit(filter.Limit)
	err = s.db.Read(ctx, func(tx storage.Tx) error {
		grants, more = []wire.Grant{}, false
		if err := mayList(tx, by, filter); err != nil {
			return err
		}
		target, subject := wire.Target{}, wire.Subject{}
		if filter.Target != nil {
			target = *filter.Target
		}
		if filter.Subject != nil {
			subject = *filter.Subject
		}
		grants, err = queryGrants(tx, ` WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $1) AND id > $2
		   AND ($3 = '' OR target_kind = $3 AND target_id = $4) AND ($5 = '' OR subject_kind = $5 AND subject_id = $6)
		  ORDER BY id LIMIT $7`, tx.Now(), filter.After, target.Kind, target.ID, subject.Kind, subject.ID, filter.Limit+1)
		if len(grants) > filter.Limit {
			grants, more = grants[:filter.Limit], true
		}
		return err
	})
	return grants, more, err
}

func mayList(tx storage.Tx, by Caller, filter GrantFilter) error {
	if filter.Subject != nil && *filter.Subject == (wire.Subject{Kind: wire.SubjectPrincipal, ID: by.Principal}) {
		_, err := Check(tx, by, action.SelfRead, Resource{})
		return err
	}
	if filter.Target == nil {
		_, err := Check(tx, by, action.GrantRead, Resource{What: "Instance"})
		return err
	}
	resource, found, err := targetResource(tx, *filter.Target)
	if err != nil {
		return err
	}
	if !found {
		return fault.Missing(unseenTarget)
	}
	resource.What = unseenTarget // what is not seen reads like what is not there
	_, err = Check(tx, by, action.GrantRead, resource)
	return err
}

const unseenTarget = "Target"

func readGrant(tx storage.Tx, id string) (wire.Grant, bool, error) {
	grants, err := queryGrants(tx, ` WHERE id = $1`, id)
	if err != nil || len(grants) == 0 {
		return wire.Grant{}, false, err
	}
	return grants[0], true, nil
}

func queryGrants(tx storage.Tx, condition string, args ...any) ([]wire.Grant, error) {
	grants := []wire.Grant{}
	err := tx.Query(
		`SELECT id, subject_kind, subject_id, target_kind, target_id, coalesce(level, ''), created_at, expires_at, revoked_at FROM grants`+condition,
		args, func(row storage.Row) error {
			var g wire.Grant
			err := row.Scan(&g.ID, &g.Subject.Kind, &g.Subject.ID, &g.Target.Kind, &g.Target.ID, &g.Level, &g.CreatedAt, &g.ExpiresAt, &g.RevokedAt)
			if g.Level == wire.LevelNone {
				g.Capabilities = []string{capTerminal}
			}
			grants = append(grants, g)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("read grants: %w", err)
	}
	return grants, nil
}

func grantDetail(g wire.Grant) map[string]any {
	detail := map[string]any{"subject": g.Subject, "target": g.Target}
	if g.Level != wire.LevelNone {
		detail["level"] = g.Level
	}
	if len(g.Capabilities) > 0 {
		detail["capabilities"] = g.Capabilities
	}
	if g.ExpiresAt != nil {
		detail["expires_at"] = g.ExpiresAt
	}
	return detail
}

func (s *Service) audit(tx storage.Tx, by Caller, act, kind, id string, detail any) error {
	err := audit.Write(tx, s.env, audit.Entry{
		UserID: by.AuditID(), DeviceID: by.Device, Action: act, TargetKind: kind, TargetID: id, Detail: detail,
	})
	if err != nil {
		return fmt.Errorf("audit %s: %w", act, err)
	}
	return nil
}
