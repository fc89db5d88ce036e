package workspace_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/team"
	"github.com/cairnsync/cairn/internal/workspace"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// An edit tells of the reactions and pins it has read: none may come between the reading and its place in
// the log.
func TestNothingComesBetweenAnEditAndItsEvent(t *testing.T) {
	t.Parallel()
	between := map[string]func(w *world, by authz.Caller, m wire.Message) error{
		"a reaction": func(w *world, by authz.Caller, m wire.Message) error {
			return w.AddReaction(w.Context(), by, m.ID, "👍")
		},
		"a pin": func(w *world, by authz.Caller, m wire.Message) error { return w.Pin(w.Context(), by, m.ThreadID, m.ID) },
	}
	for name, act := range between {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testkit.Each(t, func(t *testing.T, db *testkit.Database) {
				w := newWorld(t, db.DB)
				channel := w.text()
				m := w.say(w.owner, channel.MainThreadID, "x")
				head, before := w.head(), w.fresh(w.owner, channel.SpaceID)
				slow := team.PauseBefore(testkit.Open(t, storage.Options{URL: db.URL, Migrate: storage.MigrateRefuse}), "UPDATE messages")
				node := w.at(slow)
				var group sync.WaitGroup
				group.Go(func() {
					if _, err := node.EditMessage(t.Context(), w.owner, m.ID, version(1), wire.EditMessage{ContentMD: "y"}); err != nil {
						t.Error(err)
					}
				})
				<-slow.Reached
				done := make(chan error, 1)
				group.Go(func() { done <- act(w, w.owner, m) })
				select {
				case <-done:
					t.Error("it did not wait for the edit")
				case <-time.After(200 * time.Millisecond): // it waits
				}
				close(slow.Resume)
				group.Wait()
				before.follow(w, w.owner, channel.SpaceID, head)
				same(w, w.fresh(w.owner, channel.SpaceID), before)
				require.EqualValues(w, 2, before.Messages[m.ID].Version)
			})
		})
	}
}

// at is the world on another node.
func (w *world) at(db storage.DB) *world {
	node := *w
	node.Service = workspace.New(workspace.Options{
		DB: db, Log: w.log, Authz: authz.New(db, w.log, w.env), Env: w.env, MaxChars: 100, MaxPayload: maxPayload,
	})
	return &node
}

// A reaction names the channel of its thread: a move that has read its own channels before must not come into
// the log before it.
func TestAMoveWaitsForReactions(t *testing.T) {
	t.Parallel()
	acts := map[string]struct {
		words, event string
		act          func(w *world, m wire.Message) error
	}{
		"added": {"INSERT INTO reactions", eventlog.ReactionAdded, func(w *world, m wire.Message) error {
			return w.AddReaction(w.Context(), w.owner, m.ID, "👍")
		}},
		"removed": {"DELETE FROM reactions", eventlog.ReactionRemoved, func(w *world, m wire.Message) error {
			return w.RemoveReaction(w.Context(), w.owner, m.ID, "👎")
		}},
	}
	for name, one := range acts {
		t.Run("ES-8.1 "+name, func(t *testing.T) {
			t.Parallel()
			testkit.Each(t, func(t *testing.T, db *testkit.Database) {
				w := newWorld(t, db.DB)
				channel := w.text()
				secret := w.channel(channel.SpaceID, wire.ChannelText)
				started := w.start(w.owner, channel.ID, "moves")
				require.NoError(t, w.AddReaction(t.Context(), w.owner, started.Message.ID, "👎"))
				head := w.head()
				slow := team.PauseBefore(testkit.Open(t, storage.Options{URL: db.URL, Migrate: storage.MigrateRefuse}), one.words)
				var group sync.WaitGroup
				group.Go(func() {
					if err := one.act(w.at(slow), started.Message); err != nil {
						t.Error(err)
					}
				})
				<-slow.Reached
				moved := make(chan error, 1)
				group.Go(func() {
					_, err := w.MoveThread(t.Context(), w.owner, started.Thread.ID, nil, wire.MoveThread{ChannelID: secret.ID})
					moved <- err
				})
				select {
				case <-moved:
					t.Error("the move did not wait for the reaction")
				case <-time.After(200 * time.Millisecond): // it waits
				}
				close(slow.Resume)
				group.Wait()
				events := w.since(head)
				require.Equal(t, one.event, events[0].Type)
				require.Equal(t, eventlog.ThreadMoved, events[1].Type)
			})
		})
	}
}
