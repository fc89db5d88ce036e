package gateway

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// recorded is an event as the log has it.
func recorded(t *testing.T, seq int64, kind, resource string, payload any) *event {
	t.Helper()
	text, err := json.Marshal(payload)
	require.NoError(t, err)
	return newEvents([]*eventlog.Record{{Envelope: wire.Envelope{
		Seq: seq, Type: kind, Resource: wire.Resource{Kind: eventlog.TypeOf(kind).Resource, ID: resource, Version: 1}, Payload: text,
	}}})[0]
}

// What waits for a connection that catches up loses what is deleted, also when it is not remembered any more.
func TestWaitingEventsAreErased(t *testing.T) {
	t.Parallel()
	at := time.UnixMicro(1).UTC()
	message := func(id string, files ...wire.File) wire.MessageEvent {
		return wire.MessageEvent{Message: wire.Message{ID: id, ContentMD: "secret", Attachments: files}}
	}
	gone := wire.File{ID: "file", DeletedAt: &at, Version: 2}
	cases := []struct {
		name  string
		waits *event
		by    *event
		ended bool
	}{
		{
			"ES-2.2 a message", recorded(t, 1, eventlog.MessageCreated, "m", message("m")),
			recorded(t, 2, eventlog.MessageDeleted, "m", wire.MessageEvent{Message: eventlog.Tombstone(message("m").Message, at)}), false,
		},
		{
			"ES-2.2 a file", recorded(t, 1, eventlog.FileUpdated, "file", wire.FileEvent{File: wire.File{ID: "file", OriginalName: "secret"}}),
			recorded(t, 2, eventlog.FileUpdated, "file", wire.FileEvent{File: gone}), false,
		},
		{
			"ES-2.2 a file of a message", recorded(t, 1, eventlog.MessageUpdated, "m", wire.MessageEvent{Message: wire.Message{
				ID: "m", Attachments: []wire.File{{ID: "file", OriginalName: "secret"}},
			}}),
			recorded(t, 2, eventlog.FileUpdated, "file", wire.FileEvent{File: gone}), false,
		},
		{
			"ES-2.2 what cannot be read ends the connection", recorded(t, 1, eventlog.MessageUpdated, "m", "no message, file"),
			recorded(t, 2, eventlog.FileUpdated, "file", wire.FileEvent{File: gone}), true,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := New(Options{Env: env.Real(), Log: slog.New(slog.DiscardHandler), Auth: nonces{}})
			defer g.cancel()
			stream := &watched{}
			s := &session{g: g, stream: stream, catching: true, out: []*event{c.waits}}
			g.sessions[s] = struct{}{}
			g.ring.add([]*event{c.by})
			g.erase(c.by)
			if c.ended {
				require.Equal(t, code.CloseUnknownError, stream.closed)
				return
			}
			require.Zero(t, stream.closed)
			require.NotContains(t, string(c.waits.record.Payload), "secret")
		})
	}
}

// Rows are not removed before those who are connected had the time to say so.
func TestSweeps(t *testing.T) {
	t.Parallel()
	const round = 50 * time.Second
	now := time.UnixMicro(0)
	var w sweeps
	tick := func(after time.Duration) bool {
		now = now.Add(after)
		return w.may(now, round)
	}
	require.False(t, tick(time.Hour), "a node that starts")
	require.False(t, tick(sweepEvery))
	require.True(t, tick(sweepEvery))
	w.trouble = now.Add(10 * time.Second)
	require.False(t, tick(sweepEvery), "rows could not be moved on")
	require.True(t, tick(sweepEvery))
	require.False(t, tick(time.Hour), "the machine slept, or the database did not answer")
	require.False(t, tick(sweepEvery))
	require.True(t, tick(sweepEvery))
}
