package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/crash"
	"github.com/cairnsync/cairn/internal/testkit/fakefcm"
	"github.com/cairnsync/cairn/internal/testkit/history"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// commandLine is identity as the command line uses it: on a database of its own, beside the server.
func commandLine(t *testing.T, url string) *identity.Service {
	t.Helper()
	db := testkit.Open(t, storage.Options{URL: url, Migrate: storage.MigrateRefuse})
	return identity.New(db, signal.NewLocal(), env.Real())
}

func account(t *testing.T, people *identity.Service, name string) servertest.Account {
	t.Helper()
	email := name + "@example.test"
	user, err := people.AddUser(t.Context(), name, &email)
	require.NoError(t, err)
	return servertest.Account{UserID: user.UserID, Key: user.APIKey, Email: email}
}

// every calls do several times, spread over lasting.
func every(ctx context.Context, lasting time.Duration, times int, do func()) {
	ticker := time.NewTicker(lasting / time.Duration(times+1))
	defer ticker.Stop()
	for range times {
		select {
		case <-ticker.C:
			do()
		case <-ctx.Done():
		}
	}
}

func TestKillTheServer(t *testing.T) {
	t.Parallel()
	for _, engine := range testkit.Engines() {
		t.Run("SS-ERR-2 nothing acknowledged is lost by kill -9, "+engine, func(t *testing.T) {
			t.Parallel()
			url := testkit.NewURL(t, engine)
			people := commandLine(t, url)
			node := crash.Start(t, url)
			const lasting = 15 * time.Second // a loaded machine restarts a server slowly
			o := workload(account(t, people, "owner"), account(t, people, "editor"), account(t, people, "viewer"),
				lasting, func(int) string { return node.URL() })
			h := history.Record(t, o, func() {
				every(t.Context(), lasting, 4, func() {
					node.Kill()
					node.Restart()
				})
			})
			logSize(t, h)
			h.Check(t)
		})
	}
}

func TestKillPostgres(t *testing.T) {
	t.Parallel()
	t.Run("SS-ERR-2 nothing acknowledged is lost by kill -9 of PostgreSQL", func(t *testing.T) {
		t.Parallel()
		cluster, err := testkit.StartPostgres("", testkit.ServerOptions{Fsync: true, MaxConnections: 60})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
		url := cluster.URL("")
		require.NoError(t, storage.Migrate(t.Context(), url))
		db := &testkit.Database{Engine: testkit.Postgres, URL: url}
		nodes := []*servertest.Server{servertest.Start(t, db, nil), servertest.Start(t, db, nil)}
		const lasting = 15 * time.Second
		o := workload(nodes[0].Account(t, "owner"), nodes[0].Account(t, "editor"), nodes[0].Account(t, "viewer"),
			lasting, func(worker int) string { return nodes[worker%2].URL })
		h := history.Record(t, o, func() {
			every(t.Context(), lasting, 3, func() {
				require.NoError(t, cluster.Kill9())
				require.NoError(t, cluster.Restart())
			})
		})
		logSize(t, h)
		h.Check(t)
	})
}

// What a killed server's connections left behind is seen for as long as its term lasts, not longer.
// Both engines wait in one test: waiting should not take two places.
func TestPresenceOfAKilledServer(t *testing.T) {
	t.Parallel()
	gone := map[string]func() bool{}
	streams := map[string]*feed{}
	killed := time.Now()
	for _, engine := range testkit.Engines() {
		url := testkit.NewURL(t, engine)
		owner := account(t, commandLine(t, url), "owner")
		node := crash.Start(t, url)
		watcher := raw(t, node.URL, owner)
		id := watcher.newSession(t)
		watcher.lead(t, id)
		stream := watcher.open(t, history.WebSocket, id, 0)
		require.Eventually(t, func() bool { return watcher.present(t, id) == 1 }, 5*time.Second, 20*time.Millisecond)
		killed = time.Now()
		node.Kill()
		stream.Close()
		node.Restart()
		other := raw(t, node.URL, owner)
		streams[engine] = other.open(t, history.SSE, id, 0)
		gone[engine] = func() bool { return other.present(t, id) == 1 }
	}
	for engine, stream := range streams {
		t.Run("SS-LEASE-5 a lease that runs out shows within a second, "+engine, func(t *testing.T) {
			frame := stream.await(t, soon, "the lease that outlived the kill", named(wire.FrameLease))
			var body struct {
				ExpiresAt wire.Time `json:"expires_at"`
			}
			require.NoError(t, json.Unmarshal(frame.Data, &body))
			stream.await(t, max(time.Until(body.ExpiresAt.Time), 0)+soon, "nobody executes", lease(""))
			require.False(t, time.Now().Before(body.ExpiresAt.Time), "it ran out before its term")
		})
	}
	for engine, isGone := range gone {
		t.Run("SS-PRS-1 entries of a crashed server disappear within 45 s, "+engine, func(t *testing.T) {
			require.Eventually(t, isGone, 45*time.Second-time.Since(killed), 100*time.Millisecond)
		})
	}
}

