package workspace_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/workspace"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// pausing is a database whose writers stop once before a statement that begins with certain words.
type pausing struct {
	storage.DB

	before  string
	once    sync.Once
	reached chan struct{}
	resume  chan struct{}
}

func pauseBefore(db storage.DB, words string) *pausing {
	return &pausing{DB: db, before: words, reached: make(chan struct{}), resume: make(chan struct{})}
}

func (p *pausing) Write(ctx context.Context, keys []storage.Key, fn func(storage.Tx) error) error {
	return p.DB.Write(ctx, keys, func(tx storage.Tx) error { return fn(&pausingTx{tx, p}) })
}

type pausingTx struct {
	storage.Tx

	pause *pausing
}

func (tx *pausingTx) Exec(query string, args ...any) error {
	if strings.HasPrefix(query, tx.pause.before) {
		tx.pause.once.Do(func() {
			close(tx.pause.reached)
			<-tx.pause.resume
		})
	}
	return tx.Tx.Exec(query, args...)
}

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
				slow := pauseBefore(testkit.Open(t, storage.Options{URL: db.URL, Migrate: storage.MigrateRefuse}), "UPDATE messages")
				node := *w
				node.Service = workspace.New(workspace.Options{
					DB: slow, Log: w.log, Authz: authz.New(slow, w.log, w.env), Env: w.env, MaxChars: 100, MaxPayload: maxPayload,
				})
				var group sync.WaitGroup
				group.Go(func() {
					if _, err := node.EditMessage(t.Context(), w.owner, m.ID, version(1), wire.EditMessage{ContentMD: "y"}); err != nil {
						t.Error(err)
					}
				})
				<-slow.reached
				done := make(chan error, 1)
				group.Go(func() { done <- act(w, w.owner, m) })
				select {
				case <-done:
					t.Error("it did not wait for the edit")
				case <-time.After(200 * time.Millisecond): // it waits
				}
				close(slow.resume)
				group.Wait()
				before.follow(w, w.owner, channel.SpaceID, head)
				same(w, w.fresh(w.owner, channel.SpaceID), before)
				require.EqualValues(w, 2, before.Messages[m.ID].Version)
			})
		})
	}
}
