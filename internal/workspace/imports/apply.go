package imports

import (
	"context"
	"fmt"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace/place"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Apply writes a batch: what is known of it is skipped (ES-15.8), so that a repeat needs no Idempotency-Key.
func (s *Service) Apply(ctx context.Context, by authz.Caller, importID string, batch wire.ImportBatch) (wire.ImportReceipt, error) {
	id, err := place.PathID("Import", importID)
	if err != nil {
		return wire.ImportReceipt{}, err
	}
	if err := s.check(&batch); err != nil {
		return wire.ImportReceipt{}, err
	}
	keys := []storage.Key{by.Lock(), {Lock: storage.LockImports, ID: id}}
	return storage.Write(ctx, s.DB, keys, func(tx storage.Tx) (wire.ImportReceipt, error) {
		imported, err := s.ofCaller(tx, by, id)
		if err != nil {
			return wire.ImportReceipt{}, err
		}
		if imported.State != Running {
			return wire.ImportReceipt{}, fault.New(code.Conflict, "The import is done; create it again to go on with it.")
		}
		return s.apply(tx, by, imported, &batch)
	})
}

// application is one batch being applied.
type application struct {
	tx       storage.Tx
	by       authz.Caller
	imported wire.Import
	batch    *wire.ImportBatch
	channel  channel
	thread   thread
	known    map[string]string // source id → message id, of this batch and of what it replies to
	threads  map[string]string // source id → thread id, of those that were there
	authors  map[string]author // by source id
}

func (s *Service) apply(tx storage.Tx, by authz.Caller, imported wire.Import, batch *wire.ImportBatch) (wire.ImportReceipt, error) {
	a := &application{tx: tx, by: by, imported: imported, batch: batch}
	if err := a.find(); err != nil {
		return wire.ImportReceipt{}, err
	}
	fresh := a.fresh()
	receipt := wire.ImportReceipt{Added: int64(len(fresh)), Known: int64(len(batch.Messages) - len(fresh))}
	if len(fresh) > 0 {
		if err := s.write(a, fresh); err != nil {
			return wire.ImportReceipt{}, err
		}
	}
	if receipt.Import, receipt.ThreadID = a.imported, a.thread.ID; receipt.ThreadID == "" {
		receipt.ThreadID = a.threads[batch.Messages[0].SourceID]
	}
	return receipt, nil
}

// find reads what the batch meets, and refuses what it must not change, before anything is written.
func (a *application) find() error {
	steps := []func() error{a.findChannel, a.findThread, a.findMessages}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// fresh answers the messages that are not there yet.
func (a *application) fresh() []*wire.ImportMessage {
	var fresh []*wire.ImportMessage
	for i := range a.batch.Messages {
		if m := &a.batch.Messages[i]; a.known[m.SourceID] == "" {
			fresh = append(fresh, m)
		}
	}
	return fresh
}

// write stores the fresh messages with all they need, and says that it happened.
func (s *Service) write(a *application, fresh []*wire.ImportMessage) error {
	madeThread := !a.thread.found
	if err := s.findAuthors(a, fresh); err != nil {
		return err
	}
	if err := s.makeChannel(a); err != nil {
		return err
	}
	s.makeThread(a, fresh)
	if err := s.writeMessages(a, fresh); err != nil {
		return err
	}
	if err := a.storeThread(madeThread, fresh); err != nil {
		return err
	}
	a.imported.Messages += int64(len(fresh))
	if madeThread {
		a.imported.Threads++
	}
	a.imported.Version++
	if err := store(a.tx, &a.imported); err != nil {
		return err
	}
	kind := eventlog.ThreadUpdated
	if madeThread {
		kind = eventlog.ThreadCreated
	}
	scope := wire.Scope{SpaceID: a.channel.SpaceID, ChannelID: a.channel.ID, ThreadID: a.thread.ID}
	if err := s.Log.Emit(a.tx, event(a.by, kind, scope, a.thread.ID, a.thread.Version, wire.ThreadEvent{Thread: a.thread.Thread})); err != nil {
		return err
	}
	return s.progress(a.tx, a.by, a.imported, scope)
}

// findMessages reads which messages of the batch, and of those they reply to, are there.
func (a *application) findMessages() error {
	a.known = map[string]string{}
	var ids []string
	for i := range a.batch.Messages {
		ids = append(ids, a.batch.Messages[i].SourceID)
		if reply := a.batch.Messages[i].ReplyToSourceID; reply != "" {
			ids = append(ids, reply)
		}
	}
	a.threads = map[string]string{}
	err := a.tx.Query(`SELECT source_id, id, thread_id FROM messages WHERE import_id = $1 AND source_id = ANY($2)`, []any{a.imported.ID, ids},
		func(row storage.Row) error {
			var source, id, threadID string
			err := row.Scan(&source, &id, &threadID)
			a.known[source], a.threads[source] = id, threadID
			return err
		})
	if err != nil {
		return fmt.Errorf("read known messages: %w", err)
	}
	for i := range a.batch.Messages {
		reply := &a.batch.Messages[i].ReplyToSourceID
		if at, known := a.threads[*reply]; known && at != a.thread.ID {
			*reply = "" // a reply is to a message of its own thread
		}
	}
	return nil
}
