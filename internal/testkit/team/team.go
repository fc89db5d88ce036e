// Package team is the Workspace domain on a fresh database, with people in it, for tests of its parts.
//
// A Team belongs to one test. Its functions fail that test instead of answering errors. It may be used by
// several goroutines.
package team

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/idempotency"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/workspace"
	"github.com/cairnsync/cairn/internal/workspace/files"
	"github.com/cairnsync/cairn/internal/workspace/imports"
	"github.com/cairnsync/cairn/internal/workspace/personal"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// The limits of the services, as the configuration has them by default.
const (
	MaxPayload     = 65_536
	MaxChars       = 20_000
	MaxAttachments = 10
	MaxBytes       = 1 << 20
)

// Team is the domain with an owner.
type Team struct {
	testing.TB

	DB       storage.DB
	URL      string
	Engine   string
	Env      *env.Env
	Log      *eventlog.Log
	Domain   *workspace.Service
	Personal *personal.Service
	Files    *files.Service
	Imports  *imports.Service
	// Owner owns the instance.
	Owner authz.Caller
	// Dir is the folder of files.
	Dir string
}

// Each runs body on both engines.
func Each(t *testing.T, body func(w *Team)) {
	t.Helper()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) { body(New(t, db)) })
}

// Database is a fresh database, for tests that are not run by Each.
func Database(tb testing.TB, engine string) *testkit.Database {
	tb.Helper()
	return testkit.New(tb, engine)
}

// New makes a team on a database; change alters the options of its files.
func New(tb testing.TB, db *testkit.Database, change ...func(*files.Options)) *Team {
	tb.Helper()
	w := &Team{TB: tb, DB: db.DB, URL: db.URL, Engine: db.Engine, Env: testkit.Env(), Dir: tb.TempDir()}
	w.Log = eventlog.New(eventlog.Options{MaxPayload: MaxPayload, NewID: w.Env.NewID})
	options := files.Options{
		DB: w.DB, Log: w.Log, Env: w.Env, Logger: slog.New(slog.DiscardHandler), Dir: w.Dir, MaxBytes: MaxBytes,
	}
	for _, c := range change {
		c(&options)
	}
	w.Files = files.New(options)
	w.Personal = personal.New(personal.Options{
		DB: w.DB, Log: w.Log, MaxChars: MaxChars, MaxAttachments: MaxAttachments, MaxPayload: MaxPayload,
	})
	w.Imports = imports.New(imports.Options{DB: w.DB, Log: w.Log, Env: w.Env, MaxChars: MaxChars})
	w.Domain = workspace.New(workspace.Options{
		DB: w.DB, Log: w.Log, Authz: authz.New(w.DB, w.Log, w.Env), Env: w.Env, MaxChars: MaxChars, MaxAttachments: MaxAttachments,
		MaxPayload: MaxPayload, Hooks: workspace.Hooks{ClearDraft: w.Personal.ClearDraft, Released: w.Files.Released},
	})
	w.Owner = w.Person("owner")
	w.Grant(w.Owner, wire.Target{Kind: wire.TargetInstance}, wire.LevelOwner)
	return w
}

// Run runs a part of a test, in order.
func (w *Team) Run(name string, body func(w *Team)) {
	w.Helper()
	w.TB.(*testing.T).Run(name, func(t *testing.T) {
		copied := *w
		copied.TB = t
		body(&copied)
	})
}

// Exec runs a statement.
func (w *Team) Exec(query string, args ...any) {
	w.Helper()
	require.NoError(w, w.DB.Write(w.Context(), nil, func(tx storage.Tx) error { return tx.Exec(query, args...) }))
}

// Number answers the one number of a query.
func (w *Team) Number(query string, args ...any) int64 {
	w.Helper()
	n, err := storage.Read(w.Context(), w.DB, func(tx storage.Tx) (int64, error) {
		var n int64
		_, err := tx.Get(query, args, &n)
		return n, err
	})
	require.NoError(w, err)
	return n
}

// Person adds a person with a device.
func (w *Team) Person(handle string) authz.Caller {
	w.Helper()
	return w.Principal(wire.KindUser, handle)
}

// Principal adds somebody.
func (w *Team) Principal(kind wire.Kind, handle string) authz.Caller {
	w.Helper()
	id := w.Env.NewID()
	if kind == wire.KindUser {
		w.Exec(`INSERT INTO users (id, name, email, created_at) VALUES ($1, $2, $3, 1)`, id, handle, handle+"@example.org")
	}
	w.Exec(`INSERT INTO principals (id, kind, handle, display_name, status, created_at) VALUES ($1, $2, $3, $3, 'active', 1)`, id, kind, handle)
	return authz.Caller{
		Principal: id, Kind: kind, Device: w.Env.NewID(), AuthTime: w.Env.Now(), StepUpMaxAge: time.Hour, Correlation: w.Env.NewID(),
	}
}

// OnSpace is a space as the target of a grant.
func OnSpace(id string) wire.Target { return wire.Target{Kind: wire.TargetSpace, ID: id} }

// OnChannel is a channel as the target of a grant.
func OnChannel(id string) wire.Target { return wire.Target{Kind: wire.TargetChannel, ID: id} }

