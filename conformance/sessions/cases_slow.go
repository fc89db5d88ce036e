package sessions

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/conformance/rulebook"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func slowConsumerCases() []testCase {
	return slices.Concat([]testCase{
		{rule: "SS-STR-7", name: "a consumer that does not read is cut and slows nobody", slow: true, run: caseSlowConsumer},
	},
		bothWays(testCase{rule: "SS-STR-7", name: "one large event reaches everybody"}, caseLargeEvent),
		bothWays(testCase{rule: "SS-STR-7", name: "a burst reaches a reader whole"}, caseBurst),
	)
}

// narrow is a client whose connection takes little: what the server sends stays in its own queue soon.
func narrow() (*http.Client, func()) {
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		connection, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if tcp, ok := connection.(*net.TCPConn); ok {
			_ = tcp.SetReadBuffer(128 << 10) // a hint; far less would only make the late reading slow
		}
		return connection, err
	}}
	return &http.Client{Transport: transport}, transport.CloseIdleConnections
}

// asleep is a stream whose connection is open and not read until wake.
type asleep struct {
	transport string
	wake      func() *feed
}

func (u *caller) sleepers(r *room, client *http.Client) []asleep {
	stream := u.requestSSE(u.t.Context(), r.path("/stream"), client)
	u.t.Cleanup(func() { stream.Body.Close() }) //nolint:errcheck // hangs up
	require.Equal(u.t, http.StatusOK, stream.StatusCode)
	socket, _, err := websocket.Dial(u.t.Context(), "ws"+strings.TrimPrefix(u.t.suite.base, "http")+r.path("/ws"),
		&websocket.DialOptions{HTTPHeader: u.header(), HTTPClient: client})
	require.NoError(u.t, err)
	socket.SetReadLimit(-1)
	u.t.Cleanup(func() { socket.CloseNow() }) //nolint:errcheck // hangs up
	return []asleep{
		{"SSE", func() *feed { f, ctx := newFeed(u.t, "SSE"); f.readSSE(ctx, stream.Body); return f }},
		{"WebSocket", func() *feed { f, ctx := newFeed(u.t, "WebSocket"); f.readSocket(ctx, socket); return f }},
	}
}

func caseSlowConsumer(t *trial) {
	r := t.room().executed()
	client, done := narrow()
	defer done()
	u := r.viewer()
	sleeping := u.sleepers(r, client)
	awake := openSSE(r.owner, r, "").live()
	const events, size = 40, 1 << 20
	text := strings.Repeat("a", size)
	for i := range events {
		r.claim(r.owner) // on a slow machine all of it outlasts a term
		sent := time.Now()
		r.append(r.owner, object{"kind": "big", "client_event_id": fmt.Sprint(i), "payload": object{"text": text}})
		require.EqualValues(t, i+1, awake.events(1)[0].Seq)
		require.Less(t, time.Since(sent), 20*time.Second, "nobody waits for the ones that sleep")
	}
	for _, sleeper := range sleeping {
		end, late := sleeper.wake().ended(2 * patience) // it was cut, and sees it once it reads again
		if end.code > 0 && sleeper.transport == "WebSocket" {
			require.Equal(t, int(code.CloseTooSlow), end.code)
		}
		seen := int64(0)
		for _, got := range late {
			if got.name == wire.FrameEvent {
				require.Equal(t, seen+1, eventOf(t, got).Seq, sleeper.transport)
				seen++
			}
		}
		require.Less(t, seen, int64(events), "%s: it was cut before the end", sleeper.transport)
		resumed := openSSE(u, r, fmt.Sprintf("?after=%d", seen))
		requireDense(t, seen+1, resumed.events(int(events-seen)))
	}
}

func caseLargeEvent(t *trial, o opener) {
	r := t.room().executed()
	live := o.open(r.viewer(), r, "").live()
	text := strings.Repeat("b", 8<<20)
	r.append(r.owner, object{"kind": "large", "payload": object{"text": text}}, event("after"))
	replayed := o.open(r.owner, r, "")
	for _, stream := range []*feed{live, replayed} {
		got := stream.events(2)
		requireDense(t, 1, got)
		require.Len(t, got[0].Payload, len(text)+len(`{"text":""}`))
	}
}

func caseBurst(t *trial, o opener) {
	r := t.room().executed()
	stream := o.open(r.viewer(), r, "").live()
	const writers = 10
	answers := rulebook.Concurrently(writers, func(int) *answer {
		return r.owner.post(r.path("/events"), object{"events": batch(wire.MaxBatch)})
	})
	require.Equal(t, map[int]int{200: writers}, statuses(answers))
	seen := int64(0)
	for seen < writers*wire.MaxBatch {
		got, ok := stream.take(patience)
		if !ok { // cut as one that fell behind: it resumes where it was
			stream.ended(patience)
			stream = o.open(r.viewer(), r, fmt.Sprintf("?after=%d", seen))
			continue
		}
		if got.name == wire.FrameEvent {
			require.Equal(t, seen+1, eventOf(t, got).Seq)
			seen++
		}
	}
}
