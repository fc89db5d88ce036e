package server_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
	wirews "github.com/cairnsync/cairn/wire/workspace"
)

func TestWorkspaceCrowdOfStrangers(t *testing.T) {
	t.Parallel()
	f := newFleet(t, testkit.New(t, testkit.SQLite), 1, func(c *config.Config) { c.Sync.IdentifyTimeout = 5 * time.Second })
	good := connect(t, f.guest("good"))
	const silent = 1000
	t.Run("ES-6.4 4003 to 1 000 sockets that never identify, with memory for each that is bounded", func(t *testing.T) {
		before := heap()
		codes := make(chan code.Close, silent)
		for range silent {
			conn, reader := upgrade(t, f.nodes[0].URL)
			go func() {
				defer conn.Close()
				codes <- closeCode(reader)
			}()
		}
		require.Less(t, heap()-before, int64(silent*64<<10), "KiB of both ends of a silent connection")
		f.owner.Say(t, f.thread(), "meanwhile")
		good.await(workspace.TypeMessageCreated)
		for range silent {
			require.Equal(t, code.CloseNotIdentified, <-codes)
		}
	})
	t.Run("ES-6.4 4003 an op before identify", func(t *testing.T) {
		s := dial(t, f.owner)
		s.send(wirews.OpHeartbeat, wirews.Heartbeat{})
		s.closed(code.CloseNotIdentified)
	})
	t.Run("ES-6.3.1 upgrades that come byte by byte hold nobody up, and are ended", func(t *testing.T) {
		slow := f.loris(t, 50)
		f.owner.Say(t, f.thread(), "meanwhile")
		good.await(workspace.TypeMessageCreated)
		connect(t, f.owner).acknowledged()
		for range 50 {
			require.NoError(t, <-slow)
		}
	})
}

// heap is what this process, with the server in it, holds.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapInuse + stats.StackInuse) //nolint:gosec // far below
}

// loris begins upgrades that never end, a byte at a time, and answers a channel that hears when the server ended each.
func (f *fleet) loris(t *testing.T, many int) <-chan error {
	t.Helper()
	ended := make(chan error, many)
	host := strings.TrimPrefix(f.nodes[0].URL, "http://")
	for range many {
		var dialer net.Dialer
		conn, err := dialer.DialContext(t.Context(), "tcp", host)
		require.NoError(t, err)
		go func() {
			defer conn.Close()
			ended <- drip(conn, "GET "+gatewayPath+" HTTP/1.1\r\nHost: "+host+"\r\nX-Slow: ")
		}()
	}
	return ended
}

// drip writes a byte at a time until the other end has had enough.
func drip(conn net.Conn, head string) error {
	deadline := time.Now().Add(2 * patience)
	if _, err := io.WriteString(conn, head); err != nil {
		return nil //nolint:nilerr // it was ended
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, conn)
	}()
	beat := time.NewTicker(200 * time.Millisecond)
	defer beat.Stop()
	for time.Now().Before(deadline) {
		select {
		case <-gone:
			return nil
		case <-beat.C:
			if _, err := conn.Write([]byte{'x'}); err != nil {
				return nil //nolint:nilerr // it was ended
			}
		}
	}
	return context.DeadlineExceeded
}

func TestWorkspaceSlowReader(t *testing.T) {
	t.Parallel()
	f := newFleet(t, testkit.New(t, testkit.SQLite), 1, func(c *config.Config) {
		c.Sync.OutboundQueueMax = 64
		c.Sync.HeartbeatInterval = 10 * time.Minute // nobody here sends any, however long it takes
	})
	guest, other := f.guest("slow"), f.guest("good")
	slow, good := connect(t, guest), connect(t, other)
	slow.pause()
	var last wirews.Message
	t.Run("ES-6.4 4014 a client that does not read harms nobody else", func(t *testing.T) {
		text := strings.Repeat("a slow reader ", 1_000)
		for i := 0; i%10 != 0 || !f.cutOne(t); i++ {
			require.Less(t, i, 4000, "it was never cut")
			last = f.owner.Say(t, f.thread(), text)
			require.Equal(t, last.ID, messageOf(t, good.await(workspace.TypeMessageCreated)).ID)
		}
	})
	t.Run("ES-6.4 it catches up from its cursor", func(t *testing.T) {
		slow.proceed()
		at := slow.ready.HeadSeq
		for _, event := range slow.closed(code.CloseSlowConsumer) {
			require.Equal(t, at+1, event.Seq)
			at = event.Seq
		}
		require.Less(t, at, good.seq, "it was cut")
		again := slow.resume(guest, at)
		again.expect(wirews.OpResumed)
		for {
			event := again.await(workspace.TypeMessageCreated)
			require.Equal(t, at+1, event.Seq)
			if at = event.Seq; messageOf(t, event).ID == last.ID {
				return
			}
		}
	})
}

// brief keeps no connection open.
var brief = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}

// cutOne reports whether the server gave a connection up for slowness.
func (f *fleet) cutOne(t *testing.T) bool {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.nodes[0].URL+"/metrics", nil)
	require.NoError(t, err)
	answer, err := brief.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return strings.Contains(string(text), `cairn_streams_cut_total{kind="websocket"} 1`)
}
