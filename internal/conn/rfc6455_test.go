package conn

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gobwas/ws"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/wire/code"
)

const testMaxMessage = 1000

// exchange is what a client sends after the handshake and what must come of it.
type exchange struct {
	name     string
	send     []byte
	messages []string
	pongs    []string   // answered before the close
	close    code.Close // of the server's close frame
	reported code.Close // to Handler.Closed; close if 0
}

func goodbye() []byte { return masked(ws.OpClose, true, "\x03\xe8") }

func exchanges() []exchange {
	const text, more, ping, pong, closing = ws.OpText, ws.OpContinuation, ws.OpPing, ws.OpPong, ws.OpClose
	unmasked := ws.MustCompileFrame(ws.NewTextFrame([]byte("hi")))
	long := strings.Repeat("é", testMaxMessage/2)
	return []exchange{
		{name: "5.2 a text message", send: join(masked(text, true, "hello"), goodbye()), messages: []string{"hello"}, close: 1000},
		{name: "5.2 an empty message", send: join(masked(text, true, ""), goodbye()), messages: []string{""}, close: 1000},
		{name: "5.2 a length of 16 bits", send: join(masked(text, true, long[:300]), goodbye()), messages: []string{long[:300]}, close: 1000},
		{name: "5.2 reserved bit 1", send: reserved(0x40), close: 1002},
		{name: "5.2 reserved bit 2", send: reserved(0x20), close: 1002},
		{name: "5.2 reserved bit 3", send: reserved(0x10), close: 1002},
		{name: "5.2 unknown data opcode", send: masked(0x3, true, ""), close: 1002},
		{name: "5.2 unknown control opcode", send: masked(0xb, true, ""), close: 1002},
		{name: "5.2 a length of 16 bits that fits 7", send: []byte("\x81\xfe\x00\x7d"), close: 1002},
		{name: "5.2 a length of 64 bits that fits 16", send: header(0x81, 0xffff), close: 1002},
		{name: "5.1 an unmasked frame", send: unmasked, close: 1002},
		{name: "5.6 a binary message", send: masked(ws.OpBinary, true, "x"), close: 1003},
		{name: "5.4 fragments", send: join(masked(text, false, "a"), masked(more, false, "b"), masked(more, false, ""), masked(more, true, "c"), goodbye()),
			messages: []string{"abc"}, close: 1000},
		{name: "5.4 control frames between fragments", send: join(masked(text, false, "a"), masked(ping, true, "p"), masked(pong, true, "q"), masked(more, true, "b"), goodbye()),
			messages: []string{"ab"}, pongs: []string{"p"}, close: 1000},
		{name: "5.4 a close between fragments", send: join(masked(text, false, "a"), goodbye()), close: 1000},
		{name: "5.4 a continuation of nothing", send: masked(more, true, "a"), close: 1002},
		{name: "5.4 a continuation after the last", send: join(masked(text, true, "a"), masked(more, true, "b")), messages: []string{"a"}, close: 1002},
		{name: "5.4 a message within a message", send: join(masked(text, false, "a"), masked(text, true, "b")), close: 1002},
		{name: "5.5 a fragmented ping", send: masked(ping, false, ""), close: 1002},
		{name: "5.5 a fragmented close", send: masked(closing, false, ""), close: 1002},
		{name: "5.5 a ping of 126 bytes", send: masked(ping, true, strings.Repeat("p", 126)), close: 1002},
		{name: "5.5 a close of 126 bytes", send: masked(closing, true, "\x03\xe8"+strings.Repeat("r", 124)), close: 1002},
		{name: "5.5.2 a ping", send: join(masked(ping, true, ""), goodbye()), pongs: []string{""}, close: 1000},
		{name: "5.5.2 a ping of 125 bytes", send: join(masked(ping, true, strings.Repeat("p", 125)), goodbye()), pongs: []string{strings.Repeat("p", 125)}, close: 1000},
		{name: "5.5.2 a ping of any bytes", send: join(masked(ping, true, "\xff\x00"), goodbye()), pongs: []string{"\xff\x00"}, close: 1000},
		{name: "5.5.3 a pong that nobody asked for", send: join(masked(pong, true, "x"), goodbye()), close: 1000},
		{name: "5.5.1 a close without a body", send: masked(closing, true, ""), close: 0, reported: 1000},
		{name: "5.5.1 half a code", send: masked(closing, true, "\x03"), close: 1002},
		{name: "5.5.1 a reason", send: masked(closing, true, "\x03\xe9off"), close: 1001},
		{name: "5.5.1 a reason that is not UTF-8", send: masked(closing, true, "\x03\xe8\xff"), close: 1007},
		{name: "5.5.1 frames after a close are ignored", send: join(goodbye(), masked(text, true, "late"), masked(ping, true, "late")), close: 1000},
		{name: "8.1 a character over two fragments", send: join(masked(text, false, "\xf0\x9f"), masked(more, true, "\x98\x80"), goodbye()), messages: []string{"😀"}, close: 1000},
		{name: "8.1 not UTF-8", send: masked(text, true, "\xff"), close: 1007},
		{name: "8.1 a surrogate", send: masked(text, true, "\xed\xa0\x80"), close: 1007},
		{name: "8.1 an overlong character", send: masked(text, true, "\xc0\xaf"), close: 1007},
		{name: "8.1 half a character at the end", send: masked(text, true, "ok\xe2\x82"), close: 1007},
		{name: "8.1 half a character at the end of the last fragment", send: join(masked(text, false, "\xe2"), masked(more, true, "\x82")), close: 1007},
		{name: "8.1 a fragment is refused before the last", send: masked(text, false, "\xe2\x28"), close: 1007},
		{name: "8.1 a frame is refused before its end", send: join(header(0x81, 70_000)[:0], []byte("\x81\xfe\x03\x00\x00\x00\x00\x00\xf4\x90")), close: 1007},
		{name: "SS-STR-5 the largest message", send: join(masked(text, true, long), goodbye()), messages: []string{long}, close: 1000},
		{name: "SS-STR-5 a message too large", send: header(0x81, 70_000), close: 1009},
		{name: "SS-STR-5 one byte too large", send: masked(text, true, long+"x")[:8], close: 1009},
		{name: "SS-STR-5 fragments too large together", send: join(masked(text, false, long), masked(more, true, "x")), close: 1009},
		{name: "SS-STR-5 a length of 2^63", send: header(0x81, 1<<63), close: 1009},
		{name: "SS-STR-5 a length of 2^64-1", send: header(0x81, 1<<64-1), close: 1009},
		{name: "SS-STR-5 a fragment of 2^63-1 after another", send: join(masked(text, false, "a"), header(0x80, 1<<63-1)), close: 1009},
	}
}

