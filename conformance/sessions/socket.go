package sessions

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/conformance/rulebook"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// openWebSocket opens a socket that must be accepted, the key and device in headers.
func openWebSocket(u *caller, r *room, query string) *feed {
	return openSocket(u, r.path("/ws"+query), &websocket.DialOptions{HTTPHeader: u.header()})
}

func (u *caller) header() http.Header {
	header := http.Header{}
	u.dress(header)
	return header
}

func openSocket(u *caller, path string, options *websocket.DialOptions) *feed {
	f, ctx := newFeed(u.t, "WebSocket")
	connection, response, err := u.dial(ctx, path, options)
	if err != nil {
		close(f.frames)
		require.NoError(u.t, err, "GET %s → %s", path, refusalOf(response))
	}
	f.subproto = connection.Subprotocol()
	f.write = func(data []byte) error { return connection.Write(ctx, websocket.MessageText, data) }
	f.readSocket(ctx, connection)
	return f
}

func (u *caller) dial(ctx context.Context, path string, options *websocket.DialOptions) (*websocket.Conn, *http.Response, error) {
	options.HTTPClient = u.t.suite.client
	connection, response, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(u.t.suite.base, "http")+path, options)
	if err == nil {
		connection.SetReadLimit(-1)
	}
	return connection, response, err
}

func refusalOf(response *http.Response) string {
	if response == nil {
		return "no answer"
	}
	body, _ := io.ReadAll(response.Body)
	return response.Status + " " + rulebook.Shorten(string(body))
}

// readSocket starts the reader of a WebSocket.
func (f *feed) readSocket(ctx context.Context, connection *websocket.Conn) {
	go func() {
		defer close(f.frames)
		defer connection.CloseNow() //nolint:errcheck // it has ended
		for {
			_, data, err := connection.Read(ctx)
			if err != nil {
				f.end = ending{int(websocket.CloseStatus(err)), err}
				return
			}
			var head struct{ T string }
			if err := decode(data, &head); err != nil {
				head.T = "not json: " + err.Error()
			}
			select {
			case f.frames <- frame{name: head.T, data: data, at: time.Now()}:
			case <-ctx.Done():
			}
		}
	}()
}

// refusedSocket opens a socket that must be refused with an HTTP status.
func (u *caller) refusedSocket(path string) *answer {
	ctx, cancel := context.WithTimeout(u.t.Context(), patience)
	defer cancel()
	a := &answer{t: u.t, request: "GET " + path + " (WebSocket)"}
	connection, response, err := u.dial(ctx, path, &websocket.DialOptions{HTTPHeader: u.header()})
	if err == nil {
		connection.CloseNow() //nolint:errcheck // it should not be open
		a.failure = io.ErrNoProgress
		u.t.Errorf("%s was accepted", a.request)
		return a
	}
	if response == nil {
		a.failure = err
		return a
	}
	a.status, a.header = response.StatusCode, response.Header
	a.body, a.failure = io.ReadAll(response.Body)
	u.t.Remember(a.String())
	return a
}

// browser is how a browser opens a socket: everything in subprotocols, nothing in headers.
func (u *caller) browser(protocols ...string) *websocket.DialOptions {
	if len(protocols) == 0 {
		protocols = []string{
			wire.Subprotocol, wire.SubprotocolBearer + u.key, wire.SubprotocolDevice + u.device,
			wire.SubprotocolPlatform + string(wire.PlatformWeb),
		}
	}
	return &websocket.DialOptions{Subprotocols: protocols}
}

// refusedFrame checks an error frame (SS-STR-5) and answers its body.
func refusedFrame(t *trial, f frame, want code.Code) wire.ErrorBody {
	require.Equal(t, wire.FrameError, f.name, rulebook.Shorten(string(f.data)))
	require.JSONEq(t, `1`, string(member(t, f.data, "v")))
	body := requireError(t, member(t, f.data, "error"), rulebook.Shorten(string(f.data)))
	require.Equal(t, string(want), body.Code, rulebook.Shorten(string(f.data)))
	return body
}
