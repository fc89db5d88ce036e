package eventlog_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

const maxPayload = 65536

// newLog makes a log that hands what it committed to committed, which may be nil.
func newLog(committed func([]*eventlog.Record)) *eventlog.Log {
	return eventlog.New(eventlog.Options{MaxPayload: maxPayload, NewID: testkit.Env().NewID, Committed: committed})
}

// message is a message.created of an ordinary message.
func message(space, channel, thread string) eventlog.Event {
	e := testkit.Env()
	id := e.NewID()
	author := e.NewID()
	return eventlog.Event{
		Type: eventlog.MessageCreated, Actor: wire.Actor{ID: author, Kind: wire.KindUser}, ResourceID: id, ResourceVersion: 1,
		Scope:       wire.Scope{SpaceID: space, ChannelID: channel, ThreadID: thread},
		ClientMsgID: e.NewID(), CorrelationID: e.NewID(),
		Payload: wire.MessageEvent{
			Message: wire.Message{
				ID: id, ThreadID: thread, ChannelID: channel, ThreadSeq: 1, Author: wire.Author{ID: author, Kind: wire.KindUser}, ClientMsgID: id,
				Origin: wire.OriginHuman, Kind: "text", ContentMD: strings.Repeat("A sentence of a message. ", 8),
				Attachments: []wire.File{}, MentionIDs: []string{}, Components: []json.RawMessage{}, Reactions: []wire.Reaction{},
				CreatedAt: time.Now().UTC().Truncate(time.Microsecond), Version: 1,
			},
			Thread: wire.ThreadSummary{ID: thread, Version: 2, State: wire.ThreadOpen, LastMessageSeq: 1, MessageCount: 1},
		},
	}
}

// setting is a personal event.
func setting(principal string) eventlog.Event {
	return eventlog.Event{
		Type: eventlog.SettingsUpdated, ResourceID: "theme", ResourceVersion: 1, Audience: principal,
		Payload: wire.SettingEvent{Setting: wire.Setting{Key: "theme", Version: 1, Value: json.RawMessage(`"dark"`)}},
	}
}

// emit writes events in one transaction.
func emit(t testing.TB, db storage.DB, log *eventlog.Log, events ...eventlog.Event) {
	t.Helper()
	require.NoError(t, db.Write(t.Context(), nil, func(tx storage.Tx) error { return log.Emit(tx, events...) }))
}

// all answers what the log holds after a number.
func all(t testing.TB, db storage.DB, after int64) []*eventlog.Record {
	t.Helper()
	records, err := storage.Read(t.Context(), db, func(tx storage.Tx) ([]*eventlog.Record, error) {
		return eventlog.After(tx, after, 1<<60, 1<<20)
	})
	require.NoError(t, err)
	return records
}

func stateOf(t testing.TB, db storage.DB) eventlog.State {
	t.Helper()
	state, err := storage.Read(t.Context(), db, eventlog.StateOf)
	require.NoError(t, err)
	return state
}
