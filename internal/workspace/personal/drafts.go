package personal

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/idempotency"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace/place"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// PutDraft saves the caller's draft of a thread; the last write wins. A base_version older than the draft's
// answers overwrote_newer. An empty draft is deleted, and answered as such: no content, with the version of
// the deletion (ES-14).
func (s *Service) PutDraft(ctx context.Context, by authz.Caller, threadID string, ifMatch *int64, in wire.PutDraft) (wire.Draft, error) {
	id, err := place.PathID("Thread", threadID)
	if err != nil {
		return wire.Draft{}, err
	}
	if err := s.checkDraft(&in); err != nil {
		return wire.Draft{}, err
	}
	return storage.Write(ctx, s.DB, keys(by), func(tx storage.Tx) (wire.Draft, error) {
		t, err := thread(tx, by, action.PersonalWrite, id)
		if err != nil {
			return wire.Draft{}, err
		}
		return idempotency.OnceByID(tx, by.Key, func() (wire.Draft, error) {
			return s.putDraft(tx, by, &t, ifMatch, in)
		}, func(wire.Draft) string { return id }, func(id string) (wire.Draft, error) {
			draft, err := draftOf(tx, by.Principal, id)
			return draft.Draft, err
		})
	})
}

func (s *Service) putDraft(tx storage.Tx, by authz.Caller, t *place.Thread, ifMatch *int64, in wire.PutDraft) (wire.Draft, error) {
	old, err := draftOf(tx, by.Principal, t.ID)
	if err != nil {
		return wire.Draft{}, err
	}
	if err := place.RequireVersion(ifMatch, old.Version, &old.Draft); err != nil {
		return wire.Draft{}, err
	}
	overwrote := in.BaseVersion != nil && *in.BaseVersion < old.Version
	if strings.TrimSpace(in.ContentMD) == "" && len(in.FileIDs) == 0 {
		gone, err := s.deleteDraft(tx, by, t.Scope(), old)
		gone.OverwroteNewer = overwrote
		return gone, err
	}
	if !old.live {
		if err := roomForDraft(tx, by.Principal); err != nil {
			return wire.Draft{}, err
		}
	}
	draft := wire.Draft{
		ThreadID: t.ID, ContentMD: in.ContentMD, FileIDs: in.FileIDs, Version: old.Version + 1, UpdatedAt: tx.Now(), UpdatedByDeviceID: by.Device,
	}
	if err := storeDraft(tx, by, draft, false); err != nil {
		return wire.Draft{}, err
	}
	if err := s.tellDraft(tx, by, t.Scope(), draft); err != nil {
		return wire.Draft{}, err
	}
	draft.OverwroteNewer = overwrote
	return draft, nil
}

// checkDraft looks at the form only: whose the files are is asked when the message is sent.
func (s *Service) checkDraft(in *wire.PutDraft) error {
	if err := place.Text("/content_md", in.ContentMD, s.MaxChars); err != nil {
		return err
	}
	if len(in.FileIDs) > s.MaxAttachments {
		return fault.Invalid("/file_ids", "must name at most %d files", s.MaxAttachments)
	}
	var ids []string
	for i, id := range in.FileIDs {
		canonical, err := place.BodyID(fmt.Sprintf("/file_ids/%d", i), id)
		if err != nil {
			return err
		}
		ids = append(ids, canonical)
	}
	in.FileIDs = ids
	return nil
}

func roomForDraft(tx storage.Tx, principal string) error {
	var live int
	if _, err := tx.Get(`SELECT count(*) FROM drafts WHERE principal_id = $1 AND NOT deleted`, []any{principal}, &live); err != nil {
		return fmt.Errorf("count drafts: %w", err)
	}
	if live >= MaxDrafts {
		return fault.New(code.Conflict, "There are %d drafts; send or delete some first.", MaxDrafts)
	}
	return nil
}

// tellDraft writes draft.updated, without the text where that is too long for an event.
func (s *Service) tellDraft(tx storage.Tx, by authz.Caller, scope wire.Scope, draft wire.Draft) error {
	payload := wire.DraftEvent{Draft: draft}
	encoded, err := json.Marshal(payload)
	if err != nil {
		return fmt.Errorf("encode draft: %w", err)
	}
	truncated := len(encoded) > s.MaxPayload
	if truncated {
		payload.Draft.ContentMD = ""
	}
	return s.Log.Emit(tx, eventlog.Event{
		Type: eventlog.DraftUpdated, Actor: by.Actor(), Scope: scope, ResourceID: draft.ThreadID, ResourceVersion: draft.Version, Audience: by.Principal,
		Payload: payload, Truncated: truncated, CorrelationID: by.Correlation, TraceContext: by.Trace,
	})
}

