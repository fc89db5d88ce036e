package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	"github.com/cairnsync/cairn/wire/code"
	wirews "github.com/cairnsync/cairn/wire/workspace"
)

func TestWorkspaceFrames(t *testing.T) {
	t.Parallel()
	const limit = 16_384
	f := newFleet(t, testkit.New(t, testkit.SQLite), 1, func(c *config.Config) { c.Sync.WSMaxFrameBytes = limit })
	sized := func(size int) string {
		const head, tail = `{"op":"heartbeat","d":{"last_seq":0,"ref":"`, `"}}`
		return head + strings.Repeat("r", size-len(head)-len(tail)) + tail
	}
	t.Run("ES-2.3 a frame of sync.ws_max_frame_bytes is served, also in pieces", func(t *testing.T) {
		s := connect(t, f.owner)
		s.text(sized(limit))
		s.expect(wirews.OpHeartbeatAck)
		inPieces(t, s, sized(limit), limit/3)
		s.expect(wirews.OpHeartbeatAck)
	})
	t.Run("ES-6.4 4002 one byte past it, also in pieces", func(t *testing.T) {
		s := connect(t, f.owner)
		s.text(sized(limit + 1))
		s.closed(code.CloseDecode)
		s = connect(t, f.owner)
		inPieces(t, s, sized(limit+1), limit/3)
		s.closed(code.CloseDecode)
	})
	bad := map[string]string{
		"deep JSON":                        `{"op":"heartbeat","d":` + strings.Repeat("[", 8_000) + strings.Repeat("]", 8_000) + "}",
		"deep JSON, unended":               strings.Repeat(`{"op":`, 2_700),
		"a repeated name":                  `{"op":"heartbeat","d":{"last_seq":1,"last_seq":2}}`,
		"invalid UTF-8":                    "{\"op\":\"heartbeat\",\"d\":{\"ref\":\"\xff\"}}",
		"an unknown field":                 `{"op":"heartbeat","d":{"x":1}}`,
		"null":                             `{"op":"focus","d":{"thread_ids":null}}`,
		"nothing":                          "",
		"an enormous number":               `{"op":"heartbeat","d":{"last_seq":` + strings.Repeat("9", 10_000) + `}}`,
		"two values":                       `{"op":"heartbeat"} {"op":"heartbeat"}`,
		"an op of 10 000 bytes, no string": `{"op":[` + strings.Repeat(" ", 10_000) + `]}`,
	}
	for name, text := range bad {
		t.Run("ES-6.4 4002 "+name, func(t *testing.T) {
			for _, s := range []*socket{dial(t, f.owner), connect(t, f.owner)} {
				s.text(text)
				s.closed(code.CloseDecode)
			}
		})
	}
	t.Run("ES-6.4 4002 a binary frame", func(t *testing.T) {
		s := connect(t, f.owner)
		require.NoError(t, s.ws.Write(t.Context(), websocket.MessageBinary, []byte(`{"op":"heartbeat"}`)))
		s.closed(code.CloseDecode)
	})
	t.Run("ES-6.4 4001 unknown ops, again and again, harm nobody else", func(t *testing.T) { f.unknownOps(t) })
}

// inPieces sends one message as several frames.
func inPieces(t *testing.T, s *socket, text string, size int) {
	t.Helper()
	w, err := s.ws.Writer(t.Context(), websocket.MessageText)
	require.NoError(t, err)
	for len(text) > 0 {
		n := min(size, len(text))
		if _, err := io.WriteString(w, text[:n]); err != nil {
			return // it was cut
		}
		text = text[n:]
	}
	_ = w.Close() // it may be cut by now
}

// unknownOps sends 100 000 ops that nobody knows, as many with each connection as the network takes at once: the first
// closes it.
func (f *fleet) unknownOps(t *testing.T) {
	good := connect(t, f.guest("good"))
	const connections, each = 200, 500
	flood := strings.Repeat(clientFrame(`{"op":"dance","d":{}}`), each)
	var all sync.WaitGroup
	lanes := make(chan struct{}, 16)
	for range connections {
		lanes <- struct{}{}
		all.Go(func() {
			defer func() { <-lanes }()
			conn, answer := upgrade(t, f.nodes[0].URL)
			defer conn.Close()
			_, _ = io.WriteString(conn, flood) // it may be cut in the middle
			require.Equal(t, code.CloseUnknownOp, closeCode(answer))
		})
	}
	all.Wait()
	said := f.owner.Say(t, f.thread(), "still here")
	require.Equal(t, said.ID, messageOf(t, good.await(workspace.TypeMessageCreated)).ID)
}

