package personal

import (
	"context"
	"fmt"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace/place"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Draft answers the caller's draft of a thread; without one it is not_found.
func (s *Service) Draft(ctx context.Context, by authz.Caller, threadID string) (wire.Draft, error) {
	id, err := place.PathID("Thread", threadID)
	if err != nil {
		return wire.Draft{}, err
	}
	return storage.Read(ctx, s.DB, func(tx storage.Tx) (wire.Draft, error) {
		if _, err := thread(tx, by, action.PersonalRead, id); err != nil {
			return wire.Draft{}, err
		}
		draft, err := draftOf(tx, by.Principal, id)
		if err == nil && !draft.live {
			err = fault.Missing("Draft")
		}
		return draft.Draft, err
	})
}

// Drafts lists the caller's drafts of threads it may read.
func (s *Service) Drafts(ctx context.Context, by authz.Caller, p place.Paging) (wire.Page[wire.Draft], error) {
	after, err := p.AfterID()
	if err != nil {
		return wire.Page[wire.Draft]{}, err
	}
	return storage.Read(ctx, s.DB, func(tx storage.Tx) (wire.Page[wire.Draft], error) {
		snapshot, err := person(tx, by, action.SelfRead)
		if err != nil {
			return wire.Page[wire.Draft]{}, err
		}
		drafts := []wire.Draft{}
		args := append([]any{by.Principal}, place.VisibleArgs(tx, snapshot)...)
		err = tx.Query(listDraftsQuery, append(args, after, p.Size()+1), func(row storage.Row) error {
			draft, err := scanDraft(row)
			drafts = append(drafts, draft.Draft)
			return err
		})
		if err != nil {
			return wire.Page[wire.Draft]{}, fmt.Errorf("read drafts: %w", err)
		}
		return place.Page(drafts, p.Size(), func(d wire.Draft) string { return d.ThreadID }), nil
	})
}

const readableDrafts = ` FROM drafts d JOIN threads t ON t.id = d.thread_id JOIN channels c ON c.id = t.channel_id
	WHERE d.principal_id = $1 AND NOT d.deleted AND `

var (
	listDraftsQuery    = `SELECT ` + draftColumns + readableDrafts + place.Visible("c", 2) + ` AND d.thread_id > $5 ORDER BY d.thread_id LIMIT $6`
	draftVersionsQuery = `SELECT d.thread_id, d.version` + readableDrafts + place.Visible("c", 2)
)

// DraftVersions answers the versions of a person's drafts by thread, of readable threads: what a snapshot
// holds of them.
func DraftVersions(tx storage.Tx, s *authz.Snapshot) (map[string]int64, error) {
	return versions(tx, draftVersionsQuery, append([]any{s.Principal.ID}, place.VisibleArgs(tx, s)...))
}

func versions(tx storage.Tx, query string, args []any) (map[string]int64, error) {
	all := map[string]int64{}
	err := tx.Query(query, args, func(row storage.Row) error {
		var id string
		var version int64
		err := row.Scan(&id, &version)
		all[id] = version
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read versions: %w", err)
	}
	return all, nil
}
