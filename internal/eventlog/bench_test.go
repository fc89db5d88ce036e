package eventlog_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
)

const (
	benchEvents   = 50_000
	benchPage     = 500 // sync.catchup_page_size
	benchChannels = 100
)

// backlog is a log of ordinary messages, spread over the channels of one space.
type backlog struct {
	db       storage.DB
	space    string
	channels []string
	head     int64
}

func newBacklog(b *testing.B, engine string) *backlog {
	b.Helper()
	e := testkit.Env()
	w := &backlog{db: testkit.Open(b, storage.Options{URL: testkit.NewURL(b, engine)}), space: e.NewID()}
	threads := make([]string, benchChannels)
	for i := range benchChannels {
		w.channels = append(w.channels, e.NewID())
		threads[i] = e.NewID()
	}
	log := newLog(nil)
	for written := 0; written < benchEvents; written += 1000 {
		events := make([]eventlog.Event, 1000)
		for i := range events {
			events[i] = message(w.space, w.channels[i%benchChannels], threads[i%benchChannels])
		}
		emit(b, w.db, log, events...)
	}
	w.head = stateOf(b, w.db).Head
	return w
}

// BenchmarkCatchUp reads a backlog of 50 000 events in pages and encodes what comes of it, as one client that
// comes back: everything without a filter (raw), everything through the filter of somebody who sees all of
// it by space, by channel, and by the instance, and one event in a hundred. scan is the database passing
// over all rows and answering none.
func BenchmarkCatchUp(b *testing.B) {
	for _, engine := range testkit.Engines() {
		b.Run(engine, func(b *testing.B) {
			w := newBacklog(b, engine)
			one := testkit.Env().NewID()
			b.Run("scan", func(b *testing.B) {
				for b.Loop() {
					w.scan(b)
				}
			})
			b.Run("raw", func(b *testing.B) {
				for b.Loop() {
					w.read(b, benchEvents, func(tx storage.Tx, after int64) ([]*eventlog.Record, int64, error) {
						records, err := eventlog.After(tx, after, w.head, benchPage)
						return records, w.head, err
					})
				}
			})
			for _, sees := range []struct {
				name   string
				filter eventlog.Filter
				want   int
			}{
				{"by space", eventlog.Filter{Principal: one, FullSpaces: []string{w.space}, Spaces: []string{w.space}}, benchEvents},
				{"by channels", eventlog.Filter{Principal: one, Channels: w.channels, Spaces: []string{w.space}}, benchEvents},
				{"by instance", eventlog.Filter{Principal: one, InstanceWide: true}, benchEvents},
				{"one in 100", eventlog.Filter{Principal: one, Channels: w.channels[:1], Spaces: []string{w.space}}, benchEvents / benchChannels},
			} {
				b.Run(sees.name, func(b *testing.B) {
					for b.Loop() {
						w.read(b, sees.want, func(tx storage.Tx, after int64) ([]*eventlog.Record, int64, error) {
							return eventlog.Visible(tx, sees.filter, after, w.head, benchPage)
						})
					}
				})
			}
		})
	}
}

func (w *backlog) read(b *testing.B, want int, page func(tx storage.Tx, after int64) ([]*eventlog.Record, int64, error)) {
	got, after := 0, int64(0)
	for after < w.head {
		var records []*eventlog.Record
		var scanned int64
		require.NoError(b, w.db.Read(b.Context(), func(tx storage.Tx) error {
			var err error
			records, scanned, err = page(tx, after)
			return err
		}))
		for _, record := range records {
			if _, err := json.Marshal(record.Envelope); err != nil {
				b.Fatal(err)
			}
		}
		if got += len(records); len(records) < benchPage {
			after = scanned
		} else {
			after = records[len(records)-1].Seq
		}
	}
	if got != want {
		b.Fatalf("%d events instead of %d", got, want)
	}
}

func (w *backlog) scan(b *testing.B) {
	require.NoError(b, w.db.Read(b.Context(), func(tx storage.Tx) error {
		return tx.Query(`SELECT seq, payload FROM event_log WHERE seq > $1 AND seq <= $2 AND resource_kind = $3 ORDER BY seq`,
			[]any{0, w.head, "none"}, func(storage.Row) error { return nil })
	}))
}