// Grant gives a level.
func (w *Team) Grant(to authz.Caller, target wire.Target, level wire.Level) {
	w.Helper()
	w.change(`INSERT INTO grants (id, subject_kind, subject_id, target_kind, target_id, level, created_at) VALUES ($1, 'principal', $2, $3, $4, $5, 1)`,
		w.Env.NewID(), to.Principal, target.Kind, target.ID, level)
}

// Revoke takes every level.
func (w *Team) Revoke(from authz.Caller) {
	w.Helper()
	w.change(`UPDATE grants SET revoked_at = 1 WHERE subject_id = $1`, from.Principal)
}

// change is Exec for what permissions depend on: their version grows.
func (w *Team) change(query string, args ...any) {
	w.Helper()
	require.NoError(w, w.DB.Write(w.Context(), []storage.Key{storage.ChangePermissions}, func(tx storage.Tx) error {
		if err := tx.Exec(query, args...); err != nil {
			return err
		}
		return authz.Raise(tx)
	}))
}

// Member is a person with a level on a target.
func (w *Team) Member(handle string, target wire.Target, level wire.Level) authz.Caller {
	w.Helper()
	by := w.Person(handle)
	w.Grant(by, target, level)
	return by
}

// Space makes a space.
func (w *Team) Space() wire.Space {
	w.Helper()
	space, err := w.Domain.CreateSpace(w.Context(), w.Owner, wire.NewSpace{Name: "Space"})
	require.NoError(w, err)
	return space
}

// Channel makes a channel.
func (w *Team) Channel(spaceID string, kind wire.ChannelKind) wire.Channel {
	w.Helper()
	channel, err := w.Domain.CreateChannel(w.Context(), w.Owner, wire.NewChannel{SpaceID: spaceID, Kind: kind, Name: "channel"})
	require.NoError(w, err)
	return channel
}

// Text is a new text channel in a new space.
func (w *Team) Text() wire.Channel {
	w.Helper()
	return w.Channel(w.Space().ID, wire.ChannelText)
}

// Say sends a message.
func (w *Team) Say(by authz.Caller, threadID, text string, fileIDs ...string) wire.Message {
	w.Helper()
	m, _, err := w.Domain.CreateMessage(w.Context(), by, threadID, wire.NewMessage{ClientMsgID: w.Env.NewID(), ContentMD: text, FileIDs: fileIDs})
	require.NoError(w, err)
	return m
}

// Start starts a thread.
func (w *Team) Start(by authz.Caller, channelID, title string) wire.ThreadStarted {
	w.Helper()
	started, _, err := w.Domain.StartThread(w.Context(), by, channelID, wire.NewThread{Title: title, ClientMsgID: w.Env.NewID(), ContentMD: "first"})
	require.NoError(w, err)
	return started
}

// Head is the last number of the log.
func (w *Team) Head() int64 {
	w.Helper()
	return w.Number(`SELECT value FROM sequence_counters WHERE name = 'event_seq'`)
}

// Since answers the events after a number.
func (w *Team) Since(after int64) []*eventlog.Record {
	w.Helper()
	records, err := storage.Read(w.Context(), w.DB, func(tx storage.Tx) ([]*eventlog.Record, error) {
		return eventlog.After(tx, after, 1<<40, 100_000)
	})
	require.NoError(w, err)
	return records
}

// Emitted answers the events that act causes.
func (w *Team) Emitted(act func()) []*eventlog.Record {
	w.Helper()
	head := w.Head()
	act()
	return w.Since(head)
}

// Types answers the types of events.
func Types(records []*eventlog.Record) []string {
	types := []string{}
	for _, record := range records {
		types = append(types, record.Type)
	}
	return types
}

// Keyed is a caller with a new Idempotency-Key; hash stands for the request.
func (w *Team) Keyed(by authz.Caller, hash string) authz.Caller {
	by.Key = &idempotency.Key{Principal: by.Principal, Method: "PUT", Path: "/", ID: w.Env.NewID(), Hash: hash}
	return by
}

// Refused wants a refusal with a code.
func (w *Team) Refused(want code.Code, err error) *fault.Error {
	w.Helper()
	require.Error(w, err, "wanted %s", want)
	refusal := fault.From(err)
	require.Equal(w, want, refusal.Code, "%v", err)
	return refusal
}

// Invalid wants validation_failed at a pointer.
func (w *Team) Invalid(pointer string, err error) {
	w.Helper()
	problems := fault.ExtraOf(w.Refused(code.ValidationFailed, err)).Errors
	require.Len(w, problems, 1)
	require.Equal(w, pointer, problems[0].Pointer, "%v", err)
}

// Version points to a version, for If-Match.
func Version(v int64) *int64 { return &v }

// Personally reads in a transaction with the permissions of a caller.
func Personally[T any](w *Team, by authz.Caller, read func(tx storage.Tx, s *authz.Snapshot) (T, error)) T {
	w.Helper()
	value, err := storage.Read(w.Context(), w.DB, func(tx storage.Tx) (T, error) {
		snapshot, _, err := authz.Load(tx, by.Principal)
		if err != nil {
			var none T
			return none, err
		}
		return read(tx, snapshot)
	})
	require.NoError(w, err)
	return value
}
