package identity

import (
	"context"
	"fmt"
	"slices"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Principals lists the principals of a kind whom the caller sees (WS-AZ-7), by handle, from behind after on,
// at most limit, and whether there are more. Placeholders that an import made are not among them.
func (s *Service) Principals(
	ctx context.Context, by authz.Caller, kind wire.Kind, after string, limit int,
) (principals []wire.Principal, more bool, err error) {
	err = s.db.Read(ctx, func(tx storage.Tx) error {
		snapshot, err := authz.Check(tx, by, action.SelfRead, authz.Resource{})
		if err != nil {
			return err
		}
		everybody := snapshot.SeesEverything(tx.Now())
		var seen []string
		if !everybody {
			if seen, err = authz.Sharers(tx, snapshot); err != nil {
				return err
			}
		}
		principals, err = queryPrincipals(tx, `WHERE kind = $1 AND source IS NULL AND handle > $2 AND ($3 OR id = ANY($4)) ORDER BY handle LIMIT $5`,
			string(kind), after, everybody, seen, limit+1)
		return err
	})
	if len(principals) > limit {
		principals, more = principals[:limit], true
	}
	return principals, more, err
}

func queryPrincipals(tx storage.Tx, condition string, args ...any) ([]wire.Principal, error) {
	principals := []wire.Principal{}
	err := tx.Query(`SELECT `+principalColumns+` FROM principals `+condition, args, func(row storage.Row) error {
		var principal wire.Principal
		err := row.Scan(principalFields(&principal)...)
		principals = append(principals, principal)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read principals: %w", err)
	}
	return principals, nil
}

// AgentsOf answers the agents whom the principal of a snapshot sees: what a snapshot document holds of them.
func AgentsOf(tx storage.Tx, snapshot *authz.Snapshot) ([]wire.Principal, error) {
	agents, err := queryPrincipals(tx, `WHERE kind = 'agent' AND source IS NULL ORDER BY handle`)
	if err != nil || len(agents) == 0 {
		return agents, err
	}
	// There are few agents, and each connection asks: who shares a channel with all the people is not looked for.
	ids := make([]string, len(agents))
	for i := range agents {
		ids[i] = agents[i].ID
	}
	theirs, err := authz.LoadMany(tx, ids)
	if err != nil {
		return nil, err
	}
	now := tx.Now()
	everything := snapshot.SeesEverything(now)
	return slices.DeleteFunc(agents, func(agent wire.Principal) bool {
		other := theirs[agent.ID]
		return !everything && (other == nil || !authz.Share(snapshot, other, now))
	}), nil
}

// PrincipalSeen answers a principal of a kind whom the caller sees.
func (s *Service) PrincipalSeen(ctx context.Context, by authz.Caller, kind wire.Kind, id string) (wire.Principal, error) {
	return storage.Read(ctx, s.db, func(tx storage.Tx) (wire.Principal, error) {
		named, err := queryPrincipals(tx, `WHERE id = $1 AND kind = $2`, id, string(kind)) // also an author of an import
		if err != nil {
			return wire.Principal{}, err
		}
		found, shared := len(named) > 0, false
		if found {
			if shared, err = authz.SeesPrincipal(tx, by, id); err != nil {
				return wire.Principal{}, err
			}
		}
		if found && !shared {
			if shared, err = importedNearby(tx, by, id); err != nil {
				return wire.Principal{}, err
			}
		}
		if _, err := authz.Check(tx, by, action.PrincipalRead, authz.Resource{What: "Principal", Owner: id, Shared: shared}); err != nil {
			return wire.Principal{}, err
		}
		if !found { // who sees everybody sees also that nobody is there
			return wire.Principal{}, fault.Missing("Principal")
		}
		return named[0], nil
	})
}

// Me answers the caller, its device if it has one, and what it sees.
func (s *Service) Me(ctx context.Context, by authz.Caller) (wire.Me, error) {
	return storage.Read(ctx, s.db, func(tx storage.Tx) (wire.Me, error) {
		snapshot, err := authz.Check(tx, by, action.SelfRead, authz.Resource{})
		if err != nil {
			return wire.Me{}, err
		}
		me := wire.Me{Principal: snapshot.Principal}
		if me.Access, err = authz.Visible(tx, snapshot); err != nil {
			return wire.Me{}, err
		}
		if me.Access == nil {
			me.Access = []wire.Access{}
		}
		if by.Device == "" {
			return me, nil
		}
		device, found, err := ReadDevice(tx, by.Device)
		if found {
			me.Device = &device
		}
		return me, err
	})
}
