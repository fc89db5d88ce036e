package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/fakefcm"
	"github.com/cairnsync/cairn/internal/testkit/history"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// forever is a pause between pushes that no test waits for; lapse ends it.
const forever = time.Hour

// office is a server that pushes, with its push service.
type office struct {
	db     storage.DB
	fake   *fakefcm.Server
	node   *servertest.Server
	people *identity.Service
}

func startFake(t *testing.T) *fakefcm.Server {
	t.Helper()
	fake, err := fakefcm.Start()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, fake.Close()) })
	return fake
}

// pushing configures a node to push by fake.
func pushing(t *testing.T, fake *fakefcm.Server, pause time.Duration) func(*config.Config) {
	t.Helper()
	credentials := write(t, string(fake.Credentials()))
	return func(c *config.Config) {
		c.Push = config.Push{Pause: pause, FCM: config.FCM{Project: fakefcm.ProjectID, CredentialsFile: credentials, Endpoint: fake.URL()}}
	}
}

func newOffice(t *testing.T, db *testkit.Database, pause time.Duration) *office {
	t.Helper()
	fake := startFake(t)
	return &office{db: db.DB, fake: fake, node: servertest.Start(t, db, pushing(t, fake, pause)), people: commandLine(t, db.URL)}
}

// person makes a user.
func (o *office) person(t *testing.T) servertest.Account {
	t.Helper()
	return account(t, o.people, "user-"+uuid.NewString())
}

// phone makes a device of a user that can be woken; its token is its id.
func (o *office) phone(t *testing.T, who servertest.Account) caller {
	t.Helper()
	c := raw(t, at(o.node), who)
	c.Header = http.Header{wire.HeaderPushToken: {c.Device}}
	c.want(t, http.StatusOK, http.MethodGet, "/v1/devices", nil)
	return c
}

// desk is a session that a device without a token executes, and a phone of its owner.
type desk struct {
	*office

	owner    servertest.Account
	executor caller
	own      caller
	session  string
}

func (o *office) desk(t *testing.T) *desk {
	t.Helper()
	owner := o.person(t)
	d := &desk{office: o, owner: owner, executor: raw(t, at(o.node), owner), own: o.phone(t, owner)}
	d.session = d.executor.newSession(t)
	d.executor.lead(t, d.session)
	return d
}

func (d *desk) path(rest string) string { return "/v1/sessions/" + d.session + rest }

// append stores events of some kinds and answers the seq of the last one.
func (d *desk) append(t *testing.T, kinds ...string) int64 {
	t.Helper()
	var receipt wire.Receipt
	require.NoError(t, d.executor.want(t, http.StatusOK, http.MethodPost, d.path("/events"), batchOf(kinds...)).Into(&receipt))
	return receipt.LastSeq
}

func batchOf(kinds ...string) map[string]any {
	events := make([]map[string]any, len(kinds))
	for i, kind := range kinds {
		events[i] = map[string]any{"kind": kind, "client_event_id": uuid.NewString()}
	}
	return map[string]any{"events": events}
}

// outcomes lists the pushes to a device, newest first.
func (d *desk) outcomes(t *testing.T, device string) []wire.Push {
	t.Helper()
	var read struct{ Pushes []wire.Push }
	require.NoError(t, d.executor.want(t, http.StatusOK, http.MethodGet, d.path("/pushes"), nil).Into(&read))
	return slices.DeleteFunc(read.Pushes, func(p wire.Push) bool { return p.DeviceID != device })
}

// becomes waits until the newest push to a device is of an event, in a state, for a reason, and answers it.
func (d *desk) becomes(t *testing.T, to caller, seq int64, state wire.PushState, reason wire.PushReason) wire.Push {
	t.Helper()
	var last []wire.Push
	for range 500 {
		last = d.outcomes(t, to.Device)
		for _, push := range last {
			if push.Seq != nil && *push.Seq == seq && push.State == state && push.Reason == reason {
				return push
			}
		}
		pauseFor(t, 20*time.Millisecond)
	}
	require.FailNow(t, "no such push", "event %d %s %s among %+v", seq, state, reason, last)
	return wire.Push{}
}

