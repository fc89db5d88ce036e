package workspace_test

import (
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/idempotency"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/workspace"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Each random history costs hundreds of transactions: fewer than rapid's hundred do for a run; -rapid.checks
// asks for more.
const histories = "20"

func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", histories); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

const (
	maxPayload = 65536
	patience   = 20 * time.Second
	tick       = time.Millisecond
)

// world is the domain on a fresh database.
type world struct {
	testing.TB
	*workspace.Service

	db  storage.DB
	env *env.Env
	log *eventlog.Log
	// owner owns the instance.
	owner authz.Caller
}

func newWorld(tb testing.TB, db storage.DB, change ...func(*workspace.Options)) *world {
	tb.Helper()
	w := &world{TB: tb, db: db, env: testkit.Env()}
	w.log = eventlog.New(eventlog.Options{MaxPayload: maxPayload, NewID: w.env.NewID})
	options := workspace.Options{
		DB: db, Log: w.log, Authz: authz.New(db, w.log, w.env), Env: w.env, MaxChars: 20_000, MaxAttachments: 3, MaxPayload: maxPayload,
	}
	for _, c := range change {
		c(&options)
	}
	w.Service = workspace.New(options)
	w.owner = w.person("owner")
	w.grant(w.owner, wire.Target{Kind: wire.TargetInstance}, wire.LevelOwner)
	return w
}

// on is the world in a subtest.
func (w *world) on(t *testing.T) *world {
	copied := *w
	copied.TB = t
	return &copied
}

// each runs body on both engines.
func each(t *testing.T, body func(w *world)) {
	t.Helper()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) { body(newWorld(t, db.DB)) })
}

// run runs a part of a test, in order.
func (w *world) run(name string, body func(w *world)) {
	w.Helper()
	w.TB.(*testing.T).Run(name, func(t *testing.T) { body(w.on(t)) })
}

func (w *world) exec(query string, args ...any) {
	w.Helper()
	require.NoError(w, w.db.Write(w.Context(), nil, func(tx storage.Tx) error { return tx.Exec(query, args...) }))
}

// change is exec for what permissions depend on: their version grows.
func (w *world) change(query string, args ...any) {
	w.Helper()
	require.NoError(w, w.db.Write(w.Context(), []storage.Key{storage.ChangePermissions}, func(tx storage.Tx) error {
		if err := tx.Exec(query, args...); err != nil {
			return err
		}
		return tx.Exec(`UPDATE sequence_counters SET value = value + 1 WHERE name = 'permission_version'`)
	}))
}

func (w *world) number(query string, args ...any) int64 {
	w.Helper()
	n, err := storage.Read(w.Context(), w.db, func(tx storage.Tx) (int64, error) {
		var n int64
		_, err := tx.Get(query, args, &n)
		return n, err
	})
	require.NoError(w, err)
	return n
}

func (w *world) person(handle string) authz.Caller { return w.principal(wire.KindUser, handle) }

func (w *world) principal(kind wire.Kind, handle string) authz.Caller {
	w.Helper()
	id := w.env.NewID()
	if kind == wire.KindUser {
		w.exec(`INSERT INTO users (id, name, created_at) VALUES ($1, $2, 1)`, id, handle)
	}
	w.exec(`INSERT INTO principals (id, kind, handle, display_name, status, created_at) VALUES ($1, $2, $3, $3, 'active', 1)`, id, kind, handle)
	return authz.Caller{
		Principal: id, Kind: kind, Device: w.env.NewID(), AuthTime: w.env.Now(), StepUpMaxAge: time.Hour, Correlation: w.env.NewID(),
	}
}

func onSpace(id string) wire.Target   { return wire.Target{Kind: wire.TargetSpace, ID: id} }
func onChannel(id string) wire.Target { return wire.Target{Kind: wire.TargetChannel, ID: id} }

func (w *world) grant(to authz.Caller, target wire.Target, level wire.Level) {
	w.Helper()
	w.change(`INSERT INTO grants (id, subject_kind, subject_id, target_kind, target_id, level, created_at) VALUES ($1, 'principal', $2, $3, $4, $5, 1)`,
		w.env.NewID(), to.Principal, target.Kind, target.ID, level)
}

