package gateway_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// attachment is a file that a message holds.
func (w *world) attachment(name string) wire.File {
	return wire.File{
		ID: w.env.NewID(), UploadedBy: w.owner, Purpose: "attachment", UploadState: "complete", ScanStatus: "skipped", TranscriptStatus: "none",
		OriginalName: name, MimeType: "text/plain", Thumbnails: []json.RawMessage{}, Version: 1,
	}
}

// deletion is what is left of a file.
func deletion(file wire.File, at time.Time) wire.File {
	file.OriginalName, file.MimeType, file.DeletedAt, file.Version = "", "application/octet-stream", &at, file.Version+1
	return file
}

// A deleted file's name is in the events of messages too, in the log and in memory.
func TestRememberedEventsForgetDeletedFiles(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db)
		n := w.node()
		channel, other := w.channel(), w.channel()
		thread, elsewhere := w.thread(channel), w.thread(other)
		start := n.settled()
		file, kept := w.attachment("secret-salaries.xlsx"), w.attachment("picnic.txt")
		created := w.message(channel, thread, "hello")
		message := created.Payload.(wire.MessageEvent).Message
		message.Attachments = []wire.File{kept, file}
		created.Payload = wire.MessageEvent{Message: message}
		n.emit(created)
		require.NoError(t, n.db.Write(t.Context(), nil, func(tx storage.Tx) error {
			gone := deletion(file, tx.Now())
			rewritten := message
			rewritten.Attachments = []wire.File{kept, gone}
			payload, err := json.Marshal(wire.MessageEvent{Message: rewritten})
			if err != nil {
				return err
			}
			if err := tx.Exec(`UPDATE event_log SET payload = $2 WHERE resource_id = $1`, message.ID, payload); err != nil {
				return err
			}
			for _, scope := range []wire.Scope{w.scope(channel, thread), w.scope(other, elsewhere)} {
				err := n.log.Emit(tx, eventlog.Event{
					Type: eventlog.FileUpdated, Scope: scope, ResourceID: file.ID, ResourceVersion: gone.Version, Payload: wire.FileEvent{File: gone},
				})
				if err != nil {
					return err
				}
			}
			return nil
		}))
		n.settled()
		page, err := n.Events(t.Context(), caller(w.owner), start, "", 10)
		require.NoError(t, err)
		c := n.connect(w.device(w.owner), start)
		t.Run("ES-2.2 what is sent out of memory is as the log has it", func(t *testing.T) {
			require.Len(t, page.Events, 3)
			for _, logged := range page.Events {
				got := c.event(logged.Type)
				require.NotContains(t, string(got.Payload), "secret-salaries")
				require.JSONEq(t, string(logged.Payload), string(got.Payload))
				require.Equal(t, logged.Redacted, got.Redacted)
			}
			require.Contains(t, string(page.Events[0].Payload), "picnic.txt")
		})
	})
}
