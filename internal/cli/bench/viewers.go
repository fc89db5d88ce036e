package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairnsync/cairn/internal/env"
)

// transport is how a viewer follows.
type transport string

const (
	byWebSocket transport = "ws"
	bySSE       transport = "stream"
)

// viewers are connections that count the events they receive.
type viewers struct {
	all    []*viewer
	events atomic.Int64 // received by all
	ended  atomic.Int64 // connections that ended
	done   sync.WaitGroup
	// Of the gateway: sessions that are ready, those that caught up, and the size of the newest event.
	ready, caughtUp, frameSize atomic.Int64
}

// viewer is one connection, by raw socket: only frame headers are looked at.
type viewer struct {
	conn   net.Conn
	events atomic.Int64
	// delays are from an event's ts, in microseconds, to its arrival; only kept when timed.
	timed  *env.Env // nil for no delays
	delays []time.Duration
	early  []byte // came with the answer's head
	// gateway says that frames are the Workspace's.
	gateway bool
	seat    *seat // of the gateway, to be told about its session
}

// target says where viewers connect.
type target struct {
	host, path, key string
	transport       transport
	receiveBuffer   int      // bytes, 0 for the system's
	timed           *env.Env // keeps delays by this clock
}

func (s *site) target(session string, by transport, after int64) target {
	return target{
		host: strings.TrimPrefix(s.hello, "http://"), key: s.key, transport: by,
		path: "/v1/sessions/" + session + "/" + string(by) + "?after=" + strconv.FormatInt(after, 10),
	}
}

// connecting bounds the handshakes under way, as a listener's backlog would.
const connecting = 256

// connect opens a viewer for every device; they read until their connection ends.
func connect(ctx context.Context, at target, devices []string) (*viewers, error) {
	return connectEach(ctx, at.transport, len(devices), func(ctx context.Context, i int) (*viewer, error) {
		return at.dial(ctx, devices[i])
	})
}

// connectEach opens n viewers.
func connectEach(ctx context.Context, by transport, n int, dial func(ctx context.Context, i int) (*viewer, error)) (*viewers, error) {
	v := &viewers{}
	if err := v.admit(ctx, by, n, dial); err != nil {
		v.close()
		return nil, err
	}
	return v, nil
}

// admit opens n more viewers.
func (v *viewers) admit(ctx context.Context, by transport, n int, dial func(ctx context.Context, i int) (*viewer, error)) error {
	more := make([]*viewer, n)
	var (
		failures = make([]error, n)
		dialing  sync.WaitGroup
		slots    = make(chan struct{}, connecting)
	)
	for i := range n {
		slots <- struct{}{}
		dialing.Go(func() {
			defer func() { <-slots }()
			more[i], failures[i] = dial(ctx, i)
			if failures[i] == nil {
				v.done.Go(func() { v.follow(more[i], by) })
			}
		})
	}
	dialing.Wait()
	v.all = append(v.all, more...)
	return errors.Join(failures...)
}

func devices(e *env.Env, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = e.RandomID()
	}
	return ids
}

func (v *viewers) close() {
	for _, one := range v.all {
		if one != nil {
			_ = one.conn.Close() // it may have ended by itself
		}
	}
	v.done.Wait()
}

// dial opens one connection and reads the head of the answer.
func (at target) dial(ctx context.Context, device string) (*viewer, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", at.host)
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok && at.receiveBuffer > 0 {
		if err := tcp.SetReadBuffer(at.receiveBuffer); err != nil {
			return nil, err
		}
	}
	request := "GET " + at.path + " HTTP/1.1\r\nHost: " + at.host + "\r\nAuthorization: Bearer " + at.key + "\r\nX-Codai-Device: " + device + "\r\n"
	if at.transport == byWebSocket {
		request += "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
	}
	if _, err := io.WriteString(conn, request+"\r\n"); err != nil {
		return nil, fmt.Errorf("ask for a stream: %w", err)
	}
	one := &viewer{conn: conn, timed: at.timed}
	return one, one.readHead()
}

func (one *viewer) readHead() error {
	buffer := make([]byte, 0, 4096)
	for {
		n, err := one.conn.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		if head, rest, found := bytes.Cut(buffer, []byte("\r\n\r\n")); found {
			if !bytes.HasPrefix(head, []byte("HTTP/1.1 101")) && !bytes.HasPrefix(head, []byte("HTTP/1.1 200")) {
				return fmt.Errorf("ask for a stream: %s", buffer)
			}
			one.early = bytes.Clone(rest)
			return nil
		}
		if err != nil {
			return fmt.Errorf("ask for a stream: %w", err)
		}
	}
}

// readBuffer is what a viewer reads at once. The buffers are shared by idle viewers' absence: each
// viewer has its own only while it lives in this process, which is not the one measured.
const readBuffer = 32 << 10

func (v *viewers) follow(one *viewer, by transport) {
	defer v.ended.Add(1)
	buffer := make([]byte, readBuffer)
	scan := one.scanFrames
	switch {
	case by == bySSE:
		scan = one.scanEvents
	case one.gateway:
		scan = func(data []byte) (int, []byte) { return v.scanGateway(one, data) }
	}
	pending := append([]byte(nil), one.early...)
	for {
		events, rest := scan(pending)
		pending = append(pending[:0], rest...)
		if events > 0 {
			one.events.Add(int64(events))
			v.events.Add(int64(events))
		}
		n, err := one.conn.Read(buffer)
		if err != nil {
			return
		}
		pending = append(pending, buffer[:n]...)
	}
}

var eventMark = []byte(`"t":"event"`)

// scanFrames counts the event frames of unmasked WebSocket frames in data, and answers what is left.
func (one *viewer) scanFrames(data []byte) (events int, rest []byte) {
	for {
		size, head := frameSize(data)
		if head == 0 || len(data) < head+size {
			return events, data
		}
		frame := data[head : head+size]
		if bytes.Contains(frame[:min(len(frame), 64)], eventMark) {
			events++
			one.note(frame)
		}
		data = data[head+size:]
	}
}

// frameSize answers a frame's payload and head sizes; a head of 0 means that it is not there yet.
func frameSize(data []byte) (size, head int) {
	switch {
	case len(data) < 2:
		return 0, 0
	case data[1] < 126:
		return int(data[1]), 2
	case data[1] == 126 && len(data) >= 4:
		return int(binary.BigEndian.Uint16(data[2:])), 4
	case data[1] == 127 && len(data) >= 10:
		return int(binary.BigEndian.Uint64(data[2:])), 10
	default:
		return 0, 0
	}
}

var sseMark = []byte("event: event\n")

// scanEvents counts complete events of an event stream.
func (one *viewer) scanEvents(data []byte) (events int, rest []byte) {
	for {
		block, after, found := bytes.Cut(data, []byte("\n\n"))
		if !found {
			return events, data
		}
		if bytes.Contains(block, sseMark) {
			events++
			one.note(block)
		}
		data = after
	}
}

var tsMark = []byte(`"ts":`)

// note keeps how long the event took.
func (one *viewer) note(event []byte) {
	if one.timed == nil {
		return
	}
	now := one.timed.Now()
	_, rest, _ := bytes.Cut(event, tsMark)
	digits, _, _ := bytes.Cut(rest, []byte(","))
	sent, err := strconv.ParseInt(string(digits), 10, 64)
	if err == nil {
		one.delays = append(one.delays, now.Sub(time.UnixMicro(sent)))
	}
}
