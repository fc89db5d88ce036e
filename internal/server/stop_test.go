package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/history"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// stopping is a node that stops while things are under way.
type stopping struct {
	t       *testing.T
	node    *servertest.Server
	owner   caller
	session string
}

func newStopping(t *testing.T, db *testkit.Database) *stopping {
	t.Helper()
	node := servertest.Start(t, db, nil)
	s := &stopping{t: t, node: node, owner: raw(t, at(node), node.Account(t, "owner"))}
	s.session = s.owner.newSession(t)
	s.owner.lead(t, s.session)
	return s
}

// stop begins to stop the node and answers a wait for the end of it, which says how long it took.
func (s *stopping) stop(atMost time.Duration) func() time.Duration {
	began, ended := time.Now(), make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), atMost)
		defer cancel()
		ended <- s.node.Server.Stop(ctx)
	}()
	return func() time.Duration {
		require.NoError(s.t, <-ended)
		return time.Since(began)
	}
}

// slowAppend sends the head of an append and waits until its handler reads the body. What it answers
// sends the rest and reads the answer.
func (s *stopping) slowAppend() func() *http.Response {
	s.t.Helper()
	body := `{"events":[{"kind":"late","client_event_id":"late"}]}`
	connection, err := net.Dial("tcp", s.node.URL[len("http://"):])
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = connection.Close() })
	_, err = fmt.Fprintf(connection, "POST /v1/sessions/%s/events HTTP/1.1\r\nHost: cairn\r\nAuthorization: Bearer %s\r\n"+
		"%s: %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", s.session, s.owner.Key, wire.HeaderDevice, s.owner.Device, len(body))
	require.NoError(s.t, err)
	reader := bufio.NewReader(connection)
	line, err := reader.ReadString('\n')
	require.NoError(s.t, err)
	require.Contains(s.t, line, "100 Continue")
	_, err = reader.ReadString('\n')
	require.NoError(s.t, err)
	return func() *http.Response {
		_, err := io.WriteString(connection, body)
		require.NoError(s.t, err)
		response, err := http.ReadResponse(reader, nil)
		require.NoError(s.t, err)
		s.t.Cleanup(func() { _ = response.Body.Close() })
		return response
	}
}

// refusesConnections waits until nobody is accepted any more.
func (s *stopping) refusesConnections() {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		connection, err := net.Dial("tcp", s.node.URL[len("http://"):])
		if err == nil {
			_ = connection.Close()
		}
		return err != nil
	}, 5*time.Second, 10*time.Millisecond, "it still accepts")
}

func TestStop(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStopping(t, db)
		finish := s.slowAppend()
		streams := map[history.Transport]*feed{}
		for _, transport := range []history.Transport{history.SSE, history.WebSocket} {
			streams[transport] = s.owner.open(t, transport, s.session, 0)
			streams[transport].await(t, soon, "the end of the replay", named(wire.FramePresence))
		}
		ended := s.stop(10 * time.Second)
		s.refusesConnections()
		t.Run("SS-STR-8 a request in flight completes", func(t *testing.T) {
			require.Equal(t, http.StatusOK, finish().StatusCode)
		})
		t.Run("SS-STR-8 streams end cleanly", func(t *testing.T) {
			streams[history.WebSocket].ends(t, 5*time.Second)
			require.Equal(t, int(code.CloseGoingAway), streams[history.WebSocket].Code)
			streams[history.SSE].ends(t, 5*time.Second)
			require.ErrorIs(t, streams[history.SSE].Err, io.EOF)
		})
		ended()
		next := servertest.Start(t, db, nil)
		s.owner.URL = at(next)
		var detail wire.SessionDetail
		require.NoError(t, s.owner.want(t, http.StatusOK, http.MethodGet, "/v1/sessions/"+s.session, nil).Into(&detail))
		t.Run("SS-STR-8 leases stay with their holders", func(t *testing.T) {
			require.NotNil(t, detail.Lease)
			require.Equal(t, s.owner.Device, detail.Lease.DeviceID)
		})
		t.Run("SS-STR-8 presence of its connections ends", func(t *testing.T) {
			require.Empty(t, detail.Presence)
		})
		t.Run("SS-ERR-2 what was acknowledged while it stopped is there", func(t *testing.T) {
			require.EqualValues(t, 1, detail.LastSeq)
		})
	})
}

