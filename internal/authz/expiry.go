package authz

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cairnsync/cairn/internal/service"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// The actions of the audit log.
const (
	auditGrantExpire  = "grant:expire"
	auditMemberExpire = "group_member:expire"
)

// maxEnded is how many grants, and how many memberships, one transaction ends.
const maxEnded = 500

// ended is what has run out and still counts for what principals were told.
type ended struct {
	grants     []wire.Grant
	members    []membership
	principals []string // whom it touches
}

type membership struct{ group, principal string }

func (e ended) none() bool { return len(e.grants)+len(e.members) == 0 }

// readEnded finds what has run out, oldest first.
func readEnded(tx storage.Tx) (ended, error) {
	var e ended
	var err error
	e.grants, err = queryGrants(tx, ` WHERE revoked_at IS NULL AND expires_at <= $1 ORDER BY expires_at, id LIMIT $2`, tx.Now(), maxEnded)
	if err != nil {
		return ended{}, err
	}
	err = tx.Query(`SELECT group_id, principal_id FROM group_members WHERE expires_at <= $1 ORDER BY expires_at, group_id, principal_id LIMIT $2`,
		[]any{tx.Now(), maxEnded}, func(row storage.Row) error {
			var m membership
			err := row.Scan(&m.group, &m.principal)
			e.members = append(e.members, m)
			return err
		})
	if err != nil {
		return ended{}, fmt.Errorf("find ended memberships: %w", err)
	}
	for _, grant := range e.grants {
		ids, err := subjectPrincipals(tx, grant.Subject)
		if err != nil {
			return ended{}, err
		}
		e.principals = append(e.principals, ids...)
	}
	for _, m := range e.members {
		e.principals = append(e.principals, m.principal)
	}
	return e, nil
}

// end takes what has run out away, as the server's own action.
func (s *Service) end(tx storage.Tx, e ended) error {
	for _, grant := range e.grants {
		err := errors.Join(
			tx.Exec(`UPDATE grants SET revoked_at = expires_at WHERE id = $1`, grant.ID),
			s.audit(tx, System(), auditGrantExpire, "grant", grant.ID, grantDetail(grant)))
		if err != nil {
			return fmt.Errorf("end grant: %w", err)
		}
	}
	for _, m := range e.members {
		err := errors.Join(
			tx.Exec(`DELETE FROM group_members WHERE group_id = $1 AND principal_id = $2`, m.group, m.principal),
			tx.Exec(`UPDATE principal_groups SET version = version + 1 WHERE id = $1`, m.group),
			s.audit(tx, System(), auditMemberExpire, "group", m.group, map[string]string{"principal_id": m.principal}))
		if err != nil {
			return fmt.Errorf("end membership: %w", err)
		}
	}
	return nil
}

// Sweep writes into the log what has run out since the last time (ES-8.2), in small steps, and announces what
// will within notice. Decisions do not wait for it.
func (s *Service) Sweep(ctx context.Context, notice time.Duration) error {
	for {
		due, err := storage.Read(ctx, s.db, readEnded)
		if err != nil {
			return fmt.Errorf("look for ended grants: %w", err)
		}
		if due.none() {
			break
		}
		if err := s.Change(ctx, Plan{}); err != nil {
			return fmt.Errorf("end grants: %w", err)
		}
	}
	return s.announce(ctx, notice)
}

// SweeperOptions are what the sweeping needs.
type SweeperOptions struct {
	Authz *Service
	Log   *slog.Logger
	// Interval is authz.expiry_sweep_interval, Notice authz.expiry_notice.
	Interval, Notice time.Duration
}

// NewSweeper makes the service that sweeps from time to time.
func NewSweeper(options SweeperOptions) service.Service {
	return service.Every(options.Interval, func(ctx context.Context) {
		if err := options.Authz.Sweep(ctx, options.Notice); err != nil && ctx.Err() == nil {
			options.Log.Warn("end what has run out", "error", err)
		}
	})
}
