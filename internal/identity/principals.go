package identity

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/idempotency"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// The actions of this package that are written down, besides those of Shared Sessions.
const (
	actionPrincipalCreate  = "principal:create"
	actionPrincipalChange  = "principal:change"
	actionPrincipalDisable = "principal:disable"
	actionPrincipalEnable  = "principal:enable"
	actionDeviceApprove    = "device:approve"
)

// maxDisplayName is the longest name that is shown, in code points.
const maxDisplayName = 200

// Operator is the caller of the command line: it has the database in its hands, and nothing is refused to it.
func Operator() authz.Caller { return authz.System() }

// May answers nil when by may carry out an action that has no place: owners of the instance (WS-AZ-7), or
// what the table says of everybody; the operator always may. It decides from rows of the transaction.
func May(tx storage.Tx, by authz.Caller, a action.Action) error {
	_, err := authz.Check(tx, by, a, authz.Resource{})
	return err
}

const principalColumns = `id, kind, handle, display_name, status, version`

func principalFields(p *wire.Principal) []any {
	return []any{&p.ID, &p.Kind, &p.Handle, &p.DisplayName, &p.Status, &p.Version}
}

// ReadPrincipal reads a principal. Placeholders that an import made are not among them.
func ReadPrincipal(tx storage.Tx, id string) (wire.Principal, bool, error) {
	var principal wire.Principal
	found, err := tx.Get(`SELECT `+principalColumns+` FROM principals WHERE id = $1 AND source IS NULL`, []any{id}, principalFields(&principal)...)
	if err != nil {
		return wire.Principal{}, false, fmt.Errorf("read principal: %w", err)
	}
	return principal, found, nil
}

// insertPrincipal adds a principal with a handle that is free.
func insertPrincipal(tx storage.Tx, principal wire.Principal) error {
	rows, err := tx.Changed(
		`INSERT INTO principals (id, kind, handle, display_name, status, created_at) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`,
		principal.ID, principal.Kind, principal.Handle, principal.DisplayName, principal.Status, tx.Now())
	if err != nil {
		return fmt.Errorf("add principal: %w", err)
	}
	if rows == 0 {
		return handleTaken()
	}
	return nil
}

func handleTaken() error { return fault.New(code.Conflict, "This handle is taken.") }

// checkHandle answers validation_failed for what is no handle, and conflict for one that is taken.
func checkHandle(tx storage.Tx, handle string) error {
	if !handleForm.MatchString(handle) {
		return fault.Invalid("/handle", "has 2 to 32 of a-z, 0-9, dot, dash and underscore, with a letter or digit at both ends")
	}
	taken, err := tx.Get(`SELECT 1 FROM principals WHERE handle = $1`, []any{handle}, new(int))
	if err != nil {
		return fmt.Errorf("look for handle: %w", err)
	}
	if taken {
		return handleTaken()
	}
	return nil
}

func checkDisplayName(name string) error {
	if length := utf8.RuneCountInString(name); length < 1 || length > maxDisplayName || !printable(name) || strings.TrimSpace(name) == "" {
		return fault.Invalid("/display_name", "has 1 to %d printable characters", maxDisplayName)
	}
	return nil
}

// AddPrincipal adds an agent, an app or a person (WS-AZ-7). A person added this way has no API key yet and
// signs in with a login code. It needs owner on the instance.
func (s *Service) AddPrincipal(ctx context.Context, by authz.Caller, kind wire.Kind, request wire.NewPrincipal) (wire.Principal, error) {
	return storage.Write(ctx, s.db, []storage.Key{storage.ChangePermissions}, func(tx storage.Tx) (wire.Principal, error) {
		needed := action.AgentManage
		if kind == wire.KindUser {
			needed = action.UserManage
		}
		if err := May(tx, by, needed); err != nil {
			return wire.Principal{}, err
		}
		return idempotency.Once(tx, by.Key, func() (wire.Principal, error) { return s.addPrincipal(tx, by, kind, request) })
	})
}

