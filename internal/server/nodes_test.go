package server_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/history"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Everything that happens on one node is seen on the other.
func TestNodesShareASession(t *testing.T) {
	t.Parallel()
	db := testkit.New(t, testkit.Postgres)
	h := newHouse(t, db)
	for _, transport := range []history.Transport{history.SSE, history.WebSocket} {
		t.Run(string(transport), func(t *testing.T) {
			t.Parallel()
			shareASession(t, h, transport)
		})
	}
}

func shareASession(t *testing.T, h *house, transport history.Transport) {
	t.Helper()
	who := h.person(t)
	executor, watcher := raw(t, at(h.a), who), raw(t, at(h.b), who)
	session := executor.newSession(t)
	stream := watcher.open(t, transport, session, 0)
	stream.await(t, soon, "presence of the watcher itself", presence(watcher.Device, true, false))

	executor.lead(t, session)
	stream.await(t, soon, "SS-LEASE-5 the lease", lease(executor.Device))
	executor.say(t, session, "hello")
	stream.await(t, soon, "SS-STR-2 the event", isEvent(t, "hello"))

	control := uuid.NewString()
	watcher.want(t, http.StatusAccepted, http.MethodPost, "/v1/sessions/"+session+"/control",
		map[string]string{"id": control, "kind": "pause"})
	stream.await(t, soon, "SS-CTL-2 the echo", isEvent(t, wire.KindControl))
	executor.want(t, http.StatusOK, http.MethodPost, "/v1/sessions/"+session+"/control/"+control+"/applied", nil)
	stream.await(t, soon, "SS-CTL-5 the control as applied", func(f history.Frame) bool {
		var body wire.Control
		return f.Name == wire.FrameControl && json.Unmarshal(f.Data, &body) == nil && body.ID == control && body.Applied
	})

	second := executor.open(t, history.WebSocket, session, 0)
	stream.await(t, soon, "SS-PRS-1 the executor comes", presence(executor.Device, true, true))
	second.Close()
	stream.await(t, soon, "SS-PRS-1 the executor leaves", presence(executor.Device, false, true))

	taker := raw(t, at(h.b), who)
	taker.want(t, http.StatusOK, http.MethodPost, "/v1/sessions/"+session+"/lease", map[string]bool{"force": true})
	refusal := executor.want(t, http.StatusConflict, http.MethodPut, "/v1/sessions/"+session+"/lease", nil)
	require.Equal(t, "Lease lost to another device. (holder_device_id="+taker.Device+")", refusal.Error().Message, "SS-LEASE-3")
	taker.want(t, http.StatusOK, http.MethodDelete, "/v1/sessions/"+session+"/lease", nil)
	stream.await(t, soon, "SS-LEASE-5 nobody executes", lease(""))
}

func presence(device string, online, executor bool) func(history.Frame) bool {
	return func(f history.Frame) bool {
		var body wire.Presence
		return f.Name == wire.FramePresence && json.Unmarshal(f.Data, &body) == nil &&
			body.DeviceID == device && *body.Online == online && body.Executor == executor
	}
}

func lease(holder string) func(history.Frame) bool {
	return func(f history.Frame) bool {
		var body struct {
			Holder *string `json:"holder_device_id"`
		}
		if f.Name != wire.FrameLease || json.Unmarshal(f.Data, &body) != nil {
			return false
		}
		return holder == "" && body.Holder == nil || body.Holder != nil && *body.Holder == holder
	}
}

// An inbox that waits on one node hears of a dispatch on the other.
func TestInboxAcrossNodes(t *testing.T) {
	t.Parallel()
	db := testkit.New(t, testkit.Postgres)
	h := newHouse(t, db)
	who := h.person(t)
	sender, target := raw(t, at(h.a), who), raw(t, at(h.b), who)
	session := sender.newSession(t)
	target.want(t, http.StatusOK, http.MethodGet, "/v1/devices/me/dispatch", nil)
	answered := make(chan history.Answer, 1)
	go func() {
		answer, _ := target.Do(t.Context(), http.MethodGet, "/v1/devices/me/dispatch?wait=15", nil) // an empty answer fails below
		answered <- answer
	}()
	sender.want(t, http.StatusAccepted, http.MethodPost, "/v1/sessions/"+session+"/dispatch",
		map[string]string{"device_id": target.Device, "mode": "open"})
	select {
	case answer := <-answered:
		var inbox wire.Inbox
		require.NoError(t, answer.Into(&inbox))
		require.Len(t, inbox.Sessions, 1, "SS-DSP-4")
	case <-time.After(5 * time.Second):
		require.FailNow(t, "the inbox was not woken")
	}
}

// Wake-ups may be lost: the poll heals that.
func TestWithoutTheListeningConnection(t *testing.T) {
	t.Parallel()
	db := testkit.New(t, testkit.Postgres)
	h := newHouse(t, db)
	who := h.person(t)
	executor, watcher := raw(t, at(h.a), who), raw(t, at(h.b), who)
	session := executor.newSession(t)
	executor.lead(t, session)
	stream := watcher.open(t, history.WebSocket, session, 0)
	stream.await(t, soon, "the end of the replay", lease(executor.Device))
	admin, err := pgx.Connect(t.Context(), db.URL)
	require.NoError(t, err)
	defer admin.Close(t.Context()) //nolint:errcheck // the database goes away anyway
	total := 0
	for range 5 {
		var killed int
		require.NoError(t, admin.QueryRow(t.Context(), `SELECT count(*) FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name IN ('cairn listen', 'cairn notify')) AS k`).Scan(&killed))
		total += killed // none while both nodes are still connecting again
		executor.say(t, session, "hello")
		stream.await(t, 2*signal.PollInterval+soon, "SS-FRM-1 an event without a wake-up", isEvent(t, "hello"))
	}
	require.Positive(t, total, "no connection was there to be killed")
}
