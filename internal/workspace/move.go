package workspace

import (
	"context"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace/place"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// MoveThread moves a thread to another channel, with everything in it; the caller manages both. In a forum it
// becomes a post, in a text channel a thread. Who sees the target hears thread.moved there, who sees the
// source thread.moved_out there. Safe to repeat. ifMatch is honoured.
func (s *Service) MoveThread(ctx context.Context, by authz.Caller, id string, ifMatch *int64, in wire.MoveThread) (wire.Thread, error) {
	targetID, err := place.BodyID("/channel_id", in.ChannelID)
	if err != nil {
		return wire.Thread{}, err
	}
	if id, err = place.PathID("Thread", id); err != nil {
		return wire.Thread{}, err
	}
	keys := []storage.Key{{Lock: storage.LockThreads, ID: id}, by.Lock(), {Lock: storage.LockChannels, ID: targetID}}
	return storage.Write(ctx, s.db, keys, func(tx storage.Tx) (wire.Thread, error) {
		thread, target, err := authorizedMove(tx, by, id, targetID)
		if err != nil {
			return wire.Thread{}, err
		}
		return onceThread(tx, by, func() (wire.Thread, error) {
			if err := place.RequireVersion(ifMatch, thread.Version, thread.Thread); err != nil {
				return wire.Thread{}, err
			}
			return s.move(tx, by, thread, target)
		})
	})
}

// authorizedMove reads the thread and the channel it should go to. A target the caller does not see is none.
func authorizedMove(tx storage.Tx, by authz.Caller, id, targetID string) (PlacedThread, PlacedChannel, error) {
	thread, found, err := ThreadPlace(tx, id)
	if err != nil {
		return thread, PlacedChannel{}, err
	}
	snapshot, err := authorized(tx, by, action.ThreadRead, "Thread", thread.Place, found)
	if err != nil {
		return thread, PlacedChannel{}, err
	}
	target, found, err := ChannelPlace(tx, targetID)
	if err != nil {
		return thread, target, err
	}
	resource := authz.Resource{What: "Channel", Place: target.Place()}
	if sees, _ := snapshot.May(action.ChannelRead, &resource, tx.Now()); !found || !sees {
		return thread, target, unknown("/channel_id", "channel")
	}
	for _, at := range []authz.Place{thread.Place, target.Place()} {
		if err := authz.Authorize(snapshot, by, action.ThreadMove, authz.Resource{What: "Channel", Place: at}, tx.Now()); err != nil {
			return thread, target, err
		}
	}
	return thread, target, nil
}

func (s *Service) move(tx storage.Tx, by authz.Caller, thread PlacedThread, target PlacedChannel) (wire.Thread, error) {
	kind := wire.ThreadThread
	if target.Kind == wire.ChannelForum {
		kind = wire.ThreadPost
	}
	switch {
	case thread.Kind == wire.ThreadMain:
		return wire.Thread{}, fault.New(code.Conflict, "The main timeline of a channel does not move.")
	case target.ID == thread.ChannelID:
		return thread.Thread, nil
	case kind == wire.ThreadPost && thread.Title == "":
		return wire.Thread{}, fault.New(code.Conflict, "A post needs a title: give the thread one first.")
	}
	source := thread.Scope()
	thread.ChannelID, thread.ChannelKind, thread.Kind, thread.Place = target.ID, target.Kind, kind, target.Place()
	thread.Version++
	if err := storeThread(tx, &thread); err != nil {
		return wire.Thread{}, err
	}
	detail := map[string]string{"from": source.ChannelID, "to": target.ID}
	if err := s.audit(tx, by, auditThreadMove, "thread", thread.ID, detail); err != nil {
		return wire.Thread{}, err
	}
	if err := s.tellThread(tx, by, eventlog.ThreadMoved, &thread); err != nil {
		return wire.Thread{}, err
	}
	left := wire.ThreadMovedOut{ThreadID: thread.ID, ChannelID: source.ChannelID}
	out := wire.Scope{SpaceID: source.SpaceID, ChannelID: source.ChannelID}
	return thread.Thread, s.log.Emit(tx, event(by, eventlog.ThreadMovedOut, out, source.ChannelID, 0, left))
}