// pauseFor lets time pass between two looks.
func pauseFor(t *testing.T, length time.Duration) {
	t.Helper()
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

// received lists what a phone was sent.
func (o *office) received(to caller) []string {
	var received []string
	for _, message := range o.fake.Messages() {
		if message.Token == to.Device {
			received = append(received, fmt.Sprint(message.Data["type"], " ", message.Data["seq"]))
		}
	}
	return received
}

func told(kind string, seq int64) string { return kind + " " + strconv.FormatInt(seq, 10) }

func (o *office) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	require.NoError(t, o.db.Write(t.Context(), nil, func(tx storage.Tx) error { return tx.Exec(query, args...) }))
}

// lapse ends the pauses and claims of the session.
func (d *desk) lapse(t *testing.T) {
	t.Helper()
	d.exec(t, `UPDATE push_pauses SET ends_at = 0 WHERE session_id = $1`, d.session)
	d.exec(t, `UPDATE push_outbox SET not_before = 0 WHERE session_id = $1`, d.session)
}

// attends opens a WebSocket and gives the session attention, until the stream is closed.
func (d *desk) attends(t *testing.T, who caller) *feed {
	t.Helper()
	stream := who.open(t, history.WebSocket, d.session, 0)
	require.NoError(t, stream.Write(t.Context(), map[string]any{"t": "presence", "attention": true}))
	d.awaitAttention(t, true)
	return stream
}

func (d *desk) awaitAttention(t *testing.T, want bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		var detail wire.SessionDetail
		require.NoError(t, d.executor.want(t, http.StatusOK, http.MethodGet, d.path(""), nil).Into(&detail))
		return slices.ContainsFunc(detail.Presence, func(p wire.Presence) bool { return p.Attention }) == want
	}, 5*soon, 10*time.Millisecond)
}

func (d *desk) notify(t *testing.T, who caller, notify wire.Notify) {
	t.Helper()
	who.want(t, http.StatusOK, http.MethodPut, d.path("/notify"), map[string]any{"notify": notify})
}

// editor is a person with a phone who may edit the session.
func (d *desk) editor(t *testing.T) (servertest.Account, caller) {
	t.Helper()
	who := d.person(t)
	d.executor.share(t, d.session, who, wire.RoleEditor)
	return who, d.phone(t, who)
}

func TestPushToPeople(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		o := newOffice(t, db, forever)
		for name, check := range map[string]func(*testing.T, *desk){
			"owner and editors are told, nobody else":            checkRecipients,
			"only asks and the ends of turns are told":           checkKinds,
			"a duplicate is told once":                           checkDuplicate,
			"what happened before, as in an import, is not told": checkSilent,
			"what comes over a WebSocket is told too":            checkSocket,
			"what comes in the pause waits, and the newest wins": checkPause,
			"attention of one device silences the person":        checkAttention,
			"attention of a dead node silences nobody":           checkDeadNode,
			"each person chooses":                                checkNotify,
			"what is checked again when it is sent":              checkAgain,
			"retries and lost tokens":                            checkRetries,
			"news that failed give way to newer ones":            checkYield,
			"outcomes are bounded and end with the session":      checkOutcomes,
			"the answer does not wait for the push":              checkNoWait,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				check(t, o.desk(t))
			})
		}
	})
}

