package eventlog_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestResync(t *testing.T) {
	t.Parallel()
	state := eventlog.State{Head: 1000, MinRetained: 301, SyncEpoch: "now"}
	for _, one := range []struct {
		name   string
		cursor int64
		epoch  string
		want   wire.ResyncReason
	}{
		{"at the head", 1000, "now", ""},
		{"without an epoch the number counts alone", 1000, "", ""},
		{"just before what was removed", 300, "now", ""},
		{"just in what was removed", 299, "now", wire.ResyncOld},
		{"as far behind as may be", 400, "now", ""},
		{"one too far behind", 399, "now", wire.ResyncFar},
		{"from the future", 1001, "now", wire.ResyncFuture},
		{"of another epoch, whatever the number", 1000, "before", wire.ResyncEpoch},
		{"of another epoch, from the future", 5000, "before", wire.ResyncEpoch},
		{"removed and far: retention says it first", 0, "now", wire.ResyncOld},
	} {
		t.Run("ES-7.3 "+one.name, func(t *testing.T) {
			t.Parallel()
			limit := int64(600)
			if one.cursor < 399 {
				limit = 10_000
			}
			require.Equal(t, one.want, state.Resync(one.cursor, one.epoch, limit))
		})
	}
	t.Run("ES-7.3 an empty log has nothing to catch up", func(t *testing.T) {
		t.Parallel()
		require.Empty(t, eventlog.State{MinRetained: 1}.Resync(0, "", 10))
	})
}

// age makes the events up to a number older.
func age(t *testing.T, db storage.DB, upTo int64, by time.Duration) {
	t.Helper()
	require.NoError(t, db.Write(t.Context(), nil, func(tx storage.Tx) error {
		return tx.Exec(`UPDATE event_log SET occurred_at = occurred_at - $2 WHERE seq <= $1`, upTo, by.Microseconds())
	}))
}

func TestRetention(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		log := newLog(nil)
		for range 25 {
			events := make([]eventlog.Event, 100)
			for i := range events {
				events[i] = setting("ada")
			}
			emit(t, db.DB, log, events...)
		}
		t.Run("ES-7.3 what is young stays", func(t *testing.T) {
			require.NoError(t, eventlog.TrimAll(t.Context(), db.DB, time.Hour))
			require.EqualValues(t, 1, stateOf(t, db.DB).MinRetained)
			require.Len(t, all(t, db.DB, 0), 2500)
		})
		t.Run("ES-7.3 what is old goes, in steps, and the beginning is known", func(t *testing.T) {
			age(t, db.DB, 1700, 2*time.Hour)
			age(t, db.DB, 1500, time.Hour)
			require.NoError(t, db.DB.Write(t.Context(), nil, func(tx storage.Tx) error {
				return tx.Exec(`UPDATE event_log SET occurred_at = $1 WHERE seq = 1600`, tx.Now())
			}))
			var group sync.WaitGroup
			for range 4 {
				group.Go(func() {
					if err := eventlog.TrimAll(context.WithoutCancel(t.Context()), db.DB, time.Hour); err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
			state := stateOf(t, db.DB)
			require.EqualValues(t, 1600, state.MinRetained, "the first young event keeps everything behind it: times order nothing")
			require.EqualValues(t, 1600, all(t, db.DB, 0)[0].Seq)
			require.Len(t, all(t, db.DB, 0), 901)
			require.Equal(t, wire.ResyncOld, state.Resync(1598, "", 50_000))
			require.Empty(t, state.Resync(1599, "", 50_000))
		})
		t.Run("ES-7.3 a log can be removed whole, and goes on behind it", func(t *testing.T) {
			age(t, db.DB, 2500, 4*time.Hour)
			retention := eventlog.NewRetention(eventlog.RetentionOptions{DB: db.DB, Log: quiet, Keep: time.Hour})
			require.NoError(t, retention.Start(t.Context()))
			require.Eventually(t, func() bool { return stateOf(t, db.DB).MinRetained == 2501 }, 20*time.Second, 5*time.Millisecond)
			require.NoError(t, retention.Stop(t.Context()))
			require.Empty(t, all(t, db.DB, 0))
			emit(t, db.DB, log, setting("ada"))
			require.EqualValues(t, 2501, all(t, db.DB, 0)[0].Seq)
			require.EqualValues(t, 2501, stateOf(t, db.DB).Head)
		})
	})
}

func TestVisibleAgreesWithItsFilter(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		log := newLog(nil)
		var events []eventlog.Event
		for range 40 {
			for _, space := range []string{"s1", "s2"} {
				for _, channel := range []string{"a", "b", "c"} {
					events = append(events, message(space, space+channel, space+channel+"-t"))
				}
				events = append(events, eventlog.Event{
					Type: eventlog.SpaceUpdated, ResourceID: space, ResourceVersion: 2, Scope: wire.Scope{SpaceID: space},
					Payload: wire.SpaceEvent{Space: wire.Space{ID: space, Name: space, Version: 2}},
				})
			}
			events = append(events, setting("ada"), setting("eva"), eventlog.Event{
				Type: eventlog.PrincipalUpdated, ResourceID: "ada", ResourceVersion: 2, Payload: wire.PrincipalEvent{Principal: wire.Principal{ID: "ada", Version: 2}},
			})
		}
		emit(t, db.DB, log, events...)
		for name, one := range map[string]struct {
			filter eventlog.Filter
			sees   func(*eventlog.Record) bool
		}{
			"nothing":        {eventlog.Filter{}, func(*eventlog.Record) bool { return false }},
			"a channel":      {eventlog.Filter{Channels: []string{"s1a"}, Spaces: []string{"s1"}}, func(r *eventlog.Record) bool { return r.Scope.ChannelID == "s1a" }},
			"a whole space":  {eventlog.Filter{Spaces: []string{"s1"}, FullSpaces: []string{"s1"}}, func(r *eventlog.Record) bool { return r.Scope.SpaceID == "s1" }},
			"the instance":   {eventlog.Filter{InstanceWide: true}, func(*eventlog.Record) bool { return true }},
			"a moved thread": {eventlog.Filter{MovedThreads: []string{"s2b-t"}}, func(r *eventlog.Record) bool { return r.Scope.ThreadID == "s2b-t" }},
		} {
			t.Run("ES-7.2.1 "+name, func(t *testing.T) {
				one.filter.Principal = "ada"
				var want []int64
				for _, record := range all(t, db.DB, 0) {
					space := record.Scope.SpaceID != "" && record.Scope.ChannelID == "" && len(one.filter.Spaces) > 0 && one.filter.Spaces[0] == record.Scope.SpaceID
					open := record.Scope == wire.Scope{}
					if record.AudienceID == "ada" || record.AudienceID == "" && (open || space || one.sees(record)) {
						want = append(want, record.Seq)
					}
				}
				for _, limit := range []int{1, 7, 500} {
					require.Equal(t, want, pages(t, db.DB, one.filter, limit), "in pages of %d", limit)
				}
			})
		}
	})
}

