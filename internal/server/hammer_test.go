package server_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/history"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// While several devices write without a pause, an access is taken away. No event that was asked for
// after the loss was acknowledged may arrive, whatever waits in queues, lanes and replays.
func TestLossUnderLoad(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		h := newHouse(t, db)
		for round := range 6 {
			transport := []history.Transport{history.SSE, history.WebSocket}[round%2]
			t.Run(fmt.Sprintf("SS-ROLE-2 nothing committed after the loss arrives, %s, round %d", transport, round), func(t *testing.T) {
				loseUnderLoad(t, h, transport)
			})
		}
	})
}

func loseUnderLoad(t *testing.T, h *house, transport history.Transport) {
	t.Helper()
	owner, who := raw(t, at(h.a), h.person(t)), h.person(t)
	session := owner.newSession(t)
	share := owner.share(t, session, who, wire.RoleViewer)
	var mu sync.Mutex
	asked := map[string]time.Time{} // when each event was asked for, by control id
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for number := range 3 {
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprintf("c-%d-%d", number, i)
				mu.Lock()
				asked["control:"+id] = time.Now()
				mu.Unlock()
				_, err := owner.Do(t.Context(), http.MethodPost, "/v1/sessions/"+session+"/control", map[string]string{"id": id, "kind": "pause"})
				assert.NoError(t, err)
			}
		})
	}
	stream := raw(t, at(h.b), who).open(t, transport, session, 0)
	stream.await(t, 2*soon, "events", isEvent(t, wire.KindControl))
	var lost time.Time
	removed := make(chan struct{})
	go func() {
		defer close(removed)
		<-time.After(rand.N(200 * time.Millisecond))
		_, err := owner.Do(t.Context(), http.MethodDelete, "/v1/sessions/"+session+"/shares/"+share.ID, nil)
		assert.NoError(t, err)
		lost = time.Now()
	}()
	var got []wire.Event
	for frame := range stream.Frames {
		var event wire.Event
		if frame.Name == wire.FrameEvent && json.Unmarshal(frame.Data, &event) == nil {
			got = append(got, event)
		}
	}
	<-removed
	require.Less(t, time.Since(lost), soon)
	close(stop)
	writers.Wait()
	for _, event := range got {
		require.True(t, asked[*event.ClientEventID].Before(lost), "seq %d was asked for after the loss", event.Seq)
	}
	require.Equal(t, 4403, stream.Code)
}

// Devices come and go in a storm, on every node. When it is over, everybody agrees on who is there.
func TestPresenceSettles(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		h := newHouse(t, db)
		who := h.person(t)
		watcher := raw(t, at(h.a), who)
		session := watcher.newSession(t)
		stream := watcher.open(t, history.WebSocket, session, 0)
		seen := watch(t, stream)
		var storm sync.WaitGroup
		var mu sync.Mutex
		stays := map[string]bool{watcher.Device: true}
		for i := range 8 {
			node := []*servertest.Server{h.a, h.b}[i%2]
			guest := raw(t, at(node), who)
			storm.Go(func() {
				if comeAndGo(t, guest, session) {
					mu.Lock()
					stays[guest.Device] = true
					mu.Unlock()
				}
			})
		}
		storm.Wait()
		t.Run("SS-PRS-1 the detail shows who is there", func(t *testing.T) {
			require.Eventually(t, func() bool {
				var detail wire.SessionDetail
				require.NoError(t, watcher.want(t, http.StatusOK, http.MethodGet, "/v1/sessions/"+session, nil).Into(&detail))
				there := map[string]bool{}
				for _, one := range detail.Presence {
					there[one.DeviceID] = true
				}
				return fmt.Sprint(there) == fmt.Sprint(stays)
			}, 2*soon, 20*time.Millisecond)
		})
		t.Run("SS-PRS-1 so do the frames", func(t *testing.T) {
			require.Eventually(t, func() bool { return fmt.Sprint(seen()) == fmt.Sprint(stays) }, 6*time.Second, 20*time.Millisecond, "%v", stays)
		})
	})
}

// comeAndGo opens and closes streams of one device, two at a time now and then, and reports whether one
// stays open to the end of the test.
func comeAndGo(t *testing.T, guest caller, session string) bool {
	t.Helper()
	for range 8 {
		transport := []history.Transport{history.SSE, history.WebSocket}[rand.N(2)]
		first, _, err := guest.Open(t.Context(), transport, session, 0)
		require.NoError(t, err)
		if rand.N(2) == 0 {
			second, _, err := guest.Open(t.Context(), transport, session, 0)
			require.NoError(t, err)
			second.Close()
		}
		if rand.N(2) == 0 {
			<-first.Frames
		}
		first.Close()
	}
	if rand.N(2) == 0 {
		return false
	}
	last := guest.open(t, history.SSE, session, 0)
	go func() {
		for range last.Frames { // read on
		}
	}()
	return true
}

// watch reads a stream in the background and answers what its presence frames say now.
func watch(t *testing.T, stream *feed) func() map[string]bool {
	t.Helper()
	var mu sync.Mutex
	there := map[string]bool{}
	go func() {
		for frame := range stream.Frames {
			var one wire.Presence
			if frame.Name != wire.FramePresence || json.Unmarshal(frame.Data, &one) != nil {
				continue
			}
			mu.Lock()
			if *one.Online {
				there[one.DeviceID] = true
			} else {
				delete(there, one.DeviceID)
			}
			mu.Unlock()
		}
	}()
	return func() map[string]bool {
		mu.Lock()
		defer mu.Unlock()
		now := map[string]bool{}
		for device := range there {
			now[device] = true
		}
		return now
	}
}