func reserved(bit byte) []byte {
	frame := masked(ws.OpText, true, "x")
	frame[0] |= bit
	return frame
}

func TestRFC6455(t *testing.T) {
	t.Parallel()
	for _, x := range exchanges() {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			st := newStand(t, Limits{MaxMessage: testMaxMessage}, nil)
			for _, pieces := range []int{1, len(x.send)} {
				p, _, h := st.webSocket(t)
				x.play(t, p, h, pieces)
			}
			p, _, h := st.webSocket(t, x.send...) // with the handshake: already buffered by net/http
			x.play(t, p, h, 0)
		})
	}
}

// play sends the bytes in so many pieces and requires what must come of them.
func (x exchange) play(t *testing.T, p *peer, h *handler, pieces int) {
	t.Helper()
	for i := range pieces {
		if _, err := p.Write(x.send[i*len(x.send)/pieces : (i+1)*len(x.send)/pieces]); err != nil {
			break // the server has closed before the last piece
		}
	}
	for _, want := range x.pongs {
		f := p.frame()
		require.Equal(t, ws.OpPong, f.Header.OpCode)
		require.Equal(t, want, string(f.Payload))
	}
	got, reason := p.closing()
	require.Equal(t, x.close, got, reason)
	require.NoError(t, p.Close())
	want := x.reported
	if want == 0 {
		want = x.close
	}
	require.Equal(t, want, receive(t, h.closed))
	for _, want := range x.messages {
		require.Equal(t, want, receive(t, h.messages))
	}
	require.Empty(t, h.messages)
}

