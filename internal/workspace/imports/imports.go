// Package imports writes what another chat exported into a space (ES-15.8; workspace specification, section 5).
//
// Contract. An import belongs to one space and one source, which names the export: the same source again
// goes on with the same import. A batch is part of one thread and one transaction, which commits alone; what
// was applied before is known by its source id and skipped, so that a batch may be repeated. An import writes
// only into channels and threads that it made. Messages keep their times and have the origin import: they
// count as unread for nobody, mention nobody, trigger nothing and notify nobody. Authors are people found by
// their e-mail address among those whom the caller sees, or else principals made for them, which never act;
// each import has its own.
//
// Order. Messages of a batch are numbered in the order in which they come, behind what the thread has.
// Instead of an event per message there is thread.created or thread.updated, and one import.progress; a batch
// of known messages writes neither.
//
// What the specification leaves open is decided here: an import that is done is opened again by creating it
// again; a message that an earlier batch put into another thread is known and stays there; import.progress of
// a batch goes to the batch's channel, that of the end to who has a level on the space; who imports is named
// as who pinned; a thread that was moved to another channel, or whose channel was archived, takes no more
// batches (conflict).
//
// Blocking and concurrency. A Service is safe for concurrent use and owns no goroutine; operations wait for
// the database only.
package imports