// What was accepted before the kill waits in the inbox after it.
func TestInboxSurvivesAKill(t *testing.T) {
	t.Parallel()
	for _, engine := range testkit.Engines() {
		t.Run("SS-DSP-4 a dispatch waits for its device over a crash, "+engine, func(t *testing.T) {
			t.Parallel()
			url := testkit.NewURL(t, engine)
			owner := account(t, commandLine(t, url), "owner")
			node := crash.Start(t, url)
			sender, target := raw(t, node.URL, owner), raw(t, node.URL, owner)
			id := sender.newSession(t)
			target.want(t, http.StatusOK, http.MethodGet, "/v1/sessions/"+id, nil) // registers the device
			control := uuid.NewString()
			work := map[string]string{"device_id": target.Device, "text": "go", "control_id": control}
			sender.want(t, http.StatusAccepted, http.MethodPost, "/v1/sessions/"+id+"/dispatch", work)
			node.Kill()
			node.Restart()
			var inbox wire.Inbox
			require.NoError(t, target.want(t, http.StatusOK, http.MethodGet, "/v1/devices/me/dispatch", nil).Into(&inbox))
			require.Len(t, inbox.Sessions, 1)
			require.Equal(t, control, inbox.Sessions[0].Controls[0].ID)
			again := sender.want(t, http.StatusOK, http.MethodPost, "/v1/sessions/"+id+"/dispatch", work)
			require.Contains(t, string(again.Body), `"duplicate":true`, fmt.Sprint(again))
		})
	}
}

// A push is written down with its control. A server that dies while it sends leaves it to the next one.
func TestPushSurvivesAKill(t *testing.T) {
	t.Parallel()
	push, err := fakefcm.Start()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, push.Close()) })
	push.Answer(fakefcm.Hang)
	credentials := write(t, string(push.Credentials()))
	ctx, cancel := context.WithTimeout(t.Context(), 6*patience)
	defer cancel()
	// pushed waits until a device was pushed to so often; the others are tried again meanwhile.
	pushed := func(engine string, times int) (data []map[string]string) {
		t.Helper()
		for all := 1; len(data) < times; all++ {
			messages, err := push.Wait(ctx, all)
			require.NoError(t, err, "push %d to the device of %s", times, engine)
			if last := messages[all-1]; last.Token == pushToken(engine) {
				data = append(data, last.Data)
			}
		}
		return data
	}
	for _, engine := range testkit.Engines() {
		url := testkit.NewURL(t, engine)
		owner := account(t, commandLine(t, url), "owner")
		node := crash.Start(t, url, "push.fcm.project="+fakefcm.ProjectID, "push.fcm.credentials_file="+credentials, "push.fcm.endpoint="+push.URL())
		asked := dispatchWithPush(t, node, owner, engine)
		pushed(engine, 1)
		node.Kill()
		<-asked
		node.Restart()
	}
	push.Answer(fakefcm.OK)
	for _, engine := range testkit.Engines() {
		t.Run("SS-DSP-3 a crash while pushing sends it later, "+engine, func(t *testing.T) {
			data := pushed(engine, 2)
			require.Equal(t, data[0], data[1])
		})
	}
}

// News are written down with their event. A server that dies before it sent them leaves them to the next one.
func TestNewsSurviveAKill(t *testing.T) {
	t.Parallel()
	for _, engine := range testkit.Engines() {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			push, url := startFake(t), testkit.NewURL(t, engine)
			db := testkit.Open(t, storage.Options{URL: url, Migrate: storage.MigrateRefuse})
			o := &office{db: db, fake: push, people: commandLine(t, url)}
			node := crash.Start(t, url, "push.pause=1h", "push.fcm.project="+fakefcm.ProjectID,
				"push.fcm.credentials_file="+write(t, string(push.Credentials())), "push.fcm.endpoint="+push.URL())
			owner := o.person(t)
			d := &desk{office: o, owner: owner, executor: raw(t, node.URL, owner), own: raw(t, node.URL, owner)}
			d.own.Header = http.Header{wire.HeaderPushToken: {d.own.Device}}
			d.own.want(t, http.StatusOK, http.MethodGet, "/v1/devices", nil)
			d.session = d.executor.newSession(t)
			d.executor.lead(t, d.session)
			d.becomes(t, d.own, d.append(t, wire.KindTurnEnd), wire.PushSent, "")
			waits := d.append(t, wire.KindAsk)
			node.Kill()
			d.lapse(t)
			node.Restart()
			d.becomes(t, d.own, waits, wire.PushSent, "")
			require.Equal(t, []string{told("turn_end", 1), told("ask", waits)}, d.received(d.own))

			push.AnswerFor(d.own.Device, fakefcm.Hang)
			d.lapse(t)
			claimed := d.append(t, wire.KindAsk)
			require.Eventually(t, func() bool { return len(d.received(d.own)) == 3 }, 5*soon, 10*time.Millisecond, "the first attempt")
			node.Kill()
			push.AnswerFor(d.own.Device, fakefcm.OK)
			d.lapse(t) // the claim of the killed process runs out
			node.Restart()
			require.EqualValues(t, 2, d.becomes(t, d.own, claimed, wire.PushSent, "").Attempts)
		})
	}
}

func pushToken(engine string) string { return "token-of-" + engine }

// dispatchWithPush dispatches to a device that can be woken. What it answers is closed when the request
// has ended, one way or the other.
func dispatchWithPush(t *testing.T, node *crash.Process, owner servertest.Account, engine string) <-chan struct{} {
	t.Helper()
	sender, target := raw(t, node.URL, owner), raw(t, node.URL, owner)
	id := sender.newSession(t)
	target.Header = http.Header{wire.HeaderPushToken: {pushToken(engine)}}
	target.want(t, http.StatusOK, http.MethodGet, "/v1/devices", nil)
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		_, _ = sender.Do(t.Context(), http.MethodPost, "/v1/sessions/"+id+"/dispatch", // the server may die before it answers
			map[string]string{"device_id": target.Device, "mode": "open"})
	}()
	return asked
}