func checkRecipients(t *testing.T, d *desk) {
	_, editor := d.editor(t)
	coowner, viewer, colleague, visitor, expired, stranger, gone, left := d.person(t), d.person(t), d.person(t), d.person(t), d.person(t), d.person(t), d.person(t), d.person(t)
	d.executor.share(t, d.session, coowner, wire.RoleOwner)
	d.executor.share(t, d.session, viewer, wire.RoleViewer)
	d.executor.share(t, d.session, gone, wire.RoleEditor)
	d.executor.share(t, d.session, left, wire.RoleEditor)
	over := d.executor.share(t, d.session, expired, wire.RoleEditor)
	d.exec(t, `UPDATE session_shares SET expires_at = 1 WHERE id = $1`, over.ID)
	var org wire.Org
	require.NoError(t, d.executor.want(t, http.StatusCreated, http.MethodPost, "/v1/orgs", map[string]string{"name": "crew"}).Into(&org))
	d.executor.want(t, http.StatusCreated, http.MethodPost, "/v1/orgs/"+org.ID+"/members", map[string]string{"user_id": colleague.UserID})
	d.executor.want(t, http.StatusCreated, http.MethodPost, d.path("/shares"),
		map[string]string{"principal_type": "org", "principal_id": org.ID, "role": "editor"})
	phones := map[string]caller{}
	for name, who := range map[string]servertest.Account{
		"co-owner": coowner, "viewer": viewer, "colleague": colleague, "visitor": visitor, "expired": expired, "stranger": stranger, "disabled": gone, "deleted": left,
	} {
		phones[name] = d.phone(t, who)
	}
	visit := phones["visitor"]
	visit.Header.Set(wire.HeaderShareToken, d.executor.link(t, d.session, wire.RoleEditor))
	visit.want(t, http.StatusOK, http.MethodGet, d.path(""), nil)
	deleted := phones["deleted"]
	deleted.want(t, http.StatusOK, http.MethodDelete, "/v1/devices/"+deleted.Device, nil)
	require.NoError(t, d.people.DisableUser(t.Context(), gone.UserID))
	d.executor.Header = http.Header{wire.HeaderPushToken: {d.executor.Device}} // the sender could be woken, and knows already

	seq := d.append(t, "turn_start", wire.KindAsk)
	want := []caller{d.own, editor, phones["co-owner"], phones["colleague"]}
	for _, to := range want {
		push := d.becomes(t, to, seq, wire.PushSent, "")
		require.EqualValues(t, 1, push.Attempts)
		require.Equal(t, []string{told("ask", seq)}, d.received(to))
	}
	var read struct{ Pushes []wire.Push }
	require.NoError(t, d.executor.want(t, http.StatusOK, http.MethodGet, d.path("/pushes"), nil).Into(&read))
	require.Len(t, read.Pushes, len(want))
	for _, message := range d.fake.Messages() {
		if message.Token == editor.Device {
			require.Equal(t, map[string]string{"type": "ask", "session_id": d.session, "seq": strconv.FormatInt(seq, 10)}, message.Data)
			require.Equal(t, "HIGH", message.Android.Priority)
		}
	}
	for _, name := range []string{"viewer", "visitor", "expired", "stranger", "disabled", "deleted"} {
		require.Empty(t, d.received(phones[name]), name)
	}
	require.Empty(t, d.received(d.executor))
}

func checkKinds(t *testing.T, d *desk) {
	d.append(t, "assistant", "ask_resolved", "turn_start", "asks", "ASK")
	d.executor.want(t, http.StatusAccepted, http.MethodPost, d.path("/control"), map[string]string{"id": "ask", "kind": "pause"})
	require.Empty(t, d.outcomes(t, d.own.Device))
	seq := d.append(t, wire.KindTurnEnd)
	d.becomes(t, d.own, seq, wire.PushSent, "")
	require.Equal(t, []string{told("turn_end", seq)}, d.received(d.own))
}

func checkSilent(t *testing.T, d *desk) {
	batch := batchOf(wire.KindAsk, wire.KindTurnEnd)
	batch["silent"] = true
	d.executor.want(t, http.StatusOK, http.MethodPost, d.path("/events"), batch)
	require.Empty(t, d.outcomes(t, d.own.Device))
	batch["silent"] = "yes"
	d.executor.want(t, http.StatusBadRequest, http.MethodPost, d.path("/events"), batch)
	seq := d.append(t, wire.KindTurnEnd)
	d.becomes(t, d.own, seq, wire.PushSent, "")
}