import (
	"context"
	"fmt"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/idempotency"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace/place"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// The states of an import.
const (
	Running = "running"
	Done    = "done"
)

// The administration that is written down.
const (
	auditCreate = "import:create"
	auditFinish = "import:finish"
)

// Options are what a Service needs.
type Options struct {
	DB  storage.DB
	Log *eventlog.Log
	Env *env.Env
	// MaxChars is message.max_chars.
	MaxChars int
}

// Service is the operations on imports. Make it with New.
type Service struct{ Options }

// New makes the service.
func New(o Options) *Service { return &Service{o} }

// Create begins an import into a space, or answers the one that has this source, open again if it was done;
// created says which.
func (s *Service) Create(ctx context.Context, by authz.Caller, in wire.NewImport) (imported wire.Import, created bool, err error) {
	spaceID, err := place.BodyID("/space_id", in.SpaceID)
	if err != nil {
		return wire.Import{}, false, err
	}
	if err := sourceID("/source", in.Source); err != nil {
		return wire.Import{}, false, err
	}
	keys := []storage.Key{by.Lock(), {Lock: storage.LockSpaces, ID: spaceID}}
	imported, err = storage.Write(ctx, s.DB, keys, func(tx storage.Tx) (wire.Import, error) {
		created = false
		if err := s.space(tx, by, spaceID); err != nil {
			return wire.Import{}, inBody(err)
		}
		return idempotency.OnceByID(tx, by.Key, func() (wire.Import, error) {
			old, found, err := read(tx, `space_id = $1 AND source = $2`, spaceID, in.Source)
			if err != nil {
				return old, err
			}
			if found {
				return old, s.reopen(tx, &old)
			}
			created = true
			return s.create(tx, by, spaceID, in.Source)
		}, func(i wire.Import) string { return i.ID }, func(id string) (wire.Import, error) {
			found, _, err := read(tx, `id = $1`, id)
			return found, err
		})
	})
	return imported, created, err
}

// inBody answers for a space named in a body like for one that does not exist (WS-AZ-5).
func inBody(err error) error {
	if fault.Is(err, code.NotFound) {
		return fault.Invalid("/space_id", "names no space")
	}
	return err
}

// space authorises an import into a space.
func (s *Service) space(tx storage.Tx, by authz.Caller, id string) error {
	where, found, err := authz.SpacePlace(tx, id)
	if err != nil {
		return err
	}
	if !found {
		return fault.Missing("Space")
	}
	_, err = authz.Check(tx, by, action.ImportApply, authz.Resource{What: "Space", Place: where})
	return err
}

func (s *Service) create(tx storage.Tx, by authz.Caller, spaceID, source string) (wire.Import, error) {
	made := wire.Import{ID: s.Env.NewID(), SpaceID: spaceID, Source: source, State: Running, CreatedAt: tx.Now(), Version: 1}
	err := tx.Exec(`INSERT INTO imports (id, space_id, source, state, created_by, created_at) VALUES ($1, $2, $3, $4, $5, $6)`,
		made.ID, spaceID, source, made.State, by.Principal, made.CreatedAt)
	if err != nil {
		return made, fmt.Errorf("write import: %w", err)
	}
	return made, s.audit(tx, by, auditCreate, made.ID, map[string]string{"space_id": spaceID})
}

func (s *Service) reopen(tx storage.Tx, imported *wire.Import) error {
	if imported.State == Running {
		return nil
	}
	imported.State = Running
	imported.Version++
	return store(tx, imported)
}

func store(tx storage.Tx, i *wire.Import) error {
	err := tx.Exec(`UPDATE imports SET state = $2, threads = $3, messages = $4, version = $5 WHERE id = $1`,
		i.ID, i.State, i.Threads, i.Messages, i.Version)
	if err != nil {
		return fmt.Errorf("write import: %w", err)
	}
	return nil
}

func (s *Service) audit(tx storage.Tx, by authz.Caller, what, id string, detail any) error {
	return audit.Write(tx, s.Env, audit.Entry{
		UserID: by.AuditID(), DeviceID: by.Device, Action: what, TargetKind: "import", TargetID: id, Detail: detail,
	})
}

// Get answers an import to who may apply to it.
func (s *Service) Get(ctx context.Context, by authz.Caller, importID string) (wire.Import, error) {
	id, err := place.PathID("Import", importID)
	if err != nil {
		return wire.Import{}, err
	}
	return storage.Read(ctx, s.DB, func(tx storage.Tx) (wire.Import, error) { return s.ofCaller(tx, by, id) })
}

// ofCaller answers an import into a space that the caller manages. Who does not see the space does not see
// the import.
func (s *Service) ofCaller(tx storage.Tx, by authz.Caller, id string) (wire.Import, error) {
	imported, found, err := read(tx, `id = $1`, id)
	if err != nil {
		return imported, err
	}
	if !found {
		return imported, fault.Missing("Import")
	}
	if err := s.space(tx, by, imported.SpaceID); err != nil {
		if fault.Is(err, code.NotFound) {
			err = fault.Missing("Import")
		}
		return wire.Import{}, err
	}
	return imported, nil
}

// List answers the imports of the spaces that the caller manages.
func (s *Service) List(ctx context.Context, by authz.Caller, p place.Paging) (wire.Page[wire.Import], error) {
	after, err := p.AfterID()
	if err != nil {
		return wire.Page[wire.Import]{}, err
	}
	return storage.Read(ctx, s.DB, func(tx storage.Tx) (wire.Page[wire.Import], error) {
		snapshot, err := authz.Check(tx, by, action.SelfRead, authz.Resource{What: "Import"})
		if err != nil {
			return wire.Page[wire.Import]{}, err
		}
		var all []wire.Import
		err = tx.Query(`SELECT `+columns+` FROM imports WHERE id > $1 ORDER BY id`, []any{after}, func(row storage.Row) error {
			imported, err := scan(row)
			resource := authz.Resource{What: "Space", Place: authz.Place{SpaceID: imported.SpaceID}}
			if err == nil && len(all) <= p.Size() && authz.Authorize(snapshot, by, action.ImportApply, resource, tx.Now()) == nil {
				all = append(all, imported)
			}
			return err
		})
		if err != nil {
			return wire.Page[wire.Import]{}, fmt.Errorf("read imports: %w", err)
		}
		return place.Page(all, p.Size(), func(i wire.Import) string { return i.ID }), nil
	})
}

// Finish says that nothing more comes. It may be repeated.
func (s *Service) Finish(ctx context.Context, by authz.Caller, importID string) (wire.Import, error) {
	id, err := place.PathID("Import", importID)
	if err != nil {
		return wire.Import{}, err
	}
	keys := []storage.Key{by.Lock(), {Lock: storage.LockImports, ID: id}}
	return storage.Write(ctx, s.DB, keys, func(tx storage.Tx) (wire.Import, error) {
		imported, err := s.ofCaller(tx, by, id)
		if err != nil || imported.State == Done {
			return imported, err
		}
		imported.State = Done
		imported.Version++
		if err := store(tx, &imported); err != nil {
			return imported, err
		}
		if err := s.audit(tx, by, auditFinish, id, map[string]int64{"threads": imported.Threads, "messages": imported.Messages}); err != nil {
			return imported, err
		}
		return imported, s.progress(tx, by, imported, wire.Scope{SpaceID: imported.SpaceID})
	})
}

func (s *Service) progress(tx storage.Tx, by authz.Caller, i wire.Import, scope wire.Scope) error {
	return s.Log.Emit(tx, event(by, eventlog.ImportProgress, scope, i.ID, i.Version, wire.ImportProgress{
		ImportID: i.ID, State: i.State, Threads: i.Threads, Messages: i.Messages,
	}))
}

func event(by authz.Caller, kind string, scope wire.Scope, resourceID string, version int64, payload any) eventlog.Event {
	return eventlog.Event{
		Type: kind, Actor: by.Actor(), Scope: scope, ResourceID: resourceID, ResourceVersion: version, Payload: payload,
		CorrelationID: by.Correlation, TraceContext: by.Trace,
	}
}

const columns = `id, space_id, source, state, threads, messages, created_at, version`

func scan(row storage.Row) (wire.Import, error) {
	var i wire.Import
	err := row.Scan(&i.ID, &i.SpaceID, &i.Source, &i.State, &i.Threads, &i.Messages, &i.CreatedAt, &i.Version)
	return i, err
}

func read(tx storage.Tx, where string, args ...any) (imported wire.Import, found bool, err error) {
	err = tx.Query(`SELECT `+columns+` FROM imports WHERE `+where, args, func(row storage.Row) (err error) {
		imported, err = scan(row)
		found = true
		return err
	})
	if err != nil {
		return imported, false, fmt.Errorf("read import: %w", err)
	}
	return imported, found, nil
}
