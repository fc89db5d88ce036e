package live

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/session"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func TestStreamsJoinABusySession(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		t.Run("SS-STR-2 streams with cursors of their own go live while events and controls come", func(t *testing.T) {
			r := newRig(t, db)
			const viewers = 300
			r.append(t, viewers+10)
			stop := make(chan struct{})
			var busy sync.WaitGroup
			busy.Go(func() {
				tick := time.NewTicker(15 * time.Millisecond)
				defer tick.Stop()
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					case <-tick.C:
					}
					id := fmt.Sprint("c", i)
					_, err := r.sessions.Control(t.Context(), r.by, r.id, wire.IncomingControl{ID: id, Kind: wire.ControlPause})
					assert.NoError(t, err)
					assert.NoError(t, r.sessions.Applied(t.Context(), r.by, r.id, id))
				}
			})
			streams := make([]*Stream, viewers)
			for i := range streams {
				streams[i] = r.hub.Open(r.by, r.id, int64(i), Stance{}, &sink{})
			}
			eventually(t, "everybody is live", func() bool { return r.liveStreams(r.id) == viewers })
			close(stop)
			busy.Wait()
			for _, stream := range streams {
				stream.Close()
			}
		})
	})
}

func TestAppliedControlsReachWhoJoins(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		t.Run("SS-STR-2 every applied control of the replayed range is told, however many", func(t *testing.T) {
			r := newRig(t, db)
			const controls = 2*appliedAtOnce + 7
			for i := range controls {
				id := fmt.Sprint("c", i)
				_, err := r.sessions.Control(t.Context(), r.by, r.id, wire.IncomingControl{ID: id, Kind: wire.ControlPause})
				require.NoError(t, err)
				require.NoError(t, r.sessions.Applied(t.Context(), r.by, r.id, id))
			}
			all, half := &sink{}, &sink{}
			for cursor, to := range map[int64]*sink{0: all, controls / 2: half} {
				stream := r.hub.Open(r.by, r.id, cursor, Stance{}, to)
				t.Cleanup(stream.Close)
			}
			eventually(t, "both are live", func() bool { return r.liveStreams(r.id) == 2 })
			for expected, of := range map[int]*sink{2 * controls: all, 2 * (controls - controls/2): half} {
				of.mu.Lock()
				require.GreaterOrEqual(t, of.frames, expected, "an echo and an applied frame each")
				of.mu.Unlock()
			}
		})
	})
}

func TestOneSlowFeedHoldsUpNobody(t *testing.T) {
	t.Parallel()
	t.Run("SS-STR-7 a feed that is busy takes one worker and leaves the poll alone", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, testkit.New(t, testkit.SQLite))
		other := r.execute(t)
		viewer := &sink{}
		slow, quick := r.hub.Open(r.by, r.id, 0, Stance{}, &sink{}), r.hub.Open(r.by, other, 0, Stance{}, viewer)
		eventually(t, "both are live", func() bool { return r.liveStreams(r.id) == 1 && r.liveStreams(other) == 1 })
		busy := r.hub.feed(r.id)
		busy.mu.Lock()
		for range 2 * workers {
			_, err := r.sessions.RenewLease(t.Context(), r.by, r.id)
			require.NoError(t, err)
		}
		before := viewer.count(latestLease)
		_, err := r.sessions.RenewLease(t.Context(), r.by, other)
		require.NoError(t, err)
		eventually(t, "the other session's frame", func() bool { return viewer.count(latestLease) > before })
		_, err = r.identity.DeleteDevice(t.Context(), principalOf(r.by), "", r.by.DeviceID)
		require.NoError(t, err)
		r.hub.askCheck()
		eventually(t, "the check of callers", func() bool {
			viewer.mu.Lock()
			defer viewer.mu.Unlock()
			return viewer.closed == code.CloseBadKey
		})
		busy.mu.Unlock()
		slow.Close()
		quick.Close()
	})
}

// What a client says in its first moments is not lost to the writing of its row.
func TestStanceSaidWhileEntering(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		r := newRig(t, db)
		const streams = 60
		for i := range streams {
			stream := r.hub.Open(r.by, r.id, 0, Stance{Attention: i%2 == 0}, &sink{})
			t.Cleanup(stream.Close)
			if i%3 == 0 {
				eventually(t, "entered", func() bool { return stream.role() != wire.RoleNone })
			}
			stream.Say(new(true), nil)
			if i%2 != 0 {
				stream.Say(nil, new(true))
			}
		}
		eventually(t, "SS-PRS-1 every row says what was said", func() bool {
			complete, err := storage.Read(t.Context(), r.db, func(tx storage.Tx) (int, error) {
				var complete int
				_, err := tx.Get(`SELECT count(*) FROM session_presence WHERE driving AND attention AND role = 'owner'`, nil, &complete)
				return complete, err
			})
			require.NoError(t, err)
			return complete == streams
		})
	})
}

