package workspace_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/workspace"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// model is what a client keeps of one space: a snapshot that events are applied to, each only when the
// resource's version is newer (ES-9.3).
type model struct {
	Space    wire.Space
	Channels map[string]wire.Channel
	Threads  map[string]wire.Thread
	Messages map[string]wire.Message
	// Reactions are counts by message and emoji.
	Reactions map[string]map[string]int64
}

func emptyModel() *model {
	return &model{
		Channels: map[string]wire.Channel{}, Threads: map[string]wire.Thread{}, Messages: map[string]wire.Message{},
		Reactions: map[string]map[string]int64{},
	}
}

func payloadOf[T any](t testing.TB, record *eventlog.Record) T {
	t.Helper()
	var payload T
	require.NoError(t, json.Unmarshal(record.Payload, &payload))
	return payload
}

// apply is a client's rule for every type of event of this package. What was truncated is loaded.
func (m *model) apply(w *world, by authz.Caller, record *eventlog.Record) {
	switch record.Type {
	case eventlog.SpaceCreated, eventlog.SpaceUpdated, eventlog.SpaceArchived, eventlog.SpaceUnarchived:
		if space := payloadOf[wire.SpaceEvent](w, record).Space; space.Version > m.Space.Version {
			m.Space = space
		}
	case eventlog.ChannelCreated, eventlog.ChannelUpdated, eventlog.ChannelArchived, eventlog.ChannelUnarchived:
		if channel := payloadOf[wire.ChannelEvent](w, record).Channel; channel.Version > m.Channels[channel.ID].Version {
			m.Channels[channel.ID] = channel
		}
	case eventlog.ChannelSettingsChanged:
		changed := payloadOf[wire.ChannelSettingsChanged](w, record)
		channel := m.Channels[changed.ChannelID]
		channel.SettingsVersion = changed.SettingsVersion
		m.Channels[changed.ChannelID] = channel
	case eventlog.ThreadCreated, eventlog.ThreadUpdated, eventlog.ThreadClosed, eventlog.ThreadReopened, eventlog.ThreadMoved:
		m.thread(payloadOf[wire.ThreadEvent](w, record).Thread)
	case eventlog.ThreadMovedOut: // this client sees where the thread went
	case eventlog.MessageCreated, eventlog.MessageUpdated, eventlog.MessageDeleted:
		m.message(w, by, record)
	case eventlog.ReactionAdded, eventlog.ReactionRemoved:
		if e := payloadOf[wire.ReactionEvent](w, record); e.Emoji != "" {
			m.react(e.MessageID, e.Emoji, e.Count)
		}
	case eventlog.PinAdded, eventlog.PinRemoved:
		e := payloadOf[wire.PinEvent](w, record)
		if message := m.Messages[e.MessageID]; message.DeletedAt == nil {
			message.Pinned = e.Pinned
			m.Messages[e.MessageID] = message
		}
	case eventlog.AccessChanged: // the gateway's concern
	default:
		require.Fail(w, "no client knows this event", record.Type)
	}
}

func (m *model) thread(thread wire.Thread) {
	if thread.Version > m.Threads[thread.ID].Version {
		m.Threads[thread.ID] = thread
	}
	for id, message := range m.Messages {
		if message.ThreadID == thread.ID {
			message.ChannelID = m.Threads[thread.ID].ChannelID
			m.Messages[id] = message
		}
	}
}

func (m *model) message(w *world, by authz.Caller, record *eventlog.Record) {
	e := payloadOf[wire.MessageEvent](w, record)
	if thread, known := m.Threads[e.Thread.ID]; known && e.Thread.Version > thread.Version {
		thread.Version, thread.State, thread.LastMessageSeq = e.Thread.Version, e.Thread.State, e.Thread.LastMessageSeq
		thread.MessageCount, thread.LastActivityAt = e.Thread.MessageCount, e.Thread.LastActivityAt
		m.Threads[thread.ID] = thread
	}
	require.Equal(w, record.Resource.Version, e.Message.Version, record.Type)
	message := e.Message
	if record.Truncated {
		var err error
		message, err = w.Message(w.Context(), by, message.ID)
		require.NoError(w, err)
	}
	if message.Version <= m.Messages[message.ID].Version {
		return
	}
	message.ChannelID = m.Threads[message.ThreadID].ChannelID
	m.store(message)
}

func (m *model) store(message wire.Message) {
	m.Reactions[message.ID] = map[string]int64{}
	for _, r := range message.Reactions {
		m.Reactions[message.ID][r.Emoji] = r.Count
	}
	message.Reactions = nil
	m.Messages[message.ID] = message
}

func (m *model) react(id, emoji string, count int64) {
	if m.Messages[id].DeletedAt != nil {
		return
	}
	if count == 0 {
		delete(m.Reactions[id], emoji)
		return
	}
	m.Reactions[id][emoji] = count
}

// fresh reads everything of a space as the caller sees it.
func (w *world) fresh(by authz.Caller, spaceID string) *model {
	w.Helper()
	m := emptyModel()
	var err error
	m.Space, err = w.Space(w.Context(), by, spaceID)
	require.NoError(w, err)
	for _, channel := range all(w, func(p workspace.Paging) (wire.Page[wire.Channel], error) {
		return w.Channels(w.Context(), by, spaceID, p)
	}) {
		m.Channels[channel.ID] = channel
		threads := all(w, func(p workspace.Paging) (wire.Page[wire.Thread], error) {
			return w.Threads(w.Context(), by, channel.ID, "", p)
		})
		for _, thread := range threads {
			m.Threads[thread.ID] = thread
			w.freshMessages(by, m, thread)
		}
	}
	return m
}

func (w *world) freshMessages(by authz.Caller, m *model, thread wire.Thread) {
	w.Helper()
	var seq, count int64
	for more := true; more; {
		page, err := w.Messages(w.Context(), by, thread.ID, workspace.MessageQuery{After: &seq, Limit: 7})
		require.NoError(w, err)
		for _, message := range page.Messages {
			seq++
			require.Equal(w, seq, message.ThreadSeq, "ES-4: no gap")
			if message.DeletedAt == nil {
				count++
			}
			m.store(message)
		}
		more = page.HasMore
	}
	require.Equal(w, thread.LastMessageSeq, seq)
	require.Equal(w, thread.MessageCount, count)
}

// all reads every page of a list.
func all[T any](w *world, list func(workspace.Paging) (wire.Page[T], error)) []T {
	w.Helper()
	var items []T
	for paging := (workspace.Paging{Limit: 3}); ; {
		page, err := list(paging)
		require.NoError(w, err)
		require.LessOrEqual(w, len(page.Items), 3)
		items = append(items, page.Items...)
		if page.NextCursor == "" {
			return items
		}
		paging.After = page.NextCursor
	}
}

// same compares two models, also what JSON does not tell apart.
func same(w *world, want, got *model) {
	w.Helper()
	encoded := func(m *model) string {
		text, err := json.MarshalIndent(m, "", " ")
		require.NoError(w, err)
		return string(text)
	}
	require.Equal(w, encoded(want), encoded(got))
}

// follow applies the events of a space after a number.
func (m *model) follow(w *world, by authz.Caller, spaceID string, after int64) {
	w.Helper()
	last := after
	for _, record := range w.since(after) {
		require.Equal(w, last+1, record.Seq, "ES-3: no gap")
		last = record.Seq
		if record.Scope.SpaceID == spaceID {
			m.apply(w, by, record)
		}
	}
}
