package gateway_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/gateway"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Each close code by its cause (ES-6.4), on real connections.
func TestCloseCodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.New(t, testkit.SQLite))
	n := w.node(func(o *gateway.Options) { o.Limits.MaxFrameBytes = 64 << 10 })
	anna := w.person("anna")
	d := w.device(anna)
	identify := func(change func(in *wire.Identify)) func(c *client) {
		return func(c *client) {
			in := wire.Identify{AccessToken: d.token(time.Now().Add(time.Hour)), DPoP: c.hello.DPoPNonce, DeviceID: d.id, ProtocolVersion: 1}
			change(&in)
			c.send(wire.OpIdentify, in)
		}
	}
	failing := func(name string, err error) func(c *client) {
		n.auth.fail(name, err)
		return identify(func(in *wire.Identify) { in.AccessToken = name })
	}
	text := func(frame string) func(c *client) {
		return func(c *client) { c.raw(websocket.MessageText, frame) }
	}
	open := func(c *client) {
		c.identify(w.device(anna))
		c.expect(wire.OpReady)
	}
	cases := []struct {
		name string
		want code.Close
		play []func(c *client)
	}{
		{"4001 an op nobody knows", code.CloseUnknownOp, []func(c *client){open, text(`{"op":"dance"}`)}},
		{"4001 an op nobody knows before identify", code.CloseUnknownOp, []func(c *client){text(`{"op":"dance"}`)}},
		{"4002 no JSON", code.CloseDecode, []func(c *client){text(`hello`)}},
		{"4002 a repeated key", code.CloseDecode, []func(c *client){open, text(`{"op":"heartbeat","op":"heartbeat"}`)}},
		{"4002 an unknown field", code.CloseDecode, []func(c *client){open, text(`{"op":"heartbeat","d":{"x":1}}`)}},
		{"4002 null", code.CloseDecode, []func(c *client){open, text(`{"op":"heartbeat","d":{"ref":null}}`)}},
		{"4002 not UTF-8", code.CloseDecode, []func(c *client){text("\xff")}},
		{"4002 a binary frame", code.CloseDecode, []func(c *client){func(c *client) { c.raw(websocket.MessageBinary, `{"op":"heartbeat"}`) }}},
		{"4002 a frame over the limit", code.CloseDecode, []func(c *client){text(`{"op":"` + strings.Repeat("x", 65<<10) + `"}`)}},
		{"4003 an op before identify", code.CloseNotIdentified, []func(c *client){text(`{"op":"heartbeat"}`)}},
		{"4003 an op of agents before identify", code.CloseNotIdentified, []func(c *client){text(`{"op":"ack","d":{"seq":1}}`)}},
		{"4004 a bad token", code.CloseAuthentication, []func(c *client){identify(func(in *wire.Identify) { in.AccessToken = "x" })}},
		{"4004 no token", code.CloseAuthentication, []func(c *client){identify(func(in *wire.Identify) { in.AccessToken = "" })}},
		{"4004 a proof with another nonce", code.CloseAuthentication, []func(c *client){identify(func(in *wire.Identify) { in.DPoP = "x" })}},
		{"4004 the token of another device", code.CloseAuthentication, []func(c *client){identify(func(in *wire.Identify) { in.DeviceID = w.env.NewID() })}},
		{"4004 no device", code.CloseAuthentication, []func(c *client){identify(func(in *wire.Identify) { in.DeviceID = "" })}},
		{"4005 identify twice", code.CloseAlreadyIdentified, []func(c *client){open, identify(func(*wire.Identify) {})}},
		{"4005 resume after identify", code.CloseAlreadyIdentified, []func(c *client){open, func(c *client) { c.sendResume(d, w.env.NewID(), 0) }}},
		{"4006 resume what never was", code.CloseSessionInvalid, []func(c *client){func(c *client) { c.sendResume(d, w.env.NewID(), 0) }}},
		{"4006 resume what has no id", code.CloseSessionInvalid, []func(c *client){func(c *client) { c.sendResume(d, "x", 0) }}},
		{"4007 another protocol version", code.CloseProtocolVersion, []func(c *client){identify(func(in *wire.Identify) { in.ProtocolVersion = 9 })}},
		{"4011 an expired token", code.CloseTokenExpired, []func(c *client){identify(func(in *wire.Identify) { in.AccessToken = d.token(time.Now()) })}},
		{"4000 identity cannot answer", code.CloseUnknownError, []func(c *client){failing("down", fault.New(code.Unavailable, "No."))}},
		{"4016 a device that waits for approval", code.CloseDevicePending, []func(c *client){failing("pending", fault.New(code.DevicePending, "No."))}},
		{"4018 a scope is missing", code.CloseForbidden, []func(c *client){identify(func(in *wire.Identify) {
			in.AccessToken, in.DeviceID, in.APIToken = "", "", anna+"/message.read"
		})}},
	}
	for _, c := range cases {
		t.Run("ES-6.4 "+c.name, func(t *testing.T) {
			t.Parallel()
			client := n.dial()
			client.t = t
			for _, step := range c.play {
				step(client)
			}
			client.requireClosed(c.want)
		})
	}
	t.Run("ES-6.4 4012 a principal that is not active", func(t *testing.T) {
		t.Parallel()
		berta := w.person("berta")
		w.exec(`UPDATE principals SET status = 'disabled' WHERE id = $1`, berta)
		c := n.dial()
		c.identify(w.device(berta))
		c.requireClosed(code.CloseRevoked)
	})
	t.Run("ES-6.2 an op that is not served leaves the connection", func(t *testing.T) {
		t.Parallel()
		c := n.connect(w.device(anna))
		for _, op := range []string{"ack", "run.update", "command.autocomplete_result", "stats.subscribe", "stats.unsubscribe"} {
			c.send(op, map[string]any{"ref": "r-" + op, "seq": 3})
			require.Equal(t, "r-"+op, c.failed(op, code.UnknownOp).Ref)
		}
		c.barrier()
	})
}

func TestCloseCodesOfTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.New(t, testkit.SQLite))
	n := w.node(fast)
	anna := w.person("anna")
	t.Run("ES-6.4 4003 no identify in time", func(t *testing.T) {
		t.Parallel()
		n.dial().requireClosed(code.CloseNotIdentified)
	})
	t.Run("ES-6.4 4009 heartbeats are missing", func(t *testing.T) {
		t.Parallel()
		began := time.Now()
		n.connect(w.device(anna)).requireClosed(code.CloseHeartbeat)
		require.GreaterOrEqual(t, time.Since(began), time.Second)
	})
	t.Run("ES-6.3.5 heartbeats keep a connection", func(t *testing.T) {
		t.Parallel()
		c := n.connect(w.device(anna))
		for began := time.Now(); time.Since(began) < 2*time.Second; {
			c.barrier()
		}
	})
}

func TestConnectionLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.New(t, testkit.SQLite))
	n := w.node(func(o *gateway.Options) {
		o.Connecting = func(principal, device string) time.Duration {
			require.NotEmpty(t, principal)
			require.NotEmpty(t, device)
			return 1500 * time.Millisecond
		}
	})
	c := n.dial()
	c.identify(w.device(w.person("anna")))
	got, reason := c.closed()
	require.Equal(t, code.CloseRateLimited, got, "ES-6.3.1")
	require.Equal(t, "2", reason, "WS-4 the seconds are in the reason")
}

func TestOrigin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.New(t, testkit.SQLite))
	n := w.node(func(o *gateway.Options) { o.Origin = func(*http.Request) bool { return false } })
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	_, answer, err := websocket.Dial(ctx, strings.Replace(n.server.URL, "http", "ws", 1), nil)
	require.Error(t, err)
	require.Equal(t, http.StatusForbidden, answer.StatusCode, "ES-6.3.1 at the upgrade only the origin is checked")
}

func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.New(t, testkit.SQLite))
	n := w.node()
	d := w.device(w.person("anna"))
	c := n.dial()
	n.db.down.Store(true)
	c.identify(d)
	c.requireClosed(code.CloseUnknownError)
	n.db.down.Store(false)
	n.connect(d).barrier()
}
