package conn

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/wire/code"
)

// get opens an event stream with Go's own client.
func (st *stand) get(t *testing.T) (*http.Response, *Stream, *handler) {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+st.address+"/sse", nil)
	require.NoError(t, err)
	answer, err := transport.RoundTrip(request)
	require.NoError(t, err)
	t.Cleanup(func() { _ = answer.Body.Close() })
	s := receive(t, st.streams)
	h, on := collect()
	s.Run(on)
	return answer, s, h
}

func TestSSE(t *testing.T) {
	t.Parallel()
	t.Run("SS-STR-1 the head of the answer", func(t *testing.T) {
		t.Parallel()
		st := newStand(t, Limits{}, nil)
		answer, _, _ := st.get(t)
		require.Equal(t, http.StatusOK, answer.StatusCode)
		require.Equal(t, "text/event-stream; charset=utf-8", answer.Header.Get("Content-Type"))
		require.Equal(t, "no-cache", answer.Header.Get("Cache-Control"))
		require.Equal(t, "no", answer.Header.Get("X-Accel-Buffering"))
		require.Equal(t, "yes", answer.Header.Get("X-Extra"))
		require.NotEmpty(t, answer.Header.Get("Date"))
		require.Equal(t, []string{"chunked"}, answer.TransferEncoding)
		require.True(t, answer.Close)
	})
	t.Run("SS-STR-3 frames, then a clean end", func(t *testing.T) {
		t.Parallel()
		st := newStand(t, Limits{}, nil)
		answer, s, h := st.get(t)
		s.Send(NewBlock(Frame{Name: "event", ID: 7, Object: []byte("{\"seq\":\n7}")}, Frame{Name: "lease"}))
		s.Send(sized(hugeFrame, 8))
		s.Send(block("after"))
		s.Close(code.CloseGoingAway, "bye")
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err, "the body ends by its last chunk")
		text := string(body)
		require.True(t, strings.HasPrefix(text, "event: event\nid: 7\ndata: {\"v\":1,\"seq\":\ndata: 7}\n\nevent: lease\ndata: {\"v\":1}\n\nevent: event\nid: 8\n"))
		require.True(t, strings.HasSuffix(text, "xx\"}\n\nevent: after\ndata: {\"v\":1}\n\n"), text[len(text)-99:])
		require.Equal(t, code.CloseGoingAway, receive(t, h.closed))
	})
}

func TestSSEEnds(t *testing.T) {
	t.Parallel()
	t.Run("SS-ROLE-2 a lost right is told in a closed frame", func(t *testing.T) {
		t.Parallel()
		st := newStand(t, Limits{}, nil)
		answer, s, h := st.get(t)
		s.Close(code.CloseNoAccess, "")
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.Equal(t, "event: closed\ndata: {\"v\":1,\"code\":4403}\n\n", string(body))
		require.Equal(t, code.CloseNoAccess, receive(t, h.closed))
	})
	t.Run("SS-STR-7 a consumer that falls behind sees a whole prefix and the end", func(t *testing.T) {
		t.Parallel()
		st := newStand(t, Limits{QueueBytes: 1 << 20}, nil)
		answer, s, h := st.get(t)
		sent := fill(s, 64<<10)
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err, "the body ends by its last chunk")
		require.True(t, strings.HasSuffix(string(body), "\n\n"))
		require.Less(t, strings.Count(string(body), "event: "), sent)
		require.Equal(t, code.CloseTooSlow, receive(t, h.closed))
	})
}

func TestSSESilence(t *testing.T) {
	t.Parallel()
	t.Run("SS-STR-4 a comment after 15 s of silence", func(t *testing.T) {
		t.Parallel()
		st := newStand(t, Limits{}, nil)
		answer, s, _ := st.get(t)
		lines := bufio.NewScanner(answer.Body)
		st.tick(14 * time.Second)
		s.Send(block("x"))
		st.tick(time.Second) // sees that something was sent
		st.tick(14 * time.Second)
		st.tick(time.Second)
		s.Close(code.CloseNormal, "")
		var got []string
		for lines.Scan() {
			got = append(got, lines.Text())
		}
		require.NoError(t, lines.Err())
		require.Equal(t, []string{"event: x", `data: {"v":1}`, "", ": ping 1800000030000", ""}, got)
	})
}

func TestSSEClients(t *testing.T) {
	t.Parallel()
	t.Run("a client that leaves", func(t *testing.T) {
		t.Parallel()
		st := newStand(t, Limits{}, nil)
		answer, s, h := st.get(t)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, code.CloseNormal, receive(t, h.closed))
		require.True(t, s.Closed())
	})
	t.Run("a client that talks is cut off", func(t *testing.T) {
		t.Parallel()
		st := newStand(t, Limits{}, nil)
		_, p, s, h := st.sse(t)
		p.send(make([]byte, maxSSEInput))
		s.Send(block("fine"))
		line, err := p.in.ReadString('\n')
		require.NoError(t, err)
		require.NotEmpty(t, line)
		require.Empty(t, h.closed)
		p.send([]byte("x"))
		require.Equal(t, code.CloseProtocol, receive(t, h.closed))
	})
	t.Run("HTTP/1.0 gets a body without chunks", func(t *testing.T) {
		t.Parallel()
		st := newStand(t, Limits{}, nil)
		p := dial(t, st.address, "GET /sse HTTP/1.0\r\n\r\n")
		answer, err := http.ReadResponse(p.in, nil)
		require.NoError(t, err)
		require.Empty(t, answer.TransferEncoding)
		s := receive(t, st.streams)
		s.Run(Handler{})
		s.Send(block("a"))
		st.tick(0)
		st.tick(15 * time.Second)
		s.Close(code.CloseNotFound, "")
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.Equal(t, "event: a\ndata: {\"v\":1}\n\n: ping 1800000015000\n\nevent: closed\ndata: {\"v\":1,\"code\":4404}\n\n", string(body))
	})
}