func TestPresenceOutlivesAnOutage(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		t.Run("SS-PRS-1 what changed while the database was away is written when it is back", func(t *testing.T) {
			r := newRig(t, db)
			stream := r.hub.Open(r.by, r.id, 0, Stance{}, &sink{})
			eventually(t, "present", func() bool { return len(r.present(t)) == 1 })
			r.db.down.Store(true)
			stream.Say(new(true), nil)
			eventually(t, "the attempt", func() bool {
				r.hub.roster.mu.Lock()
				defer r.hub.roster.mu.Unlock()
				return r.hub.roster.changed[stream]
			})
			r.db.down.Store(false)
			eventually(t, "driving", func() bool { return r.present(t)[0].Driving })
			stream.Close()
		})
		t.Run("SS-PRS-1 a node that was taken for dead comes back with its connections", func(t *testing.T) {
			r := newRigOn(t, db, "swept")
			stream := r.hub.Open(r.by, r.id, 0, Stance{}, &sink{})
			eventually(t, "present", func() bool { return len(r.present(t)) == 1 })
			require.NoError(t, session.EndNode(t.Context(), r.db, r.hub.nodeID))
			require.Empty(t, r.present(t))
			r.hub.roster.keepAlive()
			eventually(t, "present again", func() bool { return len(r.present(t)) == 1 })
			stream.Close()
		})
		t.Run("SS-PRS-1 rows whose removal was lost are written anew", func(t *testing.T) {
			r := newRigOn(t, db, "rebuilt")
			stream := r.hub.Open(r.by, r.id, 0, Stance{}, &sink{})
			eventually(t, "present", func() bool { return len(r.present(t)) == 1 })
			require.NoError(t, r.db.Write(t.Context(), nil, func(tx storage.Tx) error {
				return session.Enter(tx, session.Connection{
					ID: "lost", NodeID: r.hub.nodeID, SessionID: r.id, DeviceID: "another", UserID: r.by.UserID, Role: wire.RoleViewer,
				})
			}))
			require.Len(t, r.present(t), 2)
			r.hub.roster.mu.Lock()
			r.hub.roster.rebuild = true
			r.hub.roster.mu.Unlock()
			r.hub.roster.ask()
			eventually(t, "the lost row is gone", func() bool { return len(r.present(t)) == 1 })
			stream.Close()
		})
	})
}

func TestExecutorIsShownAtOnce(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		t.Run("SS-PRS-1 a device that takes its expired lease again is the executor at once", func(t *testing.T) {
			r := newRig(t, db)
			stream := r.hub.Open(r.by, r.id, 0, Stance{}, &sink{})
			f := r.hub.join(r.id)
			defer r.hub.leave(f)
			executor := func() bool {
				f.mu.Lock()
				defer f.mu.Unlock()
				return f.present.devices[r.by.DeviceID].Executor
			}
			eventually(t, "executor", executor)
			require.NoError(t, r.db.Write(t.Context(), nil, func(tx storage.Tx) error {
				return tx.Exec(`UPDATE sessions SET lease_expires_at = $1, lease_revision = lease_revision + 1 WHERE id = $2`,
					tx.Now().Add(200*time.Millisecond), r.id)
			}))
			eventually(t, "SS-LEASE-5 the lease ran out", func() bool { return !executor() })
			f.mu.Lock()
			f.present.readAt = r.hub.Env.Now() // the next look at presence is not due
			f.mu.Unlock()
			_, err := r.sessions.ClaimLease(t.Context(), r.by, r.id, r.by.DeviceID, false)
			require.NoError(t, err)
			require.Eventually(t, executor, presencePoll/2, 5*time.Millisecond)
			stream.Close()
		})
	})
}

func TestRecentApplied(t *testing.T) {
	t.Parallel()
	t.Run("SS-FRM-1 what is remembered is complete down to its floor", func(t *testing.T) {
		t.Parallel()
		var recent recentApplied
		for revision := int64(1); revision <= 3*appliedAtOnce; revision++ {
			recent.add([]session.Applied{{Revision: revision}})
		}
		require.Len(t, recent.list, appliedAtOnce)
		since, complete := recent.since(3*appliedAtOnce - 2)
		require.True(t, complete)
		require.Len(t, since, 2)
		since, complete = recent.since(recent.floor)
		require.True(t, complete)
		require.Len(t, since, appliedAtOnce)
		_, complete = recent.since(recent.floor - 1)
		require.False(t, complete)
		since, complete = recent.since(3 * appliedAtOnce)
		require.True(t, complete)
		require.Empty(t, since)
	})
}