// clientFrame is a short text frame, masked with zeros.
func clientFrame(text string) string {
	return "\x81" + string([]byte{0x80 | byte(len(text))}) + "\x00\x00\x00\x00" + text
}

// upgrade opens a gateway connection by hand.
func upgrade(t *testing.T, base string) (net.Conn, *bufio.Reader) {
	t.Helper()
	host := strings.TrimPrefix(base, "http://")
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", host)
	require.NoError(t, err)
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", gatewayPath, host)
	require.NoError(t, err)
	reader := bufio.NewReaderSize(conn, 1024)
	answer, err := http.ReadResponse(reader, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, answer.StatusCode)
	return conn, reader
}

// closeCode reads frames up to the close, and answers its code, or 0 when the connection ends without one.
func closeCode(reader *bufio.Reader) code.Close {
	for {
		var head [2]byte
		if _, err := io.ReadFull(reader, head[:]); err != nil {
			return 0
		}
		size := int(head[1] & 0x7f)
		if size == 126 {
			var long [2]byte
			if _, err := io.ReadFull(reader, long[:]); err != nil {
				return 0
			}
			size = int(long[0])<<8 | int(long[1])
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(reader, body); err != nil {
			return 0
		}
		if head[0]&0x0f == 8 && size >= 2 {
			return code.Close(int(body[0])<<8 | int(body[1]))
		}
	}
}

func TestWorkspaceForeignCursors(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		f := newFleet(t, db, 1, nil)
		f.owner.Say(t, f.thread(), "hello")
		snapshot := servertest.Read[wirews.Snapshot](t, f.owner.Do(t, http.MethodGet, "/api/v1/sync/snapshot", nil), http.StatusOK)
		cases := []struct {
			name   string
			cursor int64
			epoch  string
			reason wirews.ResyncReason
		}{
			{"from the future", snapshot.HeadSeq + 1, snapshot.SyncEpoch, wirews.ResyncFuture},
			{"from the end of time", 1<<63 - 1, snapshot.SyncEpoch, wirews.ResyncFuture},
			{"from the future, without an epoch", snapshot.HeadSeq + 5, "", wirews.ResyncFuture},
			{"of another epoch", snapshot.HeadSeq, servertest.NewID(), wirews.ResyncEpoch},
		}
		for _, c := range cases {
			t.Run("ES-7.3 a cursor "+c.name, func(t *testing.T) {
				path := fmt.Sprintf("/api/v1/events?after=%d", c.cursor)
				if c.epoch != "" {
					path += "&epoch=" + c.epoch
				}
				problem := f.owner.Do(t, http.MethodGet, path, nil).Problem(t, http.StatusGone, "resync_required")
				require.Equal(t, string(c.reason), problem.Reason)
				s := dial(t, f.owner)
				in := s.identity(c.cursor)
				in.SyncEpoch = c.epoch
				s.send(wirews.OpIdentify, in)
				s.awaitReady()
				resync := bodyOf[wirews.Resync](s, s.expect(wirews.OpResyncRequired))
				require.Equal(t, c.reason, resync.Reason)
				require.Equal(t, snapshot.SyncEpoch, resync.SyncEpoch)
				live := f.owner.Do(t, http.MethodPut, "/api/v1/settings/x", map[string]json.RawMessage{"value": json.RawMessage("1")})
				require.Equal(t, http.StatusOK, live.Status)
				require.Greater(t, s.await(workspace.TypeSettingsUpdated).Seq, resync.HeadSeq, "live from head_seq, nothing before")
			})
		}
		t.Run("ES-7.4 a cursor below nothing", func(t *testing.T) {
			f.owner.Do(t, http.MethodGet, "/api/v1/events?after=-1&epoch="+snapshot.SyncEpoch, nil).Problem(t, http.StatusUnprocessableEntity, "validation_failed")
			s := dial(t, f.owner)
			s.identify(-1)
			s.closed(code.CloseDecode)
		})
	})
}
