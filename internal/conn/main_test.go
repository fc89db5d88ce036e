package conn

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/wire/code"
)

func TestMain(m *testing.M) {
	if address := os.Getenv(crowdVariable); address != "" {
		crowd(address)
		return
	}
	goleak.VerifyTestMain(m)
}

const patience = 60 * time.Second

// clock is a process clock that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Unix(1_800_000_000, 0)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// stand is a real HTTP server whose /ws and /sse open streams of one keeper.
type stand struct {
	keeper  *Keeper
	clock   *clock
	address string
	streams chan *Stream // opened, not yet Run
	refused chan error
}

// newStand makes a stand whose keeper ticks only when a test calls tick.
func newStand(t testing.TB, limits Limits, observe *Observer) *stand {
	t.Helper()
	st := &stand{clock: newClock(), streams: make(chan *Stream, 16), refused: make(chan error, 16)}
	st.keeper = NewKeeper(limits, env.WithClock(st.clock.Now), observe)
	mux := http.NewServeMux()
	mux.HandleFunc("/ws", func(w http.ResponseWriter, r *http.Request) {
		st.opened(w)(st.keeper.UpgradeWebSocket(w, r, "codai.v1"))
	})
	mux.HandleFunc("/sse", func(w http.ResponseWriter, r *http.Request) {
		st.opened(w)(st.keeper.OpenSSE(w, r, http.Header{"X-Extra": {"yes"}}))
	})
	mux.HandleFunc("/refuse", func(w http.ResponseWriter, r *http.Request) {
		st.refused <- st.keeper.Refuse(w, r, "codai.v1", code.CloseBadKey, "no such key")
	})
	server := httptest.NewServer(mux)
	st.address = server.Listener.Addr().String()
	t.Cleanup(func() {
		server.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		for _, s := range st.keeper.snapshot(nil) {
			s.end(code.CloseGoingAway)
		}
		require.NoError(t, st.keeper.Stop(ctx))
		require.Equal(t, Stats{}, st.keeper.Stats(), "nothing is left behind")
	})
	return st
}

func (st *stand) opened(w http.ResponseWriter) func(*Stream, error) {
	return func(s *Stream, err error) {
		if err != nil {
			if refusal, ok := errors.AsType[*HandshakeError](err); ok {
				maps.Copy(w.Header(), refusal.Header)
				http.Error(w, refusal.Reason, refusal.Status)
			}
			return
		}
		st.streams <- s
	}
}

// tick lets d pass and looks at every stream.
func (st *stand) tick(d time.Duration) {
	st.clock.advance(d)
	st.keeper.tick(st.keeper.snapshot(nil))
}

const handshakeRequest = "GET /ws HTTP/1.1\r\nHost: cairn\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

// peer is a client that speaks bytes.
type peer struct {
	t testing.TB
	net.Conn
	in *bufio.Reader
}

func dial(t testing.TB, address, request string, more ...byte) *peer {
	t.Helper()
	c, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	_, err = c.Write(append([]byte(request), more...))
	require.NoError(t, err)
	return &peer{t: t, Conn: c, in: bufio.NewReader(c)}
}

// handler collects what a stream calls.
type handler struct {
	messages chan string
	closed   chan code.Close
}

func collect() (*handler, Handler) {
	h := &handler{messages: make(chan string, 64), closed: make(chan code.Close, 2)}
	return h, Handler{
		Message: func(text []byte) { h.messages <- string(text) },
		Closed:  func(c code.Close) { h.closed <- c },
	}
}

// webSocket opens a stream by hand and runs it.
func (st *stand) webSocket(t testing.TB, more ...byte) (*peer, *Stream, *handler) {
	t.Helper()
	p, s := st.webSocketUnread(t, more...)
	h, on := collect()
	s.Run(on)
	return p, s, h
}

