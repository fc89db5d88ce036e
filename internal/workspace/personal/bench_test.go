package personal_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/team"
	"github.com/cairnsync/cairn/internal/workspace/personal"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// BenchmarkUnread reads the unread states of a person who sees 200 channels with 50 threads each, of which 400
// have 249 unread messages: what a snapshot costs a person who was away for long.
func BenchmarkUnread(b *testing.B) {
	for _, engine := range testkit.Engines() {
		b.Run(engine, func(b *testing.B) {
			w := team.New(b, testkit.New(b, engine))
			ann := w.Person("ann")
			w.Grant(ann, wire.Target{Kind: wire.TargetInstance}, wire.LevelRead)
			fill(w, ann)
			for b.Loop() {
				states := team.Personally(w, ann, personal.Unread)
				require.Len(b, states, 400)
				require.EqualValues(b, 249, states[0].UnreadCount)
			}
		})
	}
}

// fill writes channels, threads, messages and read states in bulk.
func fill(w *team.Team, reader authz.Caller) {
	w.Helper()
	space := w.Space()
	for c := range 200 {
		require.NoError(w, w.DB.Write(w.Context(), nil, func(tx storage.Tx) error {
			channel := w.Env.NewID()
			if err := tx.Exec(`INSERT INTO channels (id, space_id, kind, name, created_at) VALUES ($1, $2, 'text', $3, 1)`, channel, space.ID, fmt.Sprint(c)); err != nil {
				return err
			}
			for t := range 50 {
				thread, last := w.Env.NewID(), 0
				if t < 2 {
					last = 250
				}
				err := tx.Exec(`INSERT INTO threads (id, channel_id, kind, state, last_message_seq, last_activity_at, created_at)
					VALUES ($1, $2, 'thread', 'open', $3, 1, 1)`, thread, channel, max(last, 3))
				if err != nil {
					return err
				}
				if last == 0 {
					err := tx.Exec(`INSERT INTO read_states (principal_id, thread_id, last_read_seq, updated_at, version) VALUES ($1, $2, 3, 1, 1)`, reader.Principal, thread)
					if err != nil {
						return err
					}
				}
				for seq := range last {
					author, deleted := w.Owner.Principal, any(nil)
					if seq == 7 {
						deleted = 1
					}
					err := tx.Exec(`INSERT INTO messages (id, thread_id, thread_seq, author_id, author_kind, origin, kind, content_md, created_at, deleted_at)
						VALUES ($1, $2, $3, $4, 'user', 'human', 'text', 'x', 1, $5)`, w.Env.NewID(), thread, seq+1, author, deleted)
					if err != nil {
						return err
					}
				}
			}
			return nil
		}))
	}
	if w.Engine == testkit.Postgres {
		w.Exec(`ANALYZE`)
	}
}