// A connection on which nothing was sent, as browsers and clients keep some, does not hold a stop up.
func TestStopWithSpareConnections(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStopping(t, db)
		spare, err := net.Dial("tcp", s.node.URL[len("http://"):])
		require.NoError(t, err)
		defer spare.Close()
		s.owner.want(t, http.StatusOK, http.MethodGet, "/v1/sessions/"+s.session, nil) // it was accepted before this
		require.Less(t, s.stop(8*time.Second)(), 4*time.Second)
		_, err = spare.Read(make([]byte, 1))
		require.Error(t, err)
	})
}

// Many streams and a request that waits do not hold a stop up; nor do clients that never answer.
func TestStopWithMany(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStopping(t, db)
		const many = 200
		streams := make([]*feed, many)
		for i := range streams {
			viewer := caller{&history.Client{URL: at(s.node), Key: s.owner.Key, Device: s.owner.Device, HTTP: s.owner.HTTP}}
			streams[i] = viewer.open(t, []history.Transport{history.SSE, history.WebSocket}[i%2], s.session, 0)
			streams[i].await(t, 10*time.Second, "the end of the replay", named(wire.FrameLease))
		}
		inbox := s.waitingInbox()
		silent := s.openSilent()
		defer silent.Close()
		took := s.stop(10 * time.Second)
		var readers sync.WaitGroup
		for _, stream := range streams {
			readers.Go(func() {
				for range stream.Frames { // to the end
				}
			})
		}
		t.Run("SS-STR-8 a stop takes less than ten seconds", func(t *testing.T) {
			require.Less(t, took(), 10*time.Second)
		})
		readers.Wait()
		t.Run("SS-STR-8 every stream ends cleanly", func(t *testing.T) {
			for _, stream := range streams {
				clean := stream.Code == int(code.CloseGoingAway) || stream.transport == history.SSE && errors.Is(stream.Err, io.EOF)
				require.True(t, clean, "%s: %d, %v", stream.transport, stream.Code, stream.Err)
			}
		})
		t.Run("SS-DSP-4 an inbox that waits is answered", func(t *testing.T) {
			require.Equal(t, http.StatusOK, <-inbox)
		})
	})
}

// waitingInbox asks for an inbox that waits, and returns when the request is being served: when its
// device, which is new, is known. The channel gets the status of the answer, 0 for none.
func (s *stopping) waitingInbox() <-chan int {
	s.t.Helper()
	waiter := *s.owner.Client
	waiter.Device = uuid.NewString()
	status := make(chan int, 1)
	go func() {
		answer, _ := waiter.Do(s.t.Context(), http.MethodGet, "/v1/devices/me/dispatch?wait=30", nil) // status 0 tells
		status <- answer.Status
	}()
	require.Eventually(s.t, func() bool {
		devices := s.owner.want(s.t, http.StatusOK, http.MethodGet, "/v1/devices", nil)
		return strings.Contains(string(devices.Body), waiter.Device)
	}, 5*time.Second, 10*time.Millisecond, "the inbox does not wait")
	return status
}

// openSilent opens a WebSocket whose client never says a word again, not even goodbye.
func (s *stopping) openSilent() net.Conn {
	s.t.Helper()
	connection, err := net.Dial("tcp", s.node.URL[len("http://"):])
	require.NoError(s.t, err)
	_, err = fmt.Fprintf(connection, "GET /v1/sessions/%s/ws HTTP/1.1\r\nHost: cairn\r\nAuthorization: Bearer %s\r\n%s: %s\r\n"+
		"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
		s.session, s.owner.Key, wire.HeaderDevice, s.owner.Device)
	require.NoError(s.t, err)
	line, err := bufio.NewReader(connection).ReadString('\n')
	require.NoError(s.t, err)
	require.Contains(s.t, line, "101")
	return connection
}

func TestStopWithAClientThatHangs(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStopping(t, db)
		s.slowAppend() // and never the rest
		stream := s.owner.open(t, history.WebSocket, s.session, 0)
		stream.await(t, soon, "the end of the replay", named(wire.FramePresence))
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Second)
		defer cancel()
		ended := make(chan struct{})
		go func() { defer close(ended); t.Log(s.node.Server.Stop(ctx)) }()
		t.Run("SS-STR-8 streams end cleanly although a request hangs", func(t *testing.T) {
			stream.ends(t, 5*time.Second)
			require.Equal(t, int(code.CloseGoingAway), stream.Code, "%v", stream.Err)
		})
		<-ended
		s.owner.URL = at(servertest.Start(t, db, nil))
		t.Run("SS-STR-8 presence ends although a request hangs", func(t *testing.T) {
			require.Zero(t, s.owner.present(t, s.session))
		})
	})
}