func TestCloseCodes(t *testing.T) {
	t.Parallel()
	st := newStand(t, Limits{}, nil)
	valid := map[int]bool{}
	for _, c := range []int{1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999} {
		valid[c] = true
	}
	for _, c := range []int{0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535} {
		valid[c] = false
	}
	for c, ok := range valid {
		p, _, h := st.webSocket(t)
		p.send(masked(ws.OpClose, true, string([]byte{byte(c >> 8), byte(c)})))
		got, _ := p.closing()
		if ok {
			require.Equal(t, code.Close(c), got, "7.4: %d is echoed", c)
			p.end()
		} else {
			require.Equal(t, code.CloseProtocol, got, "7.4: %d may not be sent", c)
		}
		require.NoError(t, p.Close())
		require.Equal(t, got, receive(t, h.closed))
	}
}

func TestConnectionThatVanishes(t *testing.T) {
	t.Parallel()
	for name, send := range map[string][]byte{
		"between frames":       nil,
		"within a header":      {0x81},
		"within a mask":        {0x81, 0x85, 1},
		"within a payload":     masked(ws.OpText, true, "hello")[:8],
		"between fragments":    masked(ws.OpText, false, "hello"),
		"within a close frame": goodbye()[:5],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := newStand(t, Limits{}, nil)
			p, s, h := st.webSocket(t)
			p.send(send)
			require.NoError(t, p.Close())
			require.Equal(t, Lost, receive(t, h.closed))
			require.True(t, s.Closed())
			require.Empty(t, h.messages)
		})
	}
}

func TestHandshake(t *testing.T) {
	t.Parallel()
	st := newStand(t, Limits{}, nil)
	cases := []struct {
		name, old, new string
		status         int
		header, value  string
	}{
		{"4.2.1 another method", "GET ", "POST ", 405, "Allow", "GET"},
		{"4.2.1 HTTP/1.0", "HTTP/1.1", "HTTP/1.0", 400, "", ""},
		{"4.2.1 an empty host", "Host: cairn", "Host:", 400, "", ""},
		{"4.2.1 no upgrade", "Upgrade: websocket\r\n", "", 426, "Upgrade", "websocket"},
		{"4.2.1 another upgrade", "Upgrade: websocket", "Upgrade: h2c", 426, "Upgrade", "websocket"},
		{"4.2.1 no connection", "Connection: Upgrade\r\n", "", 426, "Upgrade", "websocket"},
		{"4.2.1 another connection", "Connection: Upgrade", "Connection: keep-alive", 426, "Upgrade", "websocket"},
		{"4.2.1 no key", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", "", 400, "", ""},
		{"4.2.1 a short key", "dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub24=", 400, "", ""},
		{"4.2.1 a key that is no base64", "dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25j!Q==", 400, "", ""},
		{"4.2.1 two keys", "\r\n\r\n", "\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", 400, "", ""},
		{"4.2.2 no version", "Sec-WebSocket-Version: 13\r\n", "", 426, "Sec-WebSocket-Version", "13"},
		{"4.2.2 another version", "Version: 13", "Version: 8", 426, "Sec-WebSocket-Version", "13"},
		{"4.2.1 a list of upgrades", "Upgrade: websocket", "Upgrade: h2c, WebSocket", 101, "Upgrade", "websocket"},
		{"4.2.1 a list of connections", "Connection: Upgrade", "Connection: keep-alive, upgrade", 101, "Connection", "Upgrade"},
		{"4.2.2 no extension is answered", "\r\n\r\n", "\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n", 101, "Sec-WebSocket-Extensions", ""},
		{"4.2.2 no subprotocol unasked", "\r\n\r\n", "\r\nSec-WebSocket-Protocol: other\r\n\r\n", 101, "Sec-WebSocket-Protocol", ""},
		{"SS-STR-6 the subprotocol is answered alone", "\r\n\r\n", "\r\nSec-WebSocket-Protocol: codai.bearer.k, codai.v1\r\n\r\n", 101, "Sec-WebSocket-Protocol", "codai.v1"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			request := strings.Replace(handshakeRequest, c.old, c.new, 1)
			require.NotEqual(t, handshakeRequest, request)
			p := dial(t, st.address, request)
			answer, err := http.ReadResponse(p.in, nil)
			require.NoError(t, err)
			require.Equal(t, c.status, answer.StatusCode)
			require.Equal(t, c.value, answer.Header.Get(c.header))
			if c.status == http.StatusSwitchingProtocols {
				receive(t, st.streams).Close(code.CloseNormal, "")
			}
		})
	}
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	t.Run("SS-STR-6 a refusal is an upgrade and a close", func(t *testing.T) {
		t.Parallel()
		st := newStand(t, Limits{}, nil)
		p := dial(t, st.address, strings.Replace(handshakeRequest, "/ws", "/refuse", 1))
		answer, err := http.ReadResponse(p.in, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusSwitchingProtocols, answer.StatusCode)
		require.NoError(t, receive(t, st.refused))
		c, reason := p.closing()
		require.Equal(t, code.CloseBadKey, c)
		require.Equal(t, "no such key", reason)
		p.send(masked(ws.OpClose, true, "\x11\x31"))
		p.end()
	})
	t.Run("a request that is no handshake is the caller's to answer", func(t *testing.T) {
		t.Parallel()
		st := newStand(t, Limits{}, nil)
		p := dial(t, st.address, "GET /refuse HTTP/1.1\r\nHost: cairn\r\n\r\n")
		var refusal *HandshakeError
		require.ErrorAs(t, receive(t, st.refused), &refusal)
		require.Equal(t, http.StatusUpgradeRequired, refusal.Status)
		require.NoError(t, p.Close())
	})
}

