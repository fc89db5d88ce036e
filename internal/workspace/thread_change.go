package workspace

import (
	"context"
	"fmt"

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

// changeThread authorises, looks for a repeat and for the version, and hands the thread to change, which
// answers the event that tells of it, "" when everything stays as it is. The thread is written with its next
// version.
func (s *Service) changeThread(
	ctx context.Context, by authz.Caller, id string, ifMatch *int64, change func(thread *PlacedThread) (string, error),
) (wire.Thread, error) {
	id, err := place.PathID("Thread", id)
	if err != nil {
		return wire.Thread{}, err
	}
	keys := []storage.Key{{Lock: storage.LockThreads, ID: id}, by.Lock()}
	return storage.Write(ctx, s.db, keys, func(tx storage.Tx) (wire.Thread, error) {
		thread, _, err := AuthorizedThread(tx, by, action.ThreadWrite, id)
		if err != nil {
			return wire.Thread{}, err
		}
		return onceThread(tx, by, func() (wire.Thread, error) {
			if err := place.RequireVersion(ifMatch, thread.Version, thread.Thread); err != nil {
				return wire.Thread{}, err
			}
			kind, err := change(&thread)
			if err != nil || kind == "" {
				return thread.Thread, err
			}
			thread.Version++
			if err := storeThread(tx, &thread); err != nil {
				return wire.Thread{}, err
			}
			return thread.Thread, s.tellThread(tx, by, kind, &thread)
		})
	})
}

func onceThread(tx storage.Tx, by authz.Caller, change func() (wire.Thread, error)) (wire.Thread, error) {
	id := func(t wire.Thread) string { return t.ID }
	return idempotency.OnceByID(tx, by.Key, change, id, func(id string) (wire.Thread, error) {
		thread, _, err := ThreadPlace(tx, id)
		return thread.Thread, err
	})
}

// storeThread writes what may change of a thread. Its row was read under its lock.
func storeThread(tx storage.Tx, thread *PlacedThread) error {
	err := tx.Exec(`UPDATE threads SET channel_id = $2, kind = $3, title = $4, state = $5, last_message_seq = $6, message_count = $7,
			last_activity_at = $8, version = $9 WHERE id = $1`,
		thread.ID, thread.ChannelID, thread.Kind, optional(thread.Title), thread.State, thread.LastMessageSeq, thread.MessageCount,
		thread.LastActivityAt, thread.Version)
	if err != nil {
		return fmt.Errorf("change thread: %w", err)
	}
	return nil
}

// PatchThread renames a thread. ifMatch is honoured.
func (s *Service) PatchThread(ctx context.Context, by authz.Caller, id string, ifMatch *int64, in wire.PatchThread) (wire.Thread, error) {
	if in.Title != nil {
		if err := checkName("/title", *in.Title, maxTitle); err != nil {
			return wire.Thread{}, err
		}
	}
	clears, err := checkClear(in.Clear, "title", in.Title != nil)
	if err != nil {
		return wire.Thread{}, err
	}
	return s.changeThread(ctx, by, id, ifMatch, func(thread *PlacedThread) (string, error) {
		title := thread.Title
		if in.Title != nil {
			title = *in.Title
		}
		if clears {
			title = ""
		}
		switch {
		case title == thread.Title:
			return "", nil
		case thread.Kind == wire.ThreadMain:
			return "", fault.New(code.Conflict, "The main timeline of a channel has no title.")
		case title == "" && thread.Kind == wire.ThreadPost:
			return "", fault.New(code.Conflict, "A post needs a title.")
		}
		thread.Title = title
		return eventlog.ThreadUpdated, nil
	})
}

// CloseThread marks a thread done. Safe to repeat. ifMatch is honoured.
func (s *Service) CloseThread(ctx context.Context, by authz.Caller, id string, ifMatch *int64) (wire.Thread, error) {
	return s.changeThread(ctx, by, id, ifMatch, func(thread *PlacedThread) (string, error) {
		switch {
		case thread.Kind == wire.ThreadMain:
			return "", fault.New(code.Conflict, "The main timeline of a channel is never done.")
		case thread.State == wire.ThreadDone:
			return "", nil
		}
		thread.State = wire.ThreadDone
		return eventlog.ThreadClosed, nil
	})
}

// ReopenThread takes a CloseThread back. Safe to repeat. ifMatch is honoured.
func (s *Service) ReopenThread(ctx context.Context, by authz.Caller, id string, ifMatch *int64) (wire.Thread, error) {
	return s.changeThread(ctx, by, id, ifMatch, func(thread *PlacedThread) (string, error) {
		if thread.State == wire.ThreadOpen {
			return "", nil
		}
		thread.State = wire.ThreadOpen
		return eventlog.ThreadReopened, nil
	})
}