func checkDuplicate(t *testing.T, d *desk) {
	batch := batchOf(wire.KindAsk)
	for range 3 {
		d.executor.want(t, http.StatusOK, http.MethodPost, d.path("/events"), batch)
	}
	d.becomes(t, d.own, 1, wire.PushSent, "")
	require.Len(t, d.outcomes(t, d.own.Device), 1)
	d.executor.want(t, http.StatusConflict, http.MethodPost, d.path("/events"),
		map[string]any{"events": batchOf(wire.KindAsk)["events"], "expected_last_seq": 7})
	require.Len(t, d.outcomes(t, d.own.Device), 1, "what was not stored is not told")
	require.Equal(t, []string{told("ask", 1)}, d.received(d.own))
}

func checkSocket(t *testing.T, d *desk) {
	stream := d.executor.open(t, history.WebSocket, d.session, 0)
	batch := batchOf(wire.KindTurnEnd, wire.KindAsk, wire.KindTurnEnd)
	batch["t"] = wire.FrameEvents
	require.NoError(t, stream.Write(t.Context(), batch))
	d.becomes(t, d.own, 3, wire.PushSent, "")
	require.Equal(t, []string{told("turn_end", 3)}, d.received(d.own), "of one batch the newest is told")
}

func checkPause(t *testing.T, d *desk) {
	_, other := d.editor(t)
	first := d.append(t, wire.KindTurnEnd)
	d.becomes(t, d.own, first, wire.PushSent, "")
	second := d.append(t, wire.KindTurnEnd)
	d.becomes(t, d.own, second, wire.PushWaiting, "")
	third := d.append(t, wire.KindTurnEnd)
	d.becomes(t, d.own, second, wire.PushSkipped, wire.PushReplaced)
	ask := d.append(t, wire.KindAsk)
	d.becomes(t, d.own, third, wire.PushSkipped, wire.PushReplaced)
	late := d.append(t, wire.KindTurnEnd)
	d.becomes(t, d.own, ask, wire.PushSkipped, wire.PushReplaced) // the end of the turn closed it
	newer := d.append(t, wire.KindAsk)
	d.becomes(t, d.own, late, wire.PushSkipped, wire.PushReplaced)
	d.becomes(t, d.own, newer, wire.PushWaiting, "")
	require.Len(t, d.received(d.own), 1)
	d.exec(t, `UPDATE push_outbox SET not_before = 0 WHERE session_id = $1`, d.session)
	pauseFor(t, 1500*time.Millisecond)
	require.Len(t, d.received(d.own), 1, "the pause holds, whenever somebody looks")
	d.lapse(t)
	d.becomes(t, d.own, newer, wire.PushSent, "")
	d.becomes(t, other, newer, wire.PushSent, "")
	require.Equal(t, []string{told("turn_end", first), told("ask", newer)}, d.received(d.own))
	require.Equal(t, d.received(d.own), d.received(other))
	elsewhere := &desk{office: d.office, owner: d.owner, executor: d.executor, own: d.own, session: d.executor.newSession(t)}
	elsewhere.executor.lead(t, elsewhere.session)
	seq := elsewhere.append(t, wire.KindAsk)
	elsewhere.becomes(t, d.own, seq, wire.PushSent, "")
}

func checkAttention(t *testing.T, d *desk) {
	_, other := d.editor(t)
	tablet := d.phone(t, d.owner)
	laptop := raw(t, at(d.node), d.owner)
	idle := laptop.open(t, history.SSE, d.session, 0)
	stream := d.attends(t, raw(t, at(d.node), d.owner))
	seq := d.append(t, wire.KindAsk)
	for _, to := range []caller{d.own, tablet} {
		d.becomes(t, to, seq, wire.PushSkipped, wire.PushAttention)
		require.Empty(t, d.received(to))
	}
	d.becomes(t, other, seq, wire.PushSent, "")
	stream.Close()
	d.awaitAttention(t, false)
	seq = d.append(t, wire.KindAsk)
	d.becomes(t, d.own, seq, wire.PushSent, "") // an open stream without attention silences nobody
	d.becomes(t, tablet, seq, wire.PushSent, "")
	idle.Close()
}