func TestPingFlood(t *testing.T) {
	t.Parallel()
	st := newStand(t, Limits{}, nil)
	p, s, h := st.webSocket(t)
	s.Send(sized(hugeFrame, 1)) // fills the socket
	before := st.keeper.Stats().QueuedBytes
	require.NotZero(t, before)
	flood := strings.Repeat(string(masked(ws.OpPing, true, strings.Repeat("p", 125))), 1000)
	for range 100 {
		p.send([]byte(flood))
	}
	p.send(masked(ws.OpPing, true, "last"))
	p.send(masked(ws.OpText, true, "all read"))
	require.Equal(t, "all read", receive(t, h.messages))
	require.LessOrEqual(t, st.keeper.Stats().QueuedBytes, before+127, "one answer waits")
	require.Greater(t, len(p.text()), hugeFrame)
	f := p.frame()
	require.Equal(t, ws.OpPong, f.Header.OpCode)
	require.Equal(t, "last", string(f.Payload), "5.5.3: the newest is answered")
	p.send(goodbye())
	c, _ := p.closing()
	require.Equal(t, code.CloseNormal, c)
	p.end()
}

func TestHeaderThatNeverEnds(t *testing.T) {
	t.Parallel()
	st := newStand(t, Limits{PingEvery: 15e9, PongWithin: 30e9}, nil)
	p, s, h := st.webSocket(t)
	p.send([]byte{0x81, 0xff, 0, 0})
	s.Send(block("still"))
	require.Equal(t, `{"v":1,"t":"still"}`, p.text())
	require.Zero(t, st.keeper.Stats().InboundBytes, "a claim costs nothing")
	st.tick(1)
	st.tick(16e9)
	require.Equal(t, ws.OpPing, p.frame().Header.OpCode)
	st.tick(31e9) // it cannot answer within its header
	require.Equal(t, Lost, receive(t, h.closed))
}

func TestInboundBytesOfAllStreams(t *testing.T) {
	t.Parallel()
	st := newStand(t, Limits{InboundBytes: 3000}, nil)
	first, _, _ := st.webSocket(t)
	first.send(masked(ws.OpText, false, strings.Repeat("a", 2000)))
	eventually(t, func() bool { return st.keeper.Stats().InboundBytes >= 2000 }, "the fragment is counted")
	second, _, h := st.webSocket(t)
	second.send(masked(ws.OpText, false, strings.Repeat("b", 2000)))
	c, _ := second.closing()
	require.Equal(t, code.CloseTooSlow, c)
	require.NoError(t, second.Close())
	require.Equal(t, code.CloseTooSlow, receive(t, h.closed))
	first.send(join(masked(ws.OpContinuation, true, "end"), goodbye()))
	c, _ = first.closing()
	require.Equal(t, code.CloseNormal, c)
	require.Zero(t, st.keeper.Stats().InboundBytes)
}
