package authz_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// say writes a message as the caller, as the domain does: with its own lock, authorised from rows of the write.
func (s *stage) say(db storage.DB, by authz.Caller, place authz.Place, thread string) error {
	id := s.env.NewID()
	return db.Write(context.WithoutCancel(s.Context()), []storage.Key{by.Lock(), {Lock: storage.LockThreads, ID: thread}}, func(tx storage.Tx) error {
		if _, err := authz.Check(tx, by, action.MessageCreate, authz.Resource{What: "Thread", Place: place}); err != nil {
			return err
		}
		author := wire.Author{ID: by.Principal, Kind: by.Kind}
		return s.log.Emit(tx, eventlog.Event{
			Type: eventlog.MessageCreated, Actor: by.Actor(), ResourceID: id, ResourceVersion: 1,
			Scope: wire.Scope{SpaceID: place.SpaceID, ChannelID: place.ChannelID, ThreadID: thread},
			Payload: wire.MessageEvent{Message: wire.Message{
				ID: id, Author: author, Attachments: []wire.File{}, MentionIDs: []string{}, Components: []json.RawMessage{}, Reactions: []wire.Reaction{}, Version: 1,
			}},
		})
	})
}

// grantToggle gives somebody a level on a channel and takes it away again.
func (s *stage) grantToggle(owner, who authz.Caller, channel string) func() error {
	ctx := context.WithoutCancel(s.Context())
	return func() error {
		grant, err := s.authz.CreateGrant(ctx, owner, wire.NewGrant{Subject: principal(who.Principal), Target: onChannel(channel), Level: wire.LevelTrigger})
		if err != nil {
			return err
		}
		_, err = s.authz.RevokeGrant(ctx, owner, grant.ID)
		return err
	}
}

// memberToggle puts somebody into a group that may write to a channel and takes it out again.
func (s *stage) memberToggle(owner, who authz.Caller, channel string) func() error {
	s.Helper()
	ctx := context.WithoutCancel(s.Context())
	crew, err := s.authz.CreateGroup(ctx, owner, wire.NewGroup{Name: "crew"})
	require.NoError(s, err)
	s.grant(owner, group(crew.ID), onChannel(channel), wire.LevelWrite)
	return func() error {
		if _, err := s.authz.PutMember(ctx, owner, crew.ID, who.Principal, wire.PutMember{}); err != nil {
			return err
		}
		return s.authz.RemoveMember(ctx, owner, crew.ID, who.Principal)
	}
}

func TestNoWriteCommitsAfterItsRevocation(t *testing.T) {
	t.Parallel()
	const rounds = 25
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStage(t, db.DB)
		owner := s.owner()
		space := s.space()
		place := authz.Place{SpaceID: space, ChannelID: s.channel(space)}
		second := testkit.Open(t, storage.Options{URL: db.URL, Lanes: 2})
		people := []authz.Caller{s.person(), s.person()}
		toggles := []func() error{s.grantToggle(owner, people[0], place.ChannelID), s.memberToggle(owner, people[1], place.ChannelID)}
		stop := make(chan struct{})
		var writers, changers sync.WaitGroup
		for i, ada := range people {
			s.grantRow(ada.Principal, onChannel(s.channel(space)), wire.LevelRead, nil)
			for writer := range 4 {
				node := []storage.DB{db.DB, second}[writer%2] // two nodes
				writers.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						err := s.say(node, ada, place, people[writer%2].Principal)
						if err != nil && !fault.Is(err, code.NotFound) && !fault.Is(err, code.Forbidden) {
							t.Error(err)
							return
						}
					}
				})
			}
			changers.Go(func() {
				for range rounds {
					if err := toggles[i](); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		changers.Wait()
		close(stop)
		writers.Wait()
		t.Run("WS-AZ-4 ES-8.1 in the log nobody writes after the change that forbids it", func(t *testing.T) {
			requireLawful(s.on(t), place)
		})
	})
}

// requireLawful replays the log: who writes was told before that it may.
func requireLawful(s *stage, place authz.Place) {
	level := map[string]wire.Level{}
	messages := 0
	for after := int64(0); ; {
		records := s.events(after)
		for _, record := range records {
			after = record.Seq
			switch record.Type {
			case eventlog.AccessChanged:
				var change wire.AccessChanged
				require.NoError(s, json.Unmarshal(record.Payload, &change))
				for _, access := range append(change.Added, change.Changed...) {
					if access.ID == place.ChannelID {
						level[record.AudienceID] = access.Level
					}
				}
				for _, access := range change.Removed {
					if access.ID == place.ChannelID {
						delete(level, record.AudienceID)
					}
				}
			case eventlog.MessageCreated:
				messages++
				require.GreaterOrEqual(s, level[record.Actor.ID].Rank(), wire.LevelWrite.Rank(), "event %d", record.Seq)
			}
		}
		if len(records) == 0 {
			break
		}
	}
	s.Logf("%d messages", messages)
	require.Positive(s, messages)
}