// pages reads everything that a filter lets through.
func pages(t *testing.T, db storage.DB, filter eventlog.Filter, limit int) []int64 {
	t.Helper()
	var seqs []int64
	for head, after := stateOf(t, db).Head, int64(0); after < head; {
		records, checked := page(t, db, filter, after, limit)
		for _, record := range records {
			seqs = append(seqs, record.Seq)
			require.Greater(t, record.Seq, after)
			require.LessOrEqual(t, record.Seq, checked)
		}
		require.Greater(t, checked, after)
		require.LessOrEqual(t, len(records), limit)
		after = checked
	}
	return seqs
}

// page reads one page that a filter lets through.
func page(t *testing.T, db storage.DB, filter eventlog.Filter, after int64, limit int) (records []*eventlog.Record, checked int64) {
	t.Helper()
	head := stateOf(t, db).Head
	require.NoError(t, db.Read(t.Context(), func(tx storage.Tx) (err error) {
		records, checked, err = eventlog.Visible(tx, filter, after, head, limit)
		return err
	}))
	return records, checked
}

// A page ends where it is large, not only where it is long.
func TestVisibleInBytes(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		log := eventlog.New(eventlog.Options{MaxPayload: 64 << 10, NewID: testkit.Env().NewID})
		var events []eventlog.Event
		for i := range 300 {
			one := setting("ada")
			if i >= 100 {
				one.Payload = wire.SettingEvent{Setting: wire.Setting{Key: "k", Version: 1, Value: []byte(`"` + strings.Repeat("x", 60_000) + `"`)}}
			}
			events = append(events, one)
		}
		emit(t, db.DB, log, events...)
		filter := eventlog.Filter{Principal: "ada"}
		t.Run("ES-7.2 nothing is missing between pages", func(t *testing.T) {
			require.Len(t, pages(t, db.DB, filter, 500), len(events))
			require.Len(t, pages(t, db.DB, filter, 7), len(events))
		})
		t.Run("ES-7.2 a page is bounded", func(t *testing.T) {
			for after := int64(0); after < int64(len(events)); {
				records, checked := page(t, db.DB, filter, after, 500)
				size := 0
				for _, record := range records {
					size += len(record.Payload)
				}
				require.Less(t, size, eventlog.PageBytes+64<<10)
				after = checked
			}
		})
	})
}

func TestAmend(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		log := newLog(nil)
		amend := func(tx storage.Tx) error {
			return log.Amend(tx, func(record *eventlog.Record) (*eventlog.Record, error) {
				amended := *record
				amended.Payload = []byte(`{"setting":{"key":"theme","version":9}}`)
				return &amended, nil
			})
		}
		t.Run("ES-2.2 what is emitted and not written yet is reached too, what comes later is not", func(t *testing.T) {
			emit(t, db.DB, log, setting("before"))
			require.NoError(t, db.DB.Write(t.Context(), nil, func(tx storage.Tx) error {
				return errors.Join(log.Emit(tx, setting("amended")), amend(tx), log.Emit(tx, setting("after")))
			}))
			require.NoError(t, db.DB.Write(t.Context(), nil, amend), "alone it has nothing to do, and takes no number")
			records := all(t, db.DB, 0)
			require.Len(t, records, 3)
			require.EqualValues(t, 3, stateOf(t, db.DB).Head)
			for _, record := range records {
				require.Equal(t, record.AudienceID == "amended", string(record.Payload) == `{"setting":{"key":"theme","version":9}}`, record.AudienceID)
			}
		})
	})
}

func TestVisibleBehindTheBeginning(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		emit(t, db.DB, newLog(nil), setting("ada"), setting("ada"), setting("ada"))
		require.NoError(t, db.DB.Write(t.Context(), nil, func(tx storage.Tx) error {
			return errors.Join(tx.Exec(`UPDATE instance SET min_retained_seq = 3`), tx.Exec(`DELETE FROM event_log WHERE seq < 3`))
		}))
		visible := func(after int64) error {
			return db.DB.Read(t.Context(), func(tx storage.Tx) error {
				_, _, err := eventlog.Visible(tx, eventlog.Filter{Principal: "ada"}, after, 3, 10)
				return err
			})
		}
		t.Run("ES-7.3 a page with a gap is none", func(t *testing.T) {
			require.NoError(t, visible(2))
			require.ErrorIs(t, visible(1), eventlog.ErrTrimmed)
		})
	})
}
