package eventlog_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// long makes TestSequence run for minutes: go test ./internal/eventlog -run Sequence -long 5m -timeout 10m.
var long = flag.Duration("long", 8*time.Second, "how long the log is written while it is read")

// chaos is nodes that write, fail and are cut off, and readers that believe nothing.
type chaos struct {
	*testing.T
	stop    chan struct{}
	group   sync.WaitGroup
	acked   sync.Map // resource id → events that were acknowledged with it
	refused sync.Map // resource id → true, for writes that decided against themselves
	commits atomic.Int64
	cuts    atomic.Int64
}

var errDecided = errors.New("decided against it")

// write makes one write of a random kind.
func (c *chaos) write(db storage.DB, log *eventlog.Log, random *rand.Rand) {
	id := testkit.Env().NewID()
	events := make([]eventlog.Event, 1+random.IntN(3))
	for i := range events {
		events[i] = setting(id)
		events[i].ResourceID = id
	}
	keys := []storage.Key{{Lock: storage.LockThreads, ID: fmt.Sprint(random.IntN(5))}, {Lock: storage.LockPrincipals, ID: fmt.Sprint(random.IntN(5))}}
	ctx := c.Context()
	var fn func(tx storage.Tx) error
	kind := random.IntN(10)
	switch kind {
	case 0: // the other order: the permission version first, the numbers last
		keys = append(keys, storage.ChangePermissions)
		fn = func(tx storage.Tx) error {
			var version int64
			_, err := tx.Get(`UPDATE sequence_counters SET value = value + 1 WHERE name = 'permission_version' RETURNING value`, nil, &version)
			for i := range events {
				events[i] = eventlog.Event{
					Type: eventlog.AccessChanged, ResourceID: id, Audience: id, Payload: wire.AccessChanged{PermissionVersion: version},
				}
			}
			return errors.Join(err, log.Emit(tx, events...))
		}
	case 1: // refuses after it wrote and emitted
		c.refused.Store(id, true)
		fn = func(tx storage.Tx) error {
			err := errors.Join(log.Emit(tx, events...), tx.Exec(`INSERT INTO settings (principal_id, key, version) VALUES ($1, 'k', 1)`, id))
			return errors.Join(err, errDecided)
		}
	case 2: // refuses before it wrote, but after it emitted
		c.refused.Store(id, true)
		fn = func(tx storage.Tx) error { return errors.Join(log.Emit(tx, events...), errDecided) }
	case 3: // also writes the audit log
		fn = func(tx storage.Tx) error {
			return errors.Join(log.Emit(tx, events...), audit.Write(tx, testkit.Env(), audit.Entry{UserID: id, Action: "test"}))
		}
	case 4: // whose caller goes away at some time
		short, cancel := context.WithTimeout(ctx, time.Duration(random.IntN(20))*time.Millisecond)
		defer cancel()
		ctx = short
		fallthrough
	default:
		fn = func(tx storage.Tx) error { return log.Emit(tx, events...) }
	}
	err := db.Write(ctx, keys, fn)
	switch {
	case err == nil:
		c.acked.Store(id, len(events))
		c.commits.Add(1)
	case kind == 4, errors.Is(err, errDecided), c.cuts.Load() > 0: // with connections cut, a write may fail, and its outcome be unknown
	default:
		c.Errorf("write of kind %d: %v", kind, err)
	}
}

// writers keeps writing until the stop.
func (c *chaos) writers(db storage.DB, log *eventlog.Log, count int) {
	for range count {
		random := rand.New(rand.NewPCG(rand.Uint64(), 1))
		c.group.Go(func() {
			for {
				select {
				case <-c.stop:
					return
				default:
					c.write(db, log, random)
				}
			}
		})
	}
}

