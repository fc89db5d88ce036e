package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/identity/signin"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// client is a WebSocket client of one connection.
type client struct {
	t     testing.TB
	n     *node
	ws    *websocket.Conn
	hello wire.Hello
	ready wire.Ready
}

// caller is a person who asks by REST.
func caller(id string) signin.Caller {
	return signin.Caller{Caller: authz.Caller{Principal: id, Kind: wire.KindUser}}
}

// dial connects and reads hello.
func (n *node) dial() *client {
	n.w.t.Helper()
	ctx, cancel := context.WithTimeout(n.w.t.Context(), soon)
	defer cancel()
	transport := &http.Transport{}
	ws, _, err := websocket.Dial(ctx, strings.Replace(n.server.URL, "http", "ws", 1)+"/api/v1/gateway",
		&websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
	require.NoError(n.w.t, err)
	ws.SetReadLimit(4 << 20)
	n.w.t.Cleanup(func() { _ = ws.CloseNow() })
	c := &client{t: n.w.t, n: n, ws: ws}
	c.hello = body[wire.Hello](c, c.expect(wire.OpHello))
	return c
}

// connect identifies, with a cursor where there is one.
func (n *node) connect(d device, cursor ...int64) *client {
	n.w.t.Helper()
	c := n.dial()
	c.identify(d, cursor...)
	c.ready = body[wire.Ready](c, c.expect(wire.OpReady))
	return c
}

func (c *client) identify(d device, cursor ...int64) {
	c.t.Helper()
	in := wire.Identify{
		AccessToken: d.token(c.n.clock.now().Add(time.Hour)), DPoP: c.hello.DPoPNonce, DeviceID: d.id, ProtocolVersion: 1,
		Client: &wire.ClientInfo{Platform: "test", Version: "1"},
	}
	for _, at := range cursor {
		in.Cursor, in.SyncEpoch = &at, c.hello.SyncEpoch
	}
	c.send(wire.OpIdentify, in)
}

// resume goes on with a gateway session.
func (n *node) resume(d device, session string, cursor int64) *client {
	n.w.t.Helper()
	c := n.dial()
	c.sendResume(d, session, cursor)
	return c
}

func (c *client) sendResume(d device, session string, cursor int64) {
	c.t.Helper()
	c.send(wire.OpResume, wire.Resume{
		GatewaySessionID: session, AccessToken: d.token(c.n.clock.now().Add(time.Hour)), DPoP: c.hello.DPoPNonce, Cursor: cursor, SyncEpoch: c.hello.SyncEpoch,
	})
}

func (c *client) send(op string, d any) {
	c.t.Helper()
	text, err := json.Marshal(map[string]any{"op": op, "d": d})
	require.NoError(c.t, err)
	c.raw(websocket.MessageText, string(text))
}

func (c *client) raw(kind websocket.MessageType, text string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), soon)
	defer cancel()
	require.NoError(c.t, c.ws.Write(ctx, kind, []byte(text)))
}

// read reads one frame, or answers why none comes any more.
func (c *client) read() (wire.Frame, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), soon)
	defer cancel()
	_, text, err := c.ws.Read(ctx)
	if err != nil {
		return wire.Frame{}, err
	}
	var frame wire.Frame
	require.NoError(c.t, json.Unmarshal(text, &frame), "%s", text)
	require.NotContains(c.t, string(text), ":null", "no null on the wire")
	return frame, nil
}

// next reads one frame.
func (c *client) next() wire.Frame {
	c.t.Helper()
	frame, err := c.read()
	require.NoError(c.t, err)
	return frame
}

// expect reads one frame, which must be of an op.
func (c *client) expect(op string) wire.Frame {
	c.t.Helper()
	frame := c.next()
	require.Equal(c.t, op, frame.Op, "%s", frame.D)
	return frame
}

// event reads one frame, which must be an event of a type.
func (c *client) event(kind string) wire.Envelope {
	c.t.Helper()
	envelope := body[wire.Envelope](c, c.expect(wire.OpDispatch))
	require.Equal(c.t, kind, envelope.Type)
	return envelope
}

// closed reads until the connection ends and answers with which code.
func (c *client) closed() (code.Close, string) {
	c.t.Helper()
	for {
		if _, err := c.read(); err != nil {
			closing, ok := errors.AsType[websocket.CloseError](err)
			require.True(c.t, ok, "%v", err)
			return code.Close(closing.Code), closing.Reason
		}
	}
}

func (c *client) requireClosed(want code.Close) {
	c.t.Helper()
	got, reason := c.closed()
	require.Equal(c.t, want, got, reason)
}

// failed reads an error about an op.
func (c *client) failed(op string, want code.Code) wire.OpFailed {
	c.t.Helper()
	failed := body[wire.OpFailed](c, c.expect(wire.OpError))
	require.Equal(c.t, op, failed.Op)
	require.Equal(c.t, string(want), failed.Code, failed.Detail)
	return failed
}

// barrier proves that nothing else was sent: the next frame answers a heartbeat. Cursors do not count.
func (c *client) barrier() {
	c.t.Helper()
	c.send(wire.OpHeartbeat, wire.Heartbeat{Ref: "barrier"})
	for {
		frame := c.next()
		if frame.Op == wire.OpCursor {
			continue
		}
		require.Equal(c.t, wire.OpHeartbeatAck, frame.Op, "%s", frame.D)
		return
	}
}

func body[T any](c *client, frame wire.Frame) T {
	c.t.Helper()
	var value T
	require.NoError(c.t, json.Unmarshal(frame.D, &value))
	return value
}
