package workspace_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/workspace"
	"github.com/cairnsync/cairn/internal/workspace/place"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// nodes answers the domain of two processes on one database; on SQLite there is one.
func nodes(t *testing.T, db *testkit.Database) []*world {
	t.Helper()
	first := newWorld(t, db.DB)
	if db.Engine == testkit.SQLite {
		return []*world{first}
	}
	second := *first
	second.db = testkit.Open(t, storage.Options{URL: db.URL, Migrate: storage.MigrateRefuse})
	second.Service = workspace.New(workspace.Options{
		DB: second.db, Log: second.log, Authz: authz.New(second.db, second.log, second.env), Env: second.env,
		MaxChars: 20_000, MaxAttachments: 3, MaxPayload: maxPayload,
	})
	return []*world{first, &second}
}

func TestConcurrentWritersLeaveNoGap(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		worlds := nodes(t, db)
		w := worlds[0]
		channel := w.text()
		threads := []string{channel.MainThreadID, w.start(w.owner, channel.ID, "a").Thread.ID, w.start(w.owner, channel.ID, "b").Thread.ID}
		head, before := w.head(), w.fresh(w.owner, channel.SpaceID)
		var group sync.WaitGroup
		const writers, rounds = 12, 15
		for i := range writers {
			by, node := w.member(fmt.Sprintf("writer-%d", i), onSpace(channel.SpaceID), wire.LevelManage), worlds[i%len(worlds)]
			group.Go(func() {
				for round := range rounds {
					if err := concurrentStep(t.Context(), node, by, threads, round); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		after := w.fresh(w.owner, channel.SpaceID) // checks numbers and counts, too
		before.follow(w, w.owner, channel.SpaceID, head)
		same(w, after, before)
		ordered(w, head)
	})
}

// concurrentStep writes, and changes what it has written, while others do the same.
func concurrentStep(ctx context.Context, w *world, by authz.Caller, threads []string, round int) error {
	m, _, err := w.CreateMessage(ctx, by, threads[round%len(threads)], wire.NewMessage{ClientMsgID: w.env.NewID(), ContentMD: "hello @owner"})
	if err != nil {
		return err
	}
	whatever := place.AnyVersion
	switch round % 5 {
	case 0:
		_, err = w.EditMessage(ctx, by, m.ID, &whatever, wire.EditMessage{ContentMD: "edited"})
	case 1:
		err = w.DeleteMessage(ctx, by, m.ID)
	case 2:
		err = w.AddReaction(ctx, by, m.ID, "👍")
	case 3:
		err = w.Pin(ctx, by, m.ThreadID, m.ID)
	default:
		_, err = w.CloseThread(ctx, by, threads[1], nil)
	}
	return err
}

// ordered checks that the numbers of each thread grow with those of the log (ES-4).
func ordered(w *world, head int64) {
	w.Helper()
	last := map[string]int64{}
	for _, record := range w.since(head) {
		if record.Type != eventlog.MessageCreated {
			continue
		}
		seq := payloadOf[wire.MessageEvent](w, record).Message.ThreadSeq
		if before := last[record.Scope.ThreadID]; before > 0 {
			require.Equal(w, before+1, seq)
		}
		last[record.Scope.ThreadID] = seq
	}
}

func TestConcurrentRepeats(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		worlds := nodes(t, db)
		w := worlds[0]
		channel := w.text()
		other := w.start(w.owner, channel.ID, "other").Thread.ID
		w.run("ES-5.1 identical requests at the same time make one message", func(w *world) {
			for range 10 {
				in := w.message("same")
				ids, made := together(w, worlds, func(node *world) (string, bool, error) {
					m, replayed, err := node.CreateMessage(w.Context(), w.owner, channel.MainThreadID, in)
					return m.ID, replayed, err
				})
				require.Len(w, ids, 1)
				require.EqualValues(w, 1, made)
			}
		})
		w.run("ES-5.1 identical thread starts at the same time make one thread", func(w *world) {
			in := wire.NewThread{Title: "same", ClientMsgID: w.env.NewID(), ContentMD: "x"}
			ids, made := together(w, worlds, func(node *world) (string, bool, error) {
				started, replayed, err := node.StartThread(w.Context(), w.owner, channel.ID, in)
				return started.Thread.ID, replayed, err
			})
			require.Len(w, ids, 1)
			require.EqualValues(w, 1, made)
		})
		w.run("ES-5.1 different requests with one id: one wins, the others are refused", func(w *world) {
			for range 10 {
				in := w.message("elsewhere")
				var turn, refused atomic.Int64
				_, made := together(w, worlds, func(node *world) (string, bool, error) {
					thread := channel.MainThreadID
					if turn.Add(1)%2 == 0 {
						thread = other
					}
					m, replayed, err := node.CreateMessage(w.Context(), w.owner, thread, in)
					if fault.Is(err, code.IdempotencyKeyReuse) {
						refused.Add(1)
						return "", true, nil
					}
					return m.ID, replayed, err
				})
				require.EqualValues(w, 1, made)
				require.EqualValues(w, 4, refused.Load())
			}
		})
		w.fresh(w.owner, channel.SpaceID)
	})
}

// together runs the same eight times at once and answers the different ids and how many were no repeats.
func together(w *world, worlds []*world, act func(node *world) (string, bool, error)) (ids map[string]bool, made int64) {
	w.Helper()
	ids = map[string]bool{}
	var mu sync.Mutex
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			id, replayed, err := act(worlds[i%len(worlds)])
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				w.Error(err)
				return
			}
			if id != "" {
				ids[id] = true
			}
			if !replayed {
				made++
			}
		})
	}
	group.Wait()
	return ids, made
}

