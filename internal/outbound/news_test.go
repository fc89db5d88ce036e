package outbound_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/outbound"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// tell writes news down as an append does.
func (p *post) tell(t *testing.T, kind wire.PushType, seq int64) {
	t.Helper()
	keys := []storage.Key{{Lock: storage.LockSessions, ID: p.session}}
	require.NoError(t, p.db.Write(t.Context(), keys, func(tx storage.Tx) error {
		_, err := outbound.EnqueueNews(tx, testkit.Env(), outbound.News{SessionID: p.session, Type: kind, Seq: seq, SenderDeviceID: "executor"})
		tx.AfterCommit(func() { p.bus.Publish(signal.Wake{Topic: signal.Push}) })
		return err
	}))
}

// fates answers what became of the news by their seq: state, and reason if there is one.
func (p *post) fates(t *testing.T) map[int64]string {
	t.Helper()
	pushes, err := storage.Read(t.Context(), p.db, func(tx storage.Tx) ([]wire.Push, error) { return outbound.Pushes(tx, p.session) })
	require.NoError(t, err)
	fates := map[int64]string{}
	for _, push := range pushes {
		fates[*push.Seq] = string(push.State)
		if push.Reason != "" {
			fates[*push.Seq] += " " + string(push.Reason)
		}
	}
	return fates
}

func (p *post) eventuallyFates(t *testing.T, want map[int64]string) {
	t.Helper()
	if !assertEventually(func() bool { return equalFates(p.fates(t), want) }) {
		require.Equal(t, want, p.fates(t))
	}
}

func assertEventually(done func() bool) bool {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for range 2000 {
		if done() {
			return true
		}
		<-ticker.C
	}
	return false
}

func equalFates(got, want map[int64]string) bool {
	for seq, fate := range want {
		if got[seq] != fate {
			return false
		}
	}
	return len(got) == len(want)
}

// gate is a push service that says what it was asked, and answers what it is told.
type gate struct {
	asked   chan string
	answers chan outbound.Result
}

func newGate() *gate {
	return &gate{asked: make(chan string, 100), answers: make(chan outbound.Result, 100)}
}

func (g *gate) Push(ctx context.Context, _ string, data map[string]string) outbound.Result {
	g.asked <- data["type"] + " " + data["seq"]
	select {
	case answer := <-g.answers:
		return answer
	case <-ctx.Done():
		return outbound.Result{Reason: wire.PushNetworkError}
	}
}

// What comes while a push is under way waits; when that push fails one of the two is left.
func TestNewsWhileAPushIsUnderWay(t *testing.T) {
	t.Parallel()
	broken := outbound.Result{Reason: "http_503"}
	for name, c := range map[string]struct {
		first, second wire.PushType
		answer        outbound.Result
		want          map[int64]string
	}{
		"the newer one is left":           {wire.PushTurnEnd, wire.PushTurnEnd, broken, map[int64]string{1: "skipped replaced", 2: "waiting"}},
		"the newer ask is left":           {wire.PushAsk, wire.PushAsk, broken, map[int64]string{1: "skipped replaced", 2: "waiting"}},
		"the end of the turn is left":     {wire.PushAsk, wire.PushTurnEnd, broken, map[int64]string{1: "skipped replaced", 2: "waiting"}},
		"it arrived, the next one pauses": {wire.PushAsk, wire.PushTurnEnd, outbound.Result{Pushed: true}, map[int64]string{1: "sent", 2: "waiting"}},
		"a message that is refused":       {wire.PushAsk, wire.PushTurnEnd, outbound.Result{Reason: "http_400"}, map[int64]string{1: "failed http_400", 2: "waiting"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testkit.Each(t, func(t *testing.T, db *testkit.Database) {
				p, service := newPost(t, db.DB, deviceToken), newGate()
				p.run(t, p.node(service))
				p.tell(t, c.first, 1)
				require.Equal(t, string(c.first)+" 1", <-service.asked)
				p.tell(t, c.second, 2)
				require.Equal(t, map[int64]string{1: "waiting", 2: "waiting"}, p.fates(t))
				service.answers <- c.answer
				p.eventuallyFates(t, c.want)
				require.Len(t, p.rows(t), 1)
			})
		})
	}
}

