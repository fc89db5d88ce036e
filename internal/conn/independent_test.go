package conn

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/wire/code"
)

// echoServer answers each message with one frame that holds it, over plain TCP or TLS.
func echoServer(t *testing.T, secure bool) (*Keeper, *httptest.Server, chan *Stream, chan code.Close) {
	t.Helper()
	k := NewKeeper(Limits{}, env.Real(), nil)
	require.NoError(t, k.Start(t.Context()))
	streams, closed := make(chan *Stream, 4), make(chan code.Close, 4)
	mux := http.NewServeMux()
	run := func(s *Stream, err error) {
		if err != nil {
			return
		}
		s.Run(Handler{
			Message: func(text []byte) { s.Send(NewBlock(Frame{Name: "echo", Object: text})) },
			Closed:  func(c code.Close) { closed <- c },
		})
		streams <- s
	}
	mux.HandleFunc("/ws", func(w http.ResponseWriter, r *http.Request) { run(k.UpgradeWebSocket(w, r, "codai.v1")) })
	mux.HandleFunc("/sse", func(w http.ResponseWriter, r *http.Request) { run(k.OpenSSE(w, r, nil)) })
	server := httptest.NewUnstartedServer(mux)
	if secure {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(func() {
		server.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, k.Stop(ctx))
		require.Equal(t, Stats{}, k.Stats())
	})
	return k, server, streams, closed
}

// clientOf answers a client that trusts the server and speaks HTTP/1.1.
func clientOf(t *testing.T, server *httptest.Server) *http.Client {
	t.Helper()
	transport := &http.Transport{}
	if server.TLS != nil {
		config := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		config.NextProtos = nil
		transport.TLSClientConfig = config
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// outsider is coder/websocket, which shares no code with us, at an echo server.
type outsider struct {
	*websocket.Conn
	stream *Stream
	closed chan code.Close
	ctx    context.Context
}

// TestIndependentClient speaks with coder/websocket.
func TestIndependentClient(t *testing.T) {
	t.Parallel()
	cases := map[string]func(outsider, *testing.T){
		"messages":                         outsider.messages,
		"its close":                        outsider.itsClose,
		"our close":                        outsider.ourClose,
		"a binary message":                 outsider.binary,
		"a connection that breaks":         outsider.breaks,
		"many frames while slow, in order": outsider.slow,
	}
	for name, secure := range map[string]bool{"TCP": false, "TLS": true} {
		for what, play := range cases {
			t.Run(name+" "+what, func(t *testing.T) {
				t.Parallel()
				play(connect(t, secure), t)
			})
		}
	}
}

func connect(t *testing.T, secure bool) outsider {
	t.Helper()
	_, server, streams, closed := echoServer(t, secure)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	c, answer, err := websocket.Dial(ctx, server.URL+"/ws", &websocket.DialOptions{
		HTTPClient:      clientOf(t, server),
		Subprotocols:    []string{"codai.device.x", "codai.v1"},
		CompressionMode: websocket.CompressionContextTakeover,
	})
	require.NoError(t, err)
	require.Empty(t, answer.Header.Get("Sec-WebSocket-Extensions"))
	require.Equal(t, "codai.v1", c.Subprotocol())
	c.SetReadLimit(64 << 20)
	t.Cleanup(func() { _ = c.CloseNow() })
	return outsider{c, receive(t, streams), closed, ctx}
}

func (c outsider) messages(t *testing.T) {
	for _, size := range []int{0, 1, 100, 125, 126, 65_535, 65_536, 5 << 20} {
		text := `{"s":"` + strings.Repeat("é", size/2) + `"}`
		require.NoError(t, c.Write(c.ctx, websocket.MessageText, []byte(text)))
		kind, got, err := c.Read(c.ctx)
		require.NoError(t, err)
		require.Equal(t, websocket.MessageText, kind)
		require.Equal(t, `{"v":1,"t":"echo",`+text[1:], string(got))
	}
	fragments, err := c.Writer(c.ctx, websocket.MessageText)
	require.NoError(t, err)
	for _, part := range []string{`{"a":`, `1}`} {
		_, err = io.WriteString(fragments, part)
		require.NoError(t, err)
	}
	require.NoError(t, fragments.Close())
	_, got, err := c.Read(c.ctx)
	require.NoError(t, err)
	require.Equal(t, `{"v":1,"t":"echo","a":1}`, string(got))
}

func (c outsider) itsClose(t *testing.T) {
	reading := c.CloseRead(c.ctx)
	require.NoError(t, c.Ping(c.ctx))
	require.NoError(t, reading.Err())
	require.NoError(t, c.Close(4000, "enough"))
	require.EqualValues(t, 4000, receive(t, c.closed))
}

func (c outsider) ourClose(t *testing.T) {
	c.stream.Send(sized(8<<20, 1))
	c.stream.Close(code.CloseNoAccess, "no longer yours")
	_, got, err := c.Read(c.ctx)
	require.NoError(t, err)
	require.Greater(t, len(got), 8<<20)
	_, _, err = c.Read(c.ctx)
	var goodbye websocket.CloseError
	require.ErrorAs(t, err, &goodbye)
	require.Equal(t, websocket.CloseError{Code: 4403, Reason: "no longer yours"}, goodbye)
	require.Equal(t, code.CloseNoAccess, receive(t, c.closed))
}

func (c outsider) binary(t *testing.T) {
	require.NoError(t, c.Write(c.ctx, websocket.MessageBinary, []byte("x")))
	_, _, err := c.Read(c.ctx)
	require.Equal(t, websocket.StatusUnsupportedData, websocket.CloseStatus(err))
	require.Equal(t, code.CloseUnsupported, receive(t, c.closed))
}

func (c outsider) breaks(t *testing.T) {
	require.NoError(t, c.CloseNow())
	require.Equal(t, Lost, receive(t, c.closed))
}

func (c outsider) slow(t *testing.T) {
	const frames = 900
	for i := range frames {
		c.stream.Send(sized(3000, i))
	}
	for i := range frames {
		_, got, err := c.Read(c.ctx)
		require.NoError(t, err)
		require.Contains(t, string(got[:40]), fmt.Sprintf(`"seq":%d,`, i))
	}
	require.NoError(t, c.Close(websocket.StatusNormalClosure, ""))
	require.Equal(t, code.CloseNormal, receive(t, c.closed))
}

func TestEventsOverTLS(t *testing.T) {
	t.Parallel()
	_, server, streams, closed := echoServer(t, true)
	answer, err := clientOf(t, server).Get(server.URL + "/sse")
	require.NoError(t, err)
	s := receive(t, streams)
	s.Send(block("a"))
	s.Close(code.CloseBadKey, "")
	lines := bufio.NewScanner(answer.Body)
	var got []string
	for lines.Scan() {
		got = append(got, lines.Text())
	}
	require.NoError(t, lines.Err())
	require.NoError(t, answer.Body.Close())
	require.Equal(t, []string{"event: a", `data: {"v":1}`, "", "event: closed", `data: {"v":1,"code":4401}`, ""}, got)
	require.Equal(t, code.CloseBadKey, receive(t, closed))
}
