package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/conn"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/gateway"
	"github.com/cairnsync/cairn/internal/identity/signin"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// soon is how long a test waits for what should come at once.
const soon = 20 * time.Second

// clock is a process clock that tests move.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *clock) pass(d time.Duration) { c.ahead.Add(int64(d)) }

// world is a database with people, and nodes that serve it.
type world struct {
	t     testing.TB
	db    *testkit.Database
	env   *env.Env
	authz *authz.Service
	log   *eventlog.Log
	nodes []*node

	owner, space string
}

// node is one server: a tail, a gateway, a listener.
type node struct {
	*gateway.Gateway

	w      *world
	clock  *clock
	db     *faulty
	log    *eventlog.Log
	tail   *eventlog.Tail
	bus    signal.Bus
	server *httptest.Server
	auth   *authenticator
	stop   func()
}

// faulty is a database that can be away.
type faulty struct {
	storage.DB

	down atomic.Bool
}

var errDown = errors.New("the database is down")

func (f *faulty) Read(ctx context.Context, fn func(storage.Tx) error) error {
	if f.down.Load() {
		return errDown
	}
	return f.DB.Read(ctx, fn)
}

// authenticator takes tokens that say who they are: principal/device/sign-in/expiry, in microseconds.
type authenticator struct {
	mu     sync.Mutex
	fails  map[string]error
	nonces []string
	env    *env.Env
}

func (a *authenticator) Nonce() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	nonce := a.env.Token(9)
	a.nonces = append(a.nonces, nonce)
	return nonce
}

func (a *authenticator) AuthenticateGateway(_ context.Context, r signin.GatewayRequest) (signin.Caller, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.fails[r.AccessToken]; err != nil {
		return signin.Caller{}, err
	}
	if r.APIToken != "" {
		id, scopes, scoped := strings.Cut(r.APIToken, "/")
		caller := signin.Caller{Caller: authz.Caller{Principal: id, Kind: wire.KindAgent}, TokenID: "token-" + id}
		if scoped {
			caller.Scopes = strings.Split(scopes, ",")
		}
		return caller, nil
	}
	parts := strings.Split(r.AccessToken, "/")
	if len(parts) != 4 || r.DPoP != r.Nonce {
		return signin.Caller{}, fault.New(code.InvalidToken, "No good.")
	}
	if r.DeviceID != "" && r.DeviceID != parts[1] {
		return signin.Caller{}, fault.New(code.InvalidToken, "Another device.")
	}
	var expires int64
	if _, err := fmt.Sscan(parts[3], &expires); err != nil {
		return signin.Caller{}, fault.New(code.InvalidToken, "No good.").WithCause(err)
	}
	caller := signin.Caller{Caller: authz.Caller{Principal: parts[0], Kind: wire.KindUser, Device: parts[1], SignIn: parts[2]}}
	caller.ExpiresAt = time.UnixMicro(expires)
	if !a.env.Now().Before(caller.ExpiresAt) {
		return signin.Caller{}, fault.New(code.TokenExpired, "Expired.")
	}
	return caller, nil
}

// fail lets a token fail.
func (a *authenticator) fail(token string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fails == nil {
		a.fails = map[string]error{}
	}
	a.fails[token] = err
}

func newWorld(t testing.TB, db *testkit.Database) *world {
	t.Helper()
	w := &world{t: t, db: db, env: testkit.Env()}
	w.log = eventlog.New(eventlog.Options{MaxPayload: 64 << 10, NewID: w.env.NewID})
	w.authz = authz.New(db.DB, w.log, w.env)
	w.owner = w.person("owner")
	w.exec(`INSERT INTO grants (id, subject_kind, subject_id, target_kind, target_id, level, created_at)
		VALUES ($1, 'principal', $1, 'instance', '', 'owner', 1)`, w.owner)
	w.space = w.newSpace()
	return w
}

// options change what a node is made of.
type options func(*gateway.Options)

// fast are limits that tests do not wait long for.
func fast(o *gateway.Options) {
	o.Limits.HeartbeatInterval = 500 * time.Millisecond
	o.Limits.IdentifyTimeout = time.Second
}