func (s *Service) addPrincipal(tx storage.Tx, by authz.Caller, kind wire.Kind, request wire.NewPrincipal) (wire.Principal, error) {
	if err := checkDisplayName(request.DisplayName); err != nil {
		return wire.Principal{}, err
	}
	if err := checkHandle(tx, request.Handle); err != nil {
		return wire.Principal{}, err
	}
	principal := wire.Principal{
		ID: s.env.NewID(), Kind: kind, Handle: request.Handle, DisplayName: request.DisplayName, Status: wire.StatusActive, Version: 1,
	}
	switch kind {
	case wire.KindUser:
		var email *string
		if request.Email != "" {
			email = &request.Email
		}
		return principal, s.addPerson(tx, by, principal, request.Handle, email)
	case wire.KindAgent, wire.KindApp:
		if err := insertPrincipal(tx, principal); err != nil {
			return wire.Principal{}, err
		}
		return principal, s.note(tx, by, actionPrincipalCreate, principal)
	default:
		return wire.Principal{}, fault.Invalid("/kind", "is none of user, agent and app")
	}
}

// PrincipalPatch is what changes about a principal; nil stays as it is.
type PrincipalPatch struct {
	Handle      *string
	DisplayName *string
}

// PatchPrincipal changes handle or name of a principal and answers it. It needs owner on the instance.
func (s *Service) PatchPrincipal(ctx context.Context, by authz.Caller, id string, ifMatch *int64, patch PrincipalPatch) (wire.Principal, error) {
	return s.changePrincipal(ctx, by, id, func(tx storage.Tx, principal *wire.Principal) (string, error) {
		if ifMatch != nil && *ifMatch != principal.Version {
			return "", fault.Stale(*principal)
		}
		if patch.Handle != nil && *patch.Handle != principal.Handle {
			if err := checkHandle(tx, *patch.Handle); err != nil {
				return "", err
			}
			principal.Handle = *patch.Handle
		}
		if patch.DisplayName != nil {
			if err := checkDisplayName(*patch.DisplayName); err != nil {
				return "", err
			}
			principal.DisplayName = *patch.DisplayName
		}
		return actionPrincipalChange, nil
	})
}

// EnablePrincipal lets a disabled principal act again, and approves a person who waits for it. A person signs
// in anew. Again is no error.
func (s *Service) EnablePrincipal(ctx context.Context, by authz.Caller, id string) (wire.Principal, error) {
	return s.changePrincipal(ctx, by, id, func(tx storage.Tx, principal *wire.Principal) (string, error) {
		principal.Status = wire.StatusActive
		if principal.Kind != wire.KindUser {
			return actionPrincipalEnable, nil
		}
		if err := tx.Exec(`UPDATE users SET disabled_at = NULL WHERE id = $1`, principal.ID); err != nil {
			return "", fmt.Errorf("enable user: %w", err)
		}
		return actionPrincipalEnable, nil
	})
}

// DisablePrincipal shuts a principal out at once (ES-8.5). A person loses every sign-in and key; the last
// owner of the instance stays (last_owner). Again is no error.
func (s *Service) DisablePrincipal(ctx context.Context, by authz.Caller, id string) (wire.Principal, error) {
	kind, err := s.kindOf(ctx, id)
	if err != nil {
		return wire.Principal{}, err
	}
	if kind == wire.KindUser {
		return s.disablePerson(ctx, by, id)
	}
	return s.changePrincipal(ctx, by, id, func(_ storage.Tx, principal *wire.Principal) (string, error) {
		principal.Status = wire.StatusDisabled
		return actionPrincipalDisable, nil
	})
}

func (s *Service) kindOf(ctx context.Context, id string) (wire.Kind, error) {
	canonical, ok := env.ParseID(id)
	if !ok {
		return "", fault.Missing("Principal")
	}
	principal, err := storage.Read(ctx, s.db, func(tx storage.Tx) (wire.Principal, error) {
		principal, found, err := ReadPrincipal(tx, canonical)
		if err == nil && !found {
			err = fault.Missing("Principal")
		}
		return principal, err
	})
	return principal.Kind, err
}