func checkDeadNode(t *testing.T, d *desk) {
	dead := uuid.NewString()
	d.exec(t, `INSERT INTO nodes (id, started_at, alive_until) VALUES ($1, 1, 2)`, dead)
	d.exec(t, `INSERT INTO session_presence (connection_id, node_id, session_id, device_id, user_id, role, driving, attention, seen_at)
		VALUES ($1, $2, $3, $4, $5, 'owner', TRUE, TRUE, 1)`, uuid.NewString(), dead, d.session, uuid.NewString(), d.owner.UserID)
	seq := d.append(t, wire.KindAsk)
	d.becomes(t, d.own, seq, wire.PushSent, "")
}

func checkNotify(t *testing.T, d *desk) {
	_, asks := d.editor(t)
	_, none := d.editor(t)
	d.notify(t, asks, wire.NotifyAsks)
	d.notify(t, none, wire.NotifyNone)
	seq := d.append(t, wire.KindTurnEnd)
	d.becomes(t, d.own, seq, wire.PushSent, "")
	d.becomes(t, asks, seq, wire.PushSkipped, wire.PushNotify)
	d.becomes(t, none, seq, wire.PushSkipped, wire.PushNotify)
	ask := d.append(t, wire.KindAsk)
	d.becomes(t, asks, ask, wire.PushSent, "")
	d.becomes(t, none, ask, wire.PushSkipped, wire.PushNotify)
	require.Equal(t, []string{told("turn_end", seq)}, d.received(d.own))
	require.Equal(t, []string{told("ask", ask)}, d.received(asks))
	require.Empty(t, d.received(none))
	d.notify(t, none, wire.NotifyAll)
	seq = d.append(t, wire.KindTurnEnd)
	d.becomes(t, none, seq, wire.PushSent, "")
}

// checkAgain lets news wait, changes what they depend on, and lets them go.
func checkAgain(t *testing.T, d *desk) {
	type guest struct {
		who   servertest.Account
		phone caller
		share wire.Share
	}
	changes := map[string]struct {
		change func(g guest)
		reason wire.PushReason
	}{
		"access": {func(g guest) {
			d.executor.want(t, http.StatusOK, http.MethodDelete, d.path("/shares/"+g.share.ID), nil)
		}, wire.PushNoAccess},
		"role":     {func(g guest) { d.exec(t, `UPDATE session_shares SET role = 'viewer' WHERE id = $1`, g.share.ID) }, wire.PushNoAccess},
		"expiry":   {func(g guest) { d.exec(t, `UPDATE session_shares SET expires_at = 1 WHERE id = $1`, g.share.ID) }, wire.PushNoAccess},
		"disabled": {func(g guest) { require.NoError(t, d.people.DisableUser(t.Context(), g.who.UserID)) }, wire.PushNoAccess},
		"deleted": {func(g guest) {
			g.phone.want(t, http.StatusOK, http.MethodDelete, "/v1/devices/"+g.phone.Device, nil)
		}, wire.PushNoAccess},
		"notify":    {func(g guest) { d.notify(t, g.phone, wire.NotifyNone) }, wire.PushNotify},
		"attention": {func(g guest) { d.attends(t, raw(t, at(d.node), g.who)) }, wire.PushAttention},
		"token": {func(g guest) {
			g.phone.Header = nil
			g.phone.want(t, http.StatusOK, http.MethodPatch, "/v1/devices/"+g.phone.Device, map[string]any{"push_token": nil})
		}, ""},
	}
	guests := map[string]guest{}
	for name := range changes {
		who := d.person(t)
		guests[name] = guest{who, d.phone(t, who), d.executor.share(t, d.session, who, wire.RoleEditor)}
	}
	first := d.append(t, wire.KindAsk)
	for _, g := range guests {
		d.becomes(t, g.phone, first, wire.PushSent, "")
	}
	seq := d.append(t, wire.KindAsk)
	for name, change := range changes {
		d.becomes(t, guests[name].phone, seq, wire.PushWaiting, "")
		change.change(guests[name])
	}
	d.becomes(t, d.own, seq, wire.PushWaiting, "")
	d.lapse(t)
	for name, change := range changes {
		if name == "token" {
			d.becomes(t, guests[name].phone, seq, wire.PushFailed, wire.PushNoPushToken)
		} else {
			d.becomes(t, guests[name].phone, seq, wire.PushSkipped, change.reason)
		}
		require.Equal(t, []string{told("ask", first)}, d.received(guests[name].phone), name)
	}
	d.becomes(t, d.own, seq, wire.PushSent, "")
}

