package conn

import (
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/wire/code"
)

// TestAnyEnd lets everything happen at once to a stream: sends, closes, ticks, and a client that
// reads, talks, says goodbye or vanishes. Whatever wins, the stream ends once and leaves nothing.
func TestAnyEnd(t *testing.T) {
	t.Parallel()
	st := newStand(t, Limits{QueueFrames: 20, QueueBytes: 128 << 10}, nil)
	for range 60 {
		p, s := st.webSocketUnread(t)
		var closed atomic.Int32
		ended := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			s.Run(Handler{Message: func([]byte) { s.Send(block("ack")) }, Closed: func(code.Close) { closed.Add(1); close(ended) }})
		})
		for range 3 {
			all.Go(func() {
				for i := range 30 {
					s.Send(sized(rand.IntN(20_000), i))
					s.SendLatest("k", sized(10, i))
				}
			})
		}
		all.Go(func() { _ = s.Room(t.Context()) })
		all.Go(func() {
			if rand.IntN(2) == 0 {
				s.Close(code.CloseGoingAway, "")
			}
		})
		all.Go(func() { misbehave(p) })
		all.Wait()
		_ = p.Close()
		receive(t, ended)
		s.Close(code.CloseNormal, "")
		s.Send(block("late"))
		st.tick(time.Second)
		require.EqualValues(t, 1, closed.Load())
	}
}

// misbehave does some of what clients do; its writes fail when the server has gone.
func misbehave(p *peer) {
	var talk []byte
	for range rand.IntN(5) {
		talk = append(talk, exchanges()[rand.IntN(len(exchanges()))].send...)
	}
	_, _ = p.Write(talk)
	_ = p.SetReadDeadline(time.Now().Add(20 * time.Millisecond)) // it may wait for more than is sent
	_, _ = io.CopyN(io.Discard, p.in, rand.Int64N(500_000))
	if rand.IntN(2) == 0 {
		_ = p.Conn.(*net.TCPConn).SetLinger(0) // vanishes with a reset
	}
	_ = p.Close()
}

// TestThroughProxy reads both transports through Go's reverse proxy.
func TestThroughProxy(t *testing.T) {
	t.Parallel()
	_, server, streams, closed := echoServer(t, false)
	target, err := url.Parse(server.URL)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	proxy.Transport = transport
	front := httptest.NewServer(proxy)
	t.Cleanup(front.Close)

	answer, err := clientOf(t, front).Get(front.URL + "/sse")
	require.NoError(t, err)
	s := receive(t, streams)
	s.Send(block("a"))
	first := make([]byte, len("event: a\n"))
	_, err = io.ReadFull(answer.Body, first)
	require.NoError(t, err, "frames are passed on at once")
	s.Close(code.CloseNoAccess, "")
	rest, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, "data: {\"v\":1}\n\nevent: closed\ndata: {\"v\":1,\"code\":4403}\n\n", string(rest))
	require.Equal(t, code.CloseNoAccess, receive(t, closed))

	c, _, err := websocket.Dial(t.Context(), front.URL+"/ws", &websocket.DialOptions{HTTPClient: clientOf(t, front)})
	require.NoError(t, err)
	require.NoError(t, c.Write(t.Context(), websocket.MessageText, []byte("{}")))
	_, got, err := c.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, `{"v":1,"t":"echo"}`, string(got))
	require.NoError(t, c.Close(websocket.StatusNormalClosure, ""))
	require.Equal(t, code.CloseNormal, receive(t, closed))
}