func (w *world) revoke(from authz.Caller) {
	w.Helper()
	w.change(`UPDATE grants SET revoked_at = 1 WHERE subject_id = $1`, from.Principal)
}

// member is a person with a level on a target.
func (w *world) member(handle string, target wire.Target, level wire.Level) authz.Caller {
	w.Helper()
	by := w.person(handle)
	w.grant(by, target, level)
	return by
}

func (w *world) space() wire.Space {
	w.Helper()
	space, err := w.CreateSpace(w.Context(), w.owner, wire.NewSpace{Name: "Space"})
	require.NoError(w, err)
	return space
}

func (w *world) channel(spaceID string, kind wire.ChannelKind) wire.Channel {
	w.Helper()
	channel, err := w.CreateChannel(w.Context(), w.owner, wire.NewChannel{SpaceID: spaceID, Kind: kind, Name: "channel"})
	require.NoError(w, err)
	return channel
}

// text is a new text channel in a new space.
func (w *world) text() wire.Channel {
	w.Helper()
	return w.channel(w.space().ID, wire.ChannelText)
}

func (w *world) message(text string) wire.NewMessage {
	return wire.NewMessage{ClientMsgID: w.env.NewID(), ContentMD: text}
}

func (w *world) say(by authz.Caller, threadID, text string) wire.Message {
	w.Helper()
	m, replayed, err := w.CreateMessage(w.Context(), by, threadID, w.message(text))
	require.NoError(w, err)
	require.False(w, replayed)
	return m
}

func (w *world) start(by authz.Caller, channelID, title string) wire.ThreadStarted {
	w.Helper()
	started, _, err := w.StartThread(w.Context(), by, channelID, wire.NewThread{Title: title, ClientMsgID: w.env.NewID(), ContentMD: "first"})
	require.NoError(w, err)
	return started
}

// file adds a file that is ready to be attached.
func (w *world) file(of authz.Caller) string {
	w.Helper()
	id := w.env.NewID()
	w.exec(`INSERT INTO files (id, uploaded_by, purpose, upload_state, scan_status, transcript_status, original_name, size_bytes, mime_type, created_at)
		VALUES ($1, $2, 'attachment', 'complete', 'clean', 'none', 'a.png', 3, 'image/png', 1)`, id, of.Principal)
	return id
}

func (w *world) head() int64 {
	return w.number(`SELECT value FROM sequence_counters WHERE name = 'event_seq'`)
}

// since answers the events after a number.
func (w *world) since(after int64) []*eventlog.Record {
	w.Helper()
	records, err := storage.Read(w.Context(), w.db, func(tx storage.Tx) ([]*eventlog.Record, error) {
		return eventlog.After(tx, after, 1<<40, 100_000)
	})
	require.NoError(w, err)
	return records
}

// emitted answers the types of the events that act causes.
func (w *world) emitted(act func()) []string {
	w.Helper()
	head := w.head()
	act()
	kinds := []string{}
	for _, record := range w.since(head) {
		kinds = append(kinds, record.Type)
	}
	return kinds
}

// keyed is the caller with an Idempotency-Key.
func (w *world) keyed(by authz.Caller, hash string) authz.Caller {
	by.Key = &idempotency.Key{Principal: by.Principal, Method: "POST", Path: "/", ID: w.env.NewID(), Hash: hash}
	return by
}

func (w *world) refused(want code.Code, err error) *fault.Error {
	w.Helper()
	var refusal *fault.Error
	require.Error(w, err, "wanted %s", want)
	require.ErrorAs(w, err, &refusal)
	require.Equal(w, want, refusal.Code, "%v", err)
	return refusal
}

// invalid wants validation_failed at a pointer.
func (w *world) invalid(pointer string, err error) {
	w.Helper()
	refusal := w.refused(code.ValidationFailed, err)
	problems := fault.ExtraOf(refusal).Errors
	require.Len(w, problems, 1)
	require.Equal(w, pointer, problems[0].Pointer, "%v", err)
}

func version(v int64) *int64 { return &v }

func text(s string) *string { return &s }
