package workspace

import (
	"context"
	"fmt"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace/place"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// StartThread makes a thread of a text channel, or a post of a forum, with its first message. It answers
// both, and whether they are those that an earlier request with the same client_msg_id made: then nothing
// happens.
func (s *Service) StartThread(ctx context.Context, by authz.Caller, channelID string, in wire.NewThread) (wire.ThreadStarted, bool, error) {
	if err := requireSomebody(by); err != nil {
		return wire.ThreadStarted{}, false, err
	}
	if err := checkName("/title", in.Title, maxTitle); err != nil {
		return wire.ThreadStarted{}, false, err
	}
	post, err := s.checkMessage(&wire.NewMessage{ClientMsgID: in.ClientMsgID, ContentMD: in.ContentMD, FileIDs: in.FileIDs})
	if err != nil {
		return wire.ThreadStarted{}, false, err
	}
	if channelID, err = place.PathID("Channel", channelID); err != nil {
		return wire.ThreadStarted{}, false, err
	}
	post.hash = hashOf("start", channelID, in.Title, post.content, post.fileIDs)
	keys := append([]storage.Key{{Lock: storage.LockChannels, ID: channelID}, by.Lock()}, fileKeys(post.fileIDs)...)
	type answer struct {
		wire.ThreadStarted

		replayed bool
	}
	out, err := writeOnce(ctx, s, keys, func(tx storage.Tx) (answer, error) {
		channel, snapshot, err := AuthorizedChannel(tx, by, action.ThreadCreate, channelID)
		if err != nil {
			return answer{}, err
		}
		before, err := earlierMessage(tx, by, post.clientMsgID)
		if err != nil {
			return answer{}, err
		}
		if before.id != nil {
			started, err := startedBefore(tx, by, snapshot, before, post)
			return answer{started, true}, err
		}
		started, err := s.start(tx, by, &channel, in.Title, post)
		return answer{started, false}, err
	})
	return out.ThreadStarted, out.replayed, err
}

func earlierMessage(tx storage.Tx, by authz.Caller, clientMsgID string) (before earlier, err error) {
	_, err = tx.Get(`SELECT id, client_payload_sha256 FROM messages WHERE author_id = $1 AND client_msg_id = $2`,
		[]any{by.Principal, clientMsgID}, &before.id, &before.hash)
	if err != nil {
		return before, fmt.Errorf("look for an earlier message: %w", err)
	}
	return before, nil
}

// startedBefore answers what an earlier request made, as it is now, where the caller may still read it: the
// thread may have moved.
func startedBefore(tx storage.Tx, by authz.Caller, snapshot *authz.Snapshot, before earlier, post posting) (wire.ThreadStarted, error) {
	message, err := repeated(tx, by, before, post)
	if err != nil {
		return wire.ThreadStarted{}, err
	}
	resource := authz.Resource{What: "Thread", Place: message.Thread.Place}
	if err := authz.Authorize(snapshot, by, action.ThreadRead, resource, tx.Now()); err != nil {
		return wire.ThreadStarted{}, err
	}
	return wire.ThreadStarted{Thread: message.Thread.Thread, Message: message.Message}, nil
}

func (s *Service) start(tx storage.Tx, by authz.Caller, channel *PlacedChannel, title string, post posting) (wire.ThreadStarted, error) {
	now := tx.Now()
	thread := PlacedThread{Place: channel.Place(), ChannelKind: channel.Kind, Thread: wire.Thread{
		ID: s.env.NewID(), ChannelID: channel.ID, Kind: wire.ThreadThread, Title: title, State: wire.ThreadOpen,
		LastActivityAt: now, CreatedAt: now, Version: 1,
	}}
	if channel.Kind == wire.ChannelForum {
		thread.Kind = wire.ThreadPost
	}
	message, err := s.compose(tx, by, &thread, post)
	if err != nil {
		return wire.ThreadStarted{}, err
	}
	thread.LastMessageSeq, thread.MessageCount = message.ThreadSeq, 1
	if err := s.addThread(tx, by, channel.SpaceID, thread.Thread, post.clientMsgID); err != nil {
		return wire.ThreadStarted{}, err
	}
	err = s.storeMessage(tx, by, &thread, &message, post)
	return wire.ThreadStarted{Thread: thread.Thread, Message: message}, err
}