func checkRetries(t *testing.T, d *desk) {
	_, lost := d.editor(t)
	d.fake.AnswerFor(d.own.Device, fakefcm.Broken)
	d.fake.AnswerFor(lost.Device, fakefcm.Unregistered)
	seq := d.append(t, wire.KindAsk)
	push := d.becomes(t, d.own, seq, wire.PushWaiting, "http_500")
	require.EqualValues(t, 1, push.Attempts)
	d.becomes(t, lost, seq, wire.PushFailed, wire.PushUnregistered)
	d.fake.AnswerFor(d.own.Device, fakefcm.OK)
	d.lapse(t)
	push = d.becomes(t, d.own, seq, wire.PushSent, "")
	require.EqualValues(t, 2, push.Attempts)
	again := d.append(t, wire.KindAsk)
	d.becomes(t, d.own, again, wire.PushWaiting, "")
	require.Len(t, d.outcomes(t, lost.Device), 1, "without a token there is nobody to tell")
}

// checkYield lets news fail while newer ones come.
func checkYield(t *testing.T, d *desk) {
	d.fake.AnswerFor(d.own.Device, fakefcm.Broken)
	ask := d.append(t, wire.KindAsk)
	d.becomes(t, d.own, ask, wire.PushWaiting, "http_500")
	end := d.append(t, wire.KindTurnEnd)
	d.becomes(t, d.own, ask, wire.PushSkipped, wire.PushReplaced)
	newer := d.append(t, wire.KindAsk)
	d.becomes(t, d.own, end, wire.PushSkipped, wire.PushReplaced)
	d.becomes(t, d.own, newer, wire.PushWaiting, "http_500") // nothing arrived, so nothing pauses
	d.fake.AnswerFor(d.own.Device, fakefcm.OK)
	d.lapse(t)
	d.becomes(t, d.own, newer, wire.PushSent, "")
}

func checkOutcomes(t *testing.T, d *desk) {
	d.notify(t, d.own, wire.NotifyNone)
	for range wire.MaxPushes + 10 {
		d.append(t, wire.KindAsk)
	}
	outcomes := d.outcomes(t, d.own.Device)
	require.Len(t, outcomes, wire.MaxPushes)
	for i, push := range outcomes {
		require.EqualValues(t, wire.MaxPushes+10-i, *push.Seq, "newest first")
	}
	d.notify(t, d.own, wire.NotifyAll)
	d.becomes(t, d.own, d.append(t, wire.KindAsk), wire.PushSent, "")
	d.append(t, wire.KindAsk) // waits
	before := len(d.received(d.own))
	d.executor.want(t, http.StatusOK, http.MethodDelete, d.path(""), nil)
	d.lapse(t)
	require.Eventually(t, func() bool {
		left, err := storage.Read(t.Context(), d.db, func(tx storage.Tx) (int, error) {
			var left int
			_, err := tx.Get(`SELECT (SELECT count(*) FROM push_outbox WHERE session_id = $1) + (SELECT count(*) FROM push_outcomes WHERE session_id = $1)
				+ (SELECT count(*) FROM push_pauses WHERE session_id = $1) + (SELECT count(*) FROM session_notify WHERE session_id = $1)`,
				[]any{d.session}, &left)
			return left, err
		})
		require.NoError(t, err)
		return left == 0
	}, 10*soon, 20*time.Millisecond)
	require.Len(t, d.received(d.own), before, "a deleted session tells nobody")
}

func checkNoWait(t *testing.T, d *desk) {
	d.fake.AnswerFor(d.own.Device, fakefcm.Hang)
	began := time.Now()
	seq := d.append(t, wire.KindAsk)
	require.Less(t, time.Since(began), 4*time.Second)
	d.becomes(t, d.own, seq, wire.PushWaiting, wire.PushNetworkError)
}