// reader reads the log over and over and never accepts a gap, a step back, or a number that appears behind it.
func (c *chaos) reader(db storage.DB) {
	c.group.Go(func() {
		var cursor, version int64
		for {
			select {
			case <-c.stop:
				return
			default:
			}
			var head int64
			var records []*eventlog.Record
			err := db.Read(c.Context(), func(tx storage.Tx) error {
				state, err := eventlog.StateOf(tx)
				if err != nil {
					return err
				}
				head = state.Head
				records, err = eventlog.After(tx, cursor, 1<<60, 1<<20)
				return err
			})
			if err != nil {
				if c.cuts.Load() == 0 {
					c.Errorf("read: %v", err)
				}
				continue
			}
			for _, record := range records {
				if record.Seq != cursor+1 {
					c.Errorf("after %d came %d", cursor, record.Seq)
					return
				}
				if record.PermissionVersion < version {
					c.Errorf("event %d has permission version %d after %d", record.Seq, record.PermissionVersion, version)
				}
				cursor, version = record.Seq, record.PermissionVersion
			}
			if cursor != head {
				c.Errorf("the head is %d and the last event %d, in one snapshot", head, cursor)
				return
			}
		}
	})
}

// cut ends connections of all nodes at random moments.
func (c *chaos) cut(url string) {
	admin := testkit.Open(c, storage.Options{URL: url})
	c.group.Go(func() {
		ticker := time.NewTicker(300 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-c.stop:
				return
			case <-ticker.C:
			}
			var cut int64
			c.cuts.Add(1)
			_ = admin.Read(c.Context(), func(tx storage.Tx) error { // it may cut itself off
				_, err := tx.Get(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
					WHERE application_name = 'cairn' AND datname = current_database() AND pid <> pg_backend_pid() AND random() < 0.3`, nil, &cut)
				return err
			})
		}
	})
}

func TestSequence(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		c := &chaos{T: t, stop: make(chan struct{})}
		var followers []*follower
		for range 3 { // nodes
			node := testkit.Open(t, storage.Options{URL: db.URL})
			f := follow(t, node)
			followers = append(followers, f)
			c.writers(node, newLog(f.tail.Offer), 4)
			c.reader(node)
		}
		if db.Engine == testkit.Postgres {
			c.cut(db.URL)
		}
		timer := time.NewTimer(*long)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-t.Context().Done():
		}
		close(c.stop)
		c.group.Wait()
		records := all(t, db.DB, 0)
		t.Logf("%d events, %d acknowledged writes, %d cuts", len(records), c.commits.Load(), c.cuts.Load())
		t.Run("ES-3.2 numbers begin at 1 and have no gap", func(t *testing.T) {
			require.NotEmpty(t, records)
			for i, record := range records {
				require.EqualValues(t, i+1, record.Seq)
			}
			require.EqualValues(t, len(records), stateOf(t, db.DB).Head)
		})
		t.Run("ES-3.2 what was acknowledged is there once, what was refused is not", func(t *testing.T) {
			found := map[string]int{}
			for _, record := range records {
				found[record.Resource.ID]++
			}
			c.acked.Range(func(id, events any) bool {
				require.Equal(t, events, found[id.(string)]) //nolint:forcetypeassert // stored above
				return true
			})
			c.refused.Range(func(id, _ any) bool {
				require.Zero(t, found[id.(string)]) //nolint:forcetypeassert // stored above
				return true
			})
		})
		t.Run("ES-3.3 a permission change has the version it made, and the audit chain holds", func(t *testing.T) {
			for _, record := range records {
				if record.Type == eventlog.AccessChanged {
					require.Equal(t, record.PermissionVersion, strict(t, record.Payload, eventlog.TypeOf(record.Type).Payload).(wire.AccessChanged).PermissionVersion) //nolint:forcetypeassert // its type
				}
			}
			report, err := audit.Verify(t.Context(), db.DB)
			require.NoError(t, err)
			require.Zero(t, report.Broken, report.Problem)
		})
		t.Run("ES-10 every node follows the same log in the same order", func(t *testing.T) {
			for _, f := range followers {
				f.bus.Publish(signal.Wake{Topic: signal.Events})
				f.await(t, int64(len(records)))
				require.Empty(t, f.lost)
			}
		})
	})
}