// node starts one more node.
func (w *world) node(change ...options) *node {
	w.t.Helper()
	n := &node{w: w, clock: &clock{}}
	e := env.WithClock(n.clock.now)
	db := w.db.DB
	if w.db.Engine == testkit.Postgres && len(w.nodes) > 0 {
		db = testkit.Open(w.t, storage.Options{URL: w.db.URL, Migrate: storage.MigrateRefuse})
	}
	n.db = &faulty{DB: db}
	logger := slog.New(slog.DiscardHandler)
	var group []interface {
		Start(ctx context.Context) error
		Stop(ctx context.Context) error
	}
	if w.db.Engine == testkit.Postgres {
		bus := signal.NewPostgres(w.db.URL, e, logger)
		n.bus = bus
		group = append(group, bus)
	} else {
		n.bus = signal.NewLocal()
	}
	n.auth = &authenticator{env: e}
	o := gateway.Options{DB: n.db, Bus: n.bus, Env: e, Log: logger, Auth: n.auth}
	for _, c := range change {
		c(&o)
	}
	n.Gateway = gateway.New(o)
	n.tail = eventlog.NewTail(eventlog.TailOptions{
		DB: n.db, Bus: n.bus, Env: e, Log: logger, Begin: n.Begin, Deliver: n.Deliver, Lost: n.Lost,
	})
	n.log = eventlog.New(eventlog.Options{MaxPayload: 64 << 10, NewID: e.NewID, Committed: n.tail.Offer})
	group = append(group, n.tail, n.Gateway)
	for _, s := range group {
		require.NoError(w.t, s.Start(w.t.Context()))
	}
	n.server = httptest.NewServer(http.HandlerFunc(n.serve))
	n.stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		for _, s := range slices.Backward(group) {
			require.NoError(w.t, s.Stop(ctx))
		}
		n.server.Close()
	})
	w.t.Cleanup(n.stop)
	w.nodes = append(w.nodes, n)
	return n
}

func (n *node) serve(w http.ResponseWriter, r *http.Request) {
	if err := n.Upgrade(w, r); err != nil {
		status := http.StatusForbidden
		if refused, ok := errors.AsType[*conn.HandshakeError](err); ok {
			status = refused.Status
		}
		http.Error(w, err.Error(), status)
	}
}

func (w *world) write(fn func(tx storage.Tx) error) {
	w.t.Helper()
	require.NoError(w.t, w.db.DB.Write(w.t.Context(), nil, fn))
}

func (w *world) exec(query string, args ...any) {
	w.t.Helper()
	w.write(func(tx storage.Tx) error { return tx.Exec(query, args...) })
}

// person makes a person with a principal.
func (w *world) person(handle string) string {
	id := w.env.NewID()
	w.write(func(tx storage.Tx) error {
		return errors.Join(
			tx.Exec(`INSERT INTO users (id, name, created_at) VALUES ($1, $2, 1)`, id, handle),
			tx.Exec(`INSERT INTO principals (id, kind, handle, display_name, status, created_at) VALUES ($1, 'user', $2, $2, 'active', 1)`, id, handle))
	})
	return id
}

// device makes a device of a person with a sign-in, and answers the token it shows, good for ttl.
func (w *world) device(person string) device {
	d := device{person: person, id: w.env.NewID(), signIn: w.env.NewID()}
	w.write(func(tx storage.Tx) error {
		return errors.Join(
			tx.Exec(`INSERT INTO devices (id, user_id, name, platform, capabilities, last_seen_at, created_at, state)
				VALUES ($1, $2, 'phone', 'ios', '[]', 1, 1, 'active')`, d.id, person),
			tx.Exec(`INSERT INTO sign_ins (id, user_id, device_id, dpop_jkt, auth_time, family, token_hash, token_expires_at, created_at)
				VALUES ($1, $2, $3, 'x', 1, $1, $1, 1, 1)`, d.signIn, person, d.id))
	})
	return d
}

type device struct{ person, id, signIn string }

func (d device) token(until time.Time) string {
	return fmt.Sprintf("%s/%s/%s/%d", d.person, d.id, d.signIn, until.UnixMicro())
}