// changePrincipal runs change on a principal as a permission change, and writes it when something differs.
func (s *Service) changePrincipal(
	ctx context.Context, by authz.Caller, id string, change func(storage.Tx, *wire.Principal) (audited string, err error),
) (wire.Principal, error) {
	canonical, ok := env.ParseID(id)
	if !ok {
		return wire.Principal{}, fault.Missing("Principal")
	}
	keys := append(userKeys(canonical), storage.ChangePermissions)
	return storage.Write(ctx, s.db, keys, func(tx storage.Tx) (wire.Principal, error) {
		principal, found, err := ReadPrincipal(tx, canonical)
		if err != nil {
			return wire.Principal{}, err
		}
		if err := s.mayChange(tx, by, principal, found); err != nil {
			return wire.Principal{}, err
		}
		return idempotency.Once(tx, by.Key, func() (wire.Principal, error) { return s.applyChange(tx, by, principal, change) })
	})
}

func (s *Service) mayChange(tx storage.Tx, by authz.Caller, principal wire.Principal, found bool) error {
	needed := action.UserManage
	if principal.Kind != wire.KindUser {
		needed = action.AgentManage
	}
	err := May(tx, by, needed)
	if err == nil && !found {
		return fault.Missing("Principal")
	}
	return err
}

func (s *Service) applyChange(
	tx storage.Tx, by authz.Caller, principal wire.Principal, change func(storage.Tx, *wire.Principal) (string, error),
) (wire.Principal, error) {
	changed := principal
	err := s.permissions.ChangeIn(tx, authz.Plan{
		Actor: actorOf(by), Correlation: by.Correlation,
		Affected: func(storage.Tx) ([]string, error) { return []string{principal.ID}, nil },
		Change: func(tx storage.Tx) error {
			audited, err := change(tx, &changed)
			if err != nil || changed == principal {
				return err
			}
			return s.storePrincipal(tx, by, &changed, audited)
		},
	})
	return changed, err
}

// storePrincipal writes a changed principal, with its event and its audit row.
func (s *Service) storePrincipal(tx storage.Tx, by authz.Caller, principal *wire.Principal, audited string) error {
	principal.Version++
	err := tx.Exec(`UPDATE principals SET handle = $2, display_name = $3, status = $4, version = $5 WHERE id = $1`,
		principal.ID, principal.Handle, principal.DisplayName, principal.Status, principal.Version)
	if err != nil {
		return fmt.Errorf("change principal: %w", err)
	}
	err = s.log.Emit(tx, eventlog.Event{
		Type: eventlog.PrincipalUpdated, Actor: actorOf(by), ResourceID: principal.ID, ResourceVersion: principal.Version,
		Payload: wire.PrincipalEvent{Principal: *principal}, CorrelationID: by.Correlation, TraceContext: by.Trace,
	})
	if err != nil {
		return err
	}
	s.wakeAfter(tx)
	return s.note(tx, by, audited, *principal)
}

func (s *Service) note(tx storage.Tx, by authz.Caller, audited string, principal wire.Principal) error {
	return audit.Write(tx, s.env, audit.Entry{
		UserID: by.AuditID(), DeviceID: by.Device, Action: audited, TargetKind: string(principal.Kind), TargetID: principal.ID,
		Detail: map[string]string{"handle": principal.Handle, "status": string(principal.Status)},
	})
}

// actorOf is by as events name it.
func actorOf(by authz.Caller) wire.Actor {
	if by.Kind == wire.KindSystem || by.Principal == "" {
		return wire.Actor{Kind: wire.KindSystem}
	}
	return by.Actor()
}

// ListPrincipals answers the principals of some kinds, by handle, from behind after on, at most limit.
// Placeholders that an import made are not among them. Whoever calls it decides who may see them.
func ListPrincipals(tx storage.Tx, kinds []wire.Kind, after string, limit int) ([]wire.Principal, error) {
	principals := []wire.Principal{}
	err := tx.Query(
		`SELECT `+principalColumns+` FROM principals WHERE kind = ANY($1) AND source IS NULL AND handle > $2 ORDER BY handle LIMIT $3`,
		[]any{kinds, after, limit}, func(row storage.Row) error {
			var principal wire.Principal
			err := row.Scan(principalFields(&principal)...)
			principals = append(principals, principal)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("list principals: %w", err)
	}
	return principals, nil
}