// One batch may hold an edit and the deletion after it: the deletion finds nothing in the log yet.
func TestDeletionReachesItsOwnBatch(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db.DB)
		channel := w.text()
		whatever := place.AnyVersion
		for range 20 {
			m := w.say(w.owner, channel.MainThreadID, "x")
			var group sync.WaitGroup
			for range 6 { // something to wait behind, so that the rest shares a batch
				group.Go(func() { _, _, _ = w.CreateMessage(w.Context(), w.owner, channel.MainThreadID, w.message("noise")) })
			}
			group.Go(func() {
				_, _ = w.EditMessage(w.Context(), w.owner, m.ID, &whatever, wire.EditMessage{ContentMD: "secret"})
			})
			group.Go(func() { _ = w.AddReaction(w.Context(), w.owner, m.ID, "🤫") })
			group.Go(func() {
				if err := w.DeleteMessage(w.Context(), w.owner, m.ID); err != nil {
					t.Error(err)
				}
			})
			group.Wait()
		}
		for _, record := range w.since(0) {
			require.False(w, strings.Contains(string(record.Payload), "secret") || strings.Contains(string(record.Payload), "🤫"), "%s", record.Payload)
		}
	})
}

// A write that was authorised commits before the revocation, or is refused: remembered permissions never
// outlive the version they were read at.
func TestRevocationEndsWrites(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		worlds := nodes(t, db)
		w := worlds[0]
		channel := w.text()
		permissions := authz.New(w.db, w.log, w.env)
		for i := range 8 {
			by := w.person(fmt.Sprintf("writer-%d", i))
			grant, err := permissions.CreateGrant(w.Context(), w.owner, wire.NewGrant{
				Subject: wire.Subject{Kind: wire.SubjectPrincipal, ID: by.Principal}, Target: onChannel(channel.ID), Level: wire.LevelWrite,
			})
			require.NoError(w, err)
			writeUntilRevoked(w, worlds, by, channel.MainThreadID, func() {
				_, err := permissions.RevokeGrant(w.Context(), w.owner, grant.ID)
				require.NoError(w, err)
			})
			requireNothingAfterRemoval(w, by)
		}
	})
}

func writeUntilRevoked(w *world, worlds []*world, by authz.Caller, threadID string, revoke func()) {
	w.Helper()
	var group sync.WaitGroup
	var written atomic.Int64
	for _, node := range worlds {
		group.Go(func() {
			for {
				_, _, err := node.CreateMessage(w.Context(), by, threadID, node.message("on"))
				if fault.Is(err, code.NotFound) {
					return
				}
				if err != nil {
					w.Error(err)
					return
				}
				written.Add(1)
			}
		})
	}
	require.Eventually(w, func() bool { return written.Load() > 3 }, patience, tick)
	revoke()
	group.Wait()
}

// requireNothingAfterRemoval looks for messages behind the access.changed that took the access.
func requireNothingAfterRemoval(w *world, by authz.Caller) {
	w.Helper()
	removed := false
	for _, record := range w.since(0) {
		if record.AudienceID == by.Principal && len(payloadOf[wire.AccessChanged](w, record).Removed) > 0 {
			removed = true
		}
		if removed && record.Actor != nil {
			require.NotEqual(w, by.Principal, record.Actor.ID, "%s after the removal", record.Type)
		}
	}
	require.True(w, removed)
}

// Everything that shows in a message's events is locked until they have their place in the log: what came
// last in the log is what there is.
func TestConcurrentChangesOfOneMessage(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		worlds := nodes(t, db)
		w := worlds[0]
		channel := w.text()
		thread := w.start(w.owner, channel.ID, "busy")
		other := w.channel(channel.SpaceID, wire.ChannelText)
		head, before := w.head(), w.fresh(w.owner, channel.SpaceID)
		id, threadID, whatever := thread.Message.ID, thread.Thread.ID, place.AnyVersion
		acts := []func(ctx context.Context, node *world, round int) error{
			func(ctx context.Context, node *world, round int) error {
				_, err := node.EditMessage(ctx, w.owner, id, &whatever, wire.EditMessage{ContentMD: fmt.Sprint(round)})
				return err
			},
			func(ctx context.Context, node *world, round int) error {
				return []func(context.Context, authz.Caller, string, string) error{node.Pin, node.Unpin}[round%2](ctx, w.owner, threadID, id)
			},
			func(ctx context.Context, node *world, round int) error {
				_, err := node.MoveThread(ctx, w.owner, threadID, nil, wire.MoveThread{ChannelID: []string{channel.ID, other.ID}[round%2]})
				return err
			},
		}
		for i := range 4 {
			by := w.member(fmt.Sprintf("fan-%d", i), onSpace(channel.SpaceID), wire.LevelWrite)
			acts = append(acts, func(ctx context.Context, node *world, round int) error {
				change := []func(context.Context, authz.Caller, string, string) error{node.AddReaction, node.RemoveReaction}[round%2]
				return change(ctx, by, id, []string{"👍", "🎉"}[i%2])
			})
		}
		var group sync.WaitGroup
		for i, act := range acts {
			group.Go(func() {
				for round := range 25 {
					if err := act(t.Context(), worlds[(i+round)%len(worlds)], round); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		before.follow(w, w.owner, channel.SpaceID, head)
		same(w, w.fresh(w.owner, channel.SpaceID), before)
	})
}
