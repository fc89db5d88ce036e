package outbound_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/outbound"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/fakefcm"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// post is a database with one session and one device, and a push service.
type post struct {
	db      storage.DB
	bus     *signal.Local
	fake    *fakefcm.Server
	fcm     *outbound.FCM
	outbox  *outbound.Outbox
	session string
	user    string
	device  string
}

// pause is between two news in these tests.
const pause = time.Hour

func newPost(t *testing.T, db storage.DB, token string) *post {
	t.Helper()
	p := &post{db: db, bus: signal.NewLocal(), fake: startFake(t), session: testkit.Env().NewID()}
	p.fcm = newFCM(t, p.fake, p.fake.URL())
	p.outbox = p.node(p.fcm)
	people := identity.New(db, p.bus, testkit.Env())
	ada, err := people.AddUser(t.Context(), "ada", nil)
	require.NoError(t, err)
	p.user, p.device = ada.UserID, testkit.Env().RandomID()
	require.NoError(t, people.Touch(t.Context(), identity.Principal{UserID: ada.UserID}, identity.Device{ID: p.device, PushToken: token}))
	p.exec(t, `INSERT INTO sessions (id, owner_user_id, session_key, e2e, archived, created_at, last_event_at, last_seq,
		lease_revision, control_revision, access_version) VALUES ($1, $2, $1, FALSE, FALSE, 1, 1, 0, 0, 0, 0)`, p.session, ada.UserID)
	return p
}

// node is another outbox over the same database.
func (p *post) node(pusher outbound.Pusher) *outbound.Outbox {
	return outbound.NewOutbox(p.db, p.bus, pusher, pause, testkit.Env(), slog.New(slog.DiscardHandler))
}

func (p *post) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	require.NoError(t, p.db.Write(t.Context(), nil, func(tx storage.Tx) error { return tx.Exec(query, args...) }))
}

// dispatch writes a control down, with its wake.
func (p *post) dispatch(t *testing.T, control string, mode wire.Mode) (id string) {
	t.Helper()
	id, err := storage.Write(t.Context(), p.db, nil, func(tx storage.Tx) (string, error) {
		err := tx.Exec(`INSERT INTO session_controls (session_id, id, kind, from_device_id, target_device_id, seq, applied, created_at)
			VALUES ($1, $2, 'send', $3, $3, 1, FALSE, 1)`, p.session, control, p.device)
		if err != nil {
			return "", err
		}
		return outbound.Enqueue(tx, testkit.Env(), outbound.Wake{
			SessionID: p.session, ControlID: control, DeviceID: p.device, UserID: p.user, Mode: mode,
		})
	})
	require.NoError(t, err)
	return id
}

// lapse makes every wake due, as if claims and pauses had run out.
func (p *post) lapse(t *testing.T) {
	t.Helper()
	p.exec(t, `UPDATE push_outbox SET not_before = 0`)
	p.bus.Publish(signal.Wake{Topic: signal.Push})
}

func (p *post) run(t *testing.T, outbox *outbound.Outbox) {
	t.Helper()
	require.NoError(t, outbox.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, outbox.Stop(context.Background())) })
}

// row is a wake in the outbox.
type row struct {
	attempts int64
	due      time.Time
	now      time.Time
}

func (p *post) rows(t *testing.T) []row {
	t.Helper()
	rows, err := storage.Read(t.Context(), p.db, func(tx storage.Tx) ([]row, error) {
		var rows []row
		err := tx.Query(`SELECT attempts, not_before FROM push_outbox`, nil, func(r storage.Row) error {
			read := row{now: tx.Now()}
			err := r.Scan(&read.attempts, &read.due)
			rows = append(rows, read)
			return err
		})
		return rows, err
	})
	require.NoError(t, err)
	return rows
}

func (p *post) token(t *testing.T) string {
	t.Helper()
	token, err := storage.Read(t.Context(), p.db, func(tx storage.Tx) (string, error) {
		var token *string
		_, err := tx.Get(`SELECT push_token FROM devices WHERE id = $1`, []any{p.device}, &token)
		if token == nil {
			return "", err
		}
		return *token, err
	})
	require.NoError(t, err)
	return token
}

func (p *post) eventuallyEmpty(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return len(p.rows(t)) == 0 }, 10*time.Second, 5*time.Millisecond)
}

