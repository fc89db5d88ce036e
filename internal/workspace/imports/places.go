package imports

import (
	"fmt"
	"time"

	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// channel is the channel of a batch; found says that an earlier batch made it.
type channel struct {
	wire.Channel

	found bool
}

// thread is the thread of a batch; found says that it holds what an earlier batch wrote, or that it came
// with its channel.
type thread struct {
	wire.Thread

	found bool
}

func (a *application) findChannel() error {
	c := &a.channel
	var topic, main *string
	found, err := a.tx.Get(
		`SELECT c.id, c.space_id, c.kind, c.name, c.topic, c.archived_at, c.main_thread_id
		   FROM channels c WHERE c.import_id = $1 AND c.source_id = $2`,
		[]any{a.imported.ID, a.batch.Channel.SourceID}, &c.ID, &c.SpaceID, &c.Kind, &c.Name, &topic, &c.ArchivedAt, &main)
	if err != nil {
		return fmt.Errorf("look for channel of a batch: %w", err)
	}
	if !found {
		return nil // an archived space has refused before
	}
	c.found = true
	if main != nil {
		c.MainThreadID = *main
	}
	switch {
	case c.ArchivedAt != nil:
		return fault.New(code.Conflict, "The channel was archived.")
	case c.Kind != a.batch.Channel.Kind:
		return fault.Invalid("/channel/kind", "is %s since an earlier batch", c.Kind)
	default:
		return nil
	}
}

// findThread reads and locks the thread of the batch. The main timeline is the channel's.
func (a *application) findThread() error {
	if !a.channel.found {
		return nil
	}
	where, args := `import_id = $1 AND source_id = $2`, []any{a.imported.ID, a.batch.Thread.SourceID}
	if a.batch.Thread.Main {
		where, args = `import_id = $1 AND id = $2`, []any{a.imported.ID, a.channel.MainThreadID}
	}
	t := &a.thread
	var title *string
	found, err := a.tx.Get(
		`SELECT id, channel_id, kind, title, state, last_message_seq, message_count, last_activity_at, unread_floor_seq, created_at, version
		   FROM threads WHERE `+where+` FOR NO KEY UPDATE`, args,
		&t.ID, &t.ChannelID, &t.Kind, &title, &t.State, &t.LastMessageSeq, &t.MessageCount, &t.LastActivityAt, &t.UnreadFloorSeq, &t.CreatedAt, &t.Version)
	if err != nil {
		return fmt.Errorf("look for thread of a batch: %w", err)
	}
	t.found = found
	if title != nil {
		t.Title = *title
	}
	switch {
	case found && t.ChannelID != a.channel.ID:
		return fault.New(code.Conflict, "The thread was moved to another channel.")
	case found && !a.batch.Thread.Main && t.Kind == wire.ThreadMain:
		return fault.Invalid("/thread/source_id", "names the main timeline of another channel")
	default:
		return nil
	}
}

// makeChannel makes the channel of a first batch, with its main timeline.
func (s *Service) makeChannel(a *application) error {
	if a.channel.found {
		return nil
	}
	c := wire.Channel{
		ID: s.Env.NewID(), SpaceID: a.imported.SpaceID, Kind: a.batch.Channel.Kind, Name: a.batch.Channel.Name, Topic: a.batch.Channel.Topic,
		CreatedAt: a.tx.Now(), Version: 1, SettingsVersion: 1,
	}
	if c.Kind == wire.ChannelText {
		c.MainThreadID = s.Env.NewID()
	}
	a.channel.Channel = c
	scope := wire.Scope{SpaceID: c.SpaceID, ChannelID: c.ID}
	err := a.tx.Exec(
		`INSERT INTO channels (id, space_id, kind, name, topic, main_thread_id, import_id, source_id, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		c.ID, c.SpaceID, c.Kind, c.Name, optional(c.Topic), optional(c.MainThreadID), a.imported.ID, a.batch.Channel.SourceID, c.CreatedAt)
	if err != nil {
		return fmt.Errorf("write channel: %w", err)
	}
	if err := s.Log.Emit(a.tx, event(a.by, eventlog.ChannelCreated, scope, c.ID, c.Version, wire.ChannelEvent{Channel: c})); err != nil {
		return err
	}
	if c.Kind != wire.ChannelText || a.batch.Thread.Main {
		return nil
	}
	began := c.CreatedAt // the main timeline is as old as what comes with it, not as the import
	for i := range a.batch.Messages {
		if at := stored(a.batch.Messages[i].CreatedAt); at.Before(began) {
			began = at
		}
	}
	main := wire.Thread{
		ID: c.MainThreadID, ChannelID: c.ID, Kind: wire.ThreadMain, State: wire.ThreadOpen, LastActivityAt: began, CreatedAt: began, Version: 1,
	}
	if err := insertThread(a.tx, &main, a.imported.ID, "", a.by.Principal); err != nil {
		return err
	}
	scope.ThreadID = main.ID
	return s.Log.Emit(a.tx, event(a.by, eventlog.ThreadCreated, scope, main.ID, main.Version, wire.ThreadEvent{Thread: main}))
}

// makeThread decides what a thread that is not there yet will be; storeThread writes it with its numbers.
func (s *Service) makeThread(a *application, fresh []*wire.ImportMessage) {
	if a.thread.found {
		return
	}
	began := a.tx.Now()
	if len(fresh) > 0 {
		began = fresh[0].CreatedAt
	}
	t := wire.Thread{
		ID: a.channel.MainThreadID, ChannelID: a.channel.ID, Kind: wire.ThreadMain, State: wire.ThreadOpen, CreatedAt: began, LastActivityAt: began,
	}
	if !a.batch.Thread.Main {
		t.ID, t.Title, t.Kind = s.Env.NewID(), a.batch.Thread.Title, wire.ThreadThread
		if a.channel.Kind == wire.ChannelForum {
			t.Kind = wire.ThreadPost
		}
	}
	a.thread.Thread = t
}

// storeThread writes the thread with the numbers it has after the batch. What was imported counts as
// unread for nobody (ES-15.8).
func (a *application) storeThread(made bool, fresh []*wire.ImportMessage) error {
	t := &a.thread.Thread
	t.Version++
	if t.LastMessageSeq == 0 && len(fresh) > 0 {
		t.LastActivityAt = fresh[0].CreatedAt // nothing has happened in it yet
	}
	t.LastMessageSeq += int64(len(fresh))
	t.MessageCount += int64(len(fresh))
	if len(fresh) > 0 {
		t.UnreadFloorSeq = t.LastMessageSeq
	}
	for _, m := range fresh {
		if m.CreatedAt.After(t.LastActivityAt) {
			t.LastActivityAt = m.CreatedAt
		}
	}
	if now := a.tx.Now(); t.LastActivityAt.After(now) {
		t.LastActivityAt = now // a message from the future does not stay on top
	}
	t.CreatedAt, t.LastActivityAt = stored(t.CreatedAt), stored(t.LastActivityAt)
	if made {
		source := a.batch.Thread.SourceID
		if a.batch.Thread.Main {
			source = ""
		}
		return insertThread(a.tx, t, a.imported.ID, source, a.by.Principal)
	}
	err := a.tx.Exec(
		`UPDATE threads SET last_message_seq = $2, message_count = $3, last_activity_at = $4, unread_floor_seq = $5, version = $6 WHERE id = $1`,
		t.ID, t.LastMessageSeq, t.MessageCount, t.LastActivityAt, t.UnreadFloorSeq, t.Version)
	if err != nil {
		return fmt.Errorf("write thread: %w", err)
	}
	return nil
}

// stored is a time as the database answers it.
func stored(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// insertThread writes a thread. The main timeline has no source id: it is found by its channel.
func insertThread(tx storage.Tx, t *wire.Thread, importID, source, by string) error {
	err := tx.Exec(
		`INSERT INTO threads (id, channel_id, kind, title, state, last_message_seq, message_count, last_activity_at, unread_floor_seq,
		                      created_by, import_id, source_id, created_at, version)
		 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
		t.ID, t.ChannelID, t.Kind, optional(t.Title), t.State, t.LastMessageSeq, t.MessageCount, t.LastActivityAt, t.UnreadFloorSeq,
		by, importID, optional(source), t.CreatedAt, t.Version)
	if err != nil {
		return fmt.Errorf("write thread: %w", err)
	}
	return nil
}

func optional(text string) any {
	if text == "" {
		return nil
	}
	return text
}