// webSocketUnread opens a stream by hand that is not run yet.
func (st *stand) webSocketUnread(t testing.TB, more ...byte) (*peer, *Stream) {
	t.Helper()
	p := dial(t, st.address, handshakeRequest, more...)
	answer, err := http.ReadResponse(p.in, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, answer.StatusCode)
	require.Equal(t, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", answer.Header.Get("Sec-WebSocket-Accept"))
	s := receive(t, st.streams)
	narrow(t, s, p)
	return p, s
}

// narrow makes the socket buffers between s and p small, so that little is enough to fill them.
func narrow(t testing.TB, s *Stream, p *peer) {
	t.Helper()
	const size = 64 << 10
	require.NoError(t, s.conn.(*net.TCPConn).SetWriteBuffer(size))
	require.NoError(t, p.Conn.(*net.TCPConn).SetReadBuffer(size))
}

// hugeFrame is more than the socket buffers of both ends take.
const hugeFrame = 3 << 20

// sse opens an event stream by hand and runs it.
func (st *stand) sse(t testing.TB) (*http.Response, *peer, *Stream, *handler) {
	t.Helper()
	p := dial(t, st.address, "GET /sse HTTP/1.1\r\nHost: cairn\r\n\r\n")
	answer, err := http.ReadResponse(p.in, nil)
	require.NoError(t, err)
	s := receive(t, st.streams)
	narrow(t, s, p)
	h, on := collect()
	s.Run(on)
	return answer, p, s, h
}

func (p *peer) send(b []byte) {
	p.t.Helper()
	_, err := p.Write(b)
	require.NoError(p.t, err)
}

// frame reads one frame of the server, which must be whole, unmasked and without reserved bits.
func (p *peer) frame() ws.Frame {
	p.t.Helper()
	f, err := ws.ReadFrame(p.in)
	require.NoError(p.t, err)
	require.False(p.t, f.Header.Masked, "RFC 6455 5.1: a server does not mask")
	require.True(p.t, f.Header.Fin)
	require.Zero(p.t, f.Header.Rsv)
	return f
}

func (p *peer) text() string {
	p.t.Helper()
	f := p.frame()
	require.Equal(p.t, ws.OpText, f.Header.OpCode)
	return string(f.Payload)
}

// closing reads a close frame and answers its code, 0 for none.
func (p *peer) closing() (code.Close, string) {
	p.t.Helper()
	f := p.frame()
	require.Equal(p.t, ws.OpClose, f.Header.OpCode, "%q", f.Payload)
	if len(f.Payload) == 0 {
		return 0, ""
	}
	status, reason := ws.ParseCloseFrameData(f.Payload)
	return code.Close(status), reason
}

// end requires that the server ends the connection and sends nothing more.
func (p *peer) end() {
	p.t.Helper()
	rest, err := io.ReadAll(p.in)
	require.NoError(p.t, err)
	require.Empty(p.t, rest)
}

func receive[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(patience):
		require.FailNow(t, "nothing came")
		panic("unreachable")
	}
}

func eventually(t testing.TB, condition func() bool, why string) {
	t.Helper()
	require.Eventually(t, condition, patience, time.Millisecond, why)
}

// masked is a client's frame.
func masked(op ws.OpCode, fin bool, payload string) []byte {
	f := ws.MaskFrameInPlaceWith(ws.NewFrame(op, fin, []byte(payload)), [4]byte{0x37, 0xfa, 0x21, 0x3d})
	return ws.MustCompileFrame(f)
}

// header is a client's frame header with any length, and no payload.
func header(first byte, length uint64) []byte {
	var b bytes.Buffer
	b.WriteByte(first)
	b.WriteByte(0xff)
	for shift := 56; shift >= 0; shift -= 8 {
		b.WriteByte(byte(length >> shift))
	}
	b.WriteString("\x01\x02\x03\x04")
	return b.Bytes()
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func block(names ...string) *Block {
	frames := make([]Frame, len(names))
	for i, name := range names {
		frames[i] = Frame{Name: name}
	}
	return NewBlock(frames...)
}

// sized is a block of one frame of about n bytes.
func sized(n, id int) *Block {
	return NewBlock(Frame{Name: "event", ID: int64(id), Object: fmt.Appendf(nil, `{"seq":%d,"p":%q}`, id, bytes.Repeat([]byte("x"), n))})
}