// Without a push service everything works, and the outcome says why nothing arrives.
func TestPushToPeopleWithoutService(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		o := &office{db: db.DB, node: servertest.Start(t, db, nil), people: commandLine(t, db.URL)}
		d := o.desk(t)
		d.becomes(t, d.own, d.append(t, wire.KindAsk), wire.PushFailed, wire.PushNoToken)
		d.becomes(t, d.own, d.append(t, wire.KindTurnEnd), wire.PushFailed, wire.PushNoToken)
	})
}

// The pause is real time between what arrived.
func TestPushPause(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		const pause = 1200 * time.Millisecond
		d := newOffice(t, db, pause).desk(t)
		var sent []wire.Push
		for range 3 {
			seq := d.append(t, wire.KindAsk)
			sent = append(sent, d.becomes(t, d.own, seq, wire.PushSent, ""))
		}
		for i := 1; i < len(sent); i++ {
			require.GreaterOrEqual(t, sent[i].UpdatedAt.Sub(sent[i-1].UpdatedAt.Time), pause-time.Millisecond)
		}
	})
}

// One node writes down, another one sends.
func TestPushByAnotherNode(t *testing.T) {
	t.Parallel()
	db := testkit.New(t, testkit.Postgres)
	o := newOffice(t, db, forever)
	d := o.desk(t)
	d.becomes(t, d.own, d.append(t, wire.KindTurnEnd), wire.PushSent, "")
	seq := d.append(t, wire.KindAsk)
	first := o.node
	other := servertest.Start(t, db, pushing(t, o.fake, forever))
	first.Stop(t)
	d.executor.URL, d.own.URL = at(other), at(other)
	d.lapse(t)
	d.becomes(t, d.own, seq, wire.PushSent, "")
	require.Len(t, d.received(d.own), 2)
}

func TestNodesPushOnce(t *testing.T) {
	t.Parallel()
	db := testkit.New(t, testkit.Postgres)
	o := newOffice(t, db, forever)
	for range 2 {
		servertest.Start(t, db, pushing(t, o.fake, forever))
	}
	d := o.desk(t)
	phones := []caller{d.own}
	for range 20 {
		_, phone := d.editor(t)
		phones = append(phones, phone)
	}
	seq := d.append(t, wire.KindAsk)
	for _, phone := range phones {
		d.becomes(t, phone, seq, wire.PushSent, "")
	}
	for _, phone := range phones {
		require.Equal(t, []string{told("ask", seq)}, d.received(phone))
	}
}

// Attention on one node is seen on the other, and silences what is appended there.
func TestAttentionAcrossNodes(t *testing.T) {
	t.Parallel()
	db := testkit.New(t, testkit.Postgres)
	o := newOffice(t, db, forever)
	other := servertest.Start(t, db, pushing(t, o.fake, forever))
	d := o.desk(t)
	watcher := d.executor.open(t, history.SSE, d.session, 0)
	reader := raw(t, at(other), d.owner)
	stream := reader.open(t, history.WebSocket, d.session, 0)
	require.NoError(t, stream.Write(t.Context(), map[string]any{"t": "presence", "attention": true}))
	attends := func(want bool) func(history.Frame) bool {
		return func(f history.Frame) bool {
			var body wire.Presence
			return f.Name == wire.FramePresence && json.Unmarshal(f.Data, &body) == nil && body.DeviceID == reader.Device && body.Attention == want
		}
	}
	watcher.await(t, 5*soon, "attention on the other node", attends(true))
	d.becomes(t, d.own, d.append(t, wire.KindAsk), wire.PushSkipped, wire.PushAttention)
	require.NoError(t, stream.Write(t.Context(), map[string]any{"t": "presence", "driving": true, "attention": false}))
	watcher.await(t, 5*soon, "no attention any more", attends(false))
	d.becomes(t, d.own, d.append(t, wire.KindAsk), wire.PushSent, "")
}
