package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/conn"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// drain takes everything and does nothing: what is left is the gateway's own cost.
type drain struct{ frames int }

func (d *drain) Run(conn.Handler)       {}
func (d *drain) Send(b *conn.Block)     { d.frames += b.Len() }
func (d *drain) Offer(*conn.Block) bool { return true }
func (d *drain) SendMany(blocks []*conn.Block) {
	for _, b := range blocks {
		d.frames += b.Len()
	}
}
func (d *drain) Room(context.Context) error { return nil }
func (d *drain) Close(code.Close, string)   {}

// BenchmarkDelivery is what finding, authorising and handing an event to 1 000 connections costs per delivery, without
// sockets: by how many channels each member has, and how many events come at once.
func BenchmarkDelivery(b *testing.B) {
	for _, c := range []struct{ channels, members, batch int }{{10, 1000, 1}, {200, 1000, 1}, {10, 1000, 16}, {200, 1000, 16}} {
		b.Run(fmt.Sprintf("%d channels, %d at once", c.channels, c.batch), func(b *testing.B) {
			db := testkit.New(b, testkit.SQLite)
			g := New(Options{DB: db.DB, Bus: signal.NewLocal(), Env: testkit.Env(), Log: slog.New(slog.DiscardHandler)})
			channels := benchmarkMembers(b, g, c.channels, c.members)
			records := make([]*eventlog.Record, c.batch)
			seq := int64(0)
			b.ResetTimer()
			for b.Loop() {
				for i := range records {
					seq++
					records[i] = &eventlog.Record{Envelope: wire.Envelope{
						Seq: seq, Type: eventlog.MessageCreated, Scope: wire.Scope{SpaceID: "space", ChannelID: channels[0], ThreadID: "thread"},
						Resource: wire.Resource{Kind: "message", ID: "m", Version: 1}, Payload: []byte(`{"message":{}}`),
					}}
				}
				g.Deliver(records)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(c.batch*c.members), "ns/delivery")
		})
	}
}

func benchmarkMembers(b *testing.B, g *Gateway, channels, members int) []string {
	ids := make([]string, channels)
	for i := range ids {
		ids[i] = fmt.Sprintf("01890000-0000-7000-8000-%012d", i)
	}
	require.NoError(b, g.DB.Write(b.Context(), nil, func(tx storage.Tx) error {
		if err := tx.Exec(`INSERT INTO spaces (id, name, created_at) VALUES ('space', 'x', 1)`); err != nil {
			return err
		}
		for _, id := range ids {
			if err := tx.Exec(`INSERT INTO channels (id, space_id, kind, name, created_at) VALUES ($1, 'space', 'text', $1, 1)`, id); err != nil {
				return err
			}
			if err := tx.Exec(`INSERT INTO grants (id, subject_kind, subject_id, target_kind, target_id, level, created_at)
				VALUES ($1, 'group', 'group', 'channel', $1, 'write', 1)`, id); err != nil {
				return err
			}
		}
		return tx.Exec(`INSERT INTO principal_groups (id, name, created_at) VALUES ('group', 'x', 1)`)
	}))
	require.NoError(b, g.readPlaces(b.Context()))
	for i := range members {
		id := fmt.Sprintf("01890000-0000-7000-8001-%012d", i)
		require.NoError(b, g.DB.Write(b.Context(), nil, func(tx storage.Tx) error {
			if err := tx.Exec(`INSERT INTO principals (id, kind, handle, display_name, status, created_at) VALUES ($1, 'user', $1, $1, 'active', 1)`, id); err != nil {
				return err
			}
			return tx.Exec(`INSERT INTO group_members (group_id, principal_id) VALUES ('group', $1)`, id)
		}))
		permissions, err := storage.Read(b.Context(), g.DB, func(tx storage.Tx) (*authz.Snapshot, error) { return permissionsOf(tx, id) })
		require.NoError(b, err)
		s := &session{g: g, stream: &drain{}, device: id}
		_, err = g.join(b.Context(), s, g.hold(id), entrance{permissions: permissions})
		require.NoError(b, err)
	}
	return ids
}