// A claim that has run out is a wake that waits: whoever held it is gone.
func TestNewsOfAProcessThatWentDown(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		p, service := newPost(t, db.DB, deviceToken), newGate()
		p.tell(t, wire.PushTurnEnd, 1)
		p.exec(t, `UPDATE push_outbox SET claimed = TRUE, attempts = 1, not_before = 1`)
		p.tell(t, wire.PushTurnEnd, 2)
		require.Equal(t, map[int64]string{1: "skipped replaced", 2: "waiting"}, p.fates(t))
		p.exec(t, `UPDATE push_outbox SET claimed = TRUE, attempts = 1, not_before = 1`)
		p.run(t, p.node(service))
		require.Equal(t, "turn_end 2", <-service.asked)
		service.answers <- outbound.Result{Pushed: true}
		p.eventuallyFates(t, map[int64]string{1: "skipped replaced", 2: "sent"})
	})
}

// A push service that does not answer for some devices holds up no others.
func TestAPushThatHangsHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		p := newPost(t, db.DB, deviceToken)
		people := identity.New(db.DB, p.bus, testkit.Env())
		for range 30 {
			phone := identity.Device{ID: testkit.Env().RandomID(), PushToken: testkit.Env().RandomID()}
			require.NoError(t, people.Touch(t.Context(), identity.Principal{UserID: p.user}, phone))
		}
		service := &lame{hold: deviceToken, release: make(chan struct{})}
		p.run(t, p.node(service))
		p.tell(t, wire.PushAsk, 1)
		require.True(t, assertEventually(func() bool { return service.done.Load() == 30 }), "the others are told meanwhile")
		close(service.release)
		require.True(t, assertEventually(func() bool { return service.done.Load() == 31 }))
	})
}

// lame is a push service that takes its time for one device.
type lame struct {
	hold    string
	release chan struct{}
	done    atomic.Int64
}

func (l *lame) Push(ctx context.Context, token string, _ map[string]string) outbound.Result {
	if token == l.hold {
		select {
		case <-l.release:
		case <-ctx.Done():
		}
	}
	l.done.Add(1)
	return outbound.Result{Pushed: true}
}

// The cost of news does not grow with the people: few statements, and none without somebody to tell.
func TestNewsTakeFewStatements(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		p := newPost(t, db.DB, deviceToken)
		people := identity.New(db.DB, p.bus, testkit.Env())
		statements := func(seq int64) int {
			counted := &counting{}
			require.NoError(t, db.DB.Write(t.Context(), nil, func(tx storage.Tx) error {
				counted.Tx, counted.n = tx, 0
				_, err := outbound.EnqueueNews(counted, testkit.Env(), outbound.News{SessionID: p.session, Type: wire.PushAsk, Seq: seq})
				return err
			}))
			return counted.n
		}
		one := statements(1)
		for range 100 {
			phone := identity.Device{ID: testkit.Env().RandomID(), PushToken: testkit.Env().RandomID()}
			require.NoError(t, people.Touch(t.Context(), identity.Principal{UserID: p.user}, phone))
		}
		require.Equal(t, 5, one)
		require.Equal(t, 7, statements(2), "with the first one replaced")
		require.Equal(t, 7, statements(3))
		p.exec(t, `UPDATE devices SET push_token = NULL`)
		require.Equal(t, 1, statements(4))
	})
}

// counting counts the statements of a transaction.
type counting struct {
	storage.Tx

	n int
}

func (c *counting) Exec(query string, args ...any) error {
	c.n++
	return c.Tx.Exec(query, args...)
}

func (c *counting) Query(query string, args []any, each func(storage.Row) error) error {
	c.n++
	return c.Tx.Query(query, args, each)
}

func (c *counting) Insert(into storage.Table, rows [][]any) error {
	c.n++
	return c.Tx.Insert(into, rows)
}