func (w *world) newSpace() string {
	id := w.env.NewID()
	w.exec(`INSERT INTO spaces (id, name, created_at) VALUES ($1, $1, 1)`, id)
	return id
}

// channel makes a channel of the space without an event.
func (w *world) channel() string {
	id := w.env.NewID()
	w.exec(`INSERT INTO channels (id, space_id, kind, name, created_at) VALUES ($1, $2, 'text', $1, 1)`, id, w.space)
	return id
}

func (w *world) thread(channel string) string {
	id := w.env.NewID()
	w.exec(`INSERT INTO threads (id, channel_id, kind, title, state, last_activity_at, created_at) VALUES ($1, $2, 'thread', 't', 'open', 1, 1)`, id, channel)
	return id
}

// change makes a permission change that touches some principals.
func (n *node) change(affected []string, change func(tx storage.Tx) error) {
	n.w.t.Helper()
	err := authz.New(n.db, n.log, n.w.env).Change(n.w.t.Context(), authz.Plan{
		Affected: func(storage.Tx) ([]string, error) { return affected, nil }, Change: change,
	})
	require.NoError(n.w.t, err)
}

// grant gives a principal a level on a channel, or on the space where channel is empty.
func (n *node) grant(principal, channel string, level wire.Level, ends ...time.Time) string {
	n.w.t.Helper()
	id, kind, target := n.w.env.NewID(), "channel", channel
	if channel == "" {
		kind, target = "space", n.w.space
	}
	var until any
	for _, end := range ends {
		until = end
	}
	n.change([]string{principal}, func(tx storage.Tx) error {
		return tx.Exec(`INSERT INTO grants (id, subject_kind, subject_id, target_kind, target_id, level, created_at, expires_at)
			VALUES ($1, 'principal', $2, $3, $4, $5, 1, $6)`, id, principal, kind, target, level, until)
	})
	return id
}

func (n *node) revoke(principal, grant string) {
	n.w.t.Helper()
	n.change([]string{principal}, func(tx storage.Tx) error {
		return tx.Exec(`UPDATE grants SET revoked_at = 1 WHERE id = $1`, grant)
	})
}

// emit writes events.
func (n *node) emit(events ...eventlog.Event) {
	n.w.t.Helper()
	require.NoError(n.w.t, n.db.Write(n.w.t.Context(), nil, func(tx storage.Tx) error { return n.log.Emit(tx, events...) }))
}

func (w *world) scope(channel, thread string) wire.Scope {
	return wire.Scope{SpaceID: w.space, ChannelID: channel, ThreadID: thread}
}

// message is message.created in a channel.
func (w *world) message(channel, thread, text string) eventlog.Event {
	m := w.wireMessage(channel, thread, text)
	return eventlog.Event{
		Type: eventlog.MessageCreated, Scope: w.scope(channel, thread), ResourceID: m.ID, ResourceVersion: 1,
		Payload: wire.MessageEvent{Message: m},
	}
}

func (w *world) wireMessage(channel, thread, text string) wire.Message {
	return wire.Message{
		ID: w.env.NewID(), ThreadID: thread, ChannelID: channel, ThreadSeq: 1, ContentMD: text, Version: 1,
		Attachments: []wire.File{}, MentionIDs: []string{}, Components: []json.RawMessage{}, Reactions: []wire.Reaction{},
	}
}

// setting is a personal event.
func setting(person, key string) eventlog.Event {
	return eventlog.Event{
		Type: eventlog.SettingsUpdated, ResourceID: key, ResourceVersion: 1, Audience: person,
		Payload: wire.SettingEvent{Setting: wire.Setting{Key: key, Version: 1}},
	}
}

// settled waits until a node has delivered everything that is committed.
func (n *node) settled() int64 {
	n.w.t.Helper()
	state, err := storage.Read(n.w.t.Context(), n.w.db.DB, eventlog.StateOf)
	require.NoError(n.w.t, err)
	require.Eventually(n.w.t, func() bool { return n.Head() >= state.Head }, soon, time.Millisecond)
	return state.Head
}
