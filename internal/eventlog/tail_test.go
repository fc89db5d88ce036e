package eventlog_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
)

// away is a database that can be away for readers; it counts what is read.
type away struct {
	storage.DB

	gone  atomic.Bool
	reads atomic.Int64
}

func (a *away) Read(ctx context.Context, fn func(storage.Tx) error) error {
	a.reads.Add(1)
	if a.gone.Load() {
		return errors.New("the database is away")
	}
	return a.DB.Read(ctx, fn)
}

// follower is a tail with what it delivered.
type follower struct {
	tail *eventlog.Tail
	bus  *signal.Local

	mu   sync.Mutex
	from int64
	seqs []int64
	lost [][2]int64
}

func follow(t *testing.T, db storage.DB) *follower {
	t.Helper()
	f := &follower{bus: signal.NewLocal()}
	f.tail = eventlog.NewTail(eventlog.TailOptions{
		DB: db, Bus: f.bus, Env: testkit.Env(), Log: quiet,
		Begin: func(head int64) { f.from = head },
		Deliver: func(records []*eventlog.Record) {
			f.mu.Lock()
			defer f.mu.Unlock()
			for _, record := range records {
				f.seqs = append(f.seqs, record.Seq)
			}
		},
		Lost: func(after, before int64) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.lost = append(f.lost, [2]int64{after, before})
		},
	})
	require.NoError(t, f.tail.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, f.tail.Stop(context.Background())) })
	return f
}

func (f *follower) got() []int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]int64(nil), f.seqs...)
}

// await waits for the event with a number and demands everything before it, once and in order.
func (f *follower) await(t *testing.T, last int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		got := f.got()
		return len(got) > 0 && got[len(got)-1] >= last
	}, 30*time.Second, time.Millisecond)
	for i, seq := range f.got() {
		require.Equal(t, f.from+int64(i)+1, seq)
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		var mu sync.Mutex
		var committed [][]*eventlog.Record
		log := newLog(func(records []*eventlog.Record) {
			mu.Lock()
			defer mu.Unlock()
			committed = append(committed, records)
		})
		take := func() [][]*eventlog.Record {
			mu.Lock()
			defer mu.Unlock()
			taken := committed
			committed = nil
			return taken
		}
		emit(t, db.DB, log, setting("ada"), setting("ada"))
		take()
		flaky := &away{DB: db.DB}
		f := follow(t, flaky)
		t.Run("it begins behind what is there", func(t *testing.T) { require.EqualValues(t, 2, f.from) })
		t.Run("what is offered in order is delivered without a read", func(t *testing.T) {
			require.Eventually(t, func() bool { return flaky.reads.Load() >= 1 }, 10*time.Second, time.Millisecond)
			flaky.gone.Store(true)
			emit(t, db.DB, log, setting("ada"), setting("ada"))
			f.tail.Offer(take()[0])
			f.await(t, 4)
			flaky.gone.Store(false)
		})
		t.Run("ES-3.2 what is offered in the wrong order, or twice, is delivered once and in order", func(t *testing.T) {
			for range 50 {
				emit(t, db.DB, log, setting("ada"), setting("ada"))
			}
			offers := take()
			offers = append(offers, offers[3], offers[7])
			rand.Shuffle(len(offers), func(i, j int) { offers[i], offers[j] = offers[j], offers[i] })
			for _, offer := range offers {
				f.tail.Offer(offer)
			}
			f.await(t, 104)
		})
		t.Run("an offer behind a hole means reading the log", func(t *testing.T) {
			emit(t, db.DB, log, setting("ada"))
			emit(t, db.DB, log, setting("ada"))
			f.tail.Offer(take()[1])
			f.await(t, 106)
		})
		t.Run("a wake-up of another node means reading the log", func(t *testing.T) {
			emit(t, db.DB, log, setting("ada"))
			take()
			f.bus.Publish(signal.Wake{Topic: signal.Events})
			f.await(t, 107)
		})
		t.Run("a lost wake-up costs a poll and no event", func(t *testing.T) {
			emit(t, db.DB, log, setting("ada"))
			take()
			f.await(t, 108)
		})
		t.Run("a database that was away is read when it is back", func(t *testing.T) {
			flaky.gone.Store(true)
			before := flaky.reads.Load()
			for range 30 {
				emit(t, db.DB, log, setting("ada"))
			}
			take()
			f.bus.Publish(signal.Wake{})
			require.Eventually(t, func() bool { return flaky.reads.Load() > before }, 10*time.Second, time.Millisecond)
			flaky.gone.Store(false)
			f.await(t, 138)
		})
		t.Run("more than may wait is read from the log", func(t *testing.T) {
			flaky.gone.Store(true)
			for range 20 {
				events := make([]eventlog.Event, 1000)
				for i := range events {
					events[i] = setting("ada")
				}
				emit(t, db.DB, log, events...)
			}
			offers := take()
			for _, offer := range offers[1:] { // a hole in front, so that nothing can be delivered
				f.tail.Offer(offer)
			}
			flaky.gone.Store(false)
			f.await(t, 20_138)
		})
		t.Run("ES-7.3 events that were removed before they were delivered are reported as lost", func(t *testing.T) {
			flaky.gone.Store(true)
			emit(t, db.DB, log, setting("ada"), setting("ada"), setting("ada"))
			require.NoError(t, db.DB.Write(t.Context(), nil, func(tx storage.Tx) error {
				return errors.Join(tx.Exec(`DELETE FROM event_log WHERE seq <= 20140`), tx.Exec(`UPDATE instance SET min_retained_seq = 20141`))
			}))
			flaky.gone.Store(false)
			require.Eventually(t, func() bool {
				f.mu.Lock()
				defer f.mu.Unlock()
				return len(f.lost) == 1 && f.lost[0] == [2]int64{20_138, 20_141} && f.seqs[len(f.seqs)-1] == 20_141
			}, 30*time.Second, time.Millisecond)
		})
	})
}

func TestTailsOfTwoNodes(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		other := testkit.Open(t, storage.Options{URL: db.URL})
		here, there := follow(t, db.DB), follow(t, other)
		nodes := []struct {
			db  storage.DB
			log *eventlog.Log
		}{{db.DB, newLog(here.tail.Offer)}, {other, newLog(there.tail.Offer)}}
		var group sync.WaitGroup
		for _, node := range nodes {
			for range 3 {
				group.Go(func() {
					for range 30 {
						if err := node.db.Write(t.Context(), nil, func(tx storage.Tx) error { return node.log.Emit(tx, setting("ada")) }); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		group.Wait()
		here.await(t, 180)
		there.await(t, 180)
	})
}

func TestATailNeedsADatabase(t *testing.T) {
	t.Parallel()
	flaky := &away{DB: testkit.New(t, testkit.SQLite).DB}
	flaky.gone.Store(true)
	tail := eventlog.NewTail(eventlog.TailOptions{DB: flaky, Bus: signal.NewLocal(), Env: testkit.Env(), Log: quiet})
	require.Error(t, tail.Start(t.Context()))
	require.NoError(t, tail.Stop(t.Context()))
}