func TestTheRequestersAttempt(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		p := newPost(t, db.DB, deviceToken)

		t.Run("SS-DSP-3 pushed, with the data of the protocol", func(t *testing.T) {
			require.Equal(t, outbound.Result{Pushed: true}, p.outbox.SendNow(t.Context(), p.dispatch(t, "c1", wire.ModeSend)))
			require.Equal(t, outbound.Result{Pushed: true}, p.outbox.SendNow(t.Context(), p.dispatch(t, "c2", wire.ModeOpen)))
			messages := p.fake.Messages()
			require.Equal(t, map[string]string{"type": "dispatch", "session_id": p.session, "control_id": "c1"}, messages[0].Data)
			require.Equal(t, map[string]string{"type": "dispatch", "session_id": p.session, "control_id": "c2", "mode": "open"}, messages[1].Data)
			require.Empty(t, p.rows(t))
		})
		t.Run("SS-DSP-3 the attempt outlives a caller that goes away", func(t *testing.T) {
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			require.True(t, p.outbox.SendNow(gone, p.dispatch(t, "c3", wire.ModeSend)).Pushed)
			require.Empty(t, p.rows(t))
		})
		t.Run("SS-DSP-3 a failure that may pass keeps the wake", func(t *testing.T) {
			p.fake.Answer(fakefcm.Broken)
			id := p.dispatch(t, "c4", wire.ModeSend)
			require.Equal(t, outbound.Result{Reason: "http_500"}, p.outbox.SendNow(t.Context(), id))
			rows := p.rows(t)
			require.Len(t, rows, 1)
			require.EqualValues(t, 1, rows[0].attempts)
			require.Greater(t, rows[0].due, rows[0].now)
			require.Equal(t, outbound.Result{Reason: wire.PushNetworkError}, p.outbox.SendNow(t.Context(), id), "one attempt is the requester's")
			p.fake.Answer(fakefcm.OK)
		})
		p.exec(t, `DELETE FROM push_outbox`)
		t.Run("SS-DSP-3 not configured is no_token", func(t *testing.T) {
			result := p.node(nil).SendNow(t.Context(), p.dispatch(t, "c5", wire.ModeSend))
			require.Equal(t, outbound.Result{Reason: wire.PushNoToken}, result)
			require.Empty(t, p.rows(t))
		})
		t.Run("SS-DSP-3 unregistered clears the stored token, then it is no_push_token", func(t *testing.T) {
			p.fake.AnswerFor(deviceToken, fakefcm.Unregistered)
			require.Equal(t, wire.PushUnregistered, p.outbox.SendNow(t.Context(), p.dispatch(t, "c6", wire.ModeSend)).Reason)
			require.Empty(t, p.token(t))
			require.Equal(t, wire.PushNoPushToken, p.outbox.SendNow(t.Context(), p.dispatch(t, "c7", wire.ModeSend)).Reason)
			require.Empty(t, p.rows(t))
		})
		t.Run("a wake that is gone", func(t *testing.T) {
			require.Equal(t, wire.PushNetworkError, p.outbox.SendNow(t.Context(), "unknown").Reason)
		})
	})
}

func TestTheWorkersAttempts(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		p := newPost(t, db.DB, deviceToken)
		p.run(t, p.outbox)

		t.Run("SS-DSP-3 a crash before the attempt sends it later", func(t *testing.T) {
			p.dispatch(t, "c1", wire.ModeSend)
			require.Empty(t, p.fake.Messages(), "it is the requester's for now")
			p.lapse(t)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := p.fake.Wait(ctx, 1)
			require.NoError(t, err)
			p.eventuallyEmpty(t)
		})
		t.Run("SS-DSP-3 it tries again, a bounded number of times", func(t *testing.T) {
			p.fake.Answer(fakefcm.Broken)
			before := len(p.fake.Messages())
			require.False(t, p.outbox.SendNow(t.Context(), p.dispatch(t, "c2", wire.ModeSend)).Pushed)
			for len(p.rows(t)) > 0 {
				p.lapse(t)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := p.fake.Wait(ctx, before+8) // the row may be gone before the last attempts have arrived
			require.NoError(t, err)
			require.Len(t, p.fake.Messages(), before+8)
			p.fake.Answer(fakefcm.OK)
		})
		t.Run("SS-DSP-3 what is applied, gone or old is not sent", func(t *testing.T) {
			before := len(p.fake.Messages())
			p.dispatch(t, "applied", wire.ModeSend)
			p.exec(t, `UPDATE session_controls SET applied = TRUE WHERE id = 'applied'`)
			p.dispatch(t, "gone", wire.ModeSend)
			p.exec(t, `DELETE FROM session_controls WHERE id = 'gone'`)
			p.dispatch(t, "old", wire.ModeSend)
			p.exec(t, `UPDATE push_outbox SET created_at = 0 WHERE control_id = 'old'`)
			p.lapse(t)
			p.eventuallyEmpty(t)
			require.Len(t, p.fake.Messages(), before)
		})
		t.Run("SS-DSP-3 unregistered clears the stored token", func(t *testing.T) {
			p.fake.AnswerFor(deviceToken, fakefcm.Unregistered)
			p.dispatch(t, "c3", wire.ModeSend)
			p.lapse(t)
			p.eventuallyEmpty(t)
			require.Empty(t, p.token(t))
		})
	})
}

func TestTwoNodesSendEachWakeOnce(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		p := newPost(t, db.DB, deviceToken)
		const wakes = 60
		for i := range wakes {
			p.dispatch(t, fmt.Sprint("c", i), wire.ModeSend)
		}
		p.exec(t, `UPDATE push_outbox SET not_before = 0`)
		for range 3 {
			p.run(t, p.node(p.fcm))
		}
		p.eventuallyEmpty(t)
		sent := map[string]int{}
		for _, message := range p.fake.Messages() {
			sent[message.Data["control_id"]]++
		}
		require.Len(t, sent, wakes)
		require.Len(t, p.fake.Messages(), wakes)
	})
}

// stuck is a push service that answers when it is told to, or when its time is up.
type stuck struct {
	entered chan struct{}
	once    sync.Once
}

func (s *stuck) Push(ctx context.Context, _ string, _ map[string]string) outbound.Result {
	s.once.Do(func() { close(s.entered) })
	<-ctx.Done()
	return outbound.Result{Reason: wire.PushNetworkError}
}

func TestStopEndsPushesAndKeepsTheirWakes(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		p := newPost(t, db.DB, deviceToken)
		p.dispatch(t, "c1", wire.ModeSend)
		p.exec(t, `UPDATE push_outbox SET not_before = 0`)
		service := &stuck{entered: make(chan struct{})}
		outbox := p.node(service)
		require.NoError(t, outbox.Start(t.Context()))
		<-service.entered
		require.NoError(t, outbox.Stop(t.Context()))
		rows := p.rows(t)
		require.Len(t, rows, 1)
		require.EqualValues(t, 1, rows[0].attempts)
		require.NoError(t, p.node(nil).Stop(t.Context()), "what did not start stops at once")
	})
}