// DeleteDraft deletes the caller's draft of a thread. Without one it does nothing.
func (s *Service) DeleteDraft(ctx context.Context, by authz.Caller, threadID string, ifMatch *int64) error {
	id, err := place.PathID("Thread", threadID)
	if err != nil {
		return err
	}
	return s.DB.Write(ctx, keys(by), func(tx storage.Tx) error {
		t, err := thread(tx, by, action.PersonalWrite, id)
		if err != nil {
			return err
		}
		_, err = idempotency.Once(tx, by.Key, func() (struct{}, error) {
			old, err := draftOf(tx, by.Principal, id)
			if err != nil {
				return struct{}{}, err
			}
			if err := place.RequireVersion(ifMatch, old.Version, &old.Draft); err != nil {
				return struct{}{}, err
			}
			_, err = s.deleteDraft(tx, by, t.Scope(), old)
			return struct{}{}, err
		})
		return err
	})
}

// ClearDraft deletes the caller's draft of the thread of scope in the transaction that sends its message, if
// there is one (clear_draft, ES-14). Callers who are no people have none.
func (s *Service) ClearDraft(tx storage.Tx, by authz.Caller, scope wire.Scope) error {
	if by.Kind != wire.KindUser {
		return nil
	}
	old, err := draftOf(tx, by.Principal, scope.ThreadID)
	if err != nil {
		return err
	}
	_, err = s.deleteDraft(tx, by, scope, old)
	return err
}

// deleteDraft empties a draft and keeps its row, so that the versions go on. Without a draft it changes nothing.
func (s *Service) deleteDraft(tx storage.Tx, by authz.Caller, scope wire.Scope, old storedDraft) (wire.Draft, error) {
	if !old.live {
		return old.Draft, nil
	}
	gone := wire.Draft{ThreadID: old.ThreadID, Version: old.Version + 1, UpdatedAt: tx.Now(), UpdatedByDeviceID: by.Device}
	if err := storeDraft(tx, by, gone, true); err != nil {
		return wire.Draft{}, err
	}
	return gone, s.tell(tx, by, eventlog.DraftDeleted, scope, gone.ThreadID, gone.Version, wire.DraftDeleted{
		ThreadID: gone.ThreadID, Version: gone.Version, UpdatedByDeviceID: by.Device,
	})
}

func storeDraft(tx storage.Tx, by authz.Caller, draft wire.Draft, deleted bool) error {
	files, err := list(draft.FileIDs)
	if err != nil {
		return err
	}
	err = tx.Exec(
		`INSERT INTO drafts (principal_id, thread_id, content_md, file_ids, deleted, updated_by_device_id, updated_at, version)
		 VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		 ON CONFLICT (principal_id, thread_id) DO UPDATE
		    SET content_md = excluded.content_md, file_ids = excluded.file_ids, deleted = excluded.deleted,
		        updated_by_device_id = excluded.updated_by_device_id, updated_at = excluded.updated_at, version = excluded.version`,
		by.Principal, draft.ThreadID, draft.ContentMD, files, deleted, optional(by.Device), draft.UpdatedAt, draft.Version)
	if err != nil {
		return fmt.Errorf("write draft: %w", err)
	}
	return nil
}

// list encodes a list of ids; the empty one is NULL.
func list(ids []string) (any, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	encoded, err := json.Marshal(ids)
	if err != nil {
		return nil, fmt.Errorf("encode ids: %w", err)
	}
	return string(encoded), nil
}

// storedDraft is a draft, or with live unset what is left of a deleted one; version 0 is one that never was.
type storedDraft struct {
	wire.Draft

	live bool
}

const draftColumns = `d.thread_id, d.content_md, d.file_ids, d.deleted, d.updated_by_device_id, d.updated_at, d.version`

func scanDraft(row storage.Row) (storedDraft, error) {
	var d storedDraft
	var files []byte
	var device *string
	var deleted bool
	if err := row.Scan(&d.ThreadID, &d.ContentMD, &files, &deleted, &device, &d.UpdatedAt, &d.Version); err != nil {
		return d, err
	}
	d.live, d.UpdatedByDeviceID = !deleted, value(device)
	if files == nil {
		return d, nil
	}
	if err := json.Unmarshal(files, &d.FileIDs); err != nil {
		return d, fmt.Errorf("decode file ids of a draft: %w", err)
	}
	return d, nil
}

func draftOf(tx storage.Tx, principal, threadID string) (storedDraft, error) {
	draft := storedDraft{Draft: wire.Draft{ThreadID: threadID, UpdatedAt: time.Unix(0, 0).UTC()}}
	err := tx.Query(`SELECT `+draftColumns+` FROM drafts d WHERE d.principal_id = $1 AND d.thread_id = $2`, []any{principal, threadID},
		func(row storage.Row) (err error) {
			draft, err = scanDraft(row)
			return err
		})
	if err != nil {
		return draft, fmt.Errorf("read draft: %w", err)
	}
	return draft, nil
}
